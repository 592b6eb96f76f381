/* libbox: the header that a program includes to use boxes.
 *
 *   struct box_client_options options = {.endpoint = "ws://127.0.0.1:5410"};
 *   struct box_client *client;
 *   struct box_err err;
 *   if (box_client_open(&options, &client, &err) < 0) { ... err.text ... }
 *
 * One client is one connection, used from one thread. Requests go out at once and are answered
 * in any order, each to its own callback. A program with its own event loop polls box_client_fd
 * for box_client_events and calls box_client_step; other programs call box_client_wait or
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
	/* The runtime: the one at this URL (ws://HOST[:PORT], http:// with the same meaning, or
	 * unix:/PATH of the operator's socket); without a URL one of our own, `boxd -s` as a child that
	 * ends with this client. */
	const char *endpoint;
	/* With no endpoint: dial the operator's socket of this user's boxd or of root's, then
	 * ws://127.0.0.1:5410. */
	bool standalone;
	bool spawn; /* with no endpoint: start a child even in a container, instead of dialling */
	/* With no endpoint, in a container: dial this, such as ws://langbot_box:5410. NULL: as with
	 * standalone. */
	const char *container_endpoint;

	/* Our identity. NULL: from the environment (LANGBOT_BOX_TRUSTED_INSTANCE_UUID,
	 * LANGBOT_BOX_CONTROL_TOKEN), then the defaults above; on the operator's socket the operator's
	 * instance. A child gets secrets of its own. */
	const char *instance;
	const char *token;
	const char *workspace; /* "": the workspace of clients that send no context */
	int64_t generation;    /* 0 means 1 */

	/* The child. */
	/* NULL: searched beside this program, where it is installed, and on PATH. */
	const char *boxd;
	const char *config; /* its --config, or NULL */
	bool show_log;      /* its log goes to our stderr */
	/* Without show_log: called with the last lines of the log if the child ends unexpectedly. */
	void (*log_line)(void *arg, const char *line);
	void *log_arg;
};

/* Connects, and waits until the runtime answers. */
int box_client_open(const struct box_client_options *options, struct box_client **ret_client,
	struct box_err *err);

/* Drops pending requests without a callback. Waits for a child. NULL is fine. */
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

/* One answer. `data` is a map, valid until the callback returns; NULL if `err` is set. `last`: no more will
 * come. A callback may submit and cancel; it must not step or close the client. */
typedef void box_client_answered(
	void *arg, const struct box_value *data, const struct box_err *err, bool last);

/* Sends a request; `data` is not needed afterwards. -EBUSY if 128 are pending, -EMSGSIZE if it is too large,
 * -EILSEQ if a text in it is not valid UTF-8, -ENOTCONN if the connection is gone. */
int box_client_submit(struct box_client *client, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);

/* The same for an action that streams its answers. At most 8 arrive before box_client_taken is called. */
int box_client_submit_stream(struct box_client *client, const char *action,
	const struct box_value *data, box_client_answered *answered, void *arg, int64_t *ret_seq_id,
	struct box_err *err);

/* All answers of the stream so far were handled: the runtime may send more. */
void box_client_taken(struct box_client *client, int64_t seq_id);

/* Cancels a pending request; its callback is not called any more. */
void box_client_cancel(struct box_client *client, int64_t seq_id);

/* --- for a program with its own event loop --- */

int box_client_fd(const struct box_client *client);       /* -1 once the connection is over */
short box_client_events(const struct box_client *client); /* of poll(2) */

/* Reads and writes as much as possible without waiting, and calls back. Negative if the connection has
 * ended: by then every request was answered with BOX_ERR_RUNTIME_UNAVAILABLE. */
int box_client_step(struct box_client *client, struct box_err *err);

/* --- for a program without one --- */

/* Waits until something happens, timeout_ms at most (-1: for ever), and handles it. A signal ends the wait
 * with -EINTR. */
int box_client_wait(struct box_client *client, int timeout_ms, struct box_err *err);

/* Sends a request and waits for the answer, whose data are copied into the arena. -ETIMEDOUT after
 * timeout_ms. */
int box_client_call(struct box_client *client, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err);

/* --- commands --- */

struct box_exec;

struct box_exec_result {
	bool timed_out;
	int exit_code;   /* 128+n for signal n; -1 when timed out */
	char reason[16]; /* "exit", "signal", "memory", "timeout"; empty if unknown */
	int64_t duration_ms;
};

struct box_exec_events {
	/* Output as it arrives; fd is 1 or 2. Call box_exec_taken when it was handled. */
	void (*output)(void *arg, int fd, struct box_str bytes);
	/* The end: a result, or an error. */
	void (*ended)(void *arg, const struct box_exec_result *result, const struct box_err *err);
};

struct box_exec_terminal {
	uint16_t rows; /* both at least 1 */
	uint16_t cols;
};

/* Starts a command; `spec` is a box spec. With `has_input` its stdin is what box_exec_input sends, otherwise
 * it is empty. With `terminal` its stdin, stdout and stderr are a terminal of that size, and all its output
 * arrives as fd 1; NULL: three pipes. */
int box_exec_start(struct box_client *client, const struct box_value *spec, bool has_input,
	const struct box_exec_terminal *terminal, const struct box_exec_events *events, void *arg,
	struct box_exec **ret_exec, struct box_err *err);

/* All output so far was handled. Without this call no more than 8 pieces arrive. */
void box_exec_taken(struct box_exec *exec);

/* The most pieces of input in flight: enough that the command never waits for the next piece while one is on
 * its way. */
#define BOX_EXEC_INPUTS_MAX 16

/* Whether box_exec_input would send: the command is running, and fewer than that many pieces of input are in
 * flight. */
bool box_exec_wants_input(const struct box_exec *exec);

/* Input for the command; `eof`: this is the last. -EAGAIN while box_exec_wants_input is false. A terminal has
 * no end of input: there `eof` types Ctrl-D. */
int box_exec_input(
	struct box_exec *exec, const void *bytes, size_t len, bool eof, struct box_err *err);

/* Resizes its terminal, now or as soon as the command has started. If sizes are set faster than the runtime
 * answers, the last one counts. -ENOTTY if it has no terminal. */
int box_exec_resize(struct box_exec *exec, struct box_exec_terminal size, struct box_err *err);

/* Sends a signal, 1 to 64, to the command's process group; only the command's end shows the effect. -EAGAIN
 * before it has started and after its end. */
int box_exec_signal(struct box_exec *exec, int number, struct box_err *err);

/* Ends the command if it is running, and frees the struct. NULL is fine. To be called before
 * box_client_close. */
void box_exec_free(struct box_exec *exec);

/* --- managed processes ---
 *
 * A relay is the stdin and stdout of one managed process, by the protocol box.v1 of
 * docs/protocol.md. It is a connection of its own beside the client's. If it breaks, it is
 * dialled again and continues where it was: nothing is lost or delivered twice. */

struct box_relay;

struct box_relay_events {
	/* We are attached: output begins at `offset`. Other clients may be attached before us. Called
	 * again after each reconnect, with the offset where the output continues, or a later one if
	 * another client has read meanwhile. */
	void (*attached)(void *arg, uint64_t offset);
	/* Output in order; bytes are valid during the call. Call box_relay_taken when they are stored.
	 * A process with a log does not wait for us, so some output may be missing before `offset`. */
	void (*output)(void *arg, uint64_t offset, struct box_str bytes);
	/* The last call: the process ended with this code (128+n for signal n), or an error. With
	 * BOX_ERR_PROCESS_CONFLICT it ended while we were not connected. */
	void (*ended)(void *arg, int exit_code, const struct box_err *err);
};

/* Dials, and queues to be attached. `session` is the backend_session_id of its info, `options` are those of
 * box_client_open; a boxd that is our child has no relays. */
int box_relay_open(const struct box_client_options *options, const char *session,
	const char *process, const struct box_relay_events *events, void *arg,
	struct box_relay **ret_relay, struct box_err *err);
/* Detaches; the process keeps running. NULL is fine; not from inside an event. */
void box_relay_close(struct box_relay *relay);

/* For an event loop: poll the fd (-1 while there is none) for the events, no longer than the timeout
 * (-1: no limit), then step. A step that dials again blocks for up to 5 s. */
int box_relay_fd(const struct box_relay *relay);
short box_relay_poll_events(const struct box_relay *relay);
int box_relay_timeout_ms(const struct box_relay *relay);
void box_relay_step(struct box_relay *relay);

/* Everything before `offset` is stored: the runtime may forget it. Without this call at most 1 MiB arrives. */
void box_relay_taken(struct box_relay *relay, uint64_t offset);

/* How many bytes box_relay_input accepts now; 0 before we are attached, and after the end of the input. */
size_t box_relay_input_room(const struct box_relay *relay);
/* Input; `eof`: this is the last. -EAGAIN if there is no room for it. */
int box_relay_input(
	struct box_relay *relay, const void *bytes, size_t len, bool eof, struct box_err *err);

/* Appends the words as one command line for sh, quoted so that sh splits it into exactly these words. A
 * single word is taken as a complete command line. 0 or -EMSGSIZE. */
struct box_buf;
int box_exec_join_words(struct box_buf *out, const char *const *words, size_t count);

#pragma GCC visibility pop
