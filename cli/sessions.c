/* Boxes that stay: create, exec, ls, rm, in a runtime that is running. */
#include <stdio.h>

#include "cli/cli.h"

/* --- create --- */

int box_cli_create(const struct cli *cli)
{
	struct box_client *client;
	struct box_value spec;
	struct box_value info;
	struct box_err err;
	if (cli->options.words.count != 1) {
		return box_cli_misused(cli, "one NAME is needed");
	}
	if (box_cli_spec(cli, cli->options.words.items[0], &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	/* Others are removed when nothing ran in them for a while. */
	box_map_add(cli->arena, &spec, "persistent", box_bool(true));
	if (box_cli_connect(cli, false, &client) < 0) {
		return CLI_EXIT_FAILED;
	}
	int code = CLI_EXIT_FAILED;
	if (box_cli_ask(cli, client, "box_create_session", &spec, &info) == 0) {
		box_cli_print_text(box_map_get(&info, "session_id"), 0);
		(void)putchar('\n');
		code = box_cli_flush();
	}
	box_client_close(client);
	return code;
}

/* --- exec --- */

static int exec_in(const struct cli *cli, struct box_client *client)
{
	const struct cli_words *words = &cli->options.words;
	struct box_value spec;
	struct box_err err;
	if (box_cli_session_spec(cli, client, words->items[0], &spec) < 0) {
		return CLI_EXIT_FAILED;
	}
	if (box_cli_add_command(cli, words->items + 1, words->count - 1, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (cli->options.timeout_sec) {
		/* By itself a command that takes too long takes its session with it. */
		box_map_add(cli->arena, &spec, "keep_on_timeout", box_bool(true));
	}
	return box_cli_stream(cli, client, &spec, words->items[0]);
}

int box_cli_exec(const struct cli *cli)
{
	struct box_client *client;
	struct box_err err;
	if (cli->options.words.count < (box_cli_is_dialog(cli) ? 1 : 2)) {
		return box_cli_misused(cli, "NAME and a command are needed");
	}
	if (box_cli_check_terminal(cli, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return CLI_EXIT_FAILED;
	}
	int code = exec_in(cli, client);
	box_client_close(client);
	return code;
}

/* --- ls --- */

static void print_session(const struct box_value *info)
{
	const struct box_value *memory = box_map_get(info, "memory_mb");
	const struct box_value *cpus = box_map_get(info, "cpus");
	char text[32];
	box_cli_print_text(box_map_get(info, "session_id"), 24);
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

static int print_sessions(const struct cli *cli, const struct box_value *answer)
{
	const struct box_value *sessions = box_map_get(answer, "sessions");
	struct box_value none = box_list_value();
	sessions = sessions && sessions->type == BOX_LIST ? sessions : &none;
	if (cli->options.json) {
		return box_cli_print_json(sessions);
	}
	(void)printf("%-24s %-8s %-8s %-10s %-5s %s\n", "NAME", "STATUS", "NETWORK", "MEMORY",
		"CPUS", "CREATED");
	for (uint32_t i = 0; i < sessions->count; i++) {
		print_session(&sessions->items[i]);
	}
	return box_cli_flush();
}

int box_cli_ls(const struct cli *cli)
{
	struct box_client *client;
	struct box_value answer;
	if (cli->options.words.count > 0) {
		return box_cli_misused(cli, "takes no NAME");
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return CLI_EXIT_FAILED;
	}
	int code = box_cli_ask(cli, client, "box_get_sessions", NULL, &answer) < 0
		? CLI_EXIT_FAILED
		: print_sessions(cli, &answer);
	box_client_close(client);
	return code;
}

/* --- rm --- */

int box_cli_end_each(const struct cli *cli, const char *action)
{
	const struct cli_words *words = &cli->options.words;
	struct box_client *client;
	int code = 0;
	if (words->count == 0) {
		return box_cli_misused(cli, "at least one NAME is needed");
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return CLI_EXIT_FAILED;
	}
	for (size_t i = 0; i < words->count; i++) {
		struct box_value data = box_cli_name_only(cli, words->items[i]);
		struct box_value answer;
		if (box_cli_ask(cli, client, action, &data, &answer) < 0) {
			code = CLI_EXIT_FAILED;
		} else if (!cli->options.quiet) {
			(void)printf("%s\n", words->items[i]);
		}
	}
	box_client_close(client);
	int lost = box_cli_flush();
	return lost ? lost : code;
}

int box_cli_rm(const struct cli *cli)
{
	return box_cli_end_each(cli, "box_delete_session");
}
