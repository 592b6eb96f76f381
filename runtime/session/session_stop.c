/* Sessions whose box has ended while their name stays: when they must, what is left of them, and for
 * how long. A name without a box costs little, but there is an end to how many of them are kept.
 */
#include <errno.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "runtime/session/session_internal.h"

int box_session_refuse_stopped(const struct box_session *session, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_SESSION_CONFLICT, ESHUTDOWN,
		"Box session %s is stopped: remove it to make it anew", session->physical_id);
}

static void forget_oldest(struct box_sessions *sessions)
{
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		if (session->state == BOX_SESSION_STOPPED) {
			box_session_forget(session);
			return;
		}
	}
}

void box_session_set_stopped(struct box_session *session)
{
	struct box_sessions *sessions = session->sessions;
	if (sessions->stopped >= BOX_SESSIONS_STOPPED_MAX) {
		forget_oldest(sessions);
	}
	session->state = BOX_SESSION_STOPPED;
	session->stopping = false;
	session->box = NULL;
	sessions->stopped++;
	box_session_mark_used(session);
	box_session_record_stop(session);
}

void box_session_stop(struct box_session *session)
{
	if (session->state == BOX_SESSION_STOPPED || session->state == BOX_SESSION_REMOVING) {
		return;
	}
	session->stopping = true;
	box_session_remove(session);
}

int box_sessions_stop(struct box_sessions *sessions, const char *physical_id,
	box_session_remove_done *done, void *arg, struct box_session_op **ret_op,
	struct box_err *err)
{
	struct box_session *session = box_sessions_find(sessions, physical_id, err);
	if (!session) {
		return -ENOENT;
	}
	if (session->state == BOX_SESSION_STOPPED) {
		return 0;
	}
	if (session->state == BOX_SESSION_MAKING && !session->making) {
		box_session_stop(session);
		return 0;
	}
	*ret_op = box_session_op_wait_gone(session, done, arg);
	box_session_stop(session);
	return 1;
}

static bool is_over(uint64_t from_ms, int64_t seconds, uint64_t now_ms)
{
	return seconds > 0 && now_ms > from_ms && now_ms - from_ms >= (uint64_t)seconds * 1000;
}

const char *box_session_stop_reason(const struct box_session *session, uint64_t now_ms)
{
	if (session->state != BOX_SESSION_LIVE) {
		return NULL;
	}
	if (is_over(session->born_ms, session->spec.max_duration_sec, now_ms)) {
		return "max_duration_sec";
	}
	return session->running == 0 && session->kept == 0 &&
			is_over(session->used_ms, session->spec.idle_timeout_sec, now_ms)
		? "idle_timeout_sec"
		: NULL;
}
