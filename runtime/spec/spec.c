/* The box spec and the process spec as tables of members, and what makes two specs conflict.
 *
 * The rows are in the reference's order, which matters: the first invalid member is the one that is named. Host paths
 * are only checked as text here; whether they may be mounted is decided elsewhere, on opened files.
 */
#include "runtime/spec/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "runtime/spec/fields.h"
#include "runtime/spec/spec_egress.h"
#include "runtime/spec/spec_lists.h"

#define PATH_BYTES_MAX (BOX_PATH_MAX - 1) /* the NUL counts in a path's size */
#define SKILL_NAME_MAX 64

static const char *const network_words[] = {"off", "on", NULL};

const char *box_spec_mount_mode_name(enum box_mount_mode mode)
{
	return box_spec_lists_mount_modes[mode];
}

/* -- the box spec ----------------------------------------------------------------------------- */

/* The members that have another form in struct box_spec. */
struct parsed_spec {
	struct box_spec spec;
	int network;
	struct box_env_list env;
	struct box_mount_list mounts;
	struct box_mount_list volumes;
};

/* Beyond ASCII every character counts as a letter: a name can only match a skill that exists, and `/` and `.` are
 * refused. */
static const char *check_skill_name(const char *name)
{
	size_t code_points = 0;
	bool significant = name[0] == '\0';
	bool strange = false;
	for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
		bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
			(*p >= '0' && *p <= '9') || *p >= 0x80;
		significant = significant || letter;
		strange = strange || (!letter && *p != '-' && *p != '_');
		code_points += (*p & 0xc0) != 0x80;
	}
	if (strange || !significant || code_points > SKILL_NAME_MAX) {
		return "skill_name can only contain up to 64 letters, numbers, hyphens and "
		       "underscores";
	}
	return NULL;
}

#define SPEC(member) offsetof(struct parsed_spec, spec.member)

static const struct box_field spec_rows[] = {
	{.name = "cmd", .kind = BOX_FIELD_BYTES, .flags = BOX_FIELD_STRIP, .offset = SPEC(cmd)},
	{.name = "workdir",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_NULLABLE | BOX_FIELD_EMPTY_UNSET | BOX_FIELD_STRIP |
			BOX_FIELD_ABSOLUTE,
		.offset = SPEC(workdir),
		.max = PATH_BYTES_MAX,
		.broken = "workdir must be an absolute path inside the sandbox"},
	{.name = "timeout_sec",
		.kind = BOX_FIELD_INT,
		.offset = SPEC(timeout_sec),
		.min = 1,
		.broken = "timeout_sec must be greater than 0"},
	{.name = "network",
		.kind = BOX_FIELD_WORD,
		.offset = offsetof(struct parsed_spec, network),
		.words = network_words,
		.expected = "'off' or 'on'"},
	{.name = "session_id",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_REQUIRED | BOX_FIELD_STRIP | BOX_FIELD_FILLED,
		.offset = SPEC(session_id),
		.max = BOX_SESSION_ID_MAX,
		.broken = "session_id must not be empty"},
	{.name = "env",
		.kind = BOX_FIELD_OTHER,
		.offset = offsetof(struct parsed_spec, env),
		.other = box_spec_lists_read_env},
	{.name = "image", .kind = BOX_FIELD_TEXT, .offset = SPEC(image), .max = PATH_BYTES_MAX},
	{.name = "host_path",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_NULLABLE | BOX_FIELD_STRIP | BOX_FIELD_ABSOLUTE,
		.offset = SPEC(host_path),
		.max = PATH_BYTES_MAX,
		.broken = BOX_SPEC_HOST_PATH_BROKEN},
	{.name = "host_path_mode",
		.kind = BOX_FIELD_WORD,
		.offset = SPEC(host_path_mode),
		.words = box_spec_lists_mount_modes,
		.expected = BOX_SPEC_MODE_EXPECTED},
	{.name = "mount_path",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_STRIP | BOX_FIELD_ABSOLUTE,
		.offset = SPEC(mount_path),
		.max = PATH_BYTES_MAX,
		.broken = BOX_SPEC_MOUNT_PATH_BROKEN},
	{.name = "extra_mounts",
		.kind = BOX_FIELD_OTHER,
		.offset = offsetof(struct parsed_spec, mounts),
		.other = box_spec_lists_read_mounts},
	{.name = "skill_name",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_NULLABLE | BOX_FIELD_STRIP,
		.offset = SPEC(skill_name),
		.check = check_skill_name},
	{.name = "persistent", .kind = BOX_FIELD_BOOL, .offset = SPEC(persistent)},
	{.name = "cpus",
		.kind = BOX_FIELD_REAL,
		.offset = SPEC(cpus),
		.broken = "cpus must be greater than 0"},
	{.name = "memory_mb",
		.kind = BOX_FIELD_INT,
		.offset = SPEC(memory_mb),
		.min = 32,
		.broken = "memory_mb must be at least 32"},
	{.name = "pids_limit",
		.kind = BOX_FIELD_INT,
		.offset = SPEC(pids_limit),
		.min = 1,
		.broken = "pids_limit must be at least 1"},
	{.name = "read_only_rootfs", .kind = BOX_FIELD_BOOL, .offset = SPEC(read_only_rootfs)},
	{.name = "workspace_quota_mb",
		.kind = BOX_FIELD_INT,
		.offset = SPEC(workspace_quota_mb),
		.broken = "workspace_quota_mb must be greater than or equal to 0"},
	{.name = "volumes",
		.kind = BOX_FIELD_OTHER,
		.flags = BOX_FIELD_NULLABLE,
		.offset = offsetof(struct parsed_spec, volumes),
		.other = box_spec_lists_read_volumes},
	{.name = "idle_timeout_sec",
		.kind = BOX_FIELD_INT,
		.offset = SPEC(idle_timeout_sec),
		.max = BOX_SESSION_TIME_SEC_MAX,
		.broken = "idle_timeout_sec must be between 0 and 2147483647"},
	{.name = "max_duration_sec",
		.kind = BOX_FIELD_INT,
		.offset = SPEC(max_duration_sec),
		.max = BOX_SESSION_TIME_SEC_MAX,
		.broken = "max_duration_sec must be between 0 and 2147483647"},
	{.name = "egress",
		.kind = BOX_FIELD_OTHER,
		.flags = BOX_FIELD_NULLABLE,
		.offset = SPEC(egress),
		.other = box_spec_egress_read},
};

static bool workdir_is_mounted(const struct box_spec *spec)
{
	size_t len = strlen(spec->mount_path);
	return strncmp(spec->workdir, spec->mount_path, len) == 0 &&
		(spec->workdir[len] == '\0' || spec->workdir[len] == '/');
}

int box_spec_parse(struct box_arena *arena, const struct box_value *data, struct box_spec *ret_spec,
	struct box_err *err)
{
	const struct box_fields fields = {arena, "BoxSpec", "", err};
	struct parsed_spec parsed = {
		.spec =
			{
				.cmd = box_str(""),
				.timeout_sec = 30,
				.image = BOX_DEFAULT_IMAGE,
				.host_path_mode = BOX_MOUNT_RW,
				.mount_path = BOX_DEFAULT_MOUNT_PATH,
				.cpus = 1.0,
				.memory_mb = 512,
				.pids_limit = 128,
				.read_only_rootfs = true,
			},
	};
	int result = box_fields_read(&fields, spec_rows, BOX_COUNT_OF(spec_rows), data, &parsed);
	if (result == 0) {
		result = box_fields_refuse_unknown(
			&fields, spec_rows, BOX_COUNT_OF(spec_rows), data);
	}
	if (result < 0) {
		return result;
	}
	struct box_spec *spec = &parsed.spec;
	spec->network_on = parsed.network == 1;
	spec->env = parsed.env.items;
	spec->env_count = parsed.env.count;
	spec->volumes = parsed.volumes.items;
	spec->volume_count = parsed.volumes.count;
	struct box_mount_list all = box_spec_lists_join_mounts(
		arena, &parsed.volumes, &parsed.mounts);
	spec->mounts = all.items;
	spec->mount_count = all.count;
	if (!spec->workdir) {
		spec->workdir = spec->mount_path;
	}
	if (spec->skill_name && spec->skill_name[0] == '\0') {
		spec->skill_name = NULL;
	}
	if (spec->egress && !spec->network_on) {
		return box_fields_refuse(
			&fields, "egress", "Value error, egress needs network 'on'");
	}
	if (spec->host_path && spec->host_path_mode != BOX_MOUNT_NONE &&
		!workdir_is_mounted(spec)) {
		return box_fields_refuse(&fields, "",
			"Value error, workdir must stay under mount_path when host_path is "
			"provided");
	}
	*ret_spec = *spec;
	return 0;
}

/* -- the process spec ------------------------------------------------------------------------- */

struct parsed_process {
	struct box_process_spec spec;
	struct box_arg_list args;
	struct box_env_list env;
};

#define PROCESS(member) offsetof(struct parsed_process, spec.member)

static const struct box_field process_rows[] = {
	{.name = "process_id",
		.kind = BOX_FIELD_TEXT,
		.offset = PROCESS(process_id),
		.max = BOX_SESSION_ID_MAX},
	{.name = "command",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_REQUIRED | BOX_FIELD_STRIP | BOX_FIELD_FILLED,
		.offset = PROCESS(command),
		.broken = "command must not be empty"},
	{.name = "args",
		.kind = BOX_FIELD_OTHER,
		.offset = offsetof(struct parsed_process, args),
		.other = box_spec_lists_read_args},
	{.name = "env",
		.kind = BOX_FIELD_OTHER,
		.offset = offsetof(struct parsed_process, env),
		.other = box_spec_lists_read_env},
	{.name = "cwd",
		.kind = BOX_FIELD_TEXT,
		.flags = BOX_FIELD_STRIP | BOX_FIELD_ABSOLUTE,
		.offset = PROCESS(cwd),
		.max = PATH_BYTES_MAX,
		.broken = "cwd must be an absolute path inside the sandbox"},
	{.name = "memory_mb", .kind = BOX_FIELD_INT, .offset = PROCESS(memory_mb)},
	{.name = "log_bytes", .kind = BOX_FIELD_INT, .offset = PROCESS(log_bytes)},
};

int box_spec_parse_process(struct box_arena *arena, const struct box_value *data,
	struct box_process_spec *ret_spec, struct box_err *err)
{
	const struct box_fields fields = {arena, "BoxManagedProcessSpec", "", err};
	struct parsed_process parsed = {
		.spec = {.process_id = "default", .cwd = BOX_DEFAULT_MOUNT_PATH},
	};
	int result = box_fields_read(
		&fields, process_rows, BOX_COUNT_OF(process_rows), data, &parsed);
	if (result < 0) {
		return result;
	}
	struct box_process_spec *spec = &parsed.spec;
	spec->args = parsed.args.items;
	spec->arg_count = parsed.args.count;
	if (!spec->args) {
		spec->args = box_arena_alloc(arena, sizeof(*spec->args));
	}
	spec->env = parsed.env.items;
	spec->env_count = parsed.env.count;
	/* The reference accepts negative numbers and treats them as 0. */
	if (spec->memory_mb < 0) {
		spec->memory_mb = 0;
	}
	if (spec->memory_mb > 0 && spec->memory_mb < BOX_PROCESS_MEMORY_MB_MIN) {
		return box_fields_refuse(
			&fields, "memory_mb", "Value error, memory_mb must be 0 or at least 4");
	}
	if (spec->log_bytes != 0 &&
		(spec->log_bytes < BOX_PROCESS_LOG_BYTES_MIN ||
			spec->log_bytes > BOX_PROCESS_LOG_BYTES_MAX)) {
		return box_fields_refuse(&fields, "log_bytes",
			"Value error, log_bytes must be 0, or from 65536 to 16777216");
	}
	*ret_spec = *spec;
	return 0;
}

/* -- two specs of one session ----------------------------------------------------------------- */

/* As Python prints a float: the shortest digits that read back the same, with a point or an
 * exponent. */
static const char *python_float(struct box_arena *arena, double value)
{
	char text[64];
	int digits = 1;
	for (; digits <= 17; digits++) {
		(void)snprintf(text, sizeof(text), "%.*e", digits - 1, value);
		if (strtod(text, NULL) == value) {
			break;
		}
	}
	const char *mark = strchr(text, 'e');
	int exponent = mark ? atoi(mark + 1) : 0;
	if (exponent < -4 || exponent >= 16) {
		return box_arena_printf(arena, "%s", text);
	}
	int decimals = digits - 1 - exponent;
	return box_arena_printf(arena, "%.*f", decimals > 0 ? decimals : 1, value);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* A session's member in the reference's form. */
static const char *shown_text(struct box_arena *arena, const char *text)
{
	return text ? box_fields_echo(arena, box_str(text)) : "None";
}

static const char *shown_bool(bool boolean)
{
	return boolean ? "True" : "False";
}

static const char *shown_int(struct box_arena *arena, int64_t integer)
{
	return box_arena_printf(arena, "%lld", (long long)integer);
}

static bool same_egress(const struct box_egress *a, const struct box_egress *b)
{
	return a == b || (a && b && box_egress_equal(a, b));
}

const char *box_spec_conflict(struct box_arena *arena, const struct box_spec *present,
	const struct box_spec *asked, const char **ret_value)
{
	const struct box_spec *a = present;
	const struct box_spec *b = asked;
	const char *field = NULL;
	if (a->network_on != b->network_on) {
		field = "network";
		*ret_value = network_words[a->network_on];
	} else if (!same_text(a->image, b->image)) {
		field = "image";
		*ret_value = shown_text(arena, a->image);
	} else if (!same_text(a->host_path, b->host_path)) {
		field = "host_path";
		*ret_value = shown_text(arena, a->host_path);
	} else if (a->host_path_mode != b->host_path_mode) {
		field = "host_path_mode";
		*ret_value = box_spec_mount_mode_name(a->host_path_mode);
	} else if (!same_text(a->mount_path, b->mount_path)) {
		field = "mount_path";
		*ret_value = shown_text(arena, a->mount_path);
	} else if (a->persistent != b->persistent) {
		field = "persistent";
		*ret_value = shown_bool(a->persistent);
	} else if (a->cpus != b->cpus) {
		field = "cpus";
		*ret_value = python_float(arena, a->cpus);
	} else if (a->memory_mb != b->memory_mb) {
		field = "memory_mb";
		*ret_value = shown_int(arena, a->memory_mb);
	} else if (a->pids_limit != b->pids_limit) {
		field = "pids_limit";
		*ret_value = shown_int(arena, a->pids_limit);
	} else if (a->read_only_rootfs != b->read_only_rootfs) {
		field = "read_only_rootfs";
		*ret_value = shown_bool(a->read_only_rootfs);
	} else if (a->workspace_quota_mb != b->workspace_quota_mb) {
		field = "workspace_quota_mb";
		*ret_value = shown_int(arena, a->workspace_quota_mb);
	} else if (!same_egress(a->egress, b->egress)) {
		field = "egress";
		*ret_value = box_spec_egress_text(arena, a->egress);
	} else if (!box_spec_lists_same_volumes(a, b)) {
		field = "volumes";
		*ret_value = box_spec_lists_volumes_text(arena, a);
	}
	return field;
}

static const char *copied(struct box_arena *arena, const char *text)
{
	return text ? box_arena_strndup(arena, text, strlen(text)) : NULL;
}

void box_spec_set_owner(struct box_spec *spec, const char *physical_id)
{
	for (size_t i = 0; i < spec->mount_count; i++) {
		(void)snprintf(spec->mounts[i].namespace, BOX_TENANT_SIZE, "%s", physical_id);
	}
	for (size_t i = 0; i < spec->volume_count; i++) {
		(void)snprintf(spec->volumes[i].namespace, BOX_TENANT_SIZE, "%s", physical_id);
	}
}

struct box_spec box_spec_copy_session(struct box_arena *arena, const struct box_spec *spec)
{
	struct box_spec copy = *spec;
	copy.session_id = copied(arena, spec->session_id);
	copy.cmd = box_str("");
	copy.workdir = copied(arena, spec->workdir);
	copy.env = NULL;
	copy.env_count = 0;
	copy.image = copied(arena, spec->image);
	copy.host_path = copied(arena, spec->host_path);
	copy.mount_path = copied(arena, spec->mount_path);
	copy.mounts = NULL;
	copy.mount_count = 0;
	copy.volumes = box_spec_lists_copy_volumes(arena, spec);
	copy.skill_name = copied(arena, spec->skill_name);
	if (spec->egress) {
		copy.egress = box_arena_alloc(arena, sizeof(*copy.egress));
		*copy.egress = *spec->egress;
	}
	return copy;
}
