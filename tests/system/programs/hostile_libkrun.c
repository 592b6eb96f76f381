/* A hostile libkrun: instead of a guest it runs what an attacker would who has taken over the
 * process of the virtual machine, prints on the console what it has and what it got, and ends. In a
 * probe, which has no share, it behaves as a good guest. Also in place of libkrunfw. */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/kvm.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "protocol/microvm.h"

#define FDS_LOOKED_AT 256

static char share_path[256];
static char socket_path[256];

/* --- files: what is not below the share is Landlock's, what is in it the mounts' --- */

static bool gives_fd(long r)
{
	return r >= 0;
}

static bool opens(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC, 0600);
	return fd >= 0 && close(fd) == 0;
}

static bool is_writable(const char *path)
{
	struct statfs facts;
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool writable = fd >= 0 && fstatfs(fd, &facts) == 0 && !(facts.f_flags & ST_RDONLY);
	(void)close(fd);
	return writable;
}

static bool get_proc(void)
{
	return opens("/proc/self/status", O_RDONLY);
}

static bool get_root(void)
{
	return opens("/", O_RDONLY | O_DIRECTORY);
}

static bool get_run(void)
{
	return opens("/run", O_RDONLY | O_DIRECTORY);
}

static bool get_new_file(void)
{
	return opens("/run/mine", O_CREAT | O_WRONLY) || opens("/mine", O_CREAT | O_WRONLY);
}

static bool get_tree(void)
{
	return is_writable("/share/trees/usr") || is_writable("/share/trees/etc");
}

static bool get_share(void)
{
	return is_writable("/share") || is_writable("/share/trees");
}

/* That name must not exist; where it can never exist, that is not checked. */
static bool get_set_id(void)
{
	const char *path = "/share/none";
	return gives_fd(openat(AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 04755)) ||
		errno != EPERM || mknodat(AT_FDCWD, path, S_IFREG | 02755, 0) == 0 ||
		errno != EPERM || fchmodat(AT_FDCWD, path, 04755, 0) == 0 || errno != EPERM ||
		fchmod(STDIN_FILENO, 06755) == 0 || errno != EPERM;
}

/* --- rights and fds --- */

static bool get_ids(void)
{
	return getuid() == 0 || syscall(SYS_setuid, 0) == 0 || syscall(SYS_setgid, 0) == 0;
}

static bool get_capabilities(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
	return syscall(SYS_capget, &header, sets) < 0 || sets[0].permitted || sets[1].permitted;
}

/* The only fd besides 0, 1 and 2 is libkrun's log. */
static bool get_fds(void)
{
	int count = 0;
	for (int fd = STDERR_FILENO + 1; fd < FDS_LOOKED_AT; fd++) {
		count += fcntl(fd, F_GETFD) >= 0;
	}
	return count != 1;
}

/* --- calls --- */

static bool get_inet(void)
{
	return gives_fd(socket(AF_INET, SOCK_STREAM, 0)) ||
		gives_fd(socket(AF_INET, SOCK_DGRAM, 0)) ||
		gives_fd(socket(AF_INET6, SOCK_STREAM, 0));
}

static bool get_netlink(void)
{
	return gives_fd(socket(AF_NETLINK, SOCK_RAW, 0)) ||
		gives_fd(socket(AF_PACKET, SOCK_RAW, 0)) ||
		gives_fd(socket(AF_VSOCK, SOCK_STREAM, 0));
}

static bool get_process(void)
{
	long pid = syscall(SYS_fork);
	if (pid < 0) {
		pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	}
	if (pid == 0) {
		_exit(0);
	}
	return pid > 0;
}

static bool get_namespace(void)
{
	return unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWNS) == 0 ||
		unshare(CLONE_NEWNET) == 0;
}

static bool get_mount(void)
{
	return mount("tmpfs", "/share", "tmpfs", 0, NULL) == 0 ||
		gives_fd(syscall(SYS_open_tree, AT_FDCWD, "/share", 0)) ||
		gives_fd(syscall(SYS_fsopen, "tmpfs", 0));
}

static bool get_other_process(void)
{
	char byte;
	struct iovec to = {&byte, 1};
	struct iovec from = {&byte, 1};
	return ptrace(PTRACE_ATTACH, 1, NULL, NULL) == 0 || kill(1, 0) == 0 ||
		syscall(SYS_tgkill, 1, 1, 0) == 0 || gives_fd(syscall(SYS_pidfd_open, 1, 0)) ||
		process_vm_readv(1, &to, 1, &from, 1, 0) >= 0;
}

static bool get_code(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
		MAP_FAILED ||
		mprotect(memory, 4096, PROT_READ | PROT_EXEC) == 0 ||
		gives_fd(memfd_create("code", 0));
}

static bool get_program(void)
{
	char *const words[] = {(char[]){"sh"}, NULL};
	(void)execve("/share/trees/usr/bin/true", words, words + 1);
	return errno != EPERM;
}

static bool get_kernel(void)
{
	struct perf_event_attr attributes = {.size = sizeof(attributes)};
	return gives_fd(syscall(SYS_bpf, 0, NULL, 0)) || errno != EPERM ||
		gives_fd(syscall(SYS_io_uring_setup, 1, NULL)) || errno != EPERM ||
		gives_fd(syscall(SYS_userfaultfd, 0)) || errno != EPERM ||
		gives_fd(syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0)) || errno != EPERM;
}

static const struct {
	const char *name;
	bool (*get)(void);
} attempts[] = {
	{"proc", get_proc},
	{"root", get_root},
	{"run", get_run},
	{"new-file", get_new_file},
	{"tree", get_tree},
	{"share", get_share},
	{"set-id", get_set_id},
	{"ids", get_ids},
	{"capabilities", get_capabilities},
	{"fds", get_fds},
	{"inet", get_inet},
	{"netlink", get_netlink},
	{"process", get_process},
	{"namespace", get_namespace},
	{"mount", get_mount},
	{"other-process", get_other_process},
	{"code", get_code},
	{"program", get_program},
	{"kernel", get_kernel},
};

static void attack(void)
{
	/* Checks that the probe works: its own files must be found. */
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	int machine = ioctl(kvm, KVM_CREATE_VM, 0);
	bool files = opens("/share/trees/usr/bin", O_RDONLY | O_DIRECTORY);
	(void)close(machine);
	(void)close(kvm);
	size_t count = sizeof(attempts) / sizeof(attempts[0]);
	(void)dprintf(STDOUT_FILENO, "has%s%s tried %zu got", machine >= 0 ? " machine" : "",
		files ? " files" : "", count);
	for (size_t i = 0; i < count; i++) {
		if (attempts[i].get()) {
			(void)dprintf(STDOUT_FILENO, " %s", attempts[i].name);
		}
	}
	(void)dprintf(STDOUT_FILENO, " end\n");
}

/* --- libkrun --- */

static void report_ready(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct box_init_report ready = {0};
	int sock = socket(AF_UNIX, SOCK_STREAM, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", socket_path);
	if (connect(sock, (struct sockaddr *)&address, sizeof(address)) == 0 &&
		write(sock, &ready, sizeof(ready)) > 0) {
		(void)!read(sock, &ready, sizeof(ready)); /* until it was received */
	}
}

#define CALL(name, ...)            \
	int32_t name(__VA_ARGS__); \
	int32_t name(__VA_ARGS__)

CALL(krun_add_virtiofs3, uint32_t ctx, const char *tag, const char *path)
{
	(void)ctx;
	if (path && strcmp(tag, BOX_MICROVM_SHARE) == 0) {
		(void)snprintf(share_path, sizeof(share_path), "%s", path);
	}
	return 0;
}

CALL(krun_add_vsock_port2, uint32_t ctx, uint32_t port, const char *path)
{
	(void)ctx;
	(void)port;
	(void)snprintf(socket_path, sizeof(socket_path), "%s", path);
	return 0;
}

CALL(krun_start_enter, uint32_t ctx)
{
	(void)ctx;
	if (share_path[0] != '\0') {
		attack();
	} else {
		report_ready();
	}
	_exit(0);
}

#define QUIET(name)       \
	CALL(name, void)  \
	{                 \
		return 0; \
	}

QUIET(krun_init_log)
QUIET(krun_create_ctx)
QUIET(krun_set_vm_config)
QUIET(krun_disable_implicit_init)
QUIET(krun_set_console_output)
QUIET(krun_disable_implicit_vsock)
QUIET(krun_add_vsock)
QUIET(krun_fs_add_overlay_file)
QUIET(krunfw_get_kernel)
