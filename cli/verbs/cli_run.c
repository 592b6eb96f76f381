/* box run: a new box for one command. With a boxd of our own the box ends with boxd; in a shared runtime it is
 * removed, whatever happened to the command. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/hash.h"
#include "cli/cli.h"
#include "cli/cli_terminal.h"

#define OWN_BOXD_ONLY " is for a boxd that box starts: leave out --endpoint and unset BOX_ENDPOINT"
#define NAME_BYTES 8
#define SHORT_TIMEOUT_MS 5000

static const char *make_name(struct box_arena *arena)
{
	unsigned char bytes[NAME_BYTES];
	char text[2 * NAME_BYTES + 1];
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		abort();
	}
	box_hash_hex(bytes, sizeof(bytes), text);
	return box_arena_printf(arena, "run-%s", text);
}

/* After a timeout the box is gone already; only the exit code of the command matters. */
static void remove_box(
	const struct cli *cli, struct box_client *client, const char *name, int timeout_ms)
{
	struct box_value answer;
	struct box_value data = box_map_value();
	box_map_add(cli->arena, &data, "session_id", box_cstr(name));
	(void)box_client_call(
		client, "box_delete_session", &data, timeout_ms, cli->arena, &answer, NULL);
}

/* Allows all mounts: they are limited by the rights of the user who runs box, and by --config. Without --skill
 * the skill store is moved away from the working folder, so that this can be mounted. */
static struct box_value allow_mounts(const struct cli *cli)
{
	struct box_value local = box_map_value();
	struct box_value roots = box_list_value();
	box_list_add(cli->arena, &roots, box_cstr("/"));
	box_map_add(cli->arena, &local, "allowed_mount_roots", roots);
	if (!cli->options.skill) {
		box_map_add(cli->arena, &local, "skills_root", box_cstr("/nonexistent/skills"));
	}
	return local;
}

/* Sends the backend, and for our own boxd what may be mounted. */
static int configure(const struct cli *cli, struct box_client *client)
{
	struct box_value answer;
	struct box_value config = box_map_value();
	struct box_err err;
	bool mounts = cli->options.mounts.count > 0 && box_client_is_private(client);
	if (!cli->options.backend && !mounts) {
		return 0;
	}
	if (cli->options.backend) {
		box_map_add(cli->arena, &config, "backend", box_cstr(cli->options.backend));
	}
	if (mounts) {
		box_map_add(cli->arena, &config, "local", allow_mounts(cli));
	}
	int r = box_client_call(
		client, "box_init", &config, BOX_CLI_CALL_MS, cli->arena, &answer, &err);
	if (r < 0) {
		(void)box_cli_fail(&err);
	}
	return r;
}

static int run_verb(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	const char *name = make_name(cli->arena);
	struct box_client *client;
	struct box_value spec;
	struct box_err err;
	if (words->count == 0 && !box_cli_is_interactive(cli)) {
		return box_cli_usage_error(cli, "no command");
	}
	/* A runtime that others use, too, keeps its configuration and its backend. */
	bool is_shared = box_cli_client_options(cli, true).endpoint != NULL;
	if (is_shared && (cli->options.config || cli->options.backend)) {
		return box_cli_usage_error(cli,
			cli->options.config ? "--config" OWN_BOXD_ONLY : "--backend" OWN_BOXD_ONLY);
	}
	if (box_cli_check_terminal(cli, &err) < 0 || box_cli_spec(cli, name, &spec, &err) < 0 ||
		box_cli_add_command(cli, words->items, words->count, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (box_cli_connect(cli, true, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = configure(cli, client) < 0 ? BOX_CLI_EXIT_FAILED
					      : box_cli_stream(cli, client, &spec, NULL);
	if (!box_client_is_private(client)) {
		/* After a signal we do not wait long for a runtime that hangs. */
		bool short_timeout = box_cli_terminal_take_signals().ended_by != 0;
		remove_box(cli, client, name, short_timeout ? SHORT_TIMEOUT_MS : BOX_CLI_CALL_MS);
	}
	box_client_close(client);
	return code;
}

BOX_CLI_VERB(run) = {
	.name = "run",
	.options = {box_cli_options_common, box_cli_options_spec, box_cli_options_backend,
		box_cli_options_command, box_cli_options_skill, box_cli_options_config},
	.plain_words = 0,
	.run = run_verb,
	.summary = "run a command in a new box, and remove the box afterwards",
	.usage =
		"Usage: box run [OPTION]... [[--] CMD [ARG]...]\n"
		"Runs a command in a new box, which is removed afterwards. Unless an endpoint is\n"
		"given, box starts a boxd for it. A single CMD is a command line for sh; with\n"
		"ARGs no shell interprets the words. With -it and no CMD it is a login shell.\n"
		"\n" BOX_CLI_BACKEND_USAGE BOX_CLI_SPEC_USAGE BOX_CLI_COMMAND_USAGE
			BOX_CLI_SKILL_USAGE
		"      --config FILE      configuration of the boxd that box starts\n" BOX_CLI_COMMON_USAGE,
};
