/* Owns the table of commands: what has arrived of each, its process, its streams, its timeout and its
 * end. Each command is in one state. The only way out is end_run, after which its EXIT is sent as soon
 * as all its output is. Packets that cannot be sent now are not queued: each command remembers what is
 * due. Called by the event loop in main.c, and by mproc.c for managed processes with mounts. */
#include "init/run/run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "init/file/file_job.h"
#include "init/guest/memory_kills.h"
#include "init/process/mproc.h"
#include "init/run/gather.h"
#include "init/run/launch.h"
#include "init/run/mounter_queue.h"
#include "init/run/run_exit.h"
#include "init/run/run_stdio.h"

#define NS_PER_MS 1000000ULL

enum run_state {
	RUN_FREE,
	RUN_GATHERING, /* parts of the request are missing */
	RUN_QUEUED,    /* waits for the mounter */
	RUN_MOUNTING,  /* with the mounter */
	RUN_RUNNING,
	RUN_ENDED, /* the rest of its output and its EXIT must be sent */
};

/* A command, or the mounts of a managed process on their way to the mounter. */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order of its life */
struct run {
	enum run_state state;
	uint32_t generation; /* counts the uses of this entry, to recognise stale events */
	pid_t pid;           /* while RUNNING, else 0 */

	/* The request. */
	bool run_received; /* its RUN has arrived, not only a MOUNT or PIPE */
	struct box_init_run request;
	struct box_gather gather;         /* its mounts and body, until it is started */
	struct box_mounter_ticket ticket; /* its job for the mounter */
	/* Not 0: not a command but this managed process; no EXIT is sent for it. */
	uint32_t mproc_id;
	int procs_fd; /* cgroup.procs of the managed process's cgroup, or -1 */

	/* Its streams. */
	struct box_run_stdio stdio;
	uint64_t credit;  /* how many bytes of output may be sent */
	bool started_due; /* STARTED must be sent */

	/* Its end. */
	uint64_t begin_ns;
	uint64_t deadline_ns;  /* when it times out, or is killed after that; or BOX_NEVER */
	bool timed_out;        /* the timeout has passed */
	bool kill_wanted;      /* while MOUNTING: kill it as soon as it runs */
	uint64_t kills_before; /* count of OOM kills when it started */
	struct box_init_exit end;
};

/* Ids and pids are searched often, so they are kept apart from the rest. */
static uint32_t ids[BOX_INIT_RUNS_MAX]; /* 0: the entry is free */
static pid_t pids[BOX_INIT_RUNS_MAX];   /* of commands that are RUNNING, else 0 */
static struct run runs[BOX_INIT_RUNS_MAX];
static uint32_t used_count; /* entries from here on were never used */
static uint32_t free_count = BOX_INIT_RUNS_MAX;

static uint64_t next_deadline = BOX_NEVER; /* the next timeout, or earlier */
static bool any_terminated;                /* some command got SIGTERM at its timeout */
static bool reset_done_due;                /* RESET_DONE must be sent */

static const struct box_mounter_events mounter_events;

static uint32_t index_of(const struct run *run)
{
	return (uint32_t)(run - runs);
}

static uint32_t id_of(const struct run *run)
{
	return ids[index_of(run)];
}

static struct run *find(uint32_t id)
{
	for (uint32_t i = 0; i < used_count; i++) {
		if (ids[i] == id) {
			return &runs[i];
		}
	}
	return NULL;
}

static void set_pid(struct run *run, pid_t pid)
{
	run->pid = pid;
	pids[index_of(run)] = pid;
}

static void wake_at(uint64_t deadline_ns)
{
	next_deadline = BOX_MIN(deadline_ns, next_deadline);
}

/* NULL if the table is full. */
static struct run *add_run(uint32_t id)
{
	if (free_count == 0) {
		return NULL;
	}
	uint32_t index = 0;
	while (index < used_count && ids[index] != 0) {
		index++;
	}
	used_count += index == used_count;
	free_count--;
	ids[index] = id;
	struct run *run = &runs[index];
	*run = (struct run){
		.state = RUN_GATHERING,
		.generation = run->generation + 1,
		.ticket.events = &mounter_events,
		.procs_fd = -1,
		.deadline_ns = BOX_NEVER,
	};
	box_gather_init(&run->gather, index);
	box_run_stdio_init(&run->stdio);
	return run;
}

static bool has_terminal(const struct run *run)
{
	return run->request.flags & BOX_INIT_RUN_TTY;
}

static void free_run(struct run *run)
{
	box_mounter_queue_remove(&run->ticket);
	box_gather_free(&run->gather);
	box_close_p(&run->procs_fd);
	box_run_stdio_release(&run->stdio, has_terminal(run));
	set_pid(run, 0);
	run->state = RUN_FREE;
	ids[index_of(run)] = 0;
	free_count++;
}

/* --- answers --- */

static void report_started(struct run *run)
{
	if (run->started_due && !box_control_blocked()) {
		run->started_due = false;
		box_control_send(BOX_INIT_STARTED, id_of(run), NULL, 0);
	}
}

static void report_input(struct run *run)
{
	struct box_input *input = &run->stdio.input;
	if (input->taken != input->reported && !box_control_blocked()) {
		input->reported = input->taken;
		box_control_send(BOX_INIT_INPUT_TAKEN, id_of(run), &input->reported,
			sizeof(input->reported));
	}
}

/* Sends what is left of an ENDED command as far as possible: first its output, then its EXIT. */
static void finish(struct run *run)
{
	struct box_run_stdio *stdio = &run->stdio;
	report_started(run);
	if (!box_stream_drain(&stdio->out, id_of(run), &run->credit) ||
		!box_stream_drain(&stdio->err, id_of(run), &run->credit) || box_control_blocked()) {
		/* Called again when there is credit or packets can be sent. A pipe that is not empty
		 * would wake the event loop all the time. */
		box_stream_unwatch(&stdio->out);
		box_stream_unwatch(&stdio->err);
		return;
	}
	run->end.stdout_dropped = stdio->out.dropped;
	run->end.stderr_dropped = stdio->err.dropped;
	box_control_send(BOX_INIT_EXIT, id_of(run), &run->end, sizeof(run->end));
	free_run(run);
}

/* With run->end set. May free it. */
static void end_run(struct run *run)
{
	box_mounter_queue_remove(&run->ticket);
	set_pid(run, 0);
	run->state = RUN_ENDED;
	if (has_terminal(run)) {
		/* Nobody will read it, and a terminal after a hangup would wake us all the time. */
		box_input_close(&run->stdio.input);
	}
	box_run_stdio_close_child(&run->stdio, true);
	finish(run);
}

/* From here on the managed process belongs to mproc.c, with its pid or the reason why it failed. */
static void hand_over_mproc(struct run *run, pid_t pid, uint32_t step, int errnum)
{
	uint32_t mproc_id = run->mproc_id;
	free_run(run);
	box_mproc_started(mproc_id, pid, step, errnum);
}

/* It could not be started. May free it. */
static void fail(struct run *run, uint32_t step, int errnum, uint32_t mount)
{
	if (run->mproc_id) {
		hand_over_mproc(run, 0, step, errnum);
		return;
	}
	run->end = box_run_exit_failed(step, errnum, mount);
	run->started_due = false;
	end_run(run);
}

/* --- starting --- */

static void kill_run(const struct run *run)
{
	/* It was not reaped yet, so the number of the group is still its own. */
	(void)kill(-run->pid, SIGKILL);
}

static void set_running(struct run *run, pid_t pid)
{
	if (run->mproc_id) {
		hand_over_mproc(run, pid, BOX_INIT_STEP_NONE, 0);
		return;
	}
	set_pid(run, pid);
	run->state = RUN_RUNNING;
	/* A terminal that nobody has open looks like its end, though the command may open it again:
	 * so its slave stays open here until the command ends. */
	box_run_stdio_close_child(&run->stdio, !has_terminal(run));
	run->started_due = (run->request.flags & (BOX_INIT_RUN_STDIN | BOX_INIT_RUN_PIPES)) != 0;
	if (run->kill_wanted) {
		kill_run(run);
	}
	report_started(run);
}

static struct run *run_of(struct box_mounter_ticket *ticket)
{
	return BOX_CONTAINER_OF(ticket, struct run, ticket);
}

static void on_mounter_sent(struct box_mounter_ticket *ticket)
{
	struct run *run = run_of(ticket);
	run->state = RUN_MOUNTING;
	run->begin_ns = box_event_loop_now_ns();
}

static void on_mounter_started(struct box_mounter_ticket *ticket, pid_t pid)
{
	struct run *run = run_of(ticket);
	box_gather_free(&run->gather);
	set_running(run, pid);
}

static void on_mounter_failed(
	struct box_mounter_ticket *ticket, const struct box_launch_failure *failure)
{
	struct run *run = run_of(ticket);
	box_gather_free(&run->gather);
	fail(run, failure->step, failure->errnum, failure->mount);
}

static const struct box_mounter_events mounter_events = {
	.sent = on_mounter_sent,
	.started = on_mounter_started,
	.failed = on_mounter_failed,
};

/* The mounter starts it, now or when it is idle. May free it. */
static void start_with_mounts(struct run *run)
{
	run->state = RUN_QUEUED;
	run->ticket.job = (struct box_mounter_job){
		.run = run->request,
		.targets_size = run->gather.targets_size,
		.body_fd = run->gather.fd,
		.stdin_fd = run->stdio.child_fds[0],
		.stdout_fd = run->stdio.child_fds[1],
		.stderr_fd = run->stdio.child_fds[2],
		.procs_fd = run->procs_fd,
		.search_path = run->mproc_id != 0,
		.mount_fds = run->gather.mount_fds,
	};
	box_mounter_queue_add(&run->ticket);
}

static void start_here(struct run *run, char *body)
{
	struct box_launch_failure failure = {0};
	struct box_launch launch = {
		.run = &run->request,
		.body = body,
		.stdin_fd = run->stdio.child_fds[0],
		.stdout_fd = run->stdio.child_fds[1],
		.stderr_fd = run->stdio.child_fds[2],
		.failure = &failure,
	};
	pid_t pid = run->request.flags & BOX_INIT_RUN_FILE ? box_file_job_launch(&launch)
							   : box_launch(&launch);
	if (failure.errnum == 0) {
		set_running(run, pid);
		return;
	}
	if (pid > 0) {
		(void)waitpid(pid, NULL, 0);
	}
	fail(run, failure.step, failure.errnum, 0);
}

/* `body` is complete and writable, with one more byte after it; not needed with mounts. */
static void start(struct run *run, char *body)
{
	run->begin_ns = box_event_loop_now_ns();
	run->kills_before = box_memory_kills_count();
	if (run->request.timeout_ms > 0 &&
		run->request.timeout_ms < (BOX_NEVER - run->begin_ns) / NS_PER_MS) {
		run->deadline_ns = run->begin_ns + run->request.timeout_ms * NS_PER_MS;
		wake_at(run->deadline_ns);
	}
	const struct box_watch owner = {
		.index = (uint16_t)index_of(run), .generation = run->generation};
	int r = box_run_stdio_open(&run->stdio, &run->request, owner);
	if (r < 0) {
		fail(run, BOX_INIT_STEP_PIPES, -r, 0);
	} else if (run->request.mount_count > 0) {
		start_with_mounts(run);
	} else {
		start_here(run, body);
	}
}

static void start_gathered(struct run *run)
{
	char *body = NULL;
	if (run->request.mount_count > 0) {
		start(run, NULL);
		return;
	}
	int r = box_gather_map(&run->gather, &body);
	if (r < 0) {
		fail(run, BOX_INIT_STEP_MEMORY, -r, 0);
		return;
	}
	struct box_gather gather = run->gather;
	start(run, body);
	box_gather_unmap(&gather, body);
	if (run->state == RUN_RUNNING) {
		box_gather_free(&run->gather);
	}
}

/* --- managed processes with mounts --- */

void box_run_drop_mproc_mounts(uint32_t id)
{
	struct run *run = find(id);
	if (run && run->mproc_id == 0) {
		free_run(run);
	}
}

void box_run_start_mproc(uint32_t id, uint32_t mproc_id, const struct box_init_run *request,
	const char *body, const int fds[3], int procs_fd)
{
	struct run *run = find(id);
	uint32_t size = request->env_size + request->workdir_size + request->command_size;
	bool fits = run && run->state == RUN_GATHERING && !run->run_received &&
		run->gather.mount_count == request->mount_count;
	/* Without its mounts the entry is only used to report the failure. */
	run = run ? run : add_run(id);
	if (!run) {
		int ours[] = {fds[0], fds[1], fds[2], procs_fd};
		for (size_t i = 0; i < BOX_COUNT_OF(ours); i++) {
			box_close_p(&ours[i]);
		}
		box_mproc_started(mproc_id, 0, BOX_INIT_STEP_REQUEST, EAGAIN);
		return;
	}
	run->request = *request;
	run->run_received = true;
	run->mproc_id = mproc_id;
	run->procs_fd = procs_fd;
	memcpy(run->stdio.child_fds, fds, sizeof(run->stdio.child_fds));
	int r = fits ? box_gather_begin(&run->gather, size) : -EINVAL;
	if (r == 0) {
		r = box_gather_add(&run->gather, body, size);
	}
	if (r < 0) {
		fail(run, BOX_INIT_STEP_REQUEST, -r, 0);
		return;
	}
	start_with_mounts(run);
}

/* --- the end of processes --- */

/* May free it. */
static void set_end(struct run *run, int status)
{
	run->end = box_run_exit_ended(status, run->timed_out, run->begin_ns, run->kills_before);
	end_run(run);
}

static void on_reaped(pid_t pid, int status)
{
	if (box_mounter_queue_reaped(pid) || box_mproc_reaped(pid, status)) {
		return;
	}
	for (uint32_t i = 0; i < used_count; i++) {
		if (pids[i] == pid) {
			set_end(&runs[i], status);
			return;
		}
	}
}

/* Kills what is left in the process group of a command that ended after SIGTERM. */
static void kill_rest(pid_t pid)
{
	for (uint32_t i = 0; i < used_count; i++) {
		if (pids[i] == pid && runs[i].timed_out) {
			kill_run(&runs[i]);
		}
	}
}

/* The pid of the next child that has ended, or 0. Other processes in the group of a command may have
 * ignored SIGTERM. They are killed before the command is reaped, because the number of the group may be
 * reused after that. */
static pid_t reap(int *status)
{
	siginfo_t ended = {0};
	if (!any_terminated) {
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
		on_reaped(pid, status);
	}
}

/* --- requests --- */

/* The entry for a RUN. NULL if its id is in use, or if the table is full: then EXIT was sent. */
static struct run *entry_for_run(struct run *run, uint32_t id)
{
	static const struct box_init_exit table_full = {
		.end = BOX_INIT_END_FAILED,
		.step = BOX_INIT_STEP_REQUEST,
		.value = EAGAIN,
	};
	if (run && (run->state != RUN_GATHERING || run->run_received)) {
		return NULL; /* an EXIT with this id would look like that of the other command */
	}
	run = run ? run : add_run(id);
	if (!run) {
		/* It can be sent: otherwise the request would not have been read. */
		box_control_send(BOX_INIT_EXIT, id, &table_full, sizeof(table_full));
	}
	return run;
}

static void on_mount(struct run *run, struct box_control_request *request)
{
	uint32_t id = request->header.id;
	run = run ? run : add_run(id);
	if (!run || run->state != RUN_GATHERING || run->run_received) {
		(void)close(request->fd);
		return;
	}
	/* If this fails, the RUN fails, because it says how many mounts there are. */
	(void)box_gather_mount(&run->gather, request->bytes, (uint32_t)request->size, request->fd);
}

static void on_pipe(struct run *run, const struct box_control_request *request)
{
	uint32_t which;
	memcpy(&which, request->bytes, sizeof(which));
	run = run ? run : add_run(request->header.id);
	if (!run || run->state != RUN_GATHERING || run->run_received ||
		run->stdio.child_fds[which] >= 0) {
		(void)close(request->fd);
		return;
	}
	run->stdio.child_fds[which] = request->fd;
}

static void on_run(struct run *run, struct box_control_request *request)
{
	run = entry_for_run(run, request->header.id);
	if (!run) {
		return;
	}
	memcpy(&run->request, request->bytes, sizeof(run->request));
	run->run_received = true;
	run->credit = run->request.credit;
	char *bytes = request->bytes + sizeof(run->request);
	uint32_t have = (uint32_t)(request->size - sizeof(run->request));
	uint32_t size = run->request.env_size + run->request.workdir_size +
		run->request.command_size;
	if (run->request.mount_count != run->gather.mount_count ||
		!box_run_stdio_has_pipes(&run->stdio, &run->request)) {
		fail(run, BOX_INIT_STEP_REQUEST, EINVAL, 0);
		return;
	}
	if (have == size && run->request.mount_count == 0) {
		start(run, bytes);
		return;
	}
	int r = box_gather_begin(&run->gather, size);
	if (r == 0) {
		r = box_gather_add(&run->gather, bytes, have);
	}
	if (r < 0) {
		fail(run, BOX_INIT_STEP_MEMORY, -r, 0);
	} else if (have == size) {
		start_gathered(run);
	}
}

static void on_more(struct run *run, const struct box_control_request *request)
{
	if (run->state != RUN_GATHERING || !run->run_received) {
		return;
	}
	int r = box_gather_add(&run->gather, request->bytes, (uint32_t)request->size);
	if (r < 0) {
		uint32_t step = r == -EMSGSIZE ? BOX_INIT_STEP_REQUEST : BOX_INIT_STEP_MEMORY;
		fail(run, step, -r, 0);
	} else if (run->gather.body_have == run->gather.body_size) {
		start_gathered(run);
	}
}

/* May free it. */
static void on_kill(struct run *run)
{
	/* Its sender grants no more credit, and EXIT must not wait for that. */
	box_stream_discard(&run->stdio.out);
	box_stream_discard(&run->stdio.err);
	switch (run->state) {
	case RUN_GATHERING:
	case RUN_QUEUED:
		fail(run, BOX_INIT_STEP_REQUEST, ECANCELED, 0);
		break;
	case RUN_MOUNTING:
		run->kill_wanted = true;
		break;
	case RUN_RUNNING:
		kill_run(run);
		break;
	case RUN_ENDED:
		finish(run);
		break;
	case RUN_FREE:
		break;
	}
}

static void on_input(struct run *run, const struct box_control_request *request)
{
	int r = box_input_put(&run->stdio.input, request->bytes, (uint32_t)request->size);
	if (r < 0) {
		/* To lose some of its input would be worse than to be killed. */
		on_kill(run);
		return;
	}
	report_input(run);
}

static void on_credit(struct run *run, const struct box_control_request *request)
{
	uint64_t more;
	memcpy(&more, request->bytes, sizeof(more));
	run->credit = more > UINT64_MAX - run->credit ? UINT64_MAX : run->credit + more;
	if (run->state == RUN_ENDED) {
		finish(run);
	} else {
		box_stream_pump(&run->stdio.out, id_of(run), &run->credit);
		box_stream_pump(&run->stdio.err, id_of(run), &run->credit);
	}
}

static void on_resize(const struct run *run, const struct box_control_request *request)
{
	struct box_init_size size;
	memcpy(&size, request->bytes, sizeof(size));
	if (has_terminal(run) && run->stdio.out.fd >= 0) {
		(void)box_run_stdio_resize(&run->stdio, size);
	}
}

static void on_signal(const struct run *run, const struct box_control_request *request)
{
	uint32_t number;
	memcpy(&number, request->bytes, sizeof(number));
	if (run->state == RUN_RUNNING) {
		(void)kill(-run->pid, (int)number);
	}
}

static void report_reset_done(void)
{
	if (reset_done_due && !box_control_blocked()) {
		reset_done_due = false;
		box_control_send(BOX_INIT_RESET_DONE, 0, NULL, 0);
	}
}

static void on_reset(void)
{
	for (uint32_t i = 0; i < used_count; i++) {
		if (ids[i] == 0 || runs[i].mproc_id) {
			continue; /* managed processes are not affected */
		}
		if (runs[i].state == RUN_RUNNING) {
			kill_run(&runs[i]);
		}
		free_run(&runs[i]);
	}
	box_control_drop();
	reset_done_due = true;
	report_reset_done();
}

void box_run_request(struct box_control_request *request, int verdict)
{
	uint32_t id = request->header.id;
	struct run *run = id ? find(id) : NULL;
	uint32_t kind = request->header.kind;
	if (run && run->mproc_id) {
		return; /* only mproc.c may change it */
	}
	if (verdict < 0) {
		/* The sender of a malformed RUN waits for its EXIT. */
		run = kind == BOX_INIT_RUN && id != 0 ? entry_for_run(run, id) : NULL;
		if (run) {
			fail(run, BOX_INIT_STEP_REQUEST, EBADMSG, 0);
		}
		return;
	}
	if (kind == BOX_INIT_RESET) {
		on_reset();
	} else if (kind == BOX_INIT_MOUNT) {
		on_mount(run, request);
	} else if (kind == BOX_INIT_PIPE) {
		on_pipe(run, request);
	} else if (kind == BOX_INIT_DRAIN) {
		box_stream_adopt_orphan(request->fd);
	} else if (kind == BOX_INIT_RUN) {
		on_run(run, request);
	} else if (!run) {
		return; /* the command may have ended while the request was on its way */
	} else if (kind == BOX_INIT_MORE) {
		on_more(run, request);
	} else if (kind == BOX_INIT_INPUT) {
		on_input(run, request);
	} else if (kind == BOX_INIT_CREDIT) {
		on_credit(run, request);
	} else if (kind == BOX_INIT_SIGNAL) {
		on_signal(run, request);
	} else if (kind == BOX_INIT_RESIZE) {
		on_resize(run, request);
	} else if (kind == BOX_INIT_KILL) {
		on_kill(run);
	}
}

/* --- time --- */

uint64_t box_run_deadline(void)
{
	uint64_t mounter = box_mounter_queue_deadline();
	return BOX_MIN(next_deadline, mounter);
}

/* A stopped command receives SIGTERM when it continues. */
static void terminate(struct run *run, uint64_t now)
{
	any_terminated = true;
	run->deadline_ns = now + run->request.grace_ms * NS_PER_MS;
	(void)kill(-run->pid, SIGTERM);
	(void)kill(-run->pid, SIGCONT);
}

/* May free it. */
static void time_out(struct run *run, uint64_t now)
{
	bool first = !run->timed_out;
	run->deadline_ns = BOX_NEVER;
	run->timed_out = true;
	if (run->state == RUN_RUNNING && first && run->request.grace_ms > 0) {
		terminate(run, now);
	} else if (run->state == RUN_RUNNING) {
		kill_run(run);
	} else if (run->state == RUN_MOUNTING) {
		run->kill_wanted = true;
	} else if (run->state == RUN_QUEUED) {
		set_end(run, 0);
	}
}

static void check_timeouts(uint64_t now)
{
	next_deadline = BOX_NEVER;
	for (uint32_t i = 0; i < used_count; i++) {
		if (ids[i] != 0 && runs[i].deadline_ns <= now) {
			time_out(&runs[i], now);
		}
		if (ids[i] != 0) {
			wake_at(runs[i].deadline_ns);
		}
	}
}

void box_run_tick(void)
{
	uint64_t now = box_event_loop_now_ns();
	if (now >= next_deadline) {
		check_timeouts(now);
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
	struct run *run = &runs[watch.index];
	if (ids[watch.index] == 0 || run->generation != watch.generation) {
		return; /* it ended earlier in this turn of the event loop */
	}
	if (watch.kind == BOX_WATCH_STDIN) {
		box_input_pump(&run->stdio.input);
		report_input(run);
	} else if (run->state != RUN_ENDED) {
		bool is_stdout = watch.kind == BOX_WATCH_STDOUT;
		box_stream_pump(
			is_stdout ? &run->stdio.out : &run->stdio.err, id_of(run), &run->credit);
	}
}

void box_run_resume(void)
{
	report_reset_done();
	for (uint32_t i = 0; i < used_count && !box_control_blocked(); i++) {
		if (ids[i] == 0) {
			continue;
		}
		report_started(&runs[i]);
		report_input(&runs[i]);
		if (runs[i].state == RUN_ENDED) {
			finish(&runs[i]);
		}
	}
}

bool box_run_is_full(void)
{
	return free_count == 0;
}
