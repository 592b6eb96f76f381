/* Skill actions between a client and the store: what is forwarded, what comes back, archives, and
 * the skill that a command names. */
#include <fcntl.h>
#include <unistd.h>

#include "tests/unit/lib/dispatch_fixture.h"

static void answer(const char *text)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = tree(arena, text);
	struct box_skill_store_request *asked = take_skills_ask();
	asked->done(asked->arg, &map, NULL);
	box_arena_free(arena);
}

static void refuse(enum box_code code, const char *text)
{
	struct box_err err;
	struct box_skill_store_request *asked = take_skills_ask();
	(void)box_err_set(&err, code, EINVAL, "%s", text);
	asked->done(asked->arg, NULL, &err);
}

TEST(passed_on_and_back)
{
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "box_get_skill", "\"name\":\"a\"");
	ask(&c, 2, "box_list_skills", "");
	ASSERT_INT(c.count, 0);
	const struct box_skill_store_request *first = BOX_CONTAINER_OF(
		skills_asked.next, struct box_skill_store_request, links);
	ASSERT_STR(first->action, "box_get_skill");
	ASSERT_STR(first->root, "/w/data/box/skills");
	ASSERT_INT(strlen(first->namespace), 27);
	ASSERT(box_str_eq(box_map_get(first->data, "name")->str, "a"));
	answer("{\"skill\":null}");
	refuse(BOX_ERR_VALIDATION, "no");
	expect_success(&c, 0, "1", "{\"skill\":null}");
	expect_error(&c, 1, "2", "BoxValidationError: no");
	finish_with(&c);
}

TEST(nobody_waits_any_more)
{
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "box_list_skills", "");
	ask(&c, 2, "box_exec", "\"session_id\":\"s\",\"cmd\":\"x\",\"skill_name\":\"a\"");
	ask(&c, 3, "__cancel_action", "\"seq_id\":1");
	ASSERT(box_list_empty(&skills_asked) == false);
	close_peer(&c);
	ASSERT(box_list_empty(&skills_asked));
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 0);
	finish();
}

#define CHUNK(index, amount)                                                   \
	"\"file_key\":\"k\",\"chunk_base64\":\"eA==\",\"chunk_index\":" #index \
	",\"chunk_amount\":" #amount

/* The archive is complete, is used once, and nothing of it stays. */
TEST(archives)
{
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "box_install_skill_zip", "\"file_key\":\"k\"");
	ask(&c, 2, "__file_chunk", CHUNK(0, 2));
	ask(&c, 3, "box_install_skill_zip", "\"file_key\":\"k\"");
	ask(&c, 4, "__file_chunk", CHUNK(1, 2));
	ask(&c, 5, "box_preview_skill_zip", "\"file_key\":\"k\"");
	ask(&c, 6, "box_install_skill_zip", "\"file_key\":\"k\"");
	expect_error(&c, 0, "1", "BoxValidationError: Invalid file transfer capability");
	expect_success(&c, 1, "2", "{}");
	expect_error(&c, 2, "3", "BoxValidationError: Invalid file transfer capability");
	expect_success(&c, 3, "4", "{}");
	expect_error(&c, 4, "6", "BoxValidationError: Invalid file transfer capability");
	struct box_skill_store_request *asked = BOX_CONTAINER_OF(
		skills_asked.next, struct box_skill_store_request, links);
	char bytes[4] = "";
	int archive = asked->archive;
	ASSERT_INT(pread(archive, bytes, sizeof(bytes), 0), 2);
	ASSERT_STR(bytes, "xx");
	ASSERT_INT(runtime->files_total_bytes, 0);
	answer("{\"skills\":[]}");
	expect_success(&c, 5, "5", "{\"skills\":[]}");
	ASSERT_INT(fcntl(archive, F_GETFD), -1);
	finish_with(&c);
}

TEST(archive_of_one_who_left)
{
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "__file_chunk", CHUNK(0, 1));
	ask(&c, 2, "box_preview_skill_zip", "\"file_key\":\"k\"");
	int archive =
		BOX_CONTAINER_OF(skills_asked.next, struct box_skill_store_request, links)->archive;
	ASSERT(fcntl(archive, F_GETFD) >= 0);
	close_peer(&c);
	ASSERT_INT(fcntl(archive, F_GETFD), -1);
	finish();
}

#define EXEC(action, more) \
	ask(&c, 7, action, "\"session_id\":\"s\",\"cmd\":\"x\",\"skill_name\":\"a\"" more)

/* Its package is mounted for this command, in place of a requested mount at the same target. */
TEST(skill_of_a_command)
{
	static const char *const actions[] = {"box_exec", "box_exec_stream"};
	for (size_t i = 0; i < 2; i++) {
		struct connection c = {0};
		start_with(&c);
		runtime->config->mount_roots[0] = "/";
		make_live(&c, "s");
		EXEC(actions[i],
			",\"extra_mounts\":[{\"host_path\":\"/h\",\"mount_path\":\"/m\"},"
			"{\"host_path\":\"/h\",\"mount_path\":\"/workspace/.skills/a\"}]");
		ASSERT(!headless.pending);
		ASSERT_STR(
			BOX_CONTAINER_OF(skills_asked.next, struct box_skill_store_request, links)
				->action,
			BOX_SKILL_STORE_FIND);
		answer("{\"path\":\"tenants/n/a\"}");
		const struct box_spec *spec = headless.pending->spec;
		ASSERT_INT(spec->mount_count, 2);
		ASSERT_STR(spec->mounts[0].mount_path, "/m");
		ASSERT(!spec->mounts[0].in_store);
		ASSERT_STR(spec->mounts[1].mount_path, "/workspace/.skills/a");
		ASSERT_STR(spec->mounts[1].host_path, "tenants/n/a");
		ASSERT(spec->mounts[1].in_store && spec->mounts[1].mode == BOX_MOUNT_RO);
		headless_ran("x", &good);
		ASSERT(c.count >= 1);
		finish_with(&c);
	}
}

TEST(skill_that_is_not_there)
{
	struct connection c = {0};
	start_with(&c);
	EXEC("box_exec", "");
	refuse(BOX_ERR_VALIDATION, "Skill \"a\" not found");
	expect_error(&c, 0, "7", "BoxValidationError: Skill \"a\" not found");
	EXEC("box_exec_stream", "");
	refuse(BOX_ERR_RUNTIME_UNAVAILABLE, "gone");
	expect_error(&c, 1, "7", "BoxRuntimeUnavailableError: gone");
	EXEC("box_exec", "");
	answer("{\"path\":7}");
	expect_error(&c, 2, "7", "BoxError: the skill store named no package");
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 0);
	finish_with(&c);
}
