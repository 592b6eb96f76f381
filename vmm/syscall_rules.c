/* Owns the seccomp allowlists of box-vmm's processes, and compiles them with libseccomp. A system call that is not
 * in a table fails with EPERM, so that a library that tries it continues without it. Called by each process
 * before it handles untrusted input. */
#include "vmm/syscall_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

#define NAMESPACES 0x7e020080U /* every CLONE_NEW* there is */
#define ALL UINT32_MAX

#define REQUEST(number) "ioctl", .arg = 1, .mask = ALL, .value = (uint32_t)(number)
#define COMMAND(number) "fcntl", .arg = 1, .mask = ALL, .value = (number)

/* On the host, files in the share belong to the owner of the folder. None may become setuid or setgid, whatever the
 * guest's kernel requests. The mode of openat only matters when a file may be created. */
#define MODE(number) .arg = (number), .mask = S_ISUID | S_ISGID, .value = 0
#define MAKES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

/* The system calls that the C library uses. */
#ifdef __x86_64__
#define WAIT_FOR_ONE "poll"
#define WAIT_FOR_MANY "epoll_wait"
#else
#define WAIT_FOR_ONE "ppoll"
#define WAIT_FOR_MANY "epoll_pwait"
#endif

/* libkrun 1.19 with virtio-fs, vsock, console, random numbers and a network card. */
static const struct box_syscall_rules_row microvm[] = {
	/* the virtual machine */
	{REQUEST(KVM_GET_API_VERSION)},
	{REQUEST(KVM_CREATE_VM)},
	{REQUEST(KVM_CHECK_EXTENSION)},
	{REQUEST(KVM_GET_VCPU_MMAP_SIZE)},
	{REQUEST(KVM_CREATE_VCPU)},
	{REQUEST(KVM_SET_USER_MEMORY_REGION)},
	{REQUEST(KVM_IRQFD)},
	{REQUEST(KVM_IOEVENTFD)},
	{REQUEST(KVM_RUN)},
#ifdef __x86_64__
	{REQUEST(KVM_GET_SUPPORTED_CPUID)},
	{REQUEST(KVM_GET_MSR_INDEX_LIST)},
	{REQUEST(KVM_CREATE_IRQCHIP)},
	{REQUEST(KVM_CREATE_PIT2)},
	{REQUEST(KVM_REINJECT_CONTROL)},
	{REQUEST(KVM_SET_TSS_ADDR)},
	{REQUEST(KVM_SET_CPUID2)},
	{REQUEST(KVM_SET_MSRS)},
	{REQUEST(KVM_SET_REGS)},
	{REQUEST(KVM_GET_SREGS)},
	{REQUEST(KVM_SET_SREGS)},
	{REQUEST(KVM_SET_FPU)},
	{REQUEST(KVM_GET_LAPIC)},
	{REQUEST(KVM_SET_LAPIC)},
#endif
#ifdef __aarch64__ /* according to libkrun's sources; never tested */
	{REQUEST(KVM_ARM_PREFERRED_TARGET)},
	{REQUEST(KVM_ARM_VCPU_INIT)},
	{REQUEST(KVM_GET_ONE_REG)},
	{REQUEST(KVM_SET_ONE_REG)},
	{REQUEST(KVM_CREATE_DEVICE)},
	{REQUEST(KVM_SET_DEVICE_ATTR)},
#endif
	/* files of the share, by fds */
	{"openat", .arg = 2, .mask = MAKES, .value = 0},
	{"openat", MODE(3)},
	{"close"},
	{"dup"},
	{"statx"},
	{"newfstatat"},
	{"fstatfs"},
	{"getdents64"},
	{"lseek"},
	{"readlinkat"},
	{"mkdirat"},
	{"mknodat", MODE(2)},
	{"symlinkat"},
	{"linkat"},
	{"unlinkat"},
	{"renameat2"},
	{"fchmod", MODE(1)},
	{"fchmodat", MODE(2)},
	{"fchownat"},
	{"ftruncate"},
	{"fallocate"},
	{"utimensat"},
	{"fsync"},
	{"fdatasync"},
	{"preadv"},
	{"pwritev"},
	{"getuid"},
	{"getgid"},
	{"capget"},
	/* After ENOSYS the guest's kernel does not try them again. */
	{"copy_file_range", .refused = ENOSYS},
	{"fgetxattr", .refused = ENOSYS},
	{"lgetxattr", .refused = ENOSYS},
	{"fsetxattr", .refused = ENOSYS},
	{"lsetxattr", .refused = ENOSYS},
	{"flistxattr", .refused = ENOSYS},
	{"llistxattr", .refused = ENOSYS},
	{"fremovexattr", .refused = ENOSYS},
	{"lremovexattr", .refused = ENOSYS},
	/* the connection to the bridge, and that to passt, which exists already */
	{"socket", .arg = 0, .mask = ALL, .value = AF_UNIX},
	{"connect"},
	{"sendto"},
	{"recvfrom"},
	/* the console and events */
	{"read"},
	{"write"},
	{WAIT_FOR_ONE},
	{"epoll_create1"},
	{"epoll_ctl"},
	{WAIT_FOR_MANY},
	{"eventfd2"},
	{COMMAND(F_GETFL)},
	{COMMAND(F_SETFL)},
	{COMMAND(F_GETFD)},
	{COMMAND(F_SETFD)},
	{COMMAND(F_DUPFD_CLOEXEC)},
	{REQUEST(TCGETS)},
	{REQUEST(FIONBIO)},
	/* threads, but no processes and no namespaces */
	{"clone", .arg = 0, .mask = NAMESPACES | CLONE_THREAD | CLONE_VM,
		.value = CLONE_THREAD | CLONE_VM},
	{"clone3",
		.refused = ENOSYS}, /* hides its flags behind a pointer: glibc goes back to clone */
	{"futex"},
	{"rseq"},
	{"getpid"},
	{"tgkill", .arg = 0, .mask = ALL, .own = 1},
	{"exit"},
	{"exit_group"},
	/* memory that is not executable */
	{"mmap", .arg = 2, .mask = PROT_EXEC, .value = 0},
	{"mprotect", .arg = 2, .mask = PROT_EXEC, .value = 0},
	{"munmap"},
	{"madvise"},
	{"brk"},
	/* signals, time and random numbers */
	{"rt_sigaction"},
	{"rt_sigprocmask"},
	{"rt_sigreturn"},
	{"restart_syscall"},
	{"clock_gettime"},
	{"clock_nanosleep"},
	{"getrandom"},
#ifdef BOX_SANITIZED
	{"sigaltstack"}, /* they look at the stack before a process ends */
#endif
	{NULL},
};

static const struct box_syscall_rules_row bridge[] = {
	{WAIT_FOR_ONE},
	{"accept4"},
	{"recvfrom"},
	{"recvmsg"},
	{"sendto"},
	{"sendmsg"},
	{"read"},
	{"write"},
	{"close"},
	{"unlink"},
	{"unlinkat"},
	{"wait4"},
	{"timerfd_settime"},
	{"clock_gettime"},
	/* frees the memory of libseccomp */
	{"munmap"},
	{"brk"},
	{"rt_sigreturn"},
	{"restart_syscall"},
	{"exit_group"},
#ifdef BOX_SANITIZED
	{"sigaltstack"}, /* they look at the stack before a process ends */
#endif
	{NULL},
};

static const struct box_syscall_rules_row mount_helper[] = {
	{"recvmsg"},
	{"sendto"},
	{"close"},
	{"fstat"},
	{"newfstatat"},
	{"openat"},
	{"mkdirat"},
	{"mknodat"},
	{"unlinkat"},
	{"move_mount"},
	{"umount2"},
	{"munmap"},
	{"brk"},
	{"rt_sigreturn"},
	{"restart_syscall"},
	{"exit_group"},
#ifdef BOX_SANITIZED
	{"sigaltstack"}, /* they look at the stack before a process ends */
#endif
	{NULL},
};

const struct box_syscall_rules_row *const box_syscall_rules_tables[BOX_SYSCALL_RULES_END_] = {
	[BOX_SYSCALL_RULES_MICROVM] = microvm,
	[BOX_SYSCALL_RULES_BRIDGE] = bridge,
	[BOX_SYSCALL_RULES_MOUNT_HELPER] = mount_helper,
};

/* --- the programs --- */

static void release(scmp_filter_ctx *filter)
{
	if (*filter) {
		seccomp_release(*filter);
	}
}

static int add_row(scmp_filter_ctx filter, const struct box_syscall_rules_row *row, uint32_t pid)
{
	int number = seccomp_syscall_resolve_name(row->name);
	/* Another architecture may lack a call. */
	if (number < 0) {
		return number == __NR_SCMP_ERROR ? -ENOENT : 0;
	}
	if (row->refused != 0) {
		return seccomp_rule_add(filter, SCMP_ACT_ERRNO((uint32_t)row->refused), number, 0);
	}
	if (row->mask == 0) {
		return seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	struct scmp_arg_cmp match = SCMP_CMP64(
		row->arg, SCMP_CMP_MASKED_EQ, row->mask, row->own ? pid : row->value);
	return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, number, 1, &match);
}

static int compile(enum box_syscall_rules_process which, uint32_t pid, scmp_filter_ctx *ret_filter,
	struct box_err *err)
{
	_cleanup_(release) scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)
		       : -ENOMEM;
	if (r == 0) {
		/* A tree instead of a list: fewer instructions for each call. */
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	}
	const struct box_syscall_rules_row *row = box_syscall_rules_tables[which];
	for (; r == 0 && row->name; row++) {
		r = add_row(filter, row, pid);
		if (r < 0) {
			return box_err_set(err, BOX_ERR_OS, -r, "seccomp: the call %s: %s",
				row->name, box_err_strerror(-r));
		}
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "seccomp: %s", box_err_strerror(-r));
	}
	*ret_filter = TAKE_PTR(filter);
	return 0;
}

int box_syscall_rules_export(
	enum box_syscall_rules_process which, uint32_t pid, int fd, struct box_err *err)
{
	_cleanup_(release) scmp_filter_ctx filter = NULL;
	int r = compile(which, pid, &filter, err);
	if (r == 0) {
		r = seccomp_export_bpf(filter, fd);
		if (r < 0) {
			(void)box_err_set(err, BOX_ERR_OS, -r, "seccomp: %s", box_err_strerror(-r));
		}
	}
	return r;
}

int box_syscall_rules_enter(enum box_syscall_rules_process which, struct box_err *err)
{
	_cleanup_(release) scmp_filter_ctx filter = NULL;
	int r = compile(which, (uint32_t)getpid(), &filter, err);
	if (r == 0) {
		r = seccomp_load(filter);
		if (r < 0) {
			(void)box_err_set(err, BOX_ERR_OS, -r, "seccomp: %s", box_err_strerror(-r));
		}
	}
	return r;
}
