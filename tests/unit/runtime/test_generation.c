/* Generations of workspaces: they only grow, and their number is limited. */
#include <errno.h>

#include "runtime/generation.h"
#include "tests/unit/lib/test.h"

#define STALE "Stale Box placement generation"
#define FULL                                      \
	"Box generation fence capacity reached; " \
	"refusing an unbounded Workspace allocation"

static struct box_context at(const char *instance, const char *workspace, int64_t generation)
{
	return (struct box_context){box_str(instance), box_str(workspace), generation};
}

static void expect_pass(struct box_generations *table, struct box_context context, bool advances)
{
	struct box_err err;
	bool advanced = !advances;
	ASSERT_INT(box_generations_observe(table, &context, 100, &advanced, &err), 0);
	ASSERT_INT(advanced, advances);
	ASSERT_INT(box_generations_current(table, &context), context.generation);
	ASSERT_INT(box_generations_require_current(table, &context, &err), 0);
}

static void expect_refusal(
	struct box_generations *table, struct box_context context, size_t most, const char *text)
{
	struct box_err err;
	bool advanced = false;
	int64_t before = box_generations_current(table, &context);
	ASSERT_INT(box_generations_observe(table, &context, most, &advanced, &err), -EPERM);
	ASSERT_INT(err.code, BOX_ERR_PERMISSION);
	ASSERT_STR(err.text, text);
	ASSERT_INT(box_generations_current(table, &context), before);
}

TEST(forward_only)
{
	struct box_generations *table = box_generations_new();
	struct box_context never = at("i", "w", 3);
	struct box_err err;
	ASSERT_INT(box_generations_current(table, &never), 0);
	ASSERT_INT(box_generations_require_current(table, &never, &err), -EPERM);
	ASSERT_INT(err.code, BOX_ERR_PERMISSION);
	ASSERT_STR(err.text, STALE);
	expect_pass(table, at("i", "w", 3), true);
	expect_pass(table, at("i", "w", 3), false);
	expect_pass(table, at("i", "w", 4), true);
	expect_refusal(table, at("i", "w", 3), 100, STALE);
	expect_refusal(table, at("i", "w", 1), 100, STALE);
	expect_pass(table, at("i", "w", 4), false);
	expect_pass(table, at("i", "w", INT64_MAX), true);
	expect_refusal(table, at("i", "w", INT64_MAX - 1), 100, STALE);

	/* A generation newer than any that was observed is not current either. */
	struct box_context newer = at("i", "x", 5);
	expect_pass(table, at("i", "x", 4), true);
	ASSERT_INT(box_generations_require_current(table, &newer, &err), -EPERM);
	ASSERT_STR(err.text, STALE);
	box_generations_free(table);
	box_generations_free(NULL);
}

TEST(full)
{
	struct box_generations *table = box_generations_new();
	bool advanced;
	struct box_err err;
	const char *const names[] = {"a", "b", "c"};
	for (int i = 0; i < 3; i++) {
		struct box_context context = at("i", names[i], 1);
		ASSERT_INT(box_generations_observe(table, &context, 3, &advanced, &err), 0);
	}
	expect_refusal(table, at("i", "d", 1), 3, FULL);
	expect_refusal(table, at("i", "d", 1), 0, FULL);
	/* Known workspaces can still advance. */
	struct box_context known = at("i", "b", 2);
	ASSERT_INT(box_generations_observe(table, &known, 3, &advanced, &err), 0);
	ASSERT(advanced);
	ASSERT_INT(box_generations_observe(table, &known, 1, &advanced, &err), 0);
	struct box_context late = at("i", "d", 1);
	ASSERT_INT(box_generations_observe(table, &late, 4, &advanced, &err), 0);
	ASSERT(advanced);
	box_generations_free(table);
}

TEST(names_are_not_confusable)
{
	struct box_generations *table = box_generations_new();
	const struct box_context places[] = {
		at("ab", "c", 1),
		at("a", "bc", 2),
		at("abc", "", 3),
		at("a", "b", 4),
		at("", "abc", 5),
		{{"a", 1}, {"b\0", 2}, 6},
		{{"a", 1}, {"\0b", 2}, 7},
		{{"a", 1}, {"", 0}, 8},
		{{"a", 1}, {"\0", 1}, 9},
		{{"a", 1}, {"b\0c", 3}, 10},
	};
	size_t count = COUNT(places);
	for (size_t i = 0; i < count; i++) {
		expect_pass(table, places[i], true);
	}
	for (size_t i = 0; i < count; i++) {
		ASSERT_INT(box_generations_current(table, &places[i]), places[i].generation);
	}
	struct box_context other = at("c", "ab", 1);
	ASSERT_INT(box_generations_current(table, &other), 0);
	box_generations_free(table);
}

TEST(next_walks_all)
{
	enum {
		WORKSPACES = 500
	};
	bool seen[WORKSPACES] = {false};
	struct box_generations *table = box_generations_new();
	struct box_context context;
	uint64_t position = 0;
	int count = 0;
	ASSERT(!box_generations_next(table, &position, &context));
	for (int i = 0; i < WORKSPACES; i++) {
		char instance[32];
		char workspace[32];
		bool advanced;
		(void)snprintf(instance, sizeof(instance), "instance-%d", i % 7);
		(void)snprintf(workspace, sizeof(workspace), "workspace-%d", i);
		context = at(instance, workspace, i + 1);
		ASSERT_INT(
			box_generations_observe(table, &context, WORKSPACES, &advanced, NULL), 0);
	}
	position = 0;
	while (box_generations_next(table, &position, &context)) {
		char text[64];
		int i = (int)context.generation - 1;
		ASSERT(i >= 0 && i < WORKSPACES && !seen[i]);
		seen[i] = true;
		(void)snprintf(text, sizeof(text), "instance-%d", i % 7);
		ASSERT(box_str_eq(context.instance, text));
		(void)snprintf(text, sizeof(text), "workspace-%d", i);
		ASSERT(box_str_eq(context.workspace, text));
		count++;
	}
	ASSERT_INT(count, WORKSPACES);
	box_generations_free(table);
}
