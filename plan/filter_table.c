/* The answer to each system call in a box. A call without a row is unknown: ENOSYS.
 *
 * EPERM is for what a box must not do. ENOSYS is for what programs can do without: they fall back to an
 * older call, as on an older kernel. PID 1 of the box has the same filter, so both profiles allow what
 * box-init needs.
 */
#include "plan/filter_table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/memfd.h>
#include <linux/mount.h>
#include <linux/netlink.h>
#include <linux/seccomp.h>
#include <linux/shm.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "plan/filter_options.h"

#define WORD UINT32_MAX
#define ONLY(list, error)                           \
	{                                           \
		(list), BOX_COUNT_OF(list), (error) \
	}
#define ONE_OF(number, bits, numbers)                                 \
	{                                                             \
		.arg = (number), .mask = (bits), .values = (numbers), \
		.count = BOX_COUNT_OF(numbers)                        \
	}
/* None of `bits` is set in an argument. */
#define WITHOUT(number, bits)                    \
	{                                        \
		.all = { {(number), (bits), 0} } \
	}

static const struct box_filter_rule answer = {.otherwise = 0};
static const struct box_filter_rule refuse = {.otherwise = EPERM};
static const struct box_filter_rule absent = {.otherwise = ENOSYS};
/* As on a kernel without seccomp: man and similar programs then do without. Each filter uses memory
 * that is limited for the whole host, including its own filters and those of other boxes. */
static const struct box_filter_rule no_filters = {.otherwise = EINVAL};
/* As on a file system without support: Python falls back to another way of copying only for such an
 * errno. */
static const struct box_filter_rule without = {.otherwise = EOPNOTSUPP};

/* CLONE_NEWTIME is missing: in clone its bit belongs to the signal number. */
#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)
static const struct box_filter_case clone_cases[] = {WITHOUT(0, NAMESPACES)};
static const struct box_filter_rule clone_rule = ONLY(clone_cases, EPERM);

/* Only TCP and UDP of the Internet protocols: others would load their modules into the host. One mask
 * covers both families, which differ in one bit.
 *
 * Netlink is for reading routes and addresses (getifaddrs, which Node and Go call); the kernel treats
 * raw netlink sockets, which libc opens, like datagram ones. Data queued in them is charged to no
 * cgroup, so a box without a network, which has nothing to read, may not have them. */
#define TYPE (WORD & ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK))
#define INTERNET (WORD & ~(uint32_t)(AF_INET ^ AF_INET6))
_Static_assert((AF_INET & INTERNET) == AF_INET && (AF_INET6 & INTERNET) == AF_INET,
	"the families differ in one bit");
static const uint32_t local_types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};
static const uint32_t stream_protocols[] = {0, IPPROTO_TCP};
static const uint32_t datagram_protocols[] = {0, IPPROTO_UDP};
static const uint32_t netlink_types[] = {SOCK_RAW, SOCK_DGRAM};
#define LOCAL                                                                     \
	{                                                                         \
		.all = {{0, WORD, AF_UNIX}}, .list = ONE_OF(1, TYPE, local_types) \
	}
#define STREAMS                                                          \
	{                                                                \
		.all = {{0, INTERNET, AF_INET}, {1, TYPE, SOCK_STREAM}}, \
		.list = ONE_OF(2, WORD, stream_protocols)                \
	}
#define DATAGRAMS                                                       \
	{                                                               \
		.all = {{0, INTERNET, AF_INET}, {1, TYPE, SOCK_DGRAM}}, \
		.list = ONE_OF(2, WORD, datagram_protocols)             \
	}
static const struct box_filter_case socket_cases[] = {LOCAL, STREAMS, DATAGRAMS,
	{.all = {{0, WORD, AF_NETLINK}, {2, WORD, NETLINK_ROUTE}},
		.list = ONE_OF(1, TYPE, netlink_types),
		.network = true}};
static const struct box_filter_case socket_strict_cases[] = {LOCAL, STREAMS, DATAGRAMS};
static const struct box_filter_case socketpair_cases[] = {LOCAL};
/* The errno of a kernel without the family, which programs that probe for it expect. */
static const struct box_filter_rule socket_rule = ONLY(socket_cases, EAFNOSUPPORT);
static const struct box_filter_rule socket_strict_rule = ONLY(socket_strict_cases, EAFNOSUPPORT);
static const struct box_filter_rule socketpair_rule = ONLY(socketpair_cases, EAFNOSUPPORT);

/* Huge pages come from a pool of the host's that the box's memory limit does not cover. The errnos are
 * those of an empty pool and of a kernel without huge pages: programs fall back to ordinary pages. */
static const struct box_filter_case mmap_cases[] = {WITHOUT(3, MAP_HUGETLB)};
static const struct box_filter_case memfd_cases[] = {WITHOUT(1, MFD_HUGETLB)};
static const struct box_filter_case shmget_cases[] = {WITHOUT(2, SHM_HUGETLB)};
static const struct box_filter_rule mmap_rule = ONLY(mmap_cases, ENOMEM);
static const struct box_filter_rule memfd_rule = ONLY(memfd_cases, EINVAL);
static const struct box_filter_rule shmget_rule = ONLY(shmget_cases, ENOMEM);

/* Files in a host folder belong to the payload: none of them may become setuid or setgid. The mode is
 * an argument only if the call may create a file; otherwise the register can contain anything. */
#define SET_ID (S_ISUID | S_ISGID)
#define MAKES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
static const struct box_filter_case mode_1_cases[] = {WITHOUT(1, SET_ID)};
static const struct box_filter_case mode_2_cases[] = {WITHOUT(2, SET_ID)};
static const struct box_filter_case open_cases[] = {WITHOUT(1, MAKES), WITHOUT(2, SET_ID)};
static const struct box_filter_case openat_cases[] = {WITHOUT(2, MAKES), WITHOUT(3, SET_ID)};
static const struct box_filter_rule mode_1_rule = ONLY(mode_1_cases, EPERM);
static const struct box_filter_rule mode_2_rule = ONLY(mode_2_cases, EPERM);
static const struct box_filter_rule open_rule = ONLY(open_cases, EPERM);
static const struct box_filter_rule openat_rule = ONLY(openat_cases, EPERM);

/* Files, pipes and sockets, but no devices. */
static const uint32_t nodes[] = {0, S_IFREG, S_IFIFO, S_IFSOCK};
static const struct box_filter_case mknod_cases[] = {{.list = ONE_OF(1, S_IFMT | SET_ID, nodes)}};
static const struct box_filter_case mknodat_cases[] = {{.list = ONE_OF(2, S_IFMT | SET_ID, nodes)}};
static const struct box_filter_rule mknod_rule = ONLY(mknod_cases, EPERM);
static const struct box_filter_rule mknodat_rule = ONLY(mknodat_cases, EPERM);

/* PER_LINUX and PER_LINUX32, which change what uname returns; no flags for the memory layout. */
static const uint32_t personalities[] = {
	PER_LINUX, PER_LINUX32, UNAME26, PER_LINUX32 | UNAME26, WORD};
static const struct box_filter_case personality_cases[] = {
	{.list = ONE_OF(0, WORD, personalities)}};
static const struct box_filter_rule personality_rule = ONLY(personality_cases, EPERM);

/* Its own limits only: a command could lower those of other processes with the same id, including PID
 * 1's if there is only one id. */
static const struct box_filter_case prlimit_cases[] = {WITHOUT(0, WORD)};
static const struct box_filter_rule prlimit_rule = ONLY(prlimit_cases, EPERM);

#define ROW(name, number, wide, strict)    \
	{                                  \
#name, number,             \
		{                          \
			&(wide), &(strict) \
		}                          \
	}
#define BOTH(name) ROW(name, 0, answer, answer)
#define MORE(name) ROW(name, 0, answer, absent) /* in default only */
#define XATTR(name) ROW(name, 0, answer, without)
#define WHEN(name, rule) ROW(name, 0, rule, rule)
#define DENY(name) ROW(name, 0, refuse, refuse)
#define LACK(name) ROW(name, 0, absent, absent)

/* clang-format off */
const struct box_filter_row box_filter_rows[] = {
	/* bytes */
	BOTH(read), BOTH(write), BOTH(readv), BOTH(writev), BOTH(pread64), BOTH(pwrite64),
	MORE(preadv), MORE(pwritev), BOTH(lseek), MORE(sendfile), MORE(copy_file_range),
	MORE(splice), MORE(tee), MORE(vmsplice), BOTH(fsync), BOTH(fdatasync),
	MORE(sync_file_range), BOTH(fadvise64), BOTH(fallocate), BOTH(truncate), BOTH(ftruncate),
	/* fds */
	WHEN(open, open_rule), WHEN(openat, openat_rule), WHEN(creat, mode_1_rule), LACK(openat2),
	BOTH(close), BOTH(close_range), BOTH(dup), BOTH(dup2), BOTH(dup3), WHEN(fcntl, box_filter_fcntl),
	BOTH(flock), WHEN(ioctl, box_filter_ioctl), BOTH(pipe), BOTH(pipe2),
	WHEN(memfd_create, memfd_rule),
	/* names */
	BOTH(stat), BOTH(lstat), BOTH(fstat), BOTH(newfstatat), BOTH(statx), BOTH(statfs),
	BOTH(fstatfs), BOTH(access), BOTH(faccessat), BOTH(faccessat2), MORE(getdents),
	BOTH(getdents64), BOTH(getcwd), BOTH(chdir), BOTH(fchdir), BOTH(mkdir), BOTH(mkdirat),
	BOTH(rmdir), BOTH(unlink), BOTH(unlinkat), BOTH(rename), MORE(renameat), BOTH(renameat2),
	BOTH(link), BOTH(linkat), BOTH(symlink), BOTH(symlinkat), BOTH(readlink), BOTH(readlinkat),
	WHEN(chmod, mode_1_rule), WHEN(fchmod, mode_1_rule), WHEN(fchmodat, mode_2_rule),
	ROW(fchmodat2, 452, mode_2_rule, mode_2_rule), ROW(chown, 0, answer, refuse),
	ROW(fchown, 0, answer, refuse), ROW(lchown, 0, answer, refuse),
	ROW(fchownat, 0, answer, refuse), BOTH(umask), MORE(utime), MORE(utimes), BOTH(utimensat),
	ROW(mknod, 0, mknod_rule, absent), WHEN(mknodat, mknodat_rule),
	XATTR(setxattr), XATTR(lsetxattr), XATTR(fsetxattr), XATTR(getxattr), XATTR(lgetxattr),
	XATTR(fgetxattr), XATTR(listxattr), XATTR(llistxattr), XATTR(flistxattr), XATTR(removexattr),
	XATTR(lremovexattr), XATTR(fremovexattr),
	MORE(inotify_init), MORE(inotify_init1), MORE(inotify_add_watch), MORE(inotify_rm_watch),
	/* memory */
	WHEN(mmap, mmap_rule), BOTH(munmap), BOTH(mprotect), BOTH(mremap), BOTH(madvise), BOTH(brk),
	MORE(msync), MORE(mincore), MORE(mlock), MORE(munlock), MORE(membarrier),
	ROW(shmget, 0, shmget_rule, absent), MORE(shmat), MORE(shmdt), MORE(shmctl),
	MORE(semget), MORE(semop), MORE(semtimedop), MORE(semctl),
	/* processes and threads */
	WHEN(clone, clone_rule), LACK(clone3), BOTH(fork), BOTH(vfork), BOTH(execve), MORE(execveat),
	BOTH(exit), BOTH(exit_group), BOTH(wait4), BOTH(waitid), BOTH(getpid), BOTH(getppid),
	BOTH(gettid), BOTH(getpgrp), BOTH(getpgid), BOTH(setpgid), BOTH(getsid), BOTH(setsid),
	BOTH(set_tid_address), BOTH(set_robust_list), BOTH(futex),
	ROW(futex_waitv, 449, answer, absent), BOTH(rseq), BOTH(arch_prctl),
	WHEN(prctl, box_filter_prctl), WHEN(seccomp, no_filters),
	MORE(landlock_create_ruleset), MORE(landlock_add_rule),
	MORE(landlock_restrict_self), MORE(pidfd_open), MORE(pidfd_send_signal),
	ROW(personality, 0, personality_rule, absent), BOTH(restart_syscall),
	MORE(getrlimit), MORE(setrlimit), WHEN(prlimit64, prlimit_rule), BOTH(getrusage), BOTH(times),
	BOTH(uname), BOTH(sysinfo), BOTH(getrandom), MORE(getcpu),
	BOTH(sched_yield), BOTH(sched_getaffinity), MORE(sched_setaffinity), MORE(sched_getparam),
	MORE(sched_getscheduler), MORE(sched_setscheduler), MORE(sched_get_priority_max),
	MORE(sched_get_priority_min), BOTH(getpriority), BOTH(setpriority),
	/* ids */
	BOTH(getuid), BOTH(geteuid), BOTH(getgid), BOTH(getegid), BOTH(getresuid), BOTH(getresgid),
	BOTH(getgroups), BOTH(setgroups), BOTH(setresuid), BOTH(setresgid), MORE(setuid),
	MORE(setgid), BOTH(capget), BOTH(capset),
	/* signals */
	BOTH(rt_sigaction), BOTH(rt_sigprocmask), BOTH(rt_sigreturn), BOTH(rt_sigsuspend),
	MORE(rt_sigpending), BOTH(rt_sigtimedwait), MORE(rt_sigqueueinfo), BOTH(sigaltstack),
	BOTH(kill), MORE(tkill), BOTH(tgkill), BOTH(pause), BOTH(signalfd4),
	/* waiting and time */
	BOTH(poll), BOTH(ppoll), BOTH(select), BOTH(pselect6), MORE(epoll_create),
	BOTH(epoll_create1), BOTH(epoll_ctl), BOTH(epoll_wait), BOTH(epoll_pwait),
	MORE(epoll_pwait2), BOTH(eventfd2), BOTH(nanosleep), BOTH(clock_nanosleep),
	BOTH(clock_gettime), BOTH(clock_getres), BOTH(gettimeofday), MORE(time), BOTH(alarm),
	MORE(getitimer), BOTH(setitimer), BOTH(timerfd_create), BOTH(timerfd_settime),
	MORE(timerfd_gettime), MORE(timer_create), MORE(timer_settime), MORE(timer_gettime),
	MORE(timer_getoverrun), MORE(timer_delete),
	/* sockets */
	ROW(socket, 0, socket_rule, socket_strict_rule), WHEN(socketpair, socketpair_rule),
	BOTH(connect), BOTH(bind), BOTH(listen), BOTH(accept), BOTH(accept4), BOTH(getsockname),
	BOTH(getpeername), BOTH(shutdown), BOTH(getsockopt),
	ROW(setsockopt, 0, box_filter_setsockopt, box_filter_setsockopt_strict),
	BOTH(sendto), BOTH(recvfrom), BOTH(sendmsg), BOTH(recvmsg), BOTH(sendmmsg), MORE(recvmmsg),

	/* other processes, and what the kernel tells of itself */
	DENY(ptrace), DENY(process_vm_readv), DENY(process_vm_writev), DENY(pidfd_getfd), DENY(kcmp),
	DENY(bpf), DENY(perf_event_open), DENY(userfaultfd), DENY(syslog), DENY(lookup_dcookie),
	DENY(process_madvise), DENY(process_mrelease),
	/* keys */
	DENY(keyctl), DENY(add_key), DENY(request_key),
	/* mounts and roots */
	DENY(mount), DENY(umount2), DENY(pivot_root), DENY(chroot), DENY(fsopen), DENY(fsconfig),
	DENY(fsmount), DENY(fspick), DENY(open_tree), DENY(move_mount), DENY(mount_setattr),
	ROW(statmount, 457, refuse, refuse), ROW(listmount, 458, refuse, refuse),
	ROW(open_tree_attr, 467, refuse, refuse), DENY(open_by_handle_at), DENY(name_to_handle_at),
	DENY(fanotify_init), DENY(fanotify_mark), DENY(quotactl), DENY(quotactl_fd), DENY(ustat),
	DENY(sysfs), DENY(nfsservctl),
	/* namespaces and names of the host */
	DENY(unshare), DENY(setns), ROW(listns, 470, refuse, refuse), DENY(sethostname),
	DENY(setdomainname),
	/* the machine */
	DENY(kexec_load), DENY(kexec_file_load), DENY(init_module), DENY(finit_module),
	DENY(delete_module), DENY(create_module), DENY(query_module), DENY(get_kernel_syms),
	DENY(swapon), DENY(swapoff), DENY(acct), DENY(iopl), DENY(ioperm), DENY(reboot),
	DENY(vhangup), DENY(uselib), DENY(_sysctl), DENY(modify_ldt), DENY(settimeofday),
	DENY(clock_settime), DENY(clock_adjtime), DENY(adjtimex),
	/* every file system of the host at once, or a whole one */
	DENY(sync), DENY(syncfs),
	/* NUMA placement, and locking all memory */
	DENY(mbind), DENY(set_mempolicy), DENY(get_mempolicy), DENY(migrate_pages), DENY(move_pages),
	ROW(set_mempolicy_home_node, 450, refuse, refuse), DENY(mlockall), DENY(munlockall),
	/* what the rest of the host has in its page cache */
	ROW(cachestat, 451, refuse, refuse),

	/* would bypass the filter, or has an older alternative */
	LACK(io_uring_setup), LACK(io_uring_enter), LACK(io_uring_register),
	LACK(io_setup), LACK(io_destroy), LACK(io_submit), LACK(io_cancel), LACK(io_getevents),
	LACK(io_pgetevents), LACK(memfd_secret), LACK(remap_file_pages), LACK(readahead),
	LACK(preadv2), LACK(pwritev2), LACK(mlock2), LACK(pkey_alloc), LACK(pkey_free),
	LACK(pkey_mprotect), LACK(signalfd), LACK(eventfd), LACK(futimesat), LACK(get_robust_list),
	LACK(setreuid), LACK(setregid), LACK(setfsuid), LACK(setfsgid), LACK(rt_tgsigqueueinfo),
	LACK(sched_setparam), LACK(sched_setattr), LACK(sched_getattr), LACK(sched_rr_get_interval),
	LACK(ioprio_get), LACK(ioprio_set), LACK(msgget), LACK(msgsnd), LACK(msgrcv), LACK(msgctl),
	LACK(mq_open), LACK(mq_unlink), LACK(mq_timedsend), LACK(mq_timedreceive), LACK(mq_notify),
	LACK(mq_getsetattr), ROW(map_shadow_stack, 453, absent, absent),
	ROW(futex_wake, 454, absent, absent), ROW(futex_wait, 455, absent, absent),
	ROW(futex_requeue, 456, absent, absent), ROW(lsm_get_self_attr, 459, absent, absent),
	ROW(lsm_set_self_attr, 460, absent, absent), ROW(lsm_list_modules, 461, absent, absent),
	ROW(mseal, 462, absent, absent), ROW(setxattrat, 463, absent, absent),
	ROW(getxattrat, 464, absent, absent), ROW(listxattrat, 465, absent, absent),
	ROW(removexattrat, 466, absent, absent), ROW(file_getattr, 468, absent, absent),
	ROW(file_setattr, 469, absent, absent),
};
/* clang-format on */

const size_t box_filter_rows_count = BOX_COUNT_OF(box_filter_rows);

/* The mounter, and its children until they become commands: a mount namespace, from which nothing
 * propagates; mounts by fd; folders made with the commands' file system ids; the command's Landlock
 * domain and filter. */
static const struct box_filter_case unshare_cases[] = {{.all = {{0, WORD, CLONE_NEWNS}}}};
static const struct box_filter_case mount_cases[] = {{.all = {{3, WORD, MS_REC | MS_PRIVATE}}}};
static const struct box_filter_case move_mount_cases[] = {
	{.all = {{4, WORD, MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH}}}};
static const struct box_filter_case seccomp_cases[] = {
	{.all = {{0, WORD, SECCOMP_SET_MODE_FILTER}, {1, WORD, 0}}}};
static const struct box_filter_rule unshare_rule = ONLY(unshare_cases, EPERM);
static const struct box_filter_rule mount_rule = ONLY(mount_cases, EPERM);
static const struct box_filter_rule move_mount_rule = ONLY(move_mount_cases, EPERM);
static const struct box_filter_rule seccomp_rule = ONLY(seccomp_cases, EINVAL);

const struct box_filter_row box_filter_mounter_rows[] = {
	WHEN(unshare, unshare_rule),
	WHEN(mount, mount_rule),
	WHEN(move_mount, move_mount_rule),
	WHEN(seccomp, seccomp_rule),
	BOTH(setfsuid),
	BOTH(setfsgid),
	BOTH(landlock_create_ruleset),
	BOTH(landlock_add_rule),
	BOTH(landlock_restrict_self),
};
const size_t box_filter_mounter_rows_count = BOX_COUNT_OF(box_filter_mounter_rows);
