/* The confinement of box-rpc from inside: a child enters it and tries what a taken-over box-rpc
 * would.
 *
 * Each test runs in a process of its own (see test.h), so each enters the confinement anew. Calls
 * are made by number, so that the C library does not interfere. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>

#include "base/log.h"
#include "tests/unit/lib/test.h"
#include "worker/confine.h"

#if defined(__SANITIZE_ADDRESS__)
/* The leak checker wants ptrace at exit, which the filter forbids. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "detect_leaks=0";
}
#endif

static void enter(void)
{
	struct box_err err;
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	if (box_confine_enter(&err) < 0) {
		TEST_FAIL("box_confine_enter: %s", err.text);
	}
}

static bool is_refusal(int errnum)
{
	return errnum == EPERM || errnum == EACCES || errnum == ENOSYS;
}

/* `result` is that of the call, errno still set. */
#define ASSERT_REFUSED(call)                                                    \
	do {                                                                    \
		errno = 0;                                                      \
		long result_ = (long)(call);                                    \
		if (result_ != -1 || !is_refusal(errno)) {                      \
			TEST_FAIL("%s: %ld (errno %d)", #call, result_, errno); \
		}                                                               \
	} while (0)

TEST(no_file_can_be_opened)
{
	struct open_how {
		uint64_t flags;
		uint64_t mode;
		uint64_t resolve;
	} how = {.flags = O_RDONLY};
	enter();
	ASSERT_REFUSED(syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY));
	ASSERT_REFUSED(syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDWR));
	ASSERT_REFUSED(syscall(SYS_openat, AT_FDCWD, "/tmp", O_TMPFILE | O_RDWR, 0600));
	ASSERT_REFUSED(syscall(SYS_openat2, AT_FDCWD, "/etc/passwd", &how, sizeof(how)));
#ifdef SYS_open
	ASSERT_REFUSED(syscall(SYS_open, "/etc/passwd", O_RDONLY));
	ASSERT_REFUSED(syscall(SYS_creat, "/tmp/box-confine", 0600));
#endif
	ASSERT_REFUSED(syscall(SYS_open_by_handle_at, AT_FDCWD, &how, O_RDONLY));
	ASSERT_REFUSED(syscall(SYS_open_tree, AT_FDCWD, "/", 0));
}

TEST(no_name_can_be_made_or_removed)
{
	enter();
	ASSERT_REFUSED(syscall(SYS_mkdirat, AT_FDCWD, "/tmp/box-confine", 0700));
	ASSERT_REFUSED(syscall(SYS_unlinkat, AT_FDCWD, "/tmp/box-confine", 0));
	ASSERT_REFUSED(syscall(SYS_symlinkat, "/", AT_FDCWD, "/tmp/box-confine"));
	ASSERT_REFUSED(syscall(SYS_linkat, AT_FDCWD, "/tmp/a", AT_FDCWD, "/tmp/b", 0));
	ASSERT_REFUSED(syscall(SYS_renameat2, AT_FDCWD, "/tmp/a", AT_FDCWD, "/tmp/b", 0));
	ASSERT_REFUSED(syscall(SYS_mknodat, AT_FDCWD, "/tmp/box-confine", 0, 0));
	ASSERT_REFUSED(syscall(SYS_fchmodat, AT_FDCWD, "/tmp", 0777));
	ASSERT_REFUSED(syscall(SYS_fchownat, AT_FDCWD, "/tmp", 0, 0, 0));
	ASSERT_REFUSED(syscall(SYS_chdir, "/tmp"));
	ASSERT_REFUSED(syscall(SYS_getdents64, 0, NULL, 0));
}

TEST(no_socket_can_be_made)
{
	enter();
	ASSERT_REFUSED(syscall(SYS_socket, AF_INET, SOCK_STREAM, 0));
	ASSERT_REFUSED(syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0));
	ASSERT_REFUSED(syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
	ASSERT_REFUSED(syscall(SYS_socket, AF_NETLINK, SOCK_RAW, 0));
	ASSERT_REFUSED(syscall(SYS_socket, AF_VSOCK, SOCK_STREAM, 0));
	int pair[2];
	ASSERT_REFUSED(syscall(SYS_socketpair, AF_UNIX, SOCK_STREAM, 0, pair));
}

/* With a socket that was opened before. */
TEST(no_socket_can_be_connected)
{
	int inet = socket(AF_INET, SOCK_STREAM, 0);
	int local = socket(AF_UNIX, SOCK_STREAM, 0);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(9),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	struct sockaddr_un path = {
		.sun_family = AF_UNIX, .sun_path = "/run/dbus/system_bus_socket"};
	ASSERT(inet >= 0 && local >= 0);
	enter();
	ASSERT_REFUSED(syscall(SYS_connect, inet, &address, sizeof(address)));
	ASSERT_REFUSED(syscall(SYS_connect, local, &path, sizeof(path)));
	ASSERT_REFUSED(syscall(SYS_bind, inet, &address, sizeof(address)));
	ASSERT_REFUSED(syscall(SYS_listen, inet, 1));
}

/* sendto and sendmsg are allowed for sockets made by others, and both can name an address. TCP fast
 * open could connect with that, and a datagram socket needs no connection. */
TEST(no_address_can_be_sent_to)
{
	int inet = socket(AF_INET, SOCK_STREAM, 0);
	int server = socket(AF_INET, SOCK_STREAM, 0);
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	ASSERT(inet >= 0 && server >= 0);
	ASSERT_INT(bind(server, (struct sockaddr *)&address, size), 0);
	ASSERT_INT(listen(server, 1), 0);
	ASSERT_INT(getsockname(server, (struct sockaddr *)&address, &size), 0);
	enter();
	errno = 0;
	long sent = syscall(SYS_sendto, inet, "x", 1, MSG_FASTOPEN, &address, sizeof(address));
	if (sent != -1) {
		TEST_FAIL("sendto with MSG_FASTOPEN connects: %ld", sent);
	}
	ASSERT(is_refusal(errno));
}

TEST(no_program_can_be_run)
{
	char *const arguments[] = {(char *)(uintptr_t) "false", NULL};
	char *const environment[] = {NULL};
	int program = open("/bin/false", O_PATH | O_CLOEXEC);
	ASSERT(program >= 0);
	enter();
	ASSERT_REFUSED(syscall(SYS_execve, "/bin/false", arguments, environment));
	ASSERT_REFUSED(syscall(SYS_execveat, program, "", arguments, environment, AT_EMPTY_PATH));
}

TEST(no_process_can_be_inspected)
{
	char byte = 0;
	struct iovec part = {.iov_base = &byte, .iov_len = 1};
	pid_t parent = getppid();
	enter();
	ASSERT_REFUSED(syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0));
	ASSERT_REFUSED(syscall(SYS_ptrace, PTRACE_ATTACH, parent, 0, 0));
	ASSERT_REFUSED(syscall(SYS_process_vm_readv, parent, &part, 1, &part, 1, 0));
	ASSERT_REFUSED(syscall(SYS_process_vm_writev, parent, &part, 1, &part, 1, 0));
	ASSERT_REFUSED(syscall(SYS_kcmp, parent, getpid(), 0, 0, 0));
	ASSERT_REFUSED(syscall(SYS_pidfd_open, parent, 0));
	ASSERT_REFUSED(syscall(SYS_perf_event_open, &part, 0, -1, -1, 0));
}

TEST(no_process_can_be_signalled)
{
	pid_t parent = getppid();
	enter();
	ASSERT_REFUSED(syscall(SYS_kill, parent, 0));
	ASSERT_REFUSED(syscall(SYS_kill, -1, 0));
	ASSERT_REFUSED(syscall(SYS_tkill, parent, 0));
	ASSERT_REFUSED(syscall(SYS_rt_sigqueueinfo, parent, 0, NULL));
}

/* abort() needs tgkill for the process itself; it must not work for another one. Landlock refuses
 * that if it is new enough, the uid does in any case. */
TEST(no_other_process_by_tgkill)
{
	pid_t parent = getppid();
	enter();
	ASSERT_REFUSED(syscall(SYS_tgkill, parent, parent, 0));
}

TEST(no_namespace_and_no_mount)
{
	enter();
	ASSERT_REFUSED(syscall(SYS_unshare, CLONE_NEWUSER));
	ASSERT_REFUSED(syscall(SYS_unshare, CLONE_FILES));
	ASSERT_REFUSED(syscall(SYS_setns, 0, 0));
	ASSERT_REFUSED(syscall(SYS_mount, "none", "/tmp", "tmpfs", 0, NULL));
	ASSERT_REFUSED(syscall(SYS_umount2, "/tmp", 0));
	ASSERT_REFUSED(syscall(SYS_pivot_root, "/", "/"));
	ASSERT_REFUSED(syscall(SYS_chroot, "/"));
	ASSERT_REFUSED(syscall(SYS_move_mount, -1, "", -1, "", 0));
	ASSERT_REFUSED(syscall(SYS_fsopen, "tmpfs", 0));
}

TEST(no_clone_into_a_namespace)
{
	static const unsigned long flags[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET,
		CLONE_NEWPID, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP};
	uint64_t arguments[8] = {CLONE_NEWUSER};
	enter();
	for (size_t i = 0; i < COUNT(flags); i++) {
		ASSERT_REFUSED(syscall(SYS_clone, flags[i] | SIGCHLD, 0, 0, 0, 0));
		ASSERT_REFUSED(syscall(SYS_clone, flags[i] | CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0));
	}
	ASSERT_REFUSED(syscall(SYS_clone3, arguments, sizeof(arguments)));
	ASSERT_INT(errno, ENOSYS);
}

TEST(no_wide_kernel_interface)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY};
	struct io_uring_params params = {0};
	enter();
	ASSERT_REFUSED(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)));
	ASSERT_REFUSED(syscall(SYS_io_uring_setup, 1, &params));
	ASSERT_REFUSED(syscall(SYS_keyctl, 0, -4, 1));
	ASSERT_REFUSED(syscall(SYS_add_key, "user", "a", "b", 1, -4));
	ASSERT_REFUSED(syscall(SYS_userfaultfd, 0));
	ASSERT_REFUSED(syscall(SYS_personality, 0xffffffff));
	ASSERT_REFUSED(syscall(SYS_init_module, NULL, 0, ""));
	ASSERT_REFUSED(syscall(SYS_ioctl, 0, 0x5412 /* TIOCSTI */, "x"));
	ASSERT_REFUSED(syscall(SYS_prctl, 38 /* PR_SET_NO_NEW_PRIVS */, 0, 0, 0, 0));
	ASSERT_REFUSED(syscall(SYS_seccomp, 0, 0, NULL));
	ASSERT_REFUSED(syscall(SYS_vmsplice, 1, NULL, 0, 0));
	ASSERT_REFUSED(syscall(SYS_shmget, 0, 4096, 01600));
	ASSERT_REFUSED(syscall(SYS_memfd_secret, 0));
}

TEST(no_other_identity)
{
	enter();
	ASSERT_REFUSED(syscall(SYS_setuid, 0));
	ASSERT_REFUSED(syscall(SYS_setresuid, 0, 0, 0));
	ASSERT_REFUSED(syscall(SYS_setgid, 0));
	ASSERT_REFUSED(syscall(SYS_setgroups, 0, NULL));
	ASSERT_REFUSED(syscall(SYS_capset, NULL, NULL));
	ASSERT_REFUSED(syscall(SYS_setsid));
}

/* x32 calls and 32-bit calls bypass a filter that only compares numbers. */
#ifdef __x86_64__
TEST(no_call_by_the_x32_numbers)
{
	pid_t pid = fork();
	if (pid == 0) {
		enter();
		errno = 0;
		long fd = syscall(0x40000000 + SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
		_exit(fd == -1 && is_refusal(errno) ? 0 : 1);
	}
	int status = 0;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	/* Refused, or killed immediately. */
	ASSERT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}

TEST(no_call_by_the_32_bit_gate)
{
	pid_t pid = fork();
	if (pid == 0) {
		enter();
		long result = 0;
		/* getpid through the entry of another architecture. */
		__asm__ volatile("int $0x80" : "=a"(result) : "a"(20L) : "memory");
		_exit(result > 0 ? 1 : 0);
	}
	int status = 0;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
}
#endif

TEST(no_executable_memory)
{
	enter();
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(page != MAP_FAILED);
	long result = syscall(SYS_mprotect, page, 4096, PROT_READ | PROT_EXEC);
	ASSERT(result < 0 && is_refusal(errno));
	page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT(page == MAP_FAILED && is_refusal(errno));
}

static void *thread_main(void *arg)
{
	*(int *)arg = 7;
	return arg;
}

TEST(what_it_needs_still_works)
{
	int server = socket(AF_INET, SOCK_STREAM, 0);
	int client = socket(AF_INET, SOCK_STREAM, 0);
	int pipe_fds[2];
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(address);
	ASSERT_INT(pipe2(pipe_fds, O_CLOEXEC), 0);
	ASSERT_INT(bind(server, (struct sockaddr *)&address, size), 0);
	ASSERT_INT(listen(server, 1), 0);
	ASSERT_INT(getsockname(server, (struct sockaddr *)&address, &size), 0);
	ASSERT_INT(connect(client, (struct sockaddr *)&address, size), 0);
	enter();

	char byte = 0;
	ASSERT_INT(write(pipe_fds[1], "a", 1), 1);
	ASSERT_INT(read(pipe_fds[0], &byte, 1), 1);
	ASSERT_INT(byte, 'a');

	int taken = accept4(server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	ASSERT(taken >= 0);
	ASSERT_INT(send(client, "b", 1, MSG_NOSIGNAL), 1);
	ASSERT_INT(recv(taken, &byte, 1, 0), 1);
	ASSERT_INT(byte, 'b');

	int memory = memfd_create("test", MFD_CLOEXEC);
	ASSERT(memory >= 0);
	ASSERT_INT(pwrite(memory, "c", 1, 0), 1);

	pthread_t thread;
	int number = 0;
	ASSERT_INT(pthread_create(&thread, NULL, thread_main, &number), 0);
	ASSERT_INT(pthread_join(thread, NULL), 0);
	ASSERT_INT(number, 7);
}

TEST(every_name_on_the_list_is_there_once)
{
	for (const char *const *name = box_confine_allowed_calls; *name; name++) {
		for (const char *const *other = name + 1; *other; other++) {
			ASSERT(strcmp(*name, *other) != 0);
		}
	}
}
