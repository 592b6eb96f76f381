/* Mounts of managed processes and of file work through the local backend: boxd opens each, and
 * nothing is sent to the box before all are there. */
#include "protocol/init_process.h"
#include "runtime/backend/backend_file.h"
#include "tests/unit/lib/local_process_fixture.h"

#define MOUNTS_ID (NUMBER | BOX_INIT_MOUNT_OF_PROCESS)

static struct {
	int states;
	struct box_backend_process_state state;
	char failure[256];
} told;

static void on_state(void *arg, const struct box_backend_process_state *state)
{
	ASSERT(arg == &told);
	told.states++;
	told.state = *state;
	(void)snprintf(
		told.failure, sizeof(told.failure), "%s", state->failure ? state->failure : "");
}

static const struct box_backend_process_events events = {.state = on_state};

/* The spec's memory is freed before boxd is asked for the second one. */
static void keep(int64_t memory_mb)
{
	char one[] = "/host/one";
	char two[] = "/host/two";
	char at[] = "/data";
	struct box_mount mounts[] = {
		{.host_path = one, .mount_path = at, .mode = BOX_MOUNT_RW},
		{.host_path = two, .mount_path = "/in", .mode = BOX_MOUNT_RO},
	};
	const struct box_process_spec spec = {.process_id = "p",
		.command = "prog",
		.cwd = "/w",
		.memory_mb = memory_mb,
		.mounts = mounts,
		.mount_count = 2};
	struct box_err err;
	ASSERT_INT(ops->start(played.box, NUMBER, &spec, &events, &told, &err), 0);
	memset(one, 'x', sizeof(one));
	memset(two, 'x', sizeof(two));
	memset(at, 'x', sizeof(at));
}

static void answer_mount(int number, const char *path, bool read_only)
{
	ASSERT_INT(boxd.mount_count, number + 1);
	const struct asked_mount *mount = &boxd.mounts[number];
	ASSERT_INT(mount->box, 7);
	ASSERT_STR(mount->path, path);
	ASSERT_INT(mount->read_only, read_only);
	mount->done(mount->arg, memory_file(path), NULL);
}

static void refuse_mount(int number)
{
	struct box_err err;
	const struct asked_mount *mount = &boxd.mounts[number];
	(void)box_err_set(&err, BOX_ERR_VALIDATION, ENOENT, "host_path /host/two does not exist");
	mount->done(mount->arg, -1, &err);
}

static void expect_mount(uint32_t id, const char *target, const char *source)
{
	struct heard heard;
	char text[32] = "";
	expect(&played, BOX_INIT_MOUNT, id, &heard);
	ASSERT_STR(heard.bytes, target);
	ASSERT(heard.fd >= 0);
	ASSERT(pread(heard.fd, text, sizeof(text) - 1, 0) > 0);
	ASSERT_STR(text, source);
	(void)close(heard.fd);
}

static void expect_begun(uint32_t kind)
{
	struct heard heard;
	struct box_init_start_process wanted;
	expect_mount(MOUNTS_ID, "/data", "/host/one");
	expect_mount(MOUNTS_ID, "/in", "/host/two");
	expect(&played, kind, NUMBER, &heard);
	memcpy(&wanted, heard.bytes, sizeof(wanted));
	ASSERT_INT(wanted.mount_count, 2);
	ASSERT_INT(heard.fd >= 0, kind == BOX_INIT_START_PROCESS_IN);
	if (heard.fd >= 0) {
		(void)close(heard.fd);
	}
}

TEST(a_process_begins_when_its_mounts_are_open)
{
	struct heard heard;
	start_box();
	keep(0);
	ops->follow(played.box, NUMBER, &(struct box_backend_process_follow){0, 0, 10, 1 << 20});
	answer_mount(0, "/host/one", false);
	expect_silence(&played);
	answer_mount(1, "/host/two", true);
	expect_begun(BOX_INIT_START_PROCESS);
	expect(&played, BOX_INIT_FOLLOW_OUTPUT, NUMBER, &heard);
	finish_box();
}

static void answer_cgroup(void)
{
	const struct asked_cgroup *cgroup = &boxd.cgroups[0];
	const struct box_local_process_cgroup fds = {
		memory_file("proc"), memory_file("oom_kill 0\n"), -1};
	cgroup->done(cgroup->arg, &fds, NULL);
}

TEST(mounts_after_a_group)
{
	start_box();
	keep(64);
	answer_cgroup();
	answer_mount(0, "/host/one", false);
	answer_mount(1, "/host/two", true);
	expect_begun(BOX_INIT_START_PROCESS_IN);
	finish_box();
}

TEST(mounts_before_a_group)
{
	start_box();
	keep(64);
	answer_mount(0, "/host/one", false);
	answer_mount(1, "/host/two", true);
	expect_silence(&played);
	answer_cgroup();
	expect_begun(BOX_INIT_START_PROCESS_IN);
	finish_box();
}

TEST(a_mount_that_is_refused)
{
	start_box();
	keep(0);
	answer_mount(0, "/host/one", false);
	refuse_mount(1);
	expect_silence(&played);
	ASSERT_INT(told.states, 1);
	ASSERT(!told.state.running);
	ASSERT_INT(told.state.exit_code, 127);
	ASSERT_STR(told.failure, "host_path /host/two does not exist");
	finish_box();
}

/* It stays listed for long, but nothing that was opened for it stays open. */
TEST(one_that_was_refused_holds_nothing)
{
	start_box();
	int before = open_fds();
	keep(64);
	answer_cgroup();
	answer_mount(0, "/host/one", false);
	refuse_mount(1);
	ASSERT_INT(told.states, 1);
	ASSERT_INT(open_fds(), before);
	ASSERT_INT(boxd.closed_count, 1);
	ASSERT_INT(boxd.closed[0].process, NUMBER);
	finish_box();
}

TEST(dropped_while_they_are_opened)
{
	struct heard heard;
	start_box();
	keep(0);
	ops->forget(played.box, NUMBER);
	expect(&played, BOX_INIT_FORGET_PROCESS, NUMBER, &heard);
	answer_mount(0, "/host/one", false); /* is closed: finish counts fds */
	expect_silence(&played);
	ASSERT_INT(boxd.mount_count, 1);
	finish_box();
}

TEST(the_box_ends_while_they_are_opened)
{
	start_box();
	keep(0);
	init_ends(&played);
	answer_mount(0, "/host/one", false);
	ASSERT_INT(boxd.mount_count, 1);
	finish_box();
}

TEST(a_step_that_fails_in_the_box)
{
	start_box();
	keep(0);
	answer_mount(0, "/host/one", false);
	answer_mount(1, "/host/two", true);
	expect_begun(BOX_INIT_START_PROCESS);
	const struct box_init_process_state state = {.phase = BOX_INIT_PROCESS_ENDED,
		.end = BOX_INIT_END_FAILED,
		.step = BOX_INIT_STEP_MOUNT,
		.value = ENOTDIR,
		.out_ended = 1};
	say(&played, BOX_INIT_PROCESS_STATE, NUMBER, &state, sizeof(state));
	ASSERT_STR(told.failure, "its volumes cannot be mounted: Not a directory");
	finish_box();
}

TEST(targets_that_cannot_be)
{
	struct box_mount mount = {.host_path = "/a", .mount_path = "/etc/x", .mode = BOX_MOUNT_RO};
	const struct box_process_spec spec = {
		.process_id = "p", .command = "c", .cwd = "/", .mounts = &mount, .mount_count = 1};
	struct box_err err;
	start_box();
	ASSERT(ops->start(played.box, NUMBER, &spec, &events, &told, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_INT(boxd.mount_count, 0);
	finish_box();
}

/* --- files --- */

static int filed;

static void on_filed(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	(void)arg;
	filed += outcome ? 1 : 100;
	ASSERT((outcome == NULL) == (err != NULL));
}

TEST(work_on_files)
{
	const struct box_mount mount = {
		.host_path = "/host/one", .mount_path = "/data", .mode = BOX_MOUNT_RW};
	const struct box_backend_file_request ask = {.kind = BOX_FILE_STAT,
		.path = {"/", "data/x"},
		.mode = -1,
		.mounts = &mount,
		.mount_count = 1};
	struct heard heard;
	struct box_init_run run;
	start_box();
	ASSERT(backend->ops->file(played.box, &ask, NULL, on_filed, NULL));
	expect_silence(&played);
	answer_mount(0, "/host/one", false);
	expect_mount(1, "/data", "/host/one");
	expect(&played, BOX_INIT_RUN, 1, &heard);
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.flags, BOX_INIT_RUN_FILE);
	ASSERT_INT(run.mount_count, 1);
	say_exit(&played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(filed, 100);
	/* Refused by boxd: nothing is sent to the box. */
	ASSERT(backend->ops->file(played.box, &ask, NULL, on_filed, NULL));
	refuse_mount(1);
	ASSERT_INT(filed, 200);
	/* And cancelled while boxd opens it. */
	struct box_backend_op *op = backend->ops->file(played.box, &ask, NULL, on_filed, NULL);
	backend->ops->cancel(op);
	answer_mount(2, "/host/one", false);
	expect_silence(&played);
	ASSERT_INT(filed, 200);
	finish_box();
}
