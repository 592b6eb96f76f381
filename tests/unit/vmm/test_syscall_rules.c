/* Which system calls the processes of box-vmm may make: the tables as programs, run on made-up
 * calls. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/unit/lib/bpf.h"
#include "tests/unit/lib/test.h"
#include "vmm/syscall_rules.h"

#define PID 4711U
#ifdef BOX_SANITIZED
#define CALLS_MAX 61 /* one is needed by the sanitizers */
#else
#define CALLS_MAX 60 /* that the virtual machine may make */
#endif
#define NUMBERS 600

static struct {
	struct sock_filter instructions[BPF_MAXINSNS];
	size_t count;
} programs[BOX_SYSCALL_RULES_END_];

static void compile(void)
{
	for (int i = 0; i < BOX_SYSCALL_RULES_END_; i++) {
		static struct box_err err;
		int fd = memfd_create("program", MFD_CLOEXEC);
		if (box_syscall_rules_export((enum box_syscall_rules_process)i, PID, fd, &err) <
			0) {
			TEST_FAIL("%s", err.text);
		}
		ssize_t got = pread(
			fd, programs[i].instructions, sizeof(programs[i].instructions), 0);
		ASSERT(got > 0);
		programs[i].count = (size_t)got / sizeof(struct sock_filter);
		(void)close(fd);
	}
}

static uint32_t verdict(enum box_syscall_rules_process which, const struct seccomp_data *call)
{
	uint32_t action = 0;
	ASSERT(bpf_run(programs[which].instructions, programs[which].count, call, &action));
	return action;
}

static uint32_t answer(
	enum box_syscall_rules_process which, int number, uint64_t a0, uint64_t a1, uint64_t a2)
{
	struct seccomp_data call = {
		.nr = number, .arch = seccomp_arch_native(), .args = {a0, a1, a2}};
	return verdict(which, &call);
}

#define ALLOWED SECCOMP_RET_ALLOW
#define FAILS(errnum) (SECCOMP_RET_ERRNO | (errnum))

/* Calls that are allowed for any arguments, found by the program and not by the table. Arguments
 * that could matter are those in the table. */
static size_t count_allowed(enum box_syscall_rules_process which)
{
	size_t count = 0;
	for (int number = 0; number < NUMBERS; number++) {
		bool allowed = answer(which, number, 0, 0, 0) == ALLOWED;
		for (const struct box_syscall_rules_row *row = box_syscall_rules_tables[which];
			row->name; row++) {
			struct seccomp_data call = {.nr = number, .arch = seccomp_arch_native()};
			if (row->mask != 0) {
				call.args[row->arg] = row->own ? PID : row->value;
			}
			allowed = allowed || verdict(which, &call) == ALLOWED;
		}
		count += allowed;
	}
	return count;
}

TEST(how_many_calls)
{
	compile();
	size_t machine = count_allowed(BOX_SYSCALL_RULES_MICROVM);
	size_t bridge = count_allowed(BOX_SYSCALL_RULES_BRIDGE);
	size_t mount_helper = count_allowed(BOX_SYSCALL_RULES_MOUNT_HELPER);
	(void)fprintf(stderr, "# calls: machine %zu, bridge %zu, mount_helper %zu\n", machine,
		bridge, mount_helper);
	ASSERT(machine > 40 && machine <= CALLS_MAX);
	ASSERT(bridge > 10 && bridge <= 20);
	ASSERT(mount_helper > 10 && mount_helper <= 20);
}

TEST(what_the_machine_may)
{
	compile();
	/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order of reading */
	static const struct {
		int number;
		uint64_t args[3];
		uint32_t answer;
	} table[] = {
		{SYS_ioctl, {9, KVM_RUN, 0}, ALLOWED},
		{SYS_ioctl, {9, KVM_CREATE_VM, 0}, ALLOWED},
		/* The kernel uses the low half only. */
		{SYS_ioctl, {9, KVM_RUN | 1ULL << 40, 0}, ALLOWED},
		{SYS_ioctl, {9, TIOCSTI, 0}, FAILS(EPERM)},
		{SYS_ioctl, {9, TIOCSTI | 1ULL << 40, 0}, FAILS(EPERM)},
		{SYS_ioctl, {9, KVM_SET_GUEST_DEBUG, 0}, FAILS(EPERM)},
		{SYS_ioctl, {9, KVM_CREATE_DEVICE, 0}, FAILS(EPERM)},
		{SYS_socket, {AF_UNIX, SOCK_STREAM, 0}, ALLOWED},
		{SYS_socket, {AF_INET, SOCK_STREAM, 0}, FAILS(EPERM)},
		{SYS_socket, {AF_INET6, SOCK_STREAM, 0}, FAILS(EPERM)},
		{SYS_socket, {AF_NETLINK, SOCK_RAW, 0}, FAILS(EPERM)},
		{SYS_socket, {AF_VSOCK, SOCK_STREAM, 0}, FAILS(EPERM)},
		{SYS_clone, {CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, 0, 0}, ALLOWED},
		{SYS_clone, {SIGCHLD, 0, 0}, FAILS(EPERM)},
		{SYS_clone, {CLONE_VM | SIGCHLD, 0, 0}, FAILS(EPERM)},
		{SYS_clone, {CLONE_VM | CLONE_THREAD | CLONE_NEWUSER, 0, 0}, FAILS(EPERM)},
		{SYS_clone3, {0, 0, 0}, FAILS(ENOSYS)},
		{SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE}, ALLOWED},
		{SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC}, FAILS(EPERM)},
		{SYS_mprotect, {0, 4096, PROT_READ | PROT_WRITE}, ALLOWED},
		{SYS_mprotect, {0, 4096, PROT_EXEC}, FAILS(EPERM)},
		{SYS_tgkill, {PID, 5, 34}, ALLOWED},
		{SYS_tgkill, {1, 1, 9}, FAILS(EPERM)},
		{SYS_fcntl, {5, F_GETFL, 0}, ALLOWED},
		{SYS_fcntl, {5, F_SETOWN, 1}, FAILS(EPERM)},
		{SYS_getxattr, {0, 0, 0}, FAILS(EPERM)},
		{SYS_fgetxattr, {0, 0, 0}, FAILS(ENOSYS)},
		{SYS_lsetxattr, {0, 0, 0}, FAILS(ENOSYS)},
		{SYS_copy_file_range, {0, 0, 0}, FAILS(ENOSYS)},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		uint32_t got = answer(BOX_SYSCALL_RULES_MICROVM, table[i].number, table[i].args[0],
			table[i].args[1], table[i].args[2]);
		if (got != table[i].answer) {
			TEST_FAIL("row %zu: %#x, not %#x", i, got, table[i].answer);
		}
	}
}

/* Modes of files that a guest creates or changes in a host folder. */
TEST(what_modes_the_machine_may_give)
{
	compile();
	/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order of reading */
	static const struct {
		int number;
		uint64_t args[4];
		uint32_t answer;
	} table[] = {
		{SYS_fchmod, {5, 0755}, ALLOWED},
		{SYS_fchmod, {5, S_IFDIR | 01777}, ALLOWED},
		{SYS_fchmod, {5, 04755}, FAILS(EPERM)},
		{SYS_fchmod, {5, 02755}, FAILS(EPERM)},
		{SYS_fchmodat, {5, 0, S_IFREG | 0644}, ALLOWED},
		{SYS_fchmodat, {5, 0, S_IFREG | 06644}, FAILS(EPERM)},
		{SYS_mknodat, {5, 0, S_IFREG | 0644}, ALLOWED},
		{SYS_mknodat, {5, 0, S_IFIFO | 0600}, ALLOWED},
		{SYS_mknodat, {5, 0, S_IFREG | 04755}, FAILS(EPERM)},
		{SYS_openat, {5, 0, O_RDWR | O_CREAT | O_EXCL, 0755}, ALLOWED},
		{SYS_openat, {5, 0, O_RDWR | O_CREAT | O_EXCL, 04755}, FAILS(EPERM)},
		{SYS_openat, {5, 0, O_WRONLY | O_CREAT, 02755}, FAILS(EPERM)},
		{SYS_openat, {5, 0, O_WRONLY | O_TMPFILE, 04755}, FAILS(EPERM)},
		/* Opening without O_CREAT has no mode. */
		{SYS_openat, {5, 0, O_RDONLY | O_DIRECTORY, 0xffff}, ALLOWED},
		/* The kernel ignores both bits for a folder. */
		{SYS_mkdirat, {5, 0, 06755}, ALLOWED},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		struct seccomp_data call = {.nr = table[i].number, .arch = seccomp_arch_native()};
		memcpy(call.args, table[i].args, sizeof(table[i].args));
		uint32_t got = verdict(BOX_SYSCALL_RULES_MICROVM, &call);
		if (got != table[i].answer) {
			TEST_FAIL("row %zu: %#x, not %#x", i, got, table[i].answer);
		}
	}
}

/* Calls that none of the three may make. */
TEST(what_nobody_may)
{
	compile();
	static const int numbers[] = {SYS_execve, SYS_execveat, SYS_ptrace, SYS_process_vm_readv,
		SYS_process_vm_writev, SYS_kill, SYS_tkill, SYS_rt_sigqueueinfo, SYS_unshare,
		SYS_setns, SYS_mount, SYS_open_tree, SYS_fsopen, SYS_fsmount, SYS_pivot_root,
		SYS_chroot, SYS_setuid, SYS_setresuid, SYS_setgid, SYS_capset, SYS_prctl,
		SYS_seccomp, SYS_bpf, SYS_io_uring_setup, SYS_perf_event_open, SYS_userfaultfd,
		SYS_keyctl, SYS_add_key, SYS_bind, SYS_listen, SYS_accept, SYS_socketpair,
		SYS_memfd_create, SYS_pidfd_open, SYS_pidfd_getfd, SYS_name_to_handle_at,
		SYS_open_by_handle_at, SYS_fanotify_init, SYS_inotify_init1, SYS_personality,
		SYS_reboot, SYS_init_module, SYS_kexec_load, SYS_swapon, SYS_acct, SYS_quotactl,
		SYS_settimeofday, SYS_clock_settime, SYS_sethostname, SYS_process_madvise,
		SYS_mq_open, SYS_shmget, SYS_msgget, SYS_prlimit64, SYS_setrlimit,
		SYS_landlock_restrict_self, SYS_sched_setscheduler, SYS_setpriority, SYS_fork,
		SYS_vfork};
	for (int which = 0; which < BOX_SYSCALL_RULES_END_; which++) {
		for (size_t i = 0; i < COUNT(numbers); i++) {
			if (answer((enum box_syscall_rules_process)which, numbers[i], 0, 0, 0) !=
				FAILS(EPERM)) {
				TEST_FAIL("call %d of table %d", numbers[i], which);
			}
		}
	}
	ASSERT_INT(answer(BOX_SYSCALL_RULES_MICROVM, SYS_move_mount, 0, 0, 0), FAILS(EPERM));
	ASSERT_INT(answer(BOX_SYSCALL_RULES_BRIDGE, SYS_move_mount, 0, 0, 0), FAILS(EPERM));
	ASSERT_INT(answer(BOX_SYSCALL_RULES_BRIDGE, SYS_openat, 0, 0, 0), FAILS(EPERM));
	ASSERT_INT(answer(BOX_SYSCALL_RULES_BRIDGE, SYS_ioctl, 0, KVM_RUN, 0), FAILS(EPERM));
	ASSERT_INT(answer(BOX_SYSCALL_RULES_MOUNT_HELPER, SYS_socket, AF_UNIX, SOCK_STREAM, 0),
		FAILS(EPERM));
	ASSERT_INT(answer(BOX_SYSCALL_RULES_MOUNT_HELPER, SYS_read, 0, 0, 0), FAILS(EPERM));
}

TEST(other_machines_calls)
{
	compile();
	for (int which = 0; which < BOX_SYSCALL_RULES_END_; which++) {
		struct seccomp_data foreign = {.nr = SYS_read, .arch = SCMP_ARCH_X86};
		ASSERT_INT(verdict((enum box_syscall_rules_process)which, &foreign),
			SECCOMP_RET_KILL_PROCESS);
#ifdef __x86_64__
		struct seccomp_data x32 = {
			.nr = SYS_close | 0x40000000, .arch = seccomp_arch_native()};
		ASSERT(verdict((enum box_syscall_rules_process)which, &x32) != ALLOWED);
#endif
	}
}
