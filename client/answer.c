/* Parses the messages of a runtime, whose texts are not trusted: an error with an unknown name becomes a
 * BoxError with the whole text. */
#include "client/answer.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "codec/json.h"

#define NAME_MAX_LEN 64

static const struct {
	enum box_code code;
	int errnum;
} errnums[] = {
	{BOX_ERR_VALIDATION, EINVAL},
	{BOX_ERR_ENVELOPE, EINVAL},
	{BOX_ERR_VALUE, EINVAL},
	{BOX_ERR_KEY, EINVAL},
	{BOX_ERR_PERMISSION, EACCES},
	{BOX_ERR_ADMISSION, EACCES},
	{BOX_ERR_READINESS, EAGAIN},
	{BOX_ERR_CAPACITY, ENOSPC},
	{BOX_ERR_SESSION_CONFLICT, EEXIST},
	{BOX_ERR_PROCESS_CONFLICT, EEXIST},
	{BOX_ERR_SESSION_NOT_FOUND, ENOENT},
	{BOX_ERR_PROCESS_NOT_FOUND, ENOENT},
	{BOX_ERR_BACKEND_UNAVAILABLE, ENODEV},
	{BOX_ERR_RUNTIME_UNAVAILABLE, ENOTCONN},
};

static int errnum_of(enum box_code code)
{
	for (size_t i = 0; i < BOX_COUNT_OF(errnums); i++) {
		if (errnums[i].code == code) {
			return errnums[i].errnum;
		}
	}
	return EIO;
}

/* `Name: text`. */
static void read_error(struct box_str message, struct box_err *err)
{
	char name[NAME_MAX_LEN + 1] = "";
	const char *colon = message.len > 0 ? memchr(message.bytes, ':', message.len) : NULL;
	size_t len = colon ? (size_t)(colon - message.bytes) : 0;
	enum box_code code = BOX_ERR_NONE;
	if (len > 0 && len <= NAME_MAX_LEN) {
		memcpy(name, message.bytes, len);
		code = box_code_from_name(name);
	}
	struct box_str text = message;
	if (code != BOX_ERR_NONE) {
		text = box_str_strip((struct box_str){colon + 1, message.len - len - 1});
	} else {
		code = BOX_ERR_BOX;
	}
	(void)box_err_set(err, code, errnum_of(code), "%.*s",
		(int)(text.len < sizeof(err->text) ? text.len : sizeof(err->text)), text.bytes);
}

void box_answer_refusal(struct box_str body, struct box_err *err)
{
	struct box_arena *arena = box_arena_new();
	struct box_value value;
	const char *why;
	char *copy = box_arena_strndup(arena, body.bytes, body.len);
	(void)box_err_set(err, BOX_ERR_BOX, EPROTO, "the runtime refused the relay");
	if (box_json_decode(arena, copy, body.len, &value, &why) == 0 && value.type == BOX_MAP) {
		const struct box_value *error = box_map_get(&value, "error");
		bool is_map = error && error->type == BOX_MAP;
		const struct box_value *code = is_map ? box_map_get(error, "code") : NULL;
		const struct box_value *text = is_map ? box_map_get(error, "message") : NULL;
		if (code && code->type == BOX_STR && text && text->type == BOX_STR) {
			read_error(box_str(box_arena_printf(arena, "%.*s: %.*s", (int)code->str.len,
					   code->str.bytes, (int)text->str.len, text->str.bytes)),
				err);
		}
	}
	box_arena_free(arena);
}

int box_answer_parse(
	const struct box_value *message, struct box_answer *ret_answer, struct box_err *err)
{
	const struct box_value *seq_id = box_map_get(message, "seq_id");
	const struct box_value *code = box_map_get(message, "code");
	const struct box_value *data = box_map_get(message, "data");
	const struct box_value *text = box_map_get(message, "message");
	const struct box_value *chunk = box_map_get(message, "chunk_status");
	const struct box_value *index = box_map_get(message, "stream_index");
	if (!seq_id || seq_id->type != BOX_INT || !code || code->type != BOX_INT) {
		return -EBADMSG;
	}
	struct box_answer answer = {.seq_id = seq_id->integer};
	answer.end = chunk && chunk->type == BOX_STR && box_str_eq(chunk->str, "end");
	answer.index = index && index->type == BOX_INT ? index->integer : 0;
	if (code->integer != 0) {
		bool has_text = text && text->type == BOX_STR;
		read_error(has_text ? text->str : box_str("the runtime gave no reason"), err);
		answer.err = err;
	} else if (!data || data->type != BOX_MAP) {
		return -EBADMSG;
	} else {
		answer.data = data;
	}
	*ret_answer = answer;
	return 0;
}

void box_answer_wait_take(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_answer_wait *wait = arg;
	(void)last;
	wait->done = true;
	if (err) {
		wait->result = box_err_set(wait->err, err->code, err->errnum, "%s", err->text);
	} else {
		/* The message that it came in is freed after this. */
		wait->data = box_value_copy(wait->arena, data);
	}
}
