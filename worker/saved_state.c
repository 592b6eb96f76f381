/* Writes and replays a memory file of changes. If box-rpc dies while writing one, that change is incomplete and
 * the last in the file, and is ignored. Every box-rpc begins a file of its own, so nothing is ever appended to
 * an incomplete change. */
#include "worker/saved_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "codec/msgpack.h"
#include "codec/msgpack_scan.h"
#include "protocol/boxd_client.h"
#include "runtime/runtime.h"

#define REWRITE_BYTES (1 * BOX_MIB)

struct box_saved_state {
	struct box_runtime *runtime;
	struct box_boxd_client *boxd;
	int fd;
	size_t size;
	size_t size_when_new;
};

/* Replays the change at `bytes`. Returns its length, or 0 when it is incomplete. */
static size_t replay_one(struct box_runtime *runtime, const char *bytes, size_t len)
{
	struct box_msgpack_scan scan;
	const char *why = NULL;
	size_t used = 0;
	box_msgpack_scan_start(&scan);
	if (box_msgpack_scan_feed(&scan, bytes, len, &used, &why) != 1) {
		return 0;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change;
	if (box_msgpack_decode(arena, bytes, used, &change, &why) == 0) {
		box_runtime_replay(runtime, &change);
	}
	return used;
}

void box_saved_state_replay(struct box_runtime *runtime, int fd)
{
	_cleanup_(box_close_p) int owned = fd;
	struct stat st;
	if (owned < 0 || fstat(owned, &st) < 0 || st.st_size <= 0 ||
		(size_t)st.st_size > BOX_SAVED_STATE_BYTES_MAX) {
		return;
	}
	size_t size = (size_t)st.st_size;
	_cleanup_(box_free_p) char *bytes = box_alloc(size);
	ssize_t got = pread(owned, bytes, size, 0);
	size_t at = 0;
	size_t used = 1;
	while (got > 0 && at < (size_t)got && used > 0) {
		used = replay_one(runtime, bytes + at, (size_t)got - at);
		at += used;
	}
}

static int append(struct box_saved_state *state, const struct box_value *change)
{
	struct box_buf buf = box_buf(BOX_MESSAGE_BYTES_MAX);
	int r = box_msgpack_encode(&buf, change);
	if (r == 0 &&
		pwrite(state->fd, buf.bytes, buf.len, (off_t)state->size) != (ssize_t)buf.len) {
		r = -EIO;
	}
	if (r == 0) {
		state->size += buf.len;
	}
	box_buf_free(&buf);
	return r;
}

static void emit(void *arg, const struct box_value *change)
{
	(void)append(arg, change);
}

/* Writes a new file with the whole state and hands it to boxd, which thus gets all of it or nothing. */
static int rewrite(struct box_saved_state *state)
{
	struct box_saved_state fresh = *state;
	fresh.size = 0;
	fresh.fd = memfd_create("box-state", MFD_CLOEXEC);
	if (fresh.fd < 0) {
		return -errno;
	}
	box_runtime_dump(state->runtime, emit, &fresh);
	fresh.size_when_new = fresh.size;
	int r = box_boxd_client_keep_state(state->boxd, fresh.fd);
	if (r < 0) {
		(void)close(fresh.fd);
		return r;
	}
	if (state->fd >= 0) {
		(void)close(state->fd);
	}
	*state = fresh;
	return 0;
}

struct box_saved_state *box_saved_state_open(
	struct box_runtime *runtime, struct box_boxd_client *boxd)
{
	struct box_saved_state *state = box_alloc(sizeof(*state));
	state->runtime = runtime;
	state->boxd = boxd;
	state->fd = -1;
	int r = rewrite(state);
	if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "state.not_kept", box_log_errno("why", r));
	}
	return state;
}

void box_saved_state_append(struct box_saved_state *state, const struct box_value *change)
{
	if (state->fd < 0) {
		return;
	}
	int r = append(state, change);
	if (r == 0 && state->size > REWRITE_BYTES && state->size > 2 * state->size_when_new) {
		r = rewrite(state);
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "state.not_kept", box_log_errno("why", r));
	}
}
