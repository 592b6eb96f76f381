/* What a box must and must not be answered, by name and argument, for test_filter.c.
 *
 * Written beside the rows of filter_table.c, not made from them.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define WORD 0xffffffffULL
#define HIGH 0xabcdef0100000000ULL

static const char *const everywhere[] = {"read", "write", "close", "wait4", "waitid", "kill",
	"execve", "setresuid", "setresgid", "setgroups", "capset", "prctl", "epoll_create1",
	"epoll_ctl", "epoll_pwait", "ppoll", "signalfd4", "pipe2", "recvmsg", "sendmsg", "recvfrom",
	"sendto", "memfd_create", "mmap", "munmap", "mprotect", "close_range", "dup2", "dup3",
	"setsid", "chdir", "fchdir", "mkdirat", "getcwd", "fcntl", "timerfd_create",
	"timerfd_settime", "exit", "exit_group", "rt_sigreturn", "rt_sigaction", "rt_sigprocmask",
	"restart_syscall", "sendmmsg", "umask", "getrandom", "vfork", "futex", "set_tid_address",
	"arch_prctl", "rseq", "brk", "fstat", "newfstatat", "statx", "getdents64", "connect",
	"bind", "listen", "accept4", "renameat2", "unlinkat", "linkat", "clock_gettime",
	"getpriority", "setpriority"};
static const char *const default_only[] = {"copy_file_range", "sendfile", "splice", "tee",
	"vmsplice", "execveat", "pidfd_open", "pidfd_send_signal", "membarrier", "futex_waitv",
	"inotify_init1", "inotify_add_watch", "epoll_pwait2", "seccomp", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self", "shmget", "sched_setaffinity", "mincore"};
static const char *const refused[] = {"ptrace", "process_vm_readv", "process_vm_writev",
	"pidfd_getfd", "kcmp", "bpf", "perf_event_open", "userfaultfd", "syslog", "lookup_dcookie",
	"keyctl", "add_key", "request_key", "open_by_handle_at", "name_to_handle_at", "kexec_load",
	"kexec_file_load", "init_module", "finit_module", "delete_module", "swapon", "swapoff",
	"quotactl", "quotactl_fd", "acct", "iopl", "ioperm", "reboot", "settimeofday",
	"clock_settime", "clock_adjtime", "adjtimex", "fanotify_init", "fanotify_mark", "mbind",
	"set_mempolicy", "get_mempolicy", "migrate_pages", "move_pages", "mount", "umount2",
	"pivot_root", "chroot", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
	"move_mount", "mount_setattr", "statmount", "listmount", "open_tree_attr", "setns",
	"unshare", "vhangup", "nfsservctl", "uselib", "ustat", "sysfs", "_sysctl", "sethostname",
	"setdomainname", "modify_ldt", "cachestat", "process_madvise", "process_mrelease", "listns",
	"set_mempolicy_home_node", "sync", "syncfs"};
static const char *const unknown[] = {"io_uring_setup", "io_uring_enter", "io_uring_register",
	"clone3", "openat2", "io_submit", "memfd_secret", "mseal", "futex_wake", "futex_wait",
	"futex_requeue", "map_shadow_stack", "lsm_get_self_attr", "setxattrat", "file_setattr"};

/* One verdict for both profiles, except where `strict` differs. */
struct probe {
	const char *name;
	uint64_t args[4];
	int expected;
	int strict;
};

#define SAME(call, verdict, ...)                      \
	{                                             \
		call, {__VA_ARGS__}, verdict, verdict \
	}
#define DIFFER(call, verdict, other, ...)           \
	{                                           \
		call, {__VA_ARGS__}, verdict, other \
	}
#define AT ((uint64_t)AT_FDCWD)
#define NO_FAMILY EAFNOSUPPORT

static const struct probe process_probes[] = {
	SAME("clone", 0, SIGCHLD), SAME("clone", 0, CLONE_VM | CLONE_VFORK | SIGCHLD),
	SAME("clone", 0, 0x3d0f00),       /* pthread_create */
	SAME("clone", 0, 0x1200011),      /* fork */
	SAME("clone", 0, 0x80 | SIGCHLD), /* CLONE_NEWTIME is part of the signal here */
	SAME("clone", 0, CLONE_UNTRACED | 0xff), SAME("clone", 0, HIGH | SIGCHLD),
	SAME("clone", EPERM, CLONE_NEWNS | SIGCHLD), SAME("clone", EPERM, CLONE_NEWCGROUP),
	SAME("clone", EPERM, CLONE_NEWUTS), SAME("clone", EPERM, CLONE_NEWIPC),
	SAME("clone", EPERM, CLONE_NEWUSER), SAME("clone", EPERM, CLONE_NEWPID),
	SAME("clone", EPERM, CLONE_NEWNET),
	SAME("clone", EPERM, HIGH | CLONE_NEWUSER | CLONE_VM | SIGCHLD),
	SAME("clone", EPERM, UINT64_MAX), DIFFER("personality", 0, ENOSYS, 0),
	DIFFER("personality", 0, ENOSYS, 8), DIFFER("personality", 0, ENOSYS, 0x20000),
	DIFFER("personality", 0, ENOSYS, 0x20008), DIFFER("personality", 0, ENOSYS, WORD),
	DIFFER("personality", 0, ENOSYS, UINT64_MAX),
	DIFFER("personality", EPERM, ENOSYS, 0x40000),  /* ADDR_NO_RANDOMIZE */
	DIFFER("personality", EPERM, ENOSYS, 0x400000), /* READ_IMPLIES_EXEC */
	DIFFER("personality", EPERM, ENOSYS, 1), DIFFER("personality", EPERM, ENOSYS, WORD - 1),
	SAME("prlimit64", 0, 0), SAME("prlimit64", 0, 0, WORD, UINT64_MAX, UINT64_MAX),
	SAME("prlimit64", 0, HIGH), /* the kernel takes half of it for the pid */
	SAME("prlimit64", EPERM, 1), SAME("prlimit64", EPERM, 2),
	SAME("prlimit64", EPERM, HIGH | 1), SAME("prlimit64", EPERM, 0x80000000ULL),
	SAME("prlimit64", EPERM, UINT64_MAX), SAME("ioctl", 0, 1, 0x5401), /* TCGETS */
	SAME("ioctl", 0, 1, 0x5413),                                       /* TIOCGWINSZ */
	SAME("ioctl", 0, 1, 0x5411), SAME("ioctl", 0, 1, WORD),
	SAME("ioctl", EPERM, 1, 0x5412),                                          /* TIOCSTI */
	SAME("ioctl", EPERM, 1, HIGH | 0x5412), SAME("ioctl", EPERM, 1, 0x541c),  /* TIOCLINUX */
	SAME("ioctl", EPERM, 1, 0x10000541cULL), SAME("ioctl", EPERM, 1, 0x541d), /* TIOCCONS */
	SAME("ioctl", EPERM, 1, 0x5423),                                          /* TIOCSETD */
};

static const struct probe socket_probes[] = {
	SAME("socket", 0, AF_UNIX, SOCK_STREAM, 0),
	SAME("socket", 0, AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
	SAME("socket", 0, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
	SAME("socket", 0, AF_INET, SOCK_STREAM, 0),
	SAME("socket", 0, AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 6),
	SAME("socket", 0, AF_INET6, SOCK_DGRAM, 17),
	SAME("socket", 0, HIGH | AF_INET6, HIGH | SOCK_DGRAM, HIGH),
	SAME("socket", NO_FAMILY, AF_INET, SOCK_RAW, 1),
	SAME("socket", NO_FAMILY, AF_INET, SOCK_RAW | SOCK_CLOEXEC, 255),
	SAME("socket", NO_FAMILY, AF_INET, HIGH | SOCK_RAW, 6),
	SAME("socket", NO_FAMILY, AF_INET, SOCK_SEQPACKET, 132), /* SCTP */
	SAME("socket", NO_FAMILY, AF_INET, SOCK_STREAM, 132),
	SAME("socket", NO_FAMILY, AF_INET, SOCK_STREAM, 262), /* MPTCP */
	SAME("socket", NO_FAMILY, AF_INET, SOCK_STREAM, 17),
	SAME("socket", NO_FAMILY, AF_INET6, SOCK_DGRAM, 115), /* L2TP */
	SAME("socket", NO_FAMILY, AF_INET, SOCK_DCCP, 33),
	SAME("socket", NO_FAMILY, AF_INET, SOCK_PACKET, 0),
	SAME("socket", NO_FAMILY, AF_UNIX, SOCK_RAW, 0),
	SAME("socket", NO_FAMILY, AF_UNSPEC, SOCK_STREAM, 0),
	SAME("socket", NO_FAMILY, AF_PACKET, SOCK_DGRAM, 0),
	SAME("socket", NO_FAMILY, AF_ALG, SOCK_SEQPACKET, 0),
	SAME("socket", NO_FAMILY, AF_VSOCK, SOCK_STREAM, 0),
	SAME("socket", NO_FAMILY, AF_RXRPC, SOCK_DGRAM, AF_INET),
	SAME("socket", NO_FAMILY, AF_KEY, SOCK_DGRAM, 2),
	SAME("socket", NO_FAMILY, AF_BLUETOOTH, SOCK_STREAM, 0),
	SAME("socket", NO_FAMILY, HIGH | AF_ALG, SOCK_STREAM, 0),
	SAME("socket", NO_FAMILY, WORD, WORD, WORD),
	DIFFER("socket", 0, NO_FAMILY, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0),
	DIFFER("socket", 0, NO_FAMILY, AF_NETLINK, SOCK_DGRAM, 0),
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_RAW, 12), /* NETLINK_NETFILTER */
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_RAW, 6),  /* NETLINK_XFRM */
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_STREAM, 0),
	SAME("socketpair", 0, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
	SAME("socketpair", 0, AF_UNIX, SOCK_SEQPACKET, 0),
	SAME("socketpair", NO_FAMILY, AF_UNIX, SOCK_RAW, 0),
	SAME("socketpair", NO_FAMILY, AF_INET, SOCK_STREAM, 0),
	SAME("socketpair", NO_FAMILY, AF_TIPC, SOCK_STREAM, 0),
	SAME("setsockopt", 0, 3, SOL_SOCKET, SO_REUSEADDR),
	SAME("setsockopt", 0, 3, 6, 1), /* TCP_NODELAY */
	SAME("setsockopt", 0, 3, SOL_SOCKET, 31),
	SAME("setsockopt", 0, 31, 31, 6),
	SAME("setsockopt", EPERM, 3, 6, 31), /* TCP_ULP */
	SAME("setsockopt", EPERM, 3, HIGH | 6, HIGH | 31),
	SAME("setsockopt", EPERM, 3, 6, 0x10000001fULL),
};

static const struct probe file_probes[] = {
	DIFFER("fchownat", 0, EPERM, AT),
	DIFFER("lsetxattr", 0, EOPNOTSUPP, 0),
	DIFFER("llistxattr", 0, EOPNOTSUPP, 0),
	SAME("chmod", 0, 0, 0755),
	SAME("chmod", 0, 0, 01777),
	SAME("chmod", EPERM, 0, 04755),
	SAME("chmod", EPERM, 0, 02755),
	SAME("chmod", EPERM, 0, HIGH | 06000),
	SAME("fchmod", 0, 3, 0600),
	SAME("fchmod", EPERM, 3, 04000),
	SAME("fchmodat", 0, AT, 0, 0644),
	SAME("fchmodat", EPERM, AT, 0, 02000),
	SAME("fchmodat2", 0, AT, 0, 0644),
	SAME("fchmodat2", EPERM, AT, 0, 04700),
	SAME("creat", 0, 0, 0666),
	SAME("creat", EPERM, 0, 04666),
	SAME("open", 0, 0, O_RDONLY, 07777), /* the register may hold anything */
	SAME("open", 0, 0, O_RDWR | O_CREAT, 0666),
	SAME("open", 0, 0, O_DIRECTORY, UINT64_MAX),
	SAME("open", EPERM, 0, O_WRONLY | O_CREAT, 04755),
	SAME("open", EPERM, 0, O_RDWR | O_TMPFILE, 02755),
	SAME("open", EPERM, 0, HIGH | O_CREAT, HIGH | 02000),
	SAME("openat", 0, AT, 0, O_RDONLY | O_CLOEXEC, 06000),
	SAME("openat", 0, AT, 0, O_WRONLY | O_CREAT | O_EXCL, 01644),
	SAME("openat", 0, AT, 0, O_RDWR | O_TMPFILE, 0600),
	SAME("openat", EPERM, AT, 0, O_WRONLY | O_CREAT | O_TRUNC, 04644),
	SAME("openat", EPERM, AT, 0, O_RDWR | O_TMPFILE, 04600),
	SAME("openat", EPERM, AT, 0, O_CREAT, 02000),
	DIFFER("mknod", 0, ENOSYS, 0, S_IFIFO | 0600, 0),
	DIFFER("mknod", 0, ENOSYS, 0, 0644, 0),
	DIFFER("mknod", EPERM, ENOSYS, 0, S_IFCHR | 0666, 0x103),
	SAME("mknodat", 0, AT, 0, S_IFREG | 0644),
	SAME("mknodat", 0, AT, 0, S_IFSOCK | 0644),
	SAME("mknodat", EPERM, AT, 0, S_IFCHR | 0666),
	SAME("mknodat", EPERM, AT, 0, S_IFBLK | 0660),
	SAME("mknodat", EPERM, AT, 0, S_IFREG | 04755),
	SAME("mknodat", EPERM, AT, 0, HIGH | S_IFIFO | 02644),
};
