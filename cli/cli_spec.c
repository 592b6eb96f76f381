/* Options of the command line as a box spec. What the runtime has defaults for is left out. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/mount_text.h"
#include "cli/path_argument.h"

#define TERM_DEFAULT "xterm"

static int add_port(
	struct box_arena *arena, const char *text, struct box_value *ports, struct box_err *err)
{
	size_t digits = strspn(text, "0123456789");
	long port = digits > 0 && digits <= 5 && text[digits] == '\0' ? strtol(text, NULL, 10) : 0;
	if (port < 1 || port > 65535) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--host-port: \"%.100s\" is not a port from 1 to 65535", text);
	}
	box_list_add(arena, ports, box_int(port));
	return 0;
}

/* Whoever says what may be reached wants a network. Entries are the runtime's to judge. */
static int add_network(const struct cli *cli, struct box_value *spec, struct box_err *err)
{
	const struct box_cli_options *options = &cli->options;
	bool limited = options->allow.count > 0 || options->host_ports.count > 0;
	struct box_value egress = box_map_value();
	struct box_value allow = box_list_value();
	struct box_value ports = box_list_value();
	if (options->network || limited) {
		const char *word = options->network ? options->network : "on";
		box_map_add(cli->arena, spec, "network", box_cstr(word));
	}
	for (size_t i = 0; i < options->allow.count; i++) {
		if (!box_utf8_valid(options->allow.items[i], strlen(options->allow.items[i]))) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL, "--allow is no UTF-8");
		}
		box_list_add(cli->arena, &allow, box_cstr(options->allow.items[i]));
	}
	for (size_t i = 0; i < options->host_ports.count; i++) {
		int r = add_port(cli->arena, options->host_ports.items[i], &ports, err);
		if (r < 0) {
			return r;
		}
	}
	if (limited) {
		box_map_add(cli->arena, &egress, "allow", allow);
		box_map_add(cli->arena, &egress, "host_ports", ports);
		box_map_add(cli->arena, spec, "egress", egress);
	}
	return 0;
}

int box_cli_spec(
	const struct cli *cli, const char *session, struct box_value *ret_spec, struct box_err *err)
{
	const struct box_cli_options *options = &cli->options;
	struct box_value spec = box_map_value();
	if (!box_utf8_valid(session, strlen(session))) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "the name is no UTF-8");
	}
	box_map_add(cli->arena, &spec, "session_id", box_cstr(session));
	int r = add_network(cli, &spec, err);
	if (r < 0) {
		return r;
	}
	if (options->memory_mb) {
		box_map_add(cli->arena, &spec, "memory_mb", box_int(options->memory_mb));
	}
	if (options->cpus > 0) {
		box_map_add(cli->arena, &spec, "cpus", box_real(options->cpus));
	}
	if (options->pids) {
		box_map_add(cli->arena, &spec, "pids_limit", box_int(options->pids));
	}
	if (options->writable_root) {
		box_map_add(cli->arena, &spec, "read_only_rootfs", box_bool(false));
	}
	*ret_spec = spec;
	return 0;
}

/* HOST:BOX[:ro|rw] */
static int add_mount(
	struct box_arena *arena, const char *text, struct box_value *mounts, struct box_err *err)
{
	struct box_path_argument_mount given;
	if (!box_path_argument_split_mount(arena, text, &given)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--mount: \"%.200s\" is not HOST:BOX[:ro|rw] with an absolute BOX", text);
	}
	const char *host;
	int r = box_path_argument_resolve(arena, given.host, &host, err);
	if (r < 0) {
		return r;
	}
	struct box_value mount = box_map_value();
	box_map_add(arena, &mount, "host_path", box_cstr(host));
	box_map_add(arena, &mount, "mount_path", box_cstr(given.box));
	box_map_add(arena, &mount, "mode", box_cstr(given.mode));
	box_list_add(arena, mounts, mount);
	return 0;
}

/* NAME=VALUE, or NAME for the value that we have; without one it stays unset. The last of a name
 * counts. */
static int add_variable(
	struct box_arena *arena, const char *text, struct box_value *env, struct box_err *err)
{
	struct box_str name = {text, strcspn(text, "=")};
	if (name.len == 0) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--env: \"%.100s\" is not NAME or NAME=VALUE", text);
	}
	const char *value = text[name.len] == '=' ? text + name.len + 1 : getenv(text);
	if (value) {
		box_map_set(arena, env, name, box_cstr(value));
	}
	return 0;
}

/* Messages carry text as UTF-8 only: say which part is none before anything is sent. */
static int check_text(const char *what, const char *text, struct box_err *err)
{
	return box_utf8_valid(text, strlen(text))
		? 0
		: box_err_set(err, BOX_ERR_VALUE, EILSEQ, "%s: no UTF-8", what);
}

static int check_words(
	const char *what, const char *const *words, size_t count, struct box_err *err)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = check_text(what, words[i], err);
	}
	return r;
}

/* A program and not a line for sh: a single word has nothing that means something to sh. */
static bool is_program(const char *const *words, size_t count)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-./+";
	return count > 1 || (words[0][0] && !words[0][strspn(words[0], plain)]);
}

int box_cli_add_env(const struct cli *cli, struct box_value *env, struct box_err *err)
{
	const struct box_cli_words *given = &cli->options.env;
	int r = check_words("--env", given->items, given->count, err);
	for (size_t i = 0; r == 0 && i < given->count; i++) {
		r = add_variable(cli->arena, given->items[i], env, err);
	}
	return r;
}

static int join_command(const struct cli *cli, const char *const *words, size_t count,
	struct box_value *spec, struct box_err *err)
{
	struct box_buf line = box_buf(BOX_MESSAGE_BYTES_MAX);
	int r = check_words("the command", words, count, err);
	/* A shell that waits for a program takes Ctrl-C for its own end too, though the program
	 * made something else of it: on a terminal it makes way. */
	const char *way = cli->options.tty && is_program(words, count) ? "exec " : "";
	if (r == 0 &&
		(box_buf_append_str(&line, way) < 0 || box_exec_join_words(&line, words, count) < 0)) {
		r = box_err_set(err, BOX_ERR_VALUE, E2BIG, "the command is over 16 MiB");
	}
	if (r == 0) {
		char *text = box_arena_strndup(cli->arena, line.bytes, line.len);
		box_map_add(cli->arena, spec, "cmd", box_text((struct box_str){text, line.len}));
	}
	box_buf_free(&line);
	return r;
}

bool box_cli_is_interactive(const struct cli *cli)
{
	return cli->options.interactive && cli->options.tty;
}

int box_cli_check_terminal(const struct cli *cli, struct box_err *err)
{
	return box_cli_is_interactive(cli) && !isatty(STDIN_FILENO)
		? box_err_set(err, BOX_ERR_VALUE, ENOTTY, "the input device is not a TTY")
		: 0;
}

/* What is drawn inside is seen on our terminal. Its size is not for variables: it changes. */
static void add_term(struct box_arena *arena, struct box_value *env)
{
	const char *term = getenv("TERM");
	bool good = term && term[0] && box_utf8_valid(term, strlen(term));
	box_map_add(arena, env, "TERM", box_cstr(good ? term : TERM_DEFAULT));
}

int box_cli_add_command(const struct cli *cli, const char *const *words, size_t count,
	struct box_value *spec, struct box_err *err)
{
	static const char *const login[] = {"exec \"${SHELL:-/bin/sh}\" -l"};
	const struct box_cli_options *options = &cli->options;
	struct box_value mounts = box_list_value();
	struct box_value env = box_map_value();
	if (options->tty) {
		add_term(cli->arena, &env);
	}
	int r = join_command(cli, count ? words : login, count ? count : 1, spec, err);
	r = r < 0 ? r : check_words("--mount", options->mounts.items, options->mounts.count, err);
	for (size_t i = 0; r == 0 && i < options->mounts.count; i++) {
		r = add_mount(cli->arena, options->mounts.items[i], &mounts, err);
	}
	r = r < 0 ? r : box_cli_add_env(cli, &env, err);
	if (r == 0 && options->workdir) {
		r = check_text("--workdir", options->workdir, err);
		box_map_add(cli->arena, spec, "workdir", box_cstr(options->workdir));
	}
	if (r == 0 && options->skill) {
		r = check_text("--skill", options->skill, err);
		box_map_add(cli->arena, spec, "skill_name", box_cstr(options->skill));
	}
	int64_t timeout_sec = options->timeout_sec ? options->timeout_sec : BOX_TIMEOUT_NONE_SEC;
	box_map_add(cli->arena, spec, "timeout_sec", box_int(timeout_sec));
	box_map_add(cli->arena, spec, "extra_mounts", mounts);
	box_map_add(cli->arena, spec, "env", env);
	return r;
}
