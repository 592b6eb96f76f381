/* The table of options, and how argv is read by it. getopt takes abbreviations and cannot tell an
 * option of ours from one of the command that follows: hence a reader of our own. */
#include "cli/cli_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/value.h"

#define NAME_LEN_MAX 32
#define NEAR_MOST 2 /* letters that may be wrong */

enum kind {
	FLAG,
	TEXT,
	WORDS,
	COUNT,
	REAL,
	ON_OFF,
};

struct option {
	const char *name;
	char letter;
	enum kind kind;
	unsigned sets;
	size_t offset;
	int64_t most; /* of a COUNT */
};

#define AT(member) offsetof(struct box_cli_options, member)
#define MOST INT32_MAX

/* clang-format off */
static const struct option table[] = {
	{"--help", 'h', FLAG, BOX_CLI_COMMON | BOX_CLI_TOP | BOX_CLI_MSB, AT(help), 0},
	{"--version", 0, FLAG, BOX_CLI_TOP, AT(version), 0},
	{"--version", 'V', FLAG, BOX_CLI_MSB, AT(version), 0},
	{"--verbose", 'v', FLAG, BOX_CLI_COMMON | BOX_CLI_TOP, AT(verbose), 0},
	{"--endpoint", 0, TEXT, BOX_CLI_COMMON | BOX_CLI_TOP | BOX_CLI_MSB, AT(endpoint), 0},
	{"--config", 0, TEXT, BOX_CLI_START, AT(config), 0},
	{"--instance", 0, TEXT, BOX_CLI_COMMON | BOX_CLI_TOP | BOX_CLI_MSB, AT(instance), 0},
	{"--workspace", 0, TEXT, BOX_CLI_COMMON | BOX_CLI_TOP | BOX_CLI_MSB, AT(workspace), 0},
	{"--network", 0, ON_OFF, BOX_CLI_SPEC, AT(network), 0},
	{"--allow", 0, WORDS, BOX_CLI_SPEC, AT(allow), 0},
	{"--host-port", 0, WORDS, BOX_CLI_SPEC, AT(host_ports), 0},
	{"--backend", 0, TEXT, BOX_CLI_KIND, AT(backend), 0},
	{"--memory", 0, COUNT, BOX_CLI_SPEC | BOX_CLI_PROCESS, AT(memory_mb), MOST},
	{"--cpus", 0, REAL, BOX_CLI_SPEC, AT(cpus), 0},
	{"--pids", 0, COUNT, BOX_CLI_SPEC, AT(pids), MOST},
	{"--writable-root", 0, FLAG, BOX_CLI_SPEC, AT(writable_root), 0},
	{"--mount", 0, WORDS, BOX_CLI_COMMAND, AT(mounts), 0},
	{"--timeout", 0, COUNT, BOX_CLI_COMMAND, AT(timeout_sec), MOST},
	{"--workdir", 0, TEXT, BOX_CLI_COMMAND | BOX_CLI_PROCESS, AT(workdir), 0},
	{"--env", 0, WORDS, BOX_CLI_COMMAND | BOX_CLI_PROCESS, AT(env), 0},
	{"--interactive", 'i', FLAG, BOX_CLI_COMMAND, AT(interactive), 0},
	{"--tty", 't', FLAG, BOX_CLI_COMMAND, AT(tty), 0},
	{"--name", 0, TEXT, BOX_CLI_PROCESS, AT(process), 0},
	{"--skill", 0, TEXT, BOX_CLI_SKILL, AT(skill), 0},
	{"--name", 0, TEXT, BOX_CLI_SKILL_ADD, AT(folder_name), 0},
	{"--suffix", 0, TEXT, BOX_CLI_SKILL_ADD, AT(suffix), 0},
	{"--from", 0, WORDS, BOX_CLI_SKILL_ADD, AT(from), 0},
	{"--dry-run", 0, FLAG, BOX_CLI_SKILL_ADD, AT(dry_run), 0},
	{"--all", 0, FLAG, BOX_CLI_SKILL_ADD, AT(all), 0},
	{"--all", 'a', FLAG, BOX_CLI_HIDDEN | BOX_CLI_ALL, AT(all), 0},
	{"--yes", 'y', FLAG, BOX_CLI_SURE, AT(yes), 0},
	{"--follow", 'f', FLAG, BOX_CLI_FOLLOW, AT(follow), 0},
	{"--json", 0, FLAG, BOX_CLI_LIST, AT(json), 0},
	{"--name", 'n', TEXT, BOX_CLI_MSB_CREATE, AT(name), 0},
	{"--replace", 0, FLAG, BOX_CLI_MSB_CREATE, AT(replace), 0},
	{"--cpus", 'c', REAL, BOX_CLI_MSB_CREATE, AT(cpus), 0},
	{"--memory", 'm', TEXT, BOX_CLI_MSB_CREATE, AT(memory), 0},
	{"--no-network", 0, FLAG, BOX_CLI_MSB_CREATE, AT(no_network), 0},
	{"--no-net", 0, FLAG, BOX_CLI_MSB_CREATE, AT(no_network), 0},
	{"--volume", 'v', WORDS, BOX_CLI_MSB_CREATE, AT(volumes), 0},
	{"--max-duration", 0, TEXT, BOX_CLI_MSB_CREATE, AT(max_duration), 0},
	{"--idle-timeout", 0, TEXT, BOX_CLI_MSB_CREATE, AT(idle_timeout), 0},
	{"--env", 'e', WORDS, BOX_CLI_MSB_EXEC, AT(env), 0},
	{"--force", 'f', FLAG, BOX_CLI_MSB_END, AT(force), 0},
	{"--quiet", 'q', FLAG, BOX_CLI_MSB_CREATE | BOX_CLI_MSB_EXEC | BOX_CLI_MSB_END | BOX_CLI_MSB_LIST, AT(quiet), 0},
	{"--format", 0, TEXT, BOX_CLI_MSB_LIST, AT(format), 0},
};
/* clang-format on */

#define TABLE_ROWS (BOX_COUNT_OF(table))

/* --- names that are nearly right --- */

/* How many letters must be changed, put in, left out or swapped with the next. Both are short. */
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
			best = above[j] + 1 < best ? above[j] + 1 : best;
			best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
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
	size_t least = NEAR_MOST + 1;
	if (word.len == 0 || word.len > NAME_LEN_MAX) {
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		size_t len = strlen(names[i]);
		size_t far = distance(word.bytes, word.len, names[i], len);
		/* Two letters of a word of three are no likeness. */
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

static int unknown(struct box_str name, unsigned sets, struct box_err *err)
{
	const char *names[TABLE_ROWS];
	size_t count = 0;
	for (size_t i = 0; i < TABLE_ROWS; i++) {
		if (table[i].sets & sets) {
			names[count++] = table[i].name;
		}
	}
	const char *near = nearest(name, names, count);
	return box_err_set(err, BOX_ERR_VALUE, EINVAL, "unknown option %.*s%s%s%s", (int)name.len,
		name.bytes, near ? " (did you mean " : "", near ? near : "", near ? "?)" : "");
}

/* --- values --- */

static int wrong(struct box_err *err, const struct option *row, const char *value, const char *what)
{
	return box_err_set(
		err, BOX_ERR_VALUE, EINVAL, "%s: \"%.100s\" is not %s", row->name, value, what);
}

static int set_count(
	const struct option *row, const char *value, int64_t *member, struct box_err *err)
{
	char *end;
	size_t digits = strspn(value, "0123456789");
	long long number = digits > 0 && digits <= 18 ? strtoll(value, &end, 10) : 0;
	if (value[digits] != '\0' || number < 1 || number > row->most) {
		return wrong(err, row, value, "a whole number from 1 to 2147483647");
	}
	*member = number;
	return 0;
}

static int set_real(
	const struct option *row, const char *value, double *member, struct box_err *err)
{
	char *end;
	double number = strtod(value, &end);
	/* strtod takes more than people mean: "0x1", "inf", " 1". */
	if (value[0] == '\0' || value[strspn(value, "0123456789.")] != '\0' || *end != '\0' ||
		!(number > 0) || number > 1e6) {
		return wrong(err, row, value, "a number above 0");
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

static int set_value(struct box_arena *arena, const struct option *row, const char *value,
	size_t room, struct box_cli_options *options, struct box_err *err)
{
	char *member = (char *)options + row->offset;
	switch (row->kind) {
	case FLAG:
		*(bool *)(void *)member = true;
		return 0;
	case WORDS:
		add_word(arena, (struct box_cli_words *)(void *)member, value, room);
		return 0;
	case COUNT:
		return set_count(row, value, (int64_t *)(void *)member, err);
	case REAL:
		return set_real(row, value, (double *)(void *)member, err);
	case ON_OFF:
		if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0) {
			return wrong(err, row, value, "on or off");
		}
		break;
	case TEXT:
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

static const struct option *find(struct box_str name, unsigned sets)
{
	for (size_t i = 0; i < TABLE_ROWS; i++) {
		const char letter[] = {'-', table[i].letter, '\0'};
		if ((table[i].sets & sets) &&
			(box_str_eq(name, table[i].name) ||
				(table[i].letter && box_str_eq(name, letter)))) {
			return &table[i];
		}
	}
	return NULL;
}

/* Letters that are joined, as in -it. All of them are flags. */
static int read_letters(
	const char *letters, unsigned sets, struct box_cli_options *options, struct box_err *err)
{
	int r = 0;
	for (; *letters && r == 0; letters++) {
		const char name[] = {'-', *letters, '\0'};
		const struct option *row = find(box_str(name), sets);
		if (row && row->kind != FLAG) {
			r = box_err_set(
				err, BOX_ERR_VALUE, EINVAL, "%s: cannot be joined", row->name);
		} else {
			r = row ? set_value(NULL, row, NULL, 0, options, err)
				: unknown(box_str(name), sets, err);
		}
	}
	return r;
}

/* One option, `--name value` or `--name=value`. */
static int read_option(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	struct box_cli_options *options, struct box_err *err)
{
	const char *word = argv[(*at)++];
	struct box_str name = {word, strcspn(word, "=")};
	const char *value = word[name.len] == '=' ? word + name.len + 1 : NULL;
	const struct option *row = find(name, sets);
	if (!row && !value && name.len > 2 && word[1] != '-') {
		return read_letters(word + 1, sets, options, err);
	}
	if (!row) {
		return unknown(name, sets, err);
	}
	if (row->kind == FLAG && value) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "%s: takes no value", row->name);
	}
	if (row->kind != FLAG && !value) {
		if (*at >= argc) {
			return box_err_set(
				err, BOX_ERR_VALUE, EINVAL, "%s: needs a value", row->name);
		}
		value = argv[(*at)++];
	}
	return set_value(arena, row, value, (size_t)argc, options, err);
}

int box_cli_options_read(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	struct box_cli_options *options, struct box_err *err)
{
	int r = 0;
	/* A lone "-" is a word by custom. */
	while (r == 0 && *at < argc && argv[*at][0] == '-' && argv[*at][1] != '\0' &&
		strcmp(argv[*at], "--") != 0) {
		r = read_option(arena, argc, argv, at, sets, options, err);
	}
	return r;
}

int box_cli_options_read_all(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	size_t plain_words, struct box_cli_options *options, struct box_err *err)
{
	bool literal = false;
	for (;;) {
		int r = literal ? 0
				: box_cli_options_read(arena, argc, argv, at, sets, options, err);
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
