/* Sessions over a backend that waits for the test: every order of making, running, removing and
 * cancelling is played by hand. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "runtime/session.h"
#include "tests/unit/headless.h"
#include "tests/unit/test.h"
#include "transport/json.h"

#define REMOVED(id) "session " ID(id) " was removed while it was in use"
#define ID(id) "ws-108378aeed2d7cca4480d35e-g1-" id

static struct box_session_rules rules;
static struct box_sessions *sessions;
static const struct box_context first = {{"inst", 4}, {"ws", 2}, 1};
static const struct box_context second = {{"inst", 4}, {"ws", 2}, 2};
static const struct box_context elsewhere = {{"inst", 4}, {"other", 5}, 1};

/* What an operation's `done` was told. */
struct note {
	int calls;
	bool failed;
	enum box_code code;
	char text[256];
	enum box_end_reason reason;
	int exit_code;
	char out[64];
	size_t sessions_then;    /* how many there were in that moment */
	void (*then)(void *arg); /* called from inside `done` */
	void *then_arg;
};

static void start(void)
{
	rules = (struct box_session_rules){
		.backend = &headless_backend,
		.backend_name = "headless",
		.backend_missing = "no backend here",
		.max_sessions = 8,
		.session_ttl_sec = 300,
		.max_output_bytes = 1000,
	};
	sessions = box_sessions_new(&rules);
}

/* Removes what is left and checks that nothing stayed. */
static void finish(void)
{
	box_sessions_remove_all(sessions);
	while (headless.pending) {
		headless_gone();
	}
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(headless.boxes, 0);
	box_sessions_free(sessions);
}

static struct box_spec spec_of(const char *cmd)
{
	return (struct box_spec){
		.session_id = "s",
		.cmd = box_str(cmd),
		.workdir = "/workspace",
		.timeout_sec = 30,
		.image = "image",
		.host_path_mode = BOX_MOUNT_RW,
		.mount_path = "/workspace",
		.cpus = 1.0,
		.memory_mb = 512,
		.pids_limit = 128,
		.read_only_rootfs = true,
	};
}

static void noted(struct note *note, const struct box_err *err)
{
	note->calls++;
	note->sessions_then = box_sessions_count(sessions);
	if (err) {
		note->failed = true;
		note->code = err->code;
		(void)snprintf(note->text, sizeof(note->text), "%.255s", err->text);
	}
	if (note->then) {
		note->then(note->then_arg);
	}
}

static void on_opened(void *arg, struct box_session *session, const struct box_err *err)
{
	ASSERT((session != NULL) == (err == NULL));
	noted(arg, err);
}

static void on_ran(void *arg, const struct box_session *session,
	const struct box_exec_outcome *outcome, const struct box_err *err)
{
	struct note *note = arg;
	ASSERT((outcome != NULL) == (err == NULL));
	ASSERT((session != NULL) == (err == NULL));
	if (outcome) {
		note->reason = outcome->reason;
		note->exit_code = outcome->exit_code;
		(void)snprintf(note->out, sizeof(note->out), "%.*s", (int)outcome->out.len,
			outcome->out.bytes ? outcome->out.bytes : "");
	}
	noted(note, err);
}

static void on_removed(void *arg)
{
	noted(arg, NULL);
}

/* Specs must live as long as their operation. */
static struct box_spec specs[64];
static size_t specs_used;

static const struct box_spec *kept(struct box_spec spec)
{
	ASSERT(specs_used < 64);
	specs[specs_used] = spec;
	return &specs[specs_used++];
}

static struct box_session_op *exec_in(
	const struct box_context *context, const char *id, const char *cmd, struct note *note)
{
	struct box_err err = {0};
	char physical[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(context, box_str(id), physical, &err), 0);
	struct box_session_op *op = box_sessions_exec(
		sessions, physical, context, kept(spec_of(cmd)), on_ran, note, &err);
	if (!op) {
		TEST_FAIL("exec refused: %s", err.text);
	}
	return op;
}

static struct box_session_op *exec(const char *id, const char *cmd, struct note *note)
{
	return exec_in(&first, id, cmd, note);
}

static struct box_session_op *open_in(
	const struct box_context *context, const char *id, struct note *note)
{
	struct box_err err = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	char physical[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(context, box_str(id), physical, &err), 0);
	ASSERT_INT(box_sessions_open(sessions, physical, context, kept(spec_of("")), on_opened,
			   note, &session, &op, &err),
		1);
	ASSERT(op != NULL && session == NULL);
	return op;
}

static struct box_session_op *remove_id(const char *physical_id, struct note *note)
{
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	ASSERT_INT(box_sessions_remove(sessions, physical_id, on_removed, note, &op, &err), 1);
	return op;
}

static void make_live(const char *id)
{
	struct note note = {0};
	(void)open_in(&first, id, &note);
	headless_made();
	ASSERT_INT(note.calls, 1);
	ASSERT(!note.failed);
}

static void expect_error(const struct note *note, enum box_code code, const char *text)
{
	ASSERT_INT(note->calls, 1);
	ASSERT(note->failed);
	ASSERT_STR(note->text, text);
	ASSERT_INT(note->code, code);
}

static void expect_ran(const struct note *note, const char *out)
{
	ASSERT_INT(note->calls, 1);
	ASSERT(!note->failed);
	ASSERT_STR(note->out, out);
}

static const char *info_text(struct box_arena *arena, const char *physical_id, const char *member)
{
	struct box_err err;
	struct box_session *session = box_sessions_find(sessions, physical_id, &err);
	ASSERT(session != NULL);
	struct box_value info = box_session_info(session, arena);
	const struct box_value *value = box_map_get(&info, member);
	return box_arena_strndup(arena, value->str.bytes, value->str.len);
}

static void expect_status(const char *physical_id, const char *status)
{
	struct box_arena *arena = box_arena_new();
	ASSERT_STR(info_text(arena, physical_id, "status"), status);
	box_arena_free(arena);
}

static const struct box_exec_outcome good = {.out = {"fine", 4}};

/* --- making and running --- */

TEST(create_and_reuse)
{
	start();
	struct note opened = {0};
	struct note ran = {0};
	struct box_err err = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	(void)open_in(&first, "s", &opened);
	ASSERT_INT(opened.calls, 0);
	ASSERT_INT(box_sessions_count(sessions), 1);
	ASSERT_STR(headless_find(HEADLESS_MAKE, NULL)->name, ID("s"));
	headless_made();
	ASSERT_INT(opened.calls, 1);

	ASSERT_INT(box_sessions_open(sessions, ID("s"), &first, kept(spec_of("")), on_opened,
			   &opened, &session, &op, &err),
		0);
	ASSERT_INT(opened.calls, 1);
	ASSERT(session == box_sessions_find(sessions, ID("s"), &err));
	ASSERT_STR(box_session_logical_id(session), "s");
	ASSERT_STR(box_session_backend_name(session), "headless");

	(void)exec("s", "run", &ran);
	ASSERT_INT(headless_find(HEADLESS_EXEC, "run")->max_output_bytes, 1000);
	headless_ran("run", &good);
	expect_ran(&ran, "fine");
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	ASSERT_INT(box_sessions_count(sessions), 1);
	finish();
}

TEST(exec_makes_its_session)
{
	start();
	struct note ran = {0};
	(void)exec("s", "run", &ran);
	ASSERT_INT(headless.begun[HEADLESS_EXEC], 0);
	headless_made();
	ASSERT_INT(ran.calls, 0);
	headless_ran("run", &(struct box_exec_outcome){.exit_code = 3});
	ASSERT_INT(ran.calls, 1);
	ASSERT_INT(ran.exit_code, 3);
	finish();
}

TEST(conflict)
{
	start();
	struct box_err err = {0};
	struct note note = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	struct box_spec other = spec_of("run");
	other.memory_mb = 1024;
	(void)open_in(&first, "s", &note);
	/* While it is made and when it lives. */
	for (int round = 0; round < 2; round++) {
		ASSERT(box_sessions_exec(sessions, ID("s"), &first, &other, on_ran, &note, &err) ==
			NULL);
		ASSERT_INT(err.code, BOX_ERR_SESSION_CONFLICT);
		ASSERT_STR(err.text, "Box session " ID("s") " already exists with memory_mb=512");
		ASSERT_INT(box_sessions_open(sessions, ID("s"), &first, &other, on_opened, &note,
				   &session, &op, &err),
			-EEXIST);
		if (round == 0) {
			headless_made();
		}
	}
	ASSERT_INT(note.calls, 1);
	finish();
}

TEST(no_backend)
{
	start();
	struct box_err err = {0};
	struct note note = {0};
	struct box_spec spec = spec_of("run");
	make_live("s");
	headless.unavailable = true;
	ASSERT(box_sessions_exec(sessions, ID("t"), &first, &spec, on_ran, &note, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT_STR(err.text, "the backend cannot make boxes now");
	rules.backend = NULL;
	ASSERT(box_sessions_exec(sessions, ID("t"), &first, &spec, on_ran, &note, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT_STR(err.text, "no backend here");
	/* A session that is there needs none to be chosen. */
	(void)exec("s", "run", &note);
	headless_ran("run", &good);
	expect_ran(&note, "fine");
	finish();
}

TEST(exec_while_making)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct note opened = {0};
	(void)exec("s", "a", &a);
	(void)open_in(&first, "s", &opened);
	(void)exec("s", "b", &b);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 0);
	expect_status(ID("s"), "idle");
	headless_made();
	ASSERT_INT(opened.calls, 1);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 2);
	headless_ran("a", &good);
	headless_ran("b", &good);
	expect_ran(&a, "fine");
	expect_ran(&b, "fine");
	finish();
}

TEST(side_by_side)
{
	start();
	struct note notes[3] = {{0}};
	make_live("s");
	(void)exec("s", "a", &notes[0]);
	(void)exec("s", "b", &notes[1]);
	(void)exec("s", "c", &notes[2]);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 3);
	expect_status(ID("s"), "running");
	headless_ran("b", &good);
	ASSERT_INT(notes[1].calls, 1);
	ASSERT_INT(notes[0].calls + notes[2].calls, 0);
	expect_status(ID("s"), "running");
	headless_run_failed("c", BOX_ERR_BOX, "it broke");
	expect_error(&notes[2], BOX_ERR_BOX, "it broke");
	headless_ran("a", &good);
	expect_ran(&notes[0], "fine");
	expect_status(ID("s"), "idle");
	finish();
}

TEST(make_fails)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct note c = {0};
	(void)exec("s", "a", &a);
	(void)open_in(&first, "s", &b);
	(void)exec("s", "c", &c);
	headless_make_failed(BOX_ERR_BOX, "no room");
	expect_error(&a, BOX_ERR_BOX, "no room");
	expect_error(&b, BOX_ERR_BOX, "no room");
	expect_error(&c, BOX_ERR_BOX, "no room");
	/* The name is free again, already for those who are told. */
	ASSERT_INT(a.sessions_then, 0);
	ASSERT_INT(box_sessions_count(sessions), 0);
	make_live("s");
	finish();
}

/* --- removing --- */

TEST(remove_unknown)
{
	start();
	struct box_err err = {0};
	struct note note = {0};
	struct box_session_op *op = NULL;
	ASSERT_INT(box_sessions_remove(sessions, ID("s"), on_removed, &note, &op, &err), -ENOENT);
	ASSERT_INT(err.code, BOX_ERR_SESSION_NOT_FOUND);
	ASSERT_STR(err.text, "session " ID("s") " not found");
	ASSERT(box_sessions_find(sessions, ID("s"), &err) == NULL);
	finish();
}

TEST(remove_while_running)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct note removed = {0};
	make_live("s");
	(void)exec("s", "a", &a);
	(void)exec("s", "b", &b);
	(void)remove_id(ID("s"), &removed);
	expect_error(&a, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	expect_error(&b, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 2);
	ASSERT_INT(removed.calls, 0);
	expect_status(ID("s"), "closing");
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(removed.sessions_then, 0);
	finish();
}

TEST(remove_while_making)
{
	start();
	struct note a = {0};
	struct note opened = {0};
	struct note removed = {0};
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	(void)exec("s", "a", &a);
	(void)open_in(&first, "s", &opened);
	ASSERT_INT(box_sessions_remove(sessions, ID("s"), on_removed, &removed, &op, &err), 0);
	ASSERT_INT(removed.calls, 0);
	expect_error(&a, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	expect_error(&opened, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 1);
	ASSERT_INT(box_sessions_count(sessions), 0);
	make_live("s");
	finish();
}

TEST(remove_twice)
{
	start();
	struct note one = {0};
	struct note two = {0};
	make_live("s");
	(void)remove_id(ID("s"), &one);
	(void)remove_id(ID("s"), &two);
	ASSERT_INT(headless.begun[HEADLESS_DESTROY], 1);
	headless_gone();
	ASSERT_INT(one.calls, 1);
	ASSERT_INT(two.calls, 1);
	finish();
}

TEST(exec_while_removing)
{
	start();
	struct note removed = {0};
	struct note a = {0};
	struct note b = {0};
	struct note opened = {0};
	struct box_err err = {0};
	make_live("s");
	(void)remove_id(ID("s"), &removed);
	(void)exec("s", "a", &a);
	(void)exec("s", "b", &b);
	(void)open_in(&first, "s", &opened);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	ASSERT_INT(box_sessions_count(sessions), 1);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 2);
	ASSERT_INT(a.calls + b.calls + opened.calls, 0);
	headless_made();
	ASSERT_INT(opened.calls, 1);
	headless_ran("a", &good);
	headless_ran("b", &good);
	expect_ran(&a, "fine");
	expect_ran(&b, "fine");
	ASSERT(box_sessions_find(sessions, ID("s"), &err) != NULL);
	finish();
}

/* A spec that would conflict with what is being removed is no conflict; with what comes instead it
 * is. */
TEST(other_spec_while_removing)
{
	start();
	struct note removed = {0};
	struct note a = {0};
	struct note b = {0};
	struct box_err err = {0};
	struct box_spec other = spec_of("b");
	other.cpus = 0.5;
	make_live("s");
	(void)remove_id(ID("s"), &removed);
	ASSERT(box_sessions_exec(sessions, ID("s"), &first, &other, on_ran, &b, &err) != NULL);
	(void)exec("s", "a", &a);
	headless_gone();
	expect_error(&a, BOX_ERR_SESSION_CONFLICT,
		"Box session " ID("s") " already exists with cpus=0.5");
	headless_made();
	headless_ran("b", &good);
	expect_ran(&b, "fine");
	finish();
}

/* --- cancelling --- */

TEST(cancel_while_making)
{
	start();
	struct note a = {0};
	struct note b = {0};
	struct box_session_op *op_a = exec("s", "a", &a);
	struct box_session_op *op_b = exec("s", "b", &b);
	box_session_op_cancel(op_a);
	ASSERT_INT(box_sessions_count(sessions), 1); /* b still wants it */
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 0);
	box_session_op_cancel(op_b);
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(headless.cancelled[HEADLESS_MAKE], 1);
	ASSERT_INT(headless.boxes, 0);

	op_a = exec("s", "a", &a);
	(void)exec("s", "b", &b);
	box_session_op_cancel(op_a);
	headless_made();
	ASSERT_INT(headless_count(HEADLESS_EXEC), 1);
	headless_ran("b", &good);
	expect_ran(&b, "fine");
	ASSERT_INT(a.calls, 0);
	finish();
}

TEST(cancel_running)
{
	start();
	struct note a = {0};
	struct note b = {0};
	make_live("s");
	struct box_session_op *op = exec("s", "a", &a);
	(void)exec("s", "b", &b);
	box_session_op_cancel(op);
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 1);
	ASSERT_INT(headless_count(HEADLESS_EXEC), 1);
	expect_status(ID("s"), "running");
	headless_ran("b", &good);
	expect_status(ID("s"), "idle"); /* the session of a cancelled command stays */
	ASSERT_INT(a.calls, 0);
	expect_ran(&b, "fine");
	finish();
}

TEST(cancel_while_removing)
{
	start();
	struct note removed = {0};
	struct note waiting = {0};
	make_live("s");
	struct box_session_op *removal = remove_id(ID("s"), &removed);
	struct box_session_op *op = exec("s", "a", &waiting);
	box_session_op_cancel(op);
	box_session_op_cancel(removal);
	ASSERT_INT(box_sessions_count(sessions), 1); /* it goes on unattended */
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(removed.calls + waiting.calls, 0);
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	finish();
}

/* --- the end of a command --- */

TEST(timeout_removes)
{
	start();
	struct note slow = {0};
	struct note beside = {0};
	make_live("s");
	(void)exec("s", "slow", &slow);
	(void)exec("s", "beside", &beside);
	headless_ran("slow", &(struct box_exec_outcome){.reason = BOX_END_TIMEOUT});
	ASSERT_INT(slow.calls, 1);
	ASSERT(!slow.failed);
	ASSERT_INT(slow.reason, BOX_END_TIMEOUT);
	ASSERT_INT(slow.sessions_then, 1); /* answered before the session goes */
	expect_error(&beside, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 0);
	make_live("s");
	finish();
}

/* --- capacity --- */

static void expect_full(const char *id)
{
	struct box_err err = {0};
	struct note note = {0};
	struct box_spec spec = spec_of("x");
	ASSERT(box_sessions_exec(sessions, id, &first, &spec, on_ran, &note, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	ASSERT_STR(err.text, "Box session capacity reached (2)");
}

TEST(capacity)
{
	start();
	struct note making = {0};
	struct note removed = {0};
	struct note ran = {0};
	rules.max_sessions = 2;
	make_live("live");
	(void)open_in(&first, "making", &making);
	expect_full(ID("third"));
	headless_made();
	(void)remove_id(ID("live"), &removed);
	expect_full(ID("third"));          /* one that is being removed counts too */
	(void)exec("making", "run", &ran); /* one that is there needs no room */
	headless_ran("run", &good);
	headless_gone();
	make_live("third");
	expect_full(ID("fourth"));
	finish();
}

/* Who waited for a removal finds the room taken by another. */
TEST(capacity_while_waiting)
{
	start();
	struct note removed = {0};
	struct note waiting = {0};
	rules.max_sessions = 2;
	make_live("a");
	make_live("b");
	(void)remove_id(ID("a"), &removed);
	(void)exec("a", "x", &waiting);
	rules.max_sessions = 1;
	headless_gone();
	expect_error(&waiting, BOX_ERR_CAPACITY, "Box session capacity reached (1)");
	finish();
}

/* --- many at once --- */

TEST(retire)
{
	start();
	struct note old_run = {0};
	struct note old_open = {0};
	struct note kept_run = {0};
	struct note other_run = {0};
	make_live("old");
	(void)exec("old", "old", &old_run);
	(void)open_in(&first, "half", &old_open);
	(void)exec_in(&second, "s", "kept", &kept_run);
	(void)exec_in(&elsewhere, "s", "other", &other_run);
	ASSERT_INT(box_sessions_count_workspace(sessions, &first), 3);
	ASSERT_INT(box_sessions_count_workspace(sessions, &elsewhere), 1);
	box_sessions_retire(sessions, &first); /* nothing is older than 1 */
	ASSERT_INT(box_sessions_count(sessions), 4);
	box_sessions_retire(sessions, &second);
	expect_error(&old_run, BOX_ERR_SESSION_NOT_FOUND, REMOVED("old"));
	expect_error(&old_open, BOX_ERR_SESSION_NOT_FOUND, REMOVED("half"));
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 2);
	headless_made();
	headless_made();
	headless_ran("kept", &good);
	headless_ran("other", &good);
	expect_ran(&kept_run, "fine");
	expect_ran(&other_run, "fine");
	finish();
}

TEST(idle)
{
	start();
	struct note running = {0};
	struct note making = {0};
	struct note opened = {0};
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	struct box_session *session = NULL;
	rules.session_ttl_sec = 10;
	make_live("idle");
	make_live("running");
	(void)exec("running", "run", &running);
	struct box_spec persistent = spec_of("");
	persistent.persistent = true;
	ASSERT_INT(box_sessions_open(sessions, ID("persistent"), &first, &persistent, on_opened,
			   &opened, &session, &op, &err),
		1);
	headless_made();
	(void)open_in(&first, "making", &making);
	uint64_t now = box_clock_ms();

	box_sessions_tick(sessions, 0);
	box_sessions_tick(sessions, now);
	box_sessions_tick(sessions, now + 9000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	rules.session_ttl_sec = 0;
	box_sessions_tick(sessions, now + 1000000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	rules.session_ttl_sec = 10;
	box_sessions_tick(sessions, now + 10000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	box_sessions_tick(sessions, now + 10000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	ASSERT(box_sessions_find(sessions, ID("idle"), &err) == NULL);
	ASSERT_INT(box_sessions_count(sessions), 3);

	/* The end of a command counts as use. */
	headless_ran("run", &good);
	headless_made();
	box_sessions_tick(sessions, box_clock_ms() + 9000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	box_sessions_tick(sessions, box_clock_ms() + 11000);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 2);
	headless_gone();
	headless_gone();
	ASSERT(box_sessions_find(sessions, ID("persistent"), &err) != NULL);
	finish();
}

TEST(remove_all)
{
	start();
	struct note run = {0};
	struct note making = {0};
	struct note removed = {0};
	make_live("live");
	make_live("closing");
	(void)remove_id(ID("closing"), &removed);
	(void)exec("live", "run", &run);
	(void)open_in(&first, "making", &making);
	box_sessions_remove_all(sessions);
	expect_error(&run, BOX_ERR_SESSION_NOT_FOUND, REMOVED("live"));
	expect_error(&making, BOX_ERR_SESSION_NOT_FOUND, REMOVED("making"));
	ASSERT_INT(box_sessions_count(sessions), 2);
	box_sessions_remove_all(sessions);
	headless_gone();
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(box_sessions_count(sessions), 0);
	finish();
}

/* --- what can be seen --- */

static void expect_time(const char *text)
{
	ASSERT_INT(strlen(text), strlen("2026-11-16T01:55:00.348528Z"));
	ASSERT_INT(text[10], 'T');
	ASSERT_INT(text[26], 'Z');
}

TEST(info)
{
	start();
	struct box_arena *arena = box_arena_new();
	struct box_buf out = box_buf(10000);
	struct box_err err = {0};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	struct note note = {0};
	struct box_spec spec = spec_of("");
	spec.session_id = "a/b";
	spec.network_on = true;
	spec.host_path = "/srv/x";
	spec.host_path_mode = BOX_MOUNT_RO;
	spec.persistent = true;
	spec.cpus = 1.5;
	spec.workspace_quota_mb = 7;
	ASSERT_INT(box_sessions_open(sessions, ID("a-b"), &first, &spec, on_opened, &note, &session,
			   &op, &err),
		1);
	headless_made();
	struct box_value info = box_session_info(
		box_sessions_find(sessions, ID("a-b"), &err), arena);
	expect_time(info_text(arena, ID("a-b"), "created_at"));
	expect_time(info_text(arena, ID("a-b"), "last_used_at"));
	ASSERT(strcmp(info_text(arena, ID("a-b"), "created_at"),
		       info_text(arena, ID("a-b"), "last_used_at")) <= 0);
	box_map_set(arena, &info, box_str("created_at"), box_cstr("C"));
	box_map_set(arena, &info, box_str("last_used_at"), box_cstr("U"));
	ASSERT_INT(box_json_encode(&out, &info), 0);
	/* clang-format off */
	const char *expected =
		"{\"session_id\":\"a-b\",\"backend_name\":\"headless\","
		"\"backend_session_id\":\"" ID("a-b") "\",\"image\":\"image\",\"network\":\"on\","
		"\"host_path\":\"/srv/x\",\"host_path_mode\":\"ro\","
		"\"mount_path\":\"/workspace\",\"persistent\":true,\"cpus\":1.5,"
		"\"memory_mb\":512,\"pids_limit\":128,\"read_only_rootfs\":true,"
		"\"workspace_quota_mb\":7,\"created_at\":\"C\",\"last_used_at\":\"U\","
		"\"status\":\"idle\"}";
	/* clang-format on */
	ASSERT_BYTES(out.bytes, out.len, expected, strlen(expected));
	box_buf_free(&out);
	finish();
	/* The info outlives the session. */
	ASSERT(box_str_eq(box_map_get(&info, "image")->str, "image"));
	box_arena_free(arena);
}

TEST(list)
{
	start();
	struct box_arena *arena = box_arena_new();
	struct note notes[3] = {{0}};
	make_live("a");
	(void)open_in(&elsewhere, "x", &notes[0]);
	(void)open_in(&first, "b", &notes[1]);
	(void)open_in(&second, "c", &notes[2]);
	struct box_value list = box_sessions_list(sessions, &first, arena);
	ASSERT_INT(list.count, 2);
	ASSERT(box_str_eq(box_map_get(&list.items[0], "session_id")->str, "a"));
	ASSERT(box_str_eq(box_map_get(&list.items[1], "session_id")->str, "b"));
	list = box_sessions_list(sessions, &second, arena);
	ASSERT_INT(list.count, 1);
	ASSERT_INT(box_sessions_list(sessions, &elsewhere, arena).count, 1);
	struct box_context nobody = {{"inst", 4}, {"no", 2}, 1};
	ASSERT_INT(box_sessions_list(sessions, &nobody, arena).count, 0);
	box_arena_free(arena);
	finish();
}

/* --- a `done` that comes back in --- */

static void then_remove(void *arg)
{
	static struct note removed;
	struct box_err err;
	struct box_session_op *op = NULL;
	(void)box_sessions_remove(sessions, arg, on_removed, &removed, &op, &err);
}

static void then_cancel(void *arg)
{
	box_session_op_cancel(*(struct box_session_op **)arg);
}

/* The first of two that wait for a box removes it: the second must not run in it. */
TEST(removed_by_an_opener)
{
	static char id[] = ID("s");
	start();
	struct note opened = {.then = then_remove, .then_arg = id};
	struct note ran = {0};
	(void)open_in(&first, "s", &opened);
	(void)exec("s", "run", &ran);
	headless_made();
	ASSERT_INT(opened.calls, 1);
	while (headless_count(HEADLESS_DESTROY) > 0) {
		headless_gone();
	}
	/* Ended with the error, or begun anew in another box: either will do. */
	if (ran.calls > 0) {
		expect_error(&ran, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	} else {
		headless_made();
		headless_ran("run", &good);
		expect_ran(&ran, "fine");
	}
	finish();
}

TEST(cancelled_by_one_who_is_told_of_a_failure)
{
	start();
	struct box_session_op *other = NULL;
	struct note a = {.then = then_cancel, .then_arg = &other};
	struct note b = {0};
	(void)exec("s", "a", &a);
	other = exec("s", "b", &b);
	headless_make_failed(BOX_ERR_BOX, "no room");
	expect_error(&a, BOX_ERR_BOX, "no room");
	ASSERT_INT(b.calls, 0);
	finish();
}

TEST(cancelled_by_one_who_is_told_of_a_removal)
{
	for (int live = 0; live < 2; live++) {
		start();
		struct box_session_op *other = NULL;
		struct note a = {.then = then_cancel, .then_arg = &other};
		struct note b = {0};
		(void)exec("s", "a", &a);
		other = exec("s", "b", &b);
		if (live) {
			headless_made();
		}
		box_sessions_remove_all(sessions);
		expect_error(&a, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
		ASSERT_INT(b.calls, 0);
		finish();
	}
}

TEST(cancelled_by_a_remover)
{
	start();
	struct box_session_op *other = NULL;
	struct note removed = {.then = then_cancel, .then_arg = &other};
	struct note waiting = {0};
	make_live("s");
	(void)remove_id(ID("s"), &removed);
	other = exec("s", "x", &waiting);
	headless_gone();
	ASSERT_INT(removed.calls, 1);
	ASSERT_INT(waiting.calls, 0);
	finish();
}

static void then_exec(void *arg)
{
	(void)exec("s", "again", arg);
}

/* A command that is told of its end asks for the next one at once. */
TEST(exec_again)
{
	start();
	struct note again = {0};
	struct note a = {.then = then_exec, .then_arg = &again};
	make_live("s");
	(void)exec("s", "a", &a);
	headless_ran("a", &good);
	headless_ran("again", &good);
	expect_ran(&again, "fine");

	struct note after = {0};
	struct note slow = {.then = then_exec, .then_arg = &after};
	(void)exec("s", "slow", &slow);
	headless_ran("slow", &(struct box_exec_outcome){.reason = BOX_END_TIMEOUT});
	headless_gone();
	expect_error(&after, BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));

	struct note fresh = {0};
	struct note failed = {.then = then_exec, .then_arg = &fresh};
	(void)exec("s", "x", &failed);
	headless_make_failed(BOX_ERR_BOX, "no room");
	headless_made();
	headless_ran("again", &good);
	expect_ran(&fresh, "fine");
	finish();
}

/* The second removal is answered when nothing is left that was asked for before it. */
TEST(remove_behind_a_waiting_exec)
{
	start();
	struct note one = {0};
	struct note two = {0};
	struct note waiting = {0};
	make_live("s");
	(void)remove_id(ID("s"), &one);
	(void)exec("s", "x", &waiting);
	(void)remove_id(ID("s"), &two);
	headless_gone();
	ASSERT_INT(one.calls, 1);
	while (two.calls == 0 && headless.pending) {
		if (headless_count(HEADLESS_DESTROY) > 0) {
			headless_gone();
		} else {
			headless_made();
		}
	}
	ASSERT_INT(two.calls, 1);
	ASSERT_INT(two.sessions_then, 0);
	ASSERT_INT(waiting.calls, 1);
	finish();
}
