/* What each call is answered in a box. A call without a row is unknown: ENOSYS.
 *
 * EPERM is for what a box must not do. ENOSYS is for what it can do without: programs then take the
 * older way, as they would on an older kernel. PID 1 of the box lives behind the same program, so
 * what box-init needs is answered in both profiles.
 */
#include "runtime/plan/filter_table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <sys/stat.h>

#ifndef TCP_ULP
#define TCP_ULP 31
#endif

#define WORD UINT32_MAX
#define COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))
#define ONLY(list, error)                                                   \
	{                                                                   \
		.cases = (list), .count = COUNT(list), .otherwise = (error) \
	}
#define EXCEPT(list, error)                                               \
	{                                                                 \
		.cases = (list), .count = COUNT(list), .matched = (error) \
	}

static const struct box_filter_rule answer = {.otherwise = 0};
static const struct box_filter_rule refuse = {.otherwise = EPERM};
static const struct box_filter_rule absent = {.otherwise = ENOSYS};
/* As on a file system that has none: Python copies files only where that or nothing is said. */
static const struct box_filter_rule without = {.otherwise = EOPNOTSUPP};

/* CLONE_NEWTIME is not here: in clone its bit belongs to the signal number. */
#define NAMESPACES                                                                     \
	(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | \
		CLONE_NEWPID | CLONE_NEWNET)
static const struct box_filter_case clone_cases[] = {{{{0, NAMESPACES, 0}}}};
static const struct box_filter_rule clone_rule = ONLY(clone_cases, EPERM);

/* Of the Internet protocols TCP and UDP only: others would load their modules into the host.
 * Netlink is for reading routes and addresses (getifaddrs, which Node and Java call); to the kernel
 * its raw sockets, which libc asks for, are the same as its datagram ones. */
#define TYPE (WORD & ~(uint32_t)(SOCK_CLOEXEC | SOCK_NONBLOCK))
#define SOCKET(family, type, protocol)                          \
	{                                                       \
		{                                               \
			{0, WORD, (family)}, {1, TYPE, (type)}, \
			{                                       \
				2, WORD, (protocol)             \
			}                                       \
		}                                               \
	}
#define INTERNET(family)                                                          \
	SOCKET(family, SOCK_STREAM, 0), SOCKET(family, SOCK_STREAM, IPPROTO_TCP), \
		SOCKET(family, SOCK_DGRAM, 0), SOCKET(family, SOCK_DGRAM, IPPROTO_UDP)
#define LOCAL                                                  \
	{{{0, WORD, AF_UNIX}, {1, TYPE, SOCK_STREAM}}},        \
		{{{0, WORD, AF_UNIX}, {1, TYPE, SOCK_DGRAM}}}, \
	{                                                      \
		{                                              \
			{0, WORD, AF_UNIX},                    \
			{                                      \
				1, TYPE, SOCK_SEQPACKET        \
			}                                      \
		}                                              \
	}
static const struct box_filter_case socket_cases[] = {LOCAL, INTERNET(AF_INET), INTERNET(AF_INET6),
	SOCKET(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), SOCKET(AF_NETLINK, SOCK_DGRAM, NETLINK_ROUTE)};
static const struct box_filter_case socket_strict_cases[] = {
	LOCAL, INTERNET(AF_INET), INTERNET(AF_INET6)};
static const struct box_filter_case socketpair_cases[] = {LOCAL};
/* The errno of a kernel without the family, which programs that probe for one expect. */
static const struct box_filter_rule socket_rule = ONLY(socket_cases, EAFNOSUPPORT);
static const struct box_filter_rule socket_strict_rule = ONLY(socket_strict_cases, EAFNOSUPPORT);
static const struct box_filter_rule socketpair_rule = ONLY(socketpair_cases, EAFNOSUPPORT);

/* TLS in the kernel and the like. */
static const struct box_filter_case setsockopt_cases[] = {
	{{{1, WORD, IPPROTO_TCP}, {2, WORD, TCP_ULP}}}};
static const struct box_filter_rule setsockopt_rule = EXCEPT(setsockopt_cases, EPERM);

/* Typing into a terminal that others read; TIOCSETD loads line disciplines into the kernel. */
static const struct box_filter_case ioctl_cases[] = {{{{1, WORD, TIOCSTI}}},
	{{{1, WORD, TIOCLINUX}}}, {{{1, WORD, TIOCCONS}}}, {{{1, WORD, TIOCSETD}}}};
static const struct box_filter_rule ioctl_rule = EXCEPT(ioctl_cases, EPERM);

/* A payload owns the files of its host folder: none of them may become one that runs as somebody. A
 * mode counts only when a file may be made; else its register can hold anything. */
#define SET_ID (S_ISUID | S_ISGID)
#define MAKES (O_CREAT | (O_TMPFILE & ~O_DIRECTORY))
static const struct box_filter_case mode_1_cases[] = {{{{1, SET_ID, 0}}}};
static const struct box_filter_case mode_2_cases[] = {{{{2, SET_ID, 0}}}};
static const struct box_filter_case open_cases[] = {{{{1, MAKES, 0}}}, {{{2, SET_ID, 0}}}};
static const struct box_filter_case openat_cases[] = {{{{2, MAKES, 0}}}, {{{3, SET_ID, 0}}}};
static const struct box_filter_rule mode_1_rule = ONLY(mode_1_cases, EPERM);
static const struct box_filter_rule mode_2_rule = ONLY(mode_2_cases, EPERM);
static const struct box_filter_rule open_rule = ONLY(open_cases, EPERM);
static const struct box_filter_rule openat_rule = ONLY(openat_cases, EPERM);

/* Files, pipes and sockets, no devices. */
#define NODE(arg, type)                                        \
	{                                                      \
		{                                              \
			{                                      \
				(arg), S_IFMT | SET_ID, (type) \
			}                                      \
		}                                              \
	}
#define NODES(arg) NODE(arg, 0), NODE(arg, S_IFREG), NODE(arg, S_IFIFO), NODE(arg, S_IFSOCK)
static const struct box_filter_case mknod_cases[] = {NODES(1)};
static const struct box_filter_case mknodat_cases[] = {NODES(2)};
static const struct box_filter_rule mknod_rule = ONLY(mknod_cases, EPERM);
static const struct box_filter_rule mknodat_rule = ONLY(mknodat_cases, EPERM);

/* The names that uname gives, nothing of the memory layout. */
static const struct box_filter_case personality_cases[] = {{{{0, WORD, PER_LINUX}}},
	{{{0, WORD, PER_LINUX32}}}, {{{0, WORD, UNAME26}}}, {{{0, WORD, PER_LINUX32 | UNAME26}}},
	{{{0, WORD, WORD}}}};
static const struct box_filter_rule personality_rule = ONLY(personality_cases, EPERM);

/* Its own limits: those of others of the same id would be theirs to lower, PID 1's too where there
 * is one id for all. */
static const struct box_filter_case prlimit_cases[] = {{{{0, WORD, 0}}}};
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
	BOTH(close), BOTH(close_range), BOTH(dup), BOTH(dup2), BOTH(dup3), BOTH(fcntl), BOTH(flock),
	WHEN(ioctl, ioctl_rule), BOTH(pipe), BOTH(pipe2), BOTH(memfd_create),
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
	BOTH(mmap), BOTH(munmap), BOTH(mprotect), BOTH(mremap), BOTH(madvise), BOTH(brk),
	MORE(msync), MORE(mincore), MORE(mlock), MORE(munlock), MORE(membarrier),
	MORE(shmget), MORE(shmat), MORE(shmdt), MORE(shmctl),
	MORE(semget), MORE(semop), MORE(semtimedop), MORE(semctl),
	/* processes and threads */
	WHEN(clone, clone_rule), LACK(clone3), BOTH(fork), BOTH(vfork), BOTH(execve), MORE(execveat),
	BOTH(exit), BOTH(exit_group), BOTH(wait4), BOTH(waitid), BOTH(getpid), BOTH(getppid),
	BOTH(gettid), BOTH(getpgrp), BOTH(getpgid), BOTH(setpgid), BOTH(getsid), BOTH(setsid),
	BOTH(set_tid_address), BOTH(set_robust_list), BOTH(futex),
	ROW(futex_waitv, 449, answer, absent), BOTH(rseq), BOTH(arch_prctl), BOTH(prctl),
	MORE(seccomp), MORE(landlock_create_ruleset), MORE(landlock_add_rule),
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
	BOTH(getpeername), BOTH(shutdown), BOTH(getsockopt), WHEN(setsockopt, setsockopt_rule),
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
	/* where memory lies */
	DENY(mbind), DENY(set_mempolicy), DENY(get_mempolicy), DENY(migrate_pages), DENY(move_pages),
	ROW(set_mempolicy_home_node, 450, refuse, refuse), DENY(mlockall), DENY(munlockall),
	/* what the rest of the host has in its page cache */
	ROW(cachestat, 451, refuse, refuse),

	/* work behind the filter's back, and what has an older way */
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

const size_t box_filter_rows_count = COUNT(box_filter_rows);
