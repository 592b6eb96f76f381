/* Turns command line options into a box spec. Members that were not given are left out: the runtime has
 * defaults. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/cli.h"
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

/* --allow and --host-port imply a network. Their entries are checked by the runtime. */
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
			return box_err_set(err, BOX_ERR_VALUE, EINVAL, "--allow: not valid UTF-8");
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
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "the name is not valid UTF-8");
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

/* NAME=VALUE, or NAME for the value in our environment; where it has none it stays unset. The last value of a
 * name counts. */
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

/* Messages carry only UTF-8: the error names the option before anything is sent. */
static int check_text(const char *what, const char *text, struct box_err *err)
{
	return box_utf8_valid(text, strlen(text))
		? 0
		: box_err_set(err, BOX_ERR_VALUE, EILSEQ, "%s: not valid UTF-8", what);
}

static int check_words(
	const char *what, const char *const *words, size_t count, struct box_err *err)
{
	for (size_t i = 0; i < count; i++) {
		int r = check_text(what, words[i], err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* A program rather than a command line for sh: several words, or one without special characters. */
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
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < given->count; i++) {
		r = add_variable(cli->arena, given->items[i], env, err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

static int join_command(const struct cli *cli, const char *const *words, size_t count,
	struct box_value *spec, struct box_err *err)
{
	struct box_buf line = box_buf(BOX_MESSAGE_BYTES_MAX);
	int r = check_words("the command", words, count, err);
	/* A shell that waits for a program ends on Ctrl-C even when the program handles it: on a terminal the
	 * shell is replaced by the program. */
	const char *prefix = cli->options.tty && is_program(words, count) ? "exec " : "";
	if (r == 0 &&
		(box_buf_append_str(&line, prefix) < 0 ||
			box_exec_join_words(&line, words, count) < 0)) {
		r = box_err_set(err, BOX_ERR_VALUE, E2BIG, "the command is larger than 16 MiB");
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

/* The type of our terminal. Its size is not set in variables, because it changes. */
static void add_term(struct box_arena *arena, struct box_value *env)
{
	const char *term = getenv("TERM");
	bool usable = term && term[0] && box_utf8_valid(term, strlen(term));
	box_map_add(arena, env, "TERM", box_cstr(usable ? term : TERM_DEFAULT));
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
	if (r < 0) {
		return r;
	}
	r = check_words("--mount", options->mounts.items, options->mounts.count, err);
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < options->mounts.count; i++) {
		r = add_mount(cli->arena, options->mounts.items[i], &mounts, err);
		if (r < 0) {
			return r;
		}
	}
	r = box_cli_add_env(cli, &env, err);
	if (r < 0) {
		return r;
	}
	if (options->workdir) {
		r = check_text("--workdir", options->workdir, err);
		if (r < 0) {
			return r;
		}
		box_map_add(cli->arena, spec, "workdir", box_cstr(options->workdir));
	}
	if (options->skill) {
		r = check_text("--skill", options->skill, err);
		if (r < 0) {
			return r;
		}
		box_map_add(cli->arena, spec, "skill_name", box_cstr(options->skill));
	}
	int64_t timeout_sec = options->timeout_sec ? options->timeout_sec : BOX_TIMEOUT_NONE_SEC;
	box_map_add(cli->arena, spec, "timeout_sec", box_int(timeout_sec));
	box_map_add(cli->arena, spec, "extra_mounts", mounts);
	box_map_add(cli->arena, spec, "env", env);
	return 0;
}
