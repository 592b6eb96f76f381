/* How the process comes to be: a copy of boxd that closes what is boxd's, becomes nobody and goes
 * behind a filter, then says that it is there. */
#include "boxd/net/port_proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/net/host_ports_listener.h"
#include "boxd/net/router.h"

#define START_MS 5000
#define OTHER_FILES 64

/* All but stderr, the listeners and `report`: what is between them is closed. */
static int close_others(struct box_port_proxy *ferry, int report)
{
	int kept[BOX_EGRESS_HOST_PORTS_MAX + 1];
	size_t count = ferry->port_count;
	memcpy(kept, ferry->listeners, count * sizeof(kept[0]));
	kept[count++] = report;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0) {
		return -errno;
	}
	/* The lowest first. */
	for (unsigned from = STDERR_FILENO + 1;;) {
		unsigned next = ~0U;
		for (size_t i = 0; i < count; i++) {
			next = (unsigned)kept[i] >= from && (unsigned)kept[i] < next
				? (unsigned)kept[i]
				: next;
		}
		if (next > from && close_range(from, next == ~0U ? ~0U : next - 1, 0) < 0) {
			return -errno;
		}
		if (next == ~0U) {
			return 0;
		}
		from = next + 1;
	}
}

static int give_up_rights(void)
{
	struct rlimit core = {0, 0};
	struct rlimit files = {2 * BOX_HOST_CONNECTIONS_MAX + OTHER_FILES,
		2 * BOX_HOST_CONNECTIONS_MAX + OTHER_FILES};
	int r = box_caps_keep(0);
	if (r < 0) {
		return r;
	}
	if (setrlimit(RLIMIT_CORE, &core) < 0 || setrlimit(RLIMIT_NOFILE, &files) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	return 0;
}

static int become_ferry(struct box_port_proxy *ferry, const struct box_router *router, pid_t parent,
	int report, int *look)
{
	int r = box_router_child_begin(parent);
	r = r < 0 ? r : close_others(ferry, report);
	r = r < 0 ? r : box_host_ports_open_sock_diag(look);
	r = r < 0 ? r : box_router_child_become(router->uid, router->gid, parent);
	r = r < 0 ? r : give_up_rights();
	if (r == 0) {
		/* A kernel that cannot tell who listens gives no ports. */
		r = box_host_ports_find_listener(*look, ferry->address, ferry->ports[0]);
		r = r == -ENOENT ? 0 : r;
	}
	return r < 0 ? r : box_port_proxy_confine();
}

_Noreturn static void live(
	struct box_port_proxy ferry, const struct box_router *router, pid_t parent, int report)
{
	int look = -1;
	int32_t result = become_ferry(&ferry, router, parent, report, &look);
	if (write(report, &result, sizeof(result)) != sizeof(result) || result < 0) {
		_exit(1);
	}
	(void)close(report);
	box_port_proxy_run(&ferry, look);
}

static int hear(int report)
{
	struct pollfd wait = {.fd = report, .events = POLLIN};
	int32_t result = -ECHILD;
	if (poll(&wait, 1, START_MS) != 1) {
		return -ETIMEDOUT;
	}
	return read(report, &result, sizeof(result)) == sizeof(result) ? result : -ECHILD;
}

int box_port_proxy_start(const struct box_port_proxy *ferry, const struct box_router *router,
	pid_t *ret_pid, struct box_err *err)
{
	int ends[2];
	if (pipe2(ends, O_CLOEXEC) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "egress.host_ports: pipe: %s",
			box_err_strerror(errno));
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		live(*ferry, router, parent, ends[1]);
	}
	int r = pid < 0 ? -errno : 0;
	(void)close(ends[1]);
	r = r < 0 ? r : hear(ends[0]);
	(void)close(ends[0]);
	if (r < 0 && pid > 0) {
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r,
			"egress.host_ports cannot be given: %s", box_err_strerror(-r));
	}
	*ret_pid = pid;
	return 0;
}
