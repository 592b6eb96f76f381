/* Information about sessions: look-ups, counts, the info that clients get, and their boxes. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "runtime/session/session_internal.h"
#include "runtime/spec/spec_egress.h"

struct box_session *box_sessions_find(
	struct box_sessions *sessions, const char *physical_id, struct box_err *err)
{
	struct box_session *session = box_table_get(&sessions->by_id, box_str(physical_id));
	if (!session || box_session_is_leaving(session)) {
		(void)box_session_refuse_missing(physical_id, err);
		return NULL;
	}
	return session;
}

size_t box_sessions_count(const struct box_sessions *sessions)
{
	return sessions->by_id.count;
}

size_t box_sessions_count_boxes(const struct box_sessions *sessions)
{
	return sessions->by_id.count - sessions->stopped;
}

size_t box_sessions_count_shown(const struct box_sessions *sessions)
{
	return box_sessions_count_boxes(sessions) - sessions->leaving;
}

static int64_t add_capped(int64_t a, int64_t b)
{
	return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* Boxes of the context's workspace, of every generation or of the context's own. */
static size_t count_of(
	const struct box_sessions *sessions, const struct box_context *context, bool any_generation)
{
	char workspace[BOX_NAMESPACE_SIZE];
	size_t count = 0;
	box_tenant_namespace(context, workspace);
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		count += session->state != BOX_SESSION_STOPPED &&
			!box_session_is_leaving(session) &&
			(any_generation || session->generation == context->generation) &&
			strcmp(session->workspace, workspace) == 0;
	}
	return count;
}

size_t box_sessions_count_workspace(
	const struct box_sessions *sessions, const struct box_context *context)
{
	return count_of(sessions, context, true);
}

size_t box_sessions_count_placed(
	const struct box_sessions *sessions, const struct box_context *context)
{
	return count_of(sessions, context, false);
}

struct box_ceilings_usage box_sessions_usage(
	const struct box_sessions *sessions, const char *workspace, bool leaving_too)
{
	struct box_ceilings_usage use = {0};
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		if (session->state == BOX_SESSION_STOPPED ||
			(box_session_is_leaving(session) && !leaving_too)) {
			continue;
		}
		use.memory_mb = add_capped(use.memory_mb, session->spec.memory_mb);
		if (strcmp(session->workspace, workspace) == 0) {
			use.workspace_sessions++;
			use.workspace_memory_mb = add_capped(
				use.workspace_memory_mb, session->spec.memory_mb);
		}
	}
	return use;
}

static const char *status_of(const struct box_session *session)
{
	if (session->state == BOX_SESSION_REMOVING) {
		return "closing";
	}
	if (session->state == BOX_SESSION_STOPPED) {
		return "stopped";
	}
	return session->running > 0 ? "running" : "idle";
}

static struct box_value time_value(struct box_arena *arena, int64_t utc_us)
{
	char text[BOX_CLOCK_TEXT_SIZE];
	box_clock_format(utc_us, text);
	return box_cstr(box_arena_strndup(arena, text, strlen(text)));
}

/* A copy: the session may be freed before the answer is encoded. */
static struct box_value text_value(struct box_arena *arena, const char *text)
{
	return text ? box_cstr(box_arena_strndup(arena, text, strlen(text))) : box_null();
}

/* The loopback address of the host where services for this box listen, and the box's own. */
static void add_host_address(
	const struct box_session *session, struct box_arena *arena, struct box_value *info)
{
	uint32_t address = session->box && session->backend->host_address
		? session->backend->host_address(session->box)
		: 0;
	if (address != 0) {
		char text[INET_ADDRSTRLEN];
		(void)inet_ntop(AF_INET, &address, text, sizeof(text));
		box_map_add(arena, info, "host_address", text_value(arena, text));
		box_map_add(arena, info, "host_address_inside", box_cstr(BOX_EGRESS_HOST));
	}
}

/* Members that the reference does not have: only when they are set, so that its clients do not see them. */
static void add_own(const struct box_spec *spec, struct box_arena *arena, struct box_value *info)
{
	struct box_value volumes = box_list_value();
	for (size_t i = 0; i < spec->volume_count; i++) {
		const struct box_mount *volume = &spec->volumes[i];
		struct box_value mount = box_map_value();
		box_map_add(arena, &mount, "host_path", text_value(arena, volume->host_path));
		box_map_add(arena, &mount, "mount_path", text_value(arena, volume->mount_path));
		box_map_add(
			arena, &mount, "mode", box_cstr(box_spec_mount_mode_name(volume->mode)));
		box_list_add(arena, &volumes, mount);
	}
	if (volumes.count > 0) {
		box_map_add(arena, info, "volumes", volumes);
	}
	if (spec->idle_timeout_sec > 0) {
		box_map_add(arena, info, "idle_timeout_sec", box_int(spec->idle_timeout_sec));
	}
	if (spec->max_duration_sec > 0) {
		box_map_add(arena, info, "max_duration_sec", box_int(spec->max_duration_sec));
	}
}

struct box_value box_session_info(const struct box_session *session, struct box_arena *arena)
{
	const struct box_spec *spec = &session->spec;
	struct box_value info = box_map_value();
	box_map_add(arena, &info, "session_id", text_value(arena, session->logical_id));
	box_map_add(arena, &info, "backend_name", text_value(arena, session->backend_name));
	box_map_add(arena, &info, "backend_session_id", text_value(arena, session->physical_id));
	box_map_add(arena, &info, "image", text_value(arena, spec->image));
	box_map_add(arena, &info, "network", box_cstr(spec->network_on ? "on" : "off"));
	box_map_add(arena, &info, "host_path", text_value(arena, spec->host_path));
	box_map_add(arena, &info, "host_path_mode",
		box_cstr(box_spec_mount_mode_name(spec->host_path_mode)));
	box_map_add(arena, &info, "mount_path", text_value(arena, spec->mount_path));
	box_map_add(arena, &info, "persistent", box_bool(spec->persistent));
	box_map_add(arena, &info, "cpus", box_real(spec->cpus));
	box_map_add(arena, &info, "memory_mb", box_int(spec->memory_mb));
	box_map_add(arena, &info, "pids_limit", box_int(spec->pids_limit));
	box_map_add(arena, &info, "read_only_rootfs", box_bool(spec->read_only_rootfs));
	box_map_add(arena, &info, "workspace_quota_mb", box_int(spec->workspace_quota_mb));
	if (spec->egress) {
		box_map_add(arena, &info, "egress", box_spec_egress_value(arena, spec->egress));
		add_host_address(session, arena, &info);
	}
	add_own(spec, arena, &info);
	box_map_add(arena, &info, "created_at", time_value(arena, session->created_utc_us));
	box_map_add(arena, &info, "last_used_at", time_value(arena, session->used_utc_us));
	box_map_add(arena, &info, "status", box_cstr(status_of(session)));
	return info;
}

struct box_value box_sessions_list(const struct box_sessions *sessions,
	const struct box_context *context, struct box_arena *arena)
{
	char workspace[BOX_NAMESPACE_SIZE];
	struct box_value list = box_list_value();
	box_tenant_namespace(context, workspace);
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		if (session->generation == context->generation &&
			!box_session_is_leaving(session) &&
			strcmp(session->workspace, workspace) == 0) {
			box_list_add(arena, &list, box_session_info(session, arena));
		}
	}
	return list;
}

struct box_value box_sessions_list_all(const struct box_sessions *sessions, struct box_arena *arena)
{
	struct box_value list = box_list_value();
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		if (box_session_is_leaving(session)) {
			continue;
		}
		struct box_value info = box_session_info(session, arena);
		struct box_context owner = box_tenant_copy_context(arena, &session->owner);
		box_map_add(arena, &info, "instance_uuid", box_text(owner.instance));
		box_map_add(arena, &info, "workspace_uuid", box_text(owner.workspace));
		box_map_add(arena, &info, "placement_generation", box_int(owner.generation));
		box_list_add(arena, &list, info);
	}
	return list;
}

size_t box_sessions_boxes(const struct box_sessions *sessions, const struct box_context *context,
	struct box_arena *arena, const struct box_session_box **ret_boxes,
	size_t *ret_session_count)
{
	char workspace[BOX_NAMESPACE_SIZE];
	size_t box_count = 0;
	size_t session_count = 0;
	struct box_session_box *boxes = box_arena_alloc(
		arena, sessions->by_id.count * sizeof(*boxes));
	box_tenant_namespace(context, workspace);
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		if (session->generation != context->generation || box_session_is_leaving(session) ||
			strcmp(session->workspace, workspace) != 0) {
			continue;
		}
		session_count += session->state != BOX_SESSION_STOPPED;
		if (session->mark != 0 && session->state != BOX_SESSION_STOPPED) {
			boxes[box_count++] = (struct box_session_box){
				.number = session->mark,
				.managed = !box_list_empty(&session->processes) &&
					!session->spec.host_path,
			};
		}
	}
	*ret_boxes = boxes;
	*ret_session_count = session_count;
	return box_count;
}

const char *box_session_logical_id(const struct box_session *session)
{
	return session->logical_id;
}

const char *box_session_backend_name(const struct box_session *session)
{
	return session->backend_name;
}
