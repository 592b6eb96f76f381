/* The table of actions: which member of which struct goes where on the wire, and how long an
 * answer may take. Building the map is pure; everything else is a line's. */
#include "client/calls.h"

#include <errno.h>
#include <limits.h>

#include "base/macros.h"
#include "base/utf8.h"

enum kind {
	TEXT,   /* const char *; NULL: left out */
	PATH,   /* the same; bytes when it is no UTF-8 */
	STRING, /* struct box_str, always sent as text */
	BYTES,  /* struct box_str, always sent as bytes */
	INT,    /* int64_t; 0: left out */
	INT_AT, /* const int64_t *; NULL: left out */
	REAL,   /* double; 0 and less: left out */
	FLAG,   /* bool; false: left out */
	UNFLAG, /* bool; true: sent as false, false: left out */
	VALUE,  /* const struct box_value *; NULL: left out */
	WHOLE,  /* the same: it is the map itself */
};

struct member {
	const char *key;
	enum kind kind;
	size_t at;
};

struct row {
	const char *action;
	const struct member *members; /* up to one without a key */
	const char *nested;           /* members behind the first go into a map of this name */
	int64_t (*more_ms)(const void *args);
	int wait_ms;
	bool stream;
};

#define M(TYPE, KIND, NAME)                                    \
	{                                                      \
#NAME, KIND, offsetof(struct box_##TYPE, NAME) \
	}
#define MEMBERS(NAME) static const struct member NAME[]

/* clang-format off */
MEMBERS(map_args) = {{"", WHOLE, offsetof(struct box_map_args, map)}, {0}};
MEMBERS(verify_args) = {M(verify_args, TEXT, marker_name), {0}};
MEMBERS(spec_args) = {
	M(spec_args, TEXT, session_id), M(spec_args, TEXT, cmd), M(spec_args, TEXT, workdir),
	M(spec_args, INT, timeout_sec), M(spec_args, TEXT, network), M(spec_args, VALUE, env),
	M(spec_args, TEXT, image), M(spec_args, TEXT, host_path), M(spec_args, TEXT, host_path_mode),
	M(spec_args, TEXT, mount_path), M(spec_args, VALUE, extra_mounts),
	M(spec_args, TEXT, skill_name), M(spec_args, FLAG, persistent), M(spec_args, REAL, cpus),
	M(spec_args, INT, memory_mb), M(spec_args, INT, pids_limit),
	{"read_only_rootfs", UNFLAG, offsetof(struct box_spec_args, writable_rootfs)},
	M(spec_args, INT, workspace_quota_mb), M(spec_args, VALUE, volumes),
	M(spec_args, INT, idle_timeout_sec), M(spec_args, INT, max_duration_sec), {0}};
MEMBERS(session_args) = {M(session_args, TEXT, session_id), {0}};
MEMBERS(start_process_args) = {
	M(start_process_args, TEXT, session_id), M(start_process_args, TEXT, process_id),
	M(start_process_args, TEXT, command), M(start_process_args, VALUE, args),
	M(start_process_args, VALUE, env), M(start_process_args, TEXT, cwd),
	M(start_process_args, INT, memory_mb), {0}};
MEMBERS(process_args) = {
	M(process_args, TEXT, session_id), M(process_args, TEXT, process_id), {0}};
MEMBERS(process_output_args) = {
	M(process_output_args, TEXT, session_id), M(process_output_args, TEXT, process_id),
	M(process_output_args, TEXT, stream), M(process_output_args, INT, offset),
	M(process_output_args, INT, length), M(process_output_args, INT, wait_ms), {0}};
MEMBERS(file_read_args) = {
	M(file_read_args, TEXT, session_id), M(file_read_args, PATH, path),
	M(file_read_args, INT, offset), M(file_read_args, INT, length), {0}};
MEMBERS(file_write_args) = {
	M(file_write_args, TEXT, session_id), M(file_write_args, PATH, path),
	M(file_write_args, BYTES, data), M(file_write_args, INT_AT, offset),
	M(file_write_args, FLAG, append), M(file_write_args, INT, mode),
	M(file_write_args, FLAG, parents), {0}};
MEMBERS(file_list_args) = {
	M(file_list_args, TEXT, session_id), M(file_list_args, PATH, path),
	M(file_list_args, INT, limit), M(file_list_args, PATH, after), {0}};
MEMBERS(file_args) = {M(file_args, TEXT, session_id), M(file_args, PATH, path), {0}};
MEMBERS(file_mkdir_args) = {
	M(file_mkdir_args, TEXT, session_id), M(file_mkdir_args, PATH, path),
	M(file_mkdir_args, FLAG, parents), M(file_mkdir_args, INT, mode), {0}};
MEMBERS(file_tree_args) = {
	M(file_tree_args, TEXT, session_id), M(file_tree_args, PATH, path),
	M(file_tree_args, FLAG, recursive), {0}};
MEMBERS(file_move_args) = {
	M(file_move_args, TEXT, session_id), M(file_move_args, PATH, from),
	M(file_move_args, PATH, to), M(file_move_args, FLAG, replace), {0}};
MEMBERS(skill_args) = {M(skill_args, TEXT, name), {0}};
MEMBERS(skill_edit_args) = {
	M(skill_edit_args, TEXT, name), M(skill_edit_args, VALUE, skill), {0}};
MEMBERS(skill_scan_args) = {M(skill_scan_args, TEXT, path), {0}};
MEMBERS(skill_files_args) = {
	M(skill_files_args, TEXT, name), M(skill_files_args, TEXT, path),
	M(skill_files_args, FLAG, include_hidden), M(skill_files_args, INT, max_entries), {0}};
MEMBERS(skill_file_args) = {
	M(skill_file_args, TEXT, name), M(skill_file_args, TEXT, path), {0}};
MEMBERS(skill_write_args) = {
	M(skill_write_args, TEXT, name), M(skill_write_args, TEXT, path),
	M(skill_write_args, STRING, content), {0}};
MEMBERS(skill_zip_args) = {
	M(skill_zip_args, TEXT, file_key), M(skill_zip_args, TEXT, filename),
	M(skill_zip_args, TEXT, source_subdir), M(skill_zip_args, TEXT, target_suffix),
	M(skill_zip_args, TEXT, source_path), M(skill_zip_args, VALUE, source_paths), {0}};

/* A command has its own time. Before it a box may be made, behind it the answer is sent. */
static int64_t exec_ms(const void *args)
{
	const struct box_spec_args *spec = args;
	return (spec && spec->timeout_sec > 0 ? spec->timeout_sec : 30) * 1000;
}

static int64_t output_ms(const void *args)
{
	const struct box_process_output_args *output = args;
	return output && output->wait_ms > 0 ? output->wait_ms : 0;
}

#define SOON 15000 /* only looked up */
#define WORK 30000 /* something is begun or ended */
#define LONG 75000 /* the runtime itself gives up after a minute */

static const struct row rows[] = {
	{"__ping", NULL, NULL, NULL, SOON, false},
	{"box_health", NULL, NULL, NULL, SOON, false},
	{"box_get_backend_info", NULL, NULL, NULL, SOON, false},
	{"box_status", NULL, NULL, NULL, SOON, false},
	{"box_get_storage_analysis", NULL, NULL, NULL, LONG, false},
	{"box_shutdown", NULL, NULL, NULL, WORK, false},
	{"box_init", map_args, NULL, NULL, SOON, false},
	{"box_upsert_sandbox_admission_grant", map_args, NULL, NULL, SOON, false},
	{"box_revoke_sandbox_admission_grant", map_args, NULL, NULL, WORK, false},
	{"box_verify_shared_workspace", verify_args, NULL, NULL, SOON, false},

	{"box_exec", spec_args, NULL, exec_ms, LONG, false},
	{"box_create_session", spec_args, NULL, NULL, LONG, false},
	{"box_get_session", session_args, NULL, NULL, SOON, false},
	{"box_get_sessions", NULL, NULL, NULL, SOON, false},
	{"box_delete_session", session_args, NULL, NULL, WORK, false},
	{"box_stop_session", session_args, NULL, NULL, WORK, false},

	{"box_start_managed_process", start_process_args, "spec", NULL, WORK, false},
	{"box_get_managed_process", process_args, NULL, NULL, SOON, false},
	{"box_stop_managed_process", process_args, NULL, NULL, WORK, false},
	{"box_get_process_output", process_output_args, NULL, output_ms, SOON, false},

	{"box_file_read", file_read_args, NULL, NULL, LONG, false},
	{"box_file_write", file_write_args, NULL, NULL, LONG, false},
	{"box_file_list", file_list_args, NULL, NULL, LONG, false},
	{"box_file_stat", file_args, NULL, NULL, LONG, false},
	{"box_file_mkdir", file_mkdir_args, NULL, NULL, LONG, false},
	{"box_file_remove", file_tree_args, NULL, NULL, LONG, false},
	{"box_file_move", file_move_args, NULL, NULL, LONG, false},
	{"box_file_watch", file_tree_args, NULL, NULL, LONG, true},

	{"box_list_skills", NULL, NULL, NULL, LONG, false},
	{"box_get_skill", skill_args, NULL, NULL, LONG, false},
	{"box_create_skill", skill_edit_args, NULL, NULL, LONG, false},
	{"box_update_skill", skill_edit_args, NULL, NULL, LONG, false},
	{"box_delete_skill", skill_args, NULL, NULL, LONG, false},
	{"box_scan_skill_directory", skill_scan_args, NULL, NULL, LONG, false},
	{"box_list_skill_files", skill_files_args, NULL, NULL, LONG, false},
	{"box_read_skill_file", skill_file_args, NULL, NULL, LONG, false},
	{"box_write_skill_file", skill_write_args, NULL, NULL, LONG, false},
	{"box_preview_skill_zip", skill_zip_args, NULL, NULL, LONG, false},
	{"box_install_skill_zip", skill_zip_args, NULL, NULL, LONG, false},
};
/* clang-format on */

static const struct row *find(const char *action, struct box_err *err)
{
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		if (strcmp(rows[i].action, action) == 0) {
			return &rows[i];
		}
	}
	(void)box_err_set(err, BOX_ERR_VALUE, ENOENT, "no such action: %s", action);
	return NULL;
}

/* --- the map --- */

static void add_text(struct box_arena *arena, struct box_value *map, const struct member *member,
	const char *text)
{
	if (text) {
		struct box_str str = box_str(text);
		bool bytes = member->kind == PATH && !box_utf8_valid(str.bytes, str.len);
		box_map_add(arena, map, member->key, bytes ? box_bin(str) : box_text(str));
	}
}

static void add_value(struct box_arena *arena, struct box_value *map, const struct member *member,
	const struct box_value *value)
{
	if (value && member->kind == WHOLE) {
		*map = *value;
	} else if (value) {
		box_map_add(arena, map, member->key, *value);
	}
}

static void add(struct box_arena *arena, struct box_value *map, const struct member *member,
	const void *args)
{
	const void *field = (const char *)args + member->at;
	switch (member->kind) {
	case TEXT:
	case PATH:
		add_text(arena, map, member, *(const char *const *)field);
		break;
	case STRING:
	case BYTES: {
		const struct box_str *given = field;
		struct box_str str = given->bytes ? *given : box_str("");
		box_map_add(arena, map, member->key,
			member->kind == BYTES ? box_bin(str) : box_text(str));
		break;
	}
	case INT:
		if (*(const int64_t *)field != 0) {
			box_map_add(arena, map, member->key, box_int(*(const int64_t *)field));
		}
		break;
	case INT_AT:
		if (*(const int64_t *const *)field) {
			box_map_add(arena, map, member->key, box_int(**(int64_t *const *)field));
		}
		break;
	case REAL:
		if (*(const double *)field > 0) {
			box_map_add(arena, map, member->key, box_real(*(const double *)field));
		}
		break;
	case FLAG:
	case UNFLAG:
		if (*(const bool *)field) {
			box_map_add(arena, map, member->key, box_bool(member->kind == FLAG));
		}
		break;
	case VALUE:
	case WHOLE:
		add_value(arena, map, member, *(const struct box_value *const *)field);
		break;
	}
}

static struct box_value make_data(const struct row *row, const void *args, struct box_arena *arena)
{
	struct box_value data = box_map_value();
	struct box_value nested = box_map_value();
	for (const struct member *member = row->members; args && member && member->key; member++) {
		bool inside = row->nested && member != row->members;
		add(arena, inside ? &nested : &data, member, args);
	}
	if (row->nested) {
		box_map_add(arena, &data, row->nested, nested);
	}
	return data;
}

int box_call_data(const char *action, const void *args, struct box_arena *arena,
	struct box_value *ret_data, struct box_err *err)
{
	const struct row *row = find(action, err);
	if (!row) {
		return -ENOENT;
	}
	*ret_data = make_data(row, args, arena);
	return 0;
}

/* --- the calls --- */

static int wait_of(const struct row *row, const void *args)
{
	int64_t more_ms = row->more_ms ? row->more_ms(args) : 0;
	return more_ms < INT_MAX - row->wait_ms ? row->wait_ms + (int)more_ms : INT_MAX;
}

int box_call(struct box_line *line, const char *action, const void *args, struct box_arena *arena,
	struct box_value *ret_answer, struct box_err *err)
{
	const struct row *row = find(action, err);
	if (!row) {
		return -ENOENT;
	}
	if (row->stream) {
		return box_err_set(err, BOX_ERR_VALUE, ENOTSUP, "%s streams its answers", action);
	}
	const struct box_value data = make_data(row, args, arena);
	return box_line_call(line, action, &data, wait_of(row, args), arena, ret_answer, err);
}

int box_call_async(struct box_line *line, const char *action, const void *args,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	const struct row *row = find(action, err);
	if (!row) {
		return -ENOENT;
	}
	struct box_arena *arena = box_arena_new();
	const struct box_value data = make_data(row, args, arena);
	int r = row->stream
		? box_line_submit_stream(line, action, &data, answered, arg, ret_seq_id, err)
		: box_line_submit(line, action, &data, answered, arg, ret_seq_id, err);
	box_arena_free(arena);
	return r;
}
