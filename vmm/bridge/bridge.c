/* Owns the loop between two sockets, and what is known while it runs; bridge_startup.c has what comes
 * before. It allocates nothing: one packet each way, the end of the console, the numbers of mounts.
 * Whatever is wrong ends it, and with it the box: it is PID 1 there. */
#include "vmm/bridge/bridge.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/macros.h"
#include "protocol/init_process.h"
#include "vmm/bridge/bridge_startup.h"
#include "vmm/bridge/clock_sync.h"
#include "vmm/bridge/forward.h"
#include "vmm/bridge/mount_helper.h"
#include "vmm/bridge/mount_numbers.h"

#define LAST_MS 1000 /* for a machine whose guest has hung up */
#define SEC_NS 1000000000ULL

static struct {
	const struct box_bridge *bridge;
	struct box_bridge_startup early;
	struct box_forward_to_guest down;
	struct box_forward_from_guest up;
	bool up_waits; /* a whole packet does, for room in the control socket */
	bool hanging;  /* the packet in `down` waits for the mount helper */
	uint32_t reset_upto;
	struct box_clock_sync timing;
	struct box_mount_numbers mounts;
} state;

void box_bridge_report(int report, uint32_t step, int errnum, const char *text)
{
	struct box_microvm_report words = {.report = {.step = step, .errnum = errnum}};
	(void)snprintf(words.text, sizeof(words.text), "%s", text);
	ssize_t ignored = write(report, &words, sizeof(words));
	(void)ignored;
	(void)close(report);
}

/* --- down, to the guest --- */

static int take_away(uint32_t number)
{
	return box_mount_helper_detach(state.bridge->mount_helper, number);
}

/* All mounts of a command, or of a managed process. */
static int take_all(uint32_t id)
{
	uint32_t number;
	int r = 0;
	while (r == 0 && (number = box_mount_numbers_drop(&state.mounts, id)) > 0) {
		r = take_away(number);
	}
	return r;
}

/* A mount that cannot be had goes on with a number under which there is nothing: the command fails
 * at it, as it would in any other box. */
static int hang(uint32_t id, int fd)
{
	uint32_t number = fd >= 0 ? box_mount_numbers_take(&state.mounts, id)
				  : BOX_MOUNT_NUMBERS_NONE;
	box_forward_set_number(&state.down, number);
	int r = 0;
	if (number != BOX_MOUNT_NUMBERS_NONE) {
		r = box_mount_helper_attach(state.bridge->mount_helper, number, fd);
		state.hanging = r == 0;
	}
	return r;
}

static int take_request(void)
{
	int fd = -1;
	int r = box_forward_take(&state.down, state.bridge->control, &fd);
	if (r < 0) {
		return r == -EAGAIN ? 0 : r;
	}
	struct box_init_header header = box_forward_header(&state.down);
	if (header.kind == BOX_INIT_MOUNT) {
		r = hang(header.id, fd);
	} else if (fd >= 0) {
		r = -EBADMSG;
	}
	if (header.kind == BOX_INIT_RESET) {
		state.reset_upto = state.mounts.last;
	}
	if (r == 0 && header.kind == BOX_INIT_FORGET_PROCESS) {
		r = take_all(
			header.id | BOX_INIT_MOUNT_OF_PROCESS); /* it is killed, and not told */
	}
	if (fd >= 0) {
		(void)close(fd);
	}
	return r;
}

static uint64_t read_clock(clockid_t which)
{
	struct timespec now;
	(void)clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * SEC_NS + (uint64_t)now.tv_nsec;
}

static struct box_clock_sync_clocks now(void)
{
	return (struct box_clock_sync_clocks){
		.real_ns = read_clock(CLOCK_REALTIME),
		.steady_ns = read_clock(CLOCK_MONOTONIC),
	};
}

static void tell_clock(void)
{
	struct box_clock_sync_clocks at = now();
	struct box_microvm_clock clock = box_clock_sync_next(&state.timing, &at);
	box_forward_put(&state.down, BOX_MICROVM_CLOCK, &clock, sizeof(clock));
}

static int go_down(bool request_there)
{
	int r = 0;
	if (state.down.size == 0 && state.timing.due) {
		tell_clock();
	} else if (state.down.size == 0 && request_there) {
		r = take_request();
	}
	if (r == 0 && state.down.size > 0 && !state.hanging) {
		r = box_forward_push(&state.down, state.early.stream);
	}
	return r;
}

/* --- up, from the guest --- */

/* Whether it says that a managed process is over. */
static bool tells_end(const struct box_init_header *header)
{
	struct box_init_process_state told;
	if (header->kind != BOX_INIT_PROCESS_STATE) {
		return false;
	}
	memcpy(&told, box_forward_bytes(&state.up), sizeof(told));
	return told.phase != BOX_INIT_PROCESS_RUNNING;
}

/* What its answers mean to us. */
static int heed(const struct box_init_header *header, bool kept_ended)
{
	uint32_t number = 0;
	int r = 0;
	if (header->kind == BOX_INIT_EXIT) {
		r = take_all(header->id);
	} else if (kept_ended) {
		r = take_all(header->id | BOX_INIT_MOUNT_OF_PROCESS);
	} else if (header->kind == BOX_INIT_RESET_DONE) {
		while (r == 0 &&
			(number = box_mount_numbers_drop_upto(&state.mounts, state.reset_upto)) >
				0) {
			r = take_away(number);
		}
	}
	return r;
}

static void hear_time(void)
{
	struct box_microvm_time time;
	struct box_clock_sync_clocks at = now();
	memcpy(&time, box_forward_bytes(&state.up), sizeof(time));
	box_forward_drop(&state.up);
	box_clock_sync_take(&state.timing, &time, &at);
}

/* Sends the packets that are whole, as far as they are taken. */
static int send_whole(void)
{
	for (;;) {
		struct box_init_header header;
		int r = box_forward_is_whole(&state.up, &header);
		state.up_waits = r > 0;
		if (r <= 0) {
			return r;
		}
		if (header.kind == BOX_MICROVM_TIME) {
			hear_time();
			continue;
		}
		bool kept_ended = tells_end(&header);
		r = box_forward_send(&state.up, state.bridge->control);
		if (r < 0) {
			return r == -EAGAIN ? 0 : r;
		}
		r = heed(&header, kept_ended);
		if (r < 0) {
			return r;
		}
	}
}

static int go_up(bool answer_there)
{
	if (!state.up_waits && answer_there) {
		int r = box_forward_pull(&state.up, state.early.stream);
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
		(void)box_bridge_read_console(&state.early);
	}
	if (fds[3].revents && box_bridge_child_ended(&state.early)) {
		return -ECHILD;
	}
	if (fds[4].revents) {
		box_clock_sync_begin(&state.timing);
		int r = set_clock(state.bridge->clock);
		if (r < 0) {
			return r;
		}
	}
	if (fds[5].revents) {
		int r = box_mount_helper_answer(state.bridge->mount_helper);
		if (r < 0 && r != -EAGAIN) {
			state.early.words.ended = BOX_MICROVM_END_MOUNT_HELPER;
			return -ECHILD;
		}
		state.hanging = state.hanging && r == -EAGAIN;
	}
	if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) {
		return -EPIPE;
	}
	int r = go_down(fds[0].revents & ~POLLOUT);
	r = r < 0 ? r : go_up(fds[1].revents & ~POLLOUT);
	/* What the guest said of its time may ask for an answer, and nothing else wakes us for it. */
	return r < 0 || !state.timing.due ? r : go_down(false);
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
			{.fd = stream ? state.early.stream : -1, .events = (short)stream},
			{.fd = state.early.console_fd, .events = POLLIN},
			{.fd = state.bridge->signals, .events = POLLIN},
			{.fd = state.bridge->clock, .events = POLLIN},
			{.fd = state.bridge->mount_helper, .events = POLLIN},
		};
		int n = poll(fds, BOX_COUNT_OF(fds), -1);
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
		int r = n > 0 ? hear(fds) : 0;
		if (r < 0) {
			return r;
		}
	}
}

/* --- the end --- */

static bool control_is_gone(void)
{
	struct pollfd control = {.fd = state.bridge->control};
	return poll(&control, 1, 0) > 0 && (control.revents & (POLLHUP | POLLERR | POLLNVAL));
}

/* The machine is seen to end a little later than its guest. */
static void await_child(void)
{
	uint64_t until_ms = box_clock_ms() + LAST_MS;
	bool ended = state.early.words.ended != BOX_MICROVM_END_NOBODY;
	for (uint64_t now_ms = box_clock_ms(); !ended && now_ms < until_ms;
		now_ms = box_clock_ms()) {
		struct pollfd fds[] = {
			{.fd = state.bridge->signals, .events = POLLIN},
			{.fd = state.early.console_fd, .events = POLLIN},
		};
		if (poll(fds, 2, (int)(until_ms - now_ms)) > 0) {
			(void)(fds[1].revents && box_bridge_read_console(&state.early));
			ended = fds[0].revents && box_bridge_child_ended(&state.early);
		}
	}
	box_bridge_drain_console(&state.early);
}

/* Whoever waits for a command in this box is told why it is over. */
static void say_last_words(int r)
{
	char text[BOX_INIT_BOX_ENDS_MAX];
	if (control_is_gone()) {
		return; /* nobody wants it any more */
	}
	if (r != -EBADMSG) {
		await_child();
	}
	state.early.words.errnum = -r;
	box_microvm_end_format(&state.early.words, &state.early.console, text, sizeof(text));
	box_forward_put(&state.down, BOX_INIT_BOX_ENDS, text, strlen(text));
	ssize_t ignored = send(state.bridge->control, state.down.bytes, state.down.size,
		MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)ignored;
}

int box_bridge_run(const struct box_bridge *bridge)
{
	state.bridge = bridge;
	state.early.bridge = bridge;
	state.early.listener = bridge->listener;
	state.early.stream = -1;
	state.early.console_fd = bridge->console;
	int r = box_bridge_await_report(&state.early);
	if (r < 0) {
		return r;
	}
	box_clock_sync_begin(&state.timing); /* its own began some time ago */
	r = go_down(false);
	say_last_words(r < 0 ? r : carry());
	return 0;
}
