/* Handlers for files in boxes: the actions that have one answer, and what they share with box_file_watch
 * (file_watch.c). Uploads by __file_chunk are in transfers.c. */
#include "handlers/file_actions.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/limits.h"
#include "base/utf8.h"
#include "handlers/actions.h"
#include "handlers/peer.h"
#include "handlers/read_queue.h"
#include "runtime/runtime.h"
#include "runtime/session/file_text.h"

#define MODE_MAX 0777

/* --- shared by all of them and by file_watch.c --- */

/* Called once the session exists: only the session knows where its workspace is mounted. */
static int prepare(void *arg, const struct box_spec *session_spec,
	struct box_backend_file_request *ret_ask, struct box_err *err)
{
	struct box_request *request = arg;
	const struct box_file_action *action = request->work;
	int r = box_file_text_parse_path(request->arena, session_spec->mount_path, action->path,
		action->path_field, &ret_ask->path, err);
	if (r == 0 && ret_ask->kind == BOX_FILE_MOVE) {
		r = box_file_text_parse_path(request->arena, session_spec->mount_path, action->to,
			"to", &ret_ask->to, err);
	}
	return r;
}

static int read_path(struct box_request *request, const char *name, struct box_str *ret_path,
	struct box_err *err)
{
	int r = box_request_read_data(request, name, ret_path, err);
	if (r == 0 && !ret_path->bytes) {
		r = box_err_set(err, BOX_ERR_KEY, EINVAL, "'%s'", name);
	}
	return r;
}

static void op_cancel(struct box_request *request)
{
	struct box_file_action *action = request->work;
	box_session_op_cancel(action->op);
}

int box_file_action_begin(
	struct box_request *request, struct box_file_action *action, box_session_file_done *done)
{
	struct box_err err;
	bool moves = action->file.ask.kind == BOX_FILE_MOVE;
	action->path_field = moves ? "from" : "path";
	action->file.prepare = prepare;
	int r = box_request_session_id(request, action->physical_id, &err);
	if (r == 0) {
		r = read_path(request, action->path_field, &action->path, &err);
	}
	if (r == 0 && moves) {
		r = read_path(request, "to", &action->to, &err);
	}
	if (r == 0) {
		action->op = box_sessions_file(request->runtime->sessions, action->physical_id,
			&request->context, &action->file, done, request, &err);
	}
	if (!action->op) {
		box_request_fail(request, &err);
		return -EINVAL;
	}
	request->cancel = op_cancel;
	return 0;
}

void box_file_action_add_text(struct box_arena *arena, struct box_value *map, const char *key,
	const char *base64_key, struct box_str text)
{
	char *copy = box_arena_strndup(arena, text.bytes, text.len);
	struct box_str own = {copy, text.len};
	if (box_utf8_valid(copy, text.len)) {
		box_map_add(arena, map, key, box_text(own));
	} else {
		box_map_add(arena, map, base64_key, box_request_base64(arena, own));
	}
}

/* --- reading requests --- */

static struct box_file_action *action_new(struct box_request *request, enum box_file_kind kind)
{
	struct box_file_action *action = box_arena_alloc(request->arena, sizeof(*action));
	action->file.ask.kind = kind;
	action->file.ask.mode = -1;
	request->work = action;
	return action;
}

static bool flag_of(const struct box_request *request, const char *name)
{
	const struct box_value *value = box_request_field(request, name);
	return value && value->boolean;
}

/* Reads a number from 0 to max; *number stays as it is when the request has none. */
static int read_number(const struct box_request *request, const char *name, int64_t max,
	int64_t *number, struct box_err *err)
{
	const struct box_value *value = box_request_field(request, name);
	if (!value) {
		return 0;
	}
	if (value->integer < 0 || value->integer > max) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, ERANGE, "%s must be 0 to %" PRId64, name, max);
	}
	*number = value->integer;
	return 0;
}

static int read_mode(const struct box_request *request, struct box_backend_file_request *ask,
	struct box_err *err)
{
	int64_t mode = -1;
	int r = read_number(request, "mode", MODE_MAX, &mode, err);
	ask->mode = (int)mode;
	return r;
}

static void begin(
	struct box_request *request, box_session_file_done *done, int r, const struct box_err *err)
{
	if (r < 0) {
		box_request_fail(request, err);
		return;
	}
	(void)box_file_action_begin(request, request->work, done);
}

/* --- building answers --- */

/* True if it failed, and the client got the error. */
static bool failed(struct box_request *request, const struct box_file_outcome *outcome,
	const struct box_err *err)
{
	const struct box_file_action *action = request->work;
	struct box_err own;
	if (!err && outcome->errnum != 0) {
		box_file_text_explain(request->arena, &action->file.ask, outcome, &own);
		err = &own;
	}
	if (err) {
		box_request_fail(request, err);
	}
	return err != NULL;
}

static void add_facts(
	struct box_arena *arena, struct box_value *map, const struct box_file_facts *facts)
{
	box_map_add(arena, map, "kind", box_cstr(box_file_text_type(facts->type)));
	box_map_add(arena, map, "size", box_int((int64_t)facts->size));
	box_map_add(arena, map, "mode", box_int(facts->mode));
	box_map_add(arena, map, "mtime_ms", box_int(facts->mtime_ms));
	if (facts->type == BOX_FILE_TYPE_LINK) {
		box_file_action_add_text(arena, map, "target", "target_base64", facts->target);
	}
}

static void done_empty(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_value answer = box_map_value();
	if (!failed(request, outcome, err)) {
		box_request_reply(request, &answer);
	}
}

/* --- box_file_read --- */

struct reading {
	struct box_file_action action; /* first: request->work points to it */
	struct box_request *request;
	struct box_read_queue_entry turn;
};

static void add_range(struct box_request *request, struct box_value *answer,
	const struct box_file_outcome *outcome)
{
	const struct box_file_action *action = request->work;
	uint64_t offset = action->file.ask.offset;
	uint64_t size = outcome->facts.size;
	box_map_add(request->arena, answer, "offset", box_int((int64_t)offset));
	box_map_add(request->arena, answer, "size", box_int((int64_t)size));
	box_map_add(request->arena, answer, "eof", box_bool(offset + outcome->data.len >= size));
}

static void reply_read(struct box_request *request, const struct box_file_outcome *outcome,
	const struct box_err *err)
{
	if (failed(request, outcome, err)) {
		return;
	}
	struct box_value answer = box_map_value();
	box_request_add_data(request, request->arena, &answer, outcome->data);
	add_range(request, &answer, outcome);
	if (box_request_try_reply(request, &answer) == 0) {
		return;
	}
	/* Text grows when it is encoded, control characters sixfold; base64 by a third. */
	answer = box_map_value();
	box_map_add(request->arena, &answer, "data_base64",
		box_request_base64(request->arena, outcome->data));
	add_range(request, &answer, outcome);
	box_request_reply(request, &answer);
}

static void read_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct reading *reading = request->work;
	struct box_read_queue *reads = box_peer_read_queue(request->peer);
	box_read_queue_leave(reads, &reading->turn);
	reply_read(request, outcome, err);
	box_read_queue_resume(reads);
}

static void read_cancel(struct box_request *request)
{
	struct reading *reading = request->work;
	struct box_read_queue *reads = box_peer_read_queue(request->peer);
	bool begun = reading->turn.begun;
	box_read_queue_leave(reads, &reading->turn);
	if (begun) {
		box_session_op_cancel(reading->action.op);
		box_read_queue_resume(reads);
	}
}

static int read_begin(struct box_read_queue_entry *turn)
{
	struct reading *reading = BOX_CONTAINER_OF(turn, struct reading, turn);
	struct box_request *request = reading->request;
	int r = box_file_action_begin(request, &reading->action, read_done);
	if (r == 0) {
		request->cancel = read_cancel;
	}
	return r;
}

void box_action_file_read(struct box_request *request)
{
	struct box_err err;
	struct reading *reading = box_arena_alloc(request->arena, sizeof(*reading));
	struct box_backend_file_request *ask = &reading->action.file.ask;
	int64_t offset = 0;
	int64_t length = BOX_FILE_OP_READ_BYTES_MAX;
	int r = read_number(request, "offset", INT64_MAX - length, &offset, &err);
	if (r == 0) {
		r = read_number(request, "length", length, &length, &err);
	}
	if (r < 0) {
		box_request_fail(request, &err);
		return;
	}
	*ask = (struct box_backend_file_request){
		.kind = BOX_FILE_READ,
		.mode = -1,
		.offset = (uint64_t)offset,
		.length = (uint64_t)length,
	};
	reading->request = request;
	reading->turn.bytes = (uint64_t)length;
	reading->turn.begin = read_begin;
	request->work = reading;
	request->cancel = read_cancel;
	box_read_queue_enter(box_peer_read_queue(request->peer), &reading->turn);
}

/* --- box_file_write --- */

static void write_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_value answer = box_map_value();
	if (failed(request, outcome, err)) {
		return;
	}
	box_map_add(request->arena, &answer, "size", box_int((int64_t)outcome->facts.size));
	box_map_add(request->arena, &answer, "written", box_int((int64_t)outcome->written));
	box_request_reply(request, &answer);
}

static int read_write(
	struct box_request *request, struct box_backend_file_request *ask, struct box_err *err)
{
	int64_t offset = 0;
	int r = box_request_read_data(request, "data", &ask->data, err);
	if (r == 0 && !ask->data.bytes) {
		r = box_err_set(err, BOX_ERR_KEY, EINVAL, "'data'");
	}
	if (r < 0) {
		return r;
	}
	ask->at = box_request_field(request, "offset") != NULL;
	ask->append = flag_of(request, "append");
	ask->parents = flag_of(request, "parents");
	if (ask->at && ask->append) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, EINVAL, "offset and append exclude each other");
	}
	r = read_number(request, "offset", INT64_MAX - (int64_t)ask->data.len, &offset, err);
	if (r < 0) {
		return r;
	}
	ask->offset = (uint64_t)offset;
	return read_mode(request, ask, err);
}

void box_action_file_write(struct box_request *request)
{
	struct box_err err;
	struct box_file_action *action = action_new(request, BOX_FILE_WRITE);
	int r = read_write(request, &action->file.ask, &err);
	begin(request, write_done, r, &err);
}

/* --- box_file_list, box_file_stat --- */

static void list_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_arena *arena = request->arena;
	if (failed(request, outcome, err)) {
		return;
	}
	struct box_value entries = box_list_value();
	for (size_t i = 0; i < outcome->entry_count; i++) {
		const struct box_file_facts *facts = &outcome->entries[i];
		struct box_value entry = box_map_value();
		box_file_action_add_text(arena, &entry, "name", "name_base64", facts->name);
		add_facts(arena, &entry, facts);
		box_list_add(arena, &entries, entry);
	}
	struct box_value answer = box_map_value();
	box_map_add(arena, &answer, "entries", entries);
	box_map_add(arena, &answer, "more", box_bool(outcome->more));
	box_request_reply(request, &answer);
}

static int read_list(
	struct box_request *request, struct box_backend_file_request *ask, struct box_err *err)
{
	struct box_str after;
	int64_t limit = BOX_FILE_OP_LIST_DEFAULT;
	int r = box_request_read_data(request, "after", &after, err);
	if (r == 0 && (box_str_has_nul(after) || after.len >= BOX_PATH_MAX)) {
		r = box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "after is not a valid name");
	}
	if (r < 0) {
		return r;
	}
	ask->after = box_arena_strndup(request->arena, after.bytes ? after.bytes : "", after.len);
	r = read_number(request, "limit", BOX_FILE_OP_LIST_MAX, &limit, err);
	if (r == 0 && limit == 0) {
		r = box_err_set(err, BOX_ERR_VALIDATION, ERANGE, "limit must be 1 to %d",
			BOX_FILE_OP_LIST_MAX);
	}
	ask->limit = (uint32_t)limit;
	return r;
}

void box_action_file_list(struct box_request *request)
{
	struct box_err err;
	struct box_file_action *action = action_new(request, BOX_FILE_LIST);
	int r = read_list(request, &action->file.ask, &err);
	begin(request, list_done, r, &err);
}

static void stat_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_value answer = box_map_value();
	if (!failed(request, outcome, err)) {
		add_facts(request->arena, &answer, &outcome->facts);
		box_request_reply(request, &answer);
	}
}

void box_action_file_stat(struct box_request *request)
{
	(void)action_new(request, BOX_FILE_STAT);
	begin(request, stat_done, 0, NULL);
}

/* --- box_file_mkdir, box_file_remove, box_file_move --- */

void box_action_file_mkdir(struct box_request *request)
{
	struct box_err err;
	struct box_backend_file_request *ask = &action_new(request, BOX_FILE_MKDIR)->file.ask;
	ask->parents = flag_of(request, "parents");
	int r = read_mode(request, ask, &err);
	begin(request, done_empty, r, &err);
}

void box_action_file_remove(struct box_request *request)
{
	struct box_backend_file_request *ask = &action_new(request, BOX_FILE_REMOVE)->file.ask;
	ask->recursive = flag_of(request, "recursive");
	begin(request, done_empty, 0, NULL);
}

void box_action_file_move(struct box_request *request)
{
	struct box_backend_file_request *ask = &action_new(request, BOX_FILE_MOVE)->file.ask;
	ask->replace = flag_of(request, "replace");
	begin(request, done_empty, 0, NULL);
}
