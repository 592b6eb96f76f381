/* The commands of msb: a box is a session that stays, with all that later calls need to know of it
 * kept by the runtime. */
#include "cli/msb/msb.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"

#define MSB_USAGE                                                                      \
	"      --endpoint URL     the runtime at ws://HOST[:PORT] (BOX_ENDPOINT)\n"    \
	"      --instance ID      the instance that the runtime serves\n"              \
	"                         (LANGBOT_BOX_TRUSTED_INSTANCE_UUID, else \"box\")\n" \
	"      --workspace ID     whose boxes (\"box\")\n"                             \
	"  -h, --help             print this, and exit\n"
#define QUIET_USAGE "  -q, --quiet            print nothing but errors\n"
#define END_USAGE QUIET_USAGE "  -f, --force            taken, and without effect: nothing waits\n"

static bool status_is(const struct box_value *info, const char *status)
{
	const struct box_value *value = box_map_get(info, "status");
	return value && value->type == BOX_STR && box_str_eq(value->str, status);
}

/* --- exec --- */

/* Each word is taken as it is, also a single one, and the shell makes way for the program. */
static int add_command(const struct cli *cli, struct box_value *spec, struct box_err *err)
{
	const struct box_cli_words *given = &cli->options.words;
	const char **words = box_arena_alloc(cli->arena, given->count * sizeof(*words));
	words[0] = "exec";
	memcpy(words + 1, given->items + 1, (given->count - 1) * sizeof(*words));
	return box_cli_add_command(cli, words, given->count, spec, err);
}

static int exec_in(const struct cli *cli, struct box_client *client)
{
	const char *name = cli->options.words.items[0];
	struct box_value data = box_cli_name_only(cli, name);
	struct box_value info;
	struct box_err err;
	if (box_cli_request(cli, client, "box_get_session", &data, &info) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (status_is(&info, "stopped")) {
		(void)box_err_set(&err, BOX_ERR_SESSION_CONFLICT, ESHUTDOWN,
			"sandbox %s is stopped: remove it, or create it with --replace", name);
		return box_cli_fail(&err);
	}
	struct box_value spec = box_cli_identity(cli, &info);
	if (add_command(cli, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	return box_cli_stream(cli, client, &spec, NULL);
}

static int msb_exec(const struct cli *cli)
{
	const struct box_cli_words *env = &cli->options.env;
	struct box_client *client;
	struct box_err err;
	struct cli as;
	if (cli->options.words.count < 2) {
		return box_cli_usage_error(cli, "NAME -- CMD is needed");
	}
	for (size_t i = 0; i < env->count; i++) {
		if (!strchr(env->items[i], '=')) {
			(void)box_err_set(&err, BOX_ERR_VALUE, EINVAL,
				"--env: \"%.100s\" is not KEY=VALUE", env->items[i]);
			return box_cli_fail(&err);
		}
	}
	if (box_cli_locate(cli, 0, &as) < 0 || box_cli_connect(&as, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = exec_in(&as, client);
	box_client_close(client);
	return code;
}

/* --- stop, remove --- */

static int msb_stop(const struct cli *cli)
{
	return box_cli_end_each(cli, "box_stop_session");
}

static int msb_remove(const struct cli *cli)
{
	return box_cli_end_each(cli, "box_delete_session");
}

/* --- ls --- */

/* msb knows no idle ones. */
static const char *status_of(const struct box_value *info)
{
	if (status_is(info, "stopped")) {
		return "stopped";
	}
	return status_is(info, "closing") ? "stopping" : "running";
}

static int print_json(const struct cli *cli, const struct box_value *sessions)
{
	static const struct {
		const char *name, *of;
	} members[] = {{"name", "session_id"}, {"image", "image"}, {"created_at", "created_at"}};
	struct box_value list = box_list_value();
	for (uint32_t i = 0; i < sessions->count; i++) {
		const struct box_value *info = &sessions->items[i];
		struct box_value row = box_map_value();
		for (size_t j = 0; j < BOX_COUNT_OF(members); j++) {
			const struct box_value *value = box_map_get(info, members[j].of);
			box_map_add(cli->arena, &row, members[j].name, value ? *value : box_null());
		}
		box_map_add(cli->arena, &row, "status", box_cstr(status_of(info)));
		box_list_add(cli->arena, &list, row);
	}
	return box_cli_print_json(&list);
}

static int print_table(const struct cli *cli, const struct box_value *sessions)
{
	if (sessions->count == 0 && !cli->options.quiet) {
		(void)fputs("No sandboxes found.\n", stderr);
		return 0;
	}
	if (!cli->options.quiet) {
		(void)printf("%-24s %-32s %-8s %s\n", "NAME", "IMAGE", "STATUS", "CREATED");
	}
	for (uint32_t i = 0; i < sessions->count; i++) {
		const struct box_value *info = &sessions->items[i];
		box_cli_print_text(box_map_get(info, "session_id"), cli->options.quiet ? 0 : 24);
		if (!cli->options.quiet) {
			(void)putchar(' ');
			box_cli_print_text(box_map_get(info, "image"), 32);
			(void)printf(" %-8s ", status_of(info));
			box_cli_print_text(box_map_get(info, "created_at"), 0);
		}
		(void)putchar('\n');
	}
	return box_cli_flush();
}

static int msb_ls(const struct cli *cli)
{
	const char *format = cli->options.format;
	struct box_client *client;
	struct box_value answer;
	if (cli->options.words.count > 0) {
		return box_cli_usage_error(cli, "takes no NAME");
	}
	if (format && strcmp(format, "json") != 0) {
		return box_cli_usage_error(cli, "--format: only json is known");
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = BOX_CLI_EXIT_FAILED;
	if (box_cli_request(cli, client, "box_get_sessions", NULL, &answer) == 0) {
		const struct box_value *sessions = box_map_get(&answer, "sessions");
		struct box_value none = box_list_value();
		sessions = sessions && sessions->type == BOX_LIST ? sessions : &none;
		code = format ? print_json(cli, sessions) : print_table(cli, sessions);
	}
	box_client_close(client);
	return code;
}

/* --- the table --- */

static const char remove_usage[] =
	"Usage: msb remove [OPTION]... NAME...\n"
	"Removes boxes and everything in them, running or stopped. Also: msb rm.\n"
	"\n" END_USAGE MSB_USAGE;
static const char ls_usage[] = "Usage: msb ls [OPTION]...\n"
			       "Lists boxes, also those that are stopped. Also: msb list.\n"
			       "\n"
			       "  -q, --quiet            only names\n"
			       "      --format json      as JSON\n" MSB_USAGE;

const struct box_cli_command box_msb_commands[BOX_MSB_COMMANDS] = {
	{"create", BOX_CLI_MSB | BOX_CLI_MSB_CREATE, SIZE_MAX, box_msb_create, "make a box",
		"Usage: msb create [OPTION]... --name NAME IMAGE\n"
		"Makes a box. IMAGE is a name of the configuration's images:, an image file named\n"
		"there, or a folder with a root file system (a path, beginning with / or .).\n"
		"Other names are labels: the box has the runtime's usual root.\n"
		"\n"
		"  -n, --name NAME        what it is called\n"
		"      --replace          remove the one that has this name\n"
		"  -c, --cpus N           the most processors (1)\n"
		"  -m, --memory SIZE      the most memory, such as 512M or 1G (512M)\n"
		"      --no-network       no network (--no-net)\n"
		"  -v, --volume HOST:GUEST[:ro|rw]\n"
		"                         show a folder of the host in it; repeatable (rw)\n"
		"      --max-duration T   stop it after this time, such as 30s, 5m or 1h\n"
		"      --idle-timeout T   stop it when nothing ran in it for this time\n" QUIET_USAGE
			MSB_USAGE},
	{"exec", BOX_CLI_MSB | BOX_CLI_MSB_EXEC, 1, msb_exec, "run a command in a box",
		"Usage: msb exec [OPTION]... NAME -- CMD [ARG]...\n"
		"Runs a program in a box, with our stdin, stdout and stderr. Each word is taken as\n"
		"it is. Exit status: that of the command; 125 when msb itself failed.\n"
		"\n"
		"  -e, --env KEY=VALUE    set a variable; repeatable\n" QUIET_USAGE MSB_USAGE},
	{"stop", BOX_CLI_MSB | BOX_CLI_MSB_END, SIZE_MAX, msb_stop, "stop boxes",
		"Usage: msb stop [OPTION]... NAME...\n"
		"Ends all that runs in boxes, with the files that are not in a volume. The names\n"
		"stay, for a day at most, until they are removed.\n"
		"\n" END_USAGE MSB_USAGE},
	{"remove", BOX_CLI_MSB | BOX_CLI_MSB_END, SIZE_MAX, msb_remove, "remove boxes",
		remove_usage},
	{"rm", BOX_CLI_MSB | BOX_CLI_MSB_END, SIZE_MAX, msb_remove, "remove boxes", remove_usage},
	{"ls", BOX_CLI_MSB | BOX_CLI_MSB_LIST, SIZE_MAX, msb_ls, "list boxes", ls_usage},
	{"list", BOX_CLI_MSB | BOX_CLI_MSB_LIST, SIZE_MAX, msb_ls, "list boxes", ls_usage},
};

const char box_msb_usage[] =
	"Usage: msb COMMAND ...\n"
	"       box msb COMMAND ...\n"
	"Boxes by the verbs and flags of microsandbox's msb, in a boxd that runs.\n"
	"\n"
	"  create   make a box\n"
	"  exec     run a command in a box\n"
	"  stop     stop boxes\n"
	"  remove   remove boxes\n"
	"  ls       list boxes\n"
	"\n" MSB_USAGE "  -V, --version          print the version, and exit\n"
	"\n"
	"msb COMMAND --help tells the options of a command.\n";
