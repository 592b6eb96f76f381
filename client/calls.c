/* Calls of actions with named arguments, from the table of protocol/actions.def: which struct member becomes
 * which member on the wire, and how long an answer may take. Building the map is pure; a line does the rest
 * (client/line.h). */
#include "client/calls.h"

#include <errno.h>
#include <limits.h>

#include "base/macros.h"
#include "base/utf8.h"

enum kind {
	TEXT,   /* const char *; NULL: left out */
	PATH,   /* the same; bytes if it is not valid UTF-8 */
	STRING, /* struct box_str, always sent as text */
	BYTES,  /* struct box_str, always sent as bytes */
	INT,    /* int64_t; 0: left out */
	INT_AT, /* const int64_t *; NULL: left out */
	REAL,   /* double; 0 or less: left out */
	FLAG,   /* bool; false: left out */
	UNFLAG, /* bool; true: sent as false, false: left out */
	VALUE,  /* const struct box_value *; NULL: left out */
	WHOLE,  /* the same, but it is the map itself */
	NESTED, /* not a member: the ones after it go into a map of this name */
};

struct member {
	const char *key;
	enum kind kind;
	size_t at;
};

struct row {
	const char *action;
	const struct member *(*members)(void); /* ends with one without a key */
	int64_t (*more_ms)(const void *args);
	int wait_ms;
	bool stream;
};

/* A command has its own timeout; creating a box before it and sending the answer after it take more. */
static int64_t exec_ms(const void *args)
{
	const struct box_spec_args *spec = args;
	return (spec && spec->timeout_sec > 0 ? spec->timeout_sec : 30) * 1000;
}

static int64_t output_ms(const void *args)
{
	const struct box_process_output_args *output = args;
	return output && output->wait_ms > 0 ? output->wait_ms : 0;
}

#define WAIT_SHORT 15000 /* only looked up */
#define WAIT_WORK 30000  /* something is started or ended */
#define WAIT_LONG 75000  /* the runtime itself gives up after a minute */
#define WAIT_BY_HAND 0   /* this request is made in another file */
#define ANSWERS_ONE false
#define ANSWERS_STREAM true

/* The member MEMBER of the arguments is sent as KEY. */
#define SEND(KEY, KIND, MEMBER) {#KEY, KIND, offsetof(__typeof__(*args), MEMBER)},
#define SEND_TEXT(KEY) SEND(KEY, TEXT, KEY)
#define SEND_PATH(KEY) SEND(KEY, PATH, KEY)
#define SEND_STRING(KEY) SEND(KEY, STRING, KEY)
#define SEND_BYTES(KEY) SEND(KEY, BYTES, KEY)
#define SEND_INT(KEY) SEND(KEY, INT, KEY)
#define SEND_INT_AT(KEY) SEND(KEY, INT_AT, KEY)
#define SEND_REAL(KEY) SEND(KEY, REAL, KEY)
#define SEND_FLAG(KEY) SEND(KEY, FLAG, KEY)
#define SEND_UNFLAG(KEY) SEND(KEY, UNFLAG, writable_rootfs)
#define SEND_VALUE(KEY) SEND(KEY, VALUE, KEY)
#define SEND_WHOLE(KEY) SEND(KEY, WHOLE, KEY)
#define SEND_NESTED(KEY) {#KEY, NESTED, 0},
#define SEND_UNSENT(KEY)
#define FIELD(KEY, TYPE, NEED, SENT) SEND_##SENT(KEY)

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): FIELDS are initialisers, each with its comma */
#define ACTION(NAME, SCOPE, LANE, NEEDS, EFFECT, SINCE, HANDLER, ARGS, WAIT, EXTRA, ANSWERS, FIELDS) \
	static const struct member *members_of_##NAME(void)                                          \
	{                                                                                            \
		const struct box_##ARGS *args = NULL;                                                \
		static const struct member members[] = {FIELDS {0}};                                 \
		(void)args;                                                                          \
		return members;                                                                      \
	}
#include "protocol/actions.def"
/* NOLINTEND(bugprone-macro-parentheses) */

static const struct row rows[] = {
#define ACTION(NAME, SCOPE, LANE, NEEDS, EFFECT, SINCE, HANDLER, ARGS, WAIT, EXTRA, ANSWERS, FIELDS) \
	{#NAME, members_of_##NAME, EXTRA, WAIT_##WAIT, ANSWERS_##ANSWERS},
#include "protocol/actions.def"
};
/* clang-format on */

static const struct row *find(const char *action, struct box_err *err)
{
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		if (rows[i].wait_ms != WAIT_BY_HAND && strcmp(rows[i].action, action) == 0) {
			return &rows[i];
		}
	}
	(void)box_err_set(err, BOX_ERR_VALUE, ENOENT, "no such action: %s", action);
	return NULL;
}

/* --- the map --- */

static void add_text(struct box_arena *arena, struct box_value *map, const struct member *member,
	const char *text)
{
	if (text) {
		struct box_str str = box_str(text);
		bool bytes = member->kind == PATH && !box_utf8_valid(str.bytes, str.len);
		box_map_add(arena, map, member->key, bytes ? box_bin(str) : box_text(str));
	}
}

static void add_value(struct box_arena *arena, struct box_value *map, const struct member *member,
	const struct box_value *value)
{
	if (value && member->kind == WHOLE) {
		*map = *value;
	} else if (value) {
		box_map_add(arena, map, member->key, *value);
	}
}

static void add(struct box_arena *arena, struct box_value *map, const struct member *member,
	const void *args)
{
	const void *field = (const char *)args + member->at;
	switch (member->kind) {
	case TEXT:
	case PATH:
		add_text(arena, map, member, *(const char *const *)field);
		break;
	case STRING:
	case BYTES: {
		const struct box_str *given = field;
		struct box_str str = given->bytes ? *given : box_str("");
		box_map_add(arena, map, member->key,
			member->kind == BYTES ? box_bin(str) : box_text(str));
		break;
	}
	case INT:
		if (*(const int64_t *)field != 0) {
			box_map_add(arena, map, member->key, box_int(*(const int64_t *)field));
		}
		break;
	case INT_AT:
		if (*(const int64_t *const *)field) {
			box_map_add(arena, map, member->key, box_int(**(int64_t *const *)field));
		}
		break;
	case REAL:
		if (*(const double *)field > 0) {
			box_map_add(arena, map, member->key, box_real(*(const double *)field));
		}
		break;
	case FLAG:
	case UNFLAG:
		if (*(const bool *)field) {
			box_map_add(arena, map, member->key, box_bool(member->kind == FLAG));
		}
		break;
	case NESTED:
		break;
	case VALUE:
	case WHOLE:
		add_value(arena, map, member, *(const struct box_value *const *)field);
		break;
	}
}

static struct box_value make_data(const struct row *row, const void *args, struct box_arena *arena)
{
	struct box_value data = box_map_value();
	struct box_value nested = box_map_value();
	const char *nested_key = NULL;
	for (const struct member *member = row->members(); member->key; member++) {
		if (member->kind == NESTED) {
			nested_key = member->key;
		} else if (args) {
			add(arena, nested_key ? &nested : &data, member, args);
		}
	}
	if (nested_key) {
		box_map_add(arena, &data, nested_key, nested);
	}
	return data;
}

int box_call_data(const char *action, const void *args, struct box_arena *arena,
	struct box_value *ret_data, struct box_err *err)
{
	const struct row *row = find(action, err);
	if (!row) {
		return -ENOENT;
	}
	*ret_data = make_data(row, args, arena);
	return 0;
}

/* --- the calls --- */

static int wait_of(const struct row *row, const void *args)
{
	int64_t more_ms = row->more_ms ? row->more_ms(args) : 0;
	return more_ms < INT_MAX - row->wait_ms ? row->wait_ms + (int)more_ms : INT_MAX;
}

int box_call(struct box_line *line, const char *action, const void *args, struct box_arena *arena,
	struct box_value *ret_answer, struct box_err *err)
{
	const struct row *row = find(action, err);
	if (!row) {
		return -ENOENT;
	}
	if (row->stream) {
		return box_err_set(err, BOX_ERR_VALUE, ENOTSUP, "%s streams its answers", action);
	}
	const struct box_value data = make_data(row, args, arena);
	return box_line_call(line, action, &data, wait_of(row, args), arena, ret_answer, err);
}

int box_call_async(struct box_line *line, const char *action, const void *args,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	const struct row *row = find(action, err);
	if (!row) {
		return -ENOENT;
	}
	struct box_arena *arena = box_arena_new();
	const struct box_value data = make_data(row, args, arena);
	int r = row->stream
		? box_line_submit_stream(line, action, &data, answered, arg, ret_seq_id, err)
		: box_line_submit(line, action, &data, answered, arg, ret_seq_id, err);
	box_arena_free(arena);
	return r;
}
