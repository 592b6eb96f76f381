/* Owns the table of managed processes: their pipes, what they wrote, how they ended. Nothing here
 * depends on anybody reading: output is held up to a bound, at which the process blocks; of stderr
 * only the end is kept. Answers that cannot go out now are remembered as what is due. */
#include "runtime/guest/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/guest/input.h"
#include "runtime/guest/launch.h"
#include "runtime/guest/peeks.h"
#include "runtime/guest/ring.h"
#include "runtime/guest/tail.h"
#include "runtime/guest/wire_kept.h"

#define NS_PER_MS 1000000ULL
#define HOLD_FIRST (1024U * 1024) /* until someone says otherwise */
/* The most that a pipe holds: what is behind was written by others than the one that has ended. */
#define LAST_BYTES (1024U * 1024)
#define LAST_READS (LAST_BYTES / BOX_GUEST_STDERR_MAX)

struct kept {
	uint32_t id; /* 0: a free place */
	uint32_t generation;
	pid_t pid;    /* 0: it has ended, or never was */
	bool unknown; /* only asked for: free again when that is told */
	bool ended;
	bool state_due;
	struct box_guest_state end; /* how, when it has ended */
	int out_fd;                 /* -1: at its end */
	bool out_watched;
	int err_fd;
	struct box_ring out;
	struct box_tail err;
	uint64_t out_most; /* of one that has ended: no more is taken */
	uint64_t sent;     /* of its output */
	uint64_t upto;     /* may be sent */
	size_t hold;
	struct box_input input;
	uint64_t in_have;
	uint64_t kill_ns; /* BOX_NEVER: not to be killed */
	struct box_peeks peeks;
};

static struct kept all[BOX_GUEST_KEPT_MAX];
static uint32_t places_used; /* no place from here on was ever used */
static uint64_t next_kill = BOX_NEVER;

static struct kept *find(uint32_t id)
{
	for (uint32_t i = 0; i < places_used; i++) {
		if (all[i].id == id) {
			return &all[i];
		}
	}
	return NULL;
}

/* NULL when there is no place: the caller knows how many there may be. */
static struct kept *take_place(uint32_t id)
{
	uint32_t place = 0;
	while (place < places_used && all[place].id != 0) {
		place++;
	}
	if (place == BOX_GUEST_KEPT_MAX) {
		return NULL;
	}
	places_used += place == places_used;
	struct kept *kept = &all[place];
	*kept = (struct kept){
		.id = id,
		.generation = kept->generation + 1,
		.out_fd = -1,
		.err_fd = -1,
		.hold = HOLD_FIRST,
		.kill_ns = BOX_NEVER,
	};
	box_input_init(&kept->input);
	return kept;
}

static struct box_watch watch_of(const struct kept *kept, enum box_watch_kind kind)
{
	return (struct box_watch){
		.kind = (uint8_t)kind,
		.index = (uint16_t)(kept - all),
		.generation = kept->generation,
	};
}

/* --- answers --- */

static void tell_state(struct kept *kept)
{
	if (!kept->state_due || box_control_blocked()) {
		return;
	}
	kept->state_due = false;
	if (kept->unknown) {
		const struct box_guest_state none = {.phase = BOX_GUEST_PHASE_UNKNOWN};
		box_control_send(BOX_GUEST_STATE, kept->id, &none, sizeof(none));
		kept->id = 0;
		return;
	}
	struct box_guest_state state = kept->end;
	state.phase = kept->ended ? BOX_GUEST_PHASE_ENDED : BOX_GUEST_PHASE_RUNNING;
	state.pid = kept->pid;
	state.out_ended = kept->out_fd < 0;
	state.freed = kept->out.start;
	state.out_end = kept->out.end;
	state.in_have = kept->in_have;
	state.in_taken = kept->input.taken;
	char *room = box_control_room();
	memcpy(room, &state, sizeof(state));
	size_t size = box_tail_copy(&kept->err, room + sizeof(state));
	box_control_send_room(BOX_GUEST_STATE, kept->id, sizeof(state) + size);
}

static void tell_fed(struct kept *kept)
{
	if (kept->input.taken != kept->input.told && !box_control_blocked()) {
		kept->input.told = kept->input.taken;
		box_control_send(BOX_GUEST_FED, kept->id, &kept->input.told, sizeof(uint64_t));
	}
}

/* Sends what may be sent, one packet after the other until the socket is full. */
static void send_output(struct kept *kept)
{
	const size_t most = BOX_GUEST_BYTES_MAX - sizeof(uint64_t);
	while (kept->sent < kept->upto && kept->sent < kept->out.end && !box_control_blocked()) {
		uint64_t may = kept->upto - kept->sent;
		char *room = box_control_room();
		memcpy(room, &kept->sent, sizeof(uint64_t));
		size_t size = box_ring_copy(&kept->out, kept->sent, room + sizeof(uint64_t),
			may < most ? (size_t)may : most);
		box_control_send_room(BOX_GUEST_OUT, kept->id, sizeof(uint64_t) + size);
		kept->sent += size;
	}
}

static void tell_peeks(struct kept *kept)
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
	return box_loop_watch(ends[0], EPOLLIN, watch);
}

static void close_fd(int *fd)
{
	if (*fd >= 0) {
		(void)close(*fd); /* which unregisters it too */
		*fd = -1;
	}
}

static void watch_output(struct kept *kept, bool watched)
{
	if (kept->out_fd < 0 || kept->out_watched == watched) {
		return;
	}
	if (!watched) {
		box_loop_unwatch(kept->out_fd);
	} else if (box_loop_watch(kept->out_fd, EPOLLIN, watch_of(kept, BOX_WATCH_KEPT_OUT)) < 0) {
		return;
	}
	kept->out_watched = watched;
}

/* Reads once. Of one that has ended, an empty pipe is the end too: whoever else holds it is nobody
 * that was asked for. */
static bool read_output(struct kept *kept)
{
	if (kept->out_fd < 0) {
		return false;
	}
	ssize_t got = box_ring_read(&kept->out, kept->out_fd, kept->hold);
	watch_output(kept, got != -ENOBUFS && got != -ENOMEM);
	bool last = kept->ended && (got == -EAGAIN || kept->out.end >= kept->out_most);
	if (got == 0 || last) {
		close_fd(&kept->out_fd);
		kept->state_due = true;
	}
	return got > 0;
}

/* Nothing else is read before what is there has gone out: then the reader is behind, not we. */
static void pump_output(struct kept *kept)
{
	do {
		if (!read_output(kept)) {
			break;
		}
	} while (kept->ended);
	send_output(kept);
	tell_state(kept);
	tell_peeks(kept);
}

static void pump_stderr(struct kept *kept)
{
	ssize_t got = box_tail_read(&kept->err, kept->err_fd);
	if (got == 0 || (got < 0 && kept->ended)) {
		close_fd(&kept->err_fd);
	}
	tell_peeks(kept);
}

/* --- the beginning --- */

static int open_pipes(struct kept *kept, int theirs[3])
{
	int r = box_input_open(&kept->input, watch_of(kept, BOX_WATCH_KEPT_IN), &theirs[0]);
	if (r == 0) {
		r = make_pipe(&kept->out_fd, &theirs[1], watch_of(kept, BOX_WATCH_KEPT_OUT));
		kept->out_watched = r == 0;
	}
	return r < 0 ? r : make_pipe(&kept->err_fd, &theirs[2], watch_of(kept, BOX_WATCH_KEPT_ERR));
}

static void set_ended(struct kept *kept, uint32_t end, uint32_t step, int value)
{
	kept->pid = 0;
	kept->ended = true;
	kept->kill_ns = BOX_NEVER;
	kept->end = (struct box_guest_state){.end = end, .step = step, .value = value};
	kept->state_due = true;
	kept->out_most = kept->out.end + LAST_BYTES;
	box_input_close(&kept->input);
	for (uint32_t i = 0; i < LAST_READS && kept->err_fd >= 0; i++) {
		pump_stderr(kept);
	}
	close_fd(&kept->err_fd);
	pump_output(kept);
}

static void start(struct kept *kept, const struct box_guest_keep *keep, char *body)
{
	int theirs[3] = {-1, -1, -1};
	struct box_guest_run run = {
		.flags = BOX_GUEST_RUN_ARGV,
		.env_count = keep->env_count,
		.env_size = keep->env_size,
		.workdir_size = keep->workdir_size,
		.command_size = keep->command_size,
	};
	struct box_launch_failure failure = {.step = BOX_GUEST_STEP_PIPES};
	failure.errnum = -open_pipes(kept, theirs);
	pid_t pid = -1;
	if (failure.errnum == 0) {
		struct box_launch launch = {
			.run = &run,
			.body = body,
			.stdin_fd = theirs[0],
			.stdout_fd = theirs[1],
			.stderr_fd = theirs[2],
			.search_path = true,
			.failure = &failure,
		};
		pid = box_launch(&launch);
	}
	for (size_t i = 0; i < 3; i++) {
		close_fd(&theirs[i]);
	}
	if (failure.errnum == 0) {
		kept->pid = pid;
		return;
	}
	if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	set_ended(kept, BOX_GUEST_END_FAILED, failure.step, failure.errnum);
}

static void on_keep(uint32_t id, struct box_control_request *request)
{
	struct box_guest_keep keep;
	struct kept *kept = take_place(id);
	if (kept) {
		memcpy(&keep, request->bytes, sizeof(keep));
		start(kept, &keep, request->bytes + sizeof(keep));
		kept->state_due = true;
		tell_state(kept);
	}
}

/* --- requests --- */

static void on_ask(struct kept *kept, uint32_t id)
{
	if (!kept) {
		kept = take_place(id);
		if (!kept) {
			return;
		}
		kept->unknown = true;
	}
	kept->state_due = true;
	tell_state(kept);
}

static void on_follow(struct kept *kept, const struct box_control_request *request)
{
	struct box_guest_follow follow;
	memcpy(&follow, request->bytes, sizeof(follow));
	box_ring_free_upto(&kept->out, follow.freed);
	kept->hold = (size_t)follow.hold;
	kept->upto = follow.upto;
	if (follow.from != BOX_GUEST_GO_ON) {
		kept->sent = follow.from < kept->out.end ? follow.from : kept->out.end;
	}
	if (kept->sent < kept->out.start) {
		kept->sent = kept->out.start;
	}
	pump_output(kept);
}

static void on_feed(struct kept *kept, const struct box_control_request *request)
{
	uint64_t offset;
	memcpy(&offset, request->bytes, sizeof(offset));
	const char *bytes = request->bytes + sizeof(offset);
	size_t size = request->size - sizeof(offset);
	if (offset > kept->in_have) {
		return; /* a gap: what is missing was never sent */
	}
	uint64_t before = kept->in_have - offset;
	if (size == 0) {
		(void)box_input_put(&kept->input, NULL, 0);
	} else if (before < size) {
		uint32_t fresh = (uint32_t)(size - before);
		kept->in_have += fresh;
		(void)box_input_put(&kept->input, bytes + before, fresh);
	}
	tell_fed(kept);
}

static void kill_group(const struct kept *kept, int number)
{
	/* Not reaped yet, so the number is its own. */
	if (kept->pid > 0) {
		(void)kill(-kept->pid, number);
	}
}

static void on_halt(struct kept *kept, const struct box_control_request *request)
{
	uint32_t grace_ms;
	memcpy(&grace_ms, request->bytes, sizeof(grace_ms));
	if (kept->pid == 0) {
		return;
	}
	box_input_close(&kept->input);
	kill_group(kept, SIGTERM);
	/* One that is stopped would not even notice. */
	kill_group(kept, SIGCONT);
	kept->kill_ns = box_now_ns() + grace_ms * NS_PER_MS;
	next_kill = kept->kill_ns < next_kill ? kept->kill_ns : next_kill;
}

/* Its end, when it is reaped, is nobody's any more. */
static void on_drop(struct kept *kept)
{
	kill_group(kept, SIGKILL);
	box_input_close(&kept->input);
	close_fd(&kept->out_fd);
	close_fd(&kept->err_fd);
	box_ring_close(&kept->out);
	box_tail_close(&kept->err);
	kept->id = 0;
	kept->pid = 0;
}

void box_kept_request(struct box_control_request *request)
{
	uint32_t id = request->header.id;
	struct kept *kept = find(id);
	if (request->header.kind == BOX_GUEST_ASK) {
		on_ask(kept, id);
	} else if (request->header.kind == BOX_GUEST_KEEP) {
		if (!kept) {
			on_keep(id, request);
		}
	} else if (!kept || kept->unknown) {
		return;
	} else if (request->header.kind == BOX_GUEST_FOLLOW) {
		on_follow(kept, request);
	} else if (request->header.kind == BOX_GUEST_FEED) {
		on_feed(kept, request);
	} else if (request->header.kind == BOX_GUEST_HALT) {
		on_halt(kept, request);
	} else if (request->header.kind == BOX_GUEST_PEEK) {
		box_peeks_put(&kept->peeks, request->bytes);
		tell_peeks(kept);
	} else if (request->header.kind == BOX_GUEST_DROP) {
		on_drop(kept);
	}
}

/* --- events --- */

void box_kept_event(struct box_watch watch)
{
	struct kept *kept = &all[watch.index];
	if (kept->id == 0 || kept->generation != watch.generation) {
		return; /* it was dropped earlier in this turn */
	}
	if (watch.kind == BOX_WATCH_KEPT_IN) {
		box_input_pump(&kept->input);
		tell_fed(kept);
	} else if (watch.kind == BOX_WATCH_KEPT_ERR) {
		pump_stderr(kept);
	} else {
		pump_output(kept);
	}
}

bool box_kept_reaped(pid_t pid, int status)
{
	for (uint32_t i = 0; i < places_used; i++) {
		struct kept *kept = &all[i];
		if (kept->id == 0 || kept->pid != pid) {
			continue;
		}
		/* What it started goes with it, as far as it has stayed in its group. */
		(void)kill(-pid, SIGKILL);
		bool signaled = WIFSIGNALED(status);
		set_ended(kept, signaled ? BOX_GUEST_END_SIGNAL : BOX_GUEST_END_EXIT,
			BOX_GUEST_STEP_NONE, signaled ? WTERMSIG(status) : WEXITSTATUS(status));
		return true;
	}
	return false;
}

uint64_t box_kept_deadline(void)
{
	return next_kill;
}

void box_kept_tick(void)
{
	uint64_t now = box_now_ns();
	if (now < next_kill) {
		return;
	}
	next_kill = BOX_NEVER;
	for (uint32_t i = 0; i < places_used; i++) {
		struct kept *kept = &all[i];
		if (kept->id != 0 && kept->kill_ns <= now) {
			kept->kill_ns = BOX_NEVER;
			kill_group(kept, SIGKILL);
		}
		if (kept->id != 0 && kept->kill_ns < next_kill) {
			next_kill = kept->kill_ns;
		}
	}
}

void box_kept_resume(void)
{
	for (uint32_t i = 0; i < places_used && !box_control_blocked(); i++) {
		if (all[i].id != 0) {
			tell_fed(&all[i]);
			send_output(&all[i]);
			tell_peeks(&all[i]);
			tell_state(&all[i]); /* which may free it */
		}
	}
}
