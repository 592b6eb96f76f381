/* Specs of managed processes. */
#include "base/arena.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/spec_parse.h"

TEST(process_spec)
{
	struct box_arena *arena = box_arena_new();
	struct box_process_spec spec;
	struct box_err err = {0};
	struct box_value value = tree(arena,
		"{\"process_id\": \"default\", \"command\": \"cat\", \"args\": [], "
		"\"env\": {\"K\": "
		"\"v\"}, \"cwd\": \"/workspace\", \"memory_mb\": 0}");
	ASSERT_INT(box_spec_parse_process(arena, &value, &spec, &err), 0);
	ASSERT_STR(spec.process_id, "default");
	ASSERT_STR(spec.command, "cat");
	ASSERT_INT(spec.arg_count, 0);
	ASSERT(spec.args[0] == NULL);
	ASSERT_INT(spec.env_count, 1);
	ASSERT_STR(spec.env[0].name, "K");
	ASSERT_STR(spec.env[0].value, "v");
	ASSERT_STR(spec.cwd, "/workspace");
	ASSERT_INT(spec.memory_mb, 0);

	value = tree(arena,
		"{\"process_id\":\" a \",\"command\":\" x \",\"args\":[\"-c\",\"\"],\"cwd\":\" /a "
		"\",\"memory_mb\":\"64\",\"foo\":1}");
	ASSERT_INT(box_spec_parse_process(arena, &value, &spec, &err), 0);
	ASSERT_STR(spec.process_id, " a ");
	ASSERT_STR(spec.command, "x");
	ASSERT_INT(spec.arg_count, 2);
	ASSERT_STR(spec.args[0], "-c");
	ASSERT_STR(spec.args[1], "");
	ASSERT(spec.args[2] == NULL);
	ASSERT_STR(spec.cwd, "/a");
	ASSERT_INT(spec.memory_mb, 64);

	value = tree(arena, "{\"command\":\"x\",\"memory_mb\":-5}");
	ASSERT_INT(box_spec_parse_process(arena, &value, &spec, &err), 0);
	ASSERT_STR(spec.process_id, "default");
	ASSERT_STR(spec.cwd, "/workspace");
	ASSERT(spec.args && spec.args[0] == NULL);
	ASSERT_INT(spec.memory_mb, 0);
	box_arena_free(arena);
}

TEST(process_refusals)
{
	static const struct {
		const char *text;
		const char *refusal;
	} rows[] = {
		{"[]", "  Input should be a valid dictionary or instance of BoxManagedProcessSpec"},
		{"{}", "command\n  Field required"},
		{"{\"command\":1}", "command" NOT_STR},
		{"{\"command\":\" \"}", "command\n  Value error, command must not be empty"},
		{"{\"command\":\"a\\u0000\"}",
			"command\n  Value error, command must not contain NUL"},
		{"{\"command\":\"x\",\"args\":null}", "args\n  Input should be a valid list"},
		{"{\"command\":\"x\",\"args\":\"a\"}", "args\n  Input should be a valid list"},
		{"{\"command\":\"x\",\"args\":[\"a\",1]}", "args.1" NOT_STR},
		{"{\"command\":\"x\",\"args\":[\"\\u0000\"]}",
			"args.0\n  Value error, args must not contain NUL"},
		{"{\"command\":\"x\",\"env\":{\"A\":1}}", "env.A" NOT_STR},
		{"{\"command\":\"x\",\"env\":{\"A=\":\"\"}}", "env.A=.[key]" ENV_NAME},
		{"{\"command\":\"x\",\"cwd\":\"a\"}",
			"cwd\n  Value error, cwd must be an absolute path inside the sandbox"},
		{"{\"command\":\"x\",\"cwd\":null}", "cwd" NOT_STR},
		{"{\"command\":\"x\",\"memory_mb\":null}", "memory_mb" NOT_INT},
		{"{\"command\":\"x\",\"memory_mb\":1}",
			"memory_mb\n  Value error, memory_mb must be 0 or at least 4"},
		{"{\"command\":\"x\",\"memory_mb\":3}",
			"memory_mb\n  Value error, memory_mb must be 0 or at least 4"},
		{"{\"command\":\"x\",\"process_id\":1}", "process_id" NOT_STR},
		{"{\"command\":\"x\",\"process_id\":\"\\u0000\"}",
			"process_id\n  Value error, process_id must not contain NUL"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_process_spec spec;
		struct box_err err = {0};
		struct box_value value = tree(arena, rows[i].text);
		int result = box_spec_parse_process(arena, &value, &spec, &err);
		expect_refusal(
			rows[i].text, result, &err, "BoxManagedProcessSpec", rows[i].refusal);
		box_arena_free(arena);
	}
}
