/* Owns everything that is known about a running microVM box: the guest's report and console, the packets on
 * their way, the mounts of commands, and the ends of the processes that the box needs. Called by vmm_run.c
 * and vmm_probe.c.
 *
 * It allocates nothing: there is one packet each way, the end of the console, and the numbers of mounts.
 * Any error ends the bridge and with it the box, because it is PID 1 there. What goes wrong before the
 * guest's report is told to boxd, once; later, box-rpc is told why the box ends. */
#include "vmm/bridge/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "protocol/init_process.h"
#include "vmm/bridge/clock_sync.h"
#include "vmm/bridge/console.h"
#include "vmm/bridge/forward.h"
#include "vmm/bridge/microvm_end.h"
#include "vmm/bridge/mount_helper.h"

#define CHILD_END_MS \
	1000 /* how much later the microVM process may end than its guest's connection */
#define CONSOLE_READS_MAX 64 /* of the console of a microVM that has ended */
#define ERRNO_MAX 4095
#define ENDED_LINE_MAX 128
#define SEC_NS 1000000000ULL

static struct {
	const struct box_bridge *bridge;

	/* The guest. */
	int listener;                  /* -1: the guest has connected */
	int stream;                    /* its connection; -1: not yet */
	struct box_init_report report; /* as far as it was received */
	size_t report_size;
	int console_fd; /* -1: at its end */
	struct box_console console;
	struct box_microvm_end end; /* which process has ended, and how */
	struct box_clock_sync clock_sync;

	/* Packets. */
	struct box_forward_to_guest to_guest;
	struct box_forward_from_guest from_guest;
	bool answer_waits; /* a complete packet from the guest waits for space in the control socket */

	/* Mounts of commands. */
	bool attaching;       /* the packet in to_guest waits for the mount helper */
	uint32_t reset_up_to; /* the last mount before the last RESET */
	struct box_mount_numbers mounts;
} state;

void box_bridge_report(int report, uint32_t step, int errnum, const char *text)
{
	struct box_microvm_report packet = {.report = {.step = step, .errnum = errnum}};
	(void)snprintf(packet.text, sizeof(packet.text), "%s", text);
	ssize_t ignored = write(report, &packet, sizeof(packet));
	(void)ignored;
	(void)close(report);
}

int box_bridge_listen(const char *path, int *ret_fd)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	if (strlen(path) >= sizeof(address.sun_path)) {
		return -ENAMETOOLONG;
	}
	memcpy(address.sun_path, path, strlen(path));
	_cleanup_(box_close_p) int fd = socket(
		AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0) {
		return -errno;
	}
	mode_t mask = umask(0);
	int r = bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
	(void)umask(mask);
	if (r < 0) {
		return r;
	}
	if (listen(fd, 1) < 0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- console and children --- */

/* Whether there may be more to read. */
static bool read_console(void)
{
	char bytes[1024];
	ssize_t got = state.console_fd < 0 ? 0 : read(state.console_fd, bytes, sizeof(bytes));
	if (got > 0) {
		box_console_add(&state.console, bytes, (size_t)got);
		return true;
	}
	if (got == 0 && state.console_fd >= 0) {
		(void)close(state.console_fd);
		state.console_fd = -1;
	}
	return false;
}

/* Limited, because a guest may never stop writing. */
static void drain_console(void)
{
	for (int i = 0; i < CONSOLE_READS_MAX && read_console(); i++) {
	}
}

/* Reaps all children that have ended; others than those of the bridge are orphans. Whether one that the box
 * needs has ended: state.end says which. */
static bool reap_children(void)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;
	bool ended = false;
	ssize_t ignored = read(state.bridge->signals, &info, sizeof(info));
	(void)ignored;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < BOX_BRIDGE_CHILDREN_MAX; i++) {
			if (state.bridge->children[i] == pid && !ended) {
				ended = true;
				state.end.ended = (enum box_microvm_end_cause)(
					BOX_MICROVM_END_MICROVM + i);
				state.end.status = status;
			}
		}
	}
	return ended;
}

/* --- until the guest's report --- */

static int fail(uint32_t step, int errnum)
{
	char text[BOX_MICROVM_TEXT_MAX];
	drain_console();
	box_console_text(&state.console, text, sizeof(text));
	box_bridge_report(state.bridge->report, step, errnum, text);
	return -errnum;
}

/* Adds which process has ended, and how, as the last line of the console, which may be empty. */
static int fail_ended(void)
{
	static const struct box_console no_console;
	char line[ENDED_LINE_MAX];
	drain_console();
	box_console_end_line(&state.console);
	box_microvm_end_format(&state.end, &no_console, line, sizeof(line));
	box_console_add(&state.console, line, strlen(line));
	box_console_end_line(&state.console);
	return fail(BOX_VMM_START, ECHILD);
}

/* Accepts the first connection, and no other. */
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

/* 1 when it is complete. */
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

/* Only the guest's own steps are allowed, not those of box-vmm or boxd. */
static bool is_report(const struct box_init_report *report)
{
	if (report->step == 0) {
		return report->errnum == 0;
	}
	return (box_init_boot_step_name(report->step) || box_microvm_step_name(report->step)) &&
		report->errnum > 0 && report->errnum <= ERRNO_MAX;
}

static int pass_report_on(void)
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

/* 1 when the report is complete. */
static int handle_startup_events(const struct pollfd *fds)
{
	if (fds[1].revents) {
		(void)read_console();
	}
	if (fds[2].revents && reap_children()) {
		return fail_ended();
	}
	if (fds[3].revents & (POLLHUP | POLLERR | POLLNVAL)) {
		return -EPIPE; /* box-rpc no longer wants the box */
	}
	if (!fds[0].revents) {
		return 0;
	}
	int r = state.stream < 0 ? accept_guest() : read_report();
	return r < 0 ? fail(BOX_VMM_ANSWER, -r) : r;
}

/* Tells boxd the result. 0 when the guest is ready, or -errno. */
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
		int n = poll(fds, BOX_COUNT_OF(fds), (int)(until_ms - now_ms));
		if (n < 0 && errno != EINTR) {
			return fail(BOX_VMM_ANSWER, errno);
		}
		int r = n > 0 ? handle_startup_events(fds) : 0;
		if (r != 0) {
			return r < 0 ? r : pass_report_on();
		}
	}
}

/* --- to the guest --- */

static int detach_mount(uint32_t number)
{
	return box_mount_helper_detach(state.bridge->mount_helper, number);
}

/* All mounts of a command or of a managed process. */
static int detach_mounts_of(uint32_t id)
{
	uint32_t number;
	int r = 0;
	while (r == 0 && (number = box_mount_helper_drop_number(&state.mounts, id)) > 0) {
		r = detach_mount(number);
	}
	return r;
}

/* A mount that failed is forwarded with a number that does not exist: then its command fails, as in any
 * other box. */
static int attach_mount(uint32_t id, int fd)
{
	uint32_t number = fd >= 0 ? box_mount_helper_take_number(&state.mounts, id)
				  : BOX_MOUNT_NUMBERS_NONE;
	box_forward_set_number(&state.to_guest, number);
	if (number == BOX_MOUNT_NUMBERS_NONE) {
		return 0;
	}
	int r = box_mount_helper_attach(state.bridge->mount_helper, number, fd);
	state.attaching = r == 0;
	return r;
}

static int take_request(void)
{
	_cleanup_(box_close_p) int fd = -1;
	int r = box_forward_take(&state.to_guest, state.bridge->control, &fd);
	if (r < 0) {
		return r == -EAGAIN ? 0 : r;
	}
	struct box_init_header header = box_forward_header(&state.to_guest);
	if (header.kind == BOX_INIT_MOUNT) {
		r = attach_mount(header.id, fd);
	} else if (fd >= 0) {
		r = -EBADMSG;
	}
	if (header.kind == BOX_INIT_RESET) {
		state.reset_up_to = state.mounts.last;
	}
	if (r == 0 && header.kind == BOX_INIT_FORGET_PROCESS) {
		/* It is killed, and its end is not reported. */
		r = detach_mounts_of(header.id | BOX_INIT_MOUNT_OF_PROCESS);
	}
	return r;
}

static uint64_t read_clock(clockid_t which)
{
	struct timespec now;
	(void)clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * SEC_NS + (uint64_t)now.tv_nsec;
}

static struct box_clock_sync_clocks read_clocks(void)
{
	return (struct box_clock_sync_clocks){
		.real_ns = read_clock(CLOCK_REALTIME),
		.steady_ns = read_clock(CLOCK_MONOTONIC),
	};
}

static void put_clock(void)
{
	struct box_clock_sync_clocks now = read_clocks();
	struct box_microvm_clock clock = box_clock_sync_next(&state.clock_sync, &now);
	box_forward_put(&state.to_guest, BOX_MICROVM_CLOCK, &clock, sizeof(clock));
}

static int forward_to_guest(bool has_request)
{
	int r = 0;
	if (state.to_guest.size == 0 && state.clock_sync.due) {
		put_clock();
	} else if (state.to_guest.size == 0 && has_request) {
		r = take_request();
	}
	if (r < 0 || state.to_guest.size == 0 || state.attaching) {
		return r;
	}
	return box_forward_push(&state.to_guest, state.stream);
}

/* --- from the guest --- */

/* Whether it says that a managed process has ended. */
static bool is_process_end(const struct box_init_header *header)
{
	struct box_init_process_state process;
	if (header->kind != BOX_INIT_PROCESS_STATE) {
		return false;
	}
	memcpy(&process, box_forward_bytes(&state.from_guest), sizeof(process));
	return process.phase != BOX_INIT_PROCESS_RUNNING;
}

/* Detaches the mounts that are no longer needed after an answer. */
static int detach_after(const struct box_init_header *header, bool process_ended)
{
	uint32_t number;
	if (header->kind == BOX_INIT_EXIT) {
		return detach_mounts_of(header->id);
	}
	if (process_ended) {
		return detach_mounts_of(header->id | BOX_INIT_MOUNT_OF_PROCESS);
	}
	if (header->kind != BOX_INIT_RESET_DONE) {
		return 0;
	}
	int r = 0;
	while (r == 0 &&
		(number = box_mount_helper_drop_number_upto(&state.mounts, state.reset_up_to)) >
			0) {
		r = detach_mount(number);
	}
	return r;
}

static void take_time(void)
{
	struct box_microvm_time time;
	struct box_clock_sync_clocks now = read_clocks();
	memcpy(&time, box_forward_bytes(&state.from_guest), sizeof(time));
	box_forward_drop(&state.from_guest);
	box_clock_sync_take(&state.clock_sync, &time, &now);
}

/* Sends complete packets until the control socket is full. */
static int send_answers(void)
{
	for (;;) {
		struct box_init_header header;
		int r = box_forward_is_whole(&state.from_guest, &header);
		if (r <= 0) {
			state.answer_waits = false;
			return r;
		}
		state.answer_waits = true;
		if (header.kind == BOX_MICROVM_TIME) {
			take_time();
			continue;
		}
		bool process_ended = is_process_end(&header);
		r = box_forward_send(&state.from_guest, state.bridge->control);
		if (r < 0) {
			return r == -EAGAIN ? 0 : r;
		}
		r = detach_after(&header, process_ended);
		if (r < 0) {
			return r;
		}
	}
}

static int forward_from_guest(bool has_answer)
{
	if (!state.answer_waits && has_answer) {
		int r = box_forward_pull(&state.from_guest, state.stream);
		if (r < 0) {
			return r == -EAGAIN ? 0 : r;
		}
	}
	return send_answers();
}

/* --- the loop --- */

/* Expired or cancelled because the host's clock was set: in both cases the timer is set again. */
static int set_timer(int fd)
{
	uint64_t ignored;
	uint64_t then_ns = read_clock(CLOCK_REALTIME) + BOX_VMM_CLOCK_SEC * SEC_NS;
	struct itimerspec when = {.it_value = {.tv_sec = (time_t)(then_ns / SEC_NS),
					  .tv_nsec = (long)(then_ns % SEC_NS)}};
	(void)(read(fd, &ignored, sizeof(ignored)) < 0);
	return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &when, NULL) < 0
		? -errno
		: 0;
}

int box_bridge_open_clock(int *ret_fd)
{
	_cleanup_(box_close_p) int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0) {
		return -errno;
	}
	int r = set_timer(fd);
	if (r < 0) {
		return r;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* All but the control socket and the guest's connection. */
static int handle_other_events(const struct pollfd *fds)
{
	if (fds[2].revents) {
		(void)read_console();
	}
	if (fds[3].revents && reap_children()) {
		return -ECHILD;
	}
	if (fds[4].revents) {
		box_clock_sync_begin(&state.clock_sync);
		int r = set_timer(state.bridge->clock);
		if (r < 0) {
			return r;
		}
	}
	if (fds[5].revents) {
		int r = box_mount_helper_answer(state.bridge->mount_helper);
		if (r < 0 && r != -EAGAIN) {
			state.end.ended = BOX_MICROVM_END_MOUNT_HELPER;
			return -ECHILD;
		}
		state.attaching = state.attaching && r == -EAGAIN;
	}
	return 0;
}

static int handle_events(const struct pollfd *fds)
{
	int r = handle_other_events(fds);
	if (r < 0) {
		return r;
	}
	if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
		return -EPIPE;
	}
	r = forward_to_guest(fds[0].revents & ~POLLOUT);
	if (r < 0) {
		return r;
	}
	r = forward_from_guest(fds[1].revents & ~POLLOUT);
	if (r < 0 || !state.clock_sync.due) {
		return r;
	}
	/* The guest's time may need a reply, and no other event would cause it to be sent. */
	return forward_to_guest(false);
}

static int forward(void)
{
	for (;;) {
		bool has_packet = state.to_guest.size > 0;
		int control = (has_packet ? 0 : POLLIN) | (state.answer_waits ? POLLOUT : 0);
		int stream = (state.answer_waits ? 0 : POLLIN) |
			(has_packet && !state.attaching ? POLLOUT : 0);
		struct pollfd fds[] = {
			{.fd = state.bridge->control, .events = (short)control},
			/* Not polled without events: a closed connection would be reported every time. */
			{.fd = stream ? state.stream : -1, .events = (short)stream},
			{.fd = state.console_fd, .events = POLLIN},
			{.fd = state.bridge->signals, .events = POLLIN},
			{.fd = state.bridge->clock, .events = POLLIN},
			{.fd = state.bridge->mount_helper, .events = POLLIN},
		};
		int n = poll(fds, BOX_COUNT_OF(fds), -1);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		int r = n > 0 ? handle_events(fds) : 0;
		if (r < 0) {
			return r;
		}
	}
}

/* --- the end --- */

static bool control_is_closed(void)
{
	struct pollfd control = {.fd = state.bridge->control};
	return poll(&control, 1, 0) > 0 && (control.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* The guest's connection closes a little before the microVM process ends. */
static void await_child(void)
{
	uint64_t until_ms = box_clock_ms() + CHILD_END_MS;
	bool ended = state.end.ended != BOX_MICROVM_END_NOBODY;
	for (uint64_t now_ms = box_clock_ms(); !ended && now_ms < until_ms;
		now_ms = box_clock_ms()) {
		struct pollfd fds[] = {
			{.fd = state.bridge->signals, .events = POLLIN},
			{.fd = state.console_fd, .events = POLLIN},
		};
		if (poll(fds, BOX_COUNT_OF(fds), (int)(until_ms - now_ms)) > 0) {
			(void)(fds[1].revents && read_console());
			ended = fds[0].revents && reap_children();
		}
	}
	drain_console();
}

/* Tells box-rpc why the box ends; clients with commands in it will read that. */
static void send_box_ends(int r)
{
	char text[BOX_INIT_BOX_ENDS_MAX];
	if (control_is_closed()) {
		return; /* box-rpc has ended the box */
	}
	if (r != -EBADMSG) {
		await_child();
	}
	state.end.errnum = -r;
	box_microvm_end_format(&state.end, &state.console, text, sizeof(text));
	box_forward_put(&state.to_guest, BOX_INIT_BOX_ENDS, text, strlen(text));
	ssize_t ignored = send(state.bridge->control, state.to_guest.bytes, state.to_guest.size,
		MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)ignored;
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
	box_clock_sync_begin(&state.clock_sync); /* the guest's clock was set some time ago */
	r = forward_to_guest(false);
	send_box_ends(r < 0 ? r : forward());
	return 0;
}
