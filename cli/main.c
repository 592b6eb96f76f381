/* `box`: the table of commands, and what they share: one line for what went wrong, and the way to a
 * runtime. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/cli_usage.h"
#include "cli/msb/msb.h"
#include "cli/safe_text.h"
#include "cli/skill/cli_skill.h"

#ifndef BOX_VERSION
#define BOX_VERSION "0.0.0"
#endif

#define LOCAL_USAGE                                                 \
	"  -v, --verbose          show what is logged on the way\n" \
	"  -h, --help             print this, and exit\n"
#define CONFIG_USAGE                                                                \
	"      --config FILE      the bot platform's or boxd's own, for what the\n" \
	"                         operator set (LANGBOT_BOX_CONFIG)\n"
#define KIND_USAGE "      --backend NAME     native, or krun for a microVM\n"
#define SPEC_USAGE                                                                      \
	"      --network on|off   whether it reaches the network (off)\n"               \
	"      --allow CIDR[:PORT]\n"                                                   \
	"                         reach this and what else is allowed, nothing more;\n" \
	"                         repeatable, implies --network on\n"                   \
	"      --host-port PORT   the same, of a port at its own address on the host\n" \
	"      --memory MB        the most memory (512)\n"                              \
	"      --cpus N           the most processors, such as 0.5 (1)\n"               \
	"      --pids N           the most processes (128)\n"                           \
	"      --writable-root    let it change its root folder\n"
#define COMMAND_USAGE                                                                     \
	"      --timeout SEC      end the command after that time, and exit 124; a box\n" \
	"                         that was there stays (never)\n"                         \
	"      --mount HOST:BOX[:ro|rw]\n"                                                \
	"                         show a folder of the host in it; repeatable (rw)\n"     \
	"      --workdir PATH     the folder it starts in (/workspace)\n"                 \
	"      --env NAME[=VALUE] set a variable, or pass on ours; repeatable\n"          \
	"  -i, --interactive      with -t: what is typed goes to it\n"                    \
	"  -t, --tty              give it a terminal\n"

#define ALL_USAGE "  -a, --all              of all workspaces, by WORKSPACE/BOX: for the operator\n"
#define SKILL_USAGE \
	"      --skill NAME       show a skill of the runtime in it, under .skills/NAME\n"

static const struct box_cli_command commands[] = {
	{"run",
		BOX_CLI_COMMON | BOX_CLI_SPEC | BOX_CLI_KIND | BOX_CLI_COMMAND | BOX_CLI_SKILL |
			BOX_CLI_START,
		0, box_cli_run, "run a command in a box of its own",
		"Usage: box run [OPTION]... [[--] CMD [ARG]...]\n"
		"Runs a command in a box that is made for it and removed after. No boxd needs to\n"
		"run. A single CMD is a command line for sh; with ARGs each word is taken as it\n"
		"is. With -it and no CMD it is a login shell.\n"
		"\n" KIND_USAGE SPEC_USAGE COMMAND_USAGE SKILL_USAGE
		"      --config FILE      the configuration of the boxd that is started\n" BOX_CLI_COMMON_USAGE},
	{"create", BOX_CLI_COMMON | BOX_CLI_SPEC, SIZE_MAX, box_cli_create, "make a box that stays",
		"Usage: box create [OPTION]... NAME\n"
		"Makes a box that stays until it is removed. Its name is printed.\n"
		"\n" SPEC_USAGE BOX_CLI_COMMON_USAGE},
	{"exec", BOX_CLI_COMMON | BOX_CLI_COMMAND | BOX_CLI_SKILL, 1, box_cli_exec,
		"run a command in a box that is there",
		"Usage: box exec [OPTION]... NAME [[--] CMD [ARG]...]\n"
		"Runs a command in a box. A single CMD is a command line for sh; with ARGs each\n"
		"word is taken as it is. With -it and no CMD it is a login shell.\n"
		"\n" COMMAND_USAGE SKILL_USAGE BOX_CLI_COMMON_USAGE},
	{"ls", BOX_CLI_COMMON | BOX_CLI_LIST | BOX_CLI_ALL, SIZE_MAX, box_cli_ls, "list boxes",
		"Usage: box ls [OPTION]...\n"
		"Lists the boxes of a workspace.\n"
		"\n" ALL_USAGE
		"      --json             as JSON, with everything that is known\n" BOX_CLI_COMMON_USAGE},
	{"rm", BOX_CLI_COMMON, SIZE_MAX, box_cli_rm, "remove boxes",
		"Usage: box rm [OPTION]... NAME...\n"
		"Removes boxes and everything in them.\n"
		"\n" BOX_CLI_COMMON_USAGE},
	{"start", BOX_CLI_COMMON | BOX_CLI_PROCESS, 1, box_cli_start,
		"start a process that a box keeps",
		"Usage: box start [OPTION]... NAME [--] CMD [ARG]...\n"
		"Starts a process in a box, which keeps it running whoever comes and goes. Its id\n"
		"is printed. A single CMD that is more than a name is a command line for sh; with\n"
		"ARGs each word is taken as it is. One of the same id is stopped first. Of its\n"
		"output the last MiB is kept: it never waits for a reader.\n"
		"\n"
		"      --name ID          what it is called in the box (default)\n"
		"      --env NAME[=VALUE] set a variable, or pass on ours; repeatable\n"
		"      --workdir PATH     the folder it starts in (/workspace)\n"
		"      --memory MB        the most memory it may use\n" BOX_CLI_COMMON_USAGE},
	{"ps", BOX_CLI_COMMON | BOX_CLI_LIST | BOX_CLI_ALL, SIZE_MAX, box_cli_ps,
		"list processes that boxes keep",
		"Usage: box ps [OPTION]... [NAME]\n"
		"Lists the processes of one box, or of all of a workspace, with those that have\n"
		"ended of late.\n"
		"\n" ALL_USAGE
		"      --json             as JSON, with everything that is known\n" BOX_CLI_COMMON_USAGE},
	{"logs", BOX_CLI_COMMON | BOX_CLI_FOLLOW, SIZE_MAX, box_cli_logs,
		"show what a process wrote",
		"Usage: box logs [OPTION]... NAME [PROCESS]\n"
		"Shows what is still held of the output of a process, and takes nothing of it away\n"
		"from who is attached.\n"
		"\n"
		"  -f, --follow           go on until it ends\n" BOX_CLI_COMMON_USAGE},
	{"attach", BOX_CLI_COMMON, SIZE_MAX, box_cli_attach, "speak with a process",
		"Usage: box attach [OPTION]... NAME [PROCESS]\n"
		"Connects our stdin and stdout with those of a process. Ctrl-C detaches and leaves\n"
		"it running; the end of our input is the end of its input.\n"
		"\n" BOX_CLI_COMMON_USAGE},
	{"stop", BOX_CLI_COMMON, SIZE_MAX, box_cli_stop, "stop processes that a box keeps",
		"Usage: box stop [OPTION]... NAME [PROCESS]...\n"
		"Stops processes of a box, or all of them: SIGTERM, and SIGKILL 5 s later. The box\n"
		"stays.\n"
		"\n" BOX_CLI_COMMON_USAGE},
	{"cp", BOX_CLI_COMMON, SIZE_MAX, box_cli_cp, "copy files into a box, or out of it",
		"Usage: box cp [OPTION]... SRC NAME:PATH\n"
		"       box cp [OPTION]... NAME:PATH DST\n"
		"Copies a file or a folder. \"-\" is a tar archive on stdin or stdout. SRC/. means\n"
		"what is in a folder, not the folder itself.\n"
		"\n" BOX_CLI_COMMON_USAGE},
	{"skill", BOX_CLI_COMMON, 0, NULL, "keep skills in a runtime", box_cli_skill_usage,
		box_cli_skill_commands, BOX_CLI_SKILL_COMMANDS},
	{"msb", BOX_CLI_MSB, 0, NULL, "the same by the verbs of msb", box_msb_usage,
		box_msb_commands, BOX_MSB_COMMANDS},
	{"plan", BOX_CLI_COMMON | BOX_CLI_SPEC | BOX_CLI_KIND | BOX_CLI_COMMAND, 0, box_cli_plan,
		"show what run would make",
		"Usage: box plan [OPTION]... [[--] CMD [ARG]...]\n"
		"Prints what `box run` with the same options would make on this host, and makes\n"
		"nothing.\n"
		"\n" KIND_USAGE SPEC_USAGE COMMAND_USAGE LOCAL_USAGE},
	{"doctor", BOX_CLI_COMMON | BOX_CLI_LIST, SIZE_MAX, box_cli_doctor,
		"try all that boxes need here",
		"Usage: box doctor [OPTION]...\n"
		"Tries each thing that boxes need on this host, and names the cure for what\n"
		"fails. Exit status: 0 when boxes can be made, 1 when not.\n"
		"\n"
		"      --json             as JSON\n" LOCAL_USAGE},
	{"status", BOX_CLI_COMMON | BOX_CLI_LIST | BOX_CLI_START, SIZE_MAX, box_cli_status,
		"tell how the runtime is",
		"Usage: box status [OPTION]...\n"
		"Tells whether a runtime answers and can make boxes, and what it says of itself:\n"
		"disabled (by the configuration), unreachable, no_backend, or well. Exit status: 0\n"
		"when it is well, 1 when not.\n"
		"\n"
		"      --json             as JSON, with everything that is known\n" CONFIG_USAGE
			BOX_CLI_COMMON_USAGE},
	{"profiles", BOX_CLI_COMMON | BOX_CLI_LIST | BOX_CLI_START, SIZE_MAX, box_cli_profiles,
		"list profiles of boxes",
		"Usage: box profiles [OPTION]... [PROFILE]\n"
		"Lists the profiles that the service of libbox knows, or all of one.\n"
		"\n"
		"      --json             as JSON\n" CONFIG_USAGE LOCAL_USAGE},
};

#define COMMANDS (BOX_COUNT_OF(commands))

/* What we were called as. */
static const char *program = "box";

/* What is no UTF-8 becomes "?": names of files may be anything, and long texts are cut anywhere. */
static void repair(char *line, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t size = 1;
		while (size <= 4 && at + size <= len && !box_utf8_valid(line + at, size)) {
			size++;
		}
		bool good = size <= 4 && at + size <= len;
		line[at] = good ? line[at] : '?';
		at += good ? size : 1;
	}
}

/* Text from a runtime or an argument, as one line that cannot steer a terminal. */
static void print_line(const char *prefix, const char *text)
{
	char line[sizeof(((struct box_err *)0)->text) + 128];
	size_t len = 0;
	for (const char *c = text; *c && len + 1 < sizeof(line); c++) {
		bool wide = box_cli_is_c1(c, strlen(c));
		bool control = (unsigned char)*c < ' ' || *c == 0x7f || wide;
		c += wide;
		/* Lines of a longer text become one, their indentation one space. */
		if (control || (*c == ' ' && len > 0 && line[len - 1] == ' ')) {
			if (len > 0 && line[len - 1] != ' ') {
				line[len++] = ' ';
			}
		} else {
			line[len++] = *c;
		}
	}
	line[len] = '\0';
	repair(line, len);
	(void)fprintf(stderr, "%s%s\n", prefix, line);
}

/* What the command line and the system got wrong needs no name. */
int box_cli_fail(const struct box_err *err)
{
	char prefix[80];
	const char *name = box_code_name(err->code);
	bool named = name && err->code != BOX_ERR_VALUE && err->code != BOX_ERR_OS;
	(void)snprintf(
		prefix, sizeof(prefix), "%s: %s%s", program, named ? name : "", named ? ": " : "");
	struct box_err own = *err;
	box_safe_text_own_names(own.text);
	print_line(prefix, own.text);
	return BOX_CLI_EXIT_FAILED;
}

int box_cli_flush(void)
{
	struct box_err err;
	int errnum = fflush(stdout) < 0 ? errno : 0;
	if (errnum == 0 && !ferror(stdout)) {
		return 0;
	}
	if (errnum == EPIPE) {
		return BOX_CLI_EXIT_SIGNAL + SIGPIPE;
	}
	/* What failed before, and why nobody knows any more. */
	(void)box_err_set(&err, BOX_ERR_OS, errnum, "stdout: %s",
		errnum ? box_err_strerror(errnum) : "not all of it could be written");
	return box_cli_fail(&err);
}

void box_cli_warn(const char *format, ...)
{
	char *text = NULL;
	va_list arguments;
	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) >= 0) {
		char prefix[32];
		(void)snprintf(prefix, sizeof(prefix), "%s: warning: ", program);
		print_line(prefix, text);
		free(text);
	}
	va_end(arguments);
}

int box_cli_usage_error(const struct cli *cli, const char *why)
{
	(void)fprintf(stderr, "%s: %s: %s (see %s %s --help)\n", program, cli->name, why, program,
		cli->name);
	return BOX_CLI_EXIT_FAILED;
}

static void show_log_line(void *arg, const char *line)
{
	(void)arg;
	print_line("", line);
}

struct box_client_options box_cli_client_options(const struct cli *cli, bool spawn)
{
	const char *named = cli->options.endpoint ? cli->options.endpoint : getenv("BOX_ENDPOINT");
	return (struct box_client_options){
		.endpoint = named && named[0] ? named : NULL,
		.standalone = !spawn,
		.spawn = spawn,
		.instance = cli->options.instance,
		.workspace = cli->options.workspace,
		.generation = cli->options.generation,
		.config = cli->options.config,
		.show_log = cli->options.verbose,
		.log_line = show_log_line,
	};
}

int box_cli_open(const struct box_client_options *options, struct box_client **ret_client,
	struct box_err *err)
{
	int r = box_client_open(options, ret_client, err);
	if (r == -ECONNREFUSED && !options->endpoint) {
		(void)box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECONNREFUSED,
			"no boxd answers on 127.0.0.1:5410: start one with `boxd`, or name one "
			"with --endpoint");
	}
	return r;
}

int box_cli_connect(const struct cli *cli, bool spawn, struct box_client **ret_client)
{
	struct box_err err;
	const struct box_client_options options = box_cli_client_options(cli, spawn);
	int r = box_cli_open(&options, ret_client, &err);
	if (r < 0) {
		(void)box_cli_fail(&err);
	}
	return r;
}

static int print_help(void)
{
	(void)fputs("Usage: box [OPTION]... COMMAND ...\n"
		    "Runs commands in sandboxes.\n"
		    "\n",
		stdout);
	for (size_t i = 0; i < COMMANDS; i++) {
		(void)printf("  %-8s %s\n", commands[i].name, commands[i].summary);
	}
	(void)fputs(
		"\n" BOX_CLI_COMMON_USAGE "      --version          print the version, and exit\n"
		"\n"
		"box COMMAND --help tells the options of a command.\n"
		"A NAME may be WORKSPACE/BOX, for the operator: see box ls --all.\n"
		"Exit status: that of the command (128+N for signal N); 124 when it timed out;\n"
		"125 when box itself failed.\n",
		stdout);
	return box_cli_flush();
}

/* `of` is the command that they belong to, with a space behind it; or nothing. */
static const struct box_cli_command *find_command(const char *name, const char *of,
	const struct box_cli_command *among, size_t count, struct box_err *err)
{
	const char *names[BOX_MAX(COMMANDS, BOX_CLI_SKILL_COMMANDS)];
	for (size_t i = 0; i < count; i++) {
		names[i] = among[i].name;
		if (strcmp(name, among[i].name) == 0) {
			return &among[i];
		}
	}
	const char *near = box_cli_options_nearest(name, names, count);
	(void)box_err_set(err, BOX_ERR_VALUE, EINVAL,
		"unknown command %s%.100s%s%s%s (see %s %s--help)", of, name,
		near ? ", did you mean " : "", near ? near : "", near ? "?" : "", program, of);
	return NULL;
}

static int run_command(
	struct cli *cli, const struct box_cli_command *command, int argc, char **argv, int at)
{
	struct box_err err;
	if (box_cli_options_read_all(cli->arena, argc, argv, &at, command->sets,
		    command->plain_words, &cli->options, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (cli->options.help) {
		(void)fputs(command->usage, stdout);
		return box_cli_flush();
	}
	return command->run(cli);
}

/* A command that is a family of commands: `box skill ls`. `of` is its name, with a space behind it;
 * or nothing when we were called as it. */
static int run_family(struct cli *cli, const struct box_cli_command *family, const char *of,
	int argc, char **argv, int at)
{
	struct box_err err;
	if (box_cli_options_read(cli->arena, argc, argv, &at, family->sets, &cli->options, &err) <
		0) {
		return box_cli_fail(&err);
	}
	if (cli->options.version) {
		(void)printf("%s " BOX_VERSION "\n", family->name);
		return box_cli_flush();
	}
	if (cli->options.help) {
		(void)fputs(family->usage, stdout);
		return box_cli_flush();
	}
	if (at >= argc) {
		bool grouped = of[0] != '\0';
		(void)box_err_set(&err, BOX_ERR_VALUE, EINVAL,
			"%.*s%swhich command? (see %s %s--help)", grouped ? (int)strlen(of) - 1 : 0,
			of, grouped ? ": " : "", program, of);
		return box_cli_fail(&err);
	}
	const struct box_cli_command *command = find_command(
		argv[at++], of, family->subs, family->sub_count, &err);
	if (!command) {
		return box_cli_fail(&err);
	}
	cli->name = box_arena_printf(cli->arena, "%s%s", of, command->name);
	return run_command(cli, command, argc, argv, at);
}

/* As a link to us with the name of a family, we are only that. */
static const struct box_cli_command *find_called(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;
	for (size_t i = 0; name && i < COMMANDS; i++) {
		if (commands[i].subs == box_msb_commands && strcmp(name, commands[i].name) == 0) {
			return &commands[i];
		}
	}
	return NULL;
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
	struct box_err err;
	int at = 1;
	const struct box_cli_command *called = find_called(argv[0]);
	if (called) {
		program = called->name;
		return run_family(cli, called, "", argc, argv, at);
	}
	if (box_cli_options_read(cli->arena, argc, argv, &at, BOX_CLI_TOP, &cli->options, &err) <
		0) {
		return box_cli_fail(&err);
	}
	if (cli->options.version) {
		(void)puts("box " BOX_VERSION);
		return box_cli_flush();
	}
	if (cli->options.help) {
		return print_help();
	}
	if (at >= argc) {
		(void)box_err_set(&err, BOX_ERR_VALUE, EINVAL, "no command (see box --help)");
		return box_cli_fail(&err);
	}
	const struct box_cli_command *command = find_command(
		argv[at++], "", commands, COMMANDS, &err);
	if (!command) {
		return box_cli_fail(&err);
	}
	cli->name = command->name;
	const char *of = box_arena_printf(cli->arena, "%s ", command->name);
	return command->subs ? run_family(cli, command, of, argc, argv, at)
			     : run_command(cli, command, argc, argv, at);
}

/* A closed fd 0, 1 or 2 would be taken by the next thing opened, and a command would read it. */
static int fill_standard_fds(void)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDWR); /* NOLINT(android-cloexec-open): it stays */
	} while (fd >= 0 && fd <= STDERR_FILENO);
	return fd < 0 ? -errno : close(fd);
}

int main(int argc, char **argv)
{
	if (fill_standard_fds() < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	/* What a message took is kept for the next: asking the kernel for it again costs more than the
	 * copying. */
	(void)mallopt(M_MMAP_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
	(void)mallopt(M_TRIM_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
	/* A reader that went away is an error of write, told like others. */
	(void)signal(SIGPIPE, SIG_IGN);
	struct cli cli = {.arena = box_arena_new()};
	int code = dispatch(&cli, argc, argv);
	box_arena_free(cli.arena);
	return code;
}
