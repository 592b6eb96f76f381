/* box create, exec, ls and rm: boxes that stay, in a running runtime. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

/* --- create --- */

static int create_verb(const struct cli *cli)
{
	struct box_client *client;
	struct box_value spec;
	struct box_value info;
	struct box_err err;
	if (cli->options.words.count != 1) {
		return box_cli_usage_error(cli, "expected one NAME");
	}
	if (strchr(cli->options.words.items[0], '/')) {
		return box_cli_usage_error(cli, "NAME must not contain /: use --workspace");
	}
	if (box_cli_spec(cli, cli->options.words.items[0], &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	/* Boxes that are not persistent are removed when they have been idle for a while. */
	box_map_add(cli->arena, &spec, "persistent", box_bool(true));
	if (box_cli_connect(cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = BOX_CLI_EXIT_FAILED;
	if (box_cli_request(cli, client, "box_create_session", &spec, &info) == 0) {
		box_cli_print_text(box_map_get(&info, "session_id"), 0);
		(void)putchar('\n');
		code = box_cli_flush();
	}
	box_client_close(client);
	return code;
}

BOX_CLI_VERB(create) = {
	.name = "create",
	.options = {box_cli_options_common, box_cli_options_spec},
	.plain_words = SIZE_MAX,
	.run = create_verb,
	.summary = "create a box that stays",
	.usage = "Usage: box create [OPTION]... NAME\n"
		 "Creates a box that stays until it is removed, and prints its name.\n"
		 "\n" BOX_CLI_SPEC_USAGE BOX_CLI_COMMON_USAGE,
};

/* --- exec --- */

static int exec_in(const struct cli *cli, struct box_client *client)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_value spec;
	struct box_err err;
	if (box_cli_session_spec(cli, client, words->items[0], &spec) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (box_cli_add_command(cli, words->items + 1, words->count - 1, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (cli->options.timeout_sec) {
		/* By default a timeout removes the session too. */
		box_map_add(cli->arena, &spec, "keep_on_timeout", box_bool(true));
	}
	return box_cli_stream(cli, client, &spec, words->items[0]);
}

static int exec_verb(const struct cli *cli)
{
	struct box_client *client;
	struct box_err err;
	struct cli as;
	if (cli->options.words.count < (box_cli_is_interactive(cli) ? 1 : 2)) {
		return box_cli_usage_error(cli, "expected NAME CMD [ARG]...");
	}
	if (box_cli_check_terminal(cli, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (box_cli_locate(cli, 0, &as) < 0 || box_cli_connect(&as, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = exec_in(&as, client);
	box_client_close(client);
	return code;
}

BOX_CLI_VERB(exec) = {
	.name = "exec",
	.options = {box_cli_options_common, box_cli_options_command, box_cli_options_skill},
	.plain_words = 1,
	.run = exec_verb,
	.summary = "run a command in an existing box",
	.usage = "Usage: box exec [OPTION]... NAME [[--] CMD [ARG]...]\n"
		 "Runs a command in an existing box. A single CMD is a command line for sh; with\n"
		 "ARGs no shell interprets the words. With -it and no CMD it is a login shell.\n"
		 "\n" BOX_CLI_COMMAND_USAGE BOX_CLI_SKILL_USAGE BOX_CLI_COMMON_USAGE,
};

/* --- ls --- */

static void print_session(const struct cli *cli, const struct box_value *info)
{
	const struct box_value *memory = box_map_get(info, "memory_mb");
	const struct box_value *cpus = box_map_get(info, "cpus");
	char text[32];
	if (cli->options.all) {
		struct box_value name = box_cstr(box_cli_qualified_name(cli, info));
		box_cli_print_text(box_map_get(info, "instance_uuid"), 16);
		(void)putchar(' ');
		box_cli_print_text(&name, 32);
	} else {
		box_cli_print_text(box_map_get(info, "session_id"), 24);
	}
	(void)putchar(' ');
	box_cli_print_text(box_map_get(info, "status"), 8);
	(void)putchar(' ');
	box_cli_print_text(box_map_get(info, "network"), 8);
	(void)snprintf(text, sizeof(text), "%lld MB",
		memory && memory->type == BOX_INT ? (long long)memory->integer : 0LL);
	(void)printf(" %-10s", text);
	double number = cpus && cpus->type == BOX_REAL ? cpus->real
		: cpus && cpus->type == BOX_INT        ? (double)cpus->integer
						       : 0;
	(void)printf(" %-5.4g ", number);
	box_cli_print_text(box_map_get(info, "created_at"), 0);
	(void)putchar('\n');
}

static int print_sessions(const struct cli *cli, const struct box_value *sessions)
{
	if (cli->options.json) {
		return box_cli_print_json(sessions);
	}
	if (cli->options.all) {
		(void)printf("%-16s %-32s ", "INSTANCE", "WORKSPACE/BOX");
	} else {
		(void)printf("%-24s ", "NAME");
	}
	(void)printf("%-8s %-8s %-10s %-5s %s\n", "STATUS", "NETWORK", "MEMORY", "CPUS", "CREATED");
	for (uint32_t i = 0; i < sessions->count; i++) {
		print_session(cli, &sessions->items[i]);
	}
	return box_cli_flush();
}

/* Prints the reason when it fails. */
static int ask_sessions(
	const struct cli *cli, struct box_client *client, struct box_value *ret_sessions)
{
	struct box_value answer;
	if (cli->options.all) {
		return box_cli_request_all_boxes(cli, client, ret_sessions);
	}
	int r = box_cli_request(cli, client, "box_get_sessions", NULL, &answer);
	const struct box_value *sessions = r < 0 ? NULL : box_map_get(&answer, "sessions");
	*ret_sessions = sessions && sessions->type == BOX_LIST ? *sessions : box_list_value();
	return r;
}

static int ls_verb(const struct cli *cli)
{
	struct box_client *client;
	struct box_value sessions;
	if (cli->options.words.count > 0) {
		return box_cli_usage_error(cli, "takes no arguments");
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = ask_sessions(cli, client, &sessions) < 0 ? BOX_CLI_EXIT_FAILED
							    : print_sessions(cli, &sessions);
	box_client_close(client);
	return code;
}

BOX_CLI_VERB(ls) = {
	.name = "ls",
	.options = {box_cli_options_common, box_cli_options_json, box_cli_options_all},
	.plain_words = SIZE_MAX,
	.run = ls_verb,
	.summary = "list boxes",
	.usage = "Usage: box ls [OPTION]...\n"
		 "Lists the boxes of a workspace.\n"
		 "\n" BOX_CLI_ALL_USAGE
		 "      --json             print JSON with all details\n" BOX_CLI_COMMON_USAGE,
};

/* --- rm --- */

/* A box of another workspace needs a connection of its own. */
static int end_one(
	const struct cli *cli, struct box_client *client, const char *action, size_t word)
{
	struct box_client *other = NULL;
	struct box_value answer;
	struct cli as;
	if (box_cli_locate(cli, word, &as) < 0) {
		return -ENOENT;
	}
	const char *name = as.options.words.items[word];
	bool elsewhere = name != cli->options.words.items[word];
	if (elsewhere && box_cli_connect(&as, false, &other) < 0) {
		return -EIO;
	}
	struct box_value data = box_cli_name_only(cli, name);
	int r = box_cli_request(&as, elsewhere ? other : client, action, &data, &answer);
	if (elsewhere) {
		box_client_close(other);
	}
	return r;
}

int box_cli_end_each(const struct cli *cli, const char *action)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_client *client;
	int code = 0;
	if (words->count == 0) {
		return box_cli_usage_error(cli, "expected at least one NAME");
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	for (size_t i = 0; i < words->count; i++) {
		if (end_one(cli, client, action, i) < 0) {
			code = BOX_CLI_EXIT_FAILED;
		} else if (!cli->options.quiet) {
			(void)printf("%s\n", words->items[i]);
		}
	}
	box_client_close(client);
	int lost = box_cli_flush();
	return lost ? lost : code;
}

static int rm_verb(const struct cli *cli)
{
	return box_cli_end_each(cli, "box_delete_session");
}

BOX_CLI_VERB(rm) = {
	.name = "rm",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = rm_verb,
	.summary = "remove boxes",
	.usage = "Usage: box rm [OPTION]... NAME...\n"
		 "Removes boxes with all their files and processes.\n"
		 "\n" BOX_CLI_COMMON_USAGE,
};
