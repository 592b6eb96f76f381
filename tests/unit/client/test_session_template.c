/* Session ids from templates: which values are inserted, precedence, refusals, escaping. */
#include <errno.h>

#include "client/service/session_template.h"
#include "runtime/tenant.h"
#include "tests/unit/lib/json_tree.h"

#define QUERY                                                                       \
	"{\"launcher_type\":\"group\",\"launcher_id\":12345,\"sender_id\":\"u-9\"," \
	"\"query_id\":\"q7\",\"bot\":\"b.1\",\"empty\":\"\",\"odd\":[1]}"

static const char *make(struct box_arena *arena, const struct box_session_template_rules *rules,
	const char *query, struct box_err *err)
{
	struct box_value value = tree(arena, query);
	const char *id = NULL;
	int r = box_session_template_make_id(arena, rules, &value, &id, err);
	ASSERT(r == 0 || (r == -EINVAL && err->code == BOX_ERR_VALIDATION));
	return id;
}

TEST(what_templates_give)
{
	static const struct {
		const char *template;
		const char *query;
		const char *id;
	} rows[] = {
		{NULL, QUERY, "group_12345"}, /* the default */
		{"", QUERY, "group_12345"},
		{"{launcher_type}_{launcher_id}", QUERY, "group_12345"},
		{"{sender_id}", QUERY, "u-9"},
		{"{query_id}", QUERY, "q7"},
		{"{bot}.{sender_id}", QUERY, "b.1.u-9"},
		{"global", QUERY, "global"},
		{"{global}", QUERY, "global"},
		{" global ", "{}", "global"},
		/* Without a value: the query's own. */
		{"{empty}_{sender_id}", QUERY, "q7"},
		{NULL, "{\"query_id\":8}", "8"},
		{NULL, "{\"launcher_type\":\"person\",\"query_id\":\"q\"}", "q"},
		{"{sender_id}", "{\"sender_id\":null,\"query_id\":\"q\"}", "q"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		const struct box_session_template_rules rules = {.configured = rows[i].template};
		struct box_err err;
		ASSERT_STR(make(arena, &rules, rows[i].query, &err), rows[i].id);
		box_arena_free(arena);
	}
}

TEST(who_overrides_whom)
{
	struct box_arena *arena = box_arena_new();
	struct box_session_template_rules rules = {.configured = "c"};
	struct box_err err;
	ASSERT_STR(make(arena, &rules, QUERY, &err), "c");
	rules.wanted = "w-{sender_id}";
	ASSERT_STR(make(arena, &rules, QUERY, &err), "w-u-9");
	rules.given = box_str(" mine ");
	ASSERT_STR(make(arena, &rules, QUERY, &err), "mine");
	rules.forced = "f-{launcher_id}";
	ASSERT_STR(make(arena, &rules, QUERY, &err), "f-12345");
	/* An invalid forced template does not fall back to the caller's. */
	rules.forced = "{sender_id}";
	ASSERT_STR(make(arena, &rules, "{\"query_id\":\"own\"}", &err), "own");
	box_arena_free(arena);
}

TEST(what_is_refused)
{
	static const struct {
		const char *template;
		const char *query;
		const char *says;
	} rows[] = {
		{"{who}", QUERY,
			"session id template: unknown attribute {who}, known are launcher_type, "
			"launcher_id, sender_id, query_id, global, bot, empty, odd"},
		{"{odd}", QUERY, "session id template: attribute {odd} is a list, not a text"},
		{"{a", QUERY, "session id template \"{a\": \"{\" without \"}\""},
		{"a}", QUERY, "session id template \"a}\": \"}\" without \"{\""},
		{"{}", QUERY, "session id template \"{}\": an attribute needs a name"},
		{"{0}", QUERY, "session id template \"{0}\": an attribute needs a name"},
		{"{bot.x}", QUERY,
			"session id template \"{bot.x}\": only {name} is allowed in braces"},
		{"{bot!r}", QUERY,
			"session id template \"{bot!r}\": only {name} is allowed in braces"},
		{"{bot:>9}", QUERY,
			"session id template \"{bot:>9}\": only {name} is allowed in braces"},
		{NULL, "{}",
			"session id template \"{launcher_type}_{launcher_id}\": the query has "
			"neither these attributes nor a query_id"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		const struct box_session_template_rules rules = {.wanted = rows[i].template};
		struct box_err err = {0};
		ASSERT(make(arena, &rules, rows[i].query, &err) == NULL);
		ASSERT_STR(err.text, rows[i].says);
		box_arena_free(arena);
	}
}

TEST(braces_and_length)
{
	struct box_arena *arena = box_arena_new();
	struct box_session_template_rules rules = {.wanted = "{{a}}"};
	struct box_err err;
	char text[BOX_SERVICE_TEMPLATE_BYTES_MAX + 2];
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	ASSERT_INT(strncmp(make(arena, &rules, QUERY, &err), "a-", 2), 0);
	ASSERT_INT(box_session_template_check(text, &err), -EINVAL);
	text[BOX_SERVICE_TEMPLATE_BYTES_MAX] = '\0';
	ASSERT_INT(box_session_template_check(text, &err), 0);
	box_arena_free(arena);
}

/* The result equals the runtime's own normalization, and is stable. */
TEST(safe_as_the_runtime_has_it)
{
	static const struct box_context context = {{"i", 1}, {"w", 1}, 1};
	static const char *const names[] = {
		"group_1", "a b", "--a//b--", "\xe4\xb8\xad_1", "a.b-c_d", "x\ny", "!a", "a!"};
	for (size_t i = 0; i < COUNT(names); i++) {
		struct box_arena *arena = box_arena_new();
		char theirs[BOX_PHYSICAL_ID_SIZE];
		char again[BOX_PHYSICAL_ID_SIZE];
		const char *ours;
		struct box_err err;
		ASSERT_INT(box_session_template_clean_id(arena, box_str(names[i]), &ours, &err), 0);
		ASSERT_INT(box_tenant_physical_id(&context, box_str(names[i]), theirs, &err), 0);
		ASSERT_INT(box_tenant_physical_id(&context, box_str(ours), again, &err), 0);
		size_t len = strlen(theirs);
		ASSERT_INT(strncmp(again, theirs, len), 0);
		/* Only a changed id is marked, with a hash of the whole. */
		size_t prefix = len - strlen(theirs + strlen("ws-") + 24 + strlen("-g1-"));
		bool same = strcmp(theirs + prefix, names[i]) == 0;
		ASSERT_INT(strlen(again), same ? len : len + 13);
		ASSERT_STR(again + prefix, ours);
		box_arena_free(arena);
	}
}

TEST(different_names_stay_apart)
{
	static const char *const names[] = {
		"a b", "a-b", "a/b", "a  b", "\xe4\xb8\xad", "\xe4\xb8\xad\xe4\xb8\xad"};
	struct box_arena *arena = box_arena_new();
	const char *made[COUNT(names)];
	for (size_t i = 0; i < COUNT(names); i++) {
		struct box_err err;
		ASSERT_INT(
			box_session_template_clean_id(arena, box_str(names[i]), &made[i], &err), 0);
		for (size_t j = 0; j < i; j++) {
			ASSERT(strcmp(made[i], made[j]) != 0);
		}
	}
	box_arena_free(arena);
}

TEST(long_names_are_cut_and_stay_apart)
{
	struct box_arena *arena = box_arena_new();
	char text[BOX_SESSION_ID_MAX + 100];
	const char *first;
	const char *second;
	struct box_err err;
	memset(text, 'a', sizeof(text));
	struct box_str most = {text, BOX_SESSION_ID_MAX};
	ASSERT_INT(box_session_template_clean_id(arena, most, &first, &err), 0);
	ASSERT_INT(strlen(first), BOX_SESSION_ID_MAX);
	ASSERT_BYTES(first, strlen(first), text, BOX_SESSION_ID_MAX);
	ASSERT_INT(box_session_template_clean_id(
			   arena, (struct box_str){text, sizeof(text)}, &first, &err),
		0);
	ASSERT_INT(strlen(first), BOX_SESSION_ID_MAX);
	text[sizeof(text) - 1] = 'b';
	ASSERT_INT(box_session_template_clean_id(
			   arena, (struct box_str){text, sizeof(text)}, &second, &err),
		0);
	ASSERT(strcmp(first, second) != 0);
	ASSERT_INT(box_session_template_clean_id(arena, box_str(" \n"), &first, &err), -EINVAL);
	box_arena_free(arena);
}
