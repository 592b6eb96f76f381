/* Sessions in the record for the next box-rpc: {session: {...}} when a session becomes LIVE, {removing: id} and
 * {stopping: id} while its box ends, then {removed: id}, or {stopped: id} if its name stays. A record that is read back
 * is not trusted: it is parsed like a client's spec. */
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "runtime/session/process_internal.h"
#include "runtime/session/session_internal.h"

/* The members of a spec that define a session, in their wire form. */
static struct box_value spec_value(const struct box_session *session, struct box_arena *arena)
{
	static const char *const members[] = {"image", "network", "host_path", "host_path_mode",
		"mount_path", "persistent", "cpus", "memory_mb", "pids_limit", "read_only_rootfs",
		"workspace_quota_mb", "egress", "volumes", "idle_timeout_sec", "max_duration_sec"};
	struct box_value info = box_session_info(session, arena);
	struct box_value spec = box_map_value();
	box_map_add(arena, &spec, "session_id", box_cstr(session->logical_id));
	for (size_t i = 0; i < BOX_COUNT_OF(members); i++) {
		const struct box_value *value = box_map_get(&info, members[i]);
		if (value) {
			box_map_add(arena, &spec, members[i], *value);
		}
	}
	return spec;
}

static struct box_value session_change(const struct box_session *session, struct box_arena *arena)
{
	struct box_value record = box_map_value();
	struct box_value change = box_map_value();
	box_map_add(arena, &record, "id", box_cstr(session->physical_id));
	box_map_add(arena, &record, "logical", box_cstr(session->logical_id));
	box_map_add(arena, &record, "workspace", box_cstr(session->workspace));
	box_map_add(arena, &record, "generation", box_int(session->generation));
	box_map_add(arena, &record, "instance_uuid", box_text(session->owner.instance));
	box_map_add(arena, &record, "workspace_uuid", box_text(session->owner.workspace));
	box_map_add(arena, &record, "backend", box_cstr(session->backend_name));
	box_map_add(arena, &record, "created", box_int(session->created_utc_us));
	if (session->spec.max_duration_sec > 0) {
		box_map_add(arena, &record, "born", box_int((int64_t)session->born_ms));
	}
	box_map_add(arena, &record, "mark", box_int((int64_t)session->mark));
	box_map_add(arena, &record, "spec", spec_value(session, arena));
	box_map_add(arena, &change, "session", record);
	return change;
}

void box_session_record(struct box_session *session)
{
	const struct box_session_rules *rules = session->sessions->rules;
	session->mark = session->backend->mark(session->box);
	if (session->mark == 0 || !rules->changed) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = session_change(session, arena);
	rules->changed(rules->changed_arg, &change);
}

static struct box_value stop_change(const struct box_session *session, struct box_arena *arena)
{
	struct box_value change = box_map_value();
	box_map_add(arena, &change, "stopped", box_cstr(session->physical_id));
	return change;
}

void box_session_record_stop(struct box_session *session)
{
	const struct box_session_rules *rules = session->sessions->rules;
	if (session->mark == 0 || !rules->changed) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = stop_change(session, arena);
	rules->changed(rules->changed_arg, &change);
}

static struct box_value removal_change(const struct box_session *session, struct box_arena *arena)
{
	struct box_value change = box_map_value();
	box_map_add(arena, &change, session->stopping ? "stopping" : "removing",
		box_cstr(session->physical_id));
	return change;
}

void box_session_record_removal(struct box_session *session)
{
	const struct box_session_rules *rules = session->sessions->rules;
	if (session->mark == 0 || !rules->changed) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = removal_change(session, arena);
	rules->changed(rules->changed_arg, &change);
}

void box_session_record_end(struct box_session *session)
{
	const struct box_session_rules *rules = session->sessions->rules;
	if (session->mark == 0 || !rules->changed) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = box_map_value();
	box_map_add(arena, &change, "removed", box_cstr(session->physical_id));
	rules->changed(rules->changed_arg, &change);
}

void box_sessions_dump(const struct box_sessions *sessions,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	if (sessions->processes_begun > 0) {
		/* Numbers are never reused, because something with that number may be left in a box. */
		struct box_value begun = box_map_value();
		box_map_add(arena, &begun, "begun", box_int(sessions->processes_begun));
		emit(arg, &begun);
	}
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		if (session->mark != 0) {
			struct box_value change = session_change(session, arena);
			emit(arg, &change);
			if (session->state == BOX_SESSION_STOPPED) {
				change = stop_change(session, arena);
				emit(arg, &change);
			} else if (session->state == BOX_SESSION_REMOVING) {
				change = removal_change(session, arena);
				emit(arg, &change);
			}
			box_process_dump_all(session, arena, emit, arg);
		}
	}
}

/* --- reading --- */

static const char *text_of(
	struct box_arena *arena, const struct box_value *record, const char *name)
{
	const struct box_value *value = box_map_get(record, name);
	if (!value || value->type != BOX_STR || value->str.len == 0 ||
		box_str_has_nul(value->str)) {
		return NULL;
	}
	return box_arena_strndup(arena, value->str.bytes, value->str.len);
}

static int64_t number_of(const struct box_value *record, const char *name)
{
	const struct box_value *value = box_map_get(record, name);
	return value && value->type == BOX_INT ? value->integer : 0;
}

/* The names must be those from which its workspace is made. */
static bool fill_owner(struct box_session *session, const struct box_value *record)
{
	const struct box_value *instance = box_map_get(record, "instance_uuid");
	const struct box_value *workspace = box_map_get(record, "workspace_uuid");
	char namespace[BOX_NAMESPACE_SIZE];
	if (!instance || instance->type != BOX_STR || !workspace || workspace->type != BOX_STR) {
		return false;
	}
	const struct box_context owner = {instance->str, workspace->str, session->generation};
	session->owner = box_tenant_copy_context(session->arena, &owner);
	box_tenant_namespace(&session->owner, namespace);
	return strcmp(namespace, session->workspace) == 0;
}

static bool fill(struct box_session *session, const struct box_value *record)
{
	struct box_arena *arena = session->arena;
	const struct box_value *spec = box_map_get(record, "spec");
	const char *workspace = text_of(arena, record, "workspace");
	struct box_err err;
	session->physical_id = text_of(arena, record, "id");
	session->logical_id = text_of(arena, record, "logical");
	session->backend_name = text_of(arena, record, "backend");
	session->generation = number_of(record, "generation");
	session->created_utc_us = number_of(record, "created");
	session->born_ms = (uint64_t)number_of(record, "born");
	session->mark = (uint64_t)number_of(record, "mark");
	if (!session->physical_id || !session->logical_id || !session->backend_name || !workspace ||
		strlen(workspace) >= sizeof(session->workspace) || session->mark == 0 || !spec ||
		spec->type != BOX_MAP) {
		return false;
	}
	memcpy(session->workspace, workspace, strlen(workspace) + 1);
	if (!fill_owner(session, record)) {
		return false;
	}
	struct box_spec parsed;
	if (box_spec_parse(arena, spec, &parsed, &err) < 0) {
		return false;
	}
	box_spec_set_owner(&parsed, session->physical_id);
	session->spec = box_spec_copy_session(arena, &parsed);
	return true;
}

static void replay_session(struct box_sessions *sessions, const struct box_value *record)
{
	struct box_backend *backend = sessions->rules->backend;
	struct box_arena *arena = box_arena_new();
	struct box_session *session = box_arena_alloc(arena, sizeof(*session));
	session->sessions = sessions;
	session->arena = arena;
	box_list_init(&session->ops);
	box_list_init(&session->processes);
	if (!backend || !fill(session, record) ||
		box_table_get(&sessions->by_id, box_str(session->physical_id))) {
		box_arena_free(arena);
		return;
	}
	session->backend = backend->ops;
	session->used_utc_us = box_clock_utc_us();
	session->used_ms = box_clock_ms();
	session->born_ms = session->born_ms > 0 ? session->born_ms : session->used_ms;
	box_table_put(&sessions->by_id, box_str(session->physical_id), session);
	box_list_push(&sessions->all, &session->links);
}

/* It is in the record already. */
static void replay_stop(struct box_session *session)
{
	uint64_t mark = session->mark;
	session->mark = 0;
	box_process_end_all(session);
	box_session_set_stopped(session);
	session->mark = mark;
}

static void replay_removal(struct box_sessions *sessions, const struct box_value *id, bool stopping)
{
	struct box_session *session = id && id->type == BOX_STR
		? box_table_get(&sessions->by_id, id->str)
		: NULL;
	if (!session || session->state == BOX_SESSION_STOPPED) {
		return;
	}
	uint64_t mark = session->mark;
	session->mark = 0;
	box_process_end_all(session);
	session->mark = mark;
	box_session_resume_removal(session, stopping);
}

void box_sessions_replay(struct box_sessions *sessions, const struct box_value *change)
{
	const struct box_value *record = box_map_get(change, "session");
	const struct box_value *removed = box_map_get(change, "removed");
	const struct box_value *stopped = box_map_get(change, "stopped");
	replay_removal(sessions, box_map_get(change, "stopping"), true);
	replay_removal(sessions, box_map_get(change, "removing"), false);
	if (record && record->type == BOX_MAP) {
		replay_session(sessions, record);
	}
	if (removed && removed->type == BOX_STR) {
		struct box_session *session = box_table_get(&sessions->by_id, removed->str);
		if (session) {
			session->mark = 0;
			box_session_forget(session);
		}
	}
	if (stopped && stopped->type == BOX_STR) {
		struct box_session *session = box_table_get(&sessions->by_id, stopped->str);
		if (session && session->state != BOX_SESSION_STOPPED) {
			replay_stop(session);
		}
	}
	box_process_replay(sessions, change);
}

void box_sessions_adopt(struct box_sessions *sessions)
{
	struct box_backend *backend = sessions->rules->backend;
	struct box_list *next;
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		next = at->next;
		bool removing = session->state == BOX_SESSION_REMOVING && !session->box;
		if ((session->state != BOX_SESSION_MAKING && !removing) || session->making) {
			continue;
		}
		struct box_backend_box *box = backend ? backend->ops->adopt(backend, session->mark)
						      : NULL;
		if (removing) {
			session->box = box;
			box_session_end_box(session);
			continue;
		}
		if (box) {
			box_session_set_live(session, box);
			continue;
		}
		BOX_LOG(BOX_LOG_WARNING, "session.not_found",
			box_log_str("session", session->physical_id));
		box_session_forget(session);
	}
}
