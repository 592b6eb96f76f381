/* Delivers the output of managed processes to readers and peeks, and input to their stdin.
 *
 * Readers take output away, one after the other: only the first in line is attached, and the process is read as far as
 * that reader allows. A peek looks at output without taking it away: it waits in the box, whose answer counts only for
 * a pending peek, and never for more bytes than requested.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "runtime/session/process_internal.h"

#define HOLD_BYTES (1024 * BOX_KIB) /* by default */
#define FEED_BYTES (256 * BOX_KIB)  /* of input in flight, not taken */
#define TELL_BYTES (64 * BOX_KIB)   /* so many confirmed bytes are reported to the box at once */
#define FEED_PIECE_BYTES (63 * BOX_KIB) /* in one packet */
#define PEEK_LATE_MS 3000               /* how late the box may answer a peek */

static struct box_process_reader *first_reader(const struct box_process *process)
{
	return box_list_empty(&process->readers)
		? NULL
		: BOX_CONTAINER_OF(process->readers.next, struct box_process_reader, links);
}

static void follow(struct box_process *process, const struct box_backend_process_follow *wanted)
{
	process->session->backend->processes->follow(
		process->session->box, process->number, wanted);
}

/* --- output --- */

static void report_end(struct box_process_reader *reader)
{
	const struct box_process *process = reader->process;
	if (!reader->end_sent && !process->running && process->out_ended &&
		process->given >= process->out_end) {
		reader->end_sent = true;
		reader->events->ended(reader->arg, process);
	}
}

void box_process_serve_readers(struct box_process *process)
{
	struct box_process_reader *reader = first_reader(process);
	if (!reader || !process->known) {
		return;
	}
	if (!reader->attached) {
		reader->attached = true;
		uint64_t from = reader->from == BOX_PROCESS_FROM_UNCONFIRMED ? 0 : reader->from;
		/* There is no output after out_end, whatever the reader requests. */
		from = BOX_MIN(from, process->out_end);
		process->given = BOX_MAX(from, process->freed);
		reader->events->attached(
			reader->arg, process->given, box_process_input_end(reader));
	}
	/* The callback may have detached it, so that another reader is the first. */
	if (first_reader(process) == reader) {
		report_end(reader);
	}
}

void box_process_deliver_output(struct box_process *process, uint64_t offset, struct box_str bytes)
{
	struct box_process_reader *reader = first_reader(process);
	if (!reader || !reader->attached || reader->end_sent || offset != process->given) {
		return;
	}
	process->given += bytes.len;
	if (process->given > process->out_end) {
		process->out_end = process->given;
	}
	reader->events->output(reader->arg, offset, bytes);
	if (first_reader(process) == reader) {
		report_end(reader);
	}
}

void box_process_skip_output(struct box_process *process, uint64_t offset)
{
	struct box_process_reader *reader = first_reader(process);
	if (reader && reader->attached && !reader->end_sent && offset > process->given) {
		process->given = offset;
		process->out_end = BOX_MAX(offset, process->out_end);
	}
}

/* Whether the box must be told at once, because it, and the process with it, would soon wait for that. */
static bool is_urgent(
	const struct box_process_reader *reader, const struct box_backend_process_follow *wanted)
{
	const struct box_process *process = reader->process;
	const struct box_backend_process_follow *sent = &reader->sent;
	uint64_t has = sent->until > process->given ? sent->until - process->given : 0;
	uint64_t gets = wanted->until > process->given ? wanted->until - process->given : 0;
	bool low = wanted->until > sent->until && has < gets / 2;
	return !reader->following || low || wanted->until < sent->until ||
		wanted->hold > sent->hold || wanted->freed - sent->freed >= TELL_BYTES;
}

void box_process_send_confirmed(struct box_process_reader *reader)
{
	if (reader->unsent) {
		reader->unsent = false;
		reader->sent = reader->wanted;
		follow(reader->process, &reader->sent);
	}
}

bool box_process_confirm(
	struct box_process_reader *reader, uint64_t confirmed, uint64_t until, uint64_t hold)
{
	struct box_process *process = reader->process;
	if (!process || !reader->attached || first_reader(process) != reader) {
		return true;
	}
	if (confirmed > process->given) {
		confirmed = process->given;
	}
	process->freed = BOX_MAX(confirmed, process->freed);
	reader->wanted = (struct box_backend_process_follow){
		.freed = process->freed,
		.from = reader->following ? BOX_BACKEND_PROCESS_CONTINUE : process->given,
		.until = until,
		.hold = hold,
	};
	reader->unsent = true;
	if (is_urgent(reader, &reader->wanted)) {
		reader->following = true;
		box_process_send_confirmed(reader);
	}
	return !reader->unsent;
}

/* --- readers --- */

struct box_process_reader *box_process_attach(
	struct box_process *process, const struct box_process_reader_events *events, void *arg)
{
	struct box_process_reader *reader = box_alloc(sizeof(*reader));
	reader->process = process;
	reader->events = events;
	reader->arg = arg;
	box_list_init(&reader->links);
	box_list_push(&process->idle_readers, &reader->links);
	return reader;
}

void box_process_read(struct box_process_reader *reader, uint64_t from)
{
	struct box_process *process = reader->process;
	reader->in_line = true;
	reader->from = from;
	if (!process) {
		reader->end_sent = true;
		reader->events->ended(reader->arg, NULL);
		return;
	}
	box_list_drop(&reader->links);
	box_list_init(&reader->links);
	box_list_push(&process->readers, &reader->links);
	box_process_serve_readers(process);
}

void box_process_detach(struct box_process_reader *reader)
{
	struct box_process *process = reader->process;
	bool was_first = process && first_reader(process) == reader;
	bool followed = reader->following;
	box_list_drop(&reader->links);
	free(reader);
	if (!was_first) {
		return;
	}
	if (followed) {
		const struct box_backend_process_follow none = {
			.freed = process->freed,
			.from = process->freed,
			.until = 0,
			.hold = HOLD_BYTES,
		};
		follow(process, &none);
	}
	box_process_serve_readers(process);
}

static struct box_process_reader *pop_reader(struct box_list *list)
{
	struct box_process_reader *reader = BOX_CONTAINER_OF(
		list->next, struct box_process_reader, links);
	box_list_drop(&reader->links);
	box_list_init(&reader->links);
	reader->process = NULL;
	reader->unsent = false;
	return reader;
}

void box_process_dismiss_readers(struct box_process *process)
{
	while (!box_list_empty(&process->idle_readers)) {
		(void)pop_reader(&process->idle_readers);
	}
	while (!box_list_empty(&process->readers)) {
		struct box_process_reader *reader = pop_reader(&process->readers);
		if (!reader->end_sent) {
			reader->end_sent = true;
			reader->events->ended(reader->arg, process);
		}
	}
}

/* --- input --- */

static size_t waiting_input(const struct box_process *process)
{
	return process->input.len - process->input_at;
}

/* How much of a process's waiting input counts against the limit for all processes: what exceeds its own share. */
static size_t counted(size_t held)
{
	return held > BOX_PROCESS_INPUT_BYTES_MIN ? held - BOX_PROCESS_INPUT_BYTES_MIN : 0;
}

static void count_input(struct box_process *process)
{
	struct box_sessions *sessions = process->session->sessions;
	sessions->input_bytes -= process->input_counted;
	process->input_counted = counted(process->input.len);
	sessions->input_bytes += process->input_counted;
}

void box_process_free_input(struct box_process *process)
{
	box_buf_free(&process->input);
	process->input = box_buf(BOX_PROCESS_INPUT_BYTES_MAX);
	process->input_at = 0;
	count_input(process);
}

/* Frees input that was sent, if that is all of it or the larger half; `now`: in any case. */
static void drop_sent_input(struct box_process *process, bool now)
{
	struct box_buf *input = &process->input;
	if (process->input_at == input->len) {
		box_buf_free(input);
		*input = box_buf(BOX_PROCESS_INPUT_BYTES_MAX);
		process->input_at = 0;
	} else if (now || process->input_at > input->len / 2) {
		input->len -= process->input_at;
		memmove(input->bytes, input->bytes + process->input_at, input->len);
		process->input_at = 0;
	}
}

static void pump_input(struct box_process *process)
{
	const struct box_backend_process_ops *ops = process->session->backend->processes;
	uint64_t under_way;
	while (waiting_input(process) > 0 &&
		(under_way = process->in_sent - process->in_taken) < FEED_BYTES) {
		size_t len = waiting_input(process);
		len = BOX_MIN(len, FEED_PIECE_BYTES);
		len = len < FEED_BYTES - under_way ? len : (size_t)(FEED_BYTES - under_way);
		ops->feed(process->session->box, process->number, process->in_sent,
			(struct box_str){process->input.bytes + process->input_at, len});
		process->in_sent += len;
		process->input_at += len;
	}
	drop_sent_input(process, false);
	count_input(process);
	if (process->in_ended && waiting_input(process) == 0) {
		ops->feed(process->session->box, process->number, process->in_sent, box_str(""));
	}
}

int box_process_queue_input(struct box_process_reader *reader, struct box_str bytes)
{
	struct box_process *process = reader->process;
	if (!process || !process->running) {
		return -ESRCH;
	}
	if (process->in_ended && bytes.len > 0) {
		return -EPIPE;
	}
	if (process->input.len + bytes.len > BOX_PROCESS_INPUT_BYTES_MAX) {
		drop_sent_input(process, true);
		count_input(process);
	}
	size_t more = counted(process->input.len + bytes.len) - process->input_counted;
	if (more > 0 && process->session->sessions->input_bytes + more > BOX_INPUTS_BYTES_MAX) {
		return -EAGAIN;
	}
	if (bytes.len == 0) {
		process->in_ended = true;
	} else if (box_buf_append(&process->input, bytes.bytes, bytes.len) < 0) {
		return -ENOBUFS;
	}
	count_input(process);
	return 0;
}

void box_process_flush_input(struct box_process_reader *reader)
{
	if (reader->process && reader->process->running) {
		pump_input(reader->process);
	}
}

int box_process_write_input(struct box_process_reader *reader, struct box_str bytes)
{
	int r = box_process_queue_input(reader, bytes);
	if (r == 0) {
		box_process_flush_input(reader);
	}
	return r;
}

bool box_process_input_full(const struct box_process_reader *reader)
{
	const struct box_process *process = reader->process;
	if (!process) {
		return false;
	}
	bool crowded = process->session->sessions->input_bytes > BOX_INPUTS_PAUSE_BYTES;
	return waiting_input(process) >
		(crowded ? BOX_PROCESS_INPUT_BYTES_MIN : BOX_PROCESS_INPUT_PAUSE_BYTES);
}

uint64_t box_process_input_end(const struct box_process_reader *reader)
{
	const struct box_process *process = reader->process;
	return process ? process->in_sent + waiting_input(process) : 0;
}

uint64_t box_process_output_end(const struct box_process_reader *reader)
{
	return reader->process ? reader->process->out_end : 0;
}

void box_process_set_input_taken(struct box_process *process, uint64_t taken)
{
	struct box_process_reader *reader = first_reader(process);
	process->in_taken = taken;
	pump_input(process);
	if (reader && reader->attached && !reader->end_sent) {
		reader->events->fed(reader->arg, taken);
	}
}

bool box_process_skips_line(const struct box_process_reader *reader)
{
	return reader->process && reader->process->skip_line;
}

void box_process_skip_line(struct box_process_reader *reader, bool skip)
{
	if (reader->process) {
		reader->process->skip_line = skip;
	}
}

/* --- peeks --- */

struct box_process_peek {
	struct box_list links;
	struct box_process *process;
	struct box_backend_process_peek wanted;
	uint64_t until_ms;
	box_process_peeked *done; /* NULL: cancelled */
	void *arg;
};

static struct box_process_peek *peek_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct box_process_peek, links);
}

static void ask_peek(const struct box_process_peek *peek)
{
	const struct box_process *process = peek->process;
	process->session->backend->processes->peek(
		process->session->box, process->number, &peek->wanted);
}

static void finish_peek(struct box_process_peek *peek,
	const struct box_backend_process_peeked *peeked, const struct box_err *err)
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
			"too many requests wait for output of one managed process (%d)",
			BOX_PROCESS_PEEKS_MAX);
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
	ask_peek(peek);
	*ret_peek = peek;
	return 0;
}

/* Requests the box's answer now. The peek stays in the list until the answer arrives, so that the box never has more
 * of them than the list. */
static void answer_soon(struct box_process_peek *peek)
{
	if (peek->wanted.wait) {
		peek->wanted.wait = false;
		ask_peek(peek);
	}
}

void box_process_peek_cancel(struct box_process_peek *peek)
{
	peek->done = NULL;
	peek->wanted.max = 0;
	answer_soon(peek);
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
		if (seen.bytes.len > peek->wanted.max) {
			seen.bytes.len = peek->wanted.max;
		}
		finish_peek(peek, &seen, NULL);
		return;
	}
}

/* When the time of a peek is over, the box is queried for what it has; if it does not answer then, it has no such
 * process. */
static void tick_peeks(struct box_process *process, uint64_t now_ms)
{
	struct box_list *next;
	struct box_err err;
	for (struct box_list *p = process->peeks.next; p != &process->peeks; p = next) {
		struct box_process_peek *peek = peek_at(p);
		next = p->next;
		if (now_ms >= peek->until_ms + PEEK_LATE_MS) {
			(void)box_err_set(&err, BOX_ERR_PROCESS_NOT_FOUND, ESRCH,
				"the box has no output of managed process %s", process->id);
			finish_peek(peek, NULL, &err);
		} else if (now_ms >= peek->until_ms) {
			answer_soon(peek);
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
		finish_peek(peek_at(process->peeks.next), NULL, &err);
	}
}
