/* The queue of one connection of libbox: who always has more to send than the socket takes. */
#include <sys/socket.h>

#include "base/arena.h"
#include "base/limits.h"
#include "client/wire.h"
#include "tests/unit/test.h"

#define PIECE_BYTES (64 * BOX_KIB)
#define MESSAGES 200

static size_t drain(int fd, size_t most)
{
	static char bytes[PIECE_BYTES];
	size_t total = 0;
	ssize_t got;
	while (total < most && (got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
		total += (size_t)got;
	}
	return total;
}

/* Not more is held than what waits, and as much again that was sent. */
TEST(a_queue_that_is_never_empty_does_not_grow)
{
	static char bytes[PIECE_BYTES];
	int ends[2];
	struct box_wire wire;
	struct box_err err;
	struct box_arena *arena = box_arena_new();
	struct box_value message = box_map_value();
	size_t sent = 0;
	size_t taken = 0;
	box_map_add(arena, &message, "data", box_bin((struct box_str){bytes, sizeof(bytes)}));
	ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	box_wire_start_stdio(&wire, ends[0]);
	/* So many that the socket is full, and from then on one in for each that is taken. */
	for (int i = 0; i < MESSAGES; i++) {
		size_t before = wire.out.len;
		ASSERT_INT(box_wire_send(&wire, &message, &err), 0);
		sent += wire.out.len - before;
		ASSERT_INT(box_wire_flush(&wire, &err), 0);
		taken += i < 20 ? 0 : drain(ends[1], PIECE_BYTES);
		ASSERT(wire.out.len < 64 * PIECE_BYTES);
	}
	ASSERT(box_wire_pending(&wire));
	while (box_wire_pending(&wire)) {
		taken += drain(ends[1], PIECE_BYTES);
		ASSERT_INT(box_wire_flush(&wire, &err), 0);
	}
	taken += drain(ends[1], SIZE_MAX);
	ASSERT_INT(taken, sent);
	box_wire_close(&wire);
	ASSERT_INT(close(ends[1]), 0);
	box_arena_free(arena);
}
