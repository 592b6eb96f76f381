/* What the verbs of `box` share: how a verb is defined, how errors are printed, and requests to a runtime. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/value.h"
#include "cli/cli_options.h"
#include "client/box.h"

/* The same as docker's: the exit code of a command is passed on, and ours do not collide with it. */
enum {
	BOX_CLI_EXIT_TIMEOUT = 124,
	BOX_CLI_EXIT_FAILED = 125,
	BOX_CLI_EXIT_SIGNAL = 128,
};

#define BOX_CLI_CALL_MS 60000 /* timeout of a request, which may have to create a box */
#define BOX_CLI_PROCESS_DEFAULT "default"
#define BOX_CLI_ENDPOINT_DEFAULT "ws://127.0.0.1:5410"

struct cli {
	struct box_arena *arena;
	struct box_cli_options options;
	const char *name; /* of the verb */
};

/* A verb, or a command of a family of commands such as `box skill`. */
struct box_cli_command {
	const char *name;
	const struct box_cli_option *options[BOX_CLI_GROUPS_MAX]; /* ends with NULL */
	size_t plain_words; /* how many words come before a command: box_cli_options_read_all */
	int (*run)(const struct cli *cli);
	const char *summary; /* for box --help */
	const char *usage;
	const struct box_cli_command *const
		*subs; /* the commands of a family, up to NULL; or NULL */
};

/* Begins the definition of a verb. Its file is complete in itself; the list of verbs is in main.c. */
#define BOX_CLI_VERB(NAME)                                       \
	extern const struct box_cli_command box_cli_verb_##NAME; \
	const struct box_cli_command box_cli_verb_##NAME

/* Prints the reason in one line, and gives the exit code of our own failures. */
int box_cli_fail(const struct box_err *err);
/* Flushes stdout: 0, or the exit code after the reason was printed. */
int box_cli_flush(void);
/* Prints a warning on stderr, in one line without control characters. */
void box_cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
int box_cli_usage_error(const struct cli *cli, const char *why);

/* Connects to the runtime; with `spawn`, for run, to a boxd of our own unless an endpoint is given. Prints
 * the reason when it fails. */
int box_cli_connect(const struct cli *cli, bool spawn, struct box_client **ret_client);
struct box_client_options box_cli_client_options(const struct cli *cli, bool spawn);
/* As box_client_open; where no boxd answers at the default address, the error says what to do. */
int box_cli_open(const struct box_client_options *options, struct box_client **ret_client,
	struct box_err *err);

/* Sends a request and waits for the answer. Prints the reason when it fails, except for -EINTR: one of the
 * signals of cli_signals.h came. */
int box_cli_request(const struct cli *cli, struct box_client *client, const char *action,
	const struct box_value *data, struct box_value *ret_answer);
/* The same, and prints nothing. */
int box_cli_try_request(const struct cli *cli, struct box_client *client, const char *action,
	const struct box_value *data, struct box_value *ret_answer, struct box_err *err);
/* The boxes of all workspaces, each with its context; only the operator may ask. Prints the reason when it
 * fails. */
int box_cli_request_all_boxes(
	const struct cli *cli, struct box_client *client, struct box_value *ret_boxes);
/* WORKSPACE/BOX of one of these boxes. */
const char *box_cli_qualified_name(const struct cli *cli, const struct box_value *info);
/* The same command line with the instance and workspace of one of these boxes. */
struct cli box_cli_as_owner(const struct cli *cli, const struct box_value *info);
/* The same command line with WORKSPACE/BOX in this word replaced by BOX, and with the instance and workspace of
 * that box; unchanged when the word has no slash. Prints the reason when it fails. */
int box_cli_locate(const struct cli *cli, size_t word, struct cli *ret_cli);
/* {session_id: name} */
struct box_value box_cli_name_only(const struct cli *cli, const char *name);
/* The members of a session's info that a spec for the same session must have. */
struct box_value box_cli_identity(const struct cli *cli, const struct box_value *info);
/* The spec of an existing box, for a command in it. Prints the reason when it fails. */
int box_cli_session_spec(const struct cli *cli, struct box_client *client, const char *name,
	struct box_value *ret_spec);

/* Whether a control character of two bytes begins here (U+0080 to U+009F): some terminals obey them. */
bool box_cli_is_c1(const char *bytes, size_t len);
/* Prints text of the runtime without control characters, padded to `width`; "-" for no text. */
void box_cli_print_text(const struct box_value *value, int width);
int box_cli_print_json(const struct box_value *value);

/* The box spec that the options describe. */
int box_cli_spec(const struct cli *cli, const char *session, struct box_value *ret_spec,
	struct box_err *err);
/* Adds what belongs to one command: cmd, env, mounts, workdir, timeout. `words` are its words; without any it
 * is a login shell. */
int box_cli_add_command(const struct cli *cli, const char *const *words, size_t count,
	struct box_value *spec, struct box_err *err);

/* Whether -it is given; then the command may be left out, and a login shell is started. */
bool box_cli_is_interactive(const struct cli *cli);
/* Fails when -it is given and stdin is not a terminal. */
int box_cli_check_terminal(const struct cli *cli, struct box_err *err);
/* Adds the variables of --env. */
int box_cli_add_env(const struct cli *cli, struct box_value *env, struct box_err *err);

/* Runs the command with our stdin, stdout and stderr, and gives its exit code or ours. `kept` is the name of a
 * box that survives a timeout of the command; NULL: the box is removed with it. */
int box_cli_stream(const struct cli *cli, struct box_client *client, const struct box_value *spec,
	const char *kept);

/* Sends `action` for every box that is named, and prints the names. */
int box_cli_end_each(const struct cli *cli, const char *action);
