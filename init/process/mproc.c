/* Owns the table of managed processes of a box: starts them, serves requests about them, holds their
 * output and reports how they ended. Called by the event loop in main.c, and by run.c when a child was
 * reaped or the mounter has started a process.
 *
 * A process never depends on a reader: output is held up to a limit, at which the process blocks or,
 * if it has a log, the oldest lines are dropped; of stderr only the end is kept. Packets that cannot
 * be sent now are not queued: each process remembers what is due, and box_mproc_resume sends it. */
#include "init/process/mproc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "init/guest/memory_kills.h"
#include "init/process/peeks.h"
#include "init/process/ring.h"
#include "init/process/tail.h"
#include "init/run/input.h"
#include "init/run/launch.h"
#include "init/run/run.h"
#include "protocol/init_process.h"

#define NS_PER_MS 1000000ULL
#define HELD_DEFAULT (1024U * 1024) /* limit of held output until the first FOLLOW_OUTPUT */
/* The most that a pipe holds: whatever comes after it was written by other processes. */
#define LAST_BYTES (1024U * 1024)
#define LAST_READS (LAST_BYTES / BOX_INIT_STDERR_TAIL_MAX)
#define EXIT_SIGNALED 128 /* exit code of a process killed by signal n: 128 + n */
#define SHRINK_MS 1000    /* unused memory for output is kept this long */
#define REPORT_MS 500     /* minimum time between two reports of stderr */
#define INPUT_REPORT_BYTES \
	(32U * 1024)                /* input written to stdin is reported after this many bytes */
#define INPUT_REPORT_MS 10          /* or after this time */
#define LOG_READ_BYTES (64U * 1024) /* space that a log makes for each read */

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): grouped by subject */
struct mproc {
	uint32_t id;         /* chosen by box-rpc; 0: this entry is free */
	uint32_t generation; /* counts the uses of this entry, to recognise stale events */

	/* Life cycle. */
	pid_t pid;     /* 0: not started yet, or ended */
	int events_fd; /* memory.events of its own cgroup, or -1 */
	bool unknown;  /* no such process: the entry only remembers that a query must be answered */
	bool mounting; /* waits for the mounter or is with it; has no pid yet */
	bool stop_requested; /* was asked to stop while `mounting` */
	bool ended;
	uint64_t kill_ns;                  /* when SIGKILL is due, or BOX_NEVER */
	struct box_init_process_state end; /* how it ended: its end, step and value */
	uint64_t kills_before; /* count of OOM kills when it started or was asked to stop */

	/* Stdout. */
	int out_fd;            /* our end of the pipe; -1: at its end */
	bool out_watched;      /* out_fd is in the event loop */
	bool has_log;          /* never blocks: the oldest output is dropped */
	bool blocked;          /* held_max is reached */
	bool blocked_reported; /* the last reported value of `blocked` */
	struct box_ring out;   /* the output that is held */
	uint64_t out_last;     /* once ended: output is read up to this offset */
	size_t held_max;       /* how many bytes may be held; the size of the log if there is one */
	uint64_t sent;         /* output before this offset was sent */
	uint64_t send_limit;   /* output before this offset may be sent */

	/* Stderr and stdin. */
	int err_fd;          /* our end of the pipe; -1: at its end */
	struct box_tail err; /* the end of what was written to stderr */
	struct box_input input;
	uint64_t in_received; /* how many bytes of input were received */

	/* What must be sent or done. */
	bool state_due;        /* PROCESS_STATE must be sent */
	uint64_t report_ns;    /* when stderr and `blocked` are reported, or BOX_NEVER */
	uint64_t reported_ns;  /* when they were reported last */
	uint64_t in_report_ns; /* when STDIN_TAKEN is sent, or BOX_NEVER */
	uint64_t shrink_ns;    /* when unused memory of `out` is released, or BOX_NEVER */
	struct box_peeks peeks;
};

static struct mproc all[BOX_INIT_PROCESSES_MAX];
static uint32_t used_count;           /* entries from here on were never used */
static uint64_t next_due = BOX_NEVER; /* when box_mproc_tick has something to do */

static void wake_at(uint64_t ns)
{
	next_due = BOX_MIN(ns, next_due);
}

static struct mproc *find(uint32_t id)
{
	for (uint32_t i = 0; i < used_count; i++) {
		if (all[i].id == id) {
			return &all[i];
		}
	}
	return NULL;
}

/* NULL if all entries are in use: box-rpc knows how many there may be. */
static struct mproc *add(uint32_t id)
{
	uint32_t index = 0;
	while (index < used_count && all[index].id != 0) {
		index++;
	}
	if (index == BOX_INIT_PROCESSES_MAX) {
		return NULL;
	}
	used_count += index == used_count;
	struct mproc *process = &all[index];
	*process = (struct mproc){
		.id = id,
		.generation = process->generation + 1,
		.out_fd = -1,
		.err_fd = -1,
		.events_fd = -1,
		.held_max = HELD_DEFAULT,
		.kill_ns = BOX_NEVER,
		.report_ns = BOX_NEVER,
		.in_report_ns = BOX_NEVER,
		.shrink_ns = BOX_NEVER,
	};
	box_input_init(&process->input);
	return process;
}

static struct box_watch watch_of(const struct mproc *process, enum box_watch_kind kind)
{
	return (struct box_watch){
		.kind = (uint8_t)kind,
		.index = (uint16_t)(process - all),
		.generation = process->generation,
	};
}

static void close_fd(int *fd)
{
	if (*fd >= 0) {
		(void)close(*fd); /* which removes it from the event loop too */
		*fd = -1;
	}
}

static void kill_group(const struct mproc *process, int number)
{
	/* It was not reaped yet, so the number of the group is still its own. */
	if (process->pid > 0) {
		(void)kill(-process->pid, number);
	}
}

/* OOM kills in its own cgroup, or in the cgroup of all other processes. */
static uint64_t count_kills(const struct mproc *process)
{
	return process->events_fd >= 0 ? box_memory_kills_read(process->events_fd)
				       : box_memory_kills_count();
}

/* --- answers --- */

/* Sends PROCESS_STATE if it is due and can be sent. Frees an `unknown` entry. */
static void report_state(struct mproc *process)
{
	/* While the mounter has it, nothing is known about it. */
	if (!process->state_due || process->mounting || box_control_blocked()) {
		return;
	}
	process->state_due = false;
	if (process->unknown) {
		const struct box_init_process_state none = {.phase = BOX_INIT_PROCESS_UNKNOWN};
		box_control_send(BOX_INIT_PROCESS_STATE, process->id, &none, sizeof(none));
		process->id = 0;
		return;
	}
	struct box_init_process_state state = process->end;
	state.phase = process->ended ? BOX_INIT_PROCESS_ENDED : BOX_INIT_PROCESS_RUNNING;
	state.pid = process->pid;
	state.out_ended = process->out_fd < 0;
	state.freed = process->out.start;
	state.out_end = process->out.end;
	state.in_have = process->in_received;
	state.in_ended = process->input.ended;
	state.in_taken = process->input.taken;
	state.blocked = process->blocked;
	process->blocked_reported = process->blocked;
	char *buffer = box_control_buffer();
	memcpy(buffer, &state, sizeof(state));
	size_t size = box_tail_copy(&process->err, buffer + sizeof(state));
	box_control_send_buffer(BOX_INIT_PROCESS_STATE, process->id, sizeof(state) + size);
}

static void report_input(struct mproc *process)
{
	if (process->input.taken != process->input.reported && !box_control_blocked()) {
		process->in_report_ns = BOX_NEVER;
		process->input.reported = process->input.taken;
		box_control_send(BOX_INIT_STDIN_TAKEN, process->id, &process->input.reported,
			sizeof(uint64_t));
	}
}

/* To report each line would cost as much as to write it. */
static void report_input_soon(struct mproc *process)
{
	uint64_t unreported = process->input.taken - process->input.reported;
	if (unreported >= INPUT_REPORT_BYTES || process->input.fd < 0) {
		report_input(process);
	} else if (unreported > 0 && process->in_report_ns == BOX_NEVER) {
		process->in_report_ns = box_event_loop_now_ns() + INPUT_REPORT_MS * NS_PER_MS;
		wake_at(process->in_report_ns);
	}
}

/* Output of a log that was dropped before it could be sent. */
static void send_skipped(struct mproc *process)
{
	const struct box_init_output_skipped skipped = {process->sent, process->out.start};
	if (process->sent < process->out.start && process->sent < process->send_limit &&
		!box_control_blocked()) {
		box_control_send(BOX_INIT_OUTPUT_SKIPPED, process->id, &skipped, sizeof(skipped));
		uint64_t by = skipped.to - skipped.from;
		process->send_limit = process->send_limit > UINT64_MAX - by
			? UINT64_MAX
			: process->send_limit + by;
		process->sent = skipped.to;
	}
}

/* Sends output up to the limit, packet by packet until the socket is full. */
static void send_output(struct mproc *process)
{
	const size_t packet_max = BOX_INIT_BYTES_MAX - sizeof(uint64_t);
	send_skipped(process);
	while (process->sent < process->send_limit && process->sent < process->out.end &&
		!box_control_blocked()) {
		uint64_t allowed = process->send_limit - process->sent;
		char *buffer = box_control_buffer();
		memcpy(buffer, &process->sent, sizeof(uint64_t));
		size_t size = box_ring_copy(&process->out, process->sent, buffer + sizeof(uint64_t),
			allowed < packet_max ? (size_t)allowed : packet_max);
		box_control_send_buffer(
			BOX_INIT_PROCESS_OUTPUT, process->id, sizeof(uint64_t) + size);
		process->sent += size;
	}
}

static void answer_peeks(struct mproc *process)
{
	const struct box_peeks_output output = {
		.out = &process->out,
		.err = &process->err,
		.out_ended = process->out_fd < 0,
		.err_ended = process->err_fd < 0,
	};
	if (process->id != 0 && !process->unknown) {
		box_peeks_answer(&process->peeks, process->id, &output);
	}
}

/* --- pipes --- */

static int make_pipe(int *ret_ours, int *ret_theirs, struct box_watch watch)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	*ret_ours = ends[0];
	*ret_theirs = ends[1];
	if (fcntl(ends[0], F_SETFL, O_NONBLOCK) < 0) {
		return -errno;
	}
	return box_event_loop_watch(ends[0], EPOLLIN, watch);
}

/* `theirs` are the ends of the process. On failure the caller closes what was opened. */
static int open_pipes(struct mproc *process, int theirs[3])
{
	int r = box_input_open(&process->input, watch_of(process, BOX_WATCH_MPROC_IN), &theirs[0]);
	if (r < 0) {
		return r;
	}
	r = make_pipe(&process->out_fd, &theirs[1], watch_of(process, BOX_WATCH_MPROC_OUT));
	process->out_watched = r == 0;
	if (r < 0) {
		return r;
	}
	return make_pipe(&process->err_fd, &theirs[2], watch_of(process, BOX_WATCH_MPROC_ERR));
}

static void watch_output(struct mproc *process, bool watched)
{
	if (process->out_fd < 0 || process->out_watched == watched) {
		return;
	}
	struct box_watch watch = watch_of(process, BOX_WATCH_MPROC_OUT);
	if (!watched) {
		box_event_loop_unwatch(process->out_fd);
	} else if (box_event_loop_watch(process->out_fd, EPOLLIN, watch) < 0) {
		return;
	}
	process->out_watched = watched;
}

/* Not reported at once: a process with a slow reader blocks and continues all the time. */
static void set_blocked(struct mproc *process, bool blocked)
{
	process->blocked = blocked;
	if (blocked != process->blocked_reported && process->report_ns == BOX_NEVER) {
		process->report_ns = box_event_loop_now_ns() + REPORT_MS * NS_PER_MS;
		wake_at(process->report_ns);
	}
}

/* A log always makes space. Without memory to grow it stays as small as it is. */
static ssize_t read_log(struct mproc *process)
{
	ssize_t got = -ENOMEM;
	for (int i = 0; i < 2 && got == -ENOMEM; i++) {
		size_t half = process->held_max / 2;
		size_t space = BOX_MIN(half, LOG_READ_BYTES);
		box_ring_drop(&process->out, process->held_max - space);
		got = box_ring_read(&process->out, process->out_fd, process->held_max);
		if (got == -ENOMEM && process->out.capacity > 0) {
			process->held_max = process->out.capacity;
		}
	}
	return got == -ENOMEM ? box_ring_discard(&process->out, process->out_fd) : got;
}

/* Reads once. After the end of the process an empty pipe is the end too, even if other processes
 * still have it open. */
static bool read_output(struct mproc *process)
{
	if (process->out_fd < 0) {
		return false;
	}
	ssize_t got = process->has_log
		? read_log(process)
		: box_ring_read(&process->out, process->out_fd, process->held_max);
	set_blocked(process, got == -ENOBUFS);
	watch_output(process, got != -ENOBUFS && got != -ENOMEM);
	bool last = process->ended && (got == -EAGAIN || process->out.end >= process->out_last);
	if (got == 0 || last) {
		close_fd(&process->out_fd);
		process->state_due = true;
	}
	return got > 0;
}

/* While the process runs, one read at a time: what was read is sent before more is read. */
static void pump_output(struct mproc *process)
{
	while (read_output(process) && process->ended) {
	}
	send_output(process);
	report_state(process);
	answer_peeks(process);
}

static void pump_stderr(struct mproc *process)
{
	ssize_t got = box_tail_read(&process->err, process->err_fd);
	if (got > 0 && process->report_ns == BOX_NEVER) {
		process->report_ns = process->reported_ns + REPORT_MS * NS_PER_MS;
		wake_at(process->report_ns);
	}
	if (got == 0 || (got < 0 && process->ended)) {
		close_fd(&process->err_fd);
	}
	answer_peeks(process);
}

/* --- start and end --- */

static void set_ended(struct mproc *process, uint32_t end, uint32_t step, int value)
{
	process->pid = 0;
	process->ended = true;
	process->kill_ns = BOX_NEVER;
	process->end = (struct box_init_process_state){.end = end, .step = step, .value = value};
	process->state_due = true;
	process->out_last = process->out.end + LAST_BYTES;
	box_input_close(&process->input);
	for (uint32_t i = 0; i < LAST_READS && process->err_fd >= 0; i++) {
		pump_stderr(process);
	}
	close_fd(&process->err_fd);
	close_fd(&process->events_fd);
	process->report_ns = BOX_NEVER; /* reported together with its end */
	pump_output(process);
}

/* In the new process, before anything else: its memory is charged to that cgroup from here on. */
static int enter_cgroup(struct box_launch *launch)
{
	const int *procs_fd = launch->prepare_data;
	launch->failure->step = BOX_INIT_STEP_CGROUP;
	return write(*procs_fd, "0", 1) == 1 ? 0 : -errno;
}

/* The mounter starts the process, and box_mproc_started is called. Takes the fds. */
static void start_with_mounts(struct mproc *process, const struct box_init_run *run,
	const char *body, int theirs[3], int *procs_fd)
{
	process->mounting = true;
	box_run_start_mproc(process->id | BOX_INIT_MOUNT_OF_PROCESS, process->id, run, body, theirs,
		TAKE_FD(*procs_fd));
}

/* Without mounts. 0, or -errno with `failure`. */
static int start_here(struct mproc *process, const struct box_init_run *run, char *body,
	const int theirs[3], int *procs_fd, struct box_launch_failure *failure)
{
	struct box_launch launch = {
		.run = run,
		.body = body,
		.stdin_fd = theirs[0],
		.stdout_fd = theirs[1],
		.stderr_fd = theirs[2],
		.search_path = true,
		.prepare = *procs_fd >= 0 ? enter_cgroup : NULL,
		.prepare_data = procs_fd,
		.failure = failure,
	};
	pid_t pid = box_launch(&launch);
	if (failure->errnum == 0) {
		process->pid = pid;
		return 0;
	}
	if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	return -failure->errnum;
}

static void start(struct mproc *process, const struct box_init_start_process *request, char *body,
	int *procs_fd)
{
	int theirs[3] = {-1, -1, -1};
	struct box_init_run run = {
		.flags = BOX_INIT_RUN_ARGV,
		.env_count = request->env_count,
		.env_size = request->env_size,
		.workdir_size = request->workdir_size,
		.command_size = request->command_size,
		.mount_count = request->mount_count,
	};
	struct box_launch_failure failure = {.step = BOX_INIT_STEP_PIPES};
	int r = open_pipes(process, theirs);
	failure.errnum = -r;
	if (r == 0 && request->mount_count > 0) {
		start_with_mounts(process, &run, body, theirs, procs_fd);
		return;
	}
	if (r == 0) {
		r = start_here(process, &run, body, theirs, procs_fd, &failure);
	}
	for (size_t i = 0; i < BOX_COUNT_OF(theirs); i++) {
		close_fd(&theirs[i]);
	}
	if (r < 0) {
		set_ended(process, BOX_INIT_END_FAILED, failure.step, failure.errnum);
	}
}

/* Sends SIGTERM if it has started; SIGKILL follows at kill_ns. */
static void stop(struct mproc *process)
{
	if (process->pid == 0) {
		return;
	}
	box_input_close(&process->input);
	/* From now on it ends because it was asked to, unless there are further OOM kills. */
	process->kills_before = count_kills(process);
	kill_group(process, SIGTERM);
	/* A stopped process would not receive SIGTERM. */
	kill_group(process, SIGCONT);
	wake_at(process->kill_ns);
}

void box_mproc_started(uint32_t id, pid_t pid, uint32_t step, int errnum)
{
	struct mproc *process = find(id);
	if (!process || !process->mounting) {
		/* It was forgotten meanwhile. */
		if (pid > 0) {
			(void)kill(-pid, SIGKILL);
		}
		return;
	}
	process->mounting = false;
	process->pid = pid;
	process->state_due = true;
	if (pid <= 0) {
		set_ended(process, BOX_INIT_END_FAILED, step, errnum);
	} else if (process->stop_requested) {
		stop(process); /* it may have written output before this */
	}
	report_state(process);
}

/* `verdict` < 0: the request is malformed, most likely because its fd could not be received. Its
 * sender waits for an answer, so the process is reported as failed. */
static void on_start(uint32_t id, struct box_control_request *request, int verdict)
{
	struct box_init_start_process wanted;
	struct mproc *process = add(id);
	if (!process) {
		return;
	}
	if (verdict < 0) {
		set_ended(process, BOX_INIT_END_FAILED, BOX_INIT_STEP_REQUEST, -verdict);
		return;
	}
	if (request->fd_error < 0) {
		set_ended(process, BOX_INIT_END_FAILED, BOX_INIT_STEP_CGROUP, -request->fd_error);
		return;
	}
	memcpy(&wanted, request->bytes, sizeof(wanted));
	process->events_fd = TAKE_FD(request->events_fd);
	process->kills_before = count_kills(process);
	process->has_log = wanted.log_bytes > 0;
	process->held_max = process->has_log ? wanted.log_bytes : process->held_max;
	start(process, &wanted, request->bytes + sizeof(wanted), &request->fd);
	/* The state of a process with mounts is reported once the mounter has started it. */
	if (!process->mounting && process->id == id) {
		process->state_due = true;
		report_state(process);
	}
}

/* --- requests --- */

static void on_query(struct mproc *process, uint32_t id)
{
	if (!process) {
		process = add(id);
		if (!process) {
			return;
		}
		process->unknown = true;
	}
	process->state_due = true;
	report_state(process);
}

/* To release memory after every line would cost more than the line. */
static void shrink_soon(struct mproc *process)
{
	if (process->shrink_ns == BOX_NEVER && box_ring_is_idle(&process->out)) {
		process->shrink_ns = box_event_loop_now_ns() + SHRINK_MS * NS_PER_MS;
		wake_at(process->shrink_ns);
	}
}

static void on_follow_output(struct mproc *process, const struct box_control_request *request)
{
	struct box_init_follow_output follow;
	memcpy(&follow, request->bytes, sizeof(follow));
	if (!process->has_log) {
		box_ring_free_upto(&process->out, follow.freed);
		shrink_soon(process);
		process->held_max = (size_t)follow.hold;
	}
	process->send_limit = follow.until;
	if (follow.from != BOX_INIT_FROM_CURRENT) {
		process->sent = BOX_MIN(follow.from, process->out.end);
	}
	if (process->sent < process->out.start && !process->has_log) {
		process->sent = process->out.start;
	}
	pump_output(process);
}

static void on_write_stdin(struct mproc *process, const struct box_control_request *request)
{
	uint64_t offset;
	memcpy(&offset, request->bytes, sizeof(offset));
	const char *bytes = request->bytes + sizeof(offset);
	size_t size = request->size - sizeof(offset);
	if (offset > process->in_received) {
		return; /* a gap: the bytes before were never sent */
	}
	uint64_t duplicate = process->in_received - offset;
	if (size == 0) {
		(void)box_input_put(&process->input, NULL, 0);
	} else if (duplicate < size) {
		uint32_t fresh = (uint32_t)(size - duplicate);
		process->in_received += fresh;
		/* To lose some of its input would be worse than to be killed. */
		if (box_input_put(&process->input, bytes + duplicate, fresh) < 0) {
			kill_group(process, SIGKILL);
		}
	}
	report_input_soon(process);
}

static void on_stop(struct mproc *process, const struct box_control_request *request)
{
	uint32_t grace_ms;
	memcpy(&grace_ms, request->bytes, sizeof(grace_ms));
	if (process->pid == 0 && !process->mounting) {
		return; /* it has ended */
	}
	process->stop_requested = process->stop_requested || process->mounting;
	/* A second request, such as that of a restarted box-rpc, does not delay SIGKILL. */
	uint64_t kill_ns = box_event_loop_now_ns() + grace_ms * NS_PER_MS;
	process->kill_ns = BOX_MIN(kill_ns, process->kill_ns);
	stop(process);
}

/* When it is reaped, nothing refers to it any more. */
static void on_forget(struct mproc *process)
{
	kill_group(process, SIGKILL);
	box_input_close(&process->input);
	close_fd(&process->out_fd);
	close_fd(&process->err_fd);
	close_fd(&process->events_fd);
	box_ring_close(&process->out);
	box_tail_close(&process->err);
	process->id = 0;
	process->pid = 0;
	process->mounting = false;
}

void box_mproc_request(struct box_control_request *request, int verdict)
{
	uint32_t id = request->header.id;
	uint32_t kind = request->header.kind;
	struct mproc *process = find(id);
	if (kind == BOX_INIT_START_PROCESS || kind == BOX_INIT_START_PROCESS_IN) {
		if (!process && id != 0) {
			on_start(id, request, verdict);
		}
		box_run_drop_mproc_mounts(id | BOX_INIT_MOUNT_OF_PROCESS);
		/* A process that is started later must not inherit them. */
		close_fd(&request->fd);
		close_fd(&request->events_fd);
		return;
	}
	if (verdict == 0 && kind == BOX_INIT_QUERY_PROCESS) {
		on_query(process, id);
		return;
	}
	if (verdict < 0 || !process || process->unknown) {
		return;
	}
	if (kind == BOX_INIT_FOLLOW_OUTPUT) {
		on_follow_output(process, request);
	} else if (kind == BOX_INIT_WRITE_STDIN) {
		on_write_stdin(process, request);
	} else if (kind == BOX_INIT_STOP_PROCESS) {
		on_stop(process, request);
	} else if (kind == BOX_INIT_PEEK) {
		box_peeks_add(&process->peeks, request->bytes);
		answer_peeks(process);
	} else if (kind == BOX_INIT_FORGET_PROCESS) {
		on_forget(process);
	}
}

/* --- events --- */

void box_mproc_event(struct box_watch watch)
{
	struct mproc *process = &all[watch.index];
	if (process->id == 0 || process->generation != watch.generation) {
		return; /* it was forgotten earlier in this turn of the event loop */
	}
	if (watch.kind == BOX_WATCH_MPROC_IN) {
		box_input_pump(&process->input);
		report_input_soon(process);
	} else if (watch.kind == BOX_WATCH_MPROC_ERR) {
		pump_stderr(process);
	} else {
		pump_output(process);
	}
}

/* In its own cgroup each kill concerns it, so a process that lost a child and failed counts too. */
static bool was_out_of_memory(const struct mproc *process, int status)
{
	bool failed = WIFEXITED(status) && WEXITSTATUS(status) != 0;
	return (box_memory_kills_looks_killed(status) || (process->events_fd >= 0 && failed)) &&
		count_kills(process) > process->kills_before;
}

static void set_reaped(struct mproc *process, int status)
{
	bool signaled = WIFSIGNALED(status);
	int value = signaled ? WTERMSIG(status) : WEXITSTATUS(status);
	if (was_out_of_memory(process, status)) {
		value += signaled ? EXIT_SIGNALED : 0;
		set_ended(process, BOX_INIT_END_MEMORY, BOX_INIT_STEP_NONE, value);
		return;
	}
	set_ended(process, signaled ? BOX_INIT_END_SIGNAL : BOX_INIT_END_EXIT, BOX_INIT_STEP_NONE,
		value);
}

bool box_mproc_reaped(pid_t pid, int status)
{
	for (uint32_t i = 0; i < used_count; i++) {
		struct mproc *process = &all[i];
		if (process->id == 0 || process->pid != pid) {
			continue;
		}
		/* Its children are killed with it, if they are still in its process group. */
		(void)kill(-pid, SIGKILL);
		set_reaped(process, status);
		return true;
	}
	return false;
}

uint64_t box_mproc_deadline(void)
{
	return next_due;
}

static void do_what_is_due(struct mproc *process, uint64_t now)
{
	/* While the mounter has it there is nothing to kill: it is due when it has started. */
	if (process->kill_ns <= now && !process->mounting) {
		process->kill_ns = BOX_NEVER;
		kill_group(process, SIGKILL);
	}
	if (process->report_ns <= now) {
		process->report_ns = BOX_NEVER;
		process->reported_ns = now;
		process->state_due = true;
		report_state(process);
	}
	if (process->in_report_ns <= now) {
		process->in_report_ns = BOX_NEVER;
		report_input(process);
	}
	if (process->shrink_ns <= now) {
		process->shrink_ns = BOX_NEVER;
		box_ring_shrink(&process->out);
	}
	wake_at(process->mounting ? BOX_NEVER : process->kill_ns);
	wake_at(process->report_ns);
	wake_at(process->in_report_ns);
	wake_at(process->shrink_ns);
}

void box_mproc_tick(void)
{
	uint64_t now = box_event_loop_now_ns();
	if (now < next_due) {
		return;
	}
	next_due = BOX_NEVER;
	for (uint32_t i = 0; i < used_count; i++) {
		if (all[i].id != 0 && !all[i].unknown) {
			do_what_is_due(&all[i], now);
		}
	}
}

void box_mproc_resume(void)
{
	for (uint32_t i = 0; i < used_count && !box_control_blocked(); i++) {
		if (all[i].id != 0) {
			report_input(&all[i]);
			send_output(&all[i]);
			answer_peeks(&all[i]);
			report_state(&all[i]); /* which may free the entry */
		}
	}
}
