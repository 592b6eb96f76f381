/* Every action of the runtime as a call with named arguments.
 *
 *   struct box_spec_args spec = {.session_id = "s", .cmd = "python3 -V", .timeout_sec = 10};
 *   struct box_value answer;
 *   if (box_call_exec(line, &spec, arena, &answer, &err) == 0) {
 *           struct box_str out = box_get_str(&answer, "stdout");
 *   }
 *
 * Each has two forms. box_call_NAME waits for the answer, which is built in the arena, as long as
 * that action may take. box_call_NAME_async is box_line_submit with these arguments. A member that
 * is 0 or NULL is not sent: the runtime's default applies. Required members are marked (*). After
 * the arrow are members of the answer; docs/protocol.md describes them.
 */
#pragma once

#include "client/line.h"

#pragma GCC visibility push(default)

/* The general form behind the others: `action` by its wire name, `args` the struct that belongs to it, or
 * NULL. -ENOENT for an action that is not listed below. */
int box_call(struct box_line *line, const char *action, const void *args, struct box_arena *arena,
	struct box_value *ret_answer, struct box_err *err);
int box_call_async(struct box_line *line, const char *action, const void *args,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err);
/* Only builds the map that would be sent. */
int box_call_data(const char *action, const void *args, struct box_arena *arena,
	struct box_value *ret_data, struct box_err *err);

#define BOX_CALL(NAME, ACTION, ARGS)                                                        \
	static inline int box_call_##NAME(struct box_line *line, const ARGS *args,          \
		struct box_arena *arena, struct box_value *ret_answer, struct box_err *err) \
	{                                                                                   \
		return box_call(line, ACTION, args, arena, ret_answer, err);                \
	}                                                                                   \
	static inline int box_call_##NAME##_async(struct box_line *line, const ARGS *args,  \
		box_client_answered *answered, void *arg, int64_t *ret_seq_id,              \
		struct box_err *err)                                                        \
	{                                                                                   \
		return box_call_async(line, ACTION, args, answered, arg, ret_seq_id, err);  \
	}
/* Without arguments. */
#define BOX_CALL_PLAIN(NAME, ACTION)                                                       \
	static inline int box_call_##NAME(struct box_line *line, struct box_arena *arena,  \
		struct box_value *ret_answer, struct box_err *err)                         \
	{                                                                                  \
		return box_call(line, ACTION, NULL, arena, ret_answer, err);               \
	}                                                                                  \
	static inline int box_call_##NAME##_async(struct box_line *line,                   \
		box_client_answered *answered, void *arg, int64_t *ret_seq_id,             \
		struct box_err *err)                                                       \
	{                                                                                  \
		return box_call_async(line, ACTION, NULL, answered, arg, ret_seq_id, err); \
	}

/* --- the runtime --- */

BOX_CALL_PLAIN(ping, "__ping")                       /* -> {} */
BOX_CALL_PLAIN(health, "box_health")                 /* -> name, available */
BOX_CALL_PLAIN(backend_info, "box_get_backend_info") /* -> name, available */
BOX_CALL_PLAIN(status, "box_status") /* -> backend, active_sessions, limits, features ... */
BOX_CALL_PLAIN(storage_analysis, "box_get_storage_analysis") /* -> size_bytes, directories ... */
BOX_CALL_PLAIN(shutdown, "box_shutdown") /* -> {}: every box ends, the runtime stays */

/* A map that is sent as it is. */
struct box_map_args {
	const struct box_value *map; /* (*) */
};
BOX_CALL(init, "box_init", struct box_map_args) /* a config -> initialized */

/* Admission: docs/protocol.md. */
struct box_verify_args {
	const char *marker_name;
};
BOX_CALL(upsert_grant, "box_upsert_sandbox_admission_grant", struct box_map_args)
BOX_CALL(revoke_grant, "box_revoke_sandbox_admission_grant", struct box_map_args)
BOX_CALL(verify_workspace, "box_verify_shared_workspace", struct box_verify_args)

/* --- sessions and commands --- */

/* A box spec. */
struct box_spec_args {
	const char *session_id; /* (*) */
	const char *cmd;        /* (*) for exec: run by sh */
	const char *workdir;    /* mount_path */
	int64_t timeout_sec;    /* 30 */
	const char *network;    /* "off"; "on" */
	const struct box_value *env;
	const char *image;
	const char *host_path;
	const char *host_path_mode;           /* "rw"; "ro", "none" */
	const char *mount_path;               /* "/workspace" */
	const struct box_value *extra_mounts; /* a list; see client/skill_mounts.h */
	const char *skill_name;
	bool persistent;
	double cpus;        /* 1.0 */
	int64_t memory_mb;  /* 512 */
	int64_t pids_limit; /* 128 */
	bool writable_rootfs;
	int64_t workspace_quota_mb;      /* none */
	const struct box_value *volumes; /* a list: host_path, mount_path, mode */
	int64_t idle_timeout_sec;        /* the runtime's */
	int64_t max_duration_sec;        /* none */
	const struct box_value *egress;  /* a map: allow, host_ports; with network "on" */
};
struct box_session_args {
	const char *session_id; /* (*) */
};
/* -> status "completed" or "timed_out", exit_code, stdout, stderr, duration_ms, end. Live output:
 * box_exec_start on box_line_client. */
BOX_CALL(exec, "box_exec", struct box_spec_args)
BOX_CALL(create_session, "box_create_session", struct box_spec_args)    /* -> the session's info */
BOX_CALL(get_session, "box_get_session", struct box_session_args)       /* -> the session's info */
BOX_CALL_PLAIN(get_sessions, "box_get_sessions")                        /* -> sessions */
BOX_CALL(delete_session, "box_delete_session", struct box_session_args) /* -> deleted */
BOX_CALL(stop_session, "box_stop_session", struct box_session_args)     /* -> stopped */

/* --- managed processes; their stdin and stdout: box_relay_open --- */

struct box_start_process_args {
	const char *session_id; /* (*) */
	const char *process_id; /* "default" */
	const char *command;    /* (*) */
	const struct box_value *args;
	const struct box_value *env;
	const char *cwd;   /* "/workspace" */
	int64_t memory_mb; /* the session's */
};
struct box_process_args {
	const char *session_id; /* (*) */
	const char *process_id; /* "default" */
};
struct box_process_output_args {
	const char *session_id; /* (*) */
	const char *process_id; /* "default" */
	const char *stream;     /* "stdout"; "stderr" */
	int64_t offset;
	int64_t length;
	int64_t wait_ms;
};
BOX_CALL(
	start_process, "box_start_managed_process", struct box_start_process_args) /* -> its info */
BOX_CALL(get_process, "box_get_managed_process", struct box_process_args)          /* -> its info */
BOX_CALL(stop_process, "box_stop_managed_process", struct box_process_args)        /* -> stopped */
/* -> data, offset, end, ended, status */
BOX_CALL(process_output, "box_get_process_output", struct box_process_output_args)

/* --- files in a box; a path that is not valid UTF-8 is sent as bytes --- */

struct box_file_read_args {
	const char *session_id; /* (*) */
	const char *path;       /* (*) */
	int64_t offset;
	int64_t length; /* 8 MiB, the most */
};
struct box_file_write_args {
	const char *session_id; /* (*) */
	const char *path;       /* (*) */
	struct box_str data;
	const int64_t *offset; /* NULL, and no append: the whole file is replaced atomically */
	bool append;
	int64_t mode; /* 0644 for a new file */
	bool parents;
};
struct box_file_list_args {
	const char *session_id; /* (*) */
	const char *path;       /* (*) */
	int64_t limit;          /* 1,000 */
	const char *after;      /* the last name of the page before */
};
struct box_file_args {
	const char *session_id; /* (*) */
	const char *path;       /* (*) */
};
struct box_file_mkdir_args {
	const char *session_id; /* (*) */
	const char *path;       /* (*) */
	bool parents;
	int64_t mode; /* 0755 */
};
struct box_file_tree_args {
	const char *session_id; /* (*) */
	const char *path;       /* (*) */
	bool recursive;
};
struct box_file_move_args {
	const char *session_id; /* (*) */
	const char *from;       /* (*) */
	const char *to;         /* (*) */
	bool replace;
};
BOX_CALL(file_read, "box_file_read", struct box_file_read_args)    /* -> data, offset, size, eof */
BOX_CALL(file_write, "box_file_write", struct box_file_write_args) /* -> size, written */
BOX_CALL(file_list, "box_file_list", struct box_file_list_args)    /* -> entries, more */
BOX_CALL(file_stat, "box_file_stat", struct box_file_args) /* -> kind, size, mode, mtime_ms */
BOX_CALL(file_mkdir, "box_file_mkdir", struct box_file_mkdir_args)  /* -> {} */
BOX_CALL(file_remove, "box_file_remove", struct box_file_tree_args) /* -> {} */
BOX_CALL(file_move, "box_file_move", struct box_file_move_args)     /* -> {} */
/* A stream: `answered` is called for each event, the last time with `last`. Call box_line_taken when they were
 * handled; box_line_cancel ends it. */
static inline int box_call_file_watch_async(struct box_line *line,
	const struct box_file_tree_args *args, box_client_answered *answered, void *arg,
	int64_t *ret_seq_id, struct box_err *err)
{
	return box_call_async(line, "box_file_watch", args, answered, arg, ret_seq_id, err);
}

/* --- skills --- */

struct box_skill_args {
	const char *name; /* (*) */
};
struct box_skill_edit_args {
	const char *name; /* (*) for update */
	/* (*) a map: name, display_name, description, instructions */
	const struct box_value *skill;
};
struct box_skill_scan_args {
	const char *path; /* (*) */
};
struct box_skill_files_args {
	const char *name; /* (*) */
	const char *path; /* "." */
	bool include_hidden;
	int64_t max_entries; /* 200 */
};
struct box_skill_file_args {
	const char *name; /* (*) */
	const char *path; /* (*) */
};
struct box_skill_write_args {
	const char *name; /* (*) */
	const char *path; /* (*) */
	struct box_str content;
};
struct box_skill_zip_args {
	const char *file_key; /* (*) from box_upload, on the same connection */
	const char *filename;
	const char *source_subdir;
	const char *target_suffix;            /* "upload" */
	const char *source_path;              /* install: which of several */
	const struct box_value *source_paths; /* or a list of them */
};
BOX_CALL_PLAIN(list_skills, "box_list_skills")                               /* -> skills */
BOX_CALL(get_skill, "box_get_skill", struct box_skill_args)                  /* -> skill or null */
BOX_CALL(create_skill, "box_create_skill", struct box_skill_edit_args)       /* -> skill */
BOX_CALL(update_skill, "box_update_skill", struct box_skill_edit_args)       /* -> skill */
BOX_CALL(delete_skill, "box_delete_skill", struct box_skill_args)            /* -> deleted */
BOX_CALL(scan_skill, "box_scan_skill_directory", struct box_skill_scan_args) /* -> the skill */
BOX_CALL(list_skill_files, "box_list_skill_files", struct box_skill_files_args) /* -> entries ... */
BOX_CALL(read_skill_file, "box_read_skill_file", struct box_skill_file_args)    /* -> content ... */
/* -> bytes_written */
BOX_CALL(write_skill_file, "box_write_skill_file", struct box_skill_write_args)
BOX_CALL(preview_skill_zip, "box_preview_skill_zip", struct box_skill_zip_args) /* -> skills */
BOX_CALL(install_skill_zip, "box_install_skill_zip", struct box_skill_zip_args) /* -> skills */

/* --- uploads, for the two above --- */

#define BOX_UPLOAD_KEY_SIZE 40

struct box_upload;

/* `err` is NULL if all of it was sent, as `file_key`. The upload is freed before the call. */
typedef void box_upload_done(void *arg, const char *file_key, const struct box_err *err);

/* Sends bytes, which must stay valid until it is done. A file belongs to its connection: if that breaks,
 * upload again. */
int box_upload_start(struct box_line *line, const void *bytes, size_t len, box_upload_done *done,
	void *arg, struct box_upload **ret_upload, struct box_err *err);
/* Cancels an upload, without a callback. */
void box_upload_cancel(struct box_upload *upload);

/* The same, blocking. */
int box_upload(struct box_line *line, const void *bytes, size_t len,
	char ret_file_key[BOX_UPLOAD_KEY_SIZE], struct box_err *err);

/* --- members of an answer; `otherwise`, or "", if there is none of that type --- */

static inline int64_t box_get_int(const struct box_value *map, const char *key, int64_t otherwise)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_INT ? value->integer : otherwise;
}
static inline bool box_get_bool(const struct box_value *map, const char *key, bool otherwise)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_BOOL ? value->boolean : otherwise;
}
/* Text or bytes. */
static inline struct box_str box_get_str(const struct box_value *map, const char *key)
{
	const struct box_value *value = box_map_get(map, key);
	bool good = value && (value->type == BOX_STR || value->type == BOX_BIN);
	return good ? value->str : (struct box_str){"", 0};
}

#pragma GCC visibility pop
