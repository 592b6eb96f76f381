/* box attach: connects our stdin and stdout with those of a background process, until it ends or we detach. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_signals.h"

#define INPUT_BYTES (64 * BOX_KIB)
#define PATIENCE_MS 500 /* before we print that we wait */

enum {
	AT_SIGNAL,
	AT_RELAY,
	AT_IN,
	AT_OUT,
	FDS,
};

struct attach {
	const struct cli *cli;
	const char *session;
	const char *process;
	struct box_relay *relay;
	struct box_cli_output output;
	uint64_t received; /* offset behind the output that was passed to `output` */
	bool known;        /* `received` is valid */
	bool input_open;
	bool ended;
	bool failed; /* with err */
	struct box_err err;
	int exit_code;
	uint64_t patience_ms; /* when to print that we wait; 0: printed, or attached */
};

/* --- the relay's events --- */

static void on_attached(void *arg, uint64_t offset)
{
	struct attach *attach = arg;
	attach->patience_ms = 0;
	if (attach->known && offset > attach->received) {
		(void)fprintf(stderr, "box: %llu bytes of output were read by another client\n",
			(unsigned long long)(offset - attach->received));
	}
	attach->known = true;
	attach->received = offset;
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct attach *attach = arg;
	if (offset > attach->received) {
		(void)fprintf(stderr,
			"box: %llu bytes of output were dropped before we read them\n",
			(unsigned long long)(offset - attach->received));
	}
	attach->received = offset + bytes.len;
	box_cli_output_add(&attach->output, bytes);
}

static void on_ended(void *arg, int exit_code, const struct box_err *err)
{
	struct attach *attach = arg;
	attach->ended = true;
	attach->exit_code = exit_code;
	attach->failed = err != NULL;
	if (err) {
		attach->err = *err;
	}
}

static const struct box_relay_events events = {on_attached, on_output, on_ended};

/* --- the loop --- */

static void read_input(struct attach *attach)
{
	char bytes[INPUT_BYTES];
	size_t room = box_relay_input_room(attach->relay);
	ssize_t got = read(STDIN_FILENO, bytes, room < sizeof(bytes) ? room : sizeof(bytes));
	if (got < 0 && (errno == EINTR || errno == EAGAIN)) {
		return;
	}
	size_t len = got > 0 ? (size_t)got : 0;
	/* A read error ends its input too. */
	attach->input_open = len > 0;
	(void)box_relay_input(attach->relay, bytes, len, len == 0, NULL);
}

/* /dev/null must not end the input of a process that others use. */
static bool input_is_null(void)
{
	struct stat status;
	return fstat(STDIN_FILENO, &status) == 0 && S_ISCHR(status.st_mode) &&
		status.st_rdev == makedev(1, 3);
}

static int timeout_of(const struct attach *attach)
{
	int timeout_ms = box_relay_timeout_ms(attach->relay);
	uint64_t now = box_clock_ms();
	if (attach->patience_ms == 0) {
		return timeout_ms;
	}
	int patience = now < attach->patience_ms ? (int)(attach->patience_ms - now) : 0;
	return timeout_ms < 0 || patience < timeout_ms ? patience : timeout_ms;
}

static void turn(struct attach *attach, int wake_fd)
{
	bool pending = box_cli_output_pending(&attach->output);
	bool wants = attach->input_open && box_relay_input_room(attach->relay) > 0;
	struct pollfd polls[FDS] = {
		[AT_SIGNAL] = {.fd = wake_fd, .events = POLLIN},
		[AT_RELAY] = {.fd = box_relay_fd(attach->relay),
			.events = box_relay_poll_events(attach->relay)},
		[AT_IN] = {.fd = wants ? STDIN_FILENO : -1, .events = POLLIN},
		[AT_OUT] = {.fd = pending ? attach->output.fd : -1, .events = POLLOUT},
	};
	if (poll(polls, FDS, timeout_of(attach)) < 0) {
		return;
	}
	if (polls[AT_IN].revents) {
		read_input(attach);
	}
	if (polls[AT_OUT].revents) {
		box_cli_output_write(&attach->output);
	}
	if (!box_cli_output_pending(&attach->output)) {
		box_relay_taken(attach->relay, attach->received);
	}
	box_relay_step(attach->relay);
	if (attach->patience_ms && !attach->ended && box_clock_ms() >= attach->patience_ms) {
		attach->patience_ms = 0;
		(void)fputs("box: another client is attached: waiting until it detaches\n", stderr);
	}
}

/* --- the end --- */

static struct box_value process_ref(const struct attach *attach)
{
	struct box_value data = box_cli_name_only(attach->cli, attach->session);
	box_map_add(attach->cli->arena, &data, "process_id", box_cstr(attach->process));
	return data;
}

/* The process ended while we were not connected: its last output is still kept. */
static int show_rest(struct attach *attach, struct box_client *client)
{
	const struct cli *cli = attach->cli;
	struct box_value answer;
	const struct box_value *bytes;
	do {
		struct box_value data = process_ref(attach);
		box_map_add(cli->arena, &data, "offset", box_int((int64_t)attach->received));
		if (box_cli_request(cli, client, "box_get_process_output", &data, &answer) < 0) {
			return box_cli_signals_exit_code(BOX_CLI_EXIT_FAILED);
		}
		const struct box_value *offset = box_map_get(&answer, "offset");
		bytes = box_map_get(&answer, "data");
		if (!offset || offset->type != BOX_INT || !bytes || bytes->type != BOX_BIN) {
			break;
		}
		on_attached(attach, (uint64_t)offset->integer);
		on_output(attach, attach->received, bytes->str);
		box_cli_output_drain(&attach->output);
		if (box_cli_signals_which() || attach->output.broken) {
			return box_cli_signals_which() ? box_cli_signals_exit_code(0)
						       : box_cli_output_lost(&attach->output);
		}
	} while (bytes->str.len > 0);
	struct box_value data = process_ref(attach);
	if (box_cli_request(cli, client, "box_get_managed_process", &data, &answer) < 0) {
		return box_cli_signals_exit_code(BOX_CLI_EXIT_FAILED);
	}
	const struct box_value *code = box_map_get(&answer, "exit_code");
	bool known = code && code->type == BOX_INT && code->integer >= 0 && code->integer <= 255;
	return known ? (int)code->integer : box_cli_fail(&attach->err);
}

static int print_end(struct attach *attach)
{
	struct box_client *client;
	if (!attach->failed) {
		return attach->exit_code;
	}
	if (!attach->known || attach->err.code != BOX_ERR_PROCESS_CONFLICT) {
		return box_cli_fail(&attach->err);
	}
	if (box_cli_connect(attach->cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = show_rest(attach, client);
	box_client_close(client);
	return code;
}

static int follow(struct attach *attach)
{
	int wake_fd = box_cli_signals_catch();
	if (wake_fd < 0) {
		(void)box_err_set(
			&attach->err, BOX_ERR_OS, -wake_fd, "pipe: %s", box_err_strerror(-wake_fd));
		return box_cli_fail(&attach->err);
	}
	while (!box_cli_signals_which() && !attach->output.broken &&
		(!attach->ended || box_cli_output_pending(&attach->output))) {
		turn(attach, wake_fd);
	}
	if (box_cli_signals_which()) {
		if (isatty(STDERR_FILENO)) {
			(void)fputs("\nbox: detached; the process keeps running\n", stderr);
		}
		return box_cli_signals_exit_code(0);
	}
	return attach->output.broken ? box_cli_output_lost(&attach->output) : print_end(attach);
}

/* --- the beginning --- */

/* The name of the session in the URL of a relay. Prints the reason when it fails. */
static const char *ask_session(const struct cli *cli, const char *session)
{
	struct box_client *client;
	struct box_value info;
	if (box_cli_connect(cli, false, &client) < 0) {
		return NULL;
	}
	struct box_value data = box_cli_name_only(cli, session);
	int r = box_cli_request(cli, client, "box_get_session", &data, &info);
	box_client_close(client);
	/* Clients without a context use the name as it was given. */
	bool without_context = cli->options.workspace && cli->options.workspace[0] == '\0';
	const struct box_value *id = r < 0
		? NULL
		: box_map_get(&info, without_context ? "session_id" : "backend_session_id");
	return id && id->type == BOX_STR ? box_arena_strndup(cli->arena, id->str.bytes, id->str.len)
					 : NULL;
}

static int attach_verb(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct cli as;
	struct attach attach = {.cli = &as};
	if (words->count < 1 || words->count > 2) {
		return box_cli_usage_error(cli, "expected NAME [PROCESS]");
	}
	if (box_cli_locate(cli, 0, &as) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	const struct box_client_options options = box_cli_client_options(&as, false);
	attach.session = as.options.words.items[0];
	attach.process = words->count == 2 ? words->items[1] : BOX_CLI_PROCESS_DEFAULT;
	const char *session = ask_session(&as, attach.session);
	if (!session) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (box_relay_open(&options, session, attach.process, &events, &attach, &attach.relay,
		    &attach.err) < 0) {
		return box_cli_fail(&attach.err);
	}
	attach.input_open = !input_is_null();
	attach.patience_ms = box_clock_ms() + PATIENCE_MS;
	box_cli_output_open(&attach.output, STDOUT_FILENO);
	int code = follow(&attach);
	box_relay_close(attach.relay);
	box_cli_output_close(&attach.output);
	return code;
}

BOX_CLI_VERB(attach) = {
	.name = "attach",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = attach_verb,
	.summary = "connect to stdin and stdout of a background process",
	.usage = "Usage: box attach [OPTION]... NAME [PROCESS]\n"
		 "Connects stdin and stdout to a background process. Ctrl-C detaches and leaves\n"
		 "it running; the end of our input (Ctrl-D) ends its input.\n"
		 "\n" BOX_CLI_COMMON_USAGE,
};
