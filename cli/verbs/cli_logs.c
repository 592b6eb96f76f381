/* box logs: reads the output that the runtime keeps of a process, without removing it. The two streams are
 * requested separately, piece by piece, the next piece when the last one was written. With -f a connection
 * that breaks is made again, and reading goes on at the same offsets. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "cli/cli.h"
#include "cli/cli_output.h"
#include "cli/cli_signals.h"

#define WAIT_MS 30000
#define AGAIN_MS 500  /* between two looks at a process that has closed its output and still runs */
#define DIAL_MS 30000 /* how long to dial again after a connection broke */
#define DIAL_PAUSE_MS 200

enum {
	AT_SIGNAL,
	AT_CLIENT,
	AT_OUT,
	AT_ERR,
	FDS,
};

struct source {
	struct logs *logs;
	const char *name;
	struct box_cli_output output;
	int64_t offset; /* of the next byte */
	int64_t end;    /* of what is to be shown */
	bool has_end;
	bool asked;
	bool ended; /* there is no more output, for now or ever */
};

struct logs {
	const struct cli *cli;
	struct box_client *client;
	const char *session;
	const char *process;
	struct source sources[2];
	bool exited;
	bool failed;
	bool seen;         /* a request was answered */
	bool broken;       /* the connection; with err */
	uint64_t until_ms; /* until then it must be made again; 0: it is connected */
	struct box_err err;
};

static int64_t int_of(const struct box_value *data, const char *key)
{
	const struct box_value *value = box_map_get(data, key);
	return value && value->type == BOX_INT ? value->integer : 0;
}

static bool is_true(const struct box_value *data, const char *key)
{
	const struct box_value *value = box_map_get(data, key);
	return value && value->type == BOX_BOOL && value->boolean;
}

/* Output between the two offsets was dropped by the runtime or read by an attached client. */
static void warn_gap(const struct source *source, int64_t offset)
{
	if (offset > source->offset) {
		(void)fprintf(stderr, "box: %lld bytes of %s are no longer available\n",
			(long long)(offset - source->offset), source->name);
	}
}

static void answered(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct source *source = arg;
	struct logs *logs = source->logs;
	(void)last;
	source->asked = false;
	if (err && err->code == BOX_ERR_RUNTIME_UNAVAILABLE && logs->seen &&
		logs->cli->options.follow) {
		logs->broken = true;
		logs->err = *err;
		return;
	}
	if (err) {
		/* A process that was stopped meanwhile is gone: that is its end too. */
		bool gone = err->code == BOX_ERR_PROCESS_NOT_FOUND && logs->seen;
		logs->exited = logs->exited || gone;
		logs->failed = logs->failed || !gone;
		logs->sources[0].ended = logs->sources[1].ended = true;
		logs->err = *err;
		return;
	}
	const struct box_value *bytes = box_map_get(data, "data");
	const struct box_value *status = box_map_get(data, "status");
	int64_t offset = int_of(data, "offset");
	logs->seen = true;
	logs->until_ms = 0;
	logs->exited = status && status->type == BOX_STR && box_str_eq(status->str, "exited");
	warn_gap(source, offset);
	source->offset = offset;
	if (bytes && (bytes->type == BOX_BIN || bytes->type == BOX_STR)) {
		box_cli_output_add(&source->output, bytes->str);
		source->offset += (int64_t)bytes->str.len;
	}
	/* Without -f the end is where it was at the first answer: a process may go on writing. */
	if (!source->has_end || logs->cli->options.follow) {
		source->has_end = true;
		source->end = int_of(data, "end");
	}
	bool all = source->offset >= source->end;
	source->ended = all && (is_true(data, "ended") || !logs->cli->options.follow);
}

static void ask(struct source *source)
{
	struct logs *logs = source->logs;
	struct box_arena *arena = box_arena_new();
	struct box_value data = box_map_value();
	struct box_err err;
	box_map_add(arena, &data, "session_id", box_cstr(logs->session));
	box_map_add(arena, &data, "process_id", box_cstr(logs->process));
	box_map_add(arena, &data, "stream", box_cstr(source->name));
	box_map_add(arena, &data, "offset", box_int(source->offset));
	bool wait = logs->cli->options.follow && !source->ended;
	box_map_add(arena, &data, "wait_ms", box_int(wait ? WAIT_MS : 0));
	source->asked = true;
	if (box_client_submit(logs->client, "box_get_process_output", &data, answered, source, NULL,
		    &err) < 0) {
		answered(source, NULL, &err, true);
	}
	box_arena_free(arena);
}

static bool pending(const struct logs *logs)
{
	return box_cli_output_pending(&logs->sources[0].output) ||
		box_cli_output_pending(&logs->sources[1].output);
}

/* The output that cannot be written any more, or NULL. */
static const struct box_cli_output *lost(const struct logs *logs)
{
	const struct source *sources = logs->sources;
	return sources[0].output.broken    ? &sources[0].output
		: sources[1].output.broken ? &sources[1].output
					   : NULL;
}

static void turn(struct logs *logs, int wake_fd, int timeout_ms)
{
	struct box_cli_output *out = &logs->sources[0].output;
	struct box_cli_output *errors = &logs->sources[1].output;
	struct pollfd polls[FDS] = {
		[AT_SIGNAL] = {.fd = wake_fd, .events = POLLIN},
		[AT_CLIENT] = {.fd = logs->client ? box_client_fd(logs->client) : -1,
			.events = logs->client ? box_client_events(logs->client) : 0},
		[AT_OUT] = {.fd = box_cli_output_pending(out) ? out->fd : -1, .events = POLLOUT},
		[AT_ERR] = {.fd = box_cli_output_pending(errors) ? errors->fd : -1,
			.events = POLLOUT},
	};
	if (poll(polls, FDS, timeout_ms) < 0) {
		return;
	}
	if (polls[AT_OUT].revents) {
		box_cli_output_write(out);
	}
	if (polls[AT_ERR].revents) {
		box_cli_output_write(errors);
	}
	/* A lost connection is reported to `answered`. */
	if (logs->client) {
		(void)box_client_step(logs->client, NULL);
	}
}

/* Tries once, after a pause. */
static void dial_again(struct logs *logs, int wake_fd)
{
	const struct box_client_options options = box_cli_client_options(logs->cli, false);
	struct pollfd wake = {.fd = wake_fd, .events = POLLIN};
	uint64_t now = box_clock_ms();
	box_client_close(logs->client);
	logs->client = NULL;
	logs->sources[0].asked = logs->sources[1].asked = false;
	logs->until_ms = logs->until_ms ? logs->until_ms : now + DIAL_MS;
	if (now >= logs->until_ms) {
		logs->broken = false;
		logs->failed = true;
		logs->sources[0].ended = logs->sources[1].ended = true;
	} else if (poll(&wake, 1, DIAL_PAUSE_MS) == 0) {
		logs->broken = box_client_open(&options, &logs->client, &logs->err) < 0;
		logs->client = logs->broken ? NULL : logs->client;
	}
}

/* Runs until everything is shown; with -f until the process has ended. */
static int follow(struct logs *logs, int wake_fd)
{
	struct source *out = &logs->sources[0];
	struct source *errors = &logs->sources[1];
	for (;;) {
		bool ended = out->ended && errors->ended;
		bool over = ended && (logs->exited || logs->failed || !logs->cli->options.follow);
		if (box_cli_signals_which() || lost(logs) || (over && !pending(logs))) {
			break;
		}
		if (logs->broken) {
			dial_again(logs, wake_fd);
			continue;
		}
		for (size_t i = 0; i < 2 && !over; i++) {
			struct source *source = &logs->sources[i];
			if (!source->asked && !source->ended &&
				!box_cli_output_pending(&source->output)) {
				ask(source);
			}
		}
		/* The process runs on without output: its end must be polled for. */
		bool mute = ended && !over && !out->asked;
		turn(logs, wake_fd, mute ? AGAIN_MS : -1);
		if (mute && !out->asked) {
			ask(out);
		}
	}
	if (box_cli_signals_which()) {
		return box_cli_signals_exit_code(0);
	}
	if (lost(logs)) {
		return box_cli_output_lost(lost(logs));
	}
	return logs->failed ? box_cli_fail(&logs->err) : 0;
}

/* A process that could not be started has written nothing: the reason is in its info. */
static int print_failure(struct logs *logs)
{
	const struct cli *cli = logs->cli;
	struct box_cli_output *errors = &logs->sources[1].output;
	struct box_value data = box_cli_name_only(cli, logs->session);
	struct box_value info;
	struct box_err err;
	box_map_add(cli->arena, &data, "process_id", box_cstr(logs->process));
	if (box_client_call(logs->client, "box_get_managed_process", &data, BOX_CLI_CALL_MS,
		    cli->arena, &info, &err) < 0) {
		return 0; /* it was stopped or forgotten meanwhile */
	}
	const struct box_value *why = box_map_get(&info, "stderr_preview");
	if (why && why->type == BOX_STR && why->str.len > 0) {
		box_cli_output_add(errors, why->str);
		box_cli_output_add(errors, box_str("\n"));
		box_cli_output_drain(errors);
	}
	return lost(logs) ? box_cli_output_lost(lost(logs)) : 0;
}

static int logs_verb(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct cli as;
	struct logs logs = {.cli = &as, .sources = {{.name = "stdout"}, {.name = "stderr"}}};
	struct box_err err;
	if (words->count < 1 || words->count > 2) {
		return box_cli_usage_error(cli, "expected NAME [PROCESS]");
	}
	if (box_cli_locate(cli, 0, &as) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	logs.session = as.options.words.items[0];
	logs.process = words->count == 2 ? words->items[1] : BOX_CLI_PROCESS_DEFAULT;
	if (box_cli_connect(&as, false, &logs.client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int wake_fd = box_cli_signals_catch();
	if (wake_fd < 0) {
		(void)box_err_set(
			&err, BOX_ERR_OS, -wake_fd, "pipe: %s", box_err_strerror(-wake_fd));
		box_client_close(logs.client);
		return box_cli_fail(&err);
	}
	for (size_t i = 0; i < 2; i++) {
		logs.sources[i].logs = &logs;
		box_cli_output_open(
			&logs.sources[i].output, i == 0 ? STDOUT_FILENO : STDERR_FILENO);
	}
	int code = follow(&logs, wake_fd);
	if (code == 0 && logs.exited && logs.sources[0].end == 0 && logs.sources[1].end == 0) {
		code = print_failure(&logs);
	}
	box_client_close(logs.client);
	for (size_t i = 0; i < 2; i++) {
		box_cli_output_close(&logs.sources[i].output);
	}
	return code;
}

static const struct box_cli_option options[] = {
	BOX_CLI_OPTION("--follow", 'f', FLAG, follow),
	{0},
};

BOX_CLI_VERB(logs) = {
	.name = "logs",
	.options = {box_cli_options_common, options},
	.plain_words = SIZE_MAX,
	.run = logs_verb,
	.summary = "show the output of a background process",
	.usage =
		"Usage: box logs [OPTION]... NAME [PROCESS]\n"
		"Shows the output of a background process that is still kept. Attached clients\n"
		"are not affected.\n"
		"\n"
		"  -f, --follow           keep showing output until the process ends\n" BOX_CLI_COMMON_USAGE,
};
