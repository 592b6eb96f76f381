/* What managed processes write and read: their pipes, and the packets about that. Output goes as far
 * as it may and the socket takes it; what cannot go out now is remembered as what is due. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "init/control.h"
#include "init/process/mproc_internal.h"
#include "protocol/init_process.h"

#define NS_PER_MS 1000000ULL
#define TELL_MS 500 /* from one look at stderr to the next */
/* Input that was taken is told when it is so much, or so long ago. */
#define FED_BYTES (32U * 1024)
#define FED_MS 10
#define LOG_READ_BYTES (64U * 1024) /* that a log makes room for at once */

/* --- answers --- */

void box_mproc_report_state(struct box_mproc *kept)
{
	/* Of one that is at the mounter nothing is known yet. */
	if (!kept->state_due || kept->mounting || box_control_blocked()) {
		return;
	}
	kept->state_due = false;
	if (kept->unknown) {
		const struct box_init_process_state none = {.phase = BOX_INIT_PROCESS_UNKNOWN};
		box_control_send(BOX_INIT_PROCESS_STATE, kept->id, &none, sizeof(none));
		kept->id = 0;
		return;
	}
	struct box_init_process_state state = kept->end;
	state.phase = kept->ended ? BOX_INIT_PROCESS_ENDED : BOX_INIT_PROCESS_RUNNING;
	state.pid = kept->pid;
	state.out_ended = kept->out_fd < 0;
	state.freed = kept->out.start;
	state.out_end = kept->out.end;
	state.in_have = kept->in_have;
	state.in_ended = kept->input.ended;
	state.in_taken = kept->input.taken;
	state.blocked = kept->blocked;
	kept->told_blocked = kept->blocked;
	char *room = box_control_buffer();
	memcpy(room, &state, sizeof(state));
	size_t size = box_tail_copy(&kept->err, room + sizeof(state));
	box_control_send_buffer(BOX_INIT_PROCESS_STATE, kept->id, sizeof(state) + size);
}

void box_mproc_report_input(struct box_mproc *kept)
{
	if (kept->input.taken != kept->input.told && !box_control_blocked()) {
		kept->fed_ns = BOX_NEVER;
		kept->input.told = kept->input.taken;
		box_control_send(
			BOX_INIT_STDIN_TAKEN, kept->id, &kept->input.told, sizeof(uint64_t));
	}
}

/* To tell each line would cost as much as to carry it. */
void box_mproc_report_input_soon(struct box_mproc *kept)
{
	uint64_t untold = kept->input.taken - kept->input.told;
	if (untold >= FED_BYTES || kept->input.fd < 0) {
		box_mproc_report_input(kept);
	} else if (untold > 0 && kept->fed_ns == BOX_NEVER) {
		kept->fed_ns = box_event_loop_now_ns() + FED_MS * NS_PER_MS;
		box_mproc_due_at(kept->fed_ns);
	}
}

/* Of a log: whoever reads it has been too slow for this. */
static void tell_skipped(struct box_mproc *kept)
{
	const struct box_init_output_skipped skipped = {.from = kept->sent, .to = kept->out.start};
	if (kept->sent < kept->out.start && kept->sent < kept->until && !box_control_blocked()) {
		box_control_send(BOX_INIT_OUTPUT_SKIPPED, kept->id, &skipped, sizeof(skipped));
		uint64_t by = skipped.to - skipped.from;
		kept->until = kept->until > UINT64_MAX - by ? UINT64_MAX : kept->until + by;
		kept->sent = skipped.to;
	}
}

/* Sends what may be sent, one packet after the other until the socket is full. */
void box_mproc_send_output(struct box_mproc *kept)
{
	const size_t most = BOX_INIT_BYTES_MAX - sizeof(uint64_t);
	tell_skipped(kept);
	while (kept->sent < kept->until && kept->sent < kept->out.end && !box_control_blocked()) {
		uint64_t may = kept->until - kept->sent;
		char *room = box_control_buffer();
		memcpy(room, &kept->sent, sizeof(uint64_t));
		size_t size = box_ring_copy(&kept->out, kept->sent, room + sizeof(uint64_t),
			may < most ? (size_t)may : most);
		box_control_send_buffer(BOX_INIT_PROCESS_OUTPUT, kept->id, sizeof(uint64_t) + size);
		kept->sent += size;
	}
}

void box_mproc_answer_peeks(struct box_mproc *kept)
{
	const struct box_peeks_seen seen = {
		.out = &kept->out,
		.err = &kept->err,
		.out_ended = kept->out_fd < 0,
		.err_ended = kept->err_fd < 0,
	};
	if (kept->id != 0 && !kept->unknown) {
		box_peeks_answer(&kept->peeks, kept->id, &seen);
	}
}

/* --- pipes --- */

static int make_pipe(int *ret_own, int *ret_theirs, struct box_watch watch)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	*ret_own = ends[0];
	*ret_theirs = ends[1];
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
		return -errno;
	}
	return box_event_loop_watch(ends[0], EPOLLIN, watch);
}

void box_mproc_close_fd(int *fd)
{
	if (*fd >= 0) {
		(void)close(*fd); /* which unregisters it too */
		*fd = -1;
	}
}

static void watch_output(struct box_mproc *kept, bool watched)
{
	if (kept->out_fd < 0 || kept->out_watched == watched) {
		return;
	}
	if (!watched) {
		box_event_loop_unwatch(kept->out_fd);
	} else if (box_event_loop_watch(
			   kept->out_fd, EPOLLIN, box_mproc_watch(kept, BOX_WATCH_MPROC_OUT)) < 0) {
		return;
	}
	kept->out_watched = watched;
}

/* Not at once: one that is read, but slowly, blocks and goes on all the time. */
static void set_blocked(struct box_mproc *kept, bool blocked)
{
	kept->blocked = blocked;
	if (blocked != kept->told_blocked && kept->tell_ns == BOX_NEVER) {
		kept->tell_ns = box_event_loop_now_ns() + TELL_MS * NS_PER_MS;
		box_mproc_due_at(kept->tell_ns);
	}
}

/* Into a log there is always room. Without memory for more it stays as small as it is. */
static ssize_t read_log(struct box_mproc *kept)
{
	ssize_t got = -ENOMEM;
	for (int i = 0; i < 2 && got == -ENOMEM; i++) {
		size_t room = kept->hold / 2 < LOG_READ_BYTES ? kept->hold / 2 : LOG_READ_BYTES;
		box_ring_drop(&kept->out, kept->hold - room);
		got = box_ring_read(&kept->out, kept->out_fd, kept->hold);
		if (got == -ENOMEM && kept->out.capacity > 0) {
			kept->hold = kept->out.capacity;
		}
	}
	return got == -ENOMEM ? box_ring_discard(&kept->out, kept->out_fd) : got;
}

/* Reads once. Of one that has ended, an empty pipe is the end too: whoever else holds it is nobody
 * that was asked for. */
static bool read_output(struct box_mproc *kept)
{
	if (kept->out_fd < 0) {
		return false;
	}
	ssize_t got = kept->has_log ? read_log(kept)
				    : box_ring_read(&kept->out, kept->out_fd, kept->hold);
	set_blocked(kept, got == -ENOBUFS);
	watch_output(kept, got != -ENOBUFS && got != -ENOMEM);
	bool last = kept->ended && (got == -EAGAIN || kept->out.end >= kept->out_most);
	if (got == 0 || last) {
		box_mproc_close_fd(&kept->out_fd);
		kept->state_due = true;
	}
	return got > 0;
}

/* Nothing else is read before what is there has gone out: then the reader is behind, not we. */
void box_mproc_pump_output(struct box_mproc *kept)
{
	do {
		if (!read_output(kept)) {
			break;
		}
	} while (kept->ended);
	box_mproc_send_output(kept);
	box_mproc_report_state(kept);
	box_mproc_answer_peeks(kept);
}

void box_mproc_pump_stderr(struct box_mproc *kept)
{
	ssize_t got = box_tail_read(&kept->err, kept->err_fd);
	if (got > 0 && kept->tell_ns == BOX_NEVER) {
		kept->tell_ns = kept->told_ns + TELL_MS * NS_PER_MS;
		box_mproc_due_at(kept->tell_ns);
	}
	if (got == 0 || (got < 0 && kept->ended)) {
		box_mproc_close_fd(&kept->err_fd);
	}
	box_mproc_answer_peeks(kept);
}

int box_mproc_open_pipes(struct box_mproc *kept, int theirs[3])
{
	int r = box_input_open(&kept->input, box_mproc_watch(kept, BOX_WATCH_MPROC_IN), &theirs[0]);
	if (r == 0) {
		r = make_pipe(
			&kept->out_fd, &theirs[1], box_mproc_watch(kept, BOX_WATCH_MPROC_OUT));
		kept->out_watched = r == 0;
	}
	return r < 0
		? r
		: make_pipe(&kept->err_fd, &theirs[2], box_mproc_watch(kept, BOX_WATCH_MPROC_ERR));
}
