/* One box-rpc at a time: starts it, notices its death, starts it again; and the event loop of boxd
 * (`add_sources` lists what it runs). The packets are in serve.c. Nothing that box-rpc does or fails to
 * do can block this loop. */
#include "boxd/rpc/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/warm_pool.h"
#include "boxd/program.h"
#include "protocol/boxd.h"

_Static_assert(BOX_BOXD_FD == STDERR_FILENO + 1, "the first fd that a program is given");

#define NEVER INT64_MAX
#define RESTART_PAUSE_MIN_MS 50
#define GOOD_RUN_MS 5000      /* a box-rpc that ran longer resets the count of deaths */
#define DEATHS_UNREADY_MAX 3  /* of a box-rpc that was never ready */
#define QUIET_MS 5            /* without an event, before a warm box is made */
#define HANGUP_GRACE_MS 1000  /* from EOF on its socket to the kill of box-rpc */
#define LAST_PACKETS_MAX 1024 /* read after its death */

/* The box-rpc that runs. */
struct rpc_process {
	pid_t pid;
	int pidfd;  /* -1: none runs */
	int socket; /* our end; non-blocking; -1: nothing more is sent */
};

struct supervisor {
	const struct box_supervise_setup *setup;
	struct box_serve *serve;
	struct box_event_sources sources;
	int signal_fd;

	struct rpc_process rpc;
	int64_t started_ms;
	int64_t kill_at_ms;  /* NEVER: it is not to be killed */
	int64_t start_at_ms; /* NEVER while one runs */
	uint32_t restarts;
	unsigned quick_deaths;
	unsigned deaths_unready;

	int64_t busy_ms; /* when the last event came */
	bool stopping;
	int exit_code; /* negative: keep running */
};

static int64_t now_ms(void)
{
	return (int64_t)box_clock_ms();
}

static bool has_flag(const struct supervisor *supervisor, enum box_boxd_start_flag flag)
{
	return (supervisor->setup->serve.start_data->start.flags & (uint32_t)flag) != 0;
}

static bool is_running(const struct supervisor *supervisor)
{
	return supervisor->rpc.pidfd >= 0;
}

/* --- the start of box-rpc --- */

/* Only box-rpc has the connection on stdin and stdout: when it closes its end, the client must see EOF. */
static int give_up_stdio(void)
{
	_cleanup_(box_close_p) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) {
		return -errno;
	}
	return 0;
}

/* With `stdio` box-rpc gets boxd's stdin and stdout, and boxd has /dev/null there from then on. */
static int start_process(const struct box_supervise_setup *setup, bool stdio,
	struct rpc_process *ret_process, struct box_err *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "box-rpc cannot start: sockets: %s",
			box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = ends[0];
	_cleanup_(box_close_p) int theirs = ends[1];
	const struct box_program wanted = {
		.path = setup->rpc_path,
		.name = "box-rpc",
		.ids = *setup->serve.ids,
		.stdio = stdio,
		.fds = {theirs},
		.fd_count = 1,
	};
	struct box_program_process process;
	int r = box_program_start(&wanted, &process, err);
	if (r < 0) {
		return r;
	}
	if (stdio && give_up_stdio() < 0) {
		(void)kill(process.pid, SIGKILL);
		(void)waitpid(process.pid, NULL, 0);
		(void)close(process.pidfd);
		return box_err_set(err, BOX_ERR_OS, EIO, "box-rpc cannot start: /dev/null");
	}
	*ret_process = (struct rpc_process){
		.pid = process.pid, .pidfd = process.pidfd, .socket = TAKE_FD(ours)};
	return 0;
}

static void kill_rpc(struct supervisor *supervisor)
{
	supervisor->kill_at_ms = NEVER;
	/* It is our child and not reaped yet: this can only fail when it has died already. */
	(void)pidfd_send_signal(supervisor->rpc.pidfd, SIGKILL, NULL, 0);
}

static void hang_up(struct supervisor *supervisor)
{
	box_serve_end(supervisor->serve);
	box_close_p(&supervisor->rpc.socket);
}

static void refuse_rpc(struct supervisor *supervisor, const char *why)
{
	BOX_LOG(BOX_LOG_ERROR, "worker.refused", box_log_int("pid", supervisor->rpc.pid),
		box_log_str("why", why));
	kill_rpc(supervisor);
	hang_up(supervisor);
}

static int start_rpc(struct supervisor *supervisor, struct box_err *err)
{
	/* --check-config prints its result on stdout. */
	bool stdio = has_flag(supervisor, BOX_BOXD_START_STDIO) ||
		has_flag(supervisor, BOX_BOXD_START_CHECK_CONFIG);
	int r = start_process(supervisor->setup, stdio, &supervisor->rpc, err);
	if (r < 0) {
		return r;
	}
	supervisor->started_ms = now_ms();
	supervisor->start_at_ms = NEVER;
	supervisor->kill_at_ms = NEVER;
	BOX_LOG(BOX_LOG_INFO, "worker.started", box_log_int("pid", supervisor->rpc.pid),
		box_log_int("restarts", supervisor->restarts));
	if (box_serve_begin(supervisor->serve, supervisor->rpc.socket, supervisor->restarts) < 0) {
		refuse_rpc(supervisor, "its START could not be sent");
	}
	return 0;
}

/* The first time at once, then after a pause that doubles while it keeps dying early. */
static void plan_restart(struct supervisor *supervisor, int64_t ran_ms)
{
	supervisor->deaths_unready++;
	if (!box_serve_was_ready(supervisor->serve) &&
		supervisor->deaths_unready >= DEATHS_UNREADY_MAX) {
		BOX_LOG(BOX_LOG_ERROR, "worker.given_up",
			box_log_str("why", "box-rpc died repeatedly and was never ready"),
			box_log_int("deaths", supervisor->deaths_unready));
		supervisor->exit_code = 1;
		return;
	}
	if (ran_ms > GOOD_RUN_MS) {
		supervisor->quick_deaths = 0;
	}
	int64_t pause_ms = supervisor->quick_deaths > 0 ? RESTART_PAUSE_MIN_MS : 0;
	for (unsigned i = 1; i < supervisor->quick_deaths && pause_ms < BOX_RESTART_PAUSE_MAX_MS;
		i++) {
		pause_ms *= 2;
	}
	pause_ms = BOX_MIN(pause_ms, BOX_RESTART_PAUSE_MAX_MS);
	supervisor->quick_deaths++;
	supervisor->start_at_ms = now_ms() + pause_ms;
}

static void restart_rpc(struct supervisor *supervisor)
{
	struct box_err err;
	supervisor->restarts++;
	if (start_rpc(supervisor, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "worker.start_failed", box_log_str("why", err.text));
		plan_restart(supervisor, 0);
	}
}

/* --- source: signals --- */

static void on_reload_signal(struct supervisor *supervisor)
{
	const struct box_start_data *start_data = supervisor->setup->serve.start_data;
	if (!start_data->config_path && start_data->token_path[0] == '\0') {
		BOX_LOG(BOX_LOG_WARNING, "reload.nothing",
			box_log_str("why", "there is no --config and no --token-file to reload"));
	} else if (!supervisor->stopping) {
		box_serve_reload(supervisor->serve);
	}
}

static void on_stop_signal(struct supervisor *supervisor)
{
	if (!is_running(supervisor)) {
		supervisor->exit_code = 0;
		return;
	}
	if (supervisor->stopping) {
		BOX_LOG(BOX_LOG_WARNING, "stopping.now");
		kill_rpc(supervisor);
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "stopping");
	supervisor->stopping = true;
	supervisor->kill_at_ms = now_ms() + BOX_SHUTDOWN_KILL_MS;
	if (supervisor->rpc.socket >= 0) {
		/* If this fails, box-rpc is killed at the time that was just set. */
		(void)box_serve_stop(supervisor->serve);
	}
}

static int signal_source_fd(const void *arg)
{
	const struct supervisor *supervisor = arg;
	return supervisor->signal_fd;
}

static void signal_source_step(void *arg, short revents)
{
	struct supervisor *supervisor = arg;
	struct signalfd_siginfo info;
	if (!revents || read(supervisor->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
		return;
	}
	if (info.ssi_signo == SIGHUP) {
		on_reload_signal(supervisor);
	} else {
		on_stop_signal(supervisor);
	}
}

/* --- source: packets of box-rpc --- */

/* Handles one packet; -EAGAIN, -EPIPE, or -EPROTO after box-rpc was refused. */
static int serve_packet(struct supervisor *supervisor, bool dead)
{
	const char *why = NULL;
	int r = box_serve_receive(supervisor->serve, dead, &why);
	if (r == -EPROTO) {
		refuse_rpc(supervisor, why);
	}
	return r;
}

static void on_packet(struct supervisor *supervisor)
{
	if (serve_packet(supervisor, false) == -EPIPE) {
		/* Either it is about to exit, with a code that matters, or it is broken. */
		hang_up(supervisor);
		int64_t late_ms = now_ms() + HANGUP_GRACE_MS;
		supervisor->kill_at_ms = BOX_MIN(late_ms, supervisor->kill_at_ms);
	}
}

static int packet_source_fd(const void *arg)
{
	const struct supervisor *supervisor = arg;
	return supervisor->rpc.socket;
}

static short packet_source_events(const void *arg)
{
	const struct supervisor *supervisor = arg;
	return (short)(POLLIN | (box_serve_wants_write(supervisor->serve) ? POLLOUT : 0));
}

static void packet_source_step(void *arg, short revents)
{
	struct supervisor *supervisor = arg;
	if ((revents & POLLOUT) && box_serve_flush(supervisor->serve) < 0) {
		refuse_rpc(supervisor, "it does not read its packets");
	}
	if ((revents & ~POLLOUT) && supervisor->rpc.socket >= 0) {
		on_packet(supervisor);
	}
}

/* --- source: the death of box-rpc --- */

/* Packets for its successor still count: a STATE may be in the socket. */
static void serve_last_packets(struct supervisor *supervisor)
{
	for (int i = 0; i < LAST_PACKETS_MAX && supervisor->rpc.socket >= 0; i++) {
		if (serve_packet(supervisor, true) < 0) {
			return;
		}
	}
}

static void log_death(const struct supervisor *supervisor, const siginfo_t *end)
{
	char how[64];
	bool exited = end->si_code == CLD_EXITED;
	(void)snprintf(how, sizeof(how), "%s %d", exited ? "exit" : "signal", end->si_status);
	bool config_result = has_flag(supervisor, BOX_BOXD_START_CHECK_CONFIG) &&
		end->si_status == BOX_BOXD_EXIT_CONFIG;
	bool expected = supervisor->stopping || (exited && (end->si_status == 0 || config_result));
	BOX_LOG(expected ? BOX_LOG_INFO : BOX_LOG_WARNING, "worker.died",
		box_log_int("pid", supervisor->rpc.pid), box_log_str("how", how));
}

/* boxd's exit code after this end of box-rpc, or -1: start it again. */
static int exit_code_after(const struct supervisor *supervisor, const siginfo_t *end)
{
	int code = end->si_code == CLD_EXITED ? end->si_status : -1;
	if (has_flag(supervisor, BOX_BOXD_START_CHECK_CONFIG)) {
		return code >= 0 && !supervisor->stopping ? code : 1;
	}
	if (supervisor->stopping) {
		return 0;
	}
	if (code == BOX_BOXD_EXIT_CONFIG) {
		return BOX_BOXD_EXIT_CONFIG;
	}
	if (has_flag(supervisor, BOX_BOXD_START_STDIO)) {
		return code == 0 ? 0 : 1;
	}
	return -1;
}

static int death_source_fd(const void *arg)
{
	const struct supervisor *supervisor = arg;
	return supervisor->rpc.pidfd;
}

static void death_source_step(void *arg, short revents)
{
	struct supervisor *supervisor = arg;
	siginfo_t end = {0};
	if (!revents || waitid(P_PIDFD, (id_t)supervisor->rpc.pidfd, &end, WEXITED) < 0) {
		return;
	}
	serve_last_packets(supervisor);
	log_death(supervisor, &end);
	hang_up(supervisor);
	box_close_p(&supervisor->rpc.pidfd);
	supervisor->kill_at_ms = NEVER;
	supervisor->exit_code = exit_code_after(supervisor, &end);
	if (supervisor->exit_code < 0) {
		plan_restart(supervisor, now_ms() - supervisor->started_ms);
	}
}

/* --- source: timers of box-rpc, the last source of each turn --- */

/* Other sources may have sent something and found that box-rpc does not read. */
static void check_rpc(struct supervisor *supervisor)
{
	const char *why = box_serve_fault(supervisor->serve);
	if (why && supervisor->rpc.socket >= 0) {
		refuse_rpc(supervisor, why);
	}
	if (box_serve_config_refused(supervisor->serve) && supervisor->exit_code < 0) {
		if (is_running(supervisor)) {
			kill_rpc(supervisor);
		}
		supervisor->exit_code = BOX_BOXD_EXIT_CONFIG;
	}
}

static int due_source_timeout_ms(const void *arg)
{
	const struct supervisor *supervisor = arg;
	int64_t due_ms = BOX_MIN(supervisor->kill_at_ms, supervisor->start_at_ms);
	return box_event_source_timeout_ms(due_ms == NEVER ? UINT64_MAX : (uint64_t)due_ms);
}

static void due_source_step(void *arg, short revents)
{
	struct supervisor *supervisor = arg;
	(void)revents;
	check_rpc(supervisor);
	int64_t now = now_ms();
	if (is_running(supervisor) && now >= supervisor->kill_at_ms) {
		BOX_LOG(BOX_LOG_WARNING, "worker.late", box_log_int("pid", supervisor->rpc.pid));
		kill_rpc(supervisor);
	}
	if (supervisor->exit_code < 0 && now >= supervisor->start_at_ms) {
		restart_rpc(supervisor);
	}
}

/* --- the loop --- */

/* In the order in which they are called: what box-rpc requests starts in the same turn. */
static void add_sources(struct supervisor *supervisor)
{
	struct box_event_sources *sources = &supervisor->sources;
	box_event_source_add(sources,
		(struct box_event_source){
			.arg = supervisor, .fd = signal_source_fd, .step = signal_source_step});
	box_event_source_add(sources,
		(struct box_event_source){.arg = supervisor,
			.fd = packet_source_fd,
			.events = packet_source_events,
			.step = packet_source_step});
	box_event_source_add(sources,
		(struct box_event_source){
			.arg = supervisor, .fd = death_source_fd, .step = death_source_step});
	box_serve_add_event_sources(supervisor->serve, sources);
	box_event_source_add(sources,
		(struct box_event_source){.arg = supervisor,
			.timeout_ms = due_source_timeout_ms,
			.step = due_source_step});
}

static int sooner(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* Fills `polled`, one for each source; returns how long to wait. */
static int prepare_poll(
	const struct box_event_sources *sources, struct pollfd polled[BOX_EVENT_SOURCES_MAX])
{
	int wait_ms = -1;
	for (size_t i = 0; i < sources->count; i++) {
		const struct box_event_source *source = &sources->all[i];
		polled[i] = (struct pollfd){
			.fd = source->fd ? source->fd(source->arg) : -1,
			.events = source->events ? source->events(source->arg) : POLLIN,
		};
		if (source->timeout_ms) {
			wait_ms = sooner(wait_ms, source->timeout_ms(source->arg));
		}
	}
	return wait_ms;
}

/* After each wait, in which `count` fds had an event. Warm boxes are made after a while without events;
 * an expired timer of another source does not prevent that. */
static void add_warm_box(struct supervisor *supervisor, int count, bool wanted)
{
	if (count == 0) {
		if (!wanted || now_ms() - supervisor->busy_ms < QUIET_MS) {
			return;
		}
		box_warm_pool_add(box_serve_warm_pool(supervisor->serve));
	}
	supervisor->busy_ms = now_ms();
}

static int run(struct supervisor *supervisor)
{
	const struct box_event_sources *sources = &supervisor->sources;
	const struct box_warm_pool *pool = box_serve_warm_pool(supervisor->serve);
	while (supervisor->exit_code < 0) {
		struct pollfd polled[BOX_EVENT_SOURCES_MAX];
		int wait_ms = prepare_poll(sources, polled);
		bool wants_box = !supervisor->stopping && box_warm_pool_wants_box(pool);
		if (wants_box) {
			wait_ms = sooner(wait_ms, QUIET_MS);
		}
		int count = poll(polled, sources->count, wait_ms);
		if (count < 0 && errno != EINTR) {
			BOX_LOG(BOX_LOG_ERROR, "poll.failed", box_log_errno("error", errno));
			return 1;
		}
		add_warm_box(supervisor, count, wants_box);
		for (size_t i = 0; i < sources->count; i++) {
			sources->all[i].step(sources->all[i].arg, polled[i].revents);
		}
	}
	return supervisor->exit_code;
}

static int take_signals(int *ret_fd)
{
	struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct sigaction plain = {.sa_handler = SIG_DFL};
	sigset_t mask;
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigaddset(&mask, SIGINT);
	(void)sigaddset(&mask, SIGHUP);
	/* An inherited SIG_IGN for SIGCHLD would lose box-rpc's exit code. */
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 || sigaction(SIGCHLD, &plain, NULL) < 0 ||
		sigprocmask(SIG_SETMASK, &mask, NULL) < 0) {
		return -errno;
	}
	int fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

int box_supervise_run(const struct box_supervise_setup *setup)
{
	struct supervisor supervisor = {
		.setup = setup,
		.signal_fd = -1,
		.rpc = {.pidfd = -1, .socket = -1},
		.kill_at_ms = NEVER,
		.start_at_ms = NEVER,
		.exit_code = -1,
	};
	int r = take_signals(&supervisor.signal_fd);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "signals.failed", box_log_errno("error", r));
		return 1;
	}
	struct box_err err;
	supervisor.serve = box_serve_new(&setup->serve);
	add_sources(&supervisor);
	r = start_rpc(&supervisor, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "worker.start_failed", box_log_str("why", err.text));
	}
	int exit_code = r < 0 ? 1 : run(&supervisor);
	BOX_LOG(BOX_LOG_INFO, "stopped", box_log_int("code", exit_code));
	box_serve_free(supervisor.serve);
	box_close_p(&supervisor.signal_fd);
	return exit_code;
}
