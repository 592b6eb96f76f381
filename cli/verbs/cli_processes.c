/* box start, ps and stop: managed processes, which run in a box in the background. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "cli/cli.h"

#define LOG_BYTES (1024 * 1024)
#define STATUS_WIDTH 13

/* --- start --- */

/* The name of a program, without characters that are special to a shell. */
static bool is_program(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./+";
	return word[0] != '\0' && word[strspn(word, plain)] == '\0';
}

static int process_spec(const struct cli *cli, struct box_value *ret_spec, struct box_err *err)
{
	const struct box_cli_options *options = &cli->options;
	const struct box_cli_words *words = &options->words;
	struct box_value spec = box_map_value();
	struct box_value args = box_list_value();
	struct box_value env = box_map_value();
	bool line = words->count == 2 && !is_program(words->items[1]);
	for (size_t i = 1; i < words->count; i++) {
		if (!box_utf8_valid(words->items[i], strlen(words->items[i]))) {
			return box_err_set(
				err, BOX_ERR_VALUE, EILSEQ, "the command: not valid UTF-8");
		}
	}
	if (line) {
		box_list_add(cli->arena, &args, box_cstr("-c"));
	}
	for (size_t i = line ? 1 : 2; i < words->count; i++) {
		box_list_add(cli->arena, &args, box_cstr(words->items[i]));
	}
	int r = box_cli_add_env(cli, &env, err);
	box_map_add(cli->arena, &spec, "process_id",
		box_cstr(options->process ? options->process : BOX_CLI_PROCESS_DEFAULT));
	box_map_add(cli->arena, &spec, "command", box_cstr(line ? "sh" : words->items[1]));
	box_map_add(cli->arena, &spec, "args", args);
	box_map_add(cli->arena, &spec, "env", env);
	/* With a log the process never waits for a reader. */
	box_map_add(cli->arena, &spec, "log_bytes", box_int(LOG_BYTES));
	if (options->workdir) {
		box_map_add(cli->arena, &spec, "cwd", box_cstr(options->workdir));
	}
	if (options->memory_mb) {
		box_map_add(cli->arena, &spec, "memory_mb", box_int(options->memory_mb));
	}
	*ret_spec = spec;
	return r;
}

static int start_verb(const struct cli *cli)
{
	struct box_client *client;
	struct box_value spec = box_map_value();
	struct box_value info;
	struct box_err err;
	struct cli as;
	if (cli->options.words.count < 2) {
		return box_cli_usage_error(cli, "expected NAME CMD [ARG]...");
	}
	if (process_spec(cli, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (box_cli_locate(cli, 0, &as) < 0 || box_cli_connect(&as, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = BOX_CLI_EXIT_FAILED;
	struct box_value data = box_cli_name_only(cli, as.options.words.items[0]);
	box_map_add(cli->arena, &data, "spec", spec);
	if (box_cli_request(cli, client, "box_start_managed_process", &data, &info) == 0) {
		box_cli_print_text(box_map_get(&info, "process_id"), 0);
		(void)putchar('\n');
		code = box_cli_flush();
	}
	box_client_close(client);
	return code;
}

static const struct box_cli_option start_options[] = {
	BOX_CLI_OPTION("--name", 0, TEXT, process),
	BOX_CLI_OPTION("--env", 0, WORDS, env),
	BOX_CLI_OPTION("--workdir", 0, TEXT, workdir),
	BOX_CLI_OPTION("--memory", 0, COUNT, memory_mb),
	{0},
};

BOX_CLI_VERB(start) = {
	.name = "start",
	.options = {box_cli_options_common, start_options},
	.plain_words = 1,
	.run = start_verb,
	.summary = "start a background process in a box",
	.usage = "Usage: box start [OPTION]... NAME [--] CMD [ARG]...\n"
		 "Starts a background process in a box and prints its id. It runs until it ends,\n"
		 "is stopped, or the box is removed. A process with the same id is stopped first.\n"
		 "A single CMD that is more than a program name is a command line for sh; with\n"
		 "ARGs no shell interprets the words. The last 1 MiB of its output is kept for\n"
		 "logs and attach; it never waits for a reader.\n"
		 "\n"
		 "      --name ID          id of the process in the box (default: \"default\")\n"
		 "      --env NAME[=VALUE] set an environment variable, or pass on the one of\n"
		 "                         this shell; repeatable\n"
		 "      --workdir PATH     working directory (default: /workspace)\n"
		 "      --memory MB        memory limit of the process\n" BOX_CLI_COMMON_USAGE,
};

/* --- listing --- */

/* Adds the infos of a session's processes. */
static int add_session(const struct cli *cli, struct box_client *client, struct box_value session,
	struct box_value *all, struct box_err *err)
{
	struct box_value info;
	struct box_value data = box_map_value();
	box_map_add(cli->arena, &data, "session_id", session);
	int r = box_client_call(
		client, "box_get_session", &data, BOX_CLI_CALL_MS, cli->arena, &info, err);
	const struct box_value *of = r < 0 ? NULL : box_map_get(&info, "managed_processes");
	for (uint32_t i = 0; of && of->type == BOX_MAP && i < of->count; i++) {
		box_list_add(cli->arena, all, of->pairs[i].value);
	}
	return r;
}

/* Of one session, or of all with NULL. Prints the reason when it fails. */
static int ask_processes(const struct cli *cli, struct box_client *client, const char *session,
	struct box_value *ret_processes)
{
	struct box_err err;
	struct box_value answer;
	int r = 0;
	*ret_processes = box_list_value();
	if (session) {
		r = add_session(cli, client, box_cstr(session), ret_processes, &err);
		if (r < 0) {
			(void)box_cli_fail(&err);
		}
		return r;
	}
	if (box_cli_request(cli, client, "box_get_sessions", NULL, &answer) < 0) {
		return -EIO;
	}
	const struct box_value *listed = box_map_get(&answer, "sessions");
	for (uint32_t i = 0; listed && listed->type == BOX_LIST && i < listed->count; i++) {
		const struct box_value *id = box_map_get(&listed->items[i], "session_id");
		r = id ? add_session(cli, client, *id, ret_processes, &err) : 0;
		if (r < 0 && err.code != BOX_ERR_SESSION_NOT_FOUND) {
			(void)box_cli_fail(&err);
			return r;
		}
	}
	return 0;
}

/* Of all workspaces, each with its instance and workspace. Prints the reason when it fails. */
static int ask_all_processes(
	const struct cli *cli, struct box_client *client, struct box_value *ret_processes)
{
	struct box_value boxes;
	int r = box_cli_request_all_boxes(cli, client, &boxes);
	*ret_processes = box_list_value();
	for (uint32_t i = 0; r >= 0 && i < boxes.count; i++) {
		const struct box_value *info = &boxes.items[i];
		const struct box_value *id = box_map_get(info, "session_id");
		const struct cli as = box_cli_as_owner(cli, info);
		struct box_client *client_of_owner;
		struct box_err err;
		if (box_cli_connect(&as, false, &client_of_owner) < 0) {
			return -EIO;
		}
		uint32_t first = ret_processes->count;
		r = id ? add_session(cli, client_of_owner, *id, ret_processes, &err) : 0;
		box_client_close(client_of_owner);
		if (r < 0 && err.code != BOX_ERR_SESSION_NOT_FOUND) {
			(void)box_cli_fail(&err);
			return r;
		}
		r = 0;
		for (uint32_t j = first; j < ret_processes->count; j++) {
			static const char *const members[] = {"instance_uuid", "workspace_uuid"};
			for (size_t m = 0; m < BOX_COUNT_OF(members); m++) {
				const struct box_value *of = box_map_get(info, members[m]);
				box_map_add(cli->arena, &ret_processes->items[j], members[m],
					of ? *of : box_null());
			}
		}
	}
	return r;
}

/* --- ps --- */

static struct box_str text_of(const struct box_value *map, const char *key)
{
	const struct box_value *value = map ? box_map_get(map, key) : NULL;
	return value && value->type == BOX_STR ? value->str : (struct box_str){"", 0};
}

static int64_t int_of(const struct box_value *map, const char *key)
{
	const struct box_value *value = map ? box_map_get(map, key) : NULL;
	return value && value->type == BOX_INT ? value->integer : 0;
}

static struct box_value status_text(const struct cli *cli, const struct box_value *info)
{
	const struct box_value *end = box_map_get(info, "end");
	end = end && end->type == BOX_MAP ? end : NULL;
	struct box_str reason = text_of(end, "reason");
	const struct box_value *waiting = box_map_get(info, "waiting");
	if (waiting && waiting->type == BOX_MAP) {
		return box_cstr(box_arena_printf(cli->arena, "waiting: %lld KiB unread",
			(long long)int_of(waiting, "unread_bytes") / 1024));
	}
	if (!box_str_eq(text_of(info, "status"), "exited")) {
		return box_text(text_of(info, "status"));
	}
	if (box_str_eq(reason, "memory")) {
		return box_cstr("out of memory");
	}
	bool signal = box_str_eq(reason, "signal");
	return box_cstr(box_arena_printf(cli->arena, signal ? "signal (%lld)" : "exited (%lld)",
		(long long)(signal ? int_of(end, "signal") : int_of(info, "exit_code"))));
}

/* To the second: 2026-11-16T12:00:00. */
static void print_time(const struct box_value *info, const char *key)
{
	struct box_str text = text_of(info, key);
	text.len = text.len < 19 ? text.len : 19;
	struct box_value value = box_text(text);
	box_cli_print_text(text.len > 0 ? &value : NULL, 20);
}

static void print_process(const struct cli *cli, const struct box_value *info, int status_width)
{
	const struct box_value *attached = box_map_get(info, "attached");
	const struct box_value *args = box_map_get(info, "args");
	struct box_value status = status_text(cli, info);
	if (cli->options.all) {
		struct box_value name = box_cstr(box_cli_qualified_name(cli, info));
		box_cli_print_text(&name, 32);
	} else {
		box_cli_print_text(box_map_get(info, "session_id"), 16);
	}
	(void)putchar(' ');
	box_cli_print_text(box_map_get(info, "process_id"), 12);
	(void)putchar(' ');
	box_cli_print_text(&status, status_width);
	bool is = attached && attached->type == BOX_BOOL && attached->boolean;
	(void)printf(" %-8s ", is ? "yes" : "no");
	print_time(info, "started_at");
	print_time(info, "exited_at");
	box_cli_print_text(box_map_get(info, "command"), 0);
	for (uint32_t i = 0; args && args->type == BOX_LIST && i < args->count; i++) {
		(void)putchar(' ');
		box_cli_print_text(&args->items[i], 0);
	}
	(void)putchar('\n');
}

static int ps_verb(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_client *client;
	struct box_value all;
	struct cli as = *cli;
	if (words->count > 1) {
		return box_cli_usage_error(cli, "expected at most one NAME");
	}
	if (words->count > 0 && cli->options.all) {
		return box_cli_usage_error(cli, "NAME and --all cannot be combined");
	}
	if ((words->count > 0 && box_cli_locate(cli, 0, &as) < 0) ||
		box_cli_connect(&as, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	words = &as.options.words;
	int r = cli->options.all
		? ask_all_processes(cli, client, &all)
		: ask_processes(&as, client, words->count > 0 ? words->items[0] : NULL, &all);
	box_client_close(client);
	if (r < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (cli->options.json) {
		return box_cli_print_json(&all);
	}
	int width = STATUS_WIDTH;
	for (uint32_t i = 0; i < all.count; i++) {
		int len = (int)status_text(cli, &all.items[i]).str.len;
		width = BOX_MAX(len, width);
	}
	(void)printf("%-*s %-12s %-*s %-8s %-19s %-19s %s\n", cli->options.all ? 32 : 16,
		cli->options.all ? "WORKSPACE/BOX" : "BOX", "PROCESS", width, "STATUS", "ATTACHED",
		"STARTED", "EXITED", "COMMAND");
	for (uint32_t i = 0; i < all.count; i++) {
		print_process(cli, &all.items[i], width);
	}
	return box_cli_flush();
}

BOX_CLI_VERB(ps) = {
	.name = "ps",
	.options = {box_cli_options_common, box_cli_options_json, box_cli_options_all},
	.plain_words = SIZE_MAX,
	.run = ps_verb,
	.summary = "list background processes",
	.usage = "Usage: box ps [OPTION]... [NAME]\n"
		 "Lists the background processes of one box, or of all boxes of a workspace,\n"
		 "including those that ended recently.\n"
		 "\n" BOX_CLI_ALL_USAGE
		 "      --json             print JSON with all details\n" BOX_CLI_COMMON_USAGE,
};

/* --- stop --- */

static int stop_one(
	const struct cli *cli, struct box_client *client, const char *session, struct box_value id)
{
	struct box_value answer;
	struct box_value data = box_cli_name_only(cli, session);
	box_map_add(cli->arena, &data, "process_id", id);
	if (box_cli_request(cli, client, "box_stop_managed_process", &data, &answer) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	box_cli_print_text(&id, 0);
	(void)putchar('\n');
	return 0;
}

static int stop_verb(const struct cli *cli)
{
	struct box_client *client;
	struct box_value all = box_list_value();
	struct cli as;
	int code = 0;
	if (cli->options.words.count == 0) {
		return box_cli_usage_error(cli, "expected NAME [PROCESS]...");
	}
	if (box_cli_locate(cli, 0, &as) < 0 || box_cli_connect(&as, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	const struct box_cli_words *words = &as.options.words;
	for (size_t i = 1; i < words->count; i++) {
		code = stop_one(cli, client, words->items[0], box_cstr(words->items[i]))
			? BOX_CLI_EXIT_FAILED
			: code;
	}
	if (words->count == 1 && ask_processes(cli, client, words->items[0], &all) < 0) {
		code = BOX_CLI_EXIT_FAILED;
	}
	for (uint32_t i = 0; i < all.count; i++) {
		struct box_value id = box_text(text_of(&all.items[i], "process_id"));
		bool runs = box_str_eq(text_of(&all.items[i], "status"), "running");
		if (runs && stop_one(cli, client, words->items[0], id) != 0) {
			code = BOX_CLI_EXIT_FAILED;
		}
	}
	box_client_close(client);
	int lost = box_cli_flush();
	return lost ? lost : code;
}

BOX_CLI_VERB(stop) = {
	.name = "stop",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = stop_verb,
	.summary = "stop background processes",
	.usage = "Usage: box stop [OPTION]... NAME [PROCESS]...\n"
		 "Stops background processes of a box, or all of them: SIGTERM, then SIGKILL 5 s\n"
		 "later. The box stays.\n"
		 "\n" BOX_CLI_COMMON_USAGE,
};
