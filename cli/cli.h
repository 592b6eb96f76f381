/* What the commands of `box` share. */
#pragma once

#include <stdbool.h>

#include "base/arena.h"
#include "base/err.h"
#include "base/value.h"
#include "cli/cli_options.h"
#include "client/box.h"

/* As docker has them: a command's own code is passed on, so ours are out of its way. */
enum {
	BOX_CLI_EXIT_TIMEOUT = 124,
	BOX_CLI_EXIT_FAILED = 125,
	BOX_CLI_EXIT_SIGNAL = 128,
};

#define BOX_CLI_CALL_MS 60000 /* a box may have to be made */
#define BOX_CLI_PROCESS_DEFAULT "default"
#define BOX_CLI_ENDPOINT_DEFAULT "ws://127.0.0.1:5410"

struct cli {
	struct box_arena *arena;
	struct box_cli_options options;
	const char *name; /* of the command */
};

struct box_cli_command {
	const char *name;
	unsigned sets; /* of options */
	size_t plain_words;
	int (*run)(const struct cli *cli);
	const char *summary;
	const char *usage;
	const struct box_cli_command *subs; /* or: the commands of a family */
	size_t sub_count;
};

/* Says why, in one line, and gives the exit code of our own failures. */
int box_cli_fail(const struct box_err *err);
/* Brings out what was printed: 0, or the exit code after it has said why not. */
int box_cli_flush(void);
/* One line of advice on stderr, of texts that cannot steer the terminal. */
void box_cli_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
int box_cli_usage_error(const struct cli *cli, const char *why);

/* The runtime that ls, exec, create and rm speak to; or for run with `spawn` one of our own where
 * none was named. Has said why when it fails. */
int box_cli_connect(const struct cli *cli, bool spawn, struct box_client **ret_client);
struct box_client_options box_cli_client_options(const struct cli *cli, bool spawn);
/* As box_client_open, and says what to do when nobody listens where nobody was named. */
int box_cli_open(const struct box_client_options *options, struct box_client **ret_client,
	struct box_err *err);

/* Asks; has said why when it fails, but for -EINTR: a signal came that we catch (cli/cli_signals.h). */
int box_cli_request(const struct cli *cli, struct box_client *client, const char *action,
	const struct box_value *data, struct box_value *ret_answer);
/* The same, and says nothing. */
int box_cli_try_request(const struct cli *cli, struct box_client *client, const char *action,
	const struct box_value *data, struct box_value *ret_answer, struct box_err *err);
/* The boxes of all workspaces, each with its context: the operator alone may ask. Has said why when it
 * fails. */
int box_cli_request_all_boxes(
	const struct cli *cli, struct box_client *client, struct box_value *ret_boxes);
/* WORKSPACE/BOX of one of these. */
const char *box_cli_qualified_name(const struct cli *cli, const struct box_value *info);
/* The same command line, as if given the instance and workspace of one of these. */
struct cli box_cli_as_owner(const struct cli *cli, const struct box_value *info);
/* The same command line with BOX for WORKSPACE/BOX in this word, given the instance and workspace of
 * that box; with a name in this word that has no slash nothing is changed. Has said why when it
 * fails. */
int box_cli_locate(const struct cli *cli, size_t word, struct cli *ret_cli);
/* {session_id: name} */
struct box_value box_cli_name_only(const struct cli *cli, const char *name);
/* Of a session's info what makes a spec that of the same session. */
struct box_value box_cli_identity(const struct cli *cli, const struct box_value *info);
/* The spec of a box that is there, for a command in it. Has said why when it fails. */
int box_cli_session_spec(const struct cli *cli, struct box_client *client, const char *name,
	struct box_value *ret_spec);

/* Whether a control of two bytes begins here (U+0080 to U+009F): some terminals obey them. */
bool box_cli_is_c1(const char *bytes, size_t len);
/* Text of the runtime, which cannot steer a terminal, filled up to `width`; "-" for no text. */
void box_cli_print_text(const struct box_value *value, int width);
int box_cli_print_json(const struct box_value *value);

/* The box spec that the options describe. */
int box_cli_spec(const struct cli *cli, const char *session, struct box_value *ret_spec,
	struct box_err *err);
/* What belongs to one command of a box: cmd, env, mounts, folder, time. `words` are its words;
 * without any it is a login shell. */
int box_cli_add_command(const struct cli *cli, const char *const *words, size_t count,
	struct box_value *spec, struct box_err *err);

/* Whether -it is given: people talk with the command, and without one with a login shell. */
bool box_cli_is_interactive(const struct cli *cli);
/* -it needs a terminal. */
int box_cli_check_terminal(const struct cli *cli, struct box_err *err);
/* Adds the variables of --env. */
int box_cli_add_env(const struct cli *cli, struct box_value *env, struct box_err *err);

/* Runs the command with our stdin, stdout and stderr, and gives its exit code or ours. A box that
 * is `kept` by name outlives the timeout of the command; NULL: it goes with it. */
int box_cli_stream(const struct cli *cli, struct box_client *client, const struct box_value *spec,
	const char *kept);

int box_cli_run(const struct cli *cli);
int box_cli_create(const struct cli *cli);
int box_cli_exec(const struct cli *cli);
int box_cli_ls(const struct cli *cli);
int box_cli_rm(const struct cli *cli);
/* Asks for `action` of every box that is named, and prints the names. */
int box_cli_end_each(const struct cli *cli, const char *action);
int box_cli_start(const struct cli *cli);
int box_cli_ps(const struct cli *cli);
int box_cli_logs(const struct cli *cli);
int box_cli_attach(const struct cli *cli);
int box_cli_stop(const struct cli *cli);
int box_cli_cp(const struct cli *cli);
int box_cli_plan(const struct cli *cli);
int box_cli_doctor(const struct cli *cli);
int box_cli_status(const struct cli *cli);
int box_cli_profiles(const struct cli *cli);
