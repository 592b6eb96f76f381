/* Owns the table of commands. Each is in one state; whatever happens to it moves it on, and the one
 * way out is end_run, which sends its EXIT when all its output has gone. Answers that cannot go out
 * now are not queued: they are remembered as a state. */
#include "init/run/run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "init/boot/boot.h"
#include "init/boot/boot_order.h"
#include "init/file/file_job.h"
#include "init/guest/memory_kills.h"
#include "init/process/mproc.h"
#include "init/run/launch.h"
#include "init/run/run_internal.h"
#include "init/run/terminal.h"

#define NS_PER_MS 1000000ULL
#define NS_PER_US 1000ULL
#define EXIT_KILLED (128 + SIGKILL)

/* What is searched is apart from the rest, which is touched only when it is used. */
static uint32_t ids[BOX_INIT_RUNS_MAX]; /* 0: a free place */
static pid_t pids[BOX_INIT_RUNS_MAX];   /* of those that are RUNNING, else 0 */
static struct box_run runs[BOX_INIT_RUNS_MAX];
static uint32_t places_used; /* no place from here on was ever used */
static uint32_t free_count = BOX_INIT_RUNS_MAX;

static uint64_t next_deadline = BOX_NEVER; /* at the latest now; may be of one that has gone */

static uint32_t place_of(const struct box_run *run)
{
	return (uint32_t)(run - runs);
}

uint32_t box_run_id(const struct box_run *run)
{
	return ids[place_of(run)];
}

struct box_run *box_run_next(const struct box_run *after)
{
	for (uint32_t i = after ? place_of(after) + 1 : 0; i < places_used; i++) {
		if (ids[i] != 0) {
			return &runs[i];
		}
	}
	return NULL;
}

struct box_run *box_run_find(uint32_t id)
{
	for (uint32_t i = 0; i < places_used; i++) {
		if (ids[i] == id) {
			return &runs[i];
		}
	}
	return NULL;
}

static void set_pid(struct box_run *run, pid_t pid)
{
	run->pid = pid;
	pids[place_of(run)] = pid;
}

void box_run_wake_at(uint64_t deadline_ns)
{
	if (deadline_ns < next_deadline) {
		next_deadline = deadline_ns;
	}
}

struct box_run *box_run_new(uint32_t id)
{
	if (free_count == 0) {
		return NULL;
	}
	uint32_t place = 0;
	while (place < places_used && ids[place] != 0) {
		place++;
	}
	places_used += place == places_used;
	free_count--;
	ids[place] = id;
	struct box_run *run = &runs[place];
	*run = (struct box_run){
		.state = BOX_RUN_GATHERING,
		.generation = run->generation + 1,
		.out.fd = -1,
		.err.fd = -1,
		.child_fds = {-1, -1, -1},
		.door = -1,
		.deadline_ns = BOX_NEVER,
	};
	box_gather_init(&run->gather, place);
	box_input_init(&run->input);
	return run;
}

static bool has_terminal(const struct box_run *run)
{
	return run->ask.flags & BOX_INIT_RUN_TTY;
}

static void close_child_fds(struct box_run *run, bool all)
{
	for (size_t i = all ? 0 : 1; i < 3; i++) {
		if (run->child_fds[i] >= 0) {
			(void)close(run->child_fds[i]);
			run->child_fds[i] = -1;
		}
	}
}

void box_run_free(struct box_run *run)
{
	box_mounter_queue_forget(run);
	box_gather_free(&run->gather);
	box_input_close(&run->input);
	close_child_fds(run, true);
	box_close_p(&run->door);
	if (has_terminal(run)) {
		/* Who is still there finds that it has hung up. */
		box_stream_close(&run->out);
	}
	box_stream_orphan(&run->out);
	box_stream_orphan(&run->err);
	set_pid(run, 0);
	run->state = BOX_RUN_FREE;
	ids[place_of(run)] = 0;
	free_count++;
}

/* --- answers --- */

static void tell_started(struct box_run *run)
{
	if (run->start_due && !box_control_blocked()) {
		run->start_due = false;
		box_control_send(BOX_INIT_STARTED, box_run_id(run), NULL, 0);
	}
}

void box_run_tell_taken(struct box_run *run)
{
	if (run->input.taken != run->input.told && !box_control_blocked()) {
		run->input.told = run->input.taken;
		box_control_send(
			BOX_INIT_INPUT_TAKEN, box_run_id(run), &run->input.told, sizeof(uint64_t));
	}
}

/* Goes as far as it can: the rest of the output, then the EXIT. */
void box_run_finish(struct box_run *run)
{
	tell_started(run);
	if (!box_stream_drain(&run->out, box_run_id(run), &run->credit) ||
		!box_stream_drain(&run->err, box_run_id(run), &run->credit) ||
		box_control_blocked()) {
		/* Credit or room for answers will call again; a pipe with bytes would do so at
		 * once. */
		box_stream_unwatch(&run->out);
		box_stream_unwatch(&run->err);
		return;
	}
	run->end.stdout_dropped = run->out.dropped;
	run->end.stderr_dropped = run->err.dropped;
	box_control_send(BOX_INIT_EXIT, box_run_id(run), &run->end, sizeof(run->end));
	box_run_free(run);
}

static void end_run(struct box_run *run)
{
	set_pid(run, 0);
	run->state = BOX_RUN_ENDED;
	if (has_terminal(run)) {
		/* Nobody will read it, and one that has hung up would wake us without end. */
		box_input_close(&run->input);
	}
	close_child_fds(run, true);
	box_run_finish(run);
}

/* It is mproc.c's from now on, with its process or with why there is none. */
static void hand_over(struct box_run *run, pid_t pid, uint32_t step, int errnum)
{
	uint32_t kept = run->kept;
	box_run_free(run);
	box_mproc_started(kept, pid, step, errnum);
}

void box_run_fail(struct box_run *run, uint32_t step, int errnum, uint32_t mount)
{
	if (run->kept) {
		hand_over(run, 0, step, errnum);
		return;
	}
	run->end = (struct box_init_exit){
		.end = BOX_INIT_END_FAILED,
		.step = step,
		.value = errnum,
		.mount = step == BOX_INIT_STEP_MOUNT ? mount : 0,
	};
	run->start_due = false;
	end_run(run);
}

/* --- starting --- */

static struct box_watch watch_of(const struct box_run *run, enum box_watch_kind kind)
{
	return (struct box_watch){
		.kind = (uint8_t)kind,
		.index = (uint16_t)place_of(run),
		.generation = run->generation,
	};
}

/* One terminal in place of three pipes; what comes of it is its stdout. */
static int open_terminal(struct box_run *run)
{
	int master = -1;
	int r = box_terminal_open(run->ask.size, &master, &run->child_fds[0]);
	int input = r < 0 ? -1 : fcntl(master, F_DUPFD_CLOEXEC, 3);
	if (r == 0) {
		r = box_stream_adopt(
			&run->out, run->ask.output_limit, watch_of(run, BOX_WATCH_STDOUT), master);
	}
	for (int i = 1; i < 3 && r == 0; i++) {
		run->child_fds[i] = fcntl(run->child_fds[0], F_DUPFD_CLOEXEC, 3);
		r = run->child_fds[i] < 0 ? -errno : 0;
	}
	if (input >= 0) {
		box_input_adopt(&run->input, watch_of(run, BOX_WATCH_STDIN), input);
	}
	return r == 0 && input < 0 ? -EMFILE : r;
}

static int open_pipes(struct box_run *run)
{
	if (run->ask.flags & BOX_INIT_RUN_PIPES) {
		return 0; /* they came with it */
	}
	if (has_terminal(run)) {
		return open_terminal(run);
	}
	uint64_t limit = run->ask.output_limit;
	int r = box_stream_open(
		&run->out, limit, watch_of(run, BOX_WATCH_STDOUT), &run->child_fds[1]);
	if (r == 0) {
		r = box_stream_open(
			&run->err, limit, watch_of(run, BOX_WATCH_STDERR), &run->child_fds[2]);
	}
	if (r == 0 && (run->ask.flags & BOX_INIT_RUN_STDIN)) {
		r = box_input_open(&run->input, watch_of(run, BOX_WATCH_STDIN), &run->child_fds[0]);
	}
	return r;
}

void box_run_kill(const struct box_run *run)
{
	/* Not reaped yet, so the number is its own. */
	(void)kill(-run->pid, SIGKILL);
}

void box_run_set_running(struct box_run *run, pid_t pid)
{
	if (run->kept) {
		hand_over(run, pid, BOX_INIT_STEP_NONE, 0);
		return;
	}
	set_pid(run, pid);
	run->state = BOX_RUN_RUNNING;
	/* A terminal is at its end for us while nobody has it open, though the command may open it
	 * again: so we keep it open until the command ends. */
	close_child_fds(run, !has_terminal(run));
	run->start_due = (run->ask.flags & (BOX_INIT_RUN_STDIN | BOX_INIT_RUN_PIPES)) != 0;
	if (run->kill_wanted) {
		box_run_kill(run);
	}
	tell_started(run);
}

static void start_here(struct box_run *run, char *body)
{
	struct box_launch_failure failure = {0};
	struct box_launch launch = {
		.run = &run->ask,
		.body = body,
		.stdin_fd = run->child_fds[0],
		.stdout_fd = run->child_fds[1],
		.stderr_fd = run->child_fds[2],
		.failure = &failure,
	};
	pid_t pid = run->ask.flags & BOX_INIT_RUN_FILE ? box_file_job_launch(&launch)
						       : box_launch(&launch);
	if (failure.errnum == 0) {
		box_run_set_running(run, pid);
		return;
	}
	if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	box_run_fail(run, failure.step, failure.errnum, 0);
}

void box_run_start(struct box_run *run, char *body)
{
	run->begin_ns = box_event_loop_now_ns();
	run->begin_kills = box_memory_kills_count();
	if (run->ask.timeout_ms > 0 &&
		run->ask.timeout_ms < (BOX_NEVER - run->begin_ns) / NS_PER_MS) {
		run->deadline_ns = run->begin_ns + run->ask.timeout_ms * NS_PER_MS;
		box_run_wake_at(run->deadline_ns);
	}
	int r = open_pipes(run);
	if (r < 0) {
		box_run_fail(run, BOX_INIT_STEP_PIPES, -r, 0);
	} else if (run->ask.mount_count > 0) {
		box_mounter_queue_add(run);
	} else {
		start_here(run, body);
	}
}

void box_run_start_gathered(struct box_run *run)
{
	char *body = NULL;
	if (run->ask.mount_count > 0) {
		box_run_start(run, NULL);
		return;
	}
	int r = box_gather_map(&run->gather, &body);
	if (r < 0) {
		box_run_fail(run, BOX_INIT_STEP_MEMORY, -r, 0);
		return;
	}
	struct box_gather gather = run->gather;
	box_run_start(run, body);
	box_gather_unmap(&gather, body);
	if (run->state == BOX_RUN_RUNNING) {
		box_gather_free(&run->gather);
	}
}

/* --- the end of processes --- */

/* Less than a piece that programs write at once: the next write of most of them fails. Ext4 keeps a
 * few blocks back for its own use. */
#define FULL_BYTES (64ULL * 1024)

/* Every kind of quota that there is answers in this way, as if the workspace were a disk. */
static void tell_room(struct box_init_exit *end)
{
	struct statfs room;
	if (!box_boot_wants_quota() || statfs(box_boot_facts()->facts.workspace_path, &room) < 0 ||
		room.f_bsize <= 0 || room.f_bfree > room.f_blocks) {
		return;
	}
	uint64_t block = (uint64_t)room.f_bsize;
	uint64_t used = room.f_blocks - room.f_bfree;
	end->used_bytes = used * block;
	end->room_bytes = (used + room.f_bavail) * block;
	end->full = end->room_bytes > 0 &&
		(room.f_bavail * block < FULL_BYTES || (room.f_files > 0 && room.f_ffree == 0));
}

static void set_end(struct box_run *run, int status)
{
	bool signaled = WIFSIGNALED(status);
	run->end = (struct box_init_exit){
		.end = signaled ? BOX_INIT_END_SIGNAL : BOX_INIT_END_EXIT,
		.value = signaled ? WTERMSIG(status) : WEXITSTATUS(status),
		.duration_us = (box_event_loop_now_ns() - run->begin_ns) / NS_PER_US,
	};
	if (run->timed_out) {
		run->end.end = BOX_INIT_END_TIMEOUT;
		run->end.value = 0;
	} else if (box_memory_kills_looks_killed(status) &&
		box_memory_kills_account(run->begin_kills)) {
		run->end.end = BOX_INIT_END_MEMORY;
		run->end.value = EXIT_KILLED;
	}
	tell_room(&run->end);
	end_run(run);
}

static void reaped(pid_t pid, int status)
{
	if (box_mounter_queue_reaped(pid) || box_mproc_reaped(pid, status)) {
		return;
	}
	for (uint32_t i = 0; i < places_used; i++) {
		if (pids[i] == pid) {
			set_end(&runs[i], status);
			return;
		}
	}
}

/* Some command got SIGTERM at the end of its time. */
static bool ended_gently;

static void kill_rest(pid_t pid)
{
	for (uint32_t i = 0; i < places_used; i++) {
		if (pids[i] == pid && runs[i].timed_out) {
			box_run_kill(&runs[i]);
		}
	}
}

/* The next that has ended, or 0. Who made way for SIGTERM may have left processes in its group that
 * did not: they are killed while it is not reaped, since the group's number is its own until then. */
static pid_t reap(int *status)
{
	siginfo_t ended = {0};
	if (!ended_gently) {
		return waitpid(-1, status, WNOHANG);
	}
	if (waitid(P_ALL, 0, &ended, WEXITED | WNOHANG | WNOWAIT) < 0 || ended.si_pid == 0) {
		return 0;
	}
	kill_rest(ended.si_pid);
	return waitpid(ended.si_pid, status, WNOHANG);
}

void box_run_reap(void)
{
	int status;
	pid_t pid;
	while ((pid = reap(&status)) > 0) {
		reaped(pid, status);
	}
}

/* --- time --- */

uint64_t box_run_deadline(void)
{
	return next_deadline;
}

/* One that is stopped hears it when it goes on. */
static void terminate(struct box_run *run, uint64_t now)
{
	ended_gently = true;
	run->deadline_ns = now + run->ask.grace_ms * NS_PER_MS;
	(void)kill(-run->pid, SIGTERM);
	(void)kill(-run->pid, SIGCONT);
}

/* May free it. */
static void time_out(struct box_run *run, uint64_t now)
{
	bool first = !run->timed_out;
	run->deadline_ns = BOX_NEVER;
	run->timed_out = true;
	if (run->state == BOX_RUN_RUNNING && first && run->ask.grace_ms > 0) {
		terminate(run, now);
	} else if (run->state == BOX_RUN_RUNNING) {
		box_run_kill(run);
	} else if (run->state == BOX_RUN_MOUNTING) {
		run->kill_wanted = true;
	} else if (run->state == BOX_RUN_QUEUED) {
		set_end(run, 0);
	}
}

void box_run_tick(void)
{
	uint64_t now = box_event_loop_now_ns();
	if (now < next_deadline) {
		return;
	}
	next_deadline = BOX_NEVER;
	for (uint32_t i = 0; i < places_used; i++) {
		if (ids[i] != 0 && runs[i].deadline_ns <= now) {
			time_out(&runs[i], now);
		}
		if (ids[i] != 0) {
			box_run_wake_at(runs[i].deadline_ns);
		}
	}
	box_mounter_queue_tick(now);
}

/* --- events --- */

void box_run_event(struct box_watch watch)
{
	if (watch.kind == BOX_WATCH_MOUNTER) {
		box_mounter_queue_answered();
		return;
	}
	struct box_run *run = &runs[watch.index];
	if (ids[watch.index] == 0 || run->generation != watch.generation) {
		return; /* it ended earlier in this turn */
	}
	if (watch.kind == BOX_WATCH_STDIN) {
		box_input_pump(&run->input);
		box_run_tell_taken(run);
	} else if (run->state != BOX_RUN_ENDED) {
		struct box_stream *stream = watch.kind == BOX_WATCH_STDOUT ? &run->out : &run->err;
		box_stream_pump(stream, box_run_id(run), &run->credit);
	}
}

void box_run_resume(void)
{
	box_run_resume_reset();
	for (uint32_t i = 0; i < places_used && !box_control_blocked(); i++) {
		if (ids[i] == 0) {
			continue;
		}
		tell_started(&runs[i]);
		box_run_tell_taken(&runs[i]);
		if (runs[i].state == BOX_RUN_ENDED) {
			box_run_finish(&runs[i]);
		}
	}
}

bool box_run_is_full(void)
{
	return free_count == 0;
}
