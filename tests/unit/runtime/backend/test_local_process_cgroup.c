/* Managed processes with a memory limit of their own: nothing is sent to the box before boxd has
 * made the cgroup, then everything in order; each kill in the cgroup is attributed to the process.
 */
#include "protocol/init_process.h"
#include "tests/unit/lib/local_process_fixture.h"

static struct {
	int states;
	struct box_backend_process_state state;
	char failure[256];
	bool drops; /* drops the process as soon as it has ended */
} told;

static void on_state(void *arg, const struct box_backend_process_state *state)
{
	ASSERT(arg == &told);
	told.states++;
	told.state = *state;
	(void)snprintf(
		told.failure, sizeof(told.failure), "%s", state->failure ? state->failure : "");
	if (told.drops && !state->running) {
		ops->forget(played.box, NUMBER);
	}
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	(void)arg;
	(void)offset;
	(void)bytes;
	TEST_FAIL("output came");
}

static void on_fed(void *arg, uint64_t taken)
{
	(void)arg;
	(void)taken;
}

static const struct box_backend_process_events events = {
	.state = on_state, .output = on_output, .fed = on_fed};

static void keep_limited(int64_t memory_mb)
{
	const struct box_process_spec spec = {
		.process_id = "p", .command = "prog", .cwd = "/w", .memory_mb = memory_mb};
	struct box_err err;
	ASSERT_INT(ops->start(played.box, NUMBER, &spec, &events, &told, &err), 0);
}

static void find_limited(bool ended)
{
	const struct box_backend_process_record past = {
		.memory_mb = 64, .oom_kills = 2, .ended = ended};
	ops->adopt(played.box, NUMBER, &past, &events, &told);
}

/* boxd has made the latest cgroup; we also have the file that counts its kills. */
static int answer_cgroup(const char *kills, int rest)
{
	struct asked_cgroup *cgroup = &boxd.cgroups[boxd.cgroup_count - 1];
	int file = memory_file(kills);
	const struct box_local_process_cgroup fds = {
		.procs_fd = memory_file("proc"), .oom_fd = another(file), .oom_rest_fd = rest};
	cgroup->done(cgroup->arg, &fds, NULL);
	return file;
}

static void refuse_cgroup(void)
{
	static const struct box_local_process_cgroup none = {-1, -1, -1};
	struct asked_cgroup *cgroup = &boxd.cgroups[boxd.cgroup_count - 1];
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, ENOSPC, "cannot make the cgroup p5");
	cgroup->done(cgroup->arg, &none, &err);
}

static void expect_keep_in(void)
{
	struct heard heard;
	char text[8] = "";
	expect(&played, BOX_INIT_START_PROCESS_IN, NUMBER, &heard);
	ASSERT(heard.fd >= 0);
	ASSERT_INT(pread(heard.fd, text, sizeof(text) - 1, 0), 4);
	ASSERT_STR(text, "proc");
	(void)close(heard.fd);
}

static void say_end(uint32_t end, int value)
{
	const struct box_init_process_state state = {
		.phase = BOX_INIT_PROCESS_ENDED, .end = end, .value = value, .out_ended = 1};
	say(&played, BOX_INIT_PROCESS_STATE, NUMBER, &state, sizeof(state));
}

static void expect_closed(int count)
{
	ASSERT_INT(boxd.closed_count, count);
	for (int i = 0; i < count; i++) {
		ASSERT_INT(boxd.closed[i].box, 7);
		ASSERT_INT(boxd.closed[i].process, NUMBER);
	}
}

TEST(the_group_comes_first_and_the_rest_in_order)
{
	struct heard heard;
	start_box();
	keep_limited(64);
	ASSERT_INT(boxd.cgroup_count, 1);
	ASSERT_INT(boxd.cgroups[0].box, 7);
	ASSERT_INT(boxd.cgroups[0].process, NUMBER);
	ASSERT_INT(boxd.cgroups[0].memory_mib, 64);
	ops->follow(played.box, NUMBER, &(struct box_backend_process_follow){0, 0, 10, 1 << 20});
	ops->feed(played.box, NUMBER, 0, box_str("abc"));
	ops->stop(played.box, NUMBER, 5000);
	expect_silence(&played);
	(void)close(answer_cgroup("oom_kill 0\n", -1));
	expect_keep_in();
	expect(&played, BOX_INIT_FOLLOW_OUTPUT, NUMBER, &heard);
	expect(&played, BOX_INIT_WRITE_STDIN, NUMBER, &heard);
	ASSERT_BYTES(heard.bytes + 8, heard.size - 8, "abc", 3);
	expect_packet(&played, BOX_INIT_STOP_PROCESS, NUMBER, &(uint32_t){5000}, sizeof(uint32_t));
	/* From now on packets are sent immediately. */
	ops->feed(played.box, NUMBER, 3, box_str("d"));
	expect(&played, BOX_INIT_WRITE_STDIN, NUMBER, &heard);
	expect_closed(0);
	ops->forget(played.box, NUMBER);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	expect_closed(1);
	finish_box();
}

/* It lost a child long ago, and ends now because it was stopped. */
TEST(a_stop_is_no_end_by_memory)
{
	static const struct {
		const char *later; /* kills in the cgroup at its end */
		uint32_t end;
		int value;
		enum box_backend_end_reason reason;
	} rows[] = {
		{"oom_kill 2\n", BOX_INIT_END_EXIT, 1, BOX_BACKEND_END_EXIT},
		{"oom_kill 2\n", BOX_INIT_END_SIGNAL, 9, BOX_BACKEND_END_SIGNAL},
		{"oom_kill 3\n", BOX_INIT_END_EXIT, 1, BOX_BACKEND_END_MEMORY},
	};
	start_box();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct heard heard;
		keep_limited(64);
		int file = answer_cgroup("oom_kill 2\n", -1);
		expect_keep_in();
		ops->stop(played.box, NUMBER, 5000);
		expect(&played, BOX_INIT_STOP_PROCESS, NUMBER, &heard);
		ASSERT_INT(pwrite(file, rows[i].later, strlen(rows[i].later), 0),
			strlen(rows[i].later));
		say_end(rows[i].end, rows[i].value);
		ASSERT_INT(told.state.reason, rows[i].reason);
		ops->forget(played.box, NUMBER);
		expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
		(void)close(file);
	}
	finish_box();
}

TEST(ends_in_a_group)
{
	static const struct {
		const char *kills; /* in the cgroup */
		uint32_t end;
		int value;
		enum box_backend_end_reason reason;
		int code;
	} rows[] = {
		{"oom_kill 1\n", BOX_INIT_END_SIGNAL, 9, BOX_BACKEND_END_MEMORY, 137},
		{"oom_kill 3\n", BOX_INIT_END_EXIT, 137, BOX_BACKEND_END_MEMORY, 137},
		{"oom_kill 0\n", BOX_INIT_END_SIGNAL, 9, BOX_BACKEND_END_SIGNAL, 137},
		{"oom_kill 0\n", BOX_INIT_END_EXIT, 137, BOX_BACKEND_END_EXIT, 137},
		{"oom_kill 1\n", BOX_INIT_END_SIGNAL, 15, BOX_BACKEND_END_SIGNAL, 143},
		{"oom_kill 1\n", BOX_INIT_END_EXIT, 1, BOX_BACKEND_END_MEMORY, 1},
		{"oom_kill 1\n", BOX_INIT_END_EXIT, 0, BOX_BACKEND_END_EXIT, 0},
		{"oom_kill 0\n", BOX_INIT_END_EXIT, 1, BOX_BACKEND_END_EXIT, 1},
		{"oom_kill 0\n", BOX_INIT_END_MEMORY, 137, BOX_BACKEND_END_MEMORY, 137},
		{"oom_kill 0\n", BOX_INIT_END_MEMORY, 1, BOX_BACKEND_END_MEMORY, 1},
	};
	start_box();
	/* Other processes of the box were killed meanwhile. */
	say_kills(&played, "oom_kill 8\n");
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct heard heard;
		keep_limited(64);
		say_kills(&played, "oom_kill 9\n");
		(void)close(answer_cgroup(rows[i].kills, -1));
		expect_keep_in();
		say_end(rows[i].end, rows[i].value);
		ASSERT_INT(told.state.reason, rows[i].reason);
		ASSERT_INT(told.state.exit_code, rows[i].code);
		/* From then on it is not needed. */
		expect_closed((int)i + 1);
		ops->forget(played.box, NUMBER);
		expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
		expect_closed((int)i + 1);
	}
	finish_box();
}

TEST(without_a_group_it_is_not_started)
{
	struct heard heard;
	start_box();
	keep_limited(64);
	ops->feed(played.box, NUMBER, 0, box_str("abc"));
	refuse_cgroup();
	ASSERT_INT(told.states, 1);
	ASSERT(told.state.known && !told.state.running && told.state.out_ended);
	ASSERT_INT(told.state.exit_code, 127);
	ASSERT_STR(told.failure, "its memory limit cannot be set: cannot make the cgroup p5");
	expect_silence(&played);
	ops->forget(played.box, NUMBER);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	finish_box();
}

/* box-init could not move it there. */
TEST(a_group_that_cannot_be_entered)
{
	const struct box_init_process_state state = {.phase = BOX_INIT_PROCESS_ENDED,
		.end = BOX_INIT_END_FAILED,
		.step = BOX_INIT_STEP_CGROUP,
		.value = EACCES};
	start_box();
	keep_limited(64);
	(void)close(answer_cgroup("oom_kill 0\n", -1));
	expect_keep_in();
	say(&played, BOX_INIT_PROCESS_STATE, NUMBER, &state, sizeof(state));
	ASSERT_INT(told.state.exit_code, 127);
	ASSERT_STR(told.failure, "its memory limit cannot be set: Permission denied");
	expect_closed(1);
	finish_box();
}

/* The box knows an adopted process, and may have to forget one that it never heard of. */
TEST(dropped_before_its_group_is_there)
{
	struct heard heard;
	start_box();
	find_limited(false);
	ops->forget(played.box, NUMBER);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	(void)close(answer_cgroup("oom_kill 0\n", -1));
	expect_silence(&played);
	boxd.closed_count = 0;
	keep_limited(64);
	ops->forget(played.box, NUMBER);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	expect_closed(1);
	(void)close(answer_cgroup("oom_kill 0\n", -1));
	expect_silence(&played);
	ASSERT_INT(told.states, 0);
	finish_box();
}

/* The box is freed once boxd has answered, not before. */
TEST(the_box_ends_before_its_group_is_there)
{
	start_box();
	keep_limited(64);
	backend->ops->destroy(played.box, on_destroyed, &played);
	box_local_gone(local, 7);
	turn();
	ASSERT_INT(played.destroyed, 0);
	refuse_cgroup();
	turn();
	ASSERT_INT(played.destroyed, 1);
	played_close(&played);
	finish();
}

/* Reports about a process that the box does not know yet are not accepted. */
TEST(lies_before_its_group_is_there)
{
	start_box();
	keep_limited(64);
	say_end(BOX_INIT_END_EXIT, 0);
	ASSERT_INT(told.states, 0);
	ASSERT_INT(played.lost, 0);
	(void)close(answer_cgroup("oom_kill 0\n", -1));
	expect_keep_in();
	say_end(BOX_INIT_END_EXIT, 3);
	ASSERT_INT(told.state.exit_code, 3);
	finish_box();
}

TEST(one_that_is_dropped_when_it_ends)
{
	struct heard heard;
	start_box();
	told.drops = true;
	keep_limited(64);
	(void)close(answer_cgroup("oom_kill 0\n", -1));
	expect_keep_in();
	say_end(BOX_INIT_END_EXIT, 0);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	expect_closed(1);
	finish_box();
}

TEST(found_by_a_successor)
{
	struct heard heard;
	start_box();
	find_limited(false);
	ops->stop(played.box, NUMBER, 9);
	expect_silence(&played);
	int file = answer_cgroup("oom_kill 0\n", -1);
	expect(&played, BOX_INIT_QUERY_PROCESS, NUMBER, &heard);
	ASSERT_INT(heard.fd, -1);
	expect(&played, BOX_INIT_STOP_PROCESS, NUMBER, &heard);
	ASSERT_INT(ftruncate(file, 0), 0);
	ASSERT_INT(pwrite(file, "oom_kill 1\n", 11, 0), 11);
	say_end(BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(told.state.reason, BOX_BACKEND_END_MEMORY);
	expect_closed(1);
	(void)close(file);
	finish_box();
}

/* Its end is known: a cgroup that may be left is removed. */
TEST(found_when_it_had_ended)
{
	struct heard heard;
	start_box();
	find_limited(true);
	ASSERT_INT(boxd.cgroup_count, 0);
	expect_closed(1);
	expect(&played, BOX_INIT_QUERY_PROCESS, NUMBER, &heard);
	say_end(BOX_INIT_END_EXIT, 0);
	expect_closed(1);
	finish_box();
}

/* boxd has no cgroup for it any more: only the box's report is left. */
TEST(found_without_its_group)
{
	struct heard heard;
	start_box();
	find_limited(false);
	refuse_cgroup();
	ASSERT_INT(told.states, 0);
	expect(&played, BOX_INIT_QUERY_PROCESS, NUMBER, &heard);
	say_end(BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(told.state.reason, BOX_BACKEND_END_SIGNAL);
	finish_box();
}

/* Killed while box-rpc was down: the box's count at the start was recorded. */
TEST(found_without_a_limit_of_its_own)
{
	const struct box_backend_process_record past = {.oom_kills = 2};
	struct heard heard;
	start_box();
	say_kills(&played, "oom_kill 3\n");
	ops->adopt(played.box, NUMBER, &past, &events, &told);
	ASSERT_INT(boxd.cgroup_count, 0);
	expect(&played, BOX_INIT_QUERY_PROCESS, NUMBER, &heard);
	say_end(BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(told.state.reason, BOX_BACKEND_END_MEMORY);
	expect_closed(0);
	finish_box();
}

/* Kills outside of these cgroups are counted in two files from then on. */
TEST(kills_outside_of_groups)
{
	struct ran ran = {0};
	struct box_spec spec = spec_of("x");
	start_box();
	say_kills(&played, "oom_kill 2\n");
	ASSERT_INT(ops->oom_kills(played.box), 2);
	keep_limited(64);
	int rest = memory_file("oom_kill 0\n");
	(void)close(answer_cgroup("oom_kill 1\n", another(rest)));
	expect_keep_in();
	ASSERT_INT(ops->oom_kills(played.box), 2);
	begin_plain(&played, &spec, 1, &ran);
	ASSERT_INT(pwrite(rest, "oom_kill 1\n", 11, 0), 11);
	ASSERT_INT(ops->oom_kills(played.box), 3);
	say_exit(&played, 1, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran, BOX_BACKEND_END_MEMORY, 137, 9);
	/* The next cgroup comes with the same file. */
	struct asked_cgroup *cgroup = &boxd.cgroups[0];
	ASSERT_INT(cgroup->process, NUMBER);
	ops->forget(played.box, NUMBER);
	keep_limited(32);
	(void)close(answer_cgroup("oom_kill 0\n", another(rest)));
	ASSERT_INT(ops->oom_kills(played.box), 3);
	(void)close(rest);
	finish_box();
}

TEST(no_limits_on_this_host)
{
	static const struct box_local_support support = {
		.possible = true, .limits_missing = "none"};
	struct heard heard;
	start();
	box_local_free(local);
	local = box_local_new(&loop, &support, &boxd_ops, &boxd);
	box_local_allow_degraded(local, true);
	backend = box_local_native_backend(local);
	make_played(&played, 7);
	ops = backend->ops->processes;
	keep_limited(64);
	ASSERT_INT(boxd.cgroup_count, 0);
	expect(&played, BOX_INIT_START_PROCESS, NUMBER, &heard);
	finish_box();
	expect_closed(0);
}

TEST(as_much_as_can_be_said)
{
	start_box();
	keep_limited(INT64_MAX);
	ASSERT_INT(boxd.cgroups[0].memory_mib, UINT32_MAX);
	refuse_cgroup();
	finish_box();
}

/* boxd has no cgroup for a microVM: the guest's kernel enforces the limit, which is sent as a
 * number. */
TEST(a_microvm_is_told_the_number)
{
	static const struct box_local_process_cgroup none = {-1, -1, -1};
	static const uint32_t grace_ms = 10;
	struct heard heard;
	start_box();
	keep_limited(96);
	expect_silence(&played);
	struct asked_cgroup *cgroup = &boxd.cgroups[boxd.cgroup_count - 1];
	cgroup->done(cgroup->arg, &none, NULL);
	expect(&played, BOX_INIT_START_PROCESS_IN, NUMBER, &heard);
	ASSERT_INT(heard.fd, -1);
	ASSERT_INT(heard.header.reserved, 96);
	/* Nor in any other field. */
	ops->stop(played.box, NUMBER, grace_ms);
	expect(&played, BOX_INIT_STOP_PROCESS, NUMBER, &heard);
	ASSERT_INT(heard.header.reserved, 0);
	say_end(BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(told.states, 1);
	expect_closed(1);
	finish_box();
}
