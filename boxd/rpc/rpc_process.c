/* box-rpc's place among our programs: its socketpair, and stdin and stdout where they are a
 * connection. */
#include "boxd/rpc/rpc_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/program.h"
#include "protocol/boxd.h"

_Static_assert(BOX_BOXD_FD == STDERR_FILENO + 1, "the first fd that a program is given");

/* The connection on stdin and stdout is box-rpc's alone: its end must be the end. */
static int give_up_stdio(void)
{
	_cleanup_(box_close_p) int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) {
		return -errno;
	}
	return 0;
}

int box_rpc_process_start(const char *path, const struct box_identity *ids, bool stdio,
	struct box_rpc_process *ret_worker, struct box_err *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "box-rpc cannot start: sockets: %s",
			box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = ends[0];
	_cleanup_(box_close_p) int theirs = ends[1];
	const struct box_program wanted = {
		.path = path,
		.name = "box-rpc",
		.ids = *ids,
		.stdio = stdio,
		.fds = {theirs},
		.fd_count = 1,
	};
	struct box_program_process child;
	int r = box_program_start(&wanted, &child, err);
	if (r < 0) {
		return r;
	}
	if (stdio && give_up_stdio() < 0) {
		(void)kill(child.pid, SIGKILL);
		(void)waitpid(child.pid, NULL, 0);
		(void)close(child.pidfd);
		return box_err_set(err, BOX_ERR_OS, EIO, "box-rpc cannot start: /dev/null");
	}
	*ret_worker = (struct box_rpc_process){
		.pid = child.pid, .pidfd = child.pidfd, .socket = TAKE_FD(ours)};
	return 0;
}
