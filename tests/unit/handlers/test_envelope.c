/* The envelope: what counts as a request, which seq_id is answered, and what is refused with which
 * error. */
#include <errno.h>

#include "base/arena.h"
#include "handlers/envelope.h"
#include "tests/unit/lib/json_tree.h"

#define X64 "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"

TEST(classify)
{
	static const struct {
		const char *message;
		const char *ignored; /* NULL: a request */
	} rows[] = {
		{"{\"action\":\"x\"}", NULL},
		{"{\"action\":null}", NULL},
		{"{\"seq_id\":1,\"action\":\"x\",\"data\":{}}", NULL},
		{"[]", "the message is not a map"},
		{"null", "the message is not a map"},
		{"\"action\"", "the message is not a map"},
		{"7", "the message is not a map"},
		{"{\"code\":0}", "the message is an answer without a request"},
		{"{\"action\":\"x\",\"code\":0}", "the message is an answer without a request"},
		{"{\"code\":null}", "the message is an answer without a request"},
		{"{}", "the message has neither action nor code"},
		{"{\"seq_id\":1,\"data\":{}}", "the message has neither action nor code"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value message = tree(arena, rows[i].message);
		const char *why = NULL;
		enum box_envelope_kind kind = box_envelope_classify(&message, &why);
		ASSERT_INT(kind, rows[i].ignored ? BOX_ENVELOPE_IGNORED : BOX_ENVELOPE_REQUEST);
		if (rows[i].ignored) {
			ASSERT_STR(why, rows[i].ignored);
		}
		box_arena_free(arena);
	}
}

TEST(seq)
{
	static const struct {
		const char *sent;
		const char *answered;
	} rows[] = {
		{"0", "0"},
		{"1", "1"},
		{"-5", "-5"},
		{"9223372036854775807", "9223372036854775807"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"1.5", "1.5"},
		{"\"7\"", "\"7\""},
		{"\"\"", "\"\""},
		{"\"" X64 "\"", "\"" X64 "\""},
		{"\"" X64 "x\"", "-1"},
		{"null", "-1"},
		{"true", "-1"},
		{"[1]", "-1"},
		{"{}", "-1"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value message = tree(
			arena, box_arena_printf(arena, "{\"seq_id\":%s}", rows[i].sent));
		struct box_value seq = box_envelope_seq(&message);
		ASSERT_STR(json(arena, &seq), rows[i].answered);
		box_arena_free(arena);
	}
	struct box_value empty = box_map_value();
	ASSERT_INT(box_envelope_seq(&empty).integer, -1);
}

#define HEAD "\"seq_id\":1,\"action\":\"a\",\"data\":{}"
#define CONTEXT(members) "{" HEAD ",\"context\":{" members "}}"
#define PLACE "\"instance_uuid\":\"i\",\"workspace_uuid\":\"w\""

static const struct {
	const char *message;
	const char *text; /* behind "1 validation error for ActionRequest\n" */
} refusals[] = {
	{"{\"action\":\"a\",\"data\":{}}", "seq_id\n  Field required"},
	{"{\"seq_id\":null,\"action\":\"a\",\"data\":{}}",
		"seq_id\n  Input should be a valid integer"},
	{"{\"seq_id\":\"x\",\"action\":\"a\",\"data\":{}}",
		"seq_id\n  Input should be a valid integer, unable to parse string as an "
		"integer"},
	{"{\"seq_id\":1.5,\"action\":\"a\",\"data\":{}}",
		"seq_id\n  Input should be a valid integer, got a number with a fractional "
		"part"},
	{"{\"seq_id\":[],\"action\":\"a\",\"data\":{}}",
		"seq_id\n  Input should be a valid integer"},
	{"{\"seq_id\":1,\"action\":7,\"data\":{}}", "action\n  Input should be a valid string"},
	{"{\"seq_id\":1,\"action\":null,\"data\":{}}", "action\n  Input should be a valid string"},
	{"{\"seq_id\":1,\"action\":\"a\"}", "data\n  Field required"},
	{"{\"seq_id\":1,\"action\":\"a\",\"data\":null}",
		"data\n  Input should be a valid dictionary"},
	{"{\"seq_id\":1,\"action\":\"a\",\"data\":[]}",
		"data\n  Input should be a valid dictionary"},
	{"{" HEAD ",\"stream_flow_control\":0}", "stream_flow_control\n  Input should be 1"},
	{"{" HEAD ",\"stream_flow_control\":2}", "stream_flow_control\n  Input should be 1"},
	{"{" HEAD ",\"stream_flow_control\":true}", "stream_flow_control\n  Input should be 1"},
	{"{" HEAD ",\"stream_flow_control\":\"1\"}", "stream_flow_control\n  Input should be 1"},
	{CONTEXT(""), "context.instance_uuid\n  Field required"},
	{CONTEXT("\"instance_uuid\":\"i\""), "context.workspace_uuid\n  Field required"},
	{CONTEXT("\"instance_uuid\":\" \",\"workspace_uuid\":\"w\""),
		"context.instance_uuid\n  Value error, must not be empty"},
	{CONTEXT("\"instance_uuid\":\"i\",\"workspace_uuid\":\"\\n\""),
		"context.workspace_uuid\n  Value error, must not be empty"},
	{CONTEXT("\"instance_uuid\":7,\"workspace_uuid\":\"w\""),
		"context.instance_uuid\n  Input should be a valid string"},
	{CONTEXT("\"instance_uuid\":\"i\",\"workspace_uuid\":\"a\\u0000b\""),
		"context.workspace_uuid\n  Value error, workspace_uuid must not "
		"contain NUL"},
	{CONTEXT("\"instance_uuid\":\"" X64 X64 "x\",\"workspace_uuid\":\"w\""),
		"context.instance_uuid\n  Value error, instance_uuid must be at most 128 "
		"bytes long"},
	{CONTEXT("\"instance_uuid\":\"i\",\"workspace_uuid\":\"" X64 X64 X64 X64 "x\""),
		"context.workspace_uuid\n  Value error, workspace_uuid must be at most 256 "
		"bytes long"},
	{CONTEXT(PLACE ",\"placement_generation\":0"),
		"context.placement_generation\n  Value error, placement_generation must be "
		"greater than or equal to 1"},
	{CONTEXT(PLACE ",\"placement_generation\":\"-1\""),
		"context.placement_generation\n  Value error, placement_generation must be "
		"greater than or equal to 1"},
	{CONTEXT(PLACE ",\"placement_generation\":null"),
		"context.placement_generation\n  Input should be a valid integer"},
	{CONTEXT(PLACE ",\"extra\":1"), "context.extra\n  Extra inputs are not permitted"},
	{CONTEXT(PLACE ",\"BoxAdmissionError: x\":1"),
		"context.BoxAdmissionError? x\n  Extra inputs are not permitted"},
	{CONTEXT(PLACE ",\"installation_uuid\":\" \""),
		"context.installation_uuid\n  Value error, must not be empty"},
	{CONTEXT(PLACE ",\"installation_uuid\":\"n\",\"runtime_revision\":0,"
		       "\"artifact_digest\":\"" HEX64 "\""),
		"context.runtime_revision\n  Value error, runtime_revision must be greater "
		"than or equal to 1"},
	{CONTEXT(PLACE ",\"installation_uuid\":\"n\",\"runtime_revision\":\"1\","
		       "\"artifact_digest\":\"" HEX64 "\""),
		"context.runtime_revision\n  Value error, must be an integer"},
	{CONTEXT(PLACE ",\"installation_uuid\":\"n\",\"runtime_revision\":1,"
		       "\"artifact_digest\":\"abc\""),
		"context.artifact_digest\n  Value error, artifact_digest must be a "
		"lowercase SHA-256 hex digest"},
};

TEST(refused)
{
	for (size_t i = 0; i < COUNT(refusals); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value message = tree(arena, refusals[i].message);
		struct box_envelope envelope;
		struct box_err err = {0};
		if (box_envelope_parse(arena, &message, &envelope, &err) != -EINVAL) {
			TEST_FAIL("taken: %s", refusals[i].message);
		}
		ASSERT_INT(err.code, BOX_ERR_ENVELOPE);
		ASSERT_STR(err.text,
			box_arena_printf(arena, "1 validation error for ActionRequest\n%s",
				refusals[i].text));
		box_arena_free(arena);
	}
}

/* An installation binding has all three members, or only the first. */
TEST(half_bindings)
{
	static const char *const halves[] = {
		CONTEXT(PLACE ",\"runtime_revision\":1"),
		CONTEXT(PLACE ",\"artifact_digest\":\"" HEX64 "\""),
		CONTEXT(PLACE ",\"runtime_revision\":1,\"artifact_digest\":\"" HEX64 "\""),
		CONTEXT(PLACE ",\"installation_uuid\":\"n\",\"runtime_revision\":1"),
		CONTEXT(PLACE ",\"installation_uuid\":\"n\",\"artifact_digest\":\"" HEX64 "\""),
		CONTEXT(PLACE ",\"installation_uuid\":null,\"runtime_revision\":1,"
			      "\"artifact_digest\":\"" HEX64 "\""),
		"{" HEAD ",\"context\":[]}",
		"{" HEAD ",\"context\":\"x\"}",
		"{" HEAD ",\"context\":false}",
	};
	for (size_t i = 0; i < COUNT(halves); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value message = tree(arena, halves[i]);
		struct box_envelope envelope;
		struct box_err err = {0};
		ASSERT_INT(box_envelope_parse(arena, &message, &envelope, &err), -EINVAL);
		ASSERT_INT(err.code, BOX_ERR_ENVELOPE);
		box_arena_free(arena);
	}
}

TEST(taken)
{
	static const struct {
		const char *message;
		int64_t generation;
		bool has_context;
		bool flow_control;
	} rows[] = {
		{"{" HEAD "}", 0, false, false},
		{"{" HEAD ",\"unknown\":{},\"more\":1}", 0, false, false},
		{"{" HEAD ",\"context\":null}", 0, false, false},
		{"{" HEAD ",\"stream_flow_control\":null}", 0, false, false},
		{"{" HEAD ",\"stream_flow_control\":1}", 0, false, true},
		{"{\"seq_id\":\"7\",\"action\":\"a\",\"data\":{}}", 0, false, false},
		{"{\"seq_id\":7.0,\"action\":\"a\",\"data\":{}}", 0, false, false},
		{"{\"seq_id\":true,\"action\":\"a\",\"data\":{}}", 0, false, false},
		{CONTEXT(PLACE), 1, true, false},
		{CONTEXT("\"instance_uuid\":\" i\\n\",\"workspace_uuid\":\"\\tw \""), 1, true,
			false},
		{CONTEXT(PLACE ",\"placement_generation\":7"), 7, true, false},
		{CONTEXT(PLACE ",\"placement_generation\":\"42\""), 42, true, false},
		{CONTEXT(PLACE ",\"placement_generation\":9223372036854775807"), INT64_MAX, true,
			false},
		{CONTEXT(PLACE ",\"installation_uuid\":null"), 1, true, false},
		{CONTEXT(PLACE ",\"installation_uuid\":\"n\""), 1, true, false},
		{CONTEXT(PLACE ",\"installation_uuid\":\"n\",\"runtime_revision\":3,"
			       "\"artifact_digest\":\"" HEX64 "\""),
			1, true, false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_arena *arena = box_arena_new();
		struct box_value message = tree(arena, rows[i].message);
		struct box_envelope envelope;
		struct box_err err = {0};
		if (box_envelope_parse(arena, &message, &envelope, &err) < 0) {
			TEST_FAIL("%s: %s", rows[i].message, err.text);
		}
		ASSERT(box_str_eq(envelope.action, "a"));
		ASSERT_INT(envelope.data->type, BOX_MAP);
		ASSERT_INT(envelope.has_context, rows[i].has_context);
		ASSERT_INT(envelope.flow_control, rows[i].flow_control);
		if (rows[i].has_context) {
			ASSERT(box_str_eq(envelope.context.instance, "i"));
			ASSERT(box_str_eq(envelope.context.workspace, "w"));
			ASSERT_INT(envelope.context.generation, rows[i].generation);
		}
		box_arena_free(arena);
	}
}
