/* What a failure means and what cures it: pure, from facts that others found. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* What is known when user namespaces do not work. Numbers are -1 where the host does not say. */
struct box_diagnose_userns_facts {
	int errnum;           /* of the step that failed */
	bool made;            /* it was made, but gave no rights */
	bool root;            /* effective uid 0 */
	bool filtered;        /* a seccomp filter is on us that we did not make */
	bool changed_root;    /* our root folder is not that of our mount namespace */
	long clone_allowed;   /* kernel.unprivileged_userns_clone */
	long most;            /* user.max_user_namespaces */
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

/* Who answered like this to GET /healthz. */
enum box_diagnose_port_owner box_diagnose_port(const char *answer, size_t len);

/* Whether "3.11.2" is at least this version. False for what is no version. */
bool box_diagnose_version(const char *text, int major, int minor);
