/* box cp: finds out the direction and what is at both ends, shows the progress, and runs the copy. */
#include "cli/copy/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/macros.h"
#include "cli/cli_signals.h"
#include "cli/copy/progress.h"

#define TIDY_MS 5000
#define SHOW_EVERY_MS 100
#define COLUMNS_DEFAULT 80

/* Prints letters for what is at the path, then mode, size and time where the box has stat(1). */
static const char probe_script[] =
	"s=;[ -L \"$1\" ]&&s=l;[ -d \"$1\" ]&&s=${s}d;[ -f \"$1\" ]&&s=${s}f;"
	"[ -e \"$1\" ]&&s=${s}e;[ -d \"$2\" ]&&s=${s}p;"
	"if command -v tar >/dev/null 2>&1;then s=${s}t;"
	"case $(tar --version 2>/dev/null) in *GNU*)s=${s}g;;esac;fi;"
	"printf '%s:%s\\n' \"$s\" \"$(stat -c %a:%s:%Y -- \"$1\" 2>/dev/null)\"";

int box_copy_command(struct box_copy *copy, const char *const *words, size_t count,
	struct box_value *ret_spec, struct box_err *err)
{
	struct box_value spec = box_value_copy(copy->cli->arena, copy->identity);
	int r = box_cli_add_command(copy->cli, words, count, &spec, err);
	*ret_spec = spec;
	return r;
}

void box_copy_tidy(struct box_copy *copy, const char *const *words, size_t count)
{
	struct box_value spec;
	struct box_value answer;
	if (box_copy_command(copy, words, count, &spec, NULL) == 0) {
		(void)box_client_call(
			copy->client, "box_exec", &spec, TIDY_MS, copy->cli->arena, &answer, NULL);
	}
}

/* The answer of a box is not trusted: it decides only what is requested from the box. */
static void read_probe(struct box_copy *copy, struct box_str said)
{
	const char *text = box_arena_strndup(copy->cli->arena, said.bytes, said.len);
	size_t letters = strcspn(text, ":");
	const char *found = box_arena_strndup(copy->cli->arena, text, letters);
	unsigned mode;
	long long size;
	long long mtime;
	copy->box_link = strchr(found, 'l') != NULL;
	copy->box.kind = strchr(found, 'd')            ? BOX_COPY_FOLDER
		: strchr(found, 'e') || copy->box_link ? BOX_COPY_FILE
						       : BOX_COPY_NOTHING;
	copy->box.has_parent = strchr(found, 'p') != NULL;
	copy->has_tar = strchr(found, 't') != NULL;
	copy->has_gnu_tar = strchr(found, 'g') != NULL;
	copy->has_stat = strchr(found, 'f') && !copy->box_link &&
		sscanf(text + letters, ":%o:%lld:%lld", &mode, &size, &mtime) == 3 && size >= 0;
	if (copy->has_stat) {
		copy->mode = mode & 0777;
		copy->size = size;
		copy->mtime = mtime < 0 ? 0 : mtime;
	}
}

int box_copy_probe(struct box_copy *copy)
{
	const char *const words[] = {"sh", "-c", probe_script, "box-cp", copy->box.path,
		box_copy_rules_parent(copy->cli->arena, copy->box.path)};
	struct box_value spec;
	struct box_value answer;
	struct box_err err;
	if (box_copy_command(copy, words, BOX_COUNT_OF(words), &spec, &err) < 0) {
		(void)box_cli_fail(&err);
		return -EINVAL;
	}
	int r = box_cli_request(copy->cli, copy->client, "box_exec", &spec, &answer);
	const struct box_value *said = r < 0 ? NULL : box_map_get(&answer, "stdout");
	if (said && said->type == BOX_STR) {
		read_probe(copy, said->str);
	}
	return r;
}

/* --- progress --- */

void box_copy_report(void *arg, const char *line)
{
	struct box_err err;
	(void)arg;
	(void)box_err_set(&err, BOX_ERR_VALUE, EIO, "%s", line);
	(void)box_cli_fail(&err);
}

static void show(void *arg)
{
	static uint64_t shown_ms;
	struct box_copy *copy = arg;
	uint64_t now = box_clock_ms();
	if (!copy->shows || now - shown_ms < SHOW_EVERY_MS) {
		return;
	}
	shown_ms = now;
	char line[BOX_PROGRESS_LINE_MAX];
	struct winsize window = {0};
	(void)ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
	const struct box_progress progress = {
		.done = copy->done,
		.total = copy->total,
		.ms = now - copy->begun_ms,
		.columns = window.ws_col ? window.ws_col : COLUMNS_DEFAULT,
	};
	box_progress_line(&progress, line);
	(void)fprintf(stderr, "\r\033[K%s", line);
	(void)fflush(stderr);
}

static void show_end(const struct box_copy *copy)
{
	if (copy->shows) {
		(void)fputs("\r\033[K", stderr);
	}
}

int box_copy_run(struct box_copy *copy, struct box_transfer *transfer)
{
	struct box_err err;
	transfer->client = copy->client;
	transfer->progress = copy->shows ? show : NULL;
	transfer->progress_arg = copy;
	copy->begun_ms = box_clock_ms();
	int r = box_transfer_run(transfer, &err);
	show_end(copy);
	if (r == -EINTR) {
		return box_cli_signals_exit_code(0);
	}
	if (transfer->given_up) {
		return BOX_CLI_EXIT_FAILED;
	}
	if (r < 0) {
		return box_cli_fail(&err);
	}
	if (transfer->result.exit_code == 0) {
		return 0;
	}
	if (transfer->said[0]) {
		(void)box_err_set(&err, BOX_ERR_VALUE, EIO, "in the box: %s", transfer->said);
	} else {
		(void)box_err_set(&err, BOX_ERR_VALUE, EIO,
			"in the box: the command ended with code %d", transfer->result.exit_code);
	}
	return box_cli_fail(&err);
}

/* --- both ends --- */

/* An existing file is replaced by the new one, but not a device or a FIFO. */
static int check_host(const struct box_copy *copy, struct box_err *err)
{
	struct stat status;
	if (copy->host.kind == BOX_COPY_FILE && lstat(copy->host.path, &status) == 0 &&
		!S_ISREG(status.st_mode) && !S_ISLNK(status.st_mode)) {
		return box_err_set(err, BOX_ERR_VALUE, EEXIST,
			"%.3000s: is not a file, folder or link", copy->host.path);
	}
	return 0;
}

static void look_at_host(struct box_copy *copy)
{
	struct stat status;
	const char *path = copy->host.path;
	const char *parent = box_copy_rules_parent(copy->cli->arena, path);
	copy->host.has_parent = stat(parent, &status) == 0 && S_ISDIR(status.st_mode);
	bool there = stat(path, &status) == 0;
	copy->host.kind = there && S_ISDIR(status.st_mode) ? BOX_COPY_FOLDER : BOX_COPY_FILE;
	/* A dangling link exists too. */
	if (!there && lstat(path, &status) < 0) {
		copy->host.kind = BOX_COPY_NOTHING;
	}
}

static int copy_with(struct box_copy *copy, bool in)
{
	struct box_value identity;
	if (box_cli_session_spec(copy->cli, copy->client, copy->session, &identity) < 0) {
		return box_cli_signals_exit_code(BOX_CLI_EXIT_FAILED);
	}
	copy->identity = &identity;
	copy->total = -1;
	copy->shows = isatty(STDERR_FILENO);
	int code = box_copy_probe(copy) < 0 ? box_cli_signals_exit_code(BOX_CLI_EXIT_FAILED)
		: in                        ? box_copy_in(copy)
					    : box_copy_out(copy);
	copy->identity = NULL;
	return code;
}

typedef bool split_word(
	struct box_arena *arena, const char *text, const char **ret_name, const char **ret_path);

/* Which of the words is a path in a box: 0 or 1; or -1 when both are, or none. */
static int find_box(struct box_copy *copy, split_word *split)
{
	const struct box_cli_words *words = &copy->cli->options.words;
	struct box_arena *arena = copy->cli->arena;
	const char *unused;
	bool out = split(arena, words->items[0], &copy->session, &copy->box.path);
	bool in = out ? split(arena, words->items[1], &unused, &unused)
		      : split(arena, words->items[1], &copy->session, &copy->box.path);
	return in == out ? -1 : in;
}

/* As box_cli_locate, for the name of the box in SRC or DST. */
static int locate(struct box_copy *copy, struct cli *ret_cli)
{
	struct cli named = *copy->cli;
	named.options.words = (struct box_cli_words){.items = &copy->session, .count = 1};
	if (box_cli_locate(&named, 0, ret_cli) < 0) {
		return -ENOENT;
	}
	copy->session = ret_cli->options.words.items[0];
	ret_cli->options.words = copy->cli->options.words;
	copy->cli = ret_cli;
	return 0;
}

static int cp_verb(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_copy copy = {.cli = cli};
	struct cli as;
	struct box_err err;
	if (words->count != 2) {
		return box_cli_usage_error(cli, "expected SRC and DST");
	}
	int side = find_box(&copy, box_copy_rules_split);
	side = side < 0 ? find_box(&copy, box_copy_rules_split_qualified) : side;
	if (side < 0) {
		return box_cli_usage_error(
			cli, "one of SRC and DST must be NAME:PATH, the other a path on this host");
	}
	bool in = side == 1;
	copy.host.path = words->items[in ? 0 : 1];
	if (copy.box.path[0] == '\0' || copy.host.path[0] == '\0') {
		return box_cli_usage_error(cli, "a path must not be empty");
	}
	if (strcmp(copy.host.path, "-") == 0) {
		copy.host.kind = BOX_COPY_STREAM;
	} else {
		look_at_host(&copy);
	}
	if (!in && check_host(&copy, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (locate(&copy, &as) < 0 || box_cli_connect(&as, false, &copy.client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	/* Until here there is nothing to clean up, and a signal may simply end us. */
	int wake_fd = box_cli_signals_catch();
	if (wake_fd < 0) {
		(void)box_err_set(
			&err, BOX_ERR_OS, -wake_fd, "pipe: %s", box_err_strerror(-wake_fd));
	}
	int code = wake_fd < 0 ? box_cli_fail(&err) : copy_with(&copy, in);
	box_client_close(copy.client);
	return code;
}

BOX_CLI_VERB(cp) = {
	.name = "cp",
	.options = {box_cli_options_common},
	.plain_words = SIZE_MAX,
	.run = cp_verb,
	.summary = "copy files between this host and a box",
	.usage =
		"Usage: box cp [OPTION]... SRC NAME:PATH\n"
		"       box cp [OPTION]... NAME:PATH DST\n"
		"Copies a file or a folder between this host and a box. \"-\" is a tar archive on\n"
		"stdin or stdout. SRC/. means the contents of a folder, not the folder itself.\n"
		"\n" BOX_CLI_COMMON_USAGE,
};
