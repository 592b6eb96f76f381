/* Reads the admission section so that no mistake in it can turn enforcement off.
 *
 * The rules and texts are those of the reference's policy model; its numbers must be real numbers,
 * never strings, whatever the rest of the configuration allows.
 */
#include "runtime/config/admission_policy.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/macros.h"
#include "runtime/spec/fields.h"

#define POSITIVE "must be greater than 0"
#define NOT_NEGATIVE "must be greater than or equal to 0"

/* Members with only one valid value are checked and not stored. */
struct parsed_policy {
	struct box_admission_policy policy;
	int logical_session_id;
	int required_backend;
};

static const char *const session_words[] = {"global", NULL};
static const char *const backend_words[] = {"nsjail", NULL};

static int read_no_processes(
	const struct box_fields *fields, const struct box_value *value, void *member)
{
	if (value->type != BOX_INT) {
		return box_fields_refuse(
			fields, "max_managed_processes", "Value error, must be an integer");
	}
	if (value->integer != 0) {
		return box_fields_refuse(fields, "max_managed_processes",
			"Value error, max_managed_processes must be 0");
	}
	*(int64_t *)member = 0;
	return 0;
}

#define POLICY(member) offsetof(struct parsed_policy, policy.member)
#define NUMBER(member_, least_, broken_)                                            \
	{                                                                           \
		.name = #member_, .kind = BOX_FIELD_INT, .flags = BOX_FIELD_STRICT, \
		.offset = POLICY(member_), .min = (least_), .broken = (broken_)     \
	}

static const struct box_field policy_rows[] = {
	{.name = "required", .kind = BOX_FIELD_BOOL, .offset = POLICY(required)},
	{.name = "logical_session_id",
		.kind = BOX_FIELD_WORD,
		.offset = offsetof(struct parsed_policy, logical_session_id),
		.words = session_words,
		.expected = "'global'"},
	{.name = "required_backend",
		.kind = BOX_FIELD_WORD,
		.offset = offsetof(struct parsed_policy, required_backend),
		.words = backend_words,
		.expected = "'nsjail'"},
	{.name = "max_sessions",
		.kind = BOX_FIELD_INT,
		.flags = BOX_FIELD_STRICT,
		.offset = POLICY(max_sessions),
		.max = 1,
		.broken = "max_sessions must be between 0 and 1"},
	{.name = "max_managed_processes",
		.kind = BOX_FIELD_OTHER,
		.offset = POLICY(max_managed_processes),
		.other = read_no_processes},
	NUMBER(max_grant_ttl_sec, 1, POSITIVE),
	NUMBER(max_timeout_sec, 1, POSITIVE),
	{.name = "cpus",
		.kind = BOX_FIELD_REAL,
		.flags = BOX_FIELD_STRICT,
		.offset = POLICY(cpus),
		.broken = "cpus must be greater than 0"},
	NUMBER(memory_mb, 32, "memory_mb must be at least 32"),
	NUMBER(pids_limit, 1, POSITIVE),
	{.name = "read_only_rootfs", .kind = BOX_FIELD_BOOL, .offset = POLICY(read_only_rootfs)},
	NUMBER(workspace_quota_mb, 0, NOT_NEGATIVE),
	NUMBER(readiness_cache_sec, 0, NOT_NEGATIVE),
};

struct box_admission_policy box_admission_policy_default(void)
{
	return (struct box_admission_policy){
		.max_sessions = 1,
		.max_grant_ttl_sec = 300,
		.max_timeout_sec = 120,
		.cpus = 1.0,
		.memory_mb = 512,
		.pids_limit = 128,
		.read_only_rootfs = true,
		.readiness_cache_sec = 15,
	};
}

static struct box_admission_policy read_section(
	struct box_arena *arena, const struct box_value *section)
{
	struct box_err err = {0};
	const struct box_fields fields = {arena, "SandboxAdmissionPolicy", "", &err};
	struct parsed_policy parsed = {.policy = box_admission_policy_default()};
	if (!section || section->type == BOX_NULL) {
		return parsed.policy;
	}
	int result = box_fields_read(
		&fields, policy_rows, BOX_COUNT_OF(policy_rows), section, &parsed);
	if (result == 0) {
		result = box_fields_refuse_unknown(
			&fields, policy_rows, BOX_COUNT_OF(policy_rows), section);
	}
	if (result < 0) {
		parsed.policy = box_admission_policy_default();
		parsed.policy.required = true;
		parsed.policy.error = box_arena_strndup(arena, err.text, strlen(err.text));
	}
	return parsed.policy;
}

struct box_admission_policy box_admission_policy_read(struct box_arena *arena,
	const struct box_value *section, const struct box_admission_policy *present)
{
	struct box_admission_policy policy = read_section(arena, section);
	if (present->required && !policy.required) {
		policy = *present;
		policy.error = "Sandbox admission enforcement cannot be disabled without "
			       "restarting the Box Runtime";
	}
	return policy;
}

/* The reference's text has the member on its second line and what is wrong with it on the third. */
int box_admission_policy_check(const struct box_value *section, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_admission_policy policy = read_section(arena, section);
	if (!policy.error) {
		return 0;
	}
	const char *member = strchr(policy.error, '\n');
	member = member ? member + 1 : policy.error;
	const char *end = strchr(member, '\n');
	const char *why = end ? end + 1 : member;
	why += strspn(why, " ");
	static const char prefix[] = "Value error, ";
	why += strncmp(why, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
	return end ? box_err_set(err, BOX_ERR_VALUE, EINVAL, "box.admission.%.*s: %s",
			     (int)(end - member), member, why)
		   : box_err_set(err, BOX_ERR_VALUE, EINVAL, "box.admission: %s", why);
}
