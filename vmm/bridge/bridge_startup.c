/* Owns the time until the guest has reported: its console, its one connection, the ends of processes
 * without whom there is no box. What goes wrong is told to boxd, once. */
#include "vmm/bridge/bridge_startup.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/macros.h"

#define CONSOLE_READS_MAX 64 /* of a dead machine's last words */
#define ERRNO_MAX 4095
#define ENDED_LINE_MAX 128

int box_bridge_read_console(struct box_bridge_startup *early)
{
	char bytes[1024];
	ssize_t got = early->console_fd < 0 ? 0 : read(early->console_fd, bytes, sizeof(bytes));
	if (got > 0) {
		box_console_add(&early->console, bytes, (size_t)got);
		return 1;
	}
	if (got == 0 && early->console_fd >= 0) {
		(void)close(early->console_fd);
		early->console_fd = -1;
	}
	return 0;
}

void box_bridge_drain_console(struct box_bridge_startup *early)
{
	for (int i = 0; i < CONSOLE_READS_MAX && box_bridge_read_console(early); i++) {
	}
}

static int fail(struct box_bridge_startup *early, uint32_t step, int errnum)
{
	char text[BOX_MICROVM_TEXT_MAX];
	box_bridge_drain_console(early);
	box_console_text(&early->console, text, sizeof(text));
	box_bridge_report(early->bridge->report, step, errnum, text);
	return -errnum;
}

/* Others, which were orphaned, are only reaped. */
bool box_bridge_child_ended(struct box_bridge_startup *early)
{
	struct signalfd_siginfo info;
	pid_t pid;
	int status;
	bool ended = false;
	ssize_t ignored = read(early->bridge->signals, &info, sizeof(info));
	(void)ignored;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (size_t i = 0; i < BOX_BRIDGE_CHILDREN_MAX; i++) {
			if (early->bridge->children[i] == pid && !ended) {
				ended = true;
				early->words.ended = (enum box_microvm_end_cause)(
					BOX_MICROVM_END_MICROVM + i);
				early->words.status = status;
			}
		}
	}
	return ended;
}

/* Who it was, and how, as the last line of the console: it may have no other. */
static int fail_ended(struct box_bridge_startup *early)
{
	static const struct box_console nothing;
	char line[ENDED_LINE_MAX];
	box_bridge_drain_console(early);
	box_console_end_line(&early->console);
	box_microvm_end_format(&early->words, &nothing, line, sizeof(line));
	box_console_add(&early->console, line, strlen(line));
	box_console_end_line(&early->console);
	return fail(early, BOX_VMM_START, ECHILD);
}

/* The first who comes; nobody after it. */
static int accept_guest(struct box_bridge_startup *early)
{
	int fd = accept4(early->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		return errno == EAGAIN || errno == EINTR || errno == ECONNABORTED ? 0 : -errno;
	}
	(void)close(early->listener);
	(void)unlink(early->bridge->socket_path);
	early->listener = -1;
	early->stream = fd;
	return 0;
}

/* 1 when it is whole. */
static int read_report(struct box_bridge_startup *early)
{
	char *to = (char *)&early->report;
	ssize_t got = recv(early->stream, to + early->report_size,
		sizeof(early->report) - early->report_size, MSG_DONTWAIT);
	if (got <= 0) {
		bool later = got < 0 && (errno == EAGAIN || errno == EINTR);
		return later ? 0 : -ECONNRESET;
	}
	early->report_size += (size_t)got;
	return early->report_size == sizeof(early->report);
}

/* Its own steps, and nothing that looks like one of ours or of boxd's. */
static bool is_report(const struct box_init_report *report)
{
	if (report->step == 0) {
		return report->errnum == 0;
	}
	return (box_init_boot_step_name(report->step) || box_microvm_step_name(report->step)) &&
		report->errnum > 0 && report->errnum <= ERRNO_MAX;
}

static int judge_report(struct box_bridge_startup *early)
{
	if (!is_report(&early->report)) {
		return fail(early, BOX_VMM_ANSWER, EBADMSG);
	}
	if (early->report.step != 0) {
		return fail(early, early->report.step, early->report.errnum);
	}
	box_bridge_report(early->bridge->report, 0, 0, "");
	return 0;
}

/* What one of them says while the report is waited for: 1 when there is one. */
static int hear_early(struct box_bridge_startup *early, const struct pollfd *fds)
{
	if (fds[1].revents) {
		(void)box_bridge_read_console(early);
	}
	if (fds[2].revents && box_bridge_child_ended(early)) {
		return fail_ended(early);
	}
	if (fds[3].revents & (POLLHUP | POLLERR | POLLNVAL)) {
		return -EPIPE; /* nobody wants it any more */
	}
	if (!fds[0].revents) {
		return 0;
	}
	int r = early->stream < 0 ? accept_guest(early) : read_report(early);
	return r < 0 ? fail(early, BOX_VMM_ANSWER, -r) : r;
}

int box_bridge_await_report(struct box_bridge_startup *early)
{
	uint64_t until_ms = box_clock_ms() + early->bridge->deadline_ms;
	for (;;) {
		uint64_t now_ms = box_clock_ms();
		if (now_ms >= until_ms) {
			return fail(early, BOX_VMM_DEADLINE, ETIMEDOUT);
		}
		struct pollfd fds[] = {
			{.fd = early->stream < 0 ? early->listener : early->stream,
				.events = POLLIN},
			{.fd = early->console_fd, .events = POLLIN},
			{.fd = early->bridge->signals, .events = POLLIN},
			{.fd = early->bridge->control},
		};
		int n = poll(fds, BOX_COUNT_OF(fds), (int)(until_ms - now_ms));
		if (n < 0 && errno != EINTR) {
			return fail(early, BOX_VMM_ANSWER, errno);
		}
		int r = n > 0 ? hear_early(early, fds) : 0;
		if (r != 0) {
			return r < 0 ? r : judge_report(early);
		}
	}
}
