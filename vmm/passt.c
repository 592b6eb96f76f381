/* Owns passt's command line and how it is started: with one socket, a user id that nothing else in the box has, and
 * no capabilities. passt confines itself in namespaces of its own. It does not decide what the guest can reach:
 * the router does, outside of the box. Called by vmm_run.c. */
#include "vmm/passt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fds.h"
#include "vmm/privileges.h"

#define PASST_ID 65533 /* neither the id of commands nor "nobody" */
#define NUMBER_SIZE 12
#define SOCKET_BYTES (16 * 1024 * 1024)

static const char *find_passt(void)
{
	static const char *const paths[] = {
		"/usr/bin/passt", "/usr/local/bin/passt", "/bin/passt", NULL};
	for (const char *const *path = paths; *path; path++) {
		if (access(*path, X_OK) == 0) {
			return *path;
		}
	}
	return NULL;
}

#define A(text) ((char[]){text})

static void execute(const char *path, const struct box_microvm_boot *facts, int fd)
{
	char number[NUMBER_SIZE];
	char prefix[NUMBER_SIZE];
	char address[INET_ADDRSTRLEN];
	char gateway[INET_ADDRSTRLEN];
	(void)snprintf(number, sizeof(number), "%d", fd);
	(void)snprintf(prefix, sizeof(prefix), "%u", facts->prefix);
	(void)inet_ntop(AF_INET, &facts->address, address, sizeof(address));
	(void)inet_ntop(AF_INET, &facts->gateway, gateway, sizeof(gateway));
	char *const arguments[] = {
		/* clang-format off */
		A("passt"), A("--foreground"), A("--quiet"), A("--stderr"), A("--ipv4-only"),
		A("--fd"), number,
		A("--address"), address, A("--netmask"), prefix, A("--gateway"), gateway,
		A("--tcp-ports"), A("none"), A("--udp-ports"), A("none"), /* into the guest */
		A("--no-dhcp"), A("--no-dhcpv6"), A("--no-ndp"), A("--no-ra"), A("--no-map-gw"),
		NULL,
		/* clang-format on */
	};
	char *const environment[] = {NULL};
	(void)execve(path, arguments, environment);
}

_Noreturn static void run_passt(
	const struct box_passt *passt, const char *path, int fd, int ready, pid_t parent)
{
	sigset_t none;
	(void)sigemptyset(&none);
	/* Otherwise our change of the root would affect it before it has started. */
	if (unshare(CLONE_NEWNS) < 0 || write(ready, "", 1) != 1) {
		_exit(1);
	}
	if (dup2(passt->log_fd, STDOUT_FILENO) < 0 || dup2(passt->log_fd, STDERR_FILENO) < 0 ||
		box_fds_close_but(STDERR_FILENO + 1, &fd, 1) < 0 || fcntl(fd, F_SETFD, 0) < 0 ||
		sigprocmask(SIG_SETMASK, &none, NULL) < 0 || chdir("/") < 0 ||
		box_privileges_lock(passt->same_uid) < 0 ||
		(!passt->same_uid && box_privileges_become(PASST_ID, PASST_ID) < 0) ||
		box_caps_keep(0) < 0 || prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0 ||
		getppid() != parent) {
		_exit(1);
	}
	execute(path, passt->facts, fd);
	(void)dprintf(STDERR_FILENO, "box-vmm: %s: %s\n", path, box_err_strerror(errno));
	_exit(127);
}

/* Returns when it has a mount namespace of its own. */
static int start(const struct box_passt *passt, const char *path, int fd, pid_t *ret_pid)
{
	char byte;
	int pipe_ends[2];
	if (pipe2(pipe_ends, O_CLOEXEC) < 0) {
		return -errno;
	}
	_cleanup_(box_close_p) int ready = pipe_ends[0];
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_passt(passt, path, fd, pipe_ends[1], parent);
	}
	int r = pid < 0 ? -errno : 0;
	(void)close(pipe_ends[1]);
	if (r == 0 && read(ready, &byte, 1) != 1) {
		r = -ECHILD;
	}
	if (r == 0) {
		*ret_pid = pid;
	}
	return r;
}

int box_passt_start(const struct box_passt *passt, int *ret_fd, pid_t *ret_pid, struct box_err *err)
{
	const char *path = find_passt();
	int pair[2];
	if (!path) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOENT,
			"passt is missing: a microVM has no network without it");
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "no socket for passt: %s", box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = pair[0];
	_cleanup_(box_close_p) int theirs = pair[1];
	/* libkrun would set this itself, but is no longer allowed to. */
	int buffer_bytes = SOCKET_BYTES;
	(void)setsockopt(ours, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof(buffer_bytes));
	int r = start(passt, path, theirs, ret_pid);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s cannot be started: %s", path,
			box_err_strerror(-r));
	}
	*ret_fd = TAKE_FD(ours);
	return 0;
}
