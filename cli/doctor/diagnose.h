/* What a failure means and how to fix it. Pure: works on facts that others collected. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* The facts when user namespaces do not work. Numbers are -1 where they are not known. */
struct box_diagnose_userns_facts {
	int errnum;           /* of the step that failed */
	bool made;            /* it was created, but gave no capabilities */
	bool root;            /* effective uid 0 */
	bool filtered;        /* we run under a seccomp filter */
	bool changed_root;    /* we run in a chroot */
	long clone_allowed;   /* kernel.unprivileged_userns_clone */
	long limit;           /* user.max_user_namespaces */
	long apparmor_limits; /* kernel.apparmor_restrict_unprivileged_userns */
};

struct box_diagnose_result {
	const char *why;
	const char *cure;
};

struct box_diagnose_result box_diagnose_userns(const struct box_diagnose_userns_facts *facts);

enum box_diagnose_port_owner {
	BOX_DIAGNOSE_PORT_BOXD,
	BOX_DIAGNOSE_PORT_OTHER,
	BOX_DIAGNOSE_PORT_SILENT,
};

/* Who gave this answer to GET /healthz. */
enum box_diagnose_port_owner box_diagnose_port(const char *answer, size_t len);

/* Whether a version such as "3.11.2" is at least this one. False for other texts. */
bool box_diagnose_version(const char *text, int major, int minor);
