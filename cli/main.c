/* `box`: the list of verbs, how one is found and run, and what all of them share: errors in one line, and the
 * connection to a runtime. */
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
#include "cli/safe_text.h"

#ifndef BOX_VERSION
#define BOX_VERSION "0.0.0"
#endif

/* The verbs, in the order of --help. Each is defined in its own file by BOX_CLI_VERB. */
#define VERBS(VERB)  \
	VERB(run)    \
	VERB(create) \
	VERB(exec)   \
	VERB(ls)     \
	VERB(rm)     \
	VERB(start)  \
	VERB(ps)     \
	VERB(logs)   \
	VERB(attach) \
	VERB(stop)   \
	VERB(cp)     \
	VERB(skill)  \
	VERB(msb)    \
	VERB(plan)   \
	VERB(doctor) \
	VERB(status) \
	VERB(profiles)

#define DECLARED(NAME) extern const struct box_cli_command box_cli_verb_##NAME;
#define LISTED(NAME) &box_cli_verb_##NAME,

VERBS(DECLARED)

static const struct box_cli_command *const verbs[] = {VERBS(LISTED) NULL};

#define COMMANDS_MAX 32 /* of one family, for a hint */

/* The name that we were called by: box or msb. */
static const char *program = "box";

/* Replaces bytes that are not valid UTF-8 by "?": file names may have any bytes, and long texts are cut. */
static void repair(char *line, size_t len)
{
	for (size_t at = 0; at < len;) {
		size_t size = 1;
		while (size <= 4 && at + size <= len && !box_utf8_valid(line + at, size)) {
			size++;
		}
		bool valid = size <= 4 && at + size <= len;
		line[at] = valid ? line[at] : '?';
		at += valid ? size : 1;
	}
}

/* Prints text from a runtime or an argument as one line without control characters. */
static void print_line(const char *prefix, const char *text)
{
	char line[sizeof(((struct box_err *)0)->text) + 128];
	size_t len = 0;
	for (const char *c = text; *c && len + 1 < sizeof(line); c++) {
		bool wide = box_cli_is_c1(c, strlen(c));
		bool control = (unsigned char)*c < ' ' || *c == 0x7f || wide;
		c += wide;
		/* Line ends and indentation become one space. */
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

/* Errors of the command line and of the system are printed without a name. */
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
	/* Where an earlier write failed, its errno is lost. */
	(void)box_err_set(&err, BOX_ERR_OS, errnum, "stdout: %s",
		errnum ? box_err_strerror(errnum) : "some output could not be written");
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
	if ((r == -ECONNREFUSED || r == -ENOENT) && options->endpoint &&
		strncmp(options->endpoint, "unix:", 5) == 0) {
		(void)box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, -r,
			"no boxd listens on %s: start one with `boxd --socket %s`",
			options->endpoint, options->endpoint + 5);
	} else if (r == -ECONNREFUSED && !options->endpoint) {
		(void)box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ECONNREFUSED,
			"no boxd answers on 127.0.0.1:5410: start one with `boxd`, or specify "
			"one with --endpoint");
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
		    "Runs commands in sandboxes (\"boxes\").\n"
		    "\n",
		stdout);
	for (const struct box_cli_command *const *verb = verbs; *verb; verb++) {
		(void)printf("  %-8s %s\n", (*verb)->name, (*verb)->summary);
	}
	(void)fputs(
		"\n" BOX_CLI_COMMON_USAGE "      --version          print the version and exit\n"
		"\n"
		"box COMMAND --help shows the options of a command.\n"
		"For the operator, NAME may be WORKSPACE/BOX: see box ls --all.\n"
		"Exit status: that of the command (128+N for signal N), 124 after a timeout, 125\n"
		"when box itself failed.\n",
		stdout);
	return box_cli_flush();
}

/* `of` is the family of the commands, followed by a space; or empty. */
static const struct box_cli_command *find_command(const char *name, const char *of,
	const struct box_cli_command *const *among, struct box_err *err)
{
	const char *names[COMMANDS_MAX];
	size_t count = 0;
	for (; *among; among++) {
		if (strcmp(name, (*among)->name) == 0) {
			return *among;
		}
		if (count < COMMANDS_MAX) {
			names[count++] = (*among)->name;
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
	if (box_cli_options_read_all(cli->arena, argc, argv, &at, command->options,
		    command->plain_words, &cli->options, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (cli->options.help) {
		(void)fputs(command->usage, stdout);
		return box_cli_flush();
	}
	return command->run(cli);
}

/* A family of commands, such as `box skill ls`. `of` is its name followed by a space; or empty when we were
 * called by the name of the family. */
static int run_family(struct cli *cli, const struct box_cli_command *family, const char *of,
	int argc, char **argv, int at)
{
	struct box_err err;
	if (box_cli_options_read(
		    cli->arena, argc, argv, &at, family->options, &cli->options, &err) < 0) {
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
		bool named = of[0] != '\0';
		(void)box_err_set(&err, BOX_ERR_VALUE, EINVAL, "%.*s%sno command (see %s %s--help)",
			named ? (int)strlen(of) - 1 : 0, of, named ? ": " : "", program, of);
		return box_cli_fail(&err);
	}
	const struct box_cli_command *command = find_command(argv[at++], of, family->subs, &err);
	if (!command) {
		return box_cli_fail(&err);
	}
	cli->name = box_arena_printf(cli->arena, "%s%s", of, command->name);
	return run_command(cli, command, argc, argv, at);
}

/* Called by a link with the name msb, we are only that. */
static const struct box_cli_command *find_called(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	const char *name = slash ? slash + 1 : path;
	return name && strcmp(name, box_cli_verb_msb.name) == 0 ? &box_cli_verb_msb : NULL;
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
	static const struct box_cli_option *const top[] = {
		box_cli_options_common, box_cli_options_top, NULL};
	struct box_err err;
	int at = 1;
	const struct box_cli_command *called = find_called(argv[0]);
	if (called) {
		program = called->name;
		return run_family(cli, called, "", argc, argv, at);
	}
	if (box_cli_options_read(cli->arena, argc, argv, &at, top, &cli->options, &err) < 0) {
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
	const struct box_cli_command *command = find_command(argv[at++], "", verbs, &err);
	if (!command) {
		return box_cli_fail(&err);
	}
	cli->name = command->name;
	const char *of = box_arena_printf(cli->arena, "%s ", command->name);
	return command->subs ? run_family(cli, command, of, argc, argv, at)
			     : run_command(cli, command, argc, argv, at);
}

/* Otherwise the next file that is opened would take a closed fd 0, 1 or 2, and a command would read it. */
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
	/* Keeps the memory of a message for the next one: getting it from the kernel again costs more than the
	 * copying. */
	(void)mallopt(M_MMAP_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
	(void)mallopt(M_TRIM_THRESHOLD, (int)(2 * BOX_MESSAGE_BYTES_MAX));
	/* A closed reader is reported as an error of write(2). */
	(void)signal(SIGPIPE, SIG_IGN);
	struct cli cli = {.arena = box_arena_new()};
	int code = dispatch(&cli, argc, argv);
	box_arena_free(cli.arena);
	return code;
}
