/* JSON text as a box spec, a process spec and a configuration: no crash, and what is accepted keeps
 * the rules that the rest of the runtime relies on. */
#include <errno.h>
#include <math.h>

#include "base/arena.h"
#include "codec/json.h"
#include "runtime/config/config.h"
#include "runtime/config/config_members.h"
#include "runtime/spec/spec.h"
#include "runtime/spec/spec_egress.h"
#include "tests/fuzz/common.h"

static void check_refusal(int result, const struct box_err *err, const char *model)
{
	MUST(result == -EINVAL && err->code == BOX_ERR_VALIDATION);
	MUST(strncmp(err->text, "1 validation error for ", 23) == 0);
	MUST(strncmp(err->text + 23, model, strlen(model)) == 0);
	/* Nothing in it may look like another error's name. */
	MUST(strstr(err->text, "Error:") == NULL);
	MUST(strlen(err->text) < 512);
}

static void check_env(const struct box_env *env, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		MUST(env[i].name[0] != '\0' && !strchr(env[i].name, '=') && env[i].value);
	}
}

/* boxd accepts it, and its text form means the same. */
static void check_egress(struct box_arena *arena, const struct box_spec *spec)
{
	struct box_err err = {0};
	if (!spec->egress) {
		return;
	}
	MUST(box_egress_check(spec->egress, spec->network_on, &err) == 0);
	const struct box_fields fields = {arena, "BoxSpec", "", &err};
	struct box_value shown = box_spec_egress_value(arena, spec->egress);
	struct box_egress *again = NULL;
	MUST(box_spec_egress_read(&fields, &shown, &again) == 0);
	MUST(box_egress_equal(spec->egress, again));
}

static void check_spec(struct box_arena *arena, const struct box_value *value)
{
	struct box_spec spec;
	struct box_err err = {0};
	const char *shown = NULL;
	int result = box_spec_parse(arena, value, &spec, &err);
	if (result < 0) {
		check_refusal(result, &err, "BoxSpec");
		return;
	}
	MUST(spec.session_id[0] != '\0' && strlen(spec.session_id) <= BOX_SESSION_ID_MAX);
	MUST(!box_str_has_nul(spec.cmd));
	MUST(spec.workdir[0] == '/' && spec.mount_path[0] == '/');
	MUST(!spec.host_path || spec.host_path[0] == '/');
	MUST(spec.timeout_sec > 0 && spec.memory_mb >= 32 && spec.pids_limit >= 1);
	MUST(spec.workspace_quota_mb >= 0 && isfinite(spec.cpus) && spec.cpus > 0);
	check_env(spec.env, spec.env_count);
	for (size_t i = 0; i < spec.mount_count; i++) {
		MUST(spec.mounts[i].host_path[0] == '/' && spec.mounts[i].mount_path[0] == '/');
		MUST(spec.mounts[i].mode != BOX_MOUNT_NONE);
		MUST(!strstr(spec.mounts[i].mount_path, "/../"));
	}
	check_egress(arena, &spec);
	struct box_spec copy = box_spec_copy_session(arena, &spec);
	MUST(!box_spec_conflict(arena, &spec, &copy, &shown));
	copy.cpus += 1;
	copy.memory_mb--;
	const char *field = box_spec_conflict(arena, &spec, &copy, &shown);
	MUST(field && (strcmp(field, "memory_mb") == 0 || strtod(shown, NULL) == spec.cpus));
}

static void check_process(struct box_arena *arena, const struct box_value *value)
{
	struct box_process_spec spec;
	struct box_err err = {0};
	int result = box_spec_parse_process(arena, value, &spec, &err);
	if (result < 0) {
		check_refusal(result, &err, "BoxManagedProcessSpec");
		return;
	}
	MUST(spec.command[0] != '\0' && spec.cwd[0] == '/' && spec.memory_mb >= 0);
	MUST(spec.args[spec.arg_count] == NULL);
	check_env(spec.env, spec.env_count);
}

/* Unknown names never refuse a client, and the messages about them are limited. */
static void check_names(struct box_arena *arena, const struct box_value *value)
{
	struct box_config_findings found[3] = {0};
	for (int rules = 0; rules < 3; rules++) {
		box_config_members_check(
			arena, value, (enum box_config_member_rules)rules, true, &found[rules]);
		for (size_t i = 0; i < found[rules].count; i++) {
			MUST(found[rules].items[i].path && found[rules].items[i].text);
			MUST(strlen(found[rules].items[i].path) < 256);
		}
	}
	MUST(found[BOX_CONFIG_MEMBERS_CLIENT].errors == 0);
	MUST(found[BOX_CONFIG_MEMBERS_OWN].errors >= found[BOX_CONFIG_MEMBERS_LANGBOT].errors);
	const struct box_value nothing = box_map_value();
	MUST(box_config_members_need_restart(arena, value, value)[0] == '\0');
	(void)box_config_members_need_restart(arena, value, &nothing);
}

static void check_config(struct box_arena *arena, const struct box_value *value)
{
	check_names(arena, value);
	struct box_config *first = box_config_default();
	struct box_config *second = NULL;
	struct box_config *third = NULL;
	struct box_value nothing = box_map_value();
	struct box_err err = {0};
	int result = box_config_merge(first, value, BOX_CONFIG_CLIENT, "/w", &second, &err);
	MUST(result == 0 || (result == -EINVAL && err.code == BOX_ERR_VALUE && !second));
	if (result == 0) {
		/* What was accepted once is accepted again, with the same meaning. */
		MUST(box_config_merge(second, &nothing, BOX_CONFIG_CLIENT, "/w", &third, &err) ==
			0);
		MUST(memcmp(&second->limits, &third->limits, sizeof(third->limits)) == 0);
		MUST(second->admission.required == third->admission.required);
		MUST(!second->admission.error || second->admission.required);
		MUST(strcmp(second->skills_root, third->skills_root) == 0);
		(void)box_config_may_make_workspace(third, &err);
	}
	box_config_free(first);
	box_config_free(second);
	box_config_free(third);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct box_arena *arena = box_arena_new();
	struct box_value value = box_null();
	const char *why = NULL;
	char *text = box_arena_strndup(arena, (const char *)data, size);
	if (box_json_decode(arena, text, size, &value, &why) == 0) {
		check_spec(arena, &value);
		check_process(arena, &value);
		check_config(arena, &value);
	}
	box_arena_free(arena);
	return 0;
}
