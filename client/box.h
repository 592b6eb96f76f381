/* libbox: what a program includes to use boxes.
 *
 *   struct box_client_options options = {.endpoint = "ws://127.0.0.1:5410"};
 *   struct box_client *client;
 *   struct box_err err;
 *   if (box_client_open(&options, &client, &err) < 0) { ... err.text ... }
 *
 * One client is one connection, used from one thread. Requests go out at once and are answered
 * in any order, each to its own callback. A program with a loop of its own polls box_client_fd
 * for box_client_events and calls box_client_step; one without calls box_client_wait or
 * box_client_call. Data are value trees (base/value.h) in arenas (base/arena.h); the actions and
 * their members are in docs/protocol.md.
 *
 * Functions return 0 or a negative errno; err, which may be NULL, says why. An error that the
 * runtime answered has its code by name and its text without the name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/value.h"

#pragma GCC visibility push(default)

#define BOX_INSTANCE_DEFAULT "box"
#define BOX_WORKSPACE_DEFAULT "box"

struct box_client;

struct box_client_options {
	/* Which runtime: the one at this URL (ws://HOST[:PORT], http:// for it, or unix:/PATH of the
	 * operator's socket), or where none is named one of our own, `boxd -s` as a child that ends
	 * with this client. */
	const char *endpoint;
	/* With no endpoint: dial the operator's socket of this user's boxd or of root's, then
	 * ws://127.0.0.1:5410. */
	bool standalone;
	bool spawn; /* with no endpoint: start a child in a container too, not dial */
	/* With no endpoint, in a container: dial this, such as ws://langbot_box:5410. NULL: as with
	 * standalone. */
	const char *container_endpoint;

	/* Who we are. NULL: what the environment says (LANGBOT_BOX_TRUSTED_INSTANCE_UUID,
	 * LANGBOT_BOX_CONTROL_TOKEN), then the defaults above; on the operator's socket its own
	 * instance. A child gets secrets of its own. */
	const char *instance;
	const char *token;
	const char *workspace; /* "": that of clients which send no context */
	int64_t generation;    /* 0 means 1 */

	/* The child. */
	const char *boxd;   /* NULL: beside this program, where it is installed, on PATH */
	const char *config; /* its --config, or NULL */
	bool show_log;      /* its log goes to our stderr */
	/* Without show_log: the last lines of its log, when it ends before it should. */
	void (*log_line)(void *arg, const char *line);
	void *log_arg;
};

/* Connects, and waits until the runtime answers. */
int box_client_open(const struct box_client_options *options, struct box_client **ret_client,
	struct box_err *err);

/* Requests under way are forgotten without a callback. A child is waited for. NULL is fine. */
void box_client_close(struct box_client *client);
static inline void box_client_close_p(struct box_client **client)
{
	box_client_close(*client);
}

/* True when the runtime is a child of ours and ends with the client. */
bool box_client_is_private(const struct box_client *client);
/* Where the runtime was found: ws://HOST:PORT or unix:PATH; NULL for a child. */
const char *box_client_endpoint(const struct box_client *client);

/* --- requests --- */

/* One answer. `data` is a map, good until the callback returns; NULL when `err` is set. `last`: no
 * other will come. A callback may submit and cancel; it must not step or close the client. */
typedef void box_client_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last);

/* Sends a request; `data` is not needed afterwards. -EBUSY with 128 under way, -EMSGSIZE when it is
 * too large, -EILSEQ when a text in it is no UTF-8, -ENOTCONN when the connection is gone. */
int box_client_submit(struct box_client *client, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);

/* The same for an action that streams its answers. At most 8 come that were not taken. */
int box_client_submit_stream(struct box_client *client, const char *action,
	const struct box_value *data, box_client_answered *answered, void *arg, int64_t *ret_seq_id,
	struct box_err *err);

/* All answers of the stream that have come are dealt with: the runtime may send more. */
void box_client_taken(struct box_client *client, int64_t seq_id);

/* Ends a request under way; its callback is not called any more. */
void box_client_cancel(struct box_client *client, int64_t seq_id);

/* --- a loop of the caller's --- */

int box_client_fd(const struct box_client *client);       /* -1 once the connection is over */
short box_client_events(const struct box_client *client); /* of poll(2) */

/* Reads and writes what can be, without waiting, and calls back. Negative when the connection is
 * over: every request has been answered with BOX_ERR_RUNTIME_UNAVAILABLE by then. */
int box_client_step(struct box_client *client, struct box_err *err);

/* --- without one --- */

/* One turn that waits for something to happen, timeout_ms at most (-1: for ever). A signal ends the
 * wait with -EINTR. */
int box_client_wait(struct box_client *client, int timeout_ms, struct box_err *err);

/* Asks and waits for the answer, whose data are copied into the arena. -ETIMEDOUT after
 * timeout_ms. */
int box_client_call(struct box_client *client, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err);

/* --- commands --- */

struct box_exec;

struct box_exec_result {
	bool timed_out;
	int exit_code;   /* 128+n for signal n; -1 when timed out */
	char reason[16]; /* "exit", "signal", "memory", "timeout"; empty when not told */
	int64_t duration_ms;
};

struct box_exec_events {
	/* Output as it comes; fd is 1 or 2. Call box_exec_taken when it is dealt with. */
	void (*output)(void *arg, int fd, struct box_str bytes);
	/* The end: a result, or an error. */
	void (*ended)(void *arg, const struct box_exec_result *result, const struct box_err *err);
};

struct box_exec_terminal {
	uint16_t rows; /* both at least 1 */
	uint16_t cols;
};

/* Starts a command; `spec` is a box spec. With `has_input` it reads what box_exec_input gives, else
 * nothing. With `terminal` a terminal of that size is its stdin, stdout and stderr, and all its
 * output comes as fd 1; NULL: three pipes. */
int box_exec_start(struct box_client *client, const struct box_value *spec, bool has_input,
	const struct box_exec_terminal *terminal, const struct box_exec_events *events, void *arg,
	struct box_exec **ret_exec, struct box_err *err);

/* All output so far is dealt with. Without this no more than 8 pieces come. */
void box_exec_taken(struct box_exec *exec);

/* Pieces of input that the command has not taken: so many that it never waits for the next while one
 * of them is on its way. */
#define BOX_EXEC_INPUTS_MAX 16

/* Whether box_exec_input would send: the command runs, and fewer pieces of input than that are on their
 * way to it. */
bool box_exec_wants_input(const struct box_exec *exec);

/* Input for the command; with `eof` the last. -EAGAIN while box_exec_wants_input says no. A
 * terminal has no end: there `eof` types Ctrl-D. */
int box_exec_input(
	struct box_exec *exec, const void *bytes, size_t len, bool eof, struct box_err *err);

/* Its terminal has this size from now on, or from its start on if that is still to come. Of sizes
 * that come faster than the runtime answers the last counts. -ENOTTY when it has no terminal. */
int box_exec_resize(struct box_exec *exec, struct box_exec_terminal size, struct box_err *err);

/* Sends a signal, 1 to 64, to the command's process group; what comes of it is seen by its end.
 * -EAGAIN before it has started and after its end. */
int box_exec_signal(struct box_exec *exec, int number, struct box_err *err);

/* Ends the command if it runs, and frees. NULL is fine. Before box_client_close. */
void box_exec_free(struct box_exec *exec);

/* --- managed processes ---
 *
 * A relay is the stdin and stdout of one managed process, by the protocol box.v1 of
 * docs/protocol.md. It is a connection of its own beside the client's. One that breaks is
 * dialled again, and goes on where it was: nothing is lost and nothing comes twice. */

struct box_relay;

struct box_relay_events {
	/* It is our turn: output begins at `offset`. Others may be attached before us; and this
	 * comes again after the connection was dialled again, then with the offset behind what
	 * came last, or later when somebody else has read meanwhile. */
	void (*attached)(void *arg, uint64_t offset);
	/* Output in order; bytes are good during the call. Call box_relay_taken when it is safe. Of
	 * a process with a log some may be missing before `offset`: it does not wait for us. */
	void (*output)(void *arg, uint64_t offset, struct box_str bytes);
	/* The last: the process has ended with this code (128+n for signal n); or an error. With
	 * BOX_ERR_PROCESS_CONFLICT it has ended while we were not connected. */
	void (*ended)(void *arg, int exit_code, const struct box_err *err);
};

/* Dials, and gets in line. `session` is the backend_session_id of its info, `options` are those of
 * box_client_open; a child of ours has no relay. */
int box_relay_open(const struct box_client_options *options, const char *session,
	const char *process, const struct box_relay_events *events, void *arg,
	struct box_relay **ret_relay, struct box_err *err);
/* Detaches; the process runs on. NULL is fine; not from inside an event. */
void box_relay_close(struct box_relay *relay);

/* For a loop: poll the fd (-1 while there is none) for the events, no longer than the timeout
 * (-1: any time), then step. A step that dials again waits up to 5 s. */
int box_relay_fd(const struct box_relay *relay);
short box_relay_poll_events(const struct box_relay *relay);
int box_relay_timeout_ms(const struct box_relay *relay);
void box_relay_step(struct box_relay *relay);

/* Everything before `offset` is safe with us: the runtime forgets it. Without this 1 MiB comes. */
void box_relay_taken(struct box_relay *relay, uint64_t offset);

/* How many bytes box_relay_input takes now; 0 before our turn, and after the end of the input. */
size_t box_relay_input_room(const struct box_relay *relay);
/* Input; with `eof` the last. -EAGAIN when there is no room for it. */
int box_relay_input(
	struct box_relay *relay, const void *bytes, size_t len, bool eof, struct box_err *err);

/* Appends the words as one command line for sh: it gives exactly these words back. A single word is
 * taken as a command line that is one already. 0 or -EMSGSIZE. */
struct box_buf;
int box_exec_join_words(struct box_buf *out, const char *const *words, size_t count);

#pragma GCC visibility pop
