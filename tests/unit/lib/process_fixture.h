/* Managed processes over a fake box: it records every request, and reports what the test says. Use
 * with session_fixture.h. */
#pragma once

#include "base/log.h"
#include "runtime/backend/backend_process.h"
#include "runtime/session/process.h"
#include "tests/unit/lib/session_fixture.h"

#define PLAYED_MAX 64
#define FED_MAX (32U * 1024 * 1024)

/* One process as the box has it. */
static struct played {
	struct box_backend_box *box;
	const struct box_backend_process_events *events;
	void *arg;
	struct box_backend_process_follow follow; /* the last one */
	char *fed;
	size_t fed_len;
	size_t args;
	char command[64];
	uint32_t number; /* 0: a free slot */
	uint32_t grace_ms;
	struct box_backend_process_peek peek; /* the last one */
	int peeks;
	int halts;
	int follows;
	int eofs;
	bool dropped;
	bool found; /* adopted, not started here, with: */
	struct box_backend_process_record past;
	int64_t memory_mb; /* when it was begun */
} played[PLAYED_MAX];
static const char *keep_fails;
static uint64_t played_kills;

static inline struct played *played_of(uint32_t number)
{
	for (size_t i = 0; i < PLAYED_MAX; i++) {
		if (played[i].number == number && !played[i].dropped) {
			return &played[i];
		}
	}
	TEST_FAIL("the box has no process %" PRIu32, number);
}

static inline struct played *play_one(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_events *events, void *arg)
{
	size_t at = 0;
	while (at < PLAYED_MAX && played[at].number != 0) {
		ASSERT(played[at].number != number || played[at].dropped);
		at++;
	}
	ASSERT(at < PLAYED_MAX && !box->destroyed);
	played[at] = (struct played){.box = box, .number = number, .events = events, .arg = arg};
	return &played[at];
}

static inline int played_check(
	const struct box_backend_box *box, const struct box_process_spec *spec, struct box_err *err)
{
	ASSERT(!box->destroyed && spec->command);
	return keep_fails ? box_err_set(err, BOX_ERR_VALIDATION, E2BIG, "%s", keep_fails) : 0;
}

static inline int played_keep(struct box_backend_box *box, uint32_t number,
	const struct box_process_spec *spec, const struct box_backend_process_events *events,
	void *arg, struct box_err *err)
{
	if (keep_fails) {
		return box_err_set(err, BOX_ERR_BOX, EPIPE, "%s", keep_fails);
	}
	struct played *one = play_one(box, number, events, arg);
	(void)snprintf(one->command, sizeof(one->command), "%s", spec->command);
	one->args = spec->arg_count;
	one->memory_mb = spec->memory_mb;
	return 0;
}

static inline uint64_t played_oom_kills(const struct box_backend_box *box)
{
	ASSERT(box != NULL);
	return played_kills;
}

static inline void played_find(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_record *past,
	const struct box_backend_process_events *events, void *arg)
{
	struct played *one = play_one(box, number, events, arg);
	one->found = true;
	one->past = *past;
}

static inline void played_follow(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_follow *follow)
{
	struct played *one = played_of(number);
	ASSERT(one->box == box);
	one->follow = *follow;
	one->follows++;
}

static inline void played_feed(
	struct box_backend_box *box, uint32_t number, uint64_t offset, struct box_str bytes)
{
	struct played *one = played_of(number);
	ASSERT(one->box == box);
	ASSERT_INT(offset, one->fed_len);
	if (bytes.len == 0) {
		one->eofs++;
		return;
	}
	if (!one->fed) {
		one->fed = malloc(FED_MAX);
	}
	ASSERT(one->fed && one->fed_len + bytes.len <= FED_MAX);
	memcpy(one->fed + one->fed_len, bytes.bytes, bytes.len);
	one->fed_len += bytes.len;
}

static inline void played_peek(
	struct box_backend_box *box, uint32_t number, const struct box_backend_process_peek *peek)
{
	struct played *one = played_of(number);
	ASSERT(one->box == box);
	one->peek = *peek;
	one->peeks++;
}

static inline void played_halt(struct box_backend_box *box, uint32_t number, uint32_t grace_ms)
{
	struct played *one = played_of(number);
	ASSERT(one->box == box);
	one->halts++;
	one->grace_ms = grace_ms;
}

static inline void played_drop(struct box_backend_box *box, uint32_t number)
{
	struct played *one = played_of(number);
	ASSERT(one->box == box);
	one->dropped = true;
	free(one->fed);
	one->fed = NULL;
}

static const struct box_backend_process_ops played_ops = {
	.oom_kills = played_oom_kills,
	.check = played_check,
	.start = played_keep,
	.adopt = played_find,
	.follow = played_follow,
	.feed = played_feed,
	.peek = played_peek,
	.stop = played_halt,
	.forget = played_drop,
};

static struct box_backend_ops playing_ops;
static struct box_backend playing_backend = {&playing_ops};

/* --- what a test says --- */

static inline void start_processes(void)
{
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	start();
	playing_ops = headless_ops;
	playing_ops.processes = &played_ops;
	rules.backend = &playing_backend;
	rules.max_processes = 4;
	rules.max_completed = 3;
	rules.retention_sec = 300;
}

/* Checks that no box has a process left. */
static inline void finish_processes(void)
{
	finish();
	for (size_t i = 0; i < PLAYED_MAX; i++) {
		if (played[i].number != 0 && !played[i].dropped) {
			TEST_FAIL("process %" PRIu32 " was not dropped", played[i].number);
		}
	}
}

/* Reports the current state of the process. */
static inline void tell(uint32_t number, struct box_backend_process_state state)
{
	struct played *one = played_of(number);
	state.known = true;
	one->events->state(one->arg, &state);
}

static inline void tell_running(uint32_t number)
{
	tell(number, (struct box_backend_process_state){.running = true});
}

/* It has ended, with output up to out_end. */
static inline void tell_exit(uint32_t number, int code, uint64_t out_end)
{
	tell(number,
		(struct box_backend_process_state){
			.exit_code = code, .out_ended = true, .out_end = out_end});
}

static inline void tell_output(uint32_t number, uint64_t offset, const char *text)
{
	struct played *one = played_of(number);
	one->events->output(one->arg, offset, box_str(text));
}

static inline void tell_fed(uint32_t number, uint64_t taken)
{
	struct played *one = played_of(number);
	one->events->fed(one->arg, taken);
}

static inline struct box_session *session_of(const char *id)
{
	struct box_err err;
	char physical[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(&first, box_str(id), physical, &err), 0);
	struct box_session *session = box_sessions_find(sessions, physical, &err);
	ASSERT(session != NULL);
	return session;
}

/* What `done` of an operation got. */
struct ended_op {
	int calls;
	const struct box_process *process;
	bool failed;
	struct box_err err;
};

static inline void on_op(void *arg, const struct box_process *process, const struct box_err *err)
{
	struct ended_op *op = arg;
	op->calls++;
	op->process = process;
	op->failed = err != NULL;
	if (err) {
		op->err = *err;
	}
}

static inline const struct box_process_spec *process_spec(const char *id, const char *command)
{
	static const char *const args[] = {"-x", "", NULL};
	static struct box_env env[] = {{"Z", "secret"}, {"A", "1"}};
	struct box_process_spec *spec = box_arena_alloc(kept_arena, sizeof(*spec));
	*spec = (struct box_process_spec){
		.process_id = id,
		.command = command,
		.args = (const char **)(uintptr_t)args,
		.arg_count = 2,
		.env = env,
		.env_count = 2,
		.cwd = "/workspace",
	};
	return spec;
}

/* Starts a process: 0, 1 with *ret_op, or negative with op->err. */
static inline int begin(
	const char *session, const char *id, struct ended_op *op, struct box_process_op **ret_op)
{
	struct box_process *process = NULL;
	struct box_err err = {0};
	*op = (struct ended_op){0};
	int r = box_process_start(
		session_of(session), process_spec(id, "prog"), on_op, op, &process, ret_op, &err);
	op->err = err;
	op->process = process;
	ASSERT((r == 0) == (process != NULL));
	return r;
}

/* A process that starts at once; returns its number in the box. */
static inline uint32_t begun(const char *session, const char *id)
{
	struct ended_op op;
	struct box_process_op *waiting = NULL;
	ASSERT_INT(begin(session, id, &op, &waiting), 0);
	for (uint32_t at = PLAYED_MAX; at > 0; at--) {
		if (played[at - 1].number != 0) {
			return played[at - 1].number;
		}
	}
	TEST_FAIL("nothing was begun");
}

static inline struct box_process *process_of(const char *session, const char *id)
{
	struct box_err err;
	return box_process_find(session_of(session), id, &err);
}

/* Its info as JSON, without times. */
static inline const char *info_json(const char *session, const char *id)
{
	struct box_value info = box_process_info(process_of(session, id), kept_arena);
	struct box_value shown = box_map_value();
	for (size_t i = 0; i < info.count; i++) {
		struct box_str name = info.pairs[i].key;
		if (!box_str_same(name, box_str("started_at")) &&
			!box_str_same(name, box_str("exited_at"))) {
			box_map_set(kept_arena, &shown, name, info.pairs[i].value);
		}
	}
	return json(kept_arena, &shown);
}

static inline struct box_process_counts counts(void)
{
	return box_process_count(sessions, NULL);
}

static inline void expect_counts(size_t running, size_t completed)
{
	ASSERT_INT(counts().running, running);
	ASSERT_INT(counts().completed, completed);
}

static inline void expect_missing(const char *session, const char *id)
{
	struct box_err err = {0};
	char text[256];
	ASSERT(box_process_find(session_of(session), id, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_PROCESS_NOT_FOUND);
	(void)snprintf(text, sizeof(text), "session %s%s has no managed process with process_id=%s",
		ID(""), session, id);
	ASSERT_STR(err.text, text);
}

#define SHOWN(status, exit_code, preview, end)                                                    \
	"{\"session_id\":\"s\",\"process_id\":\"default\",\"status\":\"" status                   \
	"\",\"command\":\"prog\",\"args\":[\"-x\",\"\"],\"cwd\":\"/workspace\",\"env_keys\":[\"A" \
	"\",\"Z\"],\"attached\":false,\"exit_code\":" exit_code ",\"stderr_preview\":\"" preview  \
	"\"" end "}"
