/* The runtime: the record for a successor, written whole or change by change, and its replay. */
#include "runtime/runtime.h"
#include "tests/unit/lib/runtime_fixture.h"

static void emitted(void *arg, const struct box_value *change)
{
	box_list_add(arena, arg, box_value_copy(arena, change));
}

static struct box_value dump(const struct box_runtime *runtime)
{
	struct box_value list = box_list_value();
	box_runtime_dump(runtime, emitted, &list);
	return list;
}

static void expect_same(struct box_runtime *a, struct box_runtime *b)
{
	uint64_t position = 0;
	struct box_context context;
	size_t count = 0;
	ASSERT_STR(status(b), status(a));
	ASSERT_STR(b->instance, a->instance);
	while (box_generations_next(a->generations, &position, &context)) {
		ASSERT_INT(box_generations_current(b->generations, &context), context.generation);
		count++;
	}
	position = 0;
	while (box_generations_next(b->generations, &position, &context)) {
		count--;
	}
	ASSERT_INT(count, 0);
	ASSERT_INT(b->config->admission.required, a->config->admission.required);
	ASSERT_STR(json(arena, &b->config->map), json(arena, &a->config->map));
}

#define OPERATORS "{\"limits\":{\"max_managed_processes\":5}}"

static struct box_runtime *lived(void)
{
	struct box_runtime *runtime = start();
	struct note note = {0};
	struct box_init *pending = NULL;
	configure(runtime, BOX_RUNTIME_LAYER_FILE, OPERATORS);
	box_runtime_pin_instance(runtime, box_str("inst"));
	box_runtime_pin_instance(runtime, box_str("other")); /* the first one counts */
	init_now(runtime, "{\"limits\":{\"max_sessions\":3},\"backend\":\"docker\"}");
	ASSERT_INT(init(runtime, LOCAL, &note, &pending), 1);
	folder_done(0, 0);
	enter(runtime, "ws", 4);
	enter(runtime, "ws", 7);
	enter(runtime, "", 1);
	enter(runtime, "\xe4\xbd\xa0 with space", INT64_MAX);
	return runtime;
}

TEST(dump_and_replay)
{
	struct box_runtime *old = lived();
	struct box_runtime *fresh = start();
	configure(fresh, BOX_RUNTIME_LAYER_FILE, OPERATORS);
	struct box_value changes = dump(old);
	ASSERT_INT(changes.count, 5); /* pin, init, three workspaces */
	int records = asked.records;
	for (uint32_t i = 0; i < changes.count; i++) {
		box_runtime_replay(fresh, &changes.items[i]);
	}
	ASSERT_INT(asked.records, records); /* a replay records nothing */
	ASSERT_INT(asked.folders, 1);       /* nor does it create folders again */
	expect_same(old, fresh);
	box_runtime_free(fresh);
	finish(old);
}

TEST(records_and_replay)
{
	struct box_runtime *old = lived();
	struct box_runtime *fresh = start();
	configure(fresh, BOX_RUNTIME_LAYER_FILE, OPERATORS);
	ASSERT_STR(asked.recorded[0], "{\"pin\":\"inst\"}");
	ASSERT_STR(asked.recorded[3], "{\"fence\":[\"inst\",\"ws\",4]}");
	ASSERT_STR(asked.recorded[4], "{\"fence\":[\"inst\",\"ws\",7]}");
	ASSERT_INT(asked.records, 7);
	for (int i = 0; i < asked.records; i++) {
		struct box_value change = tree(arena, asked.recorded[i]);
		box_runtime_replay(fresh, &change);
	}
	expect_same(old, fresh);
	box_runtime_free(fresh);
	finish(old);
}

/* A box_init that tried to turn admission off has the same effect after a reload and in a
 * successor. */
TEST(refused_admission_and_replay)
{
	struct box_runtime *old = start();
	struct box_runtime *fresh = start();
	configure(old, BOX_RUNTIME_LAYER_FILE, REQUIRED);
	configure(fresh, BOX_RUNTIME_LAYER_FILE, REQUIRED);
	init_now(old, "{\"admission\":{\"required\":false},\"session_ttl_sec\":5}");
	const char *before = status(old);
	struct box_value changes = dump(old);
	for (uint32_t i = 0; i < changes.count; i++) {
		box_runtime_replay(fresh, &changes.items[i]);
	}
	expect_required(fresh);
	ASSERT_STR(status(fresh), before);
	configure(old, BOX_RUNTIME_LAYER_FILE, REQUIRED);
	ASSERT_STR(status(old), before);
	box_runtime_free(fresh);
	finish(old);
}

/* A limit that was lowered later drops no generation: they only grow. */
TEST(replay_keeps_all_generations)
{
	struct box_runtime *old = start();
	struct box_runtime *fresh = start();
	box_runtime_pin_instance(old, box_str("inst"));
	enter(old, "a", 5);
	enter(old, "b", 6);
	enter(old, "c", 7);
	init_now(old, "{\"limits\":{\"max_admission_records\":1}}");
	struct box_value changes = dump(old);
	for (uint32_t i = 0; i < changes.count; i++) {
		box_runtime_replay(fresh, &changes.items[i]);
	}
	expect_same(old, fresh);
	box_runtime_free(fresh);
	finish(old);
}

TEST(replay_of_garbage)
{
	static const char *const rows[] = {"null", "7", "\"pin\"", "[]", "{}", "[{\"pin\":\"x\"}]",
		"{\"pin\":7}", "{\"pin\":null}", "{\"pin\":[\"x\"]}", "{\"pin\":\"a\\u0000b\"}",
		"{\"init\":7}", "{\"init\":[]}", "{\"init\":{\"limits\":7}}",
		"{\"init\":{\"limits\":{\"max_sessions\":-1}}}",
		"{\"init\":{\"backend\":\"host\"}}", "{\"init\":{\"local\":\"x\"}}",
		"{\"fence\":7}", "{\"fence\":[]}", "{\"fence\":[\"a\",\"b\"]}",
		"{\"fence\":[\"a\",\"b\",\"1\"]}", "{\"fence\":[\"a\",\"b\",1.5]}",
		"{\"fence\":[1,2,3]}", "{\"fence\":[\"a\",\"b\",1,2]}",
		"{\"fence\":[\"a\\u0000\",\"b\",1]}", "{\"fence\":{\"a\":1,\"b\":2,\"c\":3}}",
		"{\"sessions\":[1]}"};
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, OPERATORS);
	const char *before = status(runtime);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_value change = tree(arena, rows[i]);
		box_runtime_replay(runtime, &change);
		if (runtime->instance || dump(runtime).count > 0) {
			TEST_FAIL("not ignored: %s", rows[i]);
		}
		ASSERT_STR(status(runtime), before);
	}
	/* All in one change; an existing claim stays. */
	struct box_value change = tree(arena,
		"{\"pin\":\"inst\",\"init\":{\"session_ttl_sec\":1},\"fence\":[\"i\",\"w\",3]}");
	box_runtime_replay(runtime, &change);
	change = tree(arena, "{\"pin\":\"other\",\"fence\":[\"i\",\"w\",2]}");
	box_runtime_replay(runtime, &change);
	ASSERT_STR(runtime->instance, "inst");
	ASSERT_INT(runtime->config->session_ttl_sec, 1);
	struct box_context context = {box_str("i"), box_str("w"), 0};
	ASSERT_INT(box_generations_current(runtime->generations, &context), 3);
	finish(runtime);
}

TEST(replay_turns_no_admission_off)
{
	struct box_runtime *runtime = start();
	configure(runtime, BOX_RUNTIME_LAYER_FILE, REQUIRED);
	struct box_value change = tree(arena, "{\"init\":{\"admission\":{\"required\":false}}}");
	box_runtime_replay(runtime, &change);
	expect_required(runtime);
	finish(runtime);
}
