/* The options that several verbs have, and how argv is read. getopt takes abbreviations and cannot tell our
 * options from those of the command that follows, hence this reader. */
#include "cli/cli_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/value.h"

#define NAME_LEN_MAX 32
#define NAMES_MAX 64
#define DISTANCE_MAX 2 /* letters that may be wrong */

/* --- groups --- */

#define OPTION BOX_CLI_OPTION

const struct box_cli_option box_cli_options_common[] = {
	OPTION("--help", 'h', FLAG, help),
	OPTION("--verbose", 'v', FLAG, verbose),
	OPTION("--endpoint", 0, TEXT, endpoint),
	OPTION("--instance", 0, TEXT, instance),
	OPTION("--workspace", 0, TEXT, workspace),
	{0},
};

const struct box_cli_option box_cli_options_top[] = {
	OPTION("--version", 0, FLAG, version),
	{0},
};

const struct box_cli_option box_cli_options_spec[] = {
	OPTION("--network", 0, ON_OFF, network),
	OPTION("--allow", 0, WORDS, allow),
	OPTION("--host-port", 0, WORDS, host_ports),
	OPTION("--memory", 0, COUNT, memory_mb),
	OPTION("--cpus", 0, REAL, cpus),
	OPTION("--pids", 0, COUNT, pids),
	OPTION("--writable-root", 0, FLAG, writable_root),
	{0},
};

const struct box_cli_option box_cli_options_backend[] = {
	OPTION("--backend", 0, TEXT, backend),
	{0},
};

const struct box_cli_option box_cli_options_command[] = {
	OPTION("--mount", 0, WORDS, mounts),
	OPTION("--timeout", 0, COUNT, timeout_sec),
	OPTION("--workdir", 0, TEXT, workdir),
	OPTION("--env", 0, WORDS, env),
	OPTION("--interactive", 'i', FLAG, interactive),
	OPTION("--tty", 't', FLAG, tty),
	{0},
};

const struct box_cli_option box_cli_options_skill[] = {
	OPTION("--skill", 0, TEXT, skill),
	{0},
};

const struct box_cli_option box_cli_options_config[] = {
	OPTION("--config", 0, TEXT, config),
	{0},
};

const struct box_cli_option box_cli_options_json[] = {
	OPTION("--json", 0, FLAG, json),
	{0},
};

const struct box_cli_option box_cli_options_all[] = {
	OPTION("--all", 'a', FLAG, all),
	{0},
};

/* --- similar names --- */

/* How many letters must be changed, inserted, removed or swapped with the next one. Both are short. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NAME_LEN_MAX + 1];
	for (size_t j = 0; j <= b_len; j++) {
		rows[0][j] = j;
	}
	for (size_t i = 1; i <= a_len; i++) {
		size_t *row = rows[i % 3];
		const size_t *above = rows[(i - 1) % 3];
		const size_t *twice = rows[(i + 1) % 3];
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
			best = BOX_MIN(best, above[j] + 1);
			best = BOX_MIN(best, row[j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
				twice[j - 2] + 1 < best) {
				best = twice[j - 2] + 1;
			}
			row[j] = best;
		}
	}
	return rows[a_len % 3][b_len];
}

static const char *nearest(struct box_str word, const char *const *names, size_t count)
{
	const char *found = NULL;
	size_t least = DISTANCE_MAX + 1;
	if (word.len == 0 || word.len > NAME_LEN_MAX) {
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(names[i]);
		size_t far = distance(word.bytes, word.len, names[i], len);
		/* Two wrong letters in a word of three do not make it similar. */
		if (far < least && far * 2 < len) {
			least = far;
			found = names[i];
		}
	}
	return found;
}

const char *box_cli_options_nearest(const char *word, const char *const *names, size_t count)
{
	return nearest(box_str(word), names, count);
}

static int unknown(
	struct box_str name, const struct box_cli_option *const *groups, struct box_err *err)
{
	const char *names[NAMES_MAX];
	size_t count = 0;
	for (; *groups; groups++) {
		for (const struct box_cli_option *row = *groups; row->name; row++) {
			if (count < NAMES_MAX) {
				names[count++] = row->name;
			}
		}
	}
	const char *near = nearest(name, names, count);
	return box_err_set(err, BOX_ERR_VALUE, EINVAL, "unknown option %.*s%s%s%s", (int)name.len,
		name.bytes, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

/* --- values --- */

static int wrong(
	struct box_err *err, const struct box_cli_option *row, const char *value, const char *what)
{
	return box_err_set(
		err, BOX_ERR_VALUE, EINVAL, "%s: \"%.100s\" is not %s", row->name, value, what);
}

static int set_count(
	const struct box_cli_option *row, const char *value, int64_t *member, struct box_err *err)
{
	char *end;
	size_t digits = strspn(value, "0123456789");
	long long number = digits > 0 && digits <= 18 ? strtoll(value, &end, 10) : 0;
	if (value[digits] != '\0' || number < 1 || number > INT32_MAX) {
		return wrong(err, row, value, "a whole number from 1 to 2147483647");
	}
	*member = number;
	return 0;
}

static int set_real(
	const struct box_cli_option *row, const char *value, double *member, struct box_err *err)
{
	char *end;
	double number = strtod(value, &end);
	/* strtod accepts more than people mean: "0x1", "inf", " 1". */
	if (value[0] == '\0' || value[strspn(value, "0123456789.")] != '\0' || *end != '\0' ||
		!(number > 0) || number > 1e6) {
		return wrong(err, row, value, "a number greater than 0");
	}
	*member = number;
	return 0;
}

static void add_word(
	struct box_arena *arena, struct box_cli_words *words, const char *word, size_t room)
{
	if (!words->items) {
		words->items = box_arena_alloc(arena, room * sizeof(*words->items));
	}
	words->items[words->count++] = word;
}

static int set_value(struct box_arena *arena, const struct box_cli_option *row, const char *value,
	size_t room, struct box_cli_options *options, struct box_err *err)
{
	char *member = (char *)options + row->offset;
	switch (row->kind) {
	case BOX_CLI_FLAG:
		*(bool *)(void *)member = true;
		return 0;
	case BOX_CLI_WORDS:
		add_word(arena, (struct box_cli_words *)(void *)member, value, room);
		return 0;
	case BOX_CLI_COUNT:
		return set_count(row, value, (int64_t *)(void *)member, err);
	case BOX_CLI_REAL:
		return set_real(row, value, (double *)(void *)member, err);
	case BOX_CLI_ON_OFF:
		if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
			return wrong(err, row, value, "on or off");
		}
		break;
	case BOX_CLI_TEXT:
		if (value[0] == '\0') {
			return box_err_set(
				err, BOX_ERR_VALUE, EINVAL, "%s: must not be empty", row->name);
		}
		break;
	}
	*(const char **)(void *)member = value;
	return 0;
}

/* --- argv --- */

static const struct box_cli_option *find(
	struct box_str name, const struct box_cli_option *const *groups)
{
	for (; *groups; groups++) {
		for (const struct box_cli_option *row = *groups; row->name; row++) {
			const char letter[] = {'-', row->letter, '\0'};
			if (box_str_eq(name, row->name) ||
				(row->letter && box_str_eq(name, letter))) {
				return row;
			}
		}
	}
	return NULL;
}

/* Combined letters, as in -it, which must all be flags. */
static int read_letters(const char *letters, const struct box_cli_option *const *groups,
	struct box_cli_options *options, struct box_err *err)
{
	for (; *letters; letters++) {
		const char name[] = {'-', *letters, '\0'};
		const struct box_cli_option *row = find(box_str(name), groups);
		if (!row) {
			return unknown(box_str(name), groups, err);
		}
		if (row->kind != BOX_CLI_FLAG) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL,
				"%s: needs a value, and cannot be combined with other letters",
				row->name);
		}
		(void)set_value(NULL, row, NULL, 0, options, err);
	}
	return 0;
}

/* Reads one option, `--name value` or `--name=value`. */
static int read_option(struct box_arena *arena, int argc, char **argv, int *at,
	const struct box_cli_option *const *groups, struct box_cli_options *options,
	struct box_err *err)
{
	const char *word = argv[(*at)++];
	struct box_str name = {word, strcspn(word, "=")};
	const char *value = word[name.len] == '=' ? word + name.len + 1 : NULL;
	const struct box_cli_option *row = find(name, groups);
	if (!row && !value && name.len > 2 && word[1] != '-') {
		return read_letters(word + 1, groups, options, err);
	}
	if (!row) {
		return unknown(name, groups, err);
	}
	if (row->kind == BOX_CLI_FLAG && value) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s: takes no value", row->name);
	}
	if (row->kind != BOX_CLI_FLAG && !value) {
		if (*at >= argc) {
			return box_err_set(
				err, BOX_ERR_VALUE, EINVAL, "%s: needs a value", row->name);
		}
		value = argv[(*at)++];
	}
	return set_value(arena, row, value, (size_t)argc, options, err);
}

int box_cli_options_read(struct box_arena *arena, int argc, char **argv, int *at,
	const struct box_cli_option *const *groups, struct box_cli_options *options,
	struct box_err *err)
{
	/* A lone "-" is a word by convention. */
	while (*at < argc && argv[*at][0] == '-' && argv[*at][1] != '\0' &&
		strcmp(argv[*at], "--") != 0) {
		int r = read_option(arena, argc, argv, at, groups, options, err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

int box_cli_options_read_all(struct box_arena *arena, int argc, char **argv, int *at,
	const struct box_cli_option *const *groups, size_t plain_words,
	struct box_cli_options *options, struct box_err *err)
{
	bool literal = false;
	for (;;) {
		int r = literal ? 0
				: box_cli_options_read(arena, argc, argv, at, groups, options, err);
		if (r < 0 || *at >= argc) {
			return r;
		}
		const char *word = argv[(*at)++];
		if (!literal && strcmp(word, "--") == 0) {
			literal = true;
			continue;
		}
		literal = literal || options->words.count >= plain_words;
		add_word(arena, &options->words, word, (size_t)argc);
	}
}
