/* The store without box-skills: one JSON line in, one out. For tests and for measuring.
 *
 * skills_driver FOLDER [PATH]    the store in FOLDER, which answers call PATH
 *
 * A line is {"namespace", "action", "data", "archive": a file's path, "settle": false when the disk
 * is not to be waited for behind the answer}. Actions beside those of
 * clients: "find" {name}, "dump" and "load" {texts: [...]} for front matter alone, "letters". The
 * answer is {"ok": ...} or {"error": "NAME: TEXT"}, with the microseconds
 * that it took.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "skills/store/store.h"
#include "skills/text/front_matter.h"
#include "skills/text/pytext.h"

static struct box_store *store;

static struct box_value copied(struct box_arena *arena, const struct box_buf *buf)
{
	struct box_str text = {
		box_arena_strndup(arena, buf->len ? buf->bytes : "", buf->len), buf->len};
	return box_text(text);
}

/* Each text as the display_name of a skill: the SKILL.md that is written. */
static struct box_value dump(struct box_arena *arena, const struct box_value *texts)
{
	struct box_value list = box_list_value();
	for (uint32_t i = 0; texts && i < texts->count; i++) {
		const struct box_front_matter_fields fields = {.display_name = texts->items[i].str};
		struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
		(void)box_front_matter_write(&out, &fields, box_str(""));
		(void)box_list_add(arena, &list, copied(arena, &out));
		box_buf_free(&out);
	}
	return list;
}

#define NODES_MAX \
	100000 /* aliases can make a tree far larger than its text: the rest becomes null */

/* A tree as a value: text, null, {"list": [...]} or {"map": [[key, value], ...]}. */
static struct box_value value_of(
	struct box_arena *arena, const struct box_yaml *node, size_t *node_count)
{
	bool is_map = node->type == BOX_YAML_MAP;
	if (++*node_count > NODES_MAX) {
		return box_null();
	}
	if (!is_map && node->type != BOX_YAML_LIST) {
		return node->type == BOX_YAML_NULL ? box_null() : box_text(node->text);
	}
	struct box_value list = box_list_value();
	for (size_t i = 0; i < node->count && *node_count <= NODES_MAX; i++) {
		if (!is_map) {
			(void)box_list_add(
				arena, &list, value_of(arena, &node->items[i], node_count));
			continue;
		}
		struct box_value pair = box_list_value();
		(void)box_list_add(arena, &pair, value_of(arena, &node->items[2 * i], node_count));
		(void)box_list_add(
			arena, &pair, value_of(arena, &node->items[2 * i + 1], node_count));
		(void)box_list_add(arena, &list, pair);
	}
	struct box_value map = box_map_value();
	(void)box_map_add(arena, &map, is_map ? "map" : "list", list);
	return map;
}

/* Each text as a SKILL.md: [the front matter, instructions], or the error. */
static struct box_value load(struct box_arena *arena, const struct box_value *texts)
{
	static struct box_err err;
	struct box_value list = box_list_value();
	for (uint32_t i = 0; texts && i < texts->count; i++) {
		struct box_front_matter front;
		struct box_value item = box_list_value();
		if (box_front_matter_read(arena, texts->items[i].str, &front, &err) < 0) {
			item = box_text(
				box_str(box_arena_strndup(arena, err.text, strlen(err.text))));
		} else {
			size_t node_count = 0;
			(void)box_list_add(arena, &item, value_of(arena, &front.meta, &node_count));
			(void)box_list_add(arena, &item, box_text(front.instructions));
		}
		(void)box_list_add(arena, &list, item);
	}
	return list;
}

/* First and last of each run of letters and digits. */
static struct box_value letters(struct box_arena *arena)
{
	struct box_value list = box_list_value();
	bool inside = false;
	for (uint32_t c = 0; c <= 0x110000; c++) {
		bool is = c < 0x110000 && box_pytext_is_letter_or_digit(c);
		if (is != inside) {
			(void)box_list_add(arena, &list, box_int(inside ? c - 1 : c));
		}
		inside = is;
	}
	return list;
}

static int serve(struct box_arena *arena, const struct box_value *line, struct box_value *answer,
	struct box_err *err)
{
	const struct box_value *data = box_map_get(line, "data");
	const struct box_value *action = box_map_get(line, "action");
	const struct box_value *tenant = box_map_get(line, "namespace");
	const struct box_value *archive = box_map_get(line, "archive");
	char *name = box_arena_strndup(arena, action->str.bytes, action->str.len);
	char *namespace = tenant ? box_arena_strndup(arena, tenant->str.bytes, tenant->str.len)
				 : "";
	_cleanup_(box_close_p) int fd = -1;
	if (strcmp(name, "dump") == 0 || strcmp(name, "load") == 0) {
		*answer = name[0] == 'd' ? dump(arena, box_map_get(data, "texts"))
					 : load(arena, box_map_get(data, "texts"));
		return 0;
	}
	if (strcmp(name, "letters") == 0) {
		*answer = letters(arena);
		return 0;
	}
	if (strcmp(name, "find") == 0) {
		struct box_str skill = box_map_get(data, "name")->str;
		struct box_buf path = box_buf(BOX_PATH_MAX);
		int r = box_store_find_package(store, namespace,
			box_arena_strndup(arena, skill.bytes, skill.len), &path, err);
		*answer = copied(arena, &path);
		box_buf_free(&path);
		return r;
	}
	if (archive) {
		fd = open(box_arena_strndup(arena, archive->str.bytes, archive->str.len),
			O_RDONLY | O_CLOEXEC);
	}
	return box_store_serve(store, namespace, name, data, fd, arena, answer, err);
}

static int64_t now_us(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void answer_line(char *text, size_t len)
{
	static struct box_err err;
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value line;
	struct box_value answer = box_null();
	struct box_value out = box_map_value();
	struct box_buf buf = box_buf(8 * BOX_MESSAGE_BYTES_MAX);
	const char *why = NULL;
	if (box_json_decode(arena, text, len, &line, &why) < 0) {
		printf("{\"error\": \"no JSON: %s\"}\n", why);
		(void)fflush(stdout);
		return;
	}
	int64_t start = now_us();
	int r = serve(arena, &line, &answer, &err);
	int64_t took = now_us() - start;
	if (r < 0) {
		const char *name = box_code_name(err.code);
		(void)box_map_add(arena, &out, "error",
			box_cstr(box_arena_printf(arena, "%s: %s", name ? name : "", err.text)));
	} else {
		(void)box_map_add(arena, &out, "ok", answer);
	}
	(void)box_map_add(arena, &out, "us", box_int(took));
	(void)box_json_encode(&buf, &out);
	(void)fwrite(buf.bytes, 1, buf.len, stdout);
	(void)putchar('\n');
	(void)fflush(stdout);
	const struct box_value *settle = box_map_get(&line, "settle");
	if (!settle || settle->type != BOX_BOOL || settle->boolean) {
		box_store_settle(store);
	}
	box_buf_free(&buf);
}

int main(int argc, char **argv)
{
	static struct box_err err;
	char *line = NULL;
	size_t room = 0;
	ssize_t len = 0;
	struct rlimit limit;
	if (argc < 2) {
		return 2;
	}
	/* As box-skills does: the store keeps files open that it has read. */
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	int fd = open(argv[1], O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || box_store_open(fd, argc > 2 ? argv[2] : argv[1], &store, &err) < 0) {
		(void)fprintf(stderr, "%s: %s\n", argv[1], err.text);
		return 1;
	}
	while ((len = getline(&line, &room, stdin)) > 0) {
		answer_line(line, (size_t)len);
	}
	free(line);
	box_store_close(store);
	return 0;
}
