/* Shared by the files of the load client: its options, its one peer, growing texts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
	char *bytes;
	size_t len;
	size_t room;
};

struct options {
	bool ws, stdio, msgpack, plain, echo, exec, network, bare;
	uint16_t port;
	size_t count, warmup, window, text_bytes, sessions, cpus, seconds;
	const char *cmd, *expect, *session, *relay, *socket;
	const char *backend, *root, *instance, *token, *log;
	char **command;
	char *env[64];
	size_t env_count;
};

extern struct options opt;

/* load.c */
_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...);
uint64_t now_ns(void);
void *zeroed(size_t count, size_t size);
char *space(struct text *text, size_t len); /* room for `len` more bytes, not yet counted */
void add(struct text *text, const void *bytes, size_t len);
void add_cstr(struct text *text, const char *more);
void add_byte(struct text *text, unsigned int byte);
void add_big_endian(struct text *out, uint64_t number, int bytes);
void add_escaped(struct text *out, const char *bytes, size_t len); /* inside a JSON string */

/* load_messages.c: requests, and the check of answers */
void make_big(void); /* the text of mode big */
void ask_empty(struct text *out, uint64_t seq, const char *action);
void ask_init(struct text *out, uint64_t seq);
void ask_big(struct text *out, uint64_t seq);
void ask_exec(struct text *out, uint64_t seq, const char *session, const char *cmd, bool network);
void ask_start(struct text *out, uint64_t seq, const char *session, const char *process,
	const char *command);
void ask_delete(struct text *out, uint64_t seq, const char *session);
const char *big_command(void);        /* writes the text of mode big into the file f */
uint64_t check(struct text *message); /* the seq_id of an answer that is a success */
uint64_t check_either(struct text *message, bool *ret_success);
uint64_t check_exec(struct text *message); /* of a command that ended with 0 */
void check_big(const struct text *message);

/* load_measure.c: of messages */
void print_series(uint64_t *times, size_t count); /* sorts them; a JSON map, no newline */
/* Sends one message and takes its answer. The time between, in ns. */
uint64_t round_trip(const struct text *message, struct text *answer, uint64_t seq);
void measure_ping(void);
void measure_flood(void);
void measure_big(void);
void measure_start(void);

/* load_exec.c: of commands in boxes */
void measure_exec(void);
void measure_output(void);
void measure_first(void);
void measure_rate(void);

/* load_relay.c: of streams */
void measure_relay(void);
void measure_relay_flood(void);
void measure_processes(void);
void measure_drain(void);

/* load_spawn.c: of processes on this machine */
void spawns_prepare(size_t rounds); /* of each COMMAND */
void spawns_turn(size_t round);     /* each once */
void spawns_print(void);            /* "spawned": [...], without those that warmed up */
void measure_spawn(void);
void measure_spawns(void);

/* load_peer.c: the connection */
void spawn(void);
void take_signals(void); /* the child ends with us */
void kill_child(void);
void end_child(void);
void dial(void);
void dial_relay(const char *path); /* instead of the connection that there is */
void wrap(struct text *out, const struct text *message); /* adds it as it goes over the wire */
void write_all(const struct text *out);
void receive(struct text *message);    /* one message as it came: on stdio with its chunk lines */
void receive_bytes(struct text *out);  /* with --bare: what there is, some at least */
size_t receive_some(struct text *out); /* the same, or 0 at the end */
bool more_received(void);              /* whether some of the next one is here already */
bool line_is(const char *line, const struct text *message, const char *type);
