/* The local backend: what boxd is asked for, and how a box starts, is lost, is adopted by a
 * successor, and ends. */
#include "tests/unit/lib/local_fixture.h"

#define ENDED "its first process has ended"
#define WHILE "the box ended while the command ran: "

static const struct box_plan_request *ask_for(struct box_spec spec)
{
	struct played played = {0};
	ASSERT(backend->ops->make(backend, "ws-1", &spec, on_made, &played) != NULL);
	ASSERT_INT(boxd.make_count, 1);
	struct asked_make *make = &boxd.makes[--boxd.make_count];
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, EIO, "not now");
	make->done(make->arg, 0, -1, -1, 0, &err);
	ASSERT(played.refused);
	turn();
	return &make->ask;
}

TEST(an_ask_says_what_the_spec_says)
{
	start();
	struct box_spec spec = spec_of("");
	spec.host_path = "/srv/x";
	spec.host_path_mode = BOX_MOUNT_RO;
	spec.network_on = true;
	struct box_egress egress = {.limited = 1, .host_port_count = 1, .host_ports = {80}};
	spec.egress = &egress;
	const struct box_plan_request *ask = ask_for(spec);
	ASSERT(box_egress_equal(&ask->egress, &egress));
	ASSERT_STR(ask->name, "ws-1");
	ASSERT_STR(ask->host_path, "/srv/x");
	ASSERT_STR(ask->mount_path, "/workspace");
	ASSERT_INT(ask->host_mode, BOX_PLAN_MOUNT_RO);
	ASSERT_INT(ask->network, 1);
	ASSERT_INT(ask->writable_root, 0);
	ASSERT_INT(ask->profile, BOX_FILTER_DEFAULT);
	ASSERT_INT(ask->memory_bytes, 512 * BOX_MIB);
	ASSERT_INT(ask->pids, 128);
	ASSERT_INT(ask->cpu_milli, 1000);
	spec.host_path_mode = BOX_MOUNT_RW;
	spec.network_on = false;
	spec.egress = NULL;
	spec.read_only_rootfs = false;
	ask = ask_for(spec);
	ASSERT_INT(ask->host_mode, BOX_PLAN_MOUNT_RW);
	ASSERT_INT(ask->network, 0);
	ASSERT_INT(ask->egress.limited, 0);
	ASSERT_INT(ask->writable_root, 1);
	finish();
}

TEST(a_host_folder_is_asked_for_only_when_it_is_mounted)
{
	start();
	struct box_spec spec = spec_of("");
	const struct box_plan_request *ask = ask_for(spec);
	ASSERT_INT(ask->host_mode, BOX_PLAN_MOUNT_NONE);
	ASSERT_STR(ask->host_path, "");
	spec.host_path = "/srv/x";
	spec.host_path_mode = BOX_MOUNT_NONE;
	ask = ask_for(spec);
	ASSERT_INT(ask->host_mode, BOX_PLAN_MOUNT_NONE);
	ASSERT_STR(ask->host_path, "");
	finish();
}

TEST(paths_are_normalised)
{
	static const struct {
		const char *path;
		const char *asked;
	} rows[] = {
		{"/", "/"},
		{"//", "/"},
		{"/a", "/a"},
		{"/a/", "/a"},
		{"//a///b//", "/a/b"},
		{"/a/./b/.", "/a/b"},
		{"/a/../b", "/b"},
		{"/a/b/..", "/a"},
		{"/a/..", "/"},
		{"/../../a", "/a"},
		{"/..a/...", "/..a/..."},
		{"/abc/../../..//.", "/"},
	};
	start();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_spec spec = spec_of("");
		spec.mount_path = rows[i].path;
		spec.host_path = rows[i].path;
		const struct box_plan_request *ask = ask_for(spec);
		ASSERT_STR(ask->mount_path, rows[i].asked);
		ASSERT_STR(ask->host_path, rows[i].asked);
	}
	finish();
}

TEST(numbers_too_big_for_boxd_are_the_biggest)
{
	static const struct {
		int64_t memory_mb;
		double cpus;
		uint64_t memory_bytes;
		uint64_t cpu_milli;
	} rows[] = {
		{1, 0.5, BOX_MIB, 500},
		{1, 0.0001, BOX_MIB, 1},
		{1, 1.0001, BOX_MIB, 1001},
		{17592186044414, 64, 17592186044414 * BOX_MIB, 64000},
		{17592186044415, 1e12, UINT64_MAX, 1000000000000000},
		{INT64_MAX, 1e300, UINT64_MAX, 1000000000000000},
	};
	start();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_spec spec = spec_of("");
		spec.memory_mb = rows[i].memory_mb;
		spec.cpus = rows[i].cpus;
		spec.pids_limit = INT64_MAX;
		const struct box_plan_request *ask = ask_for(spec);
		ASSERT(ask->memory_bytes == rows[i].memory_bytes);
		ASSERT(ask->cpu_milli == rows[i].cpu_milli);
		ASSERT(ask->pids == INT64_MAX);
	}
	finish();
}

TEST(a_path_too_long_is_refused_later_and_boxd_not_asked)
{
	static char path[BOX_PATH_MAX + 8];
	start();
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[BOX_PATH_MAX - 1] = '\0';
	struct box_spec spec = spec_of("");
	spec.mount_path = path;
	ASSERT_STR(ask_for(spec)->mount_path, path);
	path[BOX_PATH_MAX - 1] = 'a';
	path[BOX_PATH_MAX] = '\0';
	struct played played = {0};
	(void)backend->ops->make(backend, "b", &spec, on_made, &played);
	ASSERT_INT(played.made, 0);
	turn();
	ASSERT_INT(played.made, 1);
	ASSERT_INT(played.err.code, BOX_ERR_VALIDATION);
	ASSERT_INT(played.err.errnum, ENAMETOOLONG);
	ASSERT_STR(played.err.text, "mount_path is too long");
	spec.mount_path = "/w";
	spec.host_path = path;
	struct played other = {0};
	(void)backend->ops->make(backend, "b", &spec, on_made, &other);
	turn();
	ASSERT_STR(other.err.text, "host_path is too long");
	struct played nobody = {0};
	backend->ops->cancel(backend->ops->make(backend, "b", &spec, on_made, &nobody));
	turn();
	ASSERT_STR(nobody.err.text, "host_path is too long");
	ASSERT_INT(boxd.make_count, 0);
	finish();
}

TEST(a_refusal_of_boxd_is_passed_on)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("");
	struct box_err err;
	(void)backend->ops->make(backend, "b", &spec, on_made, &played);
	(void)box_err_set(&err, BOX_ERR_BACKEND_UNAVAILABLE, ENOSPC, "no room");
	ASSERT_INT(played.made, 0);
	boxd.makes[0].done(boxd.makes[0].arg, 0, -1, -1, 0, &err);
	ASSERT_INT(played.made, 1);
	ASSERT_INT(played.err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT_INT(played.err.errnum, ENOSPC);
	ASSERT_STR(played.err.text, "no room");
	ASSERT_INT(boxd.end_count, 0);
	finish();
}

TEST(a_box_made_for_nobody_is_ended)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("");
	backend->ops->cancel(backend->ops->make(backend, "b", &spec, on_made, &played));
	ASSERT_INT(boxd.end_count, 0);
	boxd_made(&played, 5);
	ASSERT_INT(boxd.end_count, 1);
	ASSERT_INT(boxd.ends[0], 5);
	turn();
	ASSERT_INT(played.made, 0);
	box_local_gone(local, 5);
	turn();
	ASSERT_INT(played.made, 1);
	ASSERT_INT(played.err.errnum, ECANCELED);
	ASSERT_STR(played.err.text, "the request for the box was cancelled");
	played_close(&played);
	finish();
}

TEST(a_cancelled_make_that_fails_is_over)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("");
	struct box_err err;
	backend->ops->cancel(backend->ops->make(backend, "b", &spec, on_made, &played));
	(void)box_err_set(&err, BOX_ERR_BOX, EIO, "broken");
	boxd.makes[0].done(boxd.makes[0].arg, 0, -1, -1, 0, &err);
	turn();
	ASSERT_INT(played.made, 1);
	ASSERT_STR(played.err.text, "broken");
	ASSERT_INT(boxd.end_count, 0);
	finish();
}

TEST(what_boxes_lack_is_said)
{
	static const char degrade[] = "limits cannot be set: no cgroup; local.degraded: true in "
				      "--config lets boxes run without";
	static const struct {
		struct box_local_support support;
		const char *missing;
		const char *missing_degraded;
		const char *shortcoming;
	} rows[] = {
		{{true, NULL, true, NULL}, NULL, NULL, NULL},
		{{true, NULL, false, "no cgroup"}, degrade, NULL, "no cgroup"},
		{{false, "no namespaces", true, NULL}, "no namespaces", "no namespaces", NULL},
		{{false, "none", false, "no cgroup"}, "none", "none", NULL},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_local *made = box_local_new(NULL, &rows[i].support, &boxd_ops, &boxd);
		struct box_backend *its = box_local_native_backend(made);
		ASSERT_STR(its->ops->name, "native");
		for (int degraded = 0; degraded < 2; degraded++) {
			const char *wanted = degraded ? rows[i].missing_degraded : rows[i].missing;
			const char *missing = box_local_missing(made);
			const char *shortcoming = box_local_degraded_reason(made);
			ASSERT_STR(missing ? missing : "nothing", wanted ? wanted : "nothing");
			ASSERT_INT(its->ops->available(its), wanted == NULL);
			wanted = degraded ? rows[i].shortcoming : NULL;
			ASSERT_STR(shortcoming ? shortcoming : "none", wanted ? wanted : "none");
			box_local_allow_degraded(made, true);
		}
		its->ops->free(its);
		box_local_free(made);
	}
}

/* --- the end of boxes --- */

TEST(a_box_is_destroyed_when_boxd_says_so)
{
	start();
	struct played played = {0};
	make_played(&played, 3);
	ASSERT_INT(backend->ops->mark(played.box), 3);
	backend->ops->destroy(played.box, on_destroyed, &played);
	ASSERT_INT(boxd.end_count, 1);
	ASSERT_INT(boxd.ends[0], 3);
	turn();
	box_local_gone(local, 4); /* another box's */
	turn();
	ASSERT_INT(played.destroyed, 0);
	box_local_gone(local, 3);
	ASSERT_INT(played.destroyed, 0);
	box_local_gone(local, 3);
	turn();
	ASSERT_INT(played.destroyed, 1);
	ASSERT_INT(played.lost, 0);
	box_local_gone(local, 3);
	played_close(&played);
	finish();
}

TEST(a_box_that_is_gone_need_not_be_ended)
{
	start();
	struct played played = {0};
	make_played(&played, 3);
	box_local_gone(local, 3);
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, ENDED);
	turn();
	backend->ops->destroy(played.box, NULL, NULL);
	ASSERT_INT(boxd.end_count, 0);
	turn();
	played_close(&played);
	finish();
}

TEST(the_end_of_init_ends_every_command_and_is_told_once)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran[3] = {{0}};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran[0]);
	begin_plain(&played, &spec, 2, &ran[1]);
	init_ends(&played);
	for (int i = 0; i < 2; i++) {
		expect_failed(&ran[i], BOX_ERR_BOX, EPIPE, WHILE ENDED);
	}
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, ENDED);
	/* A watcher that is set later is called then. */
	begin(&played, &spec, 1000, &ran[2]);
	turn();
	expect_failed(&ran[2], BOX_ERR_BOX, EPIPE, "the box has ended");
	struct ran cancelled = {0};
	begin(&played, &spec, 1000, &cancelled);
	backend->ops->cancel(cancelled.op);
	turn();
	ASSERT_INT(cancelled.calls, 0);
	end_played(&played, 3);
	ASSERT_INT(played.lost, 1);
	finish();
}

TEST(a_box_that_is_destroyed_while_it_works_waits_for_boxd)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran);
	backend->ops->cancel(ran.op);
	backend->ops->destroy(played.box, on_destroyed, &played);
	init_ends(&played);
	ASSERT_INT(played.destroyed, 0);
	box_local_gone(local, 3);
	turn();
	ASSERT_INT(played.destroyed, 1);
	ASSERT_INT(played.lost, 0); /* the end was requested */
	ASSERT_INT(ran.calls, 0);
	played_close(&played);
	finish();
}

/* --- a hostile init --- */

struct nonsense {
	const char *what;
	struct box_init_header header; /* size 0: the right one */
	const char *bytes;
	size_t size;
};

static const struct box_init_exit exit_256 = {.value = 256};
static const struct box_init_exit exit_unknown = {.end = BOX_INIT_END_MEMORY + 1};
static const struct box_init_exit exit_no_step = {.end = BOX_INIT_END_FAILED, .value = 1};

#define STRUCT(name) (const char *)&(name), sizeof(name)

static const struct nonsense nonsense[] = {
	{"too long by its own word", {.size = 100, .kind = BOX_INIT_STDOUT, .id = 1}, "x", 1},
	{"too short by its own word", {.size = 16, .kind = BOX_INIT_STDOUT, .id = 1}, "x", 1},
	{"reserved", {.kind = BOX_INIT_STDOUT, .id = 1, .reserved = 1}, "x", 1},
	{"an unknown kind", {.kind = BOX_INIT_BOX_ENDS + 1, .id = 1}, "", 0},
	{"kind 0", {.kind = 0, .id = 1}, "", 0},
	{"a request", {.kind = BOX_INIT_KILL, .id = 1}, "", 0},
	{"output of nobody", {.kind = BOX_INIT_STDOUT, .id = 0}, "x", 1},
	{"no output", {.kind = BOX_INIT_STDERR, .id = 1}, "", 0},
	{"a start with bytes", {.kind = BOX_INIT_STARTED, .id = 1}, "x", 1},
	{"a reset of a command", {.kind = BOX_INIT_RESET_DONE, .id = 1}, "", 0},
	{"half a number", {.kind = BOX_INIT_INPUT_TAKEN, .id = 1}, "1234", 4},
	{"half an exit", {.kind = BOX_INIT_EXIT, .id = 1}, "1234", 4},
	{"exit code 256", {.kind = BOX_INIT_EXIT, .id = 1}, STRUCT(exit_256)},
	{"an unknown end", {.kind = BOX_INIT_EXIT, .id = 1}, STRUCT(exit_unknown)},
	{"failed without a step", {.kind = BOX_INIT_EXIT, .id = 1}, STRUCT(exit_no_step)},
};

static void say_nonsense(struct played *played, const struct nonsense *row)
{
	char packet[256];
	struct box_init_header header = row->header;
	size_t size = sizeof(header) + row->size;
	header.size = header.size ? header.size : (uint32_t)size;
	memcpy(packet, &header, sizeof(header));
	put_bytes(packet + sizeof(header), row->bytes, row->size);
	say_raw(played, packet, size);
}

static void expect_broken(struct played *played, struct ran *ran, const char *what)
{
	if (played->lost != 1 || strcmp(played->why, "it broke the protocol") != 0) {
		TEST_FAIL("%s: lost %d times: %s", what, played->lost, played->why);
	}
	expect_failed(ran, BOX_ERR_BOX, EPIPE, WHILE "it broke the protocol");
}

/* box-vmm's last packet: waiting callers get its text. */
TEST(last_words_are_passed_on)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("sleep");
	struct ran ran = {0};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran);
	say_text(&played, BOX_INIT_BOX_ENDS, 0, "its kernel panicked");
	expect_failed(&ran, BOX_ERR_BOX, EPIPE,
		"the box ended while the command ran: its kernel panicked");
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, "its kernel panicked");
	end_played(&played, 3);
	finish();
}

TEST(a_box_that_breaks_the_protocol_is_given_up)
{
	start();
	for (uint64_t i = 0; i < COUNT(nonsense); i++) {
		struct played played = {0};
		struct box_spec spec = spec_of("true");
		struct ran ran = {0};
		boxd.make_count = 0;
		boxd.end_count = 0;
		make_played(&played, i + 1);
		begin_plain(&played, &spec, 1, &ran);
		say_nonsense(&played, &nonsense[i]);
		expect_broken(&played, &ran, nonsense[i].what);
		say_exit(&played, 1, BOX_INIT_END_EXIT, 0); /* nobody waits for it */
		ASSERT_INT(ran.calls, 1);
		end_played(&played, i + 1);
	}
	finish();
}

TEST(packets_of_impossible_sizes_are_nonsense)
{
	static const size_t sizes[] = {
		1, sizeof(struct box_init_header) - 1, BOX_INIT_PACKET_MAX + 1};
	static const char zeros[BOX_INIT_PACKET_MAX + 1];
	start();
	for (uint64_t i = 0; i < COUNT(sizes); i++) {
		struct played played = {0};
		struct box_spec spec = spec_of("true");
		struct ran ran = {0};
		make_played(&played, i + 1);
		begin_plain(&played, &spec, 1, &ran);
		say_raw(&played, zeros, sizes[i]);
		expect_broken(&played, &ran, "a size");
		end_played(&played, i + 1);
	}
	finish();
}

TEST(what_concerns_no_command_is_ignored)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran);
	say_exit(&played, 2, BOX_INIT_END_EXIT, 0);
	say_text(&played, BOX_INIT_STDOUT, 7, "whose?");
	say_taken(&played, 9, 100);
	say(&played, BOX_INIT_RESET_DONE, 0, NULL, 0);
	say(&played, BOX_INIT_STARTED, 1, NULL, 0); /* of a command that is not live */
	say_taken(&played, 1, 0);
	ASSERT_INT(ran.calls, 0);
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_STR(ran.out, "");
	ASSERT_INT(played.lost, 0);
	end_played(&played, 3);
	finish();
}

/* fds that a hostile box-init sends are closed. */
TEST(fds_from_a_box_do_not_stay)
{
	start();
	struct played played = {0};
	make_played(&played, 3);
	int before = open_fds();
	struct box_init_header header = {sizeof(header), BOX_INIT_RESET_DONE, 0, 0};
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {0};
	struct iovec part = {&header, sizeof(header)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	struct cmsghdr *beside = CMSG_FIRSTHDR(&message);
	beside->cmsg_level = SOL_SOCKET;
	beside->cmsg_type = SCM_RIGHTS;
	beside->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(beside), &played.memory, sizeof(int));
	ASSERT_INT(sendmsg(played.init, &message, 0), sizeof(header));
	turn();
	ASSERT_INT(open_fds(), before);
	ASSERT_INT(played.lost, 0);
	end_played(&played, 3);
	finish();
}

/* The other backend with the same boxes; boxd may change at any time whether they are possible. */
TEST(microvms)
{
	start();
	struct box_backend *microvm = box_local_microvm_backend(local);
	struct box_err err;
	ASSERT(microvm != backend);
	ASSERT(!microvm->ops->available(microvm));
	ASSERT(backend->ops->available(backend));
	box_local_probe_microvm(local);
	box_local_probe_microvm(local);
	ASSERT_INT(boxd.try_count, 1);
	ASSERT_STR(microvm->ops->missing(microvm),
		"it is not known yet whether microVMs can run here");
	(void)box_err_set(&err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "no KVM");
	boxd.tried(boxd.tried_arg, &err);
	ASSERT_STR(microvm->ops->missing(microvm), "no KVM");
	ASSERT(backend->ops->missing(backend) == NULL);

	/* boxd is asked anyway: KVM may be available by now. */
	struct box_spec spec = spec_of("");
	struct played played = {0};
	ASSERT(microvm->ops->make(microvm, "m", &spec, on_made, &played) != NULL);
	ASSERT_INT(boxd.makes[0].ask.kind, BOX_PLAN_KIND_MICROVM);
	boxd_made(&played, 4);
	ASSERT(microvm->ops->available(microvm));
	end_played(&played, 4);

	/* The capacity is no reason; what is missing is. */
	struct played none = {0};
	ASSERT(microvm->ops->make(microvm, "m", &spec, on_made, &none) != NULL);
	(void)box_err_set(&err, BOX_ERR_CAPACITY, ENOMEM, "no memory");
	boxd.makes[1].done(boxd.makes[1].arg, 0, -1, -1, 0, &err);
	ASSERT(microvm->ops->available(microvm));
	ASSERT(microvm->ops->make(microvm, "m", &spec, on_made, &none) != NULL);
	(void)box_err_set(&err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "gone");
	boxd.makes[2].done(boxd.makes[2].arg, 0, -1, -1, 0, &err);
	ASSERT_STR(microvm->ops->missing(microvm), "gone");
	finish();
}

TEST(a_native_box_is_asked_for_as_one)
{
	start();
	ASSERT_INT(ask_for(spec_of(""))->kind, BOX_PLAN_KIND_NATIVE);
	finish();
}
