/* `msb`, and `box msb`: the commands and options of microsandbox's msb, which agents call. A box is a persistent
 * session; the runtime keeps all that later calls need to know of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/msb/msb_values.h"
#include "cli/path_argument.h"

/* --- options --- */

static const struct box_cli_option common[] = {
	BOX_CLI_OPTION("--help", 'h', FLAG, help),
	BOX_CLI_OPTION("--version", 'V', FLAG, version),
	BOX_CLI_OPTION("--endpoint", 0, TEXT, endpoint),
	BOX_CLI_OPTION("--instance", 0, TEXT, instance),
	BOX_CLI_OPTION("--workspace", 0, TEXT, workspace),
	{0},
};
#define COMMON_USAGE                                                                   \
	"      --endpoint URL     the runtime, ws://HOST[:PORT] or unix:/PATH\n"       \
	"                         (default: $BOX_ENDPOINT, else the operator's\n"      \
	"                         Unix socket, else\n"                                 \
	"                         127.0.0.1:5410)\n"                                   \
	"      --instance ID      instance id of the runtime (default:\n"              \
	"                         $LANGBOT_BOX_TRUSTED_INSTANCE_UUID, else \"box\")\n" \
	"      --workspace ID     workspace of the boxes (default: \"box\")\n"         \
	"  -h, --help             print this help and exit\n"

static const struct box_cli_option quiet[] = {
	BOX_CLI_OPTION("--quiet", 'q', FLAG, quiet),
	{0},
};
#define QUIET_USAGE "  -q, --quiet            print only errors\n"

static const struct box_cli_option force[] = {
	BOX_CLI_OPTION("--force", 'f', FLAG, force),
	{0},
};
#define FORCE_USAGE "  -f, --force            accepted, but has no effect\n"

static bool status_is(const struct box_value *info, const char *status)
{
	const struct box_value *value = box_map_get(info, "status");
	return value && value->type == BOX_STR && box_str_eq(value->str, status);
}

/* --- create --- */

/* A path is made absolute; the runtime decides whether it is a folder or an image file. */
static int add_image(
	const struct cli *cli, const char *image, struct box_value *spec, struct box_err *err)
{
	if (image[0] == '/' || image[0] == '.') {
		int r = box_path_argument_resolve(cli->arena, image, &image, err);
		if (r < 0) {
			return r;
		}
	}
	if (image[0] == '\0' || !box_utf8_valid(image, strlen(image))) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "IMAGE is empty or not valid UTF-8");
	}
	box_map_add(cli->arena, spec, "image", box_cstr(image));
	return 0;
}

static int add_volumes(const struct cli *cli, struct box_value *spec, struct box_err *err)
{
	const struct box_cli_words *given = &cli->options.volumes;
	struct box_value volumes = box_list_value();
	for (size_t i = 0; i < given->count; i++) {
		struct box_path_argument_mount volume = {0};
		if (!box_utf8_valid(given->items[i], strlen(given->items[i]))) {
			return box_err_set(err, BOX_ERR_VALUE, EILSEQ, "--volume: not valid UTF-8");
		}
		const char *host = NULL;
		int r = box_msb_values_volume(cli->arena, given->items[i], &volume, err);
		if (r == 0) {
			r = box_path_argument_resolve(cli->arena, volume.host, &host, err);
		}
		if (r < 0) {
			return r;
		}
		struct box_value mount = box_map_value();
		box_map_add(cli->arena, &mount, "host_path", box_cstr(host));
		box_map_add(cli->arena, &mount, "mount_path", box_cstr(volume.box));
		box_map_add(cli->arena, &mount, "mode", box_cstr(volume.mode));
		box_list_add(cli->arena, &volumes, mount);
	}
	if (volumes.count > 0) {
		box_map_add(cli->arena, spec, "volumes", volumes);
	}
	return 0;
}

static int add_time(const struct cli *cli, const char *flag, const char *text, const char *member,
	struct box_value *spec, struct box_err *err)
{
	int64_t seconds = 0;
	int r = text ? box_msb_values_duration(flag, text, &seconds, err) : 0;
	if (seconds > 0) {
		box_map_add(cli->arena, spec, member, box_int(seconds));
	}
	return r;
}

static int make_spec(const struct cli *cli, struct box_value *ret_spec, struct box_err *err)
{
	const struct box_cli_options *options = &cli->options;
	struct box_value spec;
	int64_t memory_mb = 0;
	int r = box_cli_spec(cli, options->name, &spec, err);
	if (r < 0) {
		return r;
	}
	r = add_image(cli, options->words.items[0], &spec, err);
	if (r < 0) {
		return r;
	}
	if (options->memory) {
		r = box_msb_values_memory("--memory", options->memory, &memory_mb, err);
		if (r < 0) {
			return r;
		}
		box_map_add(cli->arena, &spec, "memory_mb", box_int(memory_mb));
	}
	r = add_volumes(cli, &spec, err);
	if (r < 0) {
		return r;
	}
	r = add_time(cli, "--idle-timeout", options->idle_timeout, "idle_timeout_sec", &spec, err);
	if (r < 0) {
		return r;
	}
	r = add_time(cli, "--max-duration", options->max_duration, "max_duration_sec", &spec, err);
	if (r < 0) {
		return r;
	}
	box_map_add(cli->arena, &spec, "network", box_cstr(options->no_network ? "off" : "on"));
	box_map_add(cli->arena, &spec, "read_only_rootfs", box_bool(false));
	/* It ends by its own timeouts, or when it is stopped. */
	box_map_add(cli->arena, &spec, "persistent", box_bool(true));
	*ret_spec = spec;
	return 0;
}

/* Makes sure that no box has this name. Prints the reason when one has. */
static int clear_name(const struct cli *cli, struct box_client *client)
{
	const char *name = cli->options.name;
	struct box_value data = box_cli_name_only(cli, name);
	struct box_value answer;
	struct box_err err = {0};
	int r = box_cli_try_request(cli, client,
		cli->options.replace ? "box_delete_session" : "box_get_session", &data, &answer,
		&err);
	if (r < 0 && err.code == BOX_ERR_SESSION_NOT_FOUND) {
		return 0;
	}
	if (r == 0 && !cli->options.replace) {
		r = box_err_set(&err, BOX_ERR_SESSION_CONFLICT, EEXIST,
			"sandbox %s already exists: remove it, or create it with --replace", name);
	}
	return r < 0 ? box_cli_fail(&err) : 0;
}

/* Volumes are opened for each command: an empty command shows errors now. */
static int try_volumes(const struct cli *cli, struct box_client *client, struct box_value *spec)
{
	struct box_value data = box_cli_name_only(cli, cli->options.name);
	struct box_value answer;
	struct box_err err = {0};
	struct box_err ignored;
	if (cli->options.volumes.count == 0) {
		return 0;
	}
	box_map_add(cli->arena, spec, "cmd", box_cstr(":"));
	if (box_cli_try_request(cli, client, "box_exec", spec, &answer, &err) == 0) {
		return 0;
	}
	(void)box_cli_try_request(cli, client, "box_delete_session", &data, &answer, &ignored);
	return box_cli_fail(&err);
}

static int create(const struct cli *cli, struct box_client *client, struct box_value *spec)
{
	struct box_value info;
	int code = clear_name(cli, client);
	if (code == 0 && box_cli_request(cli, client, "box_create_session", spec, &info) < 0) {
		code = BOX_CLI_EXIT_FAILED;
	}
	code = code ? code : try_volumes(cli, client, spec);
	if (code == 0 && !cli->options.quiet) {
		(void)printf("%s\n", cli->options.name);
		code = box_cli_flush();
	}
	return code;
}

static int msb_create(const struct cli *cli)
{
	struct box_client *client;
	struct box_value spec;
	struct box_err err;
	if (!cli->options.name) {
		return box_cli_usage_error(cli, "--name is required");
	}
	if (cli->options.words.count != 1) {
		return box_cli_usage_error(cli, "expected one IMAGE");
	}
	if (make_spec(cli, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = create(cli, client, &spec);
	box_client_close(client);
	return code;
}

static const struct box_cli_option create_options[] = {
	BOX_CLI_OPTION("--name", 'n', TEXT, name),
	BOX_CLI_OPTION("--replace", 0, FLAG, replace),
	BOX_CLI_OPTION("--cpus", 'c', REAL, cpus),
	BOX_CLI_OPTION("--memory", 'm', TEXT, memory),
	BOX_CLI_OPTION("--no-network", 0, FLAG, no_network),
	BOX_CLI_OPTION("--no-net", 0, FLAG, no_network),
	BOX_CLI_OPTION("--volume", 'v', WORDS, volumes),
	BOX_CLI_OPTION("--max-duration", 0, TEXT, max_duration),
	BOX_CLI_OPTION("--idle-timeout", 0, TEXT, idle_timeout),
	{0},
};

static const struct box_cli_command create_command = {
	.name = "create",
	.options = {common, create_options, quiet},
	.plain_words = SIZE_MAX,
	.run = msb_create,
	.summary = "create a box",
	.usage =
		"Usage: msb create [OPTION]... --name NAME IMAGE\n"
		"Creates a box. IMAGE is a name under images: in the configuration, the path of\n"
		"an image file that is listed there, or the path of a folder with a root file\n"
		"system (paths begin with / or .). Any other name is only a label: the box gets\n"
		"the default root of the runtime.\n"
		"\n"
		"  -n, --name NAME        name of the box\n"
		"      --replace          remove an existing box of this name first\n"
		"  -c, --cpus N           CPU limit (default: 1)\n"
		"  -m, --memory SIZE      memory limit, such as 512M or 1G (default: 512M)\n"
		"      --no-network       no network (also --no-net)\n"
		"  -v, --volume HOST:GUEST[:ro|rw]\n"
		"                         mount a host folder in the box; repeatable (default:\n"
		"                         rw)\n"
		"      --max-duration T   stop the box after this time, such as 30s, 5m or 1h\n"
		"      --idle-timeout T   stop the box when nothing ran in it for this time\n" QUIET_USAGE
			COMMON_USAGE,
};

/* --- exec --- */

/* No shell interprets the words, not even a single one: the shell is replaced by the program. */
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
		return box_cli_usage_error(cli, "expected NAME -- CMD [ARG]...");
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

static const struct box_cli_option exec_options[] = {
	BOX_CLI_OPTION("--env", 'e', WORDS, env),
	{0},
};

static const struct box_cli_command exec_command = {
	.name = "exec",
	.options = {common, exec_options, quiet},
	.plain_words = 1,
	.run = msb_exec,
	.summary = "run a command in a box",
	.usage = "Usage: msb exec [OPTION]... NAME -- CMD [ARG]...\n"
		 "Runs a program in a box with our stdin, stdout and stderr, without a shell.\n"
		 "Exit status: that of the command; 125 when msb itself failed.\n"
		 "\n"
		 "  -e, --env KEY=VALUE    set an environment variable; repeatable\n" QUIET_USAGE
			 COMMON_USAGE,
};

/* --- stop, remove --- */

static int msb_stop(const struct cli *cli)
{
	return box_cli_end_each(cli, "box_stop_session");
}

static int msb_remove(const struct cli *cli)
{
	return box_cli_end_each(cli, "box_delete_session");
}

static const struct box_cli_command stop_command = {
	.name = "stop",
	.options = {common, force, quiet},
	.plain_words = SIZE_MAX,
	.run = msb_stop,
	.summary = "stop boxes",
	.usage = "Usage: msb stop [OPTION]... NAME...\n"
		 "Ends everything that runs in the boxes, and deletes all files outside of\n"
		 "volumes. The names stay for a day at most, until they are removed.\n"
		 "\n" QUIET_USAGE FORCE_USAGE COMMON_USAGE,
};

static const char remove_usage[] =
	"Usage: msb remove [OPTION]... NAME...\n"
	"Removes boxes with all their files, running or stopped. Also: msb rm.\n"
	"\n" QUIET_USAGE FORCE_USAGE COMMON_USAGE;

static const struct box_cli_command remove_command = {
	.name = "remove",
	.options = {common, force, quiet},
	.plain_words = SIZE_MAX,
	.run = msb_remove,
	.summary = "remove boxes",
	.usage = remove_usage,
};

static const struct box_cli_command rm_command = {
	.name = "rm",
	.options = {common, force, quiet},
	.plain_words = SIZE_MAX,
	.run = msb_remove,
	.summary = "remove boxes",
	.usage = remove_usage,
};

/* --- ls --- */

/* msb has no idle sandboxes. */
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
		return box_cli_usage_error(cli, "takes no arguments");
	}
	if (format && strcmp(format, "json") != 0) {
		return box_cli_usage_error(cli, "--format: only json is supported");
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

static const struct box_cli_option ls_options[] = {
	BOX_CLI_OPTION("--format", 0, TEXT, format),
	{0},
};

static const char ls_usage[] = "Usage: msb ls [OPTION]...\n"
			       "Lists boxes, including stopped ones. Also: msb list.\n"
			       "\n"
			       "  -q, --quiet            print only names\n"
			       "      --format json      print JSON\n" COMMON_USAGE;

static const struct box_cli_command ls_command = {
	.name = "ls",
	.options = {common, ls_options, quiet},
	.plain_words = SIZE_MAX,
	.run = msb_ls,
	.summary = "list boxes",
	.usage = ls_usage,
};

static const struct box_cli_command list_command = {
	.name = "list",
	.options = {common, ls_options, quiet},
	.plain_words = SIZE_MAX,
	.run = msb_ls,
	.summary = "list boxes",
	.usage = ls_usage,
};

/* --- the family --- */

static const struct box_cli_command *const commands[] = {&create_command, &exec_command,
	&stop_command, &remove_command, &rm_command, &ls_command, &list_command, NULL};

BOX_CLI_VERB(msb) = {
	.name = "msb",
	.options = {common},
	.summary = "the commands of microsandbox's msb",
	.usage = "Usage: msb COMMAND ...\n"
		 "       box msb COMMAND ...\n"
		 "Manages boxes of a running boxd with the commands and options of microsandbox's\n"
		 "msb.\n"
		 "\n"
		 "  create   create a box\n"
		 "  exec     run a command in a box\n"
		 "  stop     stop boxes\n"
		 "  remove   remove boxes\n"
		 "  ls       list boxes\n"
		 "\n" COMMON_USAGE "  -V, --version          print the version and exit\n"
		 "\n"
		 "msb COMMAND --help shows the options of a command.\n",
	.subs = commands,
};
