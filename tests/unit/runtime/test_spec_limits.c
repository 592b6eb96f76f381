/* Box specs at their limits: lengths, how much of the sender's text is echoed, mounts. */
#include "base/arena.h"
#include "base/limits.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/spec_parse.h"

TEST(error_may_be_null)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	ASSERT_INT(parse(arena, "{}", &spec, NULL), -EINVAL);
	box_arena_free(arena);
}

TEST(lengths)
{
	static const struct {
		const char *name;
		const char *head;
		size_t most;
	} rows[] = {
		{"session_id", "", BOX_SESSION_ID_MAX},
		{"workdir", "/", BOX_PATH_MAX - 1},
		{"mount_path", "/", BOX_PATH_MAX - 1},
		{"host_path", "/", BOX_PATH_MAX - 1},
		{"image", "", BOX_PATH_MAX - 1},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		for (size_t over = 0; over < 2; over++) {
			struct box_arena *arena = box_arena_new();
			struct box_value map = box_map_value();
			struct box_spec spec;
			struct box_err err = {0};
			char wanted[128];
			size_t count = rows[i].most + over - strlen(rows[i].head);
			if (strcmp(rows[i].name, "session_id") != 0) {
				box_map_add(arena, &map, "session_id", box_cstr("s"));
			}
			box_map_add(arena, &map, rows[i].name,
				box_cstr(repeated(arena, rows[i].head, 'x', count)));
			int result = box_spec_parse(arena, &map, &spec, &err);
			(void)snprintf(wanted, sizeof(wanted),
				"%s\n  Value error, %s must be at most %zu bytes long",
				rows[i].name, rows[i].name, rows[i].most);
			if (over) {
				expect_refusal(rows[i].name, result, &err, "BoxSpec", wanted);
			} else {
				ASSERT_INT(result, 0);
			}
			box_arena_free(arena);
		}
	}
}

TEST(echo_is_cut_and_harmless)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "session_id", box_cstr("s"));
	box_map_add(arena, &map, repeated(arena, "", 'k', 5000), box_null());
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), -EINVAL);
	char wanted[256];
	(void)snprintf(wanted, sizeof(wanted),
		"1 validation error for BoxSpec\n%s...\n  Extra inputs are not permitted",
		repeated(arena, "", 'k', 100));
	ASSERT_STR(err.text, wanted);

	/* Not inside a code point: 34 of three bytes are 102. */
	char *wide = repeated(arena, "", ' ', 102);
	for (size_t i = 0; i < 34; i++) {
		put_bytes(wide + 3 * i, "\xe6\x8a\x80", 3);
	}
	map.pairs[1].key = box_str(wide);
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), -EINVAL);
	(void)snprintf(wanted, sizeof(wanted),
		"1 validation error for BoxSpec\n%.99s...\n  Extra inputs are not permitted", wide);
	ASSERT_STR(err.text, wanted);

	map.pairs[1].key = box_str("BoxAdmissionError: \n\x7fx");
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), -EINVAL);
	ASSERT_STR(err.text,
		"1 validation error for BoxSpec\nBoxAdmissionError? ??x\n  Extra inputs are not "
		"permitted");
	box_arena_free(arena);
}

static const char *mount_texts(struct box_arena *arena, const struct box_spec *spec)
{
	const char *text = "";
	for (size_t i = 0; i < spec->mount_count; i++) {
		text = box_arena_printf(arena, "%s%s:%s:%s ", text, spec->mounts[i].host_path,
			spec->mounts[i].mount_path, box_spec_mount_mode_name(spec->mounts[i].mode));
	}
	return text;
}

TEST(last_mount_of_a_path_wins)
{
	static const struct {
		const char *mounts; /* host:target:mode, by letters */
		const char *kept;
	} rows[] = {
		{"a1w", "/a:/1:rw "},
		{"a1n", ""},
		{"a1w b1r", "/b:/1:ro "},
		{"a1w b2r c1w d3w e2n", "/b:/2:ro /c:/1:rw /d:/3:rw "},
		{"a1w b1n", "/a:/1:rw "},
		{"c9w b8w a7w", "/c:/9:rw /b:/8:rw /a:/7:rw "},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		const char *json = "\"extra_mounts\":[";
		struct box_spec spec;
		struct box_err err = {0};
		for (const char *p = rows[i].mounts; *p; p += p[3] ? 4 : 3) {
			const char *mode = p[2] == 'w' ? "rw" : p[2] == 'r' ? "ro" : "none";
			json = box_arena_printf(arena,
				"%s{\"host_path\":\"/%c\",\"mount_path\":\"/%c\","
				"\"mode\":\"%s\"}%s",
				json, p[0], p[1], mode, p[3] ? "," : "]");
		}
		ASSERT_INT(parse_with(arena, json, &spec, &err), 0);
		ASSERT_STR(mount_texts(arena, &spec), rows[i].kept);
		box_arena_free(arena);
	}
}

/* A message full of mounts: 60,000 at two paths must not take quadratic time. */
TEST(many_mounts)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	struct box_value list = box_list_value();
	struct box_spec spec;
	struct box_err err = {0};
	for (int i = 0; i < 60000; i++) {
		struct box_value mount = box_map_value();
		box_map_add(
			arena, &mount, "host_path", box_cstr(box_arena_printf(arena, "/h%d", i)));
		box_map_add(arena, &mount, "mount_path", box_cstr(i % 2 ? "/odd" : "/even"));
		box_list_add(arena, &list, mount);
	}
	box_map_add(arena, &map, "session_id", box_cstr("s"));
	box_map_add(arena, &map, "extra_mounts", list);
	ASSERT_INT(box_spec_parse(arena, &map, &spec, &err), 0);
	ASSERT_STR(mount_texts(arena, &spec), "/h59998:/even:rw /h59999:/odd:rw ");
	box_arena_free(arena);
}
