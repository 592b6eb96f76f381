/* One relay, as ws_relay.c (output, life) and ws_relay_in.c (what the client says) share it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/limits.h"
#include "transport/relay_output.h"
#include "transport/ws.h"

#define BOX_WS_RELAY_UNCONFIRMED_BYTES \
	(1024 * BOX_KIB)              /* not confirmed; a line that is longer is let grow */
#define BOX_WS_RELAY_CONTROL_BYTES 32 /* the longest of our own messages of box.v1 */

/* box.v1: the first byte of a message. The offsets behind it are eight bytes, high ones first. */
enum box_ws_relay_v1 {
	BOX_WS_RELAY_V1_DATA = 1, /* output or input: offset, bytes */
	BOX_WS_RELAY_V1_DONE =
		2, /* so far output is safe with the client, input with the process: offset */
	BOX_WS_RELAY_V1_BEGIN =
		3, /* client, first: from which offset; we: the offsets of output and input */
	BOX_WS_RELAY_V1_END =
		4, /* client: the input ends at this offset; we: the exit code, then we close */
};

struct box_ws_relay {
	struct box_ws_socket *socket;
	struct box_process_reader *reader;
	bool reading;
	bool v1;
	bool attached;
	bool paused;
	bool over; /* nothing more is taken: closed when the client has all */
	struct box_relay_output pieces;
	uint64_t received;  /* output up to here is here */
	uint64_t confirmed; /* and up to here with the client for sure */
	uint64_t claimed;   /* box.v1: and up to here it says so, sent by us or by one before us */
	uint64_t until;     /* asked for */
	uint64_t sent;      /* up to here written to the socket */
	uint64_t pinged;    /* up to here a ping asks */
	bool waking;        /* soon the process is told what was confirmed */
	bool ping_under_way;
	bool last_ping; /* that one is behind all */
	int last_code;  /* to close with then */
	const char *last_reason;
	struct box_buf early; /* input that came before its turn */
	uint64_t taken;       /* of the input, by the process */
	/* A ping or a message of box.v1, in front of all pieces; with room for a frame's head. */
	char control[BOX_BUF_HEADROOM + BOX_WS_RELAY_CONTROL_BYTES];
	size_t control_len;
	bool control_is_ping;
	bool begin_due;
	bool done_due;
	bool end_due;
	uint64_t first_input;
	int32_t exit_code;
	bool ended;
};

static inline void box_bytes_put_be64(char *to, uint64_t value)
{
	for (int i = 0; i < 8; i++) {
		to[i] = (char)(value >> (56 - 8 * i));
	}
}

static inline uint64_t box_bytes_get_be64(const char *from)
{
	uint64_t value = 0;
	for (int i = 0; i < 8; i++) {
		value = value << 8 | (unsigned char)from[i];
	}
	return value;
}

/* --- ws_relay.c --- */

/* So far the client says that it has its output. */
void box_ws_relay_claim(struct box_ws_relay *relay, uint64_t offset);

/* --- ws_relay_in.c --- */

/* A whole message, for box_ws_user. */
int box_ws_relay_message(void *arg, struct box_buf message, bool binary, const char **ret_why);
/* Its turn has come: what it sent before goes in. */
void box_ws_relay_feed_early(struct box_ws_relay *relay);
/* Stops to read the client, or goes on. */
void box_ws_relay_balance_reading(struct box_ws_relay *relay);
