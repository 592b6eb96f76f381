/* __file_chunk: uploads of a connection, each in a memfd, and the action that adds to them. */
#include "handlers/transfers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/base64.h"
#include "base/err.h"
#include "base/table.h"
#include "handlers/actions.h"
#include "handlers/peer.h"
#include "handlers/request.h"
#include "runtime/runtime.h"

struct file {
	int fd;
	int64_t amount;
	int64_t next_index;
	uint64_t size;
};

struct box_transfers {
	struct box_table by_key;
	uint64_t *total_bytes;
};

struct box_transfers *box_transfers_new(uint64_t *total_bytes)
{
	struct box_transfers *files = box_alloc(sizeof(*files));
	files->total_bytes = total_bytes;
	return files;
}

static void file_free(struct box_transfers *files, struct file *file)
{
	*files->total_bytes -= file->size;
	(void)close(file->fd);
	free(file);
}

void box_transfers_free(struct box_transfers *files)
{
	if (!files) {
		return;
	}
	uint64_t position = 0;
	struct file *file;
	while ((file = box_table_next(&files->by_key, &position, NULL))) {
		file_free(files, file);
	}
	box_table_free(&files->by_key);
	free(files);
}

/* `[A-Za-z0-9][A-Za-z0-9._-]{0,254}` without `..` */
static bool key_valid(struct box_str key)
{
	if (key.len == 0 || key.len > BOX_FILE_KEY_MAX) {
		return false;
	}
	for (size_t i = 0; i < key.len; i++) {
		char c = key.bytes[i];
		bool alphanumeric = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
			(c >= '0' && c <= '9');
		bool punctuation = c == '.' || c == '_' || c == '-';
		bool second_dot = c == '.' && i > 0 && key.bytes[i - 1] == '.';
		if (!alphanumeric && (!punctuation || i == 0 || second_dot)) {
			return false;
		}
	}
	return true;
}

static int file_start(struct box_transfers *files, const struct box_transfers_chunk *chunk,
	struct file **ret_file, struct box_err *err)
{
	if (files->by_key.count >= BOX_FILES_MAX) {
		return box_err_set(
			err, BOX_ERR_VALUE, ENOSPC, "Active file transfer capacity reached");
	}
	struct file *file = box_alloc(sizeof(*file));
	file->fd = memfd_create("box-file", MFD_CLOEXEC);
	if (file->fd < 0) {
		int errnum = errno;
		free(file);
		return box_err_set(err, BOX_ERR_OS, errnum, "cannot hold a file: %s",
			box_err_strerror(errnum));
	}
	file->amount = chunk->amount;
	box_table_put(&files->by_key, chunk->key, file);
	*ret_file = file;
	return 0;
}

static int file_append(
	struct box_transfers *files, struct file *file, struct box_str bytes, struct box_err *err)
{
	for (size_t done = 0; done < bytes.len;) {
		ssize_t wrote = pwrite(
			file->fd, bytes.bytes + done, bytes.len - done, (off_t)(file->size + done));
		if (wrote < 0 && errno != EINTR) {
			return box_err_set(err, BOX_ERR_OS, errno, "cannot hold a file: %s",
				box_err_strerror(errno));
		}
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	file->size += bytes.len;
	file->next_index++;
	*files->total_bytes += bytes.len;
	return 0;
}

static int check_size(const struct box_transfers *files, const struct file *file, size_t more,
	int64_t max_file_bytes, struct box_err *err)
{
	if (file->size + more > (uint64_t)max_file_bytes) {
		return box_err_set(err, BOX_ERR_VALUE, EFBIG,
			"File transfer exceeds the configured size limit");
	}
	if (*files->total_bytes + more > BOX_FILES_TOTAL_BYTES_MAX) {
		return box_err_set(
			err, BOX_ERR_VALUE, ENOSPC, "Active file transfer capacity reached");
	}
	return 0;
}

int box_transfers_take_chunk(struct box_transfers *files, const struct box_transfers_chunk *chunk,
	int64_t max_file_bytes, struct box_err *err)
{
	if (!key_valid(chunk->key)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "Invalid file transfer key");
	}
	struct file *file = box_table_get(&files->by_key, chunk->key);
	if (chunk->index == 0 && file) {
		box_table_remove(&files->by_key, chunk->key);
		file_free(files, file);
		file = NULL;
	}
	if (chunk->index == 0) {
		int r = file_start(files, chunk, &file, err);
		if (r < 0) {
			return r;
		}
	}
	if (!file || file->next_index != chunk->index || file->amount != chunk->amount) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "Invalid file transfer capability");
	}
	int r = check_size(files, file, chunk->bytes.len, max_file_bytes, err);
	if (r == 0) {
		r = file_append(files, file, chunk->bytes, err);
	}
	if (r < 0) {
		box_table_remove(&files->by_key, chunk->key);
		file_free(files, file);
	}
	return r;
}

int box_transfers_take(
	struct box_transfers *files, struct box_str key, int *ret_fd, struct box_err *err)
{
	const struct file *found = box_table_get(&files->by_key, key);
	if (!found || found->next_index != found->amount) {
		return box_err_set(err, BOX_ERR_VALUE, ENOENT, "Invalid file transfer capability");
	}
	struct file *file = box_table_remove(&files->by_key, key);
	*ret_fd = fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
	file_free(files, file);
	return *ret_fd < 0 ? box_err_set(err, BOX_ERR_OS, errno, "cannot hold a file: %s",
				     box_err_strerror(errno))
			   : 0;
}

/* --- the action --- */

static int chunk_bytes(
	const struct box_request *request, struct box_str *ret_bytes, struct box_err *err)
{
	const struct box_value *raw = box_request_field(request, "chunk");
	const struct box_value *text = box_request_field(request, "chunk_base64");
	if (raw) {
		*ret_bytes = raw->str;
	} else if (text) {
		size_t room = text->str.len / 4 * 3;
		char *bytes = box_arena_bytes(request->arena, room);
		ssize_t len = box_base64_decode(text->str, bytes, room);
		if (len < 0) {
			return box_err_set(
				err, BOX_ERR_VALUE, EINVAL, "chunk_base64 is not valid base64");
		}
		*ret_bytes = (struct box_str){bytes, (size_t)len};
	} else {
		return box_err_set(err, BOX_ERR_KEY, EINVAL, "'chunk_base64'");
	}
	if (ret_bytes->len > BOX_FILE_CHUNK_BYTES) {
		return box_err_set(err, BOX_ERR_VALUE, EMSGSIZE,
			"File transfer chunk exceeds the protocol limit");
	}
	return 0;
}

void box_action_file_chunk(struct box_request *request)
{
	struct box_err err;
	struct box_transfers_chunk chunk = {
		.key = box_request_field(request, "file_key")->str,
		.index = box_request_field(request, "chunk_index")->integer,
		.amount = box_request_field(request, "chunk_amount")->integer,
	};
	int r = 0;
	if (chunk.amount <= 0 || chunk.index < 0 || chunk.index >= chunk.amount) {
		r = box_err_set(&err, BOX_ERR_VALUE, EINVAL, "Invalid file chunk position");
	}
	if (r == 0) {
		r = chunk_bytes(request, &chunk.bytes, &err);
	}
	if (r == 0) {
		r = box_transfers_take_chunk(box_peer_transfers(request->peer), &chunk,
			request->runtime->config->limits.max_rpc_file_bytes, &err);
	}
	if (r < 0) {
		box_request_fail(request, &err);
		return;
	}
	struct box_value empty = box_map_value();
	box_request_reply(request, &empty);
}
