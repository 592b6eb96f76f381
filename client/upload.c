/* Uploads a file to the runtime by `__file_chunk`, with a few pieces in flight. The runtime handles pieces in
 * the order in which they are sent, so an answer only makes room for the next. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/hash.h"
#include "base/limits.h"
#include "base/macros.h"
#include "client/calls.h"

#define AHEAD 8
#define KEY_BYTES 16
#define WAIT_MS 120000

struct piece {
	struct box_upload *upload;
	int64_t seq_id; /* 0: none is pending */
};

struct box_upload {
	struct box_line *line;
	const char *bytes;
	size_t len;
	int64_t amount;
	int64_t sent;
	int64_t taken;
	struct piece pieces[AHEAD];
	char key[BOX_UPLOAD_KEY_SIZE];
	box_upload_done *done;
	void *arg;
};

void box_upload_cancel(struct box_upload *upload)
{
	for (size_t i = 0; i < AHEAD; i++) {
		if (upload->pieces[i].seq_id != 0) {
			box_line_cancel(upload->line, upload->pieces[i].seq_id);
		}
	}
	free(upload);
}

static void finish(struct box_upload *upload, const struct box_err *err)
{
	const struct box_upload ended = *upload;
	box_upload_cancel(upload);
	ended.done(ended.arg, ended.key, err);
}

static void piece_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last);

static int send_piece(struct box_upload *upload, struct piece *piece, struct box_err *err)
{
	size_t at = (size_t)upload->sent * BOX_FILE_CHUNK_BYTES;
	size_t left = upload->len - at;
	struct box_str bytes = {upload->bytes + at, BOX_MIN(left, BOX_FILE_CHUNK_BYTES)};
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	box_map_add(arena, &data, "file_key", box_cstr(upload->key));
	box_map_add(arena, &data, "file_length", box_int((int64_t)upload->len));
	box_map_add(arena, &data, "chunk", box_bin(bytes));
	box_map_add(arena, &data, "chunk_index", box_int(upload->sent));
	box_map_add(arena, &data, "chunk_amount", box_int(upload->amount));
	box_map_add(arena, &data, "chunk_size", box_int((int64_t)bytes.len));
	piece->upload = upload;
	int r = box_line_submit(
		upload->line, "__file_chunk", &data, piece_answered, piece, &piece->seq_id, err);
	box_arena_free(arena);
	upload->sent += r == 0;
	return r;
}

static int send_on(struct box_upload *upload, struct box_err *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < AHEAD && upload->sent < upload->amount; i++) {
		if (upload->pieces[i].seq_id == 0) {
			r = send_piece(upload, &upload->pieces[i], err);
		}
	}
	return r;
}

static void piece_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct piece *piece = arg;
	struct box_upload *upload = piece->upload;
	struct box_err unsent;
	(void)data;
	(void)last;
	piece->seq_id = 0;
	upload->taken++;
	if (err) {
		finish(upload, err);
	} else if (upload->taken == upload->amount) {
		finish(upload, NULL);
	} else if (send_on(upload, &unsent) < 0) {
		finish(upload, &unsent);
	}
}

int box_upload_start(struct box_line *line, const void *bytes, size_t len, box_upload_done *done,
	void *arg, struct box_upload **ret_upload, struct box_err *err)
{
	unsigned char random[KEY_BYTES];
	char hex[2 * KEY_BYTES + 1];
	struct box_upload *upload = box_alloc(sizeof(*upload));
	*upload = (struct box_upload){
		.line = line, .bytes = bytes ? bytes : "", .len = len, .done = done, .arg = arg};
	/* An empty file is one empty piece. */
	upload->amount = len > 0 ? (int64_t)((len - 1) / BOX_FILE_CHUNK_BYTES) + 1 : 1;
	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		abort();
	}
	box_hash_hex(random, sizeof(random), hex);
	(void)snprintf(upload->key, sizeof(upload->key), "%s.zip", hex);
	int r = send_on(upload, err);
	if (r < 0) {
		box_upload_cancel(upload);
		return r;
	}
	*ret_upload = upload;
	return 0;
}

/* --- waiting --- */

struct waiting {
	bool done;
	int result;
	struct box_err *err;
	char key[BOX_UPLOAD_KEY_SIZE];
};

static void upload_done(void *arg, const char *file_key, const struct box_err *err)
{
	struct waiting *waiting = arg;
	waiting->done = true;
	memcpy(waiting->key, file_key, sizeof(waiting->key));
	if (err) {
		waiting->result = box_err_set(
			waiting->err, err->code, err->errnum, "%s", err->text);
	}
}

int box_upload(struct box_line *line, const void *bytes, size_t len,
	char ret_file_key[BOX_UPLOAD_KEY_SIZE], struct box_err *err)
{
	struct waiting waiting = {.err = err};
	struct box_upload *upload;
	int r = box_upload_start(line, bytes, len, upload_done, &waiting, &upload, err);
	if (r == 0 && box_line_wait_for(line, &waiting.done, WAIT_MS) < 0) {
		box_upload_cancel(upload);
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"the upload was not accepted within %d ms", WAIT_MS);
	}
	if (r == 0 && waiting.result == 0) {
		memcpy(ret_file_key, waiting.key, sizeof(waiting.key));
	}
	return r < 0 ? r : waiting.result;
}
