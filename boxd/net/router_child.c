/* Forks the processes that work in the router, waits for them and reads their results. Contains no
 * rules: the callers (router.c, egress_rules.c, pasta.c, host_ports.c, port_proxy.c) supply the work. */
#include "boxd/net/router_child.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/net/router.h"
#include "protocol/packet.h"

#define CHILD_TIMEOUT_MS 10000 /* a child that takes longer is killed */
#define LISTING_BYTES_MAX (1024 * 1024)

/* --- in a fresh child --- */

int box_router_child_begin(pid_t parent)
{
	struct sigaction action = {.sa_handler = SIG_DFL};
	for (int number = 1; number < NSIG; number++) {
		(void)sigaction(number, &action, NULL);
	}
	sigset_t none;
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0 ||
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
		return -errno;
	}
	return getppid() == parent ? 0 : -EOWNERDEAD;
}

int box_router_child_become_owner(const struct box_router *router, pid_t parent)
{
	if (router->uid != geteuid() &&
		(setgroups(0, NULL) < 0 || setresgid(router->gid, router->gid, router->gid) < 0 ||
			setresuid(router->uid, router->uid, router->uid) < 0)) {
		return -errno;
	}
	/* The change of ids has cleared the death signal. */
	if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
		return -errno;
	}
	return getppid() == parent ? 0 : -EOWNERDEAD;
}

void box_router_child_exec(const char *path, char *const arguments[], int input, int output)
{
	char *const environment[] = {NULL};
	if (dup2(input, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
		dup2(output, STDERR_FILENO) >= 0 && close_range(3, ~0U, 0) == 0 &&
		chdir("/") == 0) {
		(void)execve(path, arguments, environment);
	}
}

/* --- in boxd --- */

/* Waits for a child that ends by itself and returns its exit status; negative when it was killed by a
 * signal, including ours after a timeout. */
static int wait_for(pid_t pid)
{
	_cleanup_(box_close_p) int pidfd = pidfd_open(pid, 0);
	struct pollfd wait = {.fd = pidfd, .events = POLLIN};
	if (pidfd < 0 || poll(&wait, 1, CHILD_TIMEOUT_MS) != 1) {
		(void)kill(pid, SIGKILL);
	}
	siginfo_t info = {0};
	while (waitid(P_PID, (id_t)pid, &info, WEXITED) < 0) {
		if (errno != EINTR) {
			return -errno;
		}
	}
	return info.si_code == CLD_EXITED ? info.si_status : -EINTR;
}

void box_router_child_end(int pidfd)
{
	(void)pidfd_send_signal(pidfd, SIGKILL, NULL, 0);
	while (waitid(P_PIDFD, (id_t)pidfd, &(siginfo_t){0}, WEXITED) < 0 && errno == EINTR) {
	}
}

const char *box_router_child_find_program(const char *const *paths)
{
	for (; *paths; paths++) {
		if (access(*paths, X_OK) == 0) {
			return *paths;
		}
	}
	return NULL;
}

/* --- fds from the router --- */

_Noreturn static void run_opener(const struct box_router_child_opener *opener,
	const struct box_router *router, pid_t parent, int socket)
{
	int fds[BOX_ROUTER_CHILD_FDS_MAX];
	memset(fds, 0xff, sizeof(fds)); /* -1 each */
	int r = box_router_child_begin(parent);
	int32_t result = r < 0 ? r : opener->run(router, opener->arg, parent, fds);
	(void)box_packet_send(
		socket, &result, sizeof(result), fds, result < 0 ? 0 : opener->fd_count);
	_exit(0);
}

/* The answer of an opener: its result, with all fds or none. */
static int receive_fds(int socket, size_t fd_count, int ret_fds[BOX_ROUTER_CHILD_FDS_MAX])
{
	struct box_packet packet = {0};
	int r = box_packet_recv(socket, &packet);
	if (r < 0) {
		return r;
	}
	r = packet.size == sizeof(int32_t) ? (int32_t)packet.kind : -EPROTO;
	if (r != 0 || packet.fd_count != fd_count) {
		box_packet_close_fds(&packet);
		return r < 0 ? r : -EPROTO;
	}
	memcpy(ret_fds, packet.fds, fd_count * sizeof(ret_fds[0]));
	return 0;
}

int box_router_child_open(const struct box_router_child_opener *opener,
	const struct box_router *router, int ret_fds[BOX_ROUTER_CHILD_FDS_MAX], struct box_err *err)
{
	int sockets[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "router: socket: %s", box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = sockets[0];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_opener(opener, router, parent, sockets[1]);
	}
	int r = pid < 0 ? -errno : 0;
	(void)close(sockets[1]);
	if (r == 0) {
		(void)wait_for(pid);
		r = receive_fds(ours, opener->fd_count, ret_fds);
	}
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "router: %s: %s", opener->name, box_err_strerror(-r));
	}
	return 0;
}

/* --- nft --- */

const char *box_router_child_nft_path(void)
{
	static const char *const paths[] = {
		"/usr/sbin/nft", "/sbin/nft", "/usr/local/sbin/nft", "/usr/bin/nft", NULL};
	return box_router_child_find_program(paths);
}

/* CAP_NET_ADMIN that survives exec although the process is not uid 0 in that user namespace. */
static int keep_net_admin(void)
{
	return box_caps_keep_over_exec(UINT64_C(1) << CAP_NET_ADMIN);
}

_Noreturn static void run_nft(
	const struct box_router *router, const char *path, pid_t parent, int input, int output)
{
	char name[] = "nft";
	/* Lists without counters, and protocols as numbers: equal rules give equal text. */
	char stateless[] = "-s";
	char numeric[] = "-p";
	char option[] = "-f";
	char from_stdin[] = "-";
	char *const arguments[] = {name, stateless, numeric, option, from_stdin, NULL};
	if (box_router_child_begin(parent) == 0 &&
		box_router_child_become_owner(router, parent) == 0 &&
		setns(router->userns, CLONE_NEWUSER) == 0 &&
		setns(router->netns, CLONE_NEWNET) == 0 && keep_net_admin() == 0) {
		box_router_child_exec(path, arguments, input, output);
	}
	(void)dprintf(output, "%s\n", box_err_strerror(errno));
	_exit(127);
}

/* A memfd with the commands, with its offset at the beginning. */
static int write_commands(const struct box_buf *commands, int *ret_fd)
{
	_cleanup_(box_close_p) int fd = memfd_create("nft-commands", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (commands->overflowed || !commands->bytes) {
		return -EMSGSIZE;
	}
	if (write(fd, commands->bytes, commands->len) != (ssize_t)commands->len) {
		return -EIO;
	}
	if (lseek(fd, 0, SEEK_SET) < 0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Only boxd and nft have this file: nobody changes it while it is read. */
static char *read_text(int fd)
{
	off_t size = lseek(fd, 0, SEEK_END);
	if (size < 0 || size > LISTING_BYTES_MAX) {
		return NULL;
	}
	char *text = calloc(1, (size_t)size + 1);
	if (text && pread(fd, text, (size_t)size, 0) != size) {
		free(text);
		return NULL;
	}
	return text;
}

int box_router_child_run_nft(const struct box_router *router, const struct box_buf *commands,
	char **ret_listing, struct box_err *err)
{
	const char *path = box_router_child_nft_path();
	_cleanup_(box_close_p) int input = -1;
	_cleanup_(box_close_p) int output = memfd_create("nft-output", MFD_CLOEXEC);
	int r = !path ? -ENOENT : output < 0 ? -errno : write_commands(commands, &input);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "nft: %s", box_err_strerror(-r));
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_nft(router, path, parent, input, output);
	}
	if (pid < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "nft: fork: %s", box_err_strerror(errno));
	}
	int status = wait_for(pid);
	_cleanup_(box_free_p) char *text = read_text(output);
	if (status != 0 || !text) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
			"the rules of the router cannot be set: nft: %.*s",
			text ? (int)strcspn(text, "\n") : 0, text ? text : "");
	}
	*ret_listing = TAKE_PTR(text);
	return 0;
}
