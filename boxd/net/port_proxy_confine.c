/* The filter of a ferry: sockets, waiting for them, memory, the end. Other calls fail with EPERM. */
#include <errno.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "base/macros.h"
#include "boxd/net/port_proxy.h"

static const int calls[] = {
	SCMP_SYS(accept4),
	SCMP_SYS(bind),
	SCMP_SYS(connect),
	SCMP_SYS(getsockopt),
	SCMP_SYS(setsockopt),
	SCMP_SYS(shutdown),
	SCMP_SYS(sendto),
	SCMP_SYS(recvfrom),
	SCMP_SYS(epoll_create1),
	SCMP_SYS(epoll_ctl),
	SCMP_SYS(epoll_wait),
	SCMP_SYS(epoll_pwait),
	SCMP_SYS(write), /* that it is there, and what a sanitizer has to say */
	SCMP_SYS(close),
	SCMP_SYS(brk),
	SCMP_SYS(munmap),
	SCMP_SYS(mremap),
	SCMP_SYS(madvise),
	SCMP_SYS(futex),
	SCMP_SYS(exit_group),
#ifdef BOX_SANITIZED /* which looks for its stack before what never returns */
	SCMP_SYS(sigaltstack),
#endif
};

static int add_calls(scmp_filter_ctx filter)
{
	int r = 0;
	for (size_t i = 0; i < BOX_COUNT_OF(calls) && r == 0; i++) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
	}
	/* Streams of IPv4 alone; the socket that tells who listens is there already. */
	r = r < 0 ? r
		  : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 2,
			    SCMP_A0(SCMP_CMP_EQ, AF_INET),
			    SCMP_A1(SCMP_CMP_EQ, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC));
	return r < 0 ? r
		     : seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
			       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

int box_port_proxy_confine(void)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int r = filter ? seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS)
		       : -ENOMEM;
	r = r < 0 ? r : add_calls(filter);
	r = r < 0 ? r : seccomp_load(filter);
	seccomp_release(filter);
	return r;
}
