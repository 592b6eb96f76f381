/* Owns the table of managed processes: how they begin, what is asked of them, how they ended. Nothing
 * here depends on anybody reading: output is held up to a bound, at which the process blocks or, where
 * it has a log, the oldest goes; of stderr only the end is kept. */
#include "init/process/mproc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "init/guest/memory_kills.h"
#include "init/process/mproc_internal.h"
#include "init/run/launch.h"
#include "init/run/run_internal.h"

#define NS_PER_MS 1000000ULL
#define HOLD_FIRST (1024U * 1024) /* until someone says otherwise */
/* The most that a pipe holds: what is behind was written by others than the one that has ended. */
#define LAST_BYTES (1024U * 1024)
#define LAST_READS (LAST_BYTES / BOX_INIT_STDERR_TAIL_MAX)
#define EXIT_SIGNALED 128 /* and the signal: the exit code of one that was killed */
#define SHRINK_MS 1000    /* memory of output stays so long for what comes next */

static struct box_mproc all[BOX_INIT_PROCESSES_MAX];
static uint32_t places_used;          /* no place from here on was ever used */
static uint64_t next_due = BOX_NEVER; /* a kill, something to tell, memory to let go */

void box_mproc_due_at(uint64_t ns)
{
	next_due = BOX_MIN(ns, next_due);
}

static struct box_mproc *find(uint32_t id)
{
	for (uint32_t i = 0; i < places_used; i++) {
		if (all[i].id == id) {
			return &all[i];
		}
	}
	return NULL;
}

/* NULL when there is no place: the caller knows how many there may be. */
static struct box_mproc *take_place(uint32_t id)
{
	uint32_t place = 0;
	while (place < places_used && all[place].id != 0) {
		place++;
	}
	if (place == BOX_INIT_PROCESSES_MAX) {
		return NULL;
	}
	places_used += place == places_used;
	struct box_mproc *kept = &all[place];
	*kept = (struct box_mproc){
		.id = id,
		.generation = kept->generation + 1,
		.out_fd = -1,
		.err_fd = -1,
		.events = -1,
		.hold = HOLD_FIRST,
		.kill_ns = BOX_NEVER,
		.tell_ns = BOX_NEVER,
		.fed_ns = BOX_NEVER,
		.shrink_ns = BOX_NEVER,
	};
	box_input_init(&kept->input);
	return kept;
}

struct box_watch box_mproc_watch(const struct box_mproc *kept, enum box_watch_kind kind)
{
	return (struct box_watch){
		.kind = (uint8_t)kind,
		.index = (uint16_t)(kept - all),
		.generation = kept->generation,
	};
}

static void kill_group(const struct box_mproc *kept, int number)
{
	/* Not reaped yet, so the number is its own. */
	if (kept->pid > 0) {
		(void)kill(-kept->pid, number);
	}
}

/* Where it is: in a group of its own, or among all others. */
static uint64_t count_kills(const struct box_mproc *kept)
{
	return kept->events >= 0 ? box_memory_kills_read(kept->events) : box_memory_kills_count();
}

/* --- the beginning --- */

static void set_ended(struct box_mproc *kept, uint32_t end, uint32_t step, int value)
{
	kept->pid = 0;
	kept->ended = true;
	kept->kill_ns = BOX_NEVER;
	kept->end = (struct box_init_process_state){.end = end, .step = step, .value = value};
	kept->state_due = true;
	kept->out_most = kept->out.end + LAST_BYTES;
	box_input_close(&kept->input);
	for (uint32_t i = 0; i < LAST_READS && kept->err_fd >= 0; i++) {
		box_mproc_pump_stderr(kept);
	}
	box_mproc_close_fd(&kept->err_fd);
	box_mproc_close_fd(&kept->events);
	kept->tell_ns = BOX_NEVER; /* with its end */
	box_mproc_pump_output(kept);
}

/* In the new process, before anything else: what it is from now on counts there. */
static int enter_group(struct box_launch *launch)
{
	const int *door = launch->prepare_data;
	launch->failure->step = BOX_INIT_STEP_CGROUP;
	return write(*door, "0", 1) == 1 ? 0 : -errno;
}

/* The mounter starts it, and box_mproc_started is told. The fds are given away. */
static void start_mounted(struct box_mproc *kept, const struct box_init_run *run, const char *body,
	int theirs[3], int *door)
{
	kept->mounting = true;
	box_mounter_queue_add_mproc(
		kept->id | BOX_INIT_MOUNT_OF_PROCESS, kept->id, run, body, theirs, TAKE_FD(*door));
	theirs[0] = -1;
	theirs[1] = -1;
	theirs[2] = -1;
}

static void start(
	struct box_mproc *kept, const struct box_init_start_process *keep, char *body, int *door)
{
	int theirs[3] = {-1, -1, -1};
	struct box_init_run run = {
		.flags = BOX_INIT_RUN_ARGV,
		.env_count = keep->env_count,
		.env_size = keep->env_size,
		.workdir_size = keep->workdir_size,
		.command_size = keep->command_size,
		.mount_count = keep->mount_count,
	};
	struct box_launch_failure failure = {.step = BOX_INIT_STEP_PIPES};
	failure.errnum = -box_mproc_open_pipes(kept, theirs);
	pid_t pid = -1;
	if (failure.errnum == 0 && keep->mount_count > 0) {
		start_mounted(kept, &run, body, theirs, door);
		return;
	}
	if (failure.errnum == 0) {
		struct box_launch launch = {
			.run = &run,
			.body = body,
			.stdin_fd = theirs[0],
			.stdout_fd = theirs[1],
			.stderr_fd = theirs[2],
			.search_path = true,
			.prepare = *door >= 0 ? enter_group : NULL,
			.prepare_data = door,
			.failure = &failure,
		};
		pid = box_launch(&launch);
	}
	for (size_t i = 0; i < 3; i++) {
		box_mproc_close_fd(&theirs[i]);
	}
	if (failure.errnum == 0) {
		kept->pid = pid;
		return;
	}
	if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	set_ended(kept, BOX_INIT_END_FAILED, failure.step, failure.errnum);
}

/* Asks it to end, if it has begun; what it does not do until kill_ns is done to it. */
static void halt(struct box_mproc *kept)
{
	if (kept->pid == 0) {
		return;
	}
	box_input_close(&kept->input);
	/* From now on it ends because of that, unless more are killed. */
	kept->begin_kills = count_kills(kept);
	kill_group(kept, SIGTERM);
	/* One that is stopped would not even notice. */
	kill_group(kept, SIGCONT);
	box_mproc_due_at(kept->kill_ns);
}

void box_mproc_started(uint32_t id, pid_t pid, uint32_t step, int errnum)
{
	struct box_mproc *kept = find(id);
	if (!kept || !kept->mounting) {
		/* Dropped meanwhile. */
		if (pid > 0) {
			(void)kill(-pid, SIGKILL);
		}
		return;
	}
	kept->mounting = false;
	kept->pid = pid;
	kept->state_due = true;
	if (pid <= 0) {
		set_ended(kept, BOX_INIT_END_FAILED, step, errnum);
	} else if (kept->halted) {
		halt(kept); /* it may have written something before we heard of it */
	}
	box_mproc_report_state(kept);
}

/* One that is not well-formed: most likely there was no room for its fd. Someone waits for it. */
static void on_keep(uint32_t id, struct box_control_request *request, int verdict)
{
	struct box_init_start_process keep;
	struct box_mproc *kept = take_place(id);
	if (!kept) {
		return;
	}
	if (verdict < 0) {
		set_ended(kept, BOX_INIT_END_FAILED, BOX_INIT_STEP_REQUEST, -verdict);
		return;
	}
	if (request->lack < 0) {
		set_ended(kept, BOX_INIT_END_FAILED, BOX_INIT_STEP_CGROUP, -request->lack);
		return;
	}
	memcpy(&keep, request->bytes, sizeof(keep));
	kept->events = request->events;
	request->events = -1;
	kept->begin_kills = count_kills(kept);
	kept->has_log = keep.log_bytes > 0;
	kept->hold = kept->has_log ? keep.log_bytes : kept->hold;
	start(kept, &keep, request->bytes + sizeof(keep), &request->fd);
	/* One that is at the mounter is told when there is something to tell. */
	if (!kept->mounting && kept->id == id) {
		kept->state_due = true;
		box_mproc_report_state(kept);
	}
}

/* --- requests --- */

static void on_ask(struct box_mproc *kept, uint32_t id)
{
	if (!kept) {
		kept = take_place(id);
		if (!kept) {
			return;
		}
		kept->unknown = true;
	}
	kept->state_due = true;
	box_mproc_report_state(kept);
}

/* To let it go with every line would cost more than the line. */
static void shrink_soon(struct box_mproc *kept)
{
	if (kept->shrink_ns == BOX_NEVER && box_ring_is_idle(&kept->out)) {
		kept->shrink_ns = box_event_loop_now_ns() + SHRINK_MS * NS_PER_MS;
		box_mproc_due_at(kept->shrink_ns);
	}
}

static void on_follow(struct box_mproc *kept, const struct box_control_request *request)
{
	struct box_init_follow_output follow;
	memcpy(&follow, request->bytes, sizeof(follow));
	if (!kept->has_log) {
		box_ring_free_upto(&kept->out, follow.freed);
		shrink_soon(kept);
		kept->hold = (size_t)follow.hold;
	}
	kept->until = follow.until;
	if (follow.from != BOX_INIT_FROM_CURRENT) {
		kept->sent = BOX_MIN(follow.from, kept->out.end);
	}
	if (kept->sent < kept->out.start && !kept->has_log) {
		kept->sent = kept->out.start;
	}
	box_mproc_pump_output(kept);
}

static void on_feed(struct box_mproc *kept, const struct box_control_request *request)
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
		/* A gap in its input would be worse than its end. */
		if (box_input_put(&kept->input, bytes + before, fresh) < 0) {
			kill_group(kept, SIGKILL);
		}
	}
	box_mproc_report_input_soon(kept);
}

static void on_halt(struct box_mproc *kept, const struct box_control_request *request)
{
	uint32_t grace_ms;
	memcpy(&grace_ms, request->bytes, sizeof(grace_ms));
	if (kept->pid == 0 && !kept->mounting) {
		return; /* it has ended */
	}
	kept->halted = kept->halted || kept->mounting;
	/* Whoever asks again, as a new box-rpc does, does not make it later. */
	uint64_t kill_ns = box_event_loop_now_ns() + grace_ms * NS_PER_MS;
	kept->kill_ns = BOX_MIN(kill_ns, kept->kill_ns);
	halt(kept);
}

/* Its end, when it is reaped, is nobody's any more. */
static void on_drop(struct box_mproc *kept)
{
	kill_group(kept, SIGKILL);
	box_input_close(&kept->input);
	box_mproc_close_fd(&kept->out_fd);
	box_mproc_close_fd(&kept->err_fd);
	box_mproc_close_fd(&kept->events);
	box_ring_close(&kept->out);
	box_tail_close(&kept->err);
	kept->id = 0;
	kept->pid = 0;
	kept->mounting = false;
}

void box_mproc_request(struct box_control_request *request, int verdict)
{
	uint32_t id = request->header.id;
	uint32_t kind = request->header.kind;
	struct box_mproc *kept = find(id);
	if (kind == BOX_INIT_START_PROCESS || kind == BOX_INIT_START_PROCESS_IN) {
		if (!kept && id != 0) {
			on_keep(id, request, verdict);
		}
		box_mounter_queue_drop_mproc(id | BOX_INIT_MOUNT_OF_PROCESS);
		/* A door is for one moment: nobody who is started later may find it. */
		box_mproc_close_fd(&request->fd);
		box_mproc_close_fd(&request->events);
		return;
	}
	if (verdict == 0 && kind == BOX_INIT_QUERY_PROCESS) {
		on_ask(kept, id);
		return;
	}
	if (verdict < 0 || !kept || kept->unknown) {
		return;
	}
	if (kind == BOX_INIT_FOLLOW_OUTPUT) {
		on_follow(kept, request);
	} else if (kind == BOX_INIT_WRITE_STDIN) {
		on_feed(kept, request);
	} else if (kind == BOX_INIT_STOP_PROCESS) {
		on_halt(kept, request);
	} else if (kind == BOX_INIT_PEEK) {
		box_peeks_put(&kept->peeks, request->bytes);
		box_mproc_answer_peeks(kept);
	} else if (kind == BOX_INIT_FORGET_PROCESS) {
		on_drop(kept);
	}
}

/* --- events --- */

void box_mproc_event(struct box_watch watch)
{
	struct box_mproc *kept = &all[watch.index];
	if (kept->id == 0 || kept->generation != watch.generation) {
		return; /* it was dropped earlier in this turn */
	}
	if (watch.kind == BOX_WATCH_MPROC_IN) {
		box_input_pump(&kept->input);
		box_mproc_report_input_soon(kept);
	} else if (watch.kind == BOX_WATCH_MPROC_ERR) {
		box_mproc_pump_stderr(kept);
	} else {
		box_mproc_pump_output(kept);
	}
}

/* In a group of its own each kill is its own: also one that lost a child and did not end well. */
static bool was_out_of_memory(const struct box_mproc *kept, int status)
{
	bool failed = WIFEXITED(status) && WEXITSTATUS(status) != 0;
	return (box_memory_kills_looks_killed(status) || (kept->events >= 0 && failed)) &&
		count_kills(kept) > kept->begin_kills;
}

static void set_reaped(struct box_mproc *kept, int status)
{
	bool signaled = WIFSIGNALED(status);
	int value = signaled ? WTERMSIG(status) : WEXITSTATUS(status);
	if (was_out_of_memory(kept, status)) {
		value += signaled ? EXIT_SIGNALED : 0;
		set_ended(kept, BOX_INIT_END_MEMORY, BOX_INIT_STEP_NONE, value);
		return;
	}
	set_ended(kept, signaled ? BOX_INIT_END_SIGNAL : BOX_INIT_END_EXIT, BOX_INIT_STEP_NONE,
		value);
}

bool box_mproc_reaped(pid_t pid, int status)
{
	for (uint32_t i = 0; i < places_used; i++) {
		struct box_mproc *kept = &all[i];
		if (kept->id == 0 || kept->pid != pid) {
			continue;
		}
		/* What it started goes with it, as far as it has stayed in its group. */
		(void)kill(-pid, SIGKILL);
		set_reaped(kept, status);
		return true;
	}
	return false;
}

uint64_t box_mproc_deadline(void)
{
	return next_due;
}

void box_mproc_tick(void)
{
	uint64_t now = box_event_loop_now_ns();
	if (now < next_due) {
		return;
	}
	next_due = BOX_NEVER;
	for (uint32_t i = 0; i < places_used; i++) {
		struct box_mproc *kept = &all[i];
		if (kept->id == 0 || kept->unknown) {
			continue;
		}
		/* One at the mounter is nobody yet who could be killed: when it starts, it is due. */
		if (kept->kill_ns <= now && !kept->mounting) {
			kept->kill_ns = BOX_NEVER;
			kill_group(kept, SIGKILL);
		}
		if (kept->tell_ns <= now) {
			kept->tell_ns = BOX_NEVER;
			kept->told_ns = now;
			kept->state_due = true;
			box_mproc_report_state(kept);
		}
		if (kept->fed_ns <= now) {
			kept->fed_ns = BOX_NEVER;
			box_mproc_report_input(kept);
		}
		if (kept->shrink_ns <= now) {
			kept->shrink_ns = BOX_NEVER;
			box_ring_shrink(&kept->out);
		}
		box_mproc_due_at(kept->mounting ? BOX_NEVER : kept->kill_ns);
		box_mproc_due_at(kept->tell_ns);
		box_mproc_due_at(kept->fed_ns);
		box_mproc_due_at(kept->shrink_ns);
	}
}

void box_mproc_resume(void)
{
	for (uint32_t i = 0; i < places_used && !box_control_blocked(); i++) {
		if (all[i].id != 0) {
			box_mproc_report_input(&all[i]);
			box_mproc_send_output(&all[i]);
			box_mproc_answer_peeks(&all[i]);
			box_mproc_report_state(&all[i]); /* which may free it */
		}
	}
}
