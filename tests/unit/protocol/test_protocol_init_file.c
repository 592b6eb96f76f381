/* Requests and answers of the process that does file work: every number out of range and every
 * invalid name is refused. */
#include <errno.h>

#include "base/macros.h"
#include "protocol/init_file.h"
#include "tests/unit/lib/test.h"

static const struct box_init_file read_5 = {.kind = BOX_INIT_FILE_READ, .size = 5};
static const struct box_init_file list_all = {.kind = BOX_INIT_FILE_LIST, .size = 4096};
static const struct box_init_file write_5 = {.kind = BOX_INIT_FILE_WRITE, .size = 5};
static const struct box_init_file stat_it = {.kind = BOX_INIT_FILE_STAT};

/* --- requests --- */

static char body[sizeof(struct box_init_file) + 5 * BOX_INIT_FILE_TEXT_MAX];
static size_t body_size;

static struct box_init_file *ask(uint32_t kind, const char *place, const char *to_place)
{
	static struct box_init_file file;
	const char *texts[] = {place, "a/b", to_place, "c"};
	file = (struct box_init_file){.kind = kind};
	body_size = sizeof(file);
	for (int i = 0; i < 4; i++) {
		file.sizes[i] = (uint32_t)strlen(texts[i]) + 1;
		memcpy(body + body_size, texts[i], file.sizes[i]);
		body_size += file.sizes[i];
	}
	return &file;
}

static int check(const struct box_init_file *file)
{
	struct box_init_file got;
	const char *texts[4];
	memcpy(body, file, sizeof(*file));
	int r = box_init_file_check(body, body_size, &got, texts);
	if (r == 0) {
		ASSERT_STR(texts[1], "a/b");
		ASSERT_STR(texts[3], "c");
	}
	return r;
}

TEST(every_kind_can_be_asked)
{
	for (uint32_t kind = 1; kind < BOX_INIT_FILE_KINDS_; kind++) {
		bool moves = kind == BOX_INIT_FILE_MOVE;
		ASSERT_INT(check(ask(kind, "/", moves ? "/tmp" : "")), 0);
		ASSERT_INT(check(ask(kind, "/", moves ? "" : "/tmp")), -EBADMSG);
		ASSERT_INT(check(ask(kind, "", moves ? "/tmp" : "")), -EBADMSG);
	}
	ASSERT_INT(check(ask(0, "/", "")), -EBADMSG);
	ASSERT_INT(check(ask(BOX_INIT_FILE_KINDS_, "/", "")), -EBADMSG);
}

TEST(flags_belong_to_kinds)
{
	static const struct {
		uint32_t kind;
		uint32_t allowed;
	} rows[] = {
		{BOX_INIT_FILE_READ, 0},
		{BOX_INIT_FILE_WRITE,
			BOX_INIT_FILE_AT_OFFSET | BOX_INIT_FILE_APPEND | BOX_INIT_FILE_PARENTS |
				BOX_INIT_FILE_MODE},
		{BOX_INIT_FILE_MKDIR, BOX_INIT_FILE_PARENTS | BOX_INIT_FILE_MODE},
		{BOX_INIT_FILE_REMOVE, BOX_INIT_FILE_RECURSIVE},
		{BOX_INIT_FILE_WATCH, BOX_INIT_FILE_RECURSIVE},
		{BOX_INIT_FILE_STAT, 0},
		{BOX_INIT_FILE_LIST, 0},
		{BOX_INIT_FILE_MEASURE, 0},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		for (uint32_t bit = 1; bit <= BOX_INIT_FILE_FLAGS_ + 1; bit <<= 1) {
			struct box_init_file *file = ask(rows[i].kind, "/", "");
			file->flags = bit;
			ASSERT_INT(check(file), rows[i].allowed & bit ? 0 : -EBADMSG);
		}
	}
	struct box_init_file *file = ask(BOX_INIT_FILE_WRITE, "/", "");
	file->flags = BOX_INIT_FILE_AT_OFFSET | BOX_INIT_FILE_APPEND;
	ASSERT_INT(check(file), -EBADMSG);
}

TEST(numbers_and_texts_of_a_request)
{
	struct box_init_file *file = ask(BOX_INIT_FILE_READ, "/", "");
	file->mode = 01000;
	ASSERT_INT(check(file), -EBADMSG);
	file = ask(BOX_INIT_FILE_READ, "/", "");
	file->offset = INT64_MAX;
	ASSERT_INT(check(file), 0);
	file->size = 1;
	ASSERT_INT(check(file), -EBADMSG);
	file = ask(BOX_INIT_FILE_READ, "/", "");
	file->sizes[3]++;
	ASSERT_INT(check(file), -EBADMSG);
	file->sizes[3] -= 2;
	ASSERT_INT(check(file), -EBADMSG);
	file = ask(BOX_INIT_FILE_READ, "/", "");
	body[sizeof(*file) + 3] = '\0'; /* inside of the path */
	ASSERT_INT(check(file), -EBADMSG);
	file = ask(BOX_INIT_FILE_READ, "/", "");
	body_size--;
	ASSERT_INT(check(file), -EBADMSG);
	body_size = sizeof(*file) - 1;
	ASSERT_INT(check(file), -EBADMSG);
}

/* --- answers --- */

static int answers(
	const struct box_init_file *file, struct box_init_file_answer answer, size_t data_size)
{
	struct box_init_file_answer got;
	struct box_str said = {(const char *)&answer, sizeof(answer)};
	int r = box_init_file_read_answer(file, said, data_size, &got);
	said.len--;
	ASSERT_INT(box_init_file_read_answer(file, said, data_size, &got), -EBADMSG);
	return r;
}

#define ANSWER(...) ((struct box_init_file_answer){__VA_ARGS__})

TEST(answers_that_are_believed)
{
	ASSERT_INT(answers(&read_5, ANSWER(.data_size = 5), 5), 0);
	ASSERT_INT(answers(&read_5, ANSWER(.data_size = 0), 0), 0);
	ASSERT_INT(answers(&read_5, ANSWER(.errnum = 2), 3), 0);
	ASSERT_INT(answers(&read_5, ANSWER(.errnum = 18, .why = BOX_INIT_FILE_WHY_OUTSIDE), 0), 0);
	ASSERT_INT(answers(&write_5, ANSWER(.written = 5), 0), 0);
	ASSERT_INT(answers(&write_5, ANSWER(.errnum = 28, .written = 4), 0), 0);
	ASSERT_INT(answers(&stat_it, ANSWER(.facts.type = BOX_INIT_FILE_TYPE_FILE), 0), 0);
	ASSERT_INT(answers(&stat_it,
			   ANSWER(.data_size = 3, .facts.target_size = 3,
				   .facts.type = BOX_INIT_FILE_TYPE_LINK),
			   3),
		0);
}

TEST(answers_that_are_not)
{
	ASSERT_INT(answers(&read_5, ANSWER(.data_size = 4), 5), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.data_size = 6), 6), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.errnum = 2, .data_size = 1), 1), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.errnum = -1), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.errnum = 4096), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.why = 1), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.errnum = 1, .why = BOX_INIT_FILE_WHYS_), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.of_to = 2), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.more = 2), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.written = 1), 0), -EBADMSG);
	ASSERT_INT(answers(&write_5, ANSWER(.written = 6), 0), -EBADMSG);
	ASSERT_INT(answers(&write_5, ANSWER(.data_size = 1), 1), -EBADMSG);
	ASSERT_INT(answers(&stat_it, ANSWER(.data_size = 0), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.facts.type = BOX_INIT_FILE_TYPES_), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.facts.mode = 010000), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.facts.size = UINT64_MAX), 0), -EBADMSG);
	ASSERT_INT(answers(&read_5, ANSWER(.facts.mtime_nsec = 1000000000), 0), -EBADMSG);
	ASSERT_INT(answers(&list_all, ANSWER(.data_size = 4097), 4097), -EBADMSG);
}

/* --- entries --- */

static char said[16384];
static size_t said_size;

static void add(const void *bytes, size_t size)
{
	memcpy(said + said_size, bytes, size);
	said_size += size;
}

static void add_entry(const char *name, size_t name_size, uint32_t type, const char *target)
{
	struct box_init_file_entry entry = {
		.facts = {.type = type, .target_size = (uint32_t)strlen(target)},
		.name_size = (uint32_t)name_size,
	};
	add(&entry, sizeof(entry));
	add(name, name_size);
	add(target, strlen(target));
}

/* How many entries are accepted; -EBADMSG when one is invalid. */
static int count_entries(const char *after_name)
{
	struct box_str left = {said, said_size};
	struct box_str after = box_str(after_name);
	struct box_init_file_entry_read named;
	int count = 0;
	int r;
	said_size = 0;
	while ((r = box_init_file_next_entry(&left, after, &named)) == 1) {
		after = named.name;
		count++;
	}
	return r < 0 ? r : count;
}

TEST(entries_come_in_order)
{
	add_entry("a", 1, BOX_INIT_FILE_TYPE_FILE, "");
	add_entry("ab", 2, BOX_INIT_FILE_TYPE_LINK, "/x");
	add_entry("b", 1, BOX_INIT_FILE_TYPE_FOLDER, "");
	ASSERT_INT(count_entries(""), 3);
	add_entry("a", 1, BOX_INIT_FILE_TYPE_FILE, "");
	ASSERT_INT(count_entries("a"), -EBADMSG);
	add_entry("b", 1, BOX_INIT_FILE_TYPE_FILE, "");
	add_entry("ab", 2, BOX_INIT_FILE_TYPE_FILE, "");
	ASSERT_INT(count_entries(""), -EBADMSG);
}

TEST(entries_that_are_none)
{
	static const struct {
		const char *name;
		size_t size;
		uint32_t type;
		const char *target;
	} rows[] = {
		{"", 0, BOX_INIT_FILE_TYPE_FILE, ""},
		{".", 1, BOX_INIT_FILE_TYPE_FILE, ""},
		{"..", 2, BOX_INIT_FILE_TYPE_FOLDER, ""},
		{"a/b", 3, BOX_INIT_FILE_TYPE_FILE, ""},
		{"a\0b", 3, BOX_INIT_FILE_TYPE_FILE, ""},
		{"a", 1, BOX_INIT_FILE_TYPE_NONE, ""},
		{"a", 1, BOX_INIT_FILE_TYPES_, ""},
		{"a", 1, BOX_INIT_FILE_TYPE_FILE, "x"},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		add_entry(rows[i].name, rows[i].size, rows[i].type, rows[i].target);
		ASSERT_INT(count_entries(""), -EBADMSG);
	}
	add_entry("abc", 3, BOX_INIT_FILE_TYPE_FILE, "");
	said_size--;
	ASSERT_INT(count_entries(""), -EBADMSG);
	static char name[256];
	memset(name, 'a', sizeof(name));
	add_entry(name, 256, BOX_INIT_FILE_TYPE_FILE, "");
	ASSERT_INT(count_entries(""), -EBADMSG);
}

/* --- events --- */

static void add_event(uint32_t change, const char *path, const char *from)
{
	struct box_init_file_event event = {
		.change = change,
		.path_size = (uint32_t)strlen(path),
		.from_size = (uint32_t)strlen(from),
	};
	add(&event, sizeof(event));
	add(path, strlen(path));
	add(from, strlen(from));
}

static int next_event(size_t size, struct box_init_file_event_read *changed)
{
	struct box_str left = {said, size};
	return box_init_file_next_event(&left, changed);
}

TEST(an_event_is_taken_when_it_is_whole)
{
	struct box_init_file_event_read changed;
	add_event(BOX_INIT_FILE_MOVED, "to/b", "from");
	for (size_t size = 0; size < said_size; size++) {
		ASSERT_INT(next_event(size, &changed), 0);
	}
	ASSERT_INT(next_event(said_size, &changed), 1);
	ASSERT(box_str_eq(changed.path, "to/b") && box_str_eq(changed.from, "from"));
}

TEST(events_that_are_none)
{
	static const struct {
		uint32_t change;
		const char *path;
		const char *from;
	} rows[] = {
		{0, "", ""},
		{BOX_INIT_FILE_CHANGES_, "", ""},
		{BOX_INIT_FILE_STARTED, "a", ""},
		{BOX_INIT_FILE_OVERFLOW, "a", ""},
		{BOX_INIT_FILE_MOVED, "a", ""},
		{BOX_INIT_FILE_MOVED, "", "a"},
		{BOX_INIT_FILE_CREATED, "a", "b"},
		{BOX_INIT_FILE_CREATED, "/a", ""},
		{BOX_INIT_FILE_CREATED, "a/", ""},
		{BOX_INIT_FILE_CREATED, "a//b", ""},
		{BOX_INIT_FILE_CREATED, "..", ""},
		{BOX_INIT_FILE_CREATED, "a/../b", ""},
		{BOX_INIT_FILE_MOVED, "a", "b/./c"},
	};
	struct box_init_file_event_read changed;
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		said_size = 0;
		add_event(rows[i].change, rows[i].path, rows[i].from);
		ASSERT_INT(next_event(said_size, &changed), -EBADMSG);
	}
}
