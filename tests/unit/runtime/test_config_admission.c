/* The admission section of a configuration: verdicts, values, and that it cannot be switched off
 * later. */
#include "base/arena.h"
#include "runtime/config/config.h"
#include "tests/unit/lib/config_merge.h"

#define POLICY(field, text) "1 validation error for SandboxAdmissionPolicy\n" field "\n  " text
#define INTEGER(field) POLICY(field, "Value error, must be an integer")

/* Verdicts and texts of the reference's policy model. */
static const struct {
	const char *section;
	bool required;
	const char *error;
} policies[] = {
	{"null", false, NULL},
	{"{}", false, NULL},
	{"{\"required\":false}", false, NULL},
	{"{\"required\":true}", true, NULL},
	{"{\"required\":\"yes\"}", true, NULL},
	{"{\"required\":\"off\"}", false, NULL},
	{"{\"required\":1}", true, NULL},
	{"{\"required\":false,\"cpus\":2,\"read_only_rootfs\":\"off\"}", false, NULL},
	{"{\"required\":2}", true,
		POLICY("required", "Input should be a valid boolean, unable to interpret input")},
	{"{\"required\":null}", true, POLICY("required", "Input should be a valid boolean")},
	{"[]", true,
		"1 validation error for SandboxAdmissionPolicy\n  Input should be a valid "
		"dictionary "
		"or instance of SandboxAdmissionPolicy"},
	{"false", true,
		"1 validation error for SandboxAdmissionPolicy\n  Input should be a valid "
		"dictionary "
		"or instance of SandboxAdmissionPolicy"},
	{"{\"logical_session_id\":\"x\"}", true,
		POLICY("logical_session_id", "Input should be 'global'")},
	{"{\"logical_session_id\":null}", true,
		POLICY("logical_session_id", "Input should be 'global'")},
	{"{\"required_backend\":\"docker\"}", true,
		POLICY("required_backend", "Input should be 'nsjail'")},
	{"{\"max_sessions\":0}", false, NULL},
	{"{\"max_sessions\":2}", true,
		POLICY("max_sessions", "Value error, max_sessions must be between 0 and 1")},
	{"{\"max_sessions\":-1}", true,
		POLICY("max_sessions", "Value error, max_sessions must be between 0 and 1")},
	{"{\"max_sessions\":true}", true, INTEGER("max_sessions")},
	{"{\"max_sessions\":\"1\"}", true, INTEGER("max_sessions")},
	{"{\"max_sessions\":1.0}", true, INTEGER("max_sessions")},
	{"{\"max_managed_processes\":1}", true,
		POLICY("max_managed_processes", "Value error, max_managed_processes must be 0")},
	{"{\"max_managed_processes\":false}", true, INTEGER("max_managed_processes")},
	{"{\"max_grant_ttl_sec\":0}", true,
		POLICY("max_grant_ttl_sec", "Value error, must be greater than 0")},
	{"{\"max_timeout_sec\":0}", true,
		POLICY("max_timeout_sec", "Value error, must be greater than 0")},
	{"{\"cpus\":\"1\"}", true, POLICY("cpus", "Value error, cpus must be a number")},
	{"{\"cpus\":true}", true, POLICY("cpus", "Value error, cpus must be a number")},
	{"{\"cpus\":0}", true, POLICY("cpus", "Value error, cpus must be greater than 0")},
	{"{\"memory_mb\":31}", true,
		POLICY("memory_mb", "Value error, memory_mb must be at least 32")},
	{"{\"memory_mb\":null}", true, INTEGER("memory_mb")},
	{"{\"pids_limit\":0}", true, POLICY("pids_limit", "Value error, must be greater than 0")},
	{"{\"read_only_rootfs\":3}", true,
		POLICY("read_only_rootfs",
			"Input should be a valid boolean, unable to interpret input")},
	{"{\"workspace_quota_mb\":-1}", true,
		POLICY("workspace_quota_mb", "Value error, must be greater than or equal to 0")},
	{"{\"readiness_cache_sec\":-1}", true,
		POLICY("readiness_cache_sec", "Value error, must be greater than or equal to 0")},
	{"{\"foo\":1}", true, POLICY("foo", "Extra inputs are not permitted")},
	{"{\"required\":false,\"foo\":1}", true, POLICY("foo", "Extra inputs are not permitted")},
};

TEST(admission_table)
{
	for (size_t i = 0; i < COUNT(policies); i++) {
		struct box_config *config = box_config_default();
		arena = box_arena_new();
		ASSERT_INT(
			merge(&config,
				box_arena_printf(arena, "{\"admission\":%s}", policies[i].section)),
			0);
		if (config->admission.required != policies[i].required) {
			TEST_FAIL("%s: required is %d", policies[i].section,
				config->admission.required);
		}
		if (policies[i].error) {
			ASSERT_STR(config->admission.error, policies[i].error);
			ASSERT_INT(config->admission.memory_mb, 512);
		} else {
			ASSERT(config->admission.error == NULL);
		}
		finish(config);
	}
}

TEST(admission_values)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(
		merge(&config,
			"{\"admission\":{\"required\":true,\"max_sessions\":0,"
			"\"max_grant_ttl_sec\":60,\"max_timeout_sec\":30,\"cpus\":2,\"memory_mb\":"
			"64,\"pids_limit\":9,\"read_only_rootfs\":false,\"workspace_quota_mb\":5,"
			"\"readiness_cache_sec\":0}}"),
		0);
	const struct box_admission_policy *policy = &config->admission;
	ASSERT(policy->required && policy->error == NULL);
	ASSERT_INT(policy->max_sessions, 0);
	ASSERT_INT(policy->max_managed_processes, 0);
	ASSERT_INT(policy->max_grant_ttl_sec, 60);
	ASSERT_INT(policy->max_timeout_sec, 30);
	ASSERT(policy->cpus == 2.0);
	ASSERT_INT(policy->memory_mb, 64);
	ASSERT_INT(policy->pids_limit, 9);
	ASSERT(!policy->read_only_rootfs);
	ASSERT_INT(policy->workspace_quota_mb, 5);
	ASSERT_INT(policy->readiness_cache_sec, 0);
	finish(config);
}

TEST(admission_stays_on)
{
	static const char locked[] = "Sandbox admission enforcement cannot be disabled without "
				     "restarting the Box Runtime";
	static const char *const tries[] = {"{\"admission\":null}", "{\"admission\":{}}",
		"{\"admission\":{\"required\":false,\"memory_mb\":99}}", "{\"backend\":\"x\"}"};
	struct box_config *config = box_config_default();
	ASSERT_INT(merge(&config, "{\"admission\":{\"required\":true,\"memory_mb\":64}}"), 0);
	for (size_t i = 0; i < COUNT(tries); i++) {
		ASSERT_INT(merge(&config, tries[i]), 0);
		ASSERT(config->admission.required);
		ASSERT_STR(config->admission.error, locked);
		ASSERT_INT(config->admission.memory_mb, 64);
	}
	/* A valid section that keeps it on is accepted and clears the error. */
	ASSERT_INT(merge(&config, "{\"admission\":{\"required\":true,\"memory_mb\":128}}"), 0);
	ASSERT(config->admission.error == NULL);
	ASSERT_INT(config->admission.memory_mb, 128);
	/* A malformed section turns it on, and it stays on. */
	finish(config);
	config = box_config_default();
	arena = box_arena_new();
	ASSERT_INT(merge(&config, "{\"admission\":5}"), 0);
	ASSERT(config->admission.required);
	ASSERT_INT(merge(&config, "{\"admission\":{\"required\":false}}"), 0);
	ASSERT(config->admission.required);
	ASSERT_STR(config->admission.error, locked);
	finish(config);
}
