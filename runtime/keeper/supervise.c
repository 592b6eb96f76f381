/* One box-rpc at a time, and what must outlive it: the listening sockets and the fd it left for its
 * successor. Whatever comes from box-rpc is taken for hostile: a wrong packet ends it, and nothing
 * that it does or leaves undone can block this loop. */
#include "runtime/keeper/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "runtime/keeper/folders.h"
#include "runtime/keeper/packet.h"

#define NEVER INT64_MAX
#define RESTART_PAUSE_MIN_MS 50
#define GOOD_RUN_MS 5000      /* a run longer than this makes up for deaths before it */
#define DEATHS_UNREADY_MAX 3  /* of a box-rpc that was never ready */
#define HANGUP_GRACE_MS 1000  /* from the end of its socket to the end of box-rpc */
#define LAST_PACKETS_MAX 1024 /* read after its death */

struct keeper {
	const struct box_supervise_setup *setup;
	int signal_fd;
	int state_fd; /* the last STATE, or -1 */

	struct box_worker worker; /* fds are -1 when there is none */
	bool ready;
	int64_t started_ms;
	int64_t kill_at_ms;

	int64_t start_at_ms; /* NEVER while one runs */
	uint32_t restarts;
	unsigned quick_deaths;
	unsigned deaths_unready;
	bool ever_ready;

	bool reload_wanted;
	bool stopping;
	int exit_code; /* negative: go on */
};

static int64_t now_ms(void)
{
	return (int64_t)box_clock_ms();
}

static bool has_flag(const struct keeper *keeper, enum box_keeper_start_flag flag)
{
	return (keeper->setup->carried->start.flags & (uint32_t)flag) != 0;
}

static bool has_worker(const struct keeper *keeper)
{
	return keeper->worker.pidfd >= 0;
}

static void close_fd(int *fd)
{
	box_close_p(fd);
	*fd = -1;
}

static void kill_worker(struct keeper *keeper)
{
	keeper->kill_at_ms = NEVER;
	/* It is our child and not yet waited for: this can only fail when it has died already. */
	(void)pidfd_send_signal(keeper->worker.pidfd, SIGKILL, NULL, 0);
}

static void refuse_worker(struct keeper *keeper, const char *why)
{
	BOX_LOG(BOX_LOG_ERROR, "worker.refused", box_kv_int("pid", keeper->worker.pid),
		box_kv_str("why", why));
	kill_worker(keeper);
	close_fd(&keeper->worker.socket);
}

static int send_plain(struct keeper *keeper, uint32_t kind, const int *fds, size_t fd_count)
{
	struct box_keeper_plain packet = {.kind = kind};
	return box_packet_send(keeper->worker.socket, &packet, sizeof(packet), fds, fd_count);
}

/* START goes out of the one struct that holds the token: no copies of it. */
static int send_start(struct keeper *keeper)
{
	struct box_carried *carried = keeper->setup->carried;
	int fds[BOX_START_FDS_MAX];
	size_t count = box_carry_fill_start(carried, keeper->state_fd, fds);
	carried->start.restarts = keeper->restarts;
	return box_packet_send(
		keeper->worker.socket, &carried->start, sizeof(carried->start), fds, count);
}

static int start_worker(struct keeper *keeper, struct box_err *err)
{
	char path[BOX_PATH_MAX];
	int r = box_worker_find(path, err);
	if (r < 0) {
		return r;
	}
	bool stdio = has_flag(keeper, BOX_START_STDIO);
	r = box_worker_start(path, keeper->setup->ids, stdio, &keeper->worker, err);
	if (r < 0) {
		return r;
	}
	keeper->started_ms = now_ms();
	keeper->start_at_ms = NEVER;
	keeper->kill_at_ms = NEVER;
	keeper->ready = false;
	keeper->reload_wanted = false;
	BOX_LOG(BOX_LOG_INFO, "worker.started", box_kv_int("pid", keeper->worker.pid),
		box_kv_int("restarts", keeper->restarts));
	if (send_start(keeper) < 0) {
		refuse_worker(keeper, "it could not be given what it needs");
	}
	return 0;
}

/* At once the first time, then with a pause that doubles while it keeps dying early. */
static void plan_restart(struct keeper *keeper, int64_t ran_ms)
{
	keeper->deaths_unready++;
	if (!keeper->ever_ready && keeper->deaths_unready >= DEATHS_UNREADY_MAX) {
		BOX_LOG(BOX_LOG_ERROR, "worker.given_up",
			box_kv_str("why", "box-rpc died again and again and was never ready"),
			box_kv_int("deaths", keeper->deaths_unready));
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
	pause_ms = pause_ms < BOX_RESTART_PAUSE_MAX_MS ? pause_ms : BOX_RESTART_PAUSE_MAX_MS;
	keeper->quick_deaths++;
	keeper->start_at_ms = now_ms() + pause_ms;
}

static void start_again(struct keeper *keeper)
{
	struct box_err err;
	keeper->restarts++;
	if (start_worker(keeper, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "worker.start_failed", box_kv_str("why", err.text));
		plan_restart(keeper, 0);
	}
}

static void reload(struct keeper *keeper)
{
	struct box_err err;
	int fd = -1;
	int r = box_carry_reread(keeper->setup->carried, &fd, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "reload.failed", box_kv_str("why", err.text));
		return;
	}
	r = send_plain(keeper, BOX_KEEPER_RELOAD, &fd, 1);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "reload.failed", box_kv_errno("why", r));
		return;
	}
	BOX_LOG(BOX_LOG_INFO, "reload.sent");
}

static void on_reload_signal(struct keeper *keeper)
{
	if (!keeper->setup->carried->config_path) {
		BOX_LOG(BOX_LOG_WARNING, "reload.nothing",
			box_kv_str("why", "there is no --config file to reload"));
	} else if (keeper->worker.socket < 0 || keeper->stopping) {
		BOX_LOG(BOX_LOG_INFO, "reload.skipped",
			box_kv_str("why", "the next start reads the file anyway"));
	} else if (!keeper->ready) {
		/* LISTEN comes first. */
		keeper->reload_wanted = true;
	} else {
		reload(keeper);
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
		(void)send_plain(keeper, BOX_KEEPER_STOP, NULL, 0);
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

/* Packets. Each returns NULL, or why box-rpc is refused. */

static const char *take_ready(struct keeper *keeper, struct box_packet *packet)
{
	(void)packet;
	const struct box_listeners *listeners = keeper->setup->listeners;
	if (keeper->ready) {
		return "a second READY";
	}
	keeper->ready = true;
	keeper->ever_ready = true;
	if (send_plain(keeper, BOX_KEEPER_LISTEN, listeners->fds, listeners->count) < 0) {
		return "it does not take the listening sockets";
	}
	if (keeper->reload_wanted) {
		keeper->reload_wanted = false;
		reload(keeper);
	}
	return NULL;
}

static const char *take_state(struct keeper *keeper, struct box_packet *packet)
{
	struct stat status;
	if (fstat(packet->fds[0], &status) < 0 || !S_ISREG(status.st_mode)) {
		return "a STATE that is no file";
	}
	if ((uint64_t)status.st_size > BOX_STATE_BYTES_MAX) {
		return "a STATE that is too big";
	}
	close_fd(&keeper->state_fd);
	keeper->state_fd = TAKE_FD(packet->fds[0]);
	return NULL;
}

static const char *take_taken(struct keeper *keeper, struct box_packet *packet)
{
	(void)packet;
	box_carry_taken(keeper->setup->carried);
	return NULL;
}

static const char *take_make_folder(struct keeper *keeper, struct box_packet *packet)
{
	const struct box_keeper_make_folder *wanted = &packet->make_folder;
	if (!memchr(wanted->path, '\0', sizeof(wanted->path))) {
		return "a path without an end";
	}
	struct box_keeper_folder answer = {
		.kind = BOX_KEEPER_FOLDER,
		.id = wanted->id,
		.result = box_folder_make(wanted->path, wanted->look_only != 0),
	};
	BOX_LOG(BOX_LOG_DEBUG, "folder", box_kv_str("path", wanted->path),
		box_kv_int("result", answer.result));
	int r = box_packet_send(keeper->worker.socket, &answer, sizeof(answer), NULL, 0);
	/* Hundreds of answers fit: one that does not was never going to be read. */
	return r == -EAGAIN ? "it does not read its answers" : NULL;
}

static const struct {
	uint32_t kind;
	size_t size;
	size_t fd_count;
	const char *(*take)(struct keeper *keeper, struct box_packet *packet);
} kinds[] = {
	{BOX_KEEPER_READY, sizeof(struct box_keeper_plain), 0, take_ready},
	{BOX_KEEPER_STATE, sizeof(struct box_keeper_plain), 1, take_state},
	{BOX_KEEPER_TAKEN, sizeof(struct box_keeper_plain), 0, take_taken},
	{BOX_KEEPER_MAKE_FOLDER, sizeof(struct box_keeper_make_folder), 0, take_make_folder},
};

static const char *take_packet(struct keeper *keeper, struct box_packet *packet)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (kinds[i].kind != packet->kind) {
			continue;
		}
		if (kinds[i].size != packet->size) {
			return "a packet of a wrong size";
		}
		if (kinds[i].fd_count != packet->fd_count) {
			return "a packet with a wrong number of fds";
		}
		return kinds[i].take(keeper, packet);
	}
	return "a packet of an unknown kind";
}

/* One packet; -EAGAIN, -EPIPE or -EPROTO (then box-rpc is refused) when there is no other. */
static int serve_packet(struct keeper *keeper)
{
	struct box_packet packet;
	int r = box_packet_recv(keeper->worker.socket, &packet);
	if (r == -EAGAIN || r == -EPIPE) {
		return r;
	}
	const char *wrong = r < 0 ? "a malformed packet" : take_packet(keeper, &packet);
	if (r == 0) {
		box_packet_close_fds(&packet);
	}
	if (wrong) {
		refuse_worker(keeper, wrong);
		return -EPROTO;
	}
	return 0;
}

static void on_packet(struct keeper *keeper)
{
	if (serve_packet(keeper) == -EPIPE) {
		/* Either it is about to exit, with a code worth knowing, or it is broken. */
		close_fd(&keeper->worker.socket);
		int64_t late_ms = now_ms() + HANGUP_GRACE_MS;
		keeper->kill_at_ms = late_ms < keeper->kill_at_ms ? late_ms : keeper->kill_at_ms;
	}
}

/* What it said last counts: a STATE may lie there still. */
static void serve_last_packets(struct keeper *keeper)
{
	for (int i = 0; i < LAST_PACKETS_MAX && keeper->worker.socket >= 0; i++) {
		if (serve_packet(keeper) < 0) {
			return;
		}
	}
}

static void log_death(const struct keeper *keeper, const siginfo_t *end)
{
	char how[64];
	(void)snprintf(how, sizeof(how), "%s %d", end->si_code == CLD_EXITED ? "exit" : "signal",
		end->si_status);
	bool expected = keeper->stopping || (end->si_code == CLD_EXITED && end->si_status == 0);
	BOX_LOG(expected ? BOX_LOG_INFO : BOX_LOG_WARNING, "worker.died",
		box_kv_int("pid", keeper->worker.pid), box_kv_str("how", how));
}

/* boxd's exit code after such an end of box-rpc, or -1: start it again. */
static int exit_code_after(const struct keeper *keeper, const siginfo_t *end)
{
	int code = end->si_code == CLD_EXITED ? end->si_status : -1;
	if (has_flag(keeper, BOX_START_CHECK_CONFIG)) {
		return code >= 0 && !keeper->stopping ? code : 1;
	}
	if (keeper->stopping) {
		return 0;
	}
	if (code == BOX_EXIT_CONFIG) {
		return BOX_EXIT_CONFIG;
	}
	if (has_flag(keeper, BOX_START_STDIO)) {
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
	close_fd(&keeper->worker.socket);
	close_fd(&keeper->worker.pidfd);
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
		BOX_LOG(BOX_LOG_WARNING, "worker.late", box_kv_int("pid", keeper->worker.pid));
		kill_worker(keeper);
	}
	if (keeper->exit_code < 0 && now >= keeper->start_at_ms) {
		start_again(keeper);
	}
}

static int timeout_ms(const struct keeper *keeper)
{
	int64_t next = keeper->kill_at_ms < keeper->start_at_ms ? keeper->kill_at_ms
								: keeper->start_at_ms;
	if (next == NEVER) {
		return -1;
	}
	int64_t left = next - now_ms();
	return left > 0 ? (int)left : 0;
}

static int run(struct keeper *keeper)
{
	while (keeper->exit_code < 0) {
		struct pollfd polled[] = {
			{.fd = keeper->signal_fd, .events = POLLIN},
			{.fd = keeper->worker.socket, .events = POLLIN},
			{.fd = keeper->worker.pidfd, .events = POLLIN},
		};
		if (poll(polled, 3, timeout_ms(keeper)) < 0 && errno != EINTR) {
			BOX_LOG(BOX_LOG_ERROR, "poll.failed", box_kv_errno("error", errno));
			return 1;
		}
		if (polled[0].revents) {
			on_signal(keeper);
		}
		if (polled[1].revents) {
			on_packet(keeper);
		}
		if (polled[2].revents) {
			on_death(keeper);
		}
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

int box_supervise(const struct box_supervise_setup *setup)
{
	struct keeper keeper = {
		.setup = setup,
		.signal_fd = -1,
		.state_fd = -1,
		.worker = {.pidfd = -1, .socket = -1},
		.kill_at_ms = NEVER,
		.start_at_ms = NEVER,
		.exit_code = -1,
	};
	int r = take_signals(&keeper.signal_fd);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "signals.failed", box_kv_errno("error", r));
		return 1;
	}
	struct box_err err;
	r = start_worker(&keeper, &err);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "worker.start_failed", box_kv_str("why", err.text));
	}
	int exit_code = r < 0 ? 1 : run(&keeper);
	BOX_LOG(BOX_LOG_INFO, "stopped", box_kv_int("code", exit_code));
	close_fd(&keeper.state_fd);
	close_fd(&keeper.signal_fd);
	return exit_code;
}
