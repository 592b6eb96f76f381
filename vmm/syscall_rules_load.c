/* Makes programs of the tables, with libseccomp. */
#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "vmm/syscall_rules.h"

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
