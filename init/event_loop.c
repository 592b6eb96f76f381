/* Owns the epoll and the signalfd of box-init. While an answer waits to be sent, pipes must not wake
 * the loop: then it polls the few other fds instead, so that no pipe has to be unregistered. */
#include "init/event_loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"
#include "protocol/init.h"

#define EVENTS_PER_TURN 32
#define NS_PER_MS 1000000ULL
#define NS_PER_SEC 1000000000ULL

static int epoll_fd = -1;
static int children_fd = -1;

uint64_t box_event_loop_now_ns(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SEC + (uint64_t)now.tv_nsec;
}

static uint64_t pack(struct box_watch watch)
{
	return (uint64_t)watch.kind << 48 | (uint64_t)watch.index << 32 | watch.generation;
}

static struct box_watch unpack(uint64_t data)
{
	return (struct box_watch){
		.kind = (uint8_t)(data >> 48),
		.index = (uint16_t)(data >> 32),
		.generation = (uint32_t)data,
	};
}

static int control(int operation, int fd, uint32_t events, struct box_watch watch)
{
	struct epoll_event event = {.events = events, .data.u64 = pack(watch)};
	return epoll_ctl(epoll_fd, operation, fd, &event) < 0 ? -errno : 0;
}

int box_event_loop_watch(int fd, uint32_t events, struct box_watch watch)
{
	return control(EPOLL_CTL_ADD, fd, events, watch);
}

int box_event_loop_rewatch(int fd, uint32_t events, struct box_watch watch)
{
	return control(EPOLL_CTL_MOD, fd, events, watch);
}

void box_event_loop_unwatch(int fd)
{
	(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

int box_event_loop_open(void)
{
	sigset_t blocked;
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGCHLD);
	/* A command that closes its stdin must not kill us where we are not PID 1 (in tests). */
	(void)sigaddset(&blocked, SIGPIPE);
	if (sigprocmask(SIG_SETMASK, &blocked, NULL) < 0) {
		return -errno;
	}
	(void)sigdelset(&blocked, SIGPIPE);
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	children_fd = signalfd(-1, &blocked, SFD_CLOEXEC | SFD_NONBLOCK);
	if (epoll_fd < 0 || children_fd < 0) {
		return -errno;
	}
	int r = box_event_loop_watch(
		children_fd, EPOLLIN, (struct box_watch){.kind = BOX_WATCH_CHILDREN});
	if (r < 0) {
		return r;
	}
	return box_event_loop_watch(
		BOX_INIT_CONTROL_FD, EPOLLIN, (struct box_watch){.kind = BOX_WATCH_CONTROL});
}

void box_event_loop_close(void)
{
	(void)close(epoll_fd);
	(void)close(children_fd);
}

void box_event_loop_take_children(void)
{
	struct signalfd_siginfo ignored;
	while (read(children_fd, &ignored, sizeof(ignored)) < 0 && errno == EINTR) {
	}
}

static int timeout_ms(uint64_t deadline_ns)
{
	if (deadline_ns == BOX_NEVER) {
		return -1;
	}
	uint64_t now = box_event_loop_now_ns();
	if (now >= deadline_ns) {
		return 0;
	}
	/* Rounded up: waking before the deadline would mean spinning until it. */
	uint64_t ms = (deadline_ns - now + NS_PER_MS - 1) / NS_PER_MS;
	return ms < 3600000 ? (int)ms : 3600000;
}

static void poll_control(int timeout, bool requests_paused,
	void (*on_event)(struct box_watch watch, uint32_t events))
{
	struct pollfd fds[] = {
		{.fd = BOX_INIT_CONTROL_FD,
			.events = (short)(requests_paused ? POLLOUT : POLLIN | POLLOUT)},
		{.fd = children_fd, .events = POLLIN},
	};
	if (poll(fds, BOX_COUNT_OF(fds), timeout) <= 0) {
		return;
	}
	if (fds[1].revents) {
		on_event((struct box_watch){.kind = BOX_WATCH_CHILDREN}, EPOLLIN);
	}
	if (fds[0].revents) {
		on_event((struct box_watch){.kind = BOX_WATCH_CONTROL}, (uint32_t)fds[0].revents);
	}
}

void box_event_loop_turn(uint64_t deadline_ns, bool pipes_paused, bool requests_paused,
	void (*on_event)(struct box_watch watch, uint32_t events))
{
	int timeout = timeout_ms(deadline_ns);
	if (pipes_paused) {
		poll_control(timeout, requests_paused, on_event);
		return;
	}
	struct epoll_event events[EVENTS_PER_TURN];
	int count = epoll_wait(epoll_fd, events, EVENTS_PER_TURN, timeout);
	for (int i = 0; i < count; i++) {
		on_event(unpack(events[i].data.u64), events[i].events);
	}
}
