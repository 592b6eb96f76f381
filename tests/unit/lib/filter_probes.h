/* Calls that a box must and must not be allowed, by name and argument, for test_filter.c.
 *
 * Written independently of the rows of filter_table.c, not generated from them. */
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
	"execve", "setresuid", "setresgid", "setgroups", "capset", "epoll_create1", "epoll_ctl",
	"epoll_pwait", "ppoll", "signalfd4", "pipe2", "recvmsg", "sendmsg", "recvfrom", "sendto",
	"munmap", "mprotect", "close_range", "dup2", "dup3", "setsid", "chdir", "fchdir", "mkdirat",
	"getcwd", "timerfd_create", "timerfd_settime", "exit", "exit_group", "rt_sigreturn",
	"rt_sigaction", "rt_sigprocmask", "restart_syscall", "sendmmsg", "umask", "getrandom",
	"vfork", "futex", "set_tid_address", "arch_prctl", "rseq", "brk", "fstat", "newfstatat",
	"statx", "getdents64", "connect", "bind", "listen", "accept4", "renameat2", "unlinkat",
	"linkat", "clock_gettime", "getpriority", "setpriority"};
static const char *const default_only[] = {"copy_file_range", "sendfile", "splice", "tee",
	"vmsplice", "execveat", "pidfd_open", "pidfd_send_signal", "membarrier", "futex_waitv",
	"inotify_init1", "inotify_add_watch", "epoll_pwait2", "landlock_create_ruleset",
	"landlock_add_rule", "landlock_restrict_self", "sched_setaffinity", "mincore"};
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
	uint64_t args[5];
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
	SAME("clone", 0, SIGCHLD),
	SAME("clone", 0, CLONE_VM | CLONE_VFORK | SIGCHLD),
	SAME("clone", 0, 0x3d0f00),       /* pthread_create */
	SAME("clone", 0, 0x1200011),      /* fork */
	SAME("clone", 0, 0x80 | SIGCHLD), /* CLONE_NEWTIME is part of the signal here */
	SAME("clone", 0, CLONE_UNTRACED | 0xff),
	SAME("clone", 0, HIGH | SIGCHLD),
	SAME("clone", EPERM, CLONE_NEWNS | SIGCHLD),
	SAME("clone", EPERM, CLONE_NEWCGROUP),
	SAME("clone", EPERM, CLONE_NEWUTS),
	SAME("clone", EPERM, CLONE_NEWIPC),
	SAME("clone", EPERM, CLONE_NEWUSER),
	SAME("clone", EPERM, CLONE_NEWPID),
	SAME("clone", EPERM, CLONE_NEWNET),
	SAME("clone", EPERM, HIGH | CLONE_NEWUSER | CLONE_VM | SIGCHLD),
	SAME("clone", EPERM, UINT64_MAX),
	DIFFER("personality", 0, ENOSYS, 0),
	DIFFER("personality", 0, ENOSYS, 8),
	DIFFER("personality", 0, ENOSYS, 0x20000),
	DIFFER("personality", 0, ENOSYS, 0x20008),
	DIFFER("personality", 0, ENOSYS, WORD),
	DIFFER("personality", 0, ENOSYS, UINT64_MAX),
	DIFFER("personality", EPERM, ENOSYS, 0x40000),  /* ADDR_NO_RANDOMIZE */
	DIFFER("personality", EPERM, ENOSYS, 0x400000), /* READ_IMPLIES_EXEC */
	DIFFER("personality", EPERM, ENOSYS, 1),
	DIFFER("personality", EPERM, ENOSYS, WORD - 1),
	SAME("prlimit64", 0, 0),
	SAME("prlimit64", 0, 0, WORD, UINT64_MAX, UINT64_MAX),
	SAME("prlimit64", 0, HIGH), /* the kernel takes half of it for the pid */
	SAME("prlimit64", EPERM, 1),
	SAME("prlimit64", EPERM, 2),
	SAME("prlimit64", EPERM, HIGH | 1),
	SAME("prlimit64", EPERM, 0x80000000ULL),
	SAME("prlimit64", EPERM, UINT64_MAX),
	SAME("seccomp", EINVAL, 0),
	SAME("seccomp", EINVAL, 1),
	SAME("seccomp", EINVAL, 2),
	SAME("seccomp", EINVAL, UINT64_MAX),
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
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_RAW, 12), /* NETLINK_NETFILTER */
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_RAW, 6),  /* NETLINK_XFRM */
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_STREAM, 0),
	SAME("socketpair", 0, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0),
	SAME("socketpair", 0, AF_UNIX, SOCK_SEQPACKET, 0),
	SAME("socketpair", NO_FAMILY, AF_UNIX, SOCK_RAW, 0),
	SAME("socketpair", NO_FAMILY, AF_INET, SOCK_STREAM, 0),
	SAME("socketpair", NO_FAMILY, AF_TIPC, SOCK_STREAM, 0),
};

static const struct probe netlink_off_probes[] = {
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0),
	SAME("socket", NO_FAMILY, AF_NETLINK, SOCK_DGRAM, 0),
	SAME("socket", NO_FAMILY, HIGH | AF_NETLINK, HIGH | SOCK_DGRAM, HIGH),
	SAME("setsockopt", ENOPROTOOPT, 3, 270, 1), /* NETLINK_ADD_MEMBERSHIP */
	SAME("setsockopt", ENOPROTOOPT, 3, 270, 11),
};

static const struct probe netlink_on_probes[] = {
	DIFFER("socket", 0, NO_FAMILY, AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0),
	DIFFER("socket", 0, NO_FAMILY, AF_NETLINK, SOCK_DGRAM, 0),
	DIFFER("setsockopt", 0, ENOPROTOOPT, 3, 270, 1),
	DIFFER("setsockopt", 0, ENOPROTOOPT, 3, 270, 11), /* NETLINK_EXT_ACK */
	DIFFER("setsockopt", 0, ENOPROTOOPT, 3, 270, 12), /* NETLINK_GET_STRICT_CHK */
	SAME("setsockopt", ENOPROTOOPT, 3, 270, 5),       /* NETLINK_NO_ENOBUFS */
	SAME("setsockopt", ENOPROTOOPT, 3, 270, 6),       /* NETLINK_RX_RING */
	SAME("setsockopt", ENOPROTOOPT, 3, 270, 8),       /* NETLINK_LISTEN_ALL_NSID */
};

#define OPTION(verdict, level, name) SAME("setsockopt", verdict, 3, level, name)
#define NO_OPTION ENOPROTOOPT
static const struct probe option_probes[] = {
	OPTION(0, SOL_SOCKET, SO_REUSEADDR),
	OPTION(0, SOL_SOCKET, SO_BROADCAST),
	OPTION(0, SOL_SOCKET, SO_SNDBUF),
	OPTION(BOX_FILTER_DONE, SOL_SOCKET, SO_RCVBUF),
	OPTION(BOX_FILTER_DONE, HIGH | SOL_SOCKET, HIGH | SO_RCVBUF),
	OPTION(0, SOL_SOCKET, SO_RCVLOWAT),
	OPTION(0, SOL_SOCKET, SO_KEEPALIVE),
	OPTION(0, SOL_SOCKET, SO_LINGER),
	OPTION(0, SOL_SOCKET, SO_REUSEPORT),
	OPTION(0, SOL_SOCKET, SO_PASSCRED),
	OPTION(0, SOL_SOCKET, SO_RCVTIMEO),
	OPTION(0, SOL_SOCKET, SO_SNDTIMEO),
	OPTION(0, SOL_SOCKET, SO_BINDTODEVICE),
	OPTION(0, HIGH | SOL_SOCKET, HIGH | SO_REUSEADDR), /* the kernel takes half of each */
	OPTION(NO_OPTION, SOL_SOCKET, 26),                 /* SO_ATTACH_FILTER */
	OPTION(NO_OPTION, HIGH | SOL_SOCKET, HIGH | 26),
	OPTION(NO_OPTION, SOL_SOCKET, 27), /* SO_DETACH_FILTER */
	OPTION(NO_OPTION, SOL_SOCKET, 29), /* SO_TIMESTAMP */
	OPTION(NO_OPTION, SOL_SOCKET, 32), /* SO_SNDBUFFORCE */
	OPTION(NO_OPTION, SOL_SOCKET, 33), /* SO_RCVBUFFORCE */
	OPTION(NO_OPTION, SOL_SOCKET, 35), /* SO_TIMESTAMPNS */
	OPTION(NO_OPTION, SOL_SOCKET, 36), /* SO_MARK */
	OPTION(NO_OPTION, SOL_SOCKET, 37), /* SO_TIMESTAMPING */
	OPTION(NO_OPTION, SOL_SOCKET, 44), /* SO_LOCK_FILTER */
	OPTION(NO_OPTION, SOL_SOCKET, 46), /* SO_BUSY_POLL */
	OPTION(NO_OPTION, SOL_SOCKET, 50), /* SO_ATTACH_BPF */
	OPTION(NO_OPTION, SOL_SOCKET, 51), /* SO_ATTACH_REUSEPORT_CBPF */
	OPTION(NO_OPTION, SOL_SOCKET, 52), /* SO_ATTACH_REUSEPORT_EBPF */
	OPTION(NO_OPTION, SOL_SOCKET, 60), /* SO_ZEROCOPY */
	OPTION(NO_OPTION, SOL_SOCKET, 61), /* SO_TXTIME */
	OPTION(NO_OPTION, SOL_SOCKET, 69), /* SO_PREFER_BUSY_POLL */
	OPTION(NO_OPTION, SOL_SOCKET, 73), /* SO_RESERVE_MEM */
	OPTION(NO_OPTION, SOL_SOCKET, WORD),
	OPTION(0, 6, 1), /* TCP_NODELAY */
	OPTION(0, 6, 2),
	OPTION(0, 6, 3),
	OPTION(0, 6, 4),
	OPTION(0, 6, 5),
	OPTION(0, 6, 6),
	OPTION(0, 6, 9),          /* TCP_DEFER_ACCEPT */
	OPTION(0, 6, 12),         /* TCP_QUICKACK */
	OPTION(0, 6, 18),         /* TCP_USER_TIMEOUT */
	OPTION(0, 6, 25),         /* TCP_NOTSENT_LOWAT */
	OPTION(NO_OPTION, 6, 13), /* TCP_CONGESTION */
	OPTION(NO_OPTION, 6, 14), /* TCP_MD5SIG */
	OPTION(NO_OPTION, 6, 19), /* TCP_REPAIR */
	OPTION(NO_OPTION, 6, 23), /* TCP_FASTOPEN */
	OPTION(NO_OPTION, 6, 31), /* TCP_ULP */
	OPTION(NO_OPTION, HIGH | 6, HIGH | 31),
	OPTION(NO_OPTION, 6, 0x10000001fULL),
	OPTION(NO_OPTION, 6, 32), /* TCP_MD5SIG_EXT */
	OPTION(NO_OPTION, 6, 37), /* TCP_TX_DELAY */
	OPTION(NO_OPTION, 6, 38), /* TCP_AO_ADD_KEY */
	OPTION(NO_OPTION, 6, 39),
	OPTION(NO_OPTION, 6, 40),
	OPTION(NO_OPTION, 6, 42),
	OPTION(0, 0, 1),
	OPTION(0, 0, 2),
	OPTION(0, 0, 8),
	OPTION(0, 0, 10), /* IP_TOS and on */
	OPTION(0, 0, 11), /* IP_RECVERR, which the resolver sets */
	OPTION(0, 0, 24),
	OPTION(0, 0, 35),        /* IP_ADD_MEMBERSHIP */
	OPTION(NO_OPTION, 0, 4), /* IP_OPTIONS */
	OPTION(NO_OPTION, 0, 16),
	OPTION(NO_OPTION, 0, 17), /* IPsec, XFRM */
	OPTION(NO_OPTION, 0, 19), /* IP_TRANSPARENT */
	OPTION(NO_OPTION, 0, 41), /* IP_MSFILTER */
	OPTION(NO_OPTION, 0, 64), /* IPT_SO_SET_REPLACE */
	OPTION(NO_OPTION, 0, 96),
	OPTION(NO_OPTION, 0, 128),
	OPTION(0, 41, 26), /* IPV6_V6ONLY */
	OPTION(0, 41, 25),
	OPTION(0, 41, 49),
	OPTION(0, 41, 67),
	OPTION(NO_OPTION, 41, 1),  /* IPV6_ADDRFORM */
	OPTION(NO_OPTION, 41, 20), /* IPV6_JOIN_GROUP: memory that is nobody's */
	OPTION(NO_OPTION, 41, 27), /* IPV6_JOIN_ANYCAST */
	OPTION(NO_OPTION, 41, 42), /* MCAST_JOIN_GROUP, of both families */
	OPTION(NO_OPTION, 0, 42),
	OPTION(NO_OPTION, 41, 32), /* IPV6_FLOWLABEL_MGR */
	OPTION(NO_OPTION, 41, 35), /* IPV6_XFRM_POLICY */
	OPTION(NO_OPTION, 41, 57), /* IPV6_RTHDR */
	OPTION(NO_OPTION, 41, 64), /* IP6T_SO_SET_REPLACE */
	OPTION(NO_OPTION, 17, 1),
	OPTION(NO_OPTION, 17, 100), /* UDP_ENCAP */
	OPTION(NO_OPTION, 17, 103),
	OPTION(NO_OPTION, 17, 104), /* UDP_SEGMENT, UDP_GRO */
	OPTION(NO_OPTION, 282, 1),  /* SOL_TLS */
	OPTION(NO_OPTION, 279, 1),  /* SOL_ALG */
	OPTION(NO_OPTION, 31, 6),
	OPTION(NO_OPTION, WORD, SO_REUSEADDR),

	SAME("prctl", 0, 1),
	SAME("prctl", 0, 4),
	SAME("prctl", 0, 15),
	SAME("prctl", 0, 16),
	SAME("prctl", 0, 36),
	SAME("prctl", 0, 38),
	SAME("prctl", 0, 41),
	SAME("prctl", 0, 47),
	SAME("prctl", 0, 21), /* PR_GET_SECCOMP */
	SAME("prctl", 0, HIGH | 15),
	SAME("prctl", EINVAL, 22), /* PR_SET_SECCOMP */
	SAME("prctl", EINVAL, 50), /* PR_SVE_SET_VL */
	SAME("prctl", 0, 51),      /* PR_SVE_GET_VL */
	SAME("prctl", EINVAL, 63), /* PR_SME_SET_VL */
	SAME("prctl", 0, 64),      /* PR_SME_GET_VL */
	SAME("prctl", EINVAL, HIGH | 22),
	SAME("prctl", EINVAL, 0),
	SAME("prctl", EINVAL, WORD),
	SAME("prctl", EINVAL, 26),         /* PR_SET_TSC */
	SAME("prctl", EINVAL, 28),         /* PR_SET_SECUREBITS */
	SAME("prctl", EINVAL, 35),         /* PR_SET_MM */
	SAME("prctl", EINVAL, 53),         /* PR_SET_SPECULATION_CTRL */
	SAME("prctl", EINVAL, 57),         /* PR_SET_IO_FLUSHER */
	SAME("prctl", EINVAL, 59),         /* PR_SET_SYSCALL_USER_DISPATCH */
	SAME("prctl", EINVAL, 62),         /* PR_SCHED_CORE */
	SAME("prctl", EINVAL, 67),         /* PR_SET_MEMORY_MERGE */
	SAME("prctl", EINVAL, 78),         /* PR_FUTEX_HASH */
	SAME("prctl", EINVAL, 0x53564d41), /* PR_SET_VMA */
	SAME("prctl", EINVAL, 0x59616d61), /* PR_SET_PTRACER */

	SAME("fcntl", 0, 3, F_DUPFD),
	SAME("fcntl", 0, 3, F_GETFD),
	SAME("fcntl", 0, 3, F_SETFL),
	SAME("fcntl", 0, 3, F_SETLK),
	SAME("fcntl", 0, 3, F_SETLKW),
	SAME("fcntl", 0, 3, 38),
	SAME("fcntl", 0, 3, F_DUPFD_CLOEXEC),
	SAME("fcntl", 0, 3, 1031),
	SAME("fcntl", 0, 3, 1033),
	SAME("fcntl", 0, 3, HIGH | F_GETFL),
	SAME("fcntl", EINVAL, 3, 1024), /* F_SETLEASE */
	SAME("fcntl", EINVAL, 3, HIGH | 1024),
	SAME("fcntl", EINVAL, 3, 1025),
	SAME("fcntl", EINVAL, 3, 1026), /* F_NOTIFY */
	SAME("fcntl", EINVAL, 3, 1036), /* F_SET_RW_HINT */
	SAME("fcntl", EINVAL, 3, 1039),
	SAME("fcntl", EINVAL, 3, 1040), /* delegations */
	SAME("fcntl", EINVAL, 3, WORD),

	SAME("ioctl", 0, 1, 0x5401),
	SAME("ioctl", 0, 1, 0x5402),     /* TCGETS, TCSETS */
	SAME("ioctl", 0, 1, 0x802c542a), /* TCGETS2 */
	SAME("ioctl", 0, 1, 0x540e),     /* TIOCSCTTY */
	SAME("ioctl", 0, 1, 0x5413),
	SAME("ioctl", 0, 1, 0x5414), /* TIOCGWINSZ, TIOCSWINSZ */
	SAME("ioctl", 0, 1, 0x40045431),
	SAME("ioctl", 0, 1, 0x80045430),
	SAME("ioctl", 0, 1, 0x5441),
	SAME("ioctl", 0, 1, 0x541b),
	SAME("ioctl", 0, 1, 0x5421), /* FIONREAD, FIONBIO */
	SAME("ioctl", 0, 1, 0x5450),
	SAME("ioctl", 0, 1, 0x5451), /* FIONCLEX, FIOCLEX */
	SAME("ioctl", 0, 1, HIGH | 0x5451),
	SAME("ioctl", 0, 1, 0x8912),
	SAME("ioctl", 0, 1, 0x8915),
	SAME("ioctl", 0, 1, 0x40049409), /* FICLONE */
	SAME("ioctl", EPERM, 1, 0x5412), /* TIOCSTI */
	SAME("ioctl", EPERM, 1, HIGH | 0x5412),
	SAME("ioctl", EPERM, 1, 0x541c), /* TIOCLINUX */
	SAME("ioctl", EPERM, 1, 0x10000541cULL),
	SAME("ioctl", EPERM, 1, 0x541d),      /* TIOCCONS */
	SAME("ioctl", EPERM, 1, 0x5423),      /* TIOCSETD */
	SAME("ioctl", EOPNOTSUPP, 1, 0x8946), /* SIOCETHTOOL */
	SAME("ioctl", ENOTTY, 1, 0x8914),     /* SIOCSIFFLAGS */
	SAME("ioctl", ENOTTY, 1, 0x40086602), /* FS_IOC_SETFLAGS */
	SAME("ioctl", ENOTTY, 1, 0x401c5820), /* FS_IOC_FSSETXATTR */
	SAME("ioctl", ENOTTY, 1, 0xc0189436), /* FIDEDUPERANGE */
	SAME("ioctl", ENOTTY, 1, 0xc020660b), /* FS_IOC_FIEMAP */
	SAME("ioctl", ENOTTY, 1, 0xff01),
	SAME("ioctl", ENOTTY, 1, 0xff09), /* PIDFD_GET_* */
	SAME("ioctl", ENOTTY, 1, 0xb701),
	SAME("ioctl", ENOTTY, 1, 0xb702),     /* NS_GET_* */
	SAME("ioctl", ENOTTY, 1, 0xae00),     /* KVM */
	SAME("ioctl", ENOTTY, 1, 0x89e0),     /* SIOCUNIXFILE */
	SAME("ioctl", ENOTTY, 1, 0xc0686611), /* PROCMAP_QUERY */
	SAME("ioctl", ENOTTY, 1, WORD),
	SAME("ioctl", ENOTTY, 1, 0),
};

static const struct probe memory_probes[] = {
	SAME("mmap", 0, 0, 4096, 3, 0x22),
	SAME("mmap", 0, 0, 4096, 3, HIGH | 0x22),
	SAME("mmap", 0, 0, 4096, 3, WORD & ~0x40000ULL),
	SAME("mmap", ENOMEM, 0, 4096, 3, 0x40022), /* MAP_HUGETLB */
	SAME("mmap", ENOMEM, 0, 4096, 3, HIGH | 0x40022),
	SAME("mmap", ENOMEM, 0, 4096, 3, 0x40022 | 21U << 26),
	SAME("memfd_create", 0, 0, 0),
	SAME("memfd_create", 0, 0, 3),
	SAME("memfd_create", 0, 0, 8),
	SAME("memfd_create", EINVAL, 0, 4), /* MFD_HUGETLB */
	SAME("memfd_create", EINVAL, 0, HIGH | 5 | 21U << 26),
	DIFFER("shmget", 0, ENOSYS, 0, 4096, 01600),
	DIFFER("shmget", ENOMEM, ENOSYS, 0, 4096, 05600), /* SHM_HUGETLB */
	DIFFER("shmget", ENOMEM, ENOSYS, 0, 4096, HIGH | 04000),
};

#define PRIVATE (1U << 14 | 1U << 18) /* MS_REC, MS_PRIVATE */
static const struct probe mounter_probes[] = {
	SAME("unshare", 0, CLONE_NEWNS),
	SAME("unshare", EPERM, CLONE_NEWUSER),
	SAME("unshare", EPERM, CLONE_NEWNS | CLONE_NEWNET),
	SAME("unshare", EPERM, 0),
	SAME("mount", 0, 0, 0, 0, PRIVATE),
	SAME("mount", EPERM, 0, 0, 0, 0),
	SAME("mount", EPERM, 0, 0, 0, 4096), /* MS_BIND */
	SAME("mount", EPERM, 0, 0, 0, 32),   /* MS_REMOUNT */
	SAME("mount", EPERM, 0, 0, 0, PRIVATE | 32),
	SAME("move_mount", 0, 5, 0, 6, 0, 0x44),
	SAME("move_mount", EPERM, 5, 0, 6, 0, 0),
	SAME("move_mount", EPERM, 5, 0, 6, 0, 0x4),
	SAME("move_mount", EPERM, 5, 0, 6, 0, 0x144),
	SAME("seccomp", 0, 1, 0),
	SAME("seccomp", EINVAL, 1, 8), /* a listener */
	SAME("seccomp", EINVAL, 0, 0),
	SAME("setfsuid", 0, 1000),
	SAME("setfsgid", 0, 1000),
	SAME("landlock_create_ruleset", 0, 0),
	SAME("landlock_add_rule", 0, 0),
	SAME("landlock_restrict_self", 0, 0),
	SAME("fsopen", EPERM, 0),
	SAME("open_tree", EPERM, 0),
	SAME("mount_setattr", EPERM, 0),
	SAME("umount2", EPERM, 0),
	SAME("pivot_root", EPERM, 0),
	SAME("chroot", EPERM, 0),
	SAME("setns", EPERM, 0),
	SAME("ptrace", EPERM, 0),
	SAME("bpf", EPERM, 0),
	SAME("clone", EPERM, CLONE_NEWUSER),
	SAME("clone", EPERM, CLONE_NEWNS),
	SAME("socket", NO_FAMILY, AF_ALG, SOCK_SEQPACKET, 0),
	SAME("setsockopt", NO_OPTION, 3, 6, 31),
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
