/* The tables. What is not here fails with EPERM, so that a library that looks for something goes on
 * without it. Pure data. */
#include "vmm/syscall_rules.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <linux/sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define NAMESPACES 0x7e020080U /* every CLONE_NEW* there is */
#define ALL UINT32_MAX

#define REQUEST(number) "ioctl", .arg = 1, .mask = ALL, .value = (uint32_t)(number)
#define COMMAND(number) "fcntl", .arg = 1, .mask = ALL, .value = (number)

/* To the host the files of the share belong to whoever owns the folder: none of them may become one that
 * runs as somebody, whatever the guest's kernel asks for. A mode counts only when a file may be made. */
#define MODE(number) .arg = (number), .mask = S_ISUID | S_ISGID, .value = 0
#define MAKES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))

/* As the C library does it. */
#ifdef __x86_64__
#define WAIT_FOR_ONE "poll"
#define WAIT_FOR_MANY "epoll_wait"
#else
#define WAIT_FOR_ONE "ppoll"
#define WAIT_FOR_MANY "epoll_pwait"
#endif

/* libkrun 1.19 with virtio-fs, vsock, console, random numbers and a network card. */
static const struct box_syscall_rules_row machine[] = {
	/* the machine itself */
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
#ifdef __aarch64__ /* by what libkrun's sources say: nobody has run it yet */
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
	/* A guest's kernel asks no more when it hears that there is none of it. */
	{"copy_file_range", .refused = ENOSYS},
	{"fgetxattr", .refused = ENOSYS},
	{"lgetxattr", .refused = ENOSYS},
	{"fsetxattr", .refused = ENOSYS},
	{"lsetxattr", .refused = ENOSYS},
	{"flistxattr", .refused = ENOSYS},
	{"llistxattr", .refused = ENOSYS},
	{"fremovexattr", .refused = ENOSYS},
	{"lremovexattr", .refused = ENOSYS},
	/* its way to the bridge, and to passt, which is connected */
	{"socket", .arg = 0, .mask = ALL, .value = AF_UNIX},
	{"connect"},
	{"sendto"},
	{"recvfrom"},
	/* the console, events */
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
	/* threads, but no process, and no namespace */
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
	/* memory, but none that can be executed */
	{"mmap", .arg = 2, .mask = PROT_EXEC, .value = 0},
	{"mprotect", .arg = 2, .mask = PROT_EXEC, .value = 0},
	{"munmap"},
	{"madvise"},
	{"brk"},
	/* signals, time, chance */
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
	/* what libseccomp leaves behind is freed */
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
	[BOX_SYSCALL_RULES_MICROVM] = machine,
	[BOX_SYSCALL_RULES_BRIDGE] = bridge,
	[BOX_SYSCALL_RULES_MOUNT_HELPER] = mount_helper,
};
