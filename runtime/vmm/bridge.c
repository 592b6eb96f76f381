/* Owns the loop between two sockets, and what is known while it runs. It allocates nothing: one packet
 * each way, the end of the console, the numbers of mounts. Whatever is wrong ends it, and with it the
 * box: it is PID 1 there. */
#include "runtime/vmm/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "runtime/vmm/carry.h"
#include "runtime/vmm/console.h"
#include "runtime/vmm/hanger.h"
#include "runtime/vmm/mounts.h"

#define CONSOLE_READS_MAX 64 /* of a dead machine's last words */
#define ERRNO_MAX 4095
#define SEC_NS 1000000000ULL

static struct {
	const struct box_bridge *bridge;
	int listener;
	int stream;
	int console_fd;
	struct box_guest_report report; /* as far as it has come */
	size_t report_size;
	struct box_carry_down down;
	struct box_carry_up up;
	bool up_waits;  /* a whole packet does, for room in the control socket */
	bool hanging;   /* the packet in `down` waits for the hanger */
	bool clock_due; /* the guest must be told the time */
	uint32_t reset_upto;
	struct box_mounts mounts;
	struct box_console console;
} state;

/* --- the report --- */

void box_bridge_report(int report, uint32_t step, int errnum, const char *text)
{
	struct box_machine_report words = {.report = {.step = step, .errnum = errnum}};
	(void)snprintf(words.text, sizeof(words.text), "%s", text);
	ssize_t ignored = write(report, &words, sizeof(words));
	(void)ignored;
	(void)close(report);
}

/* 1 when there may be more. */
static int read_console(void)
{
	char bytes[1024];
	ssize_t got = state.console_fd < 0 ? 0 : read(state.console_fd, bytes, sizeof(bytes));
	if (got > 0) {
		box_console_add(&state.console, bytes, (size_t)got);
		return 1;
	}
	if (got == 0 && state.console_fd >= 0) {
		(void)close(state.console_fd);
		state.console_fd = -1;
	}
	return 0;
}

static int fail(uint32_t step, int errnum)
{
	char text[BOX_MACHINE_TEXT_MAX];
	for (int i = 0; i < CONSOLE_READS_MAX && read_console(); i++) {
	}
	box_console_text(&state.console, text, sizeof(text));
	box_bridge_report(state.bridge->report, step, errnum, text);
	return -errnum;
}

/* --- until the guest has reported --- */

/* One of those without whom there is no box has ended. Others, which were orphaned, are only reaped. */
static bool child_ended(void)
{
	struct signalfd_siginfo info;
	pid_t pid;
	bool ended = false;
	ssize_t ignored = read(state.bridge->signals, &info, sizeof(info));
	(void)ignored;
	while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) {
		for (size_t i = 0; i < BOX_BRIDGE_CHILDREN_MAX; i++) {
			ended = ended || state.bridge->children[i] == pid;
		}
	}
	return ended;
}

/* The first who comes; nobody after it. */
static int accept_guest(void)
{
	int fd = accept4(state.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	}
	(void)close(state.listener);
	(void)unlink(state.bridge->socket_path);
	state.listener = -1;
	state.stream = fd;
	return 0;
}

/* 1 when it is whole. */
static int read_report(void)
{
	char *to = (char *)&state.report;
	ssize_t got = recv(state.stream, to + state.report_size,
		sizeof(state.report) - state.report_size, MSG_DONTWAIT);
	if (got <= 0) {
		bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
		return later ? 0 : -ECONNRESET;
	}
	state.report_size += (size_t)got;
	return state.report_size == sizeof(state.report);
}

/* Its own steps, and nothing that looks like one of ours or of boxd's. */
static bool is_report(const struct box_guest_report *report)
{
	if (report->step == 0) {
		return report->errnum == 0;
	}
	return (box_guest_boot_step_name(report->step) || box_machine_step_name(report->step)) &&
		report->errnum > 0 && report->errnum <= ERRNO_MAX;
}

static int judge_report(void)
{
	if (!is_report(&state.report)) {
		return fail(BOX_VMM_ANSWER, EBADMSG);
	}
	if (state.report.step != 0) {
		return fail(state.report.step, state.report.errnum);
	}
	box_bridge_report(state.bridge->report, 0, 0, "");
	return 0;
}

/* What one of them says while the report is waited for: 1 when there is one. */
static int hear_early(const struct pollfd *fds)
{
	if (fds[1].revents) {
		(void)read_console();
	}
	if (fds[2].revents && child_ended()) {
		return fail(BOX_VMM_START, ECHILD);
	}
	if (fds[3].revents & (POLLHUP | POLLERR | POLLNVAL)) {
		return -EPIPE; /* nobody wants it any more */
	}
	if (!fds[0].revents) {
		return 0;
	}
	int r = state.stream < 0 ? accept_guest() : read_report();
	return r < 0 ? fail(BOX_VMM_ANSWER, -r) : r;
}

static int await_report(void)
{
	uint64_t until_ms = box_clock_ms() + state.bridge->deadline_ms;
	for (;;) {
		uint64_t now_ms = box_clock_ms();
		if (now_ms >= until_ms) {
			return fail(BOX_VMM_DEADLINE, ETIMEDOUT);
		}
		struct pollfd fds[] = {
			{.fd = state.stream < 0 ? state.listener : state.stream, .events = POLLIN},
			{.fd = state.console_fd, .events = POLLIN},
			{.fd = state.bridge->signals, .events = POLLIN},
			{.fd = state.bridge->control},
		};
		int n = poll(fds, sizeof(fds) / sizeof(fds[0]), (int)(until_ms - now_ms));
		if (n < 0 && errno != EINTR) {
			return fail(BOX_VMM_ANSWER, errno);
		}
		int r = n > 0 ? hear_early(fds) : 0;
		if (r != 0) {
			return r < 0 ? r : judge_report();
		}
	}
}

/* --- down, to the guest --- */

static int take_away(uint32_t number)
{
	return box_hanger_take(state.bridge->hanger, number);
}

/* A mount that cannot be had goes on with a number under which there is nothing: the command fails
 * at it, as it would in any other box. */
static int hang(uint32_t id, int fd, size_t fd_count)
{
	uint32_t number = fd_count == 1 ? box_mounts_take(&state.mounts, id) : BOX_MOUNTS_NONE;
	box_carry_set_number(&state.down, number);
	int r = 0;
	if (number != BOX_MOUNTS_NONE) {
		r = box_hanger_hang(state.bridge->hanger, number, fd);
		state.hanging = r == 0;
	}
	return r;
}

static int take_request(void)
{
	int fd = -1;
	size_t fd_count = 0;
	int r = box_carry_take(&state.down, state.bridge->control, &fd, &fd_count);
	if (r < 0) {
		return r == -EAGAIN ? 0 : r;
	}
	struct box_guest_header header = box_carry_header(&state.down);
	if (header.kind == BOX_GUEST_MOUNT) {
		r = hang(header.id, fd, fd_count);
	} else if (fd_count > 0) {
		r = -EBADMSG;
	}
	if (header.kind == BOX_GUEST_RESET) {
		state.reset_upto = state.mounts.last;
	}
	if (fd >= 0) {
		(void)close(fd);
	}
	return r;
}

static void tell_clock(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	struct box_machine_clock clock = {
		.realtime_ns = (uint64_t)now.tv_sec * SEC_NS + (uint64_t)now.tv_nsec,
	};
	box_carry_put(&state.down, BOX_MACHINE_CLOCK, &clock, sizeof(clock));
	state.clock_due = false;
}

static int go_down(bool request_there)
{
	int r = 0;
	if (state.down.size == 0 && state.clock_due) {
		tell_clock();
	} else if (state.down.size == 0 && request_there) {
		r = take_request();
	}
	if (r == 0 && state.down.size > 0 && !state.hanging) {
		r = box_carry_push(&state.down, state.stream);
	}
	return r;
}

/* --- up, from the guest --- */

/* What its answers mean to us. */
static int heed(const struct box_guest_header *header)
{
	uint32_t number = 0;
	int r = 0;
	if (header->kind == BOX_GUEST_EXIT) {
		while (r == 0 && (number = box_mounts_drop(&state.mounts, header->id)) > 0) {
			r = take_away(number);
		}
	} else if (header->kind == BOX_GUEST_RESET_DONE) {
		while (r == 0 &&
			(number = box_mounts_drop_upto(&state.mounts, state.reset_upto)) > 0) {
			r = take_away(number);
		}
	}
	return r;
}

/* Sends the packets that are whole, as far as they are taken. */
static int send_whole(void)
{
	for (;;) {
		struct box_guest_header header;
		int r = box_carry_whole(&state.up, &header);
		state.up_waits = r > 0;
		if (r <= 0) {
			return r;
		}
		r = box_carry_send(&state.up, state.bridge->control);
		if (r < 0) {
			return r == -EAGAIN ? 0 : r;
		}
		r = heed(&header);
		if (r < 0) {
			return r;
		}
	}
}

static int go_up(bool answer_there)
{
	if (!state.up_waits && answer_there) {
		int r = box_carry_pull(&state.up, state.stream);
		if (r < 0) {
			return r == -EAGAIN ? 0 : r;
		}
	}
	return send_whole();
}

/* --- the loop --- */

/* Read or cancelled, both mean that the time is due; so it is set anew, from now on. */
static int set_clock(int fd)
{
	struct timespec now;
	uint64_t ignored;
	if (clock_gettime(CLOCK_REALTIME, &now) < 0) {
		return -errno;
	}
	struct itimerspec when = {
		.it_value = {.tv_sec = now.tv_sec + BOX_VMM_CLOCK_SEC, .tv_nsec = now.tv_nsec}};
	(void)(read(fd, &ignored, sizeof(ignored)) < 0);
	return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL) < 0
		? -errno
		: 0;
}

int box_bridge_open_clock(int *ret_fd)
{
	int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0) {
		return -errno;
	}
	int r = set_clock(fd);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

static int hear(const struct pollfd *fds)
{
	if (fds[2].revents) {
		(void)read_console();
	}
	if (fds[3].revents && child_ended()) {
		return -ECHILD;
	}
	if (fds[4].revents) {
		state.clock_due = true;
		int r = set_clock(state.bridge->clock);
		if (r < 0) {
			return r;
		}
	}
	if (fds[5].revents) {
		int r = box_hanger_answer(state.bridge->hanger);
		if (r < 0 && r != -EAGAIN) {
			return r;
		}
		state.hanging = state.hanging && r == -EAGAIN;
	}
	if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
		return -EPIPE;
	}
	int r = go_down(fds[0].revents & ~POLLOUT);
	return r < 0 ? r : go_up(fds[1].revents & ~POLLOUT);
}

static int carry(void)
{
	for (;;) {
		bool down = state.down.size > 0;
		int control = (down ? 0 : POLLIN) | (state.up_waits ? POLLOUT : 0);
		int stream = (state.up_waits ? 0 : POLLIN) | (down && !state.hanging ? POLLOUT : 0);
		struct pollfd fds[] = {
			{.fd = state.bridge->control, .events = (short)control},
			/* One that has ended would always have something to say. */
			{.fd = stream ? state.stream : -1, .events = (short)stream},
			{.fd = state.console_fd, .events = POLLIN},
			{.fd = state.bridge->signals, .events = POLLIN},
			{.fd = state.bridge->clock, .events = POLLIN},
			{.fd = state.bridge->hanger, .events = POLLIN},
		};
		int n = poll(fds, sizeof(fds) / sizeof(fds[0]), -1);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		int r = n > 0 ? hear(fds) : 0;
		if (r < 0) {
			return r;
		}
	}
}

int box_bridge_run(const struct box_bridge *bridge)
{
	state.bridge = bridge;
	state.listener = bridge->listener;
	state.stream = -1;
	state.console_fd = bridge->console;
	int r = await_report();
	if (r < 0) {
		return r;
	}
	state.clock_due = true; /* its own began some time ago */
	if (go_down(false) == 0) {
		(void)carry();
	}
	return 0;
}
