/* Owns how the three standard streams of a command are made. A terminal is a pair of the box's own
 * devpts; its slave is opened through its master, never by a name. The bytes that pass through them are
 * the business of stream.c and input.c. */
#include "init/run/run_stdio.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

void box_run_stdio_init(struct box_run_stdio *stdio)
{
	*stdio = (struct box_run_stdio){
		.child_fds = {-1, -1, -1},
		.out.fd = -1,
		.err.fd = -1,
	};
	box_input_init(&stdio->input);
}

void box_run_stdio_close_child(struct box_run_stdio *stdio, bool including_stdin)
{
	for (size_t i = including_stdin ? 0 : 1; i < BOX_COUNT_OF(stdio->child_fds); i++) {
		if (stdio->child_fds[i] >= 0) {
			(void)close(stdio->child_fds[i]);
			stdio->child_fds[i] = -1;
		}
	}
}

void box_run_stdio_release(struct box_run_stdio *stdio, bool is_terminal)
{
	box_input_close(&stdio->input);
	box_run_stdio_close_child(stdio, true);
	if (is_terminal) {
		/* Processes that still use it see a hangup. */
		box_stream_close(&stdio->out);
	}
	box_stream_orphan(&stdio->out);
	box_stream_orphan(&stdio->err);
}

/* --- the terminal --- */

static int set_size(int master, struct box_init_size size)
{
	const struct winsize wanted = {.ws_row = size.rows, .ws_col = size.columns};
	return ioctl(master, TIOCSWINSZ, &wanted) < 0 ? -errno : 0;
}

int box_run_stdio_resize(const struct box_run_stdio *stdio, struct box_init_size size)
{
	return set_size(stdio->out.fd, size);
}

/* LANG says that commands use UTF-8, so that erasing removes a whole character. */
static int set_utf8(int slave)
{
	struct termios modes;
	if (tcgetattr(slave, &modes) < 0) {
		return -errno;
	}
	modes.c_iflag |= IUTF8;
	return tcsetattr(slave, TCSANOW, &modes) < 0 ? -errno : 0;
}

/* The master does not block. */
static int open_pair(struct box_init_size size, int *ret_master, int *ret_slave)
{
	_cleanup_(box_close_p) int master = open(
		"/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (master < 0) {
		return -errno;
	}
	const int unlocked = 0;
	int r = set_size(master, size);
	if (r < 0) {
		return r;
	}
	if (ioctl(master, TIOCSPTLCK, &unlocked) < 0) {
		return -errno;
	}
	_cleanup_(box_close_p) int slave = ioctl(
		master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) {
		return -errno;
	}
	r = set_utf8(slave);
	if (r < 0) {
		return r;
	}
	*ret_master = TAKE_FD(master);
	*ret_slave = TAKE_FD(slave);
	return 0;
}

static struct box_watch watch_of(struct box_watch owner, enum box_watch_kind kind)
{
	owner.kind = (uint8_t)kind;
	return owner;
}

/* A terminal instead of three pipes. What the command writes to it is its stdout. */
static int open_terminal(
	struct box_run_stdio *stdio, const struct box_init_run *request, struct box_watch owner)
{
	int master = -1;
	int r = open_pair(request->size, &master, &stdio->child_fds[0]);
	if (r < 0) {
		return r;
	}
	int input = fcntl(master, F_DUPFD_CLOEXEC, 3);
	r = box_stream_adopt(
		&stdio->out, request->output_limit, watch_of(owner, BOX_WATCH_STDOUT), master);
	for (int i = 1; i < 3 && r == 0; i++) {
		stdio->child_fds[i] = fcntl(stdio->child_fds[0], F_DUPFD_CLOEXEC, 3);
		r = stdio->child_fds[i] < 0 ? -errno : 0;
	}
	if (input >= 0) {
		box_input_adopt(&stdio->input, watch_of(owner, BOX_WATCH_STDIN), input);
	}
	return r == 0 && input < 0 ? -EMFILE : r;
}

/* --- pipes --- */

bool box_run_stdio_has_pipes(const struct box_run_stdio *stdio, const struct box_init_run *request)
{
	int count = 0;
	for (size_t i = 0; i < BOX_COUNT_OF(stdio->child_fds); i++) {
		count += stdio->child_fds[i] >= 0;
	}
	return count == (request->flags & BOX_INIT_RUN_PIPES ? 3 : 0);
}

int box_run_stdio_open(
	struct box_run_stdio *stdio, const struct box_init_run *request, struct box_watch owner)
{
	if (request->flags & BOX_INIT_RUN_PIPES) {
		return 0; /* they were received before the RUN */
	}
	if (request->flags & BOX_INIT_RUN_TTY) {
		return open_terminal(stdio, request, owner);
	}
	uint64_t limit = request->output_limit;
	int r = box_stream_open(
		&stdio->out, limit, watch_of(owner, BOX_WATCH_STDOUT), &stdio->child_fds[1]);
	if (r < 0) {
		return r;
	}
	r = box_stream_open(
		&stdio->err, limit, watch_of(owner, BOX_WATCH_STDERR), &stdio->child_fds[2]);
	if (r < 0 || !(request->flags & BOX_INIT_RUN_STDIN)) {
		return r;
	}
	return box_input_open(
		&stdio->input, watch_of(owner, BOX_WATCH_STDIN), &stdio->child_fds[0]);
}
