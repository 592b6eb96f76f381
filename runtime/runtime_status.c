/* What the runtime reports about itself: its backend, readiness, status, resources. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/macros.h"
#include "base/operator.h"
#include "runtime/backend/local.h"
#include "runtime/runtime.h"
#include "runtime/session/process.h"
#include "runtime/spec/fields.h"

static bool backend_available(const struct box_runtime *runtime)
{
	return runtime->backend && runtime->backend->ops->available(runtime->backend);
}

/* Why no box can be made now; NULL: boxes can be made. */
static const char *backend_missing(const struct box_runtime *runtime)
{
	struct box_backend *backend = runtime->backend;
	if (!backend) {
		return runtime->session_rules.backend_missing;
	}
	return backend->ops->missing ? backend->ops->missing(backend) : NULL;
}

static bool uses(const struct box_runtime *runtime, struct box_local *local)
{
	return local && runtime->backend &&
		(runtime->backend == box_local_native_backend(local) ||
			runtime->backend == box_local_microvm_backend(local));
}

/* Why boxes run without limits, which the operator has allowed; NULL: they have limits. */
static const char *unlimited_reason(const struct box_runtime *runtime)
{
	struct box_local *local = runtime->setup.local;
	return uses(runtime, local) ? box_local_degraded_reason(local) : NULL;
}

static const char *unenforced_quota_reason(const struct box_runtime *runtime)
{
	struct box_local *local = runtime->setup.local;
	return uses(runtime, local) ? box_local_unheld_quota_reason(local) : NULL;
}

static struct box_value backend_value(const struct box_runtime *runtime, struct box_arena *arena)
{
	struct box_value info = box_map_value();
	box_map_add(arena, &info, "name",
		box_cstr(runtime->backend ? runtime->session_rules.backend_name : NULL));
	box_map_add(arena, &info, "available", box_bool(backend_available(runtime)));
	if (unlimited_reason(runtime)) {
		box_map_add(arena, &info, "degraded", box_bool(true));
	}
	if (!backend_available(runtime)) {
		if (runtime->config->backend[0]) {
			box_map_add(arena, &info, "asked",
				box_cstr(
					box_fields_echo(arena, box_str(runtime->config->backend))));
		}
		if (backend_missing(runtime)) {
			box_map_add(arena, &info, "error", box_cstr(backend_missing(runtime)));
		}
	}
	return info;
}

/* Why the quota that the operator's file gives boxes cannot be enforced; NULL: it can, or there is none. */
static const char *quota_missing(const struct box_runtime *runtime)
{
	const struct box_value *section = box_map_get(&runtime->config->map, "local");
	const struct box_value *wanted = section ? box_map_get(section, "workspace_quota_mb")
						 : NULL;
	struct box_local *local = runtime->setup.local;
	return wanted && wanted->type == BOX_INT && wanted->integer > 0 && uses(runtime, local)
		? box_local_quota_missing(local)
		: NULL;
}

static const char *image_missing(const struct box_runtime *runtime)
{
	struct box_local *local = runtime->setup.local;
	return uses(runtime, local) ? box_local_image_missing(local) : NULL;
}

/* Why boxes, or those of some images, would be refused now; NULL: none would. */
static const char *refusal(const struct box_runtime *runtime, struct box_arena *arena)
{
	const char *missing = backend_missing(runtime);
	if (missing) {
		return missing;
	}
	const char *quota = quota_missing(runtime);
	const char *image = image_missing(runtime);
	return quota
		? box_arena_printf(arena, "local.workspace_quota_mb cannot be enforced: %s%s%s",
			  quota, image ? "; " : "", image ? image : "")
		: image;
}

/* The checks of admission. A check is true when it is proved; no backend proves any of the sandbox checks yet, so a
 * runtime under admission is never ready. */
static struct box_value admission_checks(const struct box_runtime *runtime, struct box_arena *arena)
{
	static const char *const sandbox_checks[] = {"workspace_mount", "backend_available",
		"cgroup_v2", "namespace_isolation", "mount_isolation", "network_isolation",
		"hard_workspace_quota", "hard_skill_storage_quota", "hard_read_only_mount_quota",
		"bounded_ephemeral_storage", "inode_quota"};
	const struct box_admission_policy *policy = &runtime->config->admission;
	struct box_value checks = box_map_value();
	const char *name = runtime->backend ? runtime->session_rules.backend_name : "";
	box_map_add(arena, &checks, "configuration", box_bool(policy->error == NULL));
	box_map_add(arena, &checks, "required_backend", box_bool(strcmp(name, "nsjail") == 0));
	for (size_t i = 0; i < BOX_COUNT_OF(sandbox_checks); i++) {
		box_map_add(arena, &checks, sandbox_checks[i], box_bool(false));
	}
	box_map_add(arena, &checks, "session_cap", box_bool(policy->max_sessions <= 1));
	box_map_add(arena, &checks, "managed_process_cap",
		box_bool(policy->max_managed_processes == 0));
	return checks;
}

static bool all_true(const struct box_value *checks)
{
	for (uint32_t i = 0; i < checks->count; i++) {
		if (!checks->pairs[i].value.boolean) {
			return false;
		}
	}
	return true;
}

struct box_value box_runtime_readiness(
	const struct box_runtime *runtime, struct box_arena *arena, bool *ret_ready)
{
	const struct box_admission_policy *policy = &runtime->config->admission;
	struct box_value readiness = box_map_value();
	struct box_value checks;
	if (policy->required) {
		checks = admission_checks(runtime, arena);
	} else {
		checks = box_map_value();
		box_map_add(
			arena, &checks, "backend_available", box_bool(backend_available(runtime)));
		/* What the operator has configured but boxes would not get. */
		if (quota_missing(runtime)) {
			box_map_add(arena, &checks, "workspace_quota", box_bool(false));
		}
		if (image_missing(runtime)) {
			box_map_add(arena, &checks, "images", box_bool(false));
		}
	}
	*ret_ready = all_true(&checks);
	box_map_add(arena, &readiness, "ready", box_bool(*ret_ready));
	box_map_add(arena, &readiness, "mode",
		box_cstr(policy->required ? "grant_enforced" : "standard"));
	box_map_add(arena, &readiness, "backend", backend_value(runtime, arena));
	box_map_add(arena, &readiness, "checks", checks);
	if (policy->required) {
		box_map_add(arena, &readiness, "unsafe_soft_storage_limits",
			box_bool(runtime->setup.soft_storage));
	}
	const char *error = policy->error ? policy->error : refusal(runtime, arena);
	if (error) {
		box_map_add(arena, &readiness, "error", box_cstr(error));
	}
	return readiness;
}

int box_runtime_require_ready(const struct box_runtime *runtime, struct box_err *err)
{
	if (!runtime->config->admission.required) {
		return 0;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value checks = admission_checks(runtime, arena);
	if (all_true(&checks)) {
		return 0;
	}
	char failed[1024] = "";
	size_t len = 0;
	for (uint32_t i = 0; i < checks.count; i++) {
		if (!checks.pairs[i].value.boolean) {
			len += (size_t)snprintf(failed + len, sizeof(failed) - len, "%s%.*s",
				len ? ", " : "", (int)checks.pairs[i].key.len,
				checks.pairs[i].key.bytes);
		}
	}
	const char *error = runtime->config->admission.error;
	const char *cause = error ? error : refusal(runtime, arena);
	return box_err_set(err, BOX_ERR_READINESS, EAGAIN,
		"Managed sandbox isolation is not ready (failed checks: %s)%s%s", failed,
		cause ? ": " : "", cause ? cause : "");
}

struct box_value box_runtime_backend_info(
	const struct box_runtime *runtime, struct box_arena *arena)
{
	struct box_value info = backend_value(runtime, arena);
	if (runtime->config->admission.required) {
		bool ready;
		struct box_value readiness = box_runtime_readiness(runtime, arena, &ready);
		box_map_set(arena, &info, box_str("available"), box_bool(ready));
		box_map_add(arena, &info, "readiness", readiness);
	}
	return info;
}

/* The limits in force, by their names in the configuration; null for no limit. */
static struct box_value limits_value(const struct box_runtime *runtime, struct box_arena *arena)
{
	const struct box_limits limits = box_ceilings_limits_in_force(
		&runtime->session_rules.ceilings, &runtime->config->limits);
	struct box_value value = box_map_value();
#define LIMIT(name, ...) \
	box_map_add(arena, &value, #name, limits.name < 0 ? box_null() : box_int(limits.name));
	BOX_CONFIG_LIMITS(LIMIT)
#undef LIMIT
	return value;
}

/* The memory promised to boxes by their limits, and that of artifacts. */
static struct box_value memory_value(const struct box_runtime *runtime,
	const struct box_context *context, struct box_arena *arena)
{
	char workspace[BOX_NAMESPACE_SIZE];
	box_tenant_namespace(context, workspace);
	struct box_ceilings_usage use = box_sessions_usage(runtime->sessions, workspace, false);
	struct box_value value = box_map_value();
	box_map_add(arena, &value, "promised_mb", box_int(use.memory_mb));
	box_map_add(arena, &value, "workspace_promised_mb", box_int(use.workspace_memory_mb));
	box_map_add(arena, &value, "artifact_bytes", box_int((int64_t)runtime->artifact_bytes));
	return value;
}

/* The operator's own instance is not a tenant: its status is that of the whole runtime. */
static bool is_operators(const struct box_context *context)
{
	return box_str_eq(context->instance, BOX_INSTANCE_OPERATOR);
}

/* Under admission nobody has a grant yet, so the capacity is 0. */
static struct box_value capacity_value(const struct box_runtime *runtime,
	const struct box_context *context, struct box_arena *arena)
{
	int64_t max = runtime->config->limits.max_sessions;
	int64_t share = is_operators(context) ? max
					      : runtime->session_rules.ceilings.workspace_sessions;
	int64_t limit = runtime->config->admission.required ? 0 : BOX_MIN(share, max);
	int64_t all = (int64_t)box_sessions_count_shown(runtime->sessions);
	int64_t used = is_operators(context)
		? all
		: (int64_t)box_sessions_count_workspace(runtime->sessions, context);
	int64_t remaining = limit - used < max - all ? limit - used : max - all;
	struct box_value value = box_map_value();
	box_map_add(arena, &value, "limit", box_int(limit));
	box_map_add(arena, &value, "used", box_int(used));
	box_map_add(arena, &value, "remaining", box_int(remaining > 0 ? remaining : 0));
	return value;
}

/* The names of the resources whose limit is enforced in this way. */
static struct box_value held_value(
	const struct box_runtime *runtime, enum box_bound held, struct box_arena *arena)
{
	struct box_local *local = runtime->setup.local;
	struct box_bounds_row rows[BOX_BOUNDS_ROWS_MAX];
	struct box_value list = box_list_value();
	size_t count = uses(runtime, local) ? box_bounds_list(box_local_held(local), rows) : 0;
	for (size_t i = 0; i < count; i++) {
		if (rows[i].held == held) {
			box_list_add(arena, &list, box_cstr(rows[i].resource));
		}
	}
	return list;
}

static struct box_value features_value(struct box_arena *arena)
{
	struct box_value features = box_list_value();
#define FEATURE(NAME) box_list_add(arena, &features, box_cstr(#NAME));
#include "protocol/actions.def"
	return features;
}

static struct box_value warnings_value(const struct box_runtime *runtime, struct box_arena *arena)
{
	struct box_value warnings = box_list_value();
	if (runtime->setup.wide_open) {
		box_list_add(arena, &warnings,
			box_cstr("the control port is open beyond loopback without a token"));
	}
	if (unlimited_reason(runtime)) {
		box_list_add(arena, &warnings,
			box_cstr(box_arena_printf(
				arena, "boxes run without limits: %s", unlimited_reason(runtime))));
	}
	if (unenforced_quota_reason(runtime)) {
		box_list_add(arena, &warnings,
			box_cstr(box_arena_printf(arena,
				"workspace quotas of host folders are not enforced: %s",
				unenforced_quota_reason(runtime))));
	}
	if (!backend_missing(runtime) && refusal(runtime, arena)) {
		box_list_add(arena, &warnings,
			box_cstr(box_arena_printf(
				arena, "some boxes are refused: %s", refusal(runtime, arena))));
	}
	if (runtime->needs_restart[0]) {
		box_list_add(arena, &warnings,
			box_cstr(box_arena_printf(arena,
				"the file was changed, and boxd needs a restart for: %s",
				runtime->needs_restart)));
	}
	return warnings;
}

struct box_value box_runtime_status(const struct box_runtime *runtime,
	const struct box_context *context, struct box_arena *arena)
{
	struct box_value status = box_map_value();
	box_map_add(arena, &status, "backend", box_runtime_backend_info(runtime, arena));
	box_map_add(arena, &status, "active_sessions",
		box_int((int64_t)box_sessions_count_placed(runtime->sessions, context)));
	box_map_add(arena, &status, "managed_processes",
		box_int((int64_t)box_process_count(
			runtime->sessions, is_operators(context) ? NULL : context)
				.running));
	box_map_add(arena, &status, "session_ttl_sec", box_int(runtime->config->session_ttl_sec));
	box_map_add(arena, &status, "limits", limits_value(runtime, arena));
	box_map_add(arena, &status, "memory", memory_value(runtime, context, arena));
	box_map_add(arena, &status, "capacity", capacity_value(runtime, context, arena));
	box_map_add(arena, &status, "features", features_value(arena));
	box_map_add(arena, &status, "warnings", warnings_value(runtime, arena));
	box_map_add(arena, &status, "not_held", held_value(runtime, BOX_BOUND_NONE, arena));
	box_map_add(arena, &status, "held_together", held_value(runtime, BOX_BOUND_SHARED, arena));
	return status;
}

struct box_value box_runtime_resources(const struct box_runtime *runtime, struct box_arena *arena)
{
	struct box_value resources = box_map_value();
	box_map_add(arena, &resources, "sessions",
		box_int((int64_t)box_sessions_count_shown(runtime->sessions)));
	struct box_process_counts processes = box_process_count(runtime->sessions, NULL);
	box_map_add(arena, &resources, "managed_processes", box_int((int64_t)processes.running));
	box_map_add(
		arena, &resources, "completed_processes", box_int((int64_t)processes.completed));
	box_map_add(arena, &resources, "requests_under_way",
		box_int((int64_t)runtime->requests_under_way));
	return resources;
}
