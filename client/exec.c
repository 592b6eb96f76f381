/* One live command from its start to its end. A few pieces of input are in flight at a time; the next is sent
 * when one of them was taken. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "client/box.h"

#define EXEC_ID_MAX 256

struct box_exec;

/* A piece of input. Answers may arrive out of order: an empty last piece is answered at once. */
struct input {
	struct box_exec *exec;
	bool sent; /* but not answered */
	int64_t seq_id;
};

struct box_exec {
	struct box_client *client;
	const struct box_exec_events *events;
	void *arg;
	int64_t seq_id;
	bool input; /* the command has input */
	struct input inputs[BOX_EXEC_INPUTS_MAX];
	bool has_terminal;
	struct box_exec_terminal wanted;    /* the size that the caller set */
	struct box_exec_terminal sent_size; /* the size that was last sent */
	bool resize_sent; /* a resize is pending: the next one waits, and the last one counts */
	int64_t resize_seq_id;
	bool ended;
	bool has_result;
	struct box_exec_result result;
	char exec_id[EXEC_ID_MAX + 1]; /* empty until it has started */
};

static struct box_str text_of(const struct box_value *map, const char *key)
{
	const struct box_value *value = box_map_get(map, key);
	bool is_text = value && (value->type == BOX_STR || value->type == BOX_BIN);
	return is_text ? value->str : (struct box_str){"", 0};
}

static int64_t int_of(const struct box_value *map, const char *key, int64_t otherwise)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_INT ? value->integer : otherwise;
}

static void finish(struct box_exec *exec, const struct box_err *err)
{
	struct box_err none;
	exec->ended = true;
	if (!err && !exec->has_result) {
		(void)box_err_set(
			&none, BOX_ERR_BOX, EPROTO, "the runtime sent no result of the command");
		err = &none;
	}
	exec->events->ended(exec->arg, err ? NULL : &exec->result, err);
}

static void read_result(struct box_exec *exec, const struct box_value *data)
{
	struct box_str reason = text_of(box_map_get(data, "end"), "reason");
	int64_t code = int_of(data, "exit_code", -1);
	exec->has_result = true;
	exec->result.timed_out = box_str_eq(text_of(data, "status"), "timed_out");
	exec->result.exit_code = code >= 0 && code <= 255 ? (int)code : -1;
	exec->result.duration_ms = int_of(data, "duration_ms", 0);
	if (reason.len < sizeof(exec->result.reason)) {
		memcpy(exec->result.reason, reason.bytes, reason.len);
	}
}

/* --- its terminal --- */

static void add_size(
	struct box_arena *arena, struct box_value *map, const struct box_exec_terminal *size)
{
	box_map_add(arena, map, "rows", box_int(size->rows));
	box_map_add(arena, map, "cols", box_int(size->cols));
}

static int send_size(struct box_exec *exec, struct box_err *err);

/* The command may have ended meanwhile; a size that was refused would be refused again. */
static void resize_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_exec *exec = arg;
	(void)data;
	(void)last;
	exec->resize_sent = false;
	if (!err) {
		(void)send_size(exec, NULL);
	}
}

/* Sends the wanted size, unless the runtime knows it or a resize is pending. */
static int send_size(struct box_exec *exec, struct box_err *err)
{
	bool known = exec->wanted.rows == exec->sent_size.rows &&
		exec->wanted.cols == exec->sent_size.cols;
	if (known || exec->resize_sent || exec->ended || exec->exec_id[0] == '\0') {
		return 0;
	}
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	box_map_add(arena, &data, "exec_id", box_cstr(exec->exec_id));
	add_size(arena, &data, &exec->wanted);
	int r = box_client_submit(exec->client, "box_exec_resize", &data, resize_answered, exec,
		&exec->resize_seq_id, err);
	box_arena_free(arena);
	if (r == 0) {
		exec->resize_sent = true;
		exec->sent_size = exec->wanted;
	}
	return r;
}

int box_exec_resize(struct box_exec *exec, struct box_exec_terminal size, struct box_err *err)
{
	if (!exec->has_terminal) {
		return box_err_set(err, BOX_ERR_VALUE, ENOTTY, "the command has no terminal");
	}
	if (size.rows == 0 || size.cols == 0) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "a terminal has at least one row and column");
	}
	exec->wanted = size;
	return send_size(exec, err);
}

/* --- live --- */

static void live_event(struct box_exec *exec, const struct box_value *data)
{
	struct box_str event = text_of(data, "event");
	if (box_str_eq(event, "stdout")) {
		exec->events->output(exec->arg, 1, text_of(data, "data"));
	} else if (box_str_eq(event, "stderr")) {
		exec->events->output(exec->arg, 2, text_of(data, "data"));
	} else if (box_str_eq(event, "exit")) {
		read_result(exec, data);
	} else if (box_str_eq(event, "started")) {
		struct box_str id = text_of(data, "exec_id");
		if (id.len <= EXEC_ID_MAX) {
			memcpy(exec->exec_id, id.bytes, id.len);
		}
		(void)send_size(exec, NULL);
	}
}

static void live_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct box_exec *exec = arg;
	if (err || last) {
		finish(exec, err);
	} else {
		live_event(exec, data);
	}
}

/* --- begin, input, signals, end --- */

static int start_live(struct box_exec *exec, const struct box_value *spec, struct box_err *err)
{
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_value_copy(arena, spec);
	box_map_add(arena, &data, "stdin", box_bool(exec->input));
	struct box_value tty = exec->has_terminal ? box_map_value() : box_null();
	if (exec->has_terminal) {
		add_size(arena, &tty, &exec->wanted);
	}
	box_map_add(arena, &data, "tty", tty);
	int r = box_client_submit_stream(
		exec->client, "box_exec_stream", &data, live_answered, exec, &exec->seq_id, err);
	box_arena_free(arena);
	return r;
}

int box_exec_start(struct box_client *client, const struct box_value *spec, bool has_input,
	const struct box_exec_terminal *terminal, const struct box_exec_events *events, void *arg,
	struct box_exec **ret_exec, struct box_err *err)
{
	struct box_exec *exec = box_alloc(sizeof(*exec));
	exec->client = client;
	exec->events = events;
	exec->arg = arg;
	exec->input = has_input;
	if (terminal) {
		exec->has_terminal = true;
		exec->wanted = exec->sent_size = *terminal;
	}
	int r = start_live(exec, spec, err);
	if (r < 0) {
		free(exec);
		return r;
	}
	*ret_exec = exec;
	return 0;
}

void box_exec_taken(struct box_exec *exec)
{
	if (!exec->ended) {
		box_client_taken(exec->client, exec->seq_id);
	}
}

/* The index of a free piece, or BOX_EXEC_INPUTS_MAX. */
static size_t free_input(const struct box_exec *exec)
{
	size_t at = 0;
	while (at < BOX_EXEC_INPUTS_MAX && exec->inputs[at].sent) {
		at++;
	}
	return at;
}

bool box_exec_wants_input(const struct box_exec *exec)
{
	return exec->input && free_input(exec) < BOX_EXEC_INPUTS_MAX && !exec->ended &&
		exec->exec_id[0] != '\0';
}

/* A command may end or close its stdin while input is in flight: then it wants no more. */
static void input_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct input *input = arg;
	(void)data;
	(void)last;
	input->sent = false;
	if (err) {
		input->exec->input = false;
	}
}

int box_exec_input(
	struct box_exec *exec, const void *bytes, size_t len, bool eof, struct box_err *err)
{
	if (!box_exec_wants_input(exec)) {
		return box_err_set(err, BOX_ERR_VALUE, EAGAIN, "the command cannot take input now");
	}
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	struct box_value piece = {.type = BOX_BIN, .str = {bytes, len}};
	box_map_add(arena, &data, "exec_id", box_cstr(exec->exec_id));
	box_map_add(arena, &data, "data", piece);
	box_map_add(arena, &data, "eof", box_bool(eof));
	struct input *input = &exec->inputs[free_input(exec)];
	input->exec = exec;
	int r = box_client_submit(
		exec->client, "box_exec_input", &data, input_answered, input, &input->seq_id, err);
	box_arena_free(arena);
	if (r == 0) {
		input->sent = true;
		exec->input = !eof;
	}
	return r;
}

/* The command may have ended before the signal arrived; its end shows that. */
static void signal_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	(void)arg;
	(void)data;
	(void)err;
	(void)last;
}

int box_exec_signal(struct box_exec *exec, int number, struct box_err *err)
{
	if (exec->ended || exec->exec_id[0] == '\0') {
		return box_err_set(err, BOX_ERR_VALUE, EAGAIN, "the command is not running");
	}
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	box_map_add(arena, &data, "exec_id", box_cstr(exec->exec_id));
	box_map_add(arena, &data, "signal", box_int(number));
	int r = box_client_submit(
		exec->client, "box_exec_signal", &data, signal_answered, NULL, NULL, err);
	box_arena_free(arena);
	return r;
}

void box_exec_free(struct box_exec *exec)
{
	if (!exec) {
		return;
	}
	for (size_t i = 0; i < BOX_EXEC_INPUTS_MAX; i++) {
		if (exec->inputs[i].sent) {
			box_client_cancel(exec->client, exec->inputs[i].seq_id);
		}
	}
	if (exec->resize_sent) {
		box_client_cancel(exec->client, exec->resize_seq_id);
	}
	if (!exec->ended) {
		box_client_cancel(exec->client, exec->seq_id);
	}
	free(exec);
}

/* --- command lines --- */

static bool needs_quotes(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./:,@%+";
	return word[0] == '\0' || word[strspn(word, plain)] != '\0';
}

/* Between single quotes only the single quote itself is special. */
static int append_word(struct box_buf *out, const char *word)
{
	if (!needs_quotes(word)) {
		return box_buf_append_str(out, word);
	}
	int r = box_buf_append(out, "'", 1);
	while (r == 0 && *word) {
		size_t len = strcspn(word, "'");
		r = box_buf_append(out, word, len);
		word += len;
		if (r == 0 && *word == '\'') {
			r = box_buf_append_str(out, "'\\''");
			word++;
		}
	}
	return r < 0 ? r : box_buf_append(out, "'", 1);
}

int box_exec_join_words(struct box_buf *out, const char *const *words, size_t count)
{
	if (count == 1) {
		return box_buf_append_str(out, words[0]);
	}
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = i > 0 ? box_buf_append(out, " ", 1) : 0;
		if (r == 0) {
			r = append_word(out, words[i]);
		}
	}
	return r;
}
