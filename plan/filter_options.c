/* The options of setsockopt, prctl, fcntl and ioctl that are allowed in a box: those that programs are
 * known to need. Each of these calls leads to hundreds of kernel functions, and every release adds
 * some: everything not listed here is refused.
 *
 * The errno is that of a kernel without the option, which programs that probe for it expect:
 * ENOPROTOOPT, EINVAL, EINVAL, ENOTTY. With EPERM many of them would give up.
 */
#include "plan/filter_options.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/macros.h"

/* Newer than the headers of some distributions. */
#ifndef PR_GET_AUXV
#define PR_GET_AUXV 0x41555856
#endif
#ifndef PR_SME_GET_VL
#define PR_SME_GET_VL 64
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef NETLINK_GET_STRICT_CHK
#define NETLINK_GET_STRICT_CHK 12
#endif
#ifndef F_DUPFD_QUERY
#define F_DUPFD_QUERY 1027
#endif

#define WORD UINT32_MAX
#define LIST(number, numbers)                                                                      \
	{                                                                                          \
		.arg = (number), .mask = WORD, .values = (numbers), .count = BOX_COUNT_OF(numbers) \
	}

/* --- setsockopt --- */

/* Not allowed: packet filters (SO_ATTACH_FILTER and similar), whose memory is the host's and limited
 * for the whole host; busy polling; timestamps, which would be taken for all packets of the host;
 * zero-copy sending (SO_ZEROCOPY); options that need a capability that no command has. */
static const uint32_t socket_options[] = {SO_REUSEADDR, SO_BROADCAST, SO_SNDBUF, SO_KEEPALIVE,
	SO_OOBINLINE, SO_LINGER, SO_REUSEPORT, SO_PASSCRED, SO_RCVLOWAT, SO_RCVTIMEO, SO_SNDTIMEO,
	SO_BINDTODEVICE};

/* Error queues may grow as large as buffers, and are charged to nobody. Buffer sizes cannot be changed:
 * usually 208 KiB. */
static const uint32_t socket_options_done[] = {SO_RCVBUF};

/* Not allowed: kernel TLS and similar (TCP_ULP), signatures (TCP_MD5SIG, TCP_AO_*), repair, fast open,
 * other congestion controls. */
static const uint32_t tcp_options[] = {TCP_NODELAY, TCP_MAXSEG, TCP_CORK, TCP_KEEPIDLE,
	TCP_KEEPINTVL, TCP_KEEPCNT, TCP_SYNCNT, TCP_LINGER2, TCP_DEFER_ACCEPT, TCP_WINDOW_CLAMP,
	TCP_QUICKACK, TCP_USER_TIMEOUT, TCP_NOTSENT_LOWAT};

/* Not allowed: header options, IPsec policies, multicast source filters, netfilter tables. Nor IPv6
 * multicast groups: each socket may join so many that the kernel holds 128 KiB for it, charged to no
 * cgroup; with IPv4 it may join 20. No UDP options: UDP_ENCAP turns sockets into tunnels, and QUIC
 * works without UDP_GRO and UDP_SEGMENT. */
static const uint32_t ip_options[] = {IP_TOS, IP_TTL, IP_PKTINFO, IP_MTU_DISCOVER, IP_RECVERR,
	IP_RECVTTL, IP_RECVTOS, IP_BIND_ADDRESS_NO_PORT, IP_MULTICAST_IF, IP_MULTICAST_TTL,
	IP_MULTICAST_LOOP, IP_ADD_MEMBERSHIP, IP_DROP_MEMBERSHIP, IP_MULTICAST_ALL};
static const uint32_t ipv6_options[] = {IPV6_UNICAST_HOPS, IPV6_MULTICAST_IF, IPV6_MULTICAST_HOPS,
	IPV6_MULTICAST_LOOP, IPV6_MTU_DISCOVER, IPV6_RECVERR, IPV6_V6ONLY, IPV6_MULTICAST_ALL,
	IPV6_RECVPKTINFO, IPV6_RECVHOPLIMIT, IPV6_RECVTCLASS, IPV6_TCLASS};

/* Set by `ip`, and by programs that listen for changes of addresses. */
static const uint32_t netlink_options[] = {NETLINK_ADD_MEMBERSHIP, NETLINK_DROP_MEMBERSHIP,
	NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK};

#define OPTIONS(level, numbers)                                       \
	{                                                             \
		.all = {{1, WORD, (level)}}, .list = LIST(2, numbers) \
	}
#define INTERNET_OPTIONS                                                            \
	OPTIONS(SOL_SOCKET, socket_options),                                        \
		{.all = {{1, WORD, SOL_SOCKET}},                                    \
			.list = LIST(2, socket_options_done),                       \
			.verdict = BOX_FILTER_DONE},                                \
		OPTIONS(IPPROTO_TCP, tcp_options), OPTIONS(IPPROTO_IP, ip_options), \
		OPTIONS(IPPROTO_IPV6, ipv6_options)
static const struct box_filter_case setsockopt_cases[] = {INTERNET_OPTIONS,
	{.all = {{1, WORD, SOL_NETLINK}}, .list = LIST(2, netlink_options), .network = true}};
static const struct box_filter_case setsockopt_strict_cases[] = {INTERNET_OPTIONS};
const struct box_filter_rule box_filter_setsockopt = {
	setsockopt_cases, BOX_COUNT_OF(setsockopt_cases), ENOPROTOOPT};
const struct box_filter_rule box_filter_setsockopt_strict = {
	setsockopt_strict_cases, BOX_COUNT_OF(setsockopt_strict_cases), ENOPROTOOPT};

/* --- prctl --- */

/* Attributes of the process itself. The vector lengths (PR_S?E_GET_VL) are ARM's, where Java asks for
 * them and mistakes an error for a length. Not allowed: more filters (PR_SET_SECCOMP), whose memory is
 * limited for the whole host; names of mappings (PR_SET_VMA), whose memory is not counted; the memory
 * layout, page merging (KSM), core scheduling, futex hash tables, system call user dispatch, and
 * permitting tracers. */
static const uint32_t prctl_options[] = {PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, PR_GET_DUMPABLE,
	PR_SET_DUMPABLE, PR_GET_KEEPCAPS, PR_SET_KEEPCAPS, PR_SET_NAME, PR_GET_NAME, PR_GET_SECCOMP,
	PR_CAPBSET_READ, PR_CAPBSET_DROP, PR_GET_TSC, PR_GET_SECUREBITS, PR_SET_TIMERSLACK,
	PR_GET_TIMERSLACK, PR_SET_CHILD_SUBREAPER, PR_GET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS,
	PR_GET_NO_NEW_PRIVS, PR_SET_THP_DISABLE, PR_GET_THP_DISABLE, PR_CAP_AMBIENT,
	PR_GET_SPECULATION_CTRL, PR_GET_AUXV, PR_SVE_GET_VL, PR_SME_GET_VL};
static const struct box_filter_case prctl_cases[] = {{.list = LIST(0, prctl_options)}};
const struct box_filter_rule box_filter_prctl = {prctl_cases, BOX_COUNT_OF(prctl_cases), EINVAL};

/* --- fcntl --- */

/* Not allowed: leases, which block whoever opens the file, including programs of the host; F_NOTIFY;
 * hints to disks. */
static const uint32_t fcntl_commands[] = {F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK,
	F_SETLK, F_SETLKW, F_SETOWN, F_GETOWN, F_SETSIG, F_GETSIG, F_SETOWN_EX, F_GETOWN_EX,
	F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_DUPFD_QUERY, F_DUPFD_CLOEXEC, F_SETPIPE_SZ,
	F_GETPIPE_SZ, F_ADD_SEALS, F_GET_SEALS};
static const struct box_filter_case fcntl_cases[] = {{.list = LIST(1, fcntl_commands)}};
const struct box_filter_rule box_filter_fcntl = {fcntl_cases, BOX_COUNT_OF(fcntl_cases), EINVAL};

/* --- ioctl --- */

/* For terminals, all files, sockets, and reflink copies. Not allowed: everything else that file
 * systems, pidfds, namespaces and devices have. */
static const uint32_t ioctl_requests[] = {TCGETS, TCSETS, TCSETSW, TCSETSF, TCGETA, TCSETA, TCSETAW,
	TCSETAF, TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TCSBRK, TCSBRKP, TCXONC, TCFLSH, TIOCEXCL,
	TIOCNXCL, TIOCGEXCL, TIOCSCTTY, TIOCNOTTY, TIOCGPGRP, TIOCSPGRP, TIOCGSID, TIOCOUTQ,
	TIOCGWINSZ, TIOCSWINSZ, TIOCMGET, TIOCPKT, TIOCGPKT, TIOCGETD, TIOCGPTN, TIOCSPTLCK,
	TIOCGPTLCK, TIOCGPTPEER, TIOCGDEV, TIOCSIG, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, FIOASYNC,
	FIOQSIZE, FIOSETOWN, FIOGETOWN, SIOCSPGRP, SIOCGPGRP, SIOCATMARK, SIOCOUTQNSD, SIOCGIFNAME,
	SIOCGIFCONF, SIOCGIFFLAGS, SIOCGIFADDR, SIOCGIFDSTADDR, SIOCGIFBRDADDR, SIOCGIFNETMASK,
	SIOCGIFMETRIC, SIOCGIFMTU, SIOCGIFHWADDR, SIOCGIFINDEX, SIOCGIFTXQLEN, FICLONE,
	FICLONERANGE};
/* TIOCSTI types into a terminal that others read; TIOCSETD loads line disciplines into the kernel. */
static const uint32_t ioctl_refused[] = {TIOCSTI, TIOCLINUX, TIOCCONS, TIOCSETD};
/* The errno of an interface without this feature: psutil and others accept no other one. */
static const uint32_t ioctl_of_drivers[] = {SIOCETHTOOL};
static const struct box_filter_case ioctl_cases[] = {{.list = LIST(1, ioctl_requests)},
	{.list = LIST(1, ioctl_refused), .verdict = EPERM},
	{.list = LIST(1, ioctl_of_drivers), .verdict = EOPNOTSUPP}};
const struct box_filter_rule box_filter_ioctl = {ioctl_cases, BOX_COUNT_OF(ioctl_cases), ENOTTY};
