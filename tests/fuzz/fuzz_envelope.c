/* JSON text as messages of one connection, through the whole dispatcher and every handler, over a
 * runtime without a backend. A list is a sequence of messages. Every request gets exactly one
 * answer, well-formed, with the seq_id it was sent with or -1, and only the name in front of an
 * error looks like an error name. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "codec/json.h"
#include "handlers/dispatch.h"
#include "handlers/envelope.h"
#include "handlers/peer.h"
#include "runtime/runtime.h"
#include "runtime/skill_store.h"
#include "tests/fuzz/common.h"

struct world {
	struct box_runtime *runtime;
	struct box_peer *peer;
	struct box_buf seq; /* the seq_id that the answer must have, as JSON */
	int answers;
	struct box_skill_store_request *skills; /* requested, and not answered */
	unsigned skills_asked;
	box_runtime_folder_done *folder_done;
	void *folder_arg;
	unsigned folders;
};

static void host_folder(void *host, const char *path, enum box_runtime_folder_mode wish,
	box_runtime_folder_done *done, void *arg)
{
	struct world *world = host;
	MUST(path[0] == '/' &&
		(wish == BOX_RUNTIME_FOLDER_MAKE || wish == BOX_RUNTIME_FOLDER_CHECK));
	MUST(!world->folder_done);
	world->folder_done = done;
	world->folder_arg = arg;
}

static uint64_t host_resident_bytes(void *host)
{
	(void)host;
	return 0;
}

static void host_record(void *host, const struct box_value *change)
{
	(void)host;
	MUST(change->type == BOX_MAP && change->count == 1);
}

static void host_ask_skills(void *host, struct box_skill_store_request *ask)
{
	struct world *world = host;
	MUST(!world->skills && ask->root[0] == '/' && strncmp(ask->namespace, "ws-", 3) == 0);
	MUST(ask->data->type == BOX_MAP && ask->action[0] != '\0');
	world->skills = ask;
}

static void host_cancel_skills(void *host, struct box_skill_store_request *ask)
{
	struct world *world = host;
	MUST(world->skills == ask);
	world->skills = NULL;
}

static const struct box_runtime_host host_ops = {
	.ask_skills = host_ask_skills,
	.cancel_skills = host_cancel_skills,
	.folder = host_folder,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

static void check_message(struct box_str message, bool failed)
{
	char *text = box_alloc(message.len + 1);
	memcpy(text, message.bytes, message.len);
	MUST(strlen(text) == message.len);
	MUST(failed || strcmp(text, "success") == 0);
	const char *name = strstr(text, "Error:");
	MUST(!failed || (name && !strstr(name + 1, "Error:")));
	MUST(!failed || strcspn(text, ":") == (size_t)(name - text) + strlen("Error"));
	MUST(message.len < BOX_ERROR_TEXT_MAX + 100);
	free(text);
}

static int answered(void *connection, int codec, const struct box_value *answer)
{
	struct world *world = connection;
	struct box_buf seq = box_buf(BOX_MIB);
	struct box_buf whole = box_buf(BOX_MESSAGE_BYTES_MAX);
	const struct box_value *code = box_map_get(answer, "code");
	const struct box_value *data = box_map_get(answer, "data");
	MUST(codec == 0 && answer->type == BOX_MAP && answer->count == 5);
	MUST(code->type == BOX_INT && (code->integer == 0 || code->integer == 1));
	MUST(data->type == BOX_MAP && (code->integer == 0 || data->count == 0));
	MUST(box_str_eq(box_map_get(answer, "chunk_status")->str, "continue"));
	check_message(box_map_get(answer, "message")->str, code->integer == 1);
	MUST(box_json_encode(&seq, box_map_get(answer, "seq_id")) == 0);
	MUST(seq.len == world->seq.len && memcmp(seq.bytes, world->seq.bytes, seq.len) == 0);
	box_buf_free(&seq);

	/* Output can be read back. */
	int r = box_json_encode(&whole, answer);
	if (r == 0) {
		struct box_arena *arena = box_arena_new();
		struct box_value again;
		const char *why = NULL;
		MUST(box_json_decode(arena, whole.bytes, whole.len, &again, &why) == 0);
		box_arena_free(arena);
		world->answers++;
	}
	box_buf_free(&whole);
	return r;
}

static const struct box_peer_ops peer_ops = {.send = answered};

/* The seq_id by the rule itself, not by the code under test. */
static void expect_seq(struct world *world, const struct box_value *message)
{
	const struct box_value *sent = box_map_get(message, "seq_id");
	struct box_value expected = box_int(-1);
	if (sent &&
		(sent->type == BOX_INT || sent->type == BOX_REAL ||
			(sent->type == BOX_STR && sent->str.len <= 64))) {
		expected = *sent;
	}
	box_buf_free(&world->seq);
	MUST(box_json_encode(&world->seq, &expected) == 0);
}

/* With any answer that a store might give. */
static void answer_skills(struct world *world)
{
	struct box_skill_store_request *ask = world->skills;
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value answer = box_map_value();
	struct box_err err;
	world->skills = NULL;
	if (!ask) {
		return;
	}
	unsigned turn = world->skills_asked++ % 3;
	(void)box_err_set(&err, BOX_ERR_VALIDATION, 2, "Skill \"x\" not found");
	if (turn == 1) {
		box_map_add(arena, &answer, "path", box_cstr("tenants/x"));
	}
	ask->done(ask->arg, turn == 0 ? NULL : &answer, turn == 0 ? &err : NULL);
}

static void receive(struct world *world, const struct box_value *value)
{
	static const int results[] = {0, -ENOENT, -ENOTDIR, -EPERM, -EACCES};
	struct box_arena *arena = box_arena_new();
	struct box_value *message = box_arena_alloc(arena, sizeof(*message));
	const char *why = NULL;
	*message = box_value_copy(arena, value);
	bool request = box_envelope_classify(message, &why) == BOX_ENVELOPE_REQUEST;
	expect_seq(world, message);
	world->answers = 0;
	/* A build may have a backend that needs a loop; there is none here. */
	world->runtime->session_rules.backend = NULL;
	world->runtime->session_rules.backend_missing = "no backend here";
	box_peer_receive(world->peer, arena, message, 0);
	if (world->folder_done) {
		box_runtime_folder_done *done = world->folder_done;
		world->folder_done = NULL;
		done(world->folder_arg, results[world->folders++ % 5]);
	}
	answer_skills(world);
	MUST(world->answers == request);
	MUST(world->runtime->requests_under_way == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	struct world world = {.seq = box_buf(BOX_MIB)};
	struct box_arena *arena = box_arena_new();
	struct box_value value = box_null();
	struct box_value nothing = box_map_value();
	const char *why = NULL;
	char *text = box_arena_strndup(arena, (const char *)data, size);
	if (box_json_decode(arena, text, size, &value, &why) < 0) {
		box_arena_free(arena);
		return 0;
	}
	box_log_setup("fuzz", (enum box_log_level)(BOX_LOG_ERROR + 1), BOX_LOG_TEXT);
	world.runtime = box_runtime_new(&setup, &host_ops, &world);
	MUST(box_runtime_configure(world.runtime, BOX_RUNTIME_LAYER_FILE, &nothing, NULL) == 0);
	box_runtime_pin_instance(world.runtime, box_str("inst"));
	struct box_dispatch *dispatch = box_dispatch_new(world.runtime);
	world.peer = box_peer_new(dispatch, &peer_ops, &world, &(struct box_peer_identity){0});
	if (value.type == BOX_LIST) {
		for (uint32_t i = 0; i < value.count; i++) {
			receive(&world, &value.items[i]);
		}
	} else {
		receive(&world, &value);
	}
	box_peer_free(world.peer);
	MUST(world.runtime->files_total_bytes == 0);
	box_dispatch_free(dispatch);
	box_runtime_free(world.runtime);
	box_buf_free(&world.seq);
	box_arena_free(arena);
	return 0;
}
