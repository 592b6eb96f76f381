/* Changes many sessions at once: removes the older generations of a workspace, the sessions of an instance, or all;
 * and, once a second, removes or stops those whose time is over. */
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "runtime/session/process_internal.h"
#include "runtime/session/session_internal.h"

void box_sessions_retire(struct box_sessions *sessions, const struct box_context *context)
{
	char workspace[BOX_NAMESPACE_SIZE];
	box_tenant_namespace(context, workspace);
	struct box_list *next;
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		next = at->next;
		if (session->generation < context->generation &&
			strcmp(session->workspace, workspace) == 0) {
			box_session_remove(session);
		}
	}
}

void box_sessions_remove_instance(struct box_sessions *sessions, struct box_str instance)
{
	struct box_list *next;
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		next = at->next;
		if (box_str_same(session->owner.instance, instance)) {
			box_session_remove(session);
		}
	}
}

void box_sessions_remove_all(struct box_sessions *sessions)
{
	struct box_list *next;
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = next) {
		next = at->next;
		box_session_remove(BOX_CONTAINER_OF(at, struct box_session, links));
	}
}

/* --- once a second --- */

static bool is_over(uint64_t from_ms, int64_t seconds, uint64_t now_ms)
{
	return seconds > 0 && now_ms > from_ms && now_ms - from_ms >= (uint64_t)seconds * 1000;
}

/* Why it must stop now: a word for the log, or NULL. */
static const char *stop_reason(const struct box_session *session, uint64_t now_ms)
{
	if (session->state != BOX_SESSION_LIVE) {
		return NULL;
	}
	if (is_over(session->born_ms, session->spec.max_duration_sec, now_ms)) {
		return "max_duration_sec";
	}
	return session->running == 0 && session->processes_running == 0 &&
			is_over(session->used_ms, session->spec.idle_timeout_sec, now_ms)
		? "idle_timeout_sec"
		: NULL;
}

static bool is_idle(const struct box_session *session, uint64_t now_ms)
{
	int64_t ttl_sec = session->sessions->rules->session_ttl_sec;
	return session->state == BOX_SESSION_LIVE && !session->spec.persistent &&
		session->spec.idle_timeout_sec == 0 && session->running == 0 &&
		session->processes_running == 0 && ttl_sec > 0 && now_ms > session->used_ms &&
		now_ms - session->used_ms >= (uint64_t)ttl_sec * 1000;
}

/* Stopped sessions are not remembered for ever. */
static bool is_forgotten(const struct box_session *session, uint64_t now_ms)
{
	return session->state == BOX_SESSION_STOPPED && now_ms > session->used_ms &&
		now_ms - session->used_ms >= BOX_SESSION_STOPPED_SEC * 1000ULL;
}

static void check_one(struct box_session *session, uint64_t now_ms)
{
	const char *why = stop_reason(session, now_ms);
	if (why) {
		BOX_LOG(BOX_LOG_INFO, "session.stopped",
			box_log_str("session", session->physical_id), box_log_str("why", why));
		box_session_stop(session);
	} else if (session->state == BOX_SESSION_LIVE && box_process_any_late(session, now_ms)) {
		BOX_LOG(BOX_LOG_WARNING, "session.lost",
			box_log_str("session", session->physical_id),
			box_log_str("why", "it did not end a managed process in time"));
		box_session_remove(session);
	} else if (is_idle(session, now_ms)) {
		BOX_LOG(BOX_LOG_INFO, "session.idle", box_log_str("session", session->physical_id));
		box_session_remove(session);
	} else if (is_forgotten(session, now_ms)) {
		box_session_remove(session);
	}
}

void box_sessions_tick(struct box_sessions *sessions, uint64_t now_ms)
{
	struct box_list *next;
	box_process_tick_all(sessions, now_ms);
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		next = at->next;
		check_one(session, now_ms);
	}
}
