/* Rules that several seccomp filters share, and the loading of filters. */
#include "base/seccomp.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

#define NAMESPACES 0x7e020080ULL /* all CLONE_NEW* flags */

int box_seccomp_allow_names(scmp_filter_ctx filter, const char *const *names)
{
	int r = 0;
	for (; *names && r == 0; names++) {
		int number = seccomp_syscall_resolve_name(*names);
		r = number < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	return r;
}

int box_seccomp_allow_memory(scmp_filter_ctx filter)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mmap), 1,
		SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(mprotect), 1,
			SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
	}
	return r;
}

int box_seccomp_allow_clone(scmp_filter_ctx filter, uint64_t mask, uint64_t flags)
{
	int r = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (r == 0) {
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
			SCMP_A0(SCMP_CMP_MASKED_EQ, mask, flags));
	}
	return r;
}

int box_seccomp_allow_children(scmp_filter_ctx filter)
{
	return box_seccomp_allow_clone(filter, NAMESPACES, 0);
}

int box_seccomp_allow_abort(scmp_filter_ctx filter)
{
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
		SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
}

int box_seccomp_load(uint32_t otherwise, int (*add)(scmp_filter_ctx filter), struct box_err *err)
{
	scmp_filter_ctx filter = seccomp_init(otherwise);
	if (!filter) {
		return box_err_set(err, BOX_ERR_OS, ENOMEM, "seccomp_init failed");
	}
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (r == 0) {
		/* A binary tree instead of a list: fewer instructions per system call. */
		(void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
		r = add(filter);
	}
	if (r == 0) {
		r = seccomp_load(filter);
	}
	seccomp_release(filter);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "seccomp: %s", box_err_strerror(-r)) : 0;
}
