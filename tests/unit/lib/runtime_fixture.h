/* The runtime over a fake host: it records every request and answers when the test says so. */
#pragma once

#include "base/log.h"
#include "runtime/runtime.h"
#include "tests/unit/lib/json_tree.h"
#include "tests/unit/lib/manual_backend.h"

/* Requests of the runtime to its host. */
static struct {
	int folders;
	char path[BOX_PATH_MAX];
	enum box_runtime_folder_mode wish;
	box_runtime_folder_done *done[8];
	void *arg[8];
	int records;
	char *recorded[64];
} asked;

static struct box_arena *arena; /* of the test */

static inline void host_folder(void *host, const char *path, enum box_runtime_folder_mode wish,
	box_runtime_folder_done *done, void *arg)
{
	(void)host;
	ASSERT(asked.folders < 8);
	(void)snprintf(asked.path, sizeof(asked.path), "%s", path);
	asked.wish = wish;
	asked.done[asked.folders] = done;
	asked.arg[asked.folders++] = arg;
}

static inline uint64_t host_resident_bytes(void *host)
{
	(void)host;
	return 0;
}

static inline void host_record(void *host, const struct box_value *change)
{
	(void)host;
	ASSERT(asked.records < 64);
	asked.recorded[asked.records++] = box_strdup(json(arena, change));
}

static const struct box_runtime_host host_ops = {
	.folder = host_folder,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

static inline struct box_runtime *start_with(const struct box_runtime_setup *setup)
{
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	arena = arena ? arena : box_arena_new();
	return box_runtime_new(setup, &host_ops, NULL);
}

static inline struct box_runtime *start(void)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	return start_with(&setup);
}

static inline void finish(struct box_runtime *runtime)
{
	box_runtime_free(runtime);
	for (int i = 0; i < asked.records; i++) {
		free(asked.recorded[i]);
	}
	asked.records = 0;
	box_arena_free(arena);
	arena = NULL;
}

static inline void configure(
	struct box_runtime *runtime, enum box_runtime_layer_kind layer, const char *text)
{
	struct box_err err = {0};
	struct box_value map = tree(arena, text);
	if (box_runtime_configure(runtime, layer, &map, &err) < 0) {
		TEST_FAIL("refused: %s: %s", text, err.text);
	}
}

struct note {
	int calls;
	bool failed;
	struct box_err err;
};

static inline void on_init(void *arg, const struct box_err *err)
{
	struct note *note = arg;
	note->calls++;
	note->failed = err != NULL;
	if (err) {
		note->err = *err;
	}
}

static inline int init(struct box_runtime *runtime, const char *text, struct note *note,
	struct box_init **ret_init)
{
	struct box_value map = tree(arena, text);
	return box_runtime_init(runtime, &map, false, on_init, note, ret_init, &note->err);
}

static inline void init_now(struct box_runtime *runtime, const char *text)
{
	struct note note = {0};
	struct box_init *pending = NULL;
	if (init(runtime, text, &note, &pending) != 0) {
		TEST_FAIL("not done at once: %s: %s", text, note.err.text);
	}
}

static inline void folder_done(int which, int result)
{
	asked.done[which](asked.arg[which], result);
}

static const struct box_context place = {{"inst", 4}, {"ws", 2}, 1};

static inline const char *status(struct box_runtime *runtime)
{
	struct box_value value = box_runtime_status(runtime, &place, arena);
	return json(arena, &value);
}

static inline const char *status_member(struct box_runtime *runtime, const char *name)
{
	struct box_value value = box_runtime_status(runtime, &place, arena);
	return json(arena, box_map_get(&value, name));
}

#define LOCAL "{\"session_ttl_sec\":77,\"local\":{\"host_root\":\"/srv/box\"}}"
#define REQUIRED "{\"admission\":{\"required\":true}}"

static inline void expect_required(struct box_runtime *runtime)
{
	struct box_err err = {0};
	ASSERT(runtime->config->admission.required);
	ASSERT(box_runtime_require_ready(runtime, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_READINESS);
}

static inline void enter(struct box_runtime *runtime, const char *workspace, int64_t generation)
{
	struct box_context context = {box_str("inst"), box_str(workspace), generation};
	bool advanced = false;
	ASSERT_INT(box_runtime_enter_generation(runtime, &context, &advanced, NULL), 0);
}

static inline void unused_opened(void *arg, struct box_session *session, const struct box_err *err)
{
	(void)arg;
	(void)session;
	(void)err;
}

static inline void use_headless(struct box_runtime *runtime)
{
	runtime->backend = &headless_backend;
	runtime->session_rules.backend = &headless_backend;
	runtime->session_rules.backend_name = "headless";
	runtime->session_rules.backend_missing = NULL;
}

static inline void open_session(
	struct box_runtime *runtime, const struct box_context *context, const struct box_spec *spec)
{
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	char id[BOX_PHYSICAL_ID_SIZE];
	ASSERT_INT(box_tenant_physical_id(context, box_str("s"), id, NULL), 0);
	ASSERT_INT(box_sessions_open(runtime->sessions, id, context, spec, unused_opened, NULL,
			   &session, &op, NULL),
		1);
	headless_made();
}
