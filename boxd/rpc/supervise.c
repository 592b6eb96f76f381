/* One box-rpc at a time: when it starts, when it has died, when it starts again. What is said to it
 * is serve.c's. Nothing that it does or leaves undone can block this loop. */
#include "boxd/rpc/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/boxes.h"
#include "boxd/box/warm_pool.h"
#include "boxd/files/measures.h"
#include "boxd/image/caller_roots.h"
#include "boxd/jobs.h"
#include "boxd/net/network.h"
#include "boxd/quota/quota_queue.h"

#define NEVER INT64_MAX
#define RESTART_PAUSE_MIN_MS 50
#define GOOD_RUN_MS 5000      /* a run longer than this makes up for deaths before it */
#define DEATHS_UNREADY_MAX 3  /* of a box-rpc that was never ready */
#define AHEAD_MS 5            /* of quiet, before something is made ahead */
#define HANGUP_GRACE_MS 1000  /* from the end of its socket to the end of box-rpc */
#define LAST_PACKETS_MAX 1024 /* read after its death */

struct keeper {
	const struct box_supervise_setup *setup;
	struct box_serve *serve;
	int signal_fd;

	struct box_rpc_process worker; /* fds are -1 when there is none */
	int64_t started_ms;
	int64_t kill_at_ms;
	int64_t busy_ms; /* when something was to be done last */

	int64_t start_at_ms; /* NEVER while one runs */
	uint32_t restarts;
	unsigned quick_deaths;
	unsigned deaths_unready;

	bool stopping;
	int exit_code; /* negative: go on */
};

static int64_t now_ms(void)
{
	return (int64_t)box_clock_ms();
}

static bool has_flag(const struct keeper *keeper, enum box_boxd_start_flag flag)
{
	return (keeper->setup->serve.carried->start.flags & (uint32_t)flag) != 0;
}

static bool has_worker(const struct keeper *keeper)
{
	return keeper->worker.pidfd >= 0;
}

static void kill_worker(struct keeper *keeper)
{
	keeper->kill_at_ms = NEVER;
	/* It is our child and not yet waited for: this can only fail when it has died already. */
	(void)pidfd_send_signal(keeper->worker.pidfd, SIGKILL, NULL, 0);
}

static void refuse_worker(struct keeper *keeper, const char *why)
{
	BOX_LOG(BOX_LOG_ERROR, "worker.refused", box_log_int("pid", keeper->worker.pid),
		box_log_str("why", why));
	kill_worker(keeper);
	box_serve_end(keeper->serve);
	box_close_p(&keeper->worker.socket);
}

static int start_worker(struct keeper *keeper, struct box_err *err)
{
	/* The verdict of --check-config is said on stdout. */
	bool stdio = has_flag(keeper, BOX_BOXD_START_STDIO) ||
		has_flag(keeper, BOX_BOXD_START_CHECK_CONFIG);
	int r = box_rpc_process_start(
		keeper->setup->worker_path, keeper->setup->serve.ids, stdio, &keeper->worker, err);
	if (r < 0) {
		return r;
	}
	keeper->started_ms = now_ms();
	keeper->start_at_ms = NEVER;
	keeper->kill_at_ms = NEVER;
	BOX_LOG(BOX_LOG_INFO, "worker.started", box_log_int("pid", keeper->worker.pid),
		box_log_int("restarts", keeper->restarts));
	if (box_serve_begin(keeper->serve, keeper->worker.socket, keeper->restarts) < 0) {
		refuse_worker(keeper, "it could not be given what it needs");
	}
	return 0;
}

/* At once the first time, then with a pause that doubles while it keeps dying early. */
static void plan_restart(struct keeper *keeper, int64_t ran_ms)
{
	keeper->deaths_unready++;
	if (!box_serve_was_ready(keeper->serve) && keeper->deaths_unready >= DEATHS_UNREADY_MAX) {
		BOX_LOG(BOX_LOG_ERROR, "worker.given_up",
			box_log_str("why", "box-rpc died again and again and was never ready"),
			box_log_int("deaths", keeper->deaths_unready));
		keeper->exit_code = 1;
		return;
	}
	if (ran_ms > GOOD_RUN_MS) {
		keeper->quick_deaths = 0;
	}
	int64_t pause_ms = keeper->quick_deaths > 0 ? RESTART_PAUSE_MIN_MS : 0;
	for (unsigned i = 1; i < keeper->quick_deaths && pause_ms < BOX_RESTART_PAUSE_MAX_MS; i++) {
		pause_ms *= 2;
	}
	pause_ms = BOX_MIN(pause_ms, BOX_RESTART_PAUSE_MAX_MS);
	keeper->quick_deaths++;
	keeper->start_at_ms = now_ms() + pause_ms;
}

static void start_again(struct keeper *keeper)
{
	struct box_err err;
	keeper->restarts++;
	if (start_worker(keeper, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "worker.start_failed", box_log_str("why", err.text));
		plan_restart(keeper, 0);
	}
}

static void on_reload_signal(struct keeper *keeper)
{
	const struct box_start_data *carried = keeper->setup->serve.carried;
	if (!carried->config_path && carried->token_path[0] == '\0') {
		BOX_LOG(BOX_LOG_WARNING, "reload.nothing",
			box_log_str("why", "there is no --config and no --token-file to reload"));
	} else if (!keeper->stopping) {
		box_serve_reload(keeper->serve);
	}
}

static void on_stop_signal(struct keeper *keeper)
{
	if (!has_worker(keeper)) {
		keeper->exit_code = 0;
		return;
	}
	if (keeper->stopping) {
		BOX_LOG(BOX_LOG_WARNING, "stopping.now");
		kill_worker(keeper);
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "stopping");
	keeper->stopping = true;
	keeper->kill_at_ms = now_ms() + BOX_SHUTDOWN_KILL_MS;
	if (keeper->worker.socket >= 0) {
		/* If this fails, the time that was just set will end it. */
		(void)box_serve_stop(keeper->serve);
	}
}

static void on_signal(struct keeper *keeper)
{
	struct signalfd_siginfo info;
	if (read(keeper->signal_fd, &info, sizeof(info)) != (ssize_t)sizeof(info)) {
		return;
	}
	if (info.ssi_signo == SIGHUP) {
		on_reload_signal(keeper);
	} else {
		on_stop_signal(keeper);
	}
}

/* One packet; -EAGAIN, -EPIPE or -EPROTO (then box-rpc is refused) when there is no other. */
static int serve_packet(struct keeper *keeper, bool dead)
{
	const char *why = NULL;
	int r = box_serve_receive(keeper->serve, dead, &why);
	if (r == -EPROTO) {
		refuse_worker(keeper, why);
	}
	return r;
}

static void on_packet(struct keeper *keeper)
{
	if (serve_packet(keeper, false) == -EPIPE) {
		/* Either it is about to exit, with a code worth knowing, or it is broken. */
		box_serve_end(keeper->serve);
		box_close_p(&keeper->worker.socket);
		int64_t late_ms = now_ms() + HANGUP_GRACE_MS;
		keeper->kill_at_ms = BOX_MIN(late_ms, keeper->kill_at_ms);
	}
}

/* What it left to its successor counts: a STATE may lie there still. */
static void serve_last_packets(struct keeper *keeper)
{
	for (int i = 0; i < LAST_PACKETS_MAX && keeper->worker.socket >= 0; i++) {
		if (serve_packet(keeper, true) < 0) {
			return;
		}
	}
}

static void log_death(const struct keeper *keeper, const siginfo_t *end)
{
	char how[64];
	(void)snprintf(how, sizeof(how), "%s %d", end->si_code == CLD_EXITED ? "exit" : "signal",
		end->si_status);
	bool verdict = has_flag(keeper, BOX_BOXD_START_CHECK_CONFIG) &&
		end->si_status == BOX_BOXD_EXIT_CONFIG;
	bool expected = keeper->stopping ||
		(end->si_code == CLD_EXITED && (end->si_status == 0 || verdict));
	BOX_LOG(expected ? BOX_LOG_INFO : BOX_LOG_WARNING, "worker.died",
		box_log_int("pid", keeper->worker.pid), box_log_str("how", how));
}

/* boxd's exit code after such an end of box-rpc, or -1: start it again. */
static int exit_code_after(const struct keeper *keeper, const siginfo_t *end)
{
	int code = end->si_code == CLD_EXITED ? end->si_status : -1;
	if (has_flag(keeper, BOX_BOXD_START_CHECK_CONFIG)) {
		return code >= 0 && !keeper->stopping ? code : 1;
	}
	if (keeper->stopping) {
		return 0;
	}
	if (code == BOX_BOXD_EXIT_CONFIG) {
		return BOX_BOXD_EXIT_CONFIG;
	}
	if (has_flag(keeper, BOX_BOXD_START_STDIO)) {
		return code == 0 ? 0 : 1;
	}
	return -1;
}

static void on_death(struct keeper *keeper)
{
	siginfo_t end = {0};
	if (waitid(P_PIDFD, (id_t)keeper->worker.pidfd, &end, WEXITED) < 0) {
		return;
	}
	serve_last_packets(keeper);
	log_death(keeper, &end);
	box_serve_end(keeper->serve);
	box_close_p(&keeper->worker.socket);
	box_close_p(&keeper->worker.pidfd);
	keeper->kill_at_ms = NEVER;
	keeper->exit_code = exit_code_after(keeper, &end);
	if (keeper->exit_code < 0) {
		plan_restart(keeper, now_ms() - keeper->started_ms);
	}
}

static void on_time(struct keeper *keeper)
{
	int64_t now = now_ms();
	if (has_worker(keeper) && now >= keeper->kill_at_ms) {
		BOX_LOG(BOX_LOG_WARNING, "worker.late", box_log_int("pid", keeper->worker.pid));
		kill_worker(keeper);
	}
	if (keeper->exit_code < 0 && now >= keeper->start_at_ms) {
		start_again(keeper);
	}
}

static int sooner(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

static int timeout_ms(const struct keeper *keeper)
{
	int boxes_ms = sooner(box_boxes_timeout_ms(box_serve_boxes(keeper->serve)),
		box_measures_timeout_ms(box_serve_measures(keeper->serve)));
	boxes_ms = sooner(boxes_ms, box_jobs_timeout_ms(box_serve_jobs(keeper->serve)));
	boxes_ms = sooner(
		boxes_ms, box_quota_queue_timeout_ms(box_serve_quota_queue(keeper->serve)));
	boxes_ms = sooner(
		boxes_ms, box_caller_roots_timeout_ms(box_serve_caller_roots(keeper->serve)));
	boxes_ms = sooner(boxes_ms, box_watcher_timeout_ms(&keeper->setup->serve.ground->watcher));
	int64_t next = keeper->kill_at_ms < keeper->start_at_ms ? keeper->kill_at_ms
								: keeper->start_at_ms;
	if (next == NEVER) {
		return boxes_ms;
	}
	int64_t left = next - now_ms();
	return sooner(left > 0 ? (int)left : 0, boxes_ms);
}

static void on_writable(struct keeper *keeper)
{
	if (box_serve_flush(keeper->serve) < 0) {
		refuse_worker(keeper, "it does not take its packets");
	}
}

/* After each wait, in which `count` fds had something. Blanks are made when nothing has come for a
 * while; that some time was over is no reason not to. */
static void make_ahead(struct keeper *keeper, int count, bool wanted, struct box_warm_pool *next)
{
	if (count == 0) {
		if (!wanted || now_ms() - keeper->busy_ms < AHEAD_MS) {
			return;
		}
		box_warm_pool_add(next);
	}
	keeper->busy_ms = now_ms();
}

/* What boxes and measures tell may find nobody who takes it. */
static void check_worker(struct keeper *keeper)
{
	const char *why = box_serve_fault(keeper->serve);
	if (why && keeper->worker.socket >= 0) {
		refuse_worker(keeper, why);
	}
	if (box_serve_config_refused(keeper->serve) && keeper->exit_code < 0) {
		if (has_worker(keeper)) {
			kill_worker(keeper);
		}
		keeper->exit_code = BOX_BOXD_EXIT_CONFIG;
	}
}

static int run(struct keeper *keeper)
{
	struct box_boxes *boxes = box_serve_boxes(keeper->serve);
	struct box_warm_pool *next = box_boxes_warm_pool(boxes);
	struct box_measures *measures = box_serve_measures(keeper->serve);
	struct box_jobs *errands = box_serve_jobs(keeper->serve);
	struct box_quota_queue *quotas = box_serve_quota_queue(keeper->serve);
	struct box_caller_roots *callers_roots = box_serve_caller_roots(keeper->serve);
	struct box_network *network = keeper->setup->serve.ground->network;
	struct box_watcher *watcher = &keeper->setup->serve.ground->watcher;
	while (keeper->exit_code < 0) {
		short out = box_serve_wants_write(keeper->serve) ? POLLOUT : 0;
		struct pollfd polled[] = {
			{.fd = keeper->signal_fd, .events = POLLIN},
			{.fd = keeper->worker.socket, .events = (short)(POLLIN | out)},
			{.fd = keeper->worker.pidfd, .events = POLLIN},
			{.fd = box_boxes_fd(boxes), .events = POLLIN},
			{.fd = network ? box_network_fd(network) : -1, .events = POLLIN},
			{.fd = box_measures_fd(measures), .events = POLLIN},
			{.fd = box_jobs_fd(errands), .events = POLLIN},
			{.fd = box_quota_queue_fd(quotas), .events = POLLIN},
			{.fd = box_caller_roots_fd(callers_roots), .events = POLLIN},
			{.fd = box_watcher_fd(watcher), .events = POLLIN},
		};
		bool ahead = !keeper->stopping && box_warm_pool_wants_box(next);
		int wait_ms = ahead ? sooner(timeout_ms(keeper), AHEAD_MS) : timeout_ms(keeper);
		int count = poll(polled, BOX_COUNT_OF(polled), wait_ms);
		if (count < 0 && errno != EINTR) {
			BOX_LOG(BOX_LOG_ERROR, "poll.failed", box_log_errno("error", errno));
			return 1;
		}
		make_ahead(keeper, count, ahead, next);
		if (polled[0].revents) {
			on_signal(keeper);
		}
		if (polled[1].revents & POLLOUT) {
			on_writable(keeper);
		}
		if ((polled[1].revents & ~POLLOUT) && keeper->worker.socket >= 0) {
			on_packet(keeper);
		}
		if (polled[2].revents) {
			on_death(keeper);
		}
		box_boxes_step(boxes);
		if (polled[4].revents) {
			box_network_step(network);
		}
		box_measures_step(measures);
		box_jobs_step(errands);
		box_quota_queue_step(quotas);
		box_caller_roots_step(callers_roots);
		box_watcher_step(watcher);
		check_worker(keeper);
		on_time(keeper);
	}
	return keeper->exit_code;
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
	struct keeper keeper = {
		.setup = setup,
		.signal_fd = -1,
		.worker = {.pidfd = -1, .socket = -1},
		.kill_at_ms = NEVER,
		.start_at_ms = NEVER,
		.exit_code = -1,
	};
	int r = take_signals(&keeper.signal_fd);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "signals.failed", box_log_errno("error", r));
		return 1;
	}
	struct box_err err;
	keeper.serve = box_serve_new(&setup->serve);
	r = start_worker(&keeper, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "worker.start_failed", box_log_str("why", err.text));
	}
	int exit_code = r < 0 ? 1 : run(&keeper);
	BOX_LOG(BOX_LOG_INFO, "stopped", box_log_int("code", exit_code));
	box_serve_free(keeper.serve);
	box_close_p(&keeper.signal_fd);
	return exit_code;
}
