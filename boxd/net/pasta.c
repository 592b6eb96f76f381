/* The child that becomes pasta: it enters a mount namespace where the router's namespaces have paths,
 * drops its rights, changes its ids, then calls exec. Called by network.c only. */
#include "boxd/net/pasta.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxd/net/router.h"
#include "boxd/net/router_child.h"

#define TUN "/dev/net/tun"
/* What pasta opens is bind-mounted here, over a folder of its own mount namespace. */
#define FOLDER "/tmp"
#define NETNS_PATH FOLDER "/net"
#define USERNS_PATH FOLDER "/user"
#define TUN_PATH FOLDER "/tun"

const char *box_pasta_path(void)
{
	static const char *const paths[] = {
		"/usr/bin/pasta", "/usr/local/bin/pasta", "/bin/pasta", NULL};
	return box_router_child_find_program(paths);
}

const char *box_pasta_tun_problem(uid_t uid)
{
	if (access(TUN, F_OK) < 0) {
		return "no " TUN ": load the module tun, or give the container this device";
	}
	if (uid == geteuid() && access(TUN, R_OK | W_OK) < 0) {
		return TUN " may not be opened by this user: its mode must be 666";
	}
	return NULL;
}

static int bind_fd(int fd, const char *path)
{
	char source[32];
	(void)snprintf(source, sizeof(source), "/proc/self/fd/%d", fd);
	_cleanup_(box_close_p) int target = open(
		path, O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, 0444);
	return target < 0 || mount(source, path, NULL, MS_BIND, NULL) < 0 ? -errno : 0;
}

/* pasta takes namespaces by path, and its uid would need access to a process whose /proc/PID/ns it
 * uses. So the namespaces are bind-mounted in a mount namespace of its own. */
static int show_namespaces(const struct box_router *router)
{
	const char *options = "size=64k,mode=755";
	(void)umask(0);
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", FOLDER, "tmpfs", MS_NOSUID | MS_NOEXEC, options) < 0) {
		return -errno;
	}
	/* Without udev the host's device may be for root only; root can make another one. */
	if (router->uid != geteuid() && mknod(TUN_PATH, S_IFCHR | 0666, makedev(10, 200)) == 0) {
		(void)mount(TUN_PATH, TUN, NULL, MS_BIND, NULL);
	}
	(void)umask(077);
	int r = bind_fd(router->netns, NETNS_PATH);
	return r < 0 ? r : bind_fd(router->userns, USERNS_PATH);
}

/* If boxd is in a user namespace of its own, this process is uid 0, and exec would give it all rights. */
static int give_up_rights(const struct box_router *router, pid_t parent)
{
	long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED;
	if (prctl(PR_SET_SECUREBITS, bits) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	return box_router_child_become_owner(router, parent);
}

#define A(text) ((char[]){text})

_Noreturn static void run_child(const struct box_router *router, const char *path, pid_t parent)
{
	char *const arguments[] = {
		/* clang-format off */
		A("pasta"), A("--foreground"), A("--quiet"), A("--ipv4-only"), A("--config-net"),
		A("--ns-ifname"), A(BOX_ROUTER_UPLINK), A("--dns-forward"), A(BOX_ROUTER_DNS),
		A("--tcp-ports"), A("none"), A("--udp-ports"), A("none"), /* into boxes */
		A("--tcp-ns"), A("none"), A("--udp-ns"), A("none"), /* to the host's loopback */
		A("--no-dhcp"), A("--no-dhcpv6"), A("--no-ndp"), A("--no-ra"),
		A("--no-netns-quit"), A("--userns"), A(USERNS_PATH), A("--netns"), A(NETNS_PATH),
		box_router_is_left_out("map-gw") ? NULL : A("--no-map-gw"), NULL,
		/* clang-format on */
	};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	(void)setsid();
	if (null >= 0 && box_router_child_begin(parent) == 0 && show_namespaces(router) == 0 &&
		give_up_rights(router, parent) == 0) {
		box_router_child_exec(path, arguments, null, null);
	}
	_exit(127);
}

int box_pasta_start(const struct box_router *router, pid_t *ret_pid, int *ret_pidfd)
{
	const char *path = box_pasta_path();
	if (!path) {
		return -ENOENT;
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		run_child(router, path, parent);
	}
	if (pid < 0) {
		return -errno;
	}
	int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		(void)kill(pid, SIGKILL);
		return waitpid(pid, NULL, 0) < 0 ? -errno : -EMFILE;
	}
	*ret_pid = pid;
	*ret_pidfd = pidfd;
	return 0;
}
