/* The request envelope, with the context forms of both client generations. */
#include "handlers/envelope.h"

#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"
#include "runtime/spec/fields.h"

#define SEQ_TEXT_MAX 64

/* What a context may hold. The installation part is checked and dropped: a box belongs to a
 * workspace, not to a plugin. */
struct context_members {
	struct box_str instance;
	struct box_str workspace;
	int64_t generation;
	const char *installation;
	int64_t revision;
	const char *digest;
};

static const char *check_digest(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64
		? NULL
		: "artifact_digest must be a lowercase SHA-256 hex digest";
}

static const struct box_field context_rows[] = {
	{.name = "instance_uuid",
		.kind = BOX_FIELD_BYTES,
		.flags = BOX_FIELD_REQUIRED | BOX_FIELD_STRIP | BOX_FIELD_FILLED,
		.offset = offsetof(struct context_members, instance),
		.max = BOX_INSTANCE_ID_MAX,
		.broken = "must not be empty"},
	{.name = "workspace_uuid",
		.kind = BOX_FIELD_BYTES,
		.flags = BOX_FIELD_REQUIRED | BOX_FIELD_STRIP | BOX_FIELD_FILLED,
		.offset = offsetof(struct context_members, workspace),
		.max = BOX_WORKSPACE_ID_MAX,
		.broken = "must not be empty"},
	{.name = "placement_generation",
		.kind = BOX_FIELD_INT,
		.offset = offsetof(struct context_members, generation),
		.min = 1,
		.broken = "placement_generation must be greater than or equal to 1"},
	{.name = "installation_uuid",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_NULLABLE | BOX_FIELD_STRIP | BOX_FIELD_FILLED,
		.offset = offsetof(struct context_members, installation),
		.broken = "must not be empty"},
	{.name = "runtime_revision",
		.kind = BOX_FIELD_INT,
		.flags = BOX_FIELD_STRICT,
		.offset = offsetof(struct context_members, revision),
		.min = 1,
		.broken = "runtime_revision must be greater than or equal to 1"},
	{.name = "artifact_digest",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_STRIP,
		.offset = offsetof(struct context_members, digest),
		.check = check_digest},
};

#define CONTEXT_ROWS (BOX_COUNT_OF(context_rows))

enum box_envelope_kind box_envelope_classify(const struct box_value *message, const char **ret_why)
{
	if (message->type != BOX_MAP) {
		*ret_why = "the message is not a map";
		return BOX_ENVELOPE_IGNORED;
	}
	if (box_map_get(message, "code")) {
		*ret_why = "the message is an answer without a request";
		return BOX_ENVELOPE_IGNORED;
	}
	if (!box_map_get(message, "action")) {
		*ret_why = "the message has neither action nor code";
		return BOX_ENVELOPE_IGNORED;
	}
	return BOX_ENVELOPE_REQUEST;
}

struct box_value box_envelope_seq(const struct box_value *message)
{
	const struct box_value *seq = box_map_get(message, "seq_id");
	if (seq && (seq->type == BOX_INT || seq->type == BOX_REAL)) {
		return *seq;
	}
	if (seq && seq->type == BOX_STR && seq->str.len <= SEQ_TEXT_MAX) {
		return *seq;
	}
	return box_int(-1);
}

static int parse_context(const struct box_fields *fields, const struct box_value *value,
	struct box_context *ret_context)
{
	struct context_members members = {.generation = 1};
	if (value->type != BOX_MAP) {
		return box_fields_refuse(fields, "", "Input should be a valid dictionary");
	}
	int r = box_fields_read(fields, context_rows, CONTEXT_ROWS, value, &members);
	if (r == 0) {
		r = box_fields_refuse_unknown(fields, context_rows, CONTEXT_ROWS, value);
	}
	if (r < 0) {
		return r;
	}
	bool bound = members.revision != 0 || members.digest != NULL;
	if (bound && (!members.installation || members.revision == 0 || !members.digest)) {
		return box_fields_refuse(fields, "",
			"installation_uuid, runtime_revision and artifact_digest go together");
	}
	*ret_context = (struct box_context){
		members.instance, members.workspace, members.generation};
	return 0;
}

static int parse_members(const struct box_fields *fields, const struct box_value *message,
	struct box_envelope *ret_envelope)
{
	const struct box_value *seq = box_map_get(message, "seq_id");
	const struct box_value *action = box_map_get(message, "action");
	const struct box_value *data = box_map_get(message, "data");
	const struct box_value *context = box_map_get(message, "context");
	const struct box_value *flow = box_map_get(message, "stream_flow_control");
	int64_t number;
	if (!seq) {
		return box_fields_refuse(fields, "seq_id", "Field required");
	}
	const char *why = box_fields_to_int(seq, &number);
	if (why) {
		return box_fields_refuse(fields, "seq_id", why);
	}
	if (action->type != BOX_STR) {
		return box_fields_refuse(fields, "action", "Input should be a valid string");
	}
	if (!data) {
		return box_fields_refuse(fields, "data", "Field required");
	}
	if (data->type != BOX_MAP) {
		return box_fields_refuse(fields, "data", "Input should be a valid dictionary");
	}
	if (flow && flow->type != BOX_NULL && !(flow->type == BOX_INT && flow->integer == 1)) {
		return box_fields_refuse(fields, "stream_flow_control", "Input should be 1");
	}
	*ret_envelope = (struct box_envelope){
		.action = action->str, .data = data, .flow_control = flow && flow->type == BOX_INT};
	if (context && context->type != BOX_NULL) {
		struct box_fields inner = *fields;
		inner.within = "context.";
		ret_envelope->has_context = true;
		return parse_context(&inner, context, &ret_envelope->context);
	}
	return 0;
}

int box_envelope_parse(struct box_arena *arena, const struct box_value *message,
	struct box_envelope *ret_envelope, struct box_err *err)
{
	const struct box_fields fields = {
		.arena = arena, .model = "ActionRequest", .within = "", .err = err};
	int r = parse_members(&fields, message, ret_envelope);
	if (r < 0) {
		err->code = BOX_ERR_ENVELOPE;
	}
	return r;
}
