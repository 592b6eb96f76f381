/* What handlers share: bytes in requests and answers, which are text, bytes or base64 by codec; and answers
 * that are streamed in parts, which the client acknowledges. (Replies and failures: dispatch.c.) */
#include "handlers/request.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "handlers/actions.h"

#define UNACKNOWLEDGED_MAX 8 /* (wire) */
#define ESCAPE_MAX 6         /* \u001f */
#define AROUND_BYTES 1024    /* of a part that are not its data, at most */

/* --- bytes --- */

void box_request_add_data(const struct box_request *request, struct box_arena *arena,
	struct box_value *map, struct box_str bytes)
{
	if (bytes.len == 0) {
		bytes = box_str(""); /* empty output may be a NULL pointer */
	}
	if (box_request_has_bytes(request)) {
		box_map_add(arena, map, "data", box_bin(bytes));
	} else if (box_utf8_valid(bytes.bytes, bytes.len)) {
		box_map_add(arena, map, "data", box_text(bytes));
	} else {
		box_map_add(arena, map, "data_base64", box_request_base64(arena, bytes));
	}
}

/* The size of a text as a JSON string. */
static size_t json_size(struct box_str text)
{
	size_t size = 0;
	for (size_t i = 0; i < text.len; i++) {
		unsigned char c = (unsigned char)text.bytes[i];
		bool letter = c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v');
		size += letter ? 2 : c < 0x20 ? ESCAPE_MAX : 1;
	}
	return size;
}

void box_request_add_part_data(const struct box_request *request, struct box_arena *arena,
	struct box_value *map, struct box_str bytes)
{
	const size_t max = BOX_STREAM_PART_BYTES_MAX - AROUND_BYTES;
	if (!box_request_has_bytes(request) && bytes.len > max / ESCAPE_MAX &&
		json_size(bytes) > max) {
		box_map_add(arena, map, "data_base64", box_request_base64(arena, bytes));
	} else {
		box_request_add_data(request, arena, map, bytes);
	}
}

struct box_value box_request_base64(struct box_arena *arena, struct box_str bytes)
{
	struct box_buf text = box_buf(2 * bytes.len + 4);
	(void)box_base64_encode(&text, bytes.bytes, bytes.len);
	struct box_value value = box_text(
		(struct box_str){box_arena_strndup(arena, text.bytes, text.len), text.len});
	box_buf_free(&text);
	return value;
}

static int read_base64(struct box_request *request, const char *name, struct box_str text,
	struct box_str *ret_bytes, struct box_err *err)
{
	size_t room = text.len / 4 * 3 + 3;
	char *bytes = box_arena_bytes(request->arena, room);
	ssize_t len = box_base64_decode(text, bytes, room);
	if (len < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s is not base64", name);
	}
	*ret_bytes = (struct box_str){bytes, (size_t)len};
	return 0;
}

int box_request_read_data(struct box_request *request, const char *name, struct box_str *ret_bytes,
	struct box_err *err)
{
	char other[32];
	(void)snprintf(other, sizeof(other), "%s_base64", name);
	const struct box_value *data = box_request_field(request, name);
	const struct box_value *base64 = box_request_field(request, other);
	if (data && base64) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s and %s exclude each other",
			name, other);
	}
	if (base64) {
		return read_base64(request, other, base64->str, ret_bytes, err);
	}
	if (data && data->type != BOX_STR && data->type != BOX_BIN) {
		return box_err_set(
			err, BOX_ERR_VALIDATION, EINVAL, "%s must be text or bytes", name);
	}
	*ret_bytes = data ? data->str : (struct box_str){NULL, 0};
	if (data && data->str.len == 0) {
		*ret_bytes = box_str("");
	}
	return 0;
}

/* --- parts --- */

bool box_request_may_send(const struct box_request *request)
{
	if (request->flow_control &&
		request->parts_sent - request->parts_acked >= UNACKNOWLEDGED_MAX) {
		return false;
	}
	return !box_request_is_congested(request);
}

void box_request_send_event(struct box_request *request, const struct box_value *event)
{
	request->parts_sent++;
	(void)box_request_send_part(
		request, event, request->flow_control ? request->parts_sent : 0);
}

void box_action_stream_ack(struct box_request *request)
{
	const struct box_value *seq_id = box_map_get(request->data, "seq_id");
	const struct box_value *index = box_map_get(request->data, "index");
	struct box_value answer = box_map_value();
	struct box_err err;
	if (!seq_id || seq_id->type != BOX_INT || !index || index->type != BOX_INT) {
		(void)box_err_set(&err, BOX_ERR_VALUE, EINVAL,
			"Stream acknowledgement requires integer sequence and index");
		box_request_fail(request, &err);
		return;
	}
	struct box_request *stream = box_request_find_stream(request, seq_id->integer);
	if (stream &&
		(index->integer < stream->parts_acked || index->integer > stream->parts_sent)) {
		(void)box_err_set(
			&err, BOX_ERR_VALUE, EINVAL, "Invalid stream acknowledgement index");
		box_request_fail(request, &err);
		return;
	}
	if (stream) {
		stream->parts_acked = index->integer;
	}
	box_map_add(request->arena, &answer, "accepted", box_bool(stream != NULL));
	box_request_reply(request, &answer);
	if (stream) {
		stream->drained(stream);
	}
}
