/* Who reads a managed process, one after the other, and what goes into it. Only the first in line is
 * attached; the process is read up to what that one lets come. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "runtime/session/process_internal.h"

#define HOLD_BYTES (1024 * BOX_KIB)     /* while nobody says otherwise */
#define FEED_BYTES (256 * BOX_KIB)      /* of input on their way, not taken */
#define TELL_BYTES (64 * BOX_KIB)       /* confirmed, then the box is told at once */
#define FEED_PIECE_BYTES (63 * BOX_KIB) /* in one packet */

static struct box_process_reader *first_reader(const struct box_process *process)
{
	return box_list_empty(&process->readers)
		? NULL
		: BOX_CONTAINER_OF(process->readers.next, struct box_process_reader, links);
}

static void follow(struct box_process *process, const struct box_backend_process_follow *wanted)
{
	process->session->backend->kept->follow(process->session->box, process->number, wanted);
}

/* --- out --- */

static void tell_end(struct box_process_reader *reader)
{
	const struct box_process *process = reader->process;
	if (!reader->told_end && !process->running && process->out_ended &&
		process->given >= process->out_end) {
		reader->told_end = true;
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
		/* There is no more than up to out_end, whatever it asks for. */
		from = BOX_MIN(from, process->out_end);
		process->given = BOX_MAX(from, process->freed);
		reader->events->attached(
			reader->arg, process->given, box_process_input_end(reader));
	}
	/* It may have gone meanwhile, and another be the first. */
	if (first_reader(process) == reader) {
		tell_end(reader);
	}
}

void box_process_deliver_output(struct box_process *process, uint64_t offset, struct box_str bytes)
{
	struct box_process_reader *reader = first_reader(process);
	if (!reader || !reader->attached || reader->told_end || offset != process->given) {
		return;
	}
	process->given += bytes.len;
	if (process->given > process->out_end) {
		process->out_end = process->given;
	}
	reader->events->output(reader->arg, offset, bytes);
	if (first_reader(process) == reader) {
		tell_end(reader);
	}
}

void box_process_skip_output(struct box_process *process, uint64_t offset)
{
	struct box_process_reader *reader = first_reader(process);
	if (reader && reader->attached && !reader->told_end && offset > process->given) {
		process->given = offset;
		process->out_end = BOX_MAX(offset, process->out_end);
	}
}

/* Whether the box must know at once: soon it would wait for that, with the process. */
static bool is_urgent(
	const struct box_process_reader *reader, const struct box_backend_process_follow *wanted)
{
	const struct box_process *process = reader->process;
	const struct box_backend_process_follow *told = &reader->told;
	uint64_t has = told->until > process->given ? told->until - process->given : 0;
	uint64_t gets = wanted->until > process->given ? wanted->until - process->given : 0;
	bool low = wanted->until > told->until && has < gets / 2;
	return !reader->following || low || wanted->until < told->until ||
		wanted->hold > told->hold || wanted->freed - told->freed >= TELL_BYTES;
}

void box_process_send_confirmed(struct box_process_reader *reader)
{
	if (reader->untold) {
		reader->untold = false;
		reader->told = reader->wanted;
		follow(reader->process, &reader->told);
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
	reader->untold = true;
	if (is_urgent(reader, &reader->wanted)) {
		reader->following = true;
		box_process_send_confirmed(reader);
	}
	return !reader->untold;
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
	box_list_push(&process->visitors, &reader->links);
	return reader;
}

void box_process_read(struct box_process_reader *reader, uint64_t from)
{
	struct box_process *process = reader->process;
	reader->in_line = true;
	reader->from = from;
	if (!process) {
		reader->told_end = true;
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
	reader->untold = false;
	return reader;
}

void box_process_dismiss_readers(struct box_process *process)
{
	while (!box_list_empty(&process->visitors)) {
		(void)pop_reader(&process->visitors);
	}
	while (!box_list_empty(&process->readers)) {
		struct box_process_reader *reader = pop_reader(&process->readers);
		if (!reader->told_end) {
			reader->told_end = true;
			reader->events->ended(reader->arg, process);
		}
	}
}

/* --- in --- */

static size_t waiting_input(const struct box_process *process)
{
	return process->input.len - process->input_at;
}

/* What is held counts for all together, but for what each has for itself. */
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

/* What was sent goes when it is all, or the larger half; `now`: in any case. */
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
	const struct box_backend_process_ops *ops = process->session->backend->kept;
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
	if (reader && reader->attached && !reader->told_end) {
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
