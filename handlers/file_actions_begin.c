/* What requests about files have in common: the session and the paths. */
#include <errno.h>
#include <string.h>

#include "base/utf8.h"
#include "handlers/file_actions.h"
#include "runtime/runtime.h"
#include "runtime/session/file_text.h"

/* Called when there is a session: only it knows where its workspace is. */
static int prepare(void *arg, const struct box_spec *session_spec,
	struct box_backend_file_request *ret_ask, struct box_err *err)
{
	struct box_request *request = arg;
	const struct box_file_action *asked = request->work;
	int r = box_file_text_parse_path(request->arena, session_spec->mount_path, asked->path,
		asked->path_field, &ret_ask->path, err);
	if (r == 0 && ret_ask->kind == BOX_FILE_MOVE) {
		r = box_file_text_parse_path(request->arena, session_spec->mount_path, asked->to,
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
	struct box_file_action *asked = request->work;
	box_session_op_cancel(asked->op);
}

int box_file_action_begin(
	struct box_request *request, struct box_file_action *asked, box_session_file_done *done)
{
	struct box_err err;
	bool moves = asked->file.ask.kind == BOX_FILE_MOVE;
	asked->path_field = moves ? "from" : "path";
	asked->file.prepare = prepare;
	int r = box_request_session_id(request, asked->physical_id, &err);
	r = r < 0 ? r : read_path(request, asked->path_field, &asked->path, &err);
	if (r == 0 && moves) {
		r = read_path(request, "to", &asked->to, &err);
	}
	if (r == 0) {
		asked->op = box_sessions_file(request->runtime->sessions, asked->physical_id,
			&request->context, &asked->file, done, request, &err);
	}
	if (!asked->op) {
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
