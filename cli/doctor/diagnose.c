/* The part of `box doctor` that can be tested without a host: why user namespaces do not work, who answers on a
 * port, how old an interpreter is. */
#include "cli/doctor/diagnose.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define CONTAINER_CURE                                                                     \
	"docker run --security-opt seccomp=unconfined (or a profile that allows unshare, " \
	"clone and clone3 with namespaces); Kubernetes: seccompProfile Unconfined"

struct box_diagnose_result box_diagnose_userns(const struct box_diagnose_userns_facts *facts)
{
	/* Clear evidence first: a setting that forbids them explains the failure by itself. */
	if (facts->limit == 0 || facts->errnum == ENOSPC) {
		return (struct box_diagnose_result){facts->limit == 0
				? "user.max_user_namespaces is 0"
				: "the limit user.max_user_namespaces is reached",
			"sysctl -w user.max_user_namespaces=15000, here or on the host of the "
			"container"};
	}
	if (facts->errnum == EUSERS) {
		return (struct box_diagnose_result){"they are nested too deeply",
			"start boxd outside of some of the containers it is in"};
	}
	if (!facts->root && facts->clone_allowed == 0) {
		return (struct box_diagnose_result){"kernel.unprivileged_userns_clone is 0",
			"sysctl -w kernel.unprivileged_userns_clone=1, or run boxd as root"};
	}
	if (facts->made) {
		return facts->apparmor_limits == 1
			? (struct box_diagnose_result){"AppArmor removes the capabilities in them "
						       "(kernel.apparmor_restrict_unprivileged_userns)",
				  "an AppArmor profile for boxd with the rule `userns,`, or sysctl "
				  "-w kernel.apparmor_restrict_unprivileged_userns=0"}
			: (struct box_diagnose_result){
				  "a security module removes the capabilities in them",
				  "allow boxd to use user namespaces in that module (SELinux, "
				  "AppArmor), or run it as root"};
	}
	if (facts->changed_root) {
		return (struct box_diagnose_result){"the kernel does not create them in a chroot",
			"start boxd outside of the chroot, or make it the root with pivot_root"};
	}
	if (facts->filtered) {
		return (struct box_diagnose_result){
			"a seccomp filter forbids them, as in containers", CONTAINER_CURE};
	}
	if (facts->errnum == EINVAL || facts->errnum == ENOSYS) {
		return (struct box_diagnose_result){
			"the kernel is built without them", "use a kernel with CONFIG_USER_NS"};
	}
	return (struct box_diagnose_result){box_err_strerror(facts->errnum),
		"look for a security module that forbids them, or run boxd as root"};
}

static const char *find(const char *text, size_t len, const char *word)
{
	return memmem(text, len, word, strlen(word));
}

enum box_diagnose_port_owner box_diagnose_port(const char *answer, size_t len)
{
	if (len == 0) {
		return BOX_DIAGNOSE_PORT_SILENT;
	}
	const char *body = find(answer, len, "\r\n\r\n");
	if (!body || find(answer, len, "HTTP/1.1 200 ") != answer) {
		return BOX_DIAGNOSE_PORT_OTHER;
	}
	size_t left = len - (size_t)(body - answer);
	/* Without the token it gives no more than this. */
	bool known = find(body, left, "{\"live\":true,\"resources\":") == body + 4 ||
		find(body, left, "{\"live\":true}") == body + 4;
	return known ? BOX_DIAGNOSE_PORT_BOXD : BOX_DIAGNOSE_PORT_OTHER;
}

bool box_diagnose_version(const char *text, int major, int minor)
{
	int has_major;
	int has_minor;
	/* NOLINTNEXTLINE(cert-err34-c): the program that printed it prints small numbers */
	if (sscanf(text, "%4d.%4d", &has_major, &has_minor) != 2) {
		return false;
	}
	return has_major > major || (has_major == major && has_minor >= minor);
}
