/* The send queue of one libbox connection: callers that always have more to send than the socket
 * takes, and what is sent without queueing. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/limits.h"
#include "client/connection/wire.h"
#include "codec/msgpack.h"
#include "tests/unit/lib/test.h"

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

/* No more is held than what waits, and the same amount of sent bytes. */
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
	/* Enough to fill the socket; from then on one is added for each that is sent. */
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

/* --- long requests are sent from where they are --- */

#define LARGE_BYTES (300 * BOX_KIB)

/* A connection to this host, and a large request. */
struct scene {
	int theirs;
	struct box_wire wire;
	struct box_err err;
	struct box_arena *arena;
	struct box_value message;
	struct box_buf came;
};

static struct scene scene_open(int send_bytes, size_t len)
{
	struct scene scene = {.arena = box_arena_new(),
		.message = box_map_value(),
		.came = box_buf(BOX_OUT_BYTES_MAX)};
	struct box_value data = box_map_value();
	int ends[2];
	ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
	ASSERT_INT(setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes)), 0);
	scene.theirs = ends[1];
	scene.wire = (struct box_wire){.fd = ends[0],
		.websocket = true,
		.loopback = true,
		.out = box_buf(BOX_OUT_BYTES_MAX)};
	char *bytes = box_arena_alloc(scene.arena, len);
	for (size_t i = 0; i < len; i++) {
		bytes[i] = (char)(i * 31 + i / 256);
	}
	box_map_add(scene.arena, &data, "exec_id", box_cstr("an id"));
	box_map_add(scene.arena, &data, "data", box_bin((struct box_str){bytes, len}));
	box_map_add(scene.arena, &data, "eof", box_bool(true));
	box_map_add(scene.arena, &scene.message, "seq_id", box_int(1));
	box_map_add(scene.arena, &scene.message, "data", data);
	box_map_add(scene.arena, &scene.message, "context", box_cstr("behind it"));
	return scene;
}

static void scene_close(struct scene *scene)
{
	box_buf_free(&scene->came);
	box_buf_free(&scene->wire.out);
	box_arena_free(scene->arena);
	ASSERT_INT(close(scene->wire.fd), 0);
	ASSERT(scene->theirs < 0 || close(scene->theirs) == 0);
}

/* Reads everything that arrives while the queue is flushed. */
static void take_all(struct scene *scene)
{
	char bytes[1000];
	ssize_t got;
	do {
		ASSERT_INT(box_wire_flush(&scene->wire, &scene->err), 0);
		while ((got = recv(scene->theirs, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
			ASSERT_INT(box_buf_append(&scene->came, bytes, (size_t)got), 0);
		}
	} while (box_wire_pending(&scene->wire));
}

/* Exactly `count` copies of the message have arrived. */
static void check_came(const struct scene *scene, size_t count)
{
	static const unsigned char no_mask[BOX_WS_MASK_BYTES];
	struct box_buf one = box_buf(BOX_OUT_BYTES_MAX);
	size_t mark = 0;
	ASSERT_INT(box_ws_client_frame_begin(&one, &mark), 0);
	ASSERT_INT(box_msgpack_encode(&one, &scene->message), 0);
	box_ws_client_frame_end(&one, mark, BOX_WS_BINARY, no_mask);
	ASSERT_INT(scene->came.len, count * one.len);
	for (size_t i = 0; i < count; i++) {
		ASSERT(memcmp(scene->came.bytes + i * one.len, one.bytes, one.len) == 0);
	}
	box_buf_free(&one);
}

TEST(a_long_piece_that_the_socket_takes_is_not_queued)
{
	struct scene scene = scene_open(4 * LARGE_BYTES, LARGE_BYTES);
	ASSERT_INT(box_wire_send(&scene.wire, &scene.message, &scene.err), 0);
	ASSERT(!box_wire_pending(&scene.wire));
	ASSERT(scene.wire.out.room < PIECE_BYTES);
	take_all(&scene);
	check_came(&scene, 1);
	scene_close(&scene);
}

TEST(a_long_piece_goes_out_whole_wherever_the_socket_stops)
{
	for (int send_bytes = 2048; send_bytes <= 2 * (int)LARGE_BYTES; send_bytes *= 2) {
		for (size_t count = 1; count <= 5; count += 4) {
			struct scene scene = scene_open(send_bytes, LARGE_BYTES);
			for (size_t i = 0; i < count; i++) {
				ASSERT_INT(
					box_wire_send(&scene.wire, &scene.message, &scene.err), 0);
			}
			take_all(&scene);
			check_came(&scene, count);
			scene_close(&scene);
		}
	}
}

TEST(one_that_is_too_long_is_refused_and_leaves_nothing)
{
	struct scene scene = scene_open(LARGE_BYTES, BOX_MESSAGE_BYTES_MAX);
	ASSERT_INT(box_wire_send(&scene.wire, &scene.message, &scene.err), -EMSGSIZE);
	ASSERT(!box_wire_pending(&scene.wire));
	ASSERT_INT(drain(scene.theirs, 1), 0);
	scene_close(&scene);
}

TEST(one_to_who_is_gone_fails_when_it_is_flushed)
{
	struct scene scene = scene_open(LARGE_BYTES, LARGE_BYTES);
	ASSERT_INT(close(scene.theirs), 0);
	scene.theirs = -1;
	ASSERT_INT(box_wire_send(&scene.wire, &scene.message, &scene.err), 0);
	ASSERT(box_wire_flush(&scene.wire, &scene.err) < 0);
	scene_close(&scene);
}
