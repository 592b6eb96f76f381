/* Sessions over the manual backend: makes, runs, removals and cancels can complete in every order.
 */
#pragma once

#include "runtime/session/session.h"
#include "tests/unit/lib/json_tree.h"
#include "tests/unit/lib/manual_backend.h"

#define REMOVED(id) "session " ID(id) " was removed while it was in use"

static struct box_session_rules rules;
static struct box_sessions *sessions;
static struct box_arena *kept_arena;
static const struct box_context first = {{"inst", 4}, {"ws", 2}, 1};
static const struct box_context second = {{"inst", 4}, {"ws", 2}, 2};
static const struct box_context elsewhere = {{"inst", 4}, {"other", 5}, 1};

/* What `done` of an operation got. */
struct note {
	int calls;
	bool failed;
	enum box_code code;
	char text[256];
	enum box_backend_end_reason reason;
	int exit_code;
	char out[64];
	size_t sessions_then;    /* how many sessions there were at that moment */
	size_t shown_then;       /* and how many of them were visible */
	void (*then)(void *arg); /* called from inside `done` */
	void *then_arg;
};

static inline void start(void)
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
	kept_arena = box_arena_new();
}

/* Removes what is left and checks that nothing leaked. */
static inline void finish(void)
{
	box_sessions_remove_all(sessions);
	while (headless.pending) {
		headless_gone();
	}
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(headless.boxes, 0);
	box_sessions_free(sessions);
	box_arena_free(kept_arena);
}

static inline struct box_spec spec_of(const char *cmd)
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

static inline void noted(struct note *note, const struct box_err *err)
{
	note->calls++;
	note->sessions_then = box_sessions_count(sessions);
	note->shown_then = box_sessions_count_shown(sessions);
	if (err) {
		note->failed = true;
		note->code = err->code;
		(void)snprintf(note->text, sizeof(note->text), "%.255s", err->text);
	}
	if (note->then) {
		note->then(note->then_arg);
	}
}

static inline void on_opened(void *arg, struct box_session *session, const struct box_err *err)
{
	ASSERT((session != NULL) == (err == NULL));
	noted(arg, err);
}

static inline void on_ran(void *arg, const struct box_session *session,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err)
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

static inline void on_removed(void *arg)
{
	noted(arg, NULL);
}

/* Specs must live as long as their operation: here, until the end of the test. */
static inline const struct box_spec *kept(struct box_spec spec)
{
	struct box_spec *own = box_arena_alloc(kept_arena, sizeof(*own));
	*own = spec;
	return own;
}

static inline struct box_session_op *exec_in(
	const struct box_context *context, const char *id, const char *cmd, struct note *note)
{
	struct box_err err = {0};
	char physical[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(context, box_str(id), physical, &err), 0);
	struct box_session_op *op = box_sessions_exec(
		sessions, physical, context, kept(spec_of(cmd)), NULL, on_ran, note, &err);
	if (!op) {
		TEST_FAIL("exec refused: %s", err.text);
	}
	return op;
}

static inline struct box_session_op *exec(const char *id, const char *cmd, struct note *note)
{
	return exec_in(&first, id, cmd, note);
}

static inline struct box_session_op *open_in(
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

static inline struct box_session_op *remove_id(const char *physical_id, struct note *note)
{
	struct box_err err = {0};
	struct box_session_op *op = NULL;
	ASSERT_INT(box_sessions_remove(sessions, physical_id, on_removed, note, &op, &err), 1);
	return op;
}

static inline void make_live(const char *id)
{
	struct note note = {0};
	(void)open_in(&first, id, &note);
	headless_made();
	ASSERT_INT(note.calls, 1);
	ASSERT(!note.failed);
}

static inline void expect_error(const struct note *note, enum box_code code, const char *text)
{
	ASSERT_INT(note->calls, 1);
	ASSERT(note->failed);
	ASSERT_STR(note->text, text);
	ASSERT_INT(note->code, code);
}

static inline void expect_ran(const struct note *note, const char *out)
{
	ASSERT_INT(note->calls, 1);
	ASSERT(!note->failed);
	ASSERT_STR(note->out, out);
}

static inline const char *info_text(
	struct box_arena *arena, const char *physical_id, const char *member)
{
	struct box_err err;
	struct box_session *session = box_sessions_find(sessions, physical_id, &err);
	ASSERT(session != NULL);
	struct box_value info = box_session_info(session, arena);
	const struct box_value *value = box_map_get(&info, member);
	return box_arena_strndup(arena, value->str.bytes, value->str.len);
}

static inline void expect_status(const char *physical_id, const char *status)
{
	struct box_arena *arena = box_arena_new();
	ASSERT_STR(info_text(arena, physical_id, "status"), status);
	box_arena_free(arena);
}

/* It is being removed: in no list and no count, although its box still exists. */
static inline void expect_not_shown(const char *physical_id, size_t others)
{
	struct box_arena *arena = box_arena_new();
	struct box_err err = {0};
	const struct box_session_box *boxes = NULL;
	size_t count = 0;
	struct box_session_op *op = NULL;
	ASSERT(box_sessions_find(sessions, physical_id, &err) == NULL);
	ASSERT_INT(err.code, BOX_ERR_SESSION_NOT_FOUND);
	ASSERT_INT(box_sessions_stop(sessions, physical_id, NULL, NULL, &op, &err), -ENOENT);
	ASSERT_INT(box_sessions_list(sessions, &first, arena).count, others);
	ASSERT_INT(box_sessions_count_placed(sessions, &first), others);
	ASSERT_INT(box_sessions_count_workspace(sessions, &first), others);
	ASSERT_INT(box_sessions_count_shown(sessions), others);
	(void)box_sessions_boxes(sessions, &first, arena, &boxes, &count);
	ASSERT_INT(count, others);
	ASSERT(box_sessions_count_boxes(sessions) > others);
	box_arena_free(arena);
}

static const struct box_backend_exec_outcome good = {.out = {"fine", 4}};
