/* Volumes of a session: which are accepted and refused, which ones a command gets, and who owns
 * them. */
#include "base/arena.h"
#include "base/macros.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/spec_parse.h"

#define VOLUME(host, box, mode) \
	"{\"host_path\":\"" host "\",\"mount_path\":\"" box "\",\"mode\":\"" mode "\"}"

static void expect(const char *members, const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	ASSERT(parse_with(arena, members, &spec, &err) < 0);
	ASSERT(strstr(err.text, text) != NULL);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	box_arena_free(arena);
}

TEST(a_command_gets_them_with_its_own)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec spec;
	struct box_err err = {0};
	ASSERT_INT(parse_with(arena,
			   "\"volumes\":[" VOLUME("/a", "/x", "ro") "," VOLUME("/b", "/y",
				   "rw") "],"
					 "\"extra_mounts\":[" VOLUME("/c", "/y", "ro") "," VOLUME(
						 "/d", "/z", "rw") "]",
			   &spec, &err),
		0);
	ASSERT_INT(spec.volume_count, 2);
	ASSERT_INT(spec.mount_count, 3); /* its own at /y */
	ASSERT_STR(spec.mounts[0].host_path, "/a");
	ASSERT_INT(spec.mounts[0].mode, BOX_MOUNT_RO);
	ASSERT_STR(spec.mounts[1].host_path, "/c");
	ASSERT_STR(spec.mounts[2].host_path, "/d");
	box_arena_free(arena);
}

TEST(they_are_the_sessions)
{
	struct box_arena *arena = box_arena_new();
	struct box_arena *other = box_arena_new();
	struct box_spec a;
	struct box_spec b;
	struct box_err err = {0};
	const char *value = NULL;
	ASSERT_INT(parse_with(arena, "\"volumes\":[" VOLUME("/a", "/x", "ro") "]", &a, &err), 0);
	struct box_spec kept = box_spec_copy_session(other, &a);
	ASSERT_INT(parse_with(arena, "\"volumes\":[" VOLUME("/a", "/x", "ro") "]", &b, &err), 0);
	ASSERT(!box_spec_conflict(arena, &kept, &b, &value));
	static const char *const others[] = {"", "\"volumes\":null", "\"volumes\":[]",
		"\"volumes\":[" VOLUME("/a", "/x", "rw") "]",
		"\"volumes\":[" VOLUME("/b", "/x", "ro") "]",
		"\"volumes\":[" VOLUME("/a", "/y", "ro") "]",
		"\"volumes\":[" VOLUME("/a", "/x", "ro") "," VOLUME("/b", "/y", "ro") "]"};
	for (size_t i = 0; i < BOX_COUNT_OF(others); i++) {
		ASSERT_INT(parse_with(arena, others[i], &b, &err), 0);
		ASSERT_STR(box_spec_conflict(arena, &kept, &b, &value), "volumes");
		ASSERT_STR(value, "/a:/x:ro");
	}
	box_arena_free(arena);
	ASSERT_INT(kept.volume_count, 1);
	ASSERT_INT(kept.mount_count, 0);
	ASSERT_STR(kept.volumes[0].host_path, "/a");
	box_arena_free(other);
}

TEST(times_do_not_make_another_session)
{
	struct box_arena *arena = box_arena_new();
	struct box_spec a;
	struct box_spec b;
	struct box_err err = {0};
	const char *value = NULL;
	ASSERT_INT(parse_with(arena, "\"idle_timeout_sec\":5,\"max_duration_sec\":2147483647", &a,
			   &err),
		0);
	ASSERT_INT(a.idle_timeout_sec, 5);
	ASSERT_INT(a.max_duration_sec, 2147483647);
	ASSERT_INT(parse_with(arena, "", &b, &err), 0);
	ASSERT(!box_spec_conflict(arena, &a, &b, &value));
	box_arena_free(arena);
}

TEST(what_is_refused)
{
	expect("\"volumes\":{}", "volumes\n  Input should be a valid list");
	expect("\"volumes\":[1]", "volumes.0\n  Input should be a valid dictionary");
	expect("\"volumes\":[" VOLUME("a", "/x", "ro") "]", "volumes.0.host_path\n");
	expect("\"volumes\":[" VOLUME("/a", "x", "ro") "]", "volumes.0.mount_path\n");
	expect("\"volumes\":[" VOLUME("/a", "/x/../y", "ro") "]", "must be normalized");
	expect("\"volumes\":[" VOLUME("/a", "/x", "xo") "]", "volumes.0.mode\n");
	expect("\"volumes\":[{\"host_path\":\"/a\",\"mount_path\":\"/x\",\"mode\":\"ro\","
	       "\"manifest_path\":\"/m\"}]",
		"a volume cannot be an artifact");
	expect("\"idle_timeout_sec\":-1", "idle_timeout_sec must be between 0 and 2147483647");
	expect("\"max_duration_sec\":2147483648", "max_duration_sec must be between");
	expect("\"max_duration_sec\":\"soon\"", "max_duration_sec\n");

	struct box_arena *arena = box_arena_new();
	struct box_buf list = box_buf(BOX_MIB);
	for (int i = 0; i <= BOX_VOLUMES_MAX; i++) {
		(void)box_buf_append_str(&list, i > 0 ? "," : "");
		(void)box_buf_append_str(
			&list, box_arena_printf(arena, VOLUME("/a", "/x%d", "ro"), i));
	}
	expect(box_arena_printf(arena, "\"volumes\":[%.*s]", (int)list.len, list.bytes),
		"volumes has more than 64 members");
	box_buf_free(&list);
	box_arena_free(arena);
}
