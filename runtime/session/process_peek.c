/* Who looks at the output of a managed process without reading it. Each look waits in the box; what
 * it says is taken only for a look that is under way, and never more of it than was asked for. */
#include <errno.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "runtime/session/process_internal.h"

#define LATE_MS 3000 /* that the box may be */

struct box_process_peek {
	struct box_list links;
	struct box_process *process;
	struct box_backend_process_peek wanted;
	uint64_t until_ms;
	box_process_peeked *done; /* NULL: nobody wants to know any more */
	void *arg;
};

static struct box_process_peek *peek_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct box_process_peek, links);
}

static void ask(const struct box_process_peek *peek)
{
	const struct box_process *process = peek->process;
	process->session->backend->kept->peek(
		process->session->box, process->number, &peek->wanted);
}

static void finish(struct box_process_peek *peek, const struct box_backend_process_peeked *peeked,
	const struct box_err *err)
{
	struct box_process_peek last = *peek;
	last.process->peek_count--;
	box_list_drop(&peek->links);
	free(peek);
	if (last.done) {
		last.done(last.arg, last.process, peeked, err);
	}
}

int box_process_peek(struct box_process *process, const struct box_backend_process_peek *wanted,
	uint64_t wait_ms, box_process_peeked *done, void *arg, struct box_process_peek **ret_peek,
	struct box_err *err)
{
	static uint64_t tokens;
	if (process->peek_count >= BOX_PROCESS_PEEKS_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many look at one managed process (%d)", BOX_PROCESS_PEEKS_MAX);
	}
	struct box_process_peek *peek = box_alloc(sizeof(*peek));
	peek->process = process;
	peek->wanted = *wanted;
	peek->wanted.token = ++tokens;
	peek->until_ms = box_clock_ms() + wait_ms;
	peek->done = done;
	peek->arg = arg;
	box_list_init(&peek->links);
	box_list_push(&process->peeks, &peek->links);
	process->peek_count++;
	ask(peek);
	*ret_peek = peek;
	return 0;
}

/* It keeps its place until the box has answered, so that there are never more there than here. */
static void hurry(struct box_process_peek *peek)
{
	if (peek->wanted.wait) {
		peek->wanted.wait = false;
		ask(peek);
	}
}

void box_process_peek_cancel(struct box_process_peek *peek)
{
	peek->done = NULL;
	peek->wanted.most = 0;
	hurry(peek);
}

void box_process_take_peeked(
	struct box_process *process, const struct box_backend_process_peeked *peeked)
{
	for (struct box_list *at = process->peeks.next; at != &process->peeks; at = at->next) {
		struct box_process_peek *peek = peek_at(at);
		if (peek->wanted.token != peeked->token) {
			continue;
		}
		struct box_backend_process_peeked seen = *peeked;
		if (seen.bytes.len > peek->wanted.most) {
			seen.bytes.len = peek->wanted.most;
		}
		finish(peek, &seen, NULL);
		return;
	}
}

/* One that is late is asked for what there is; a box that says nothing has no such process. */
static void tick_peeks(struct box_process *process, uint64_t now_ms)
{
	struct box_list *next;
	struct box_err err;
	for (struct box_list *p = process->peeks.next; p != &process->peeks; p = next) {
		struct box_process_peek *peek = peek_at(p);
		next = p->next;
		if (now_ms >= peek->until_ms + LATE_MS) {
			(void)box_err_set(&err, BOX_ERR_PROCESS_NOT_FOUND, ESRCH,
				"nothing is held of managed process %s", process->id);
			finish(peek, NULL, &err);
		} else if (now_ms >= peek->until_ms) {
			hurry(peek);
		}
	}
}

void box_process_tick_peeks(struct box_sessions *sessions, uint64_t now_ms)
{
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		struct box_list *all = &session->processes;
		for (struct box_list *one = all->next; one != all; one = one->next) {
			tick_peeks(box_process_at(one), now_ms);
		}
	}
}

void box_process_end_peeks(struct box_process *process)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_PROCESS_NOT_FOUND, ENOENT,
		"managed process %s of session %s is gone", process->id,
		process->session->physical_id);
	while (!box_list_empty(&process->peeks)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		finish(peek_at(process->peeks.next), NULL, &err);
	}
}
