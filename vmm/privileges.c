/* Owns the system calls that give up privileges, irrevocably. */
#include "vmm/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/landlock.h"

static int missing_right(bool same_uid)
{
	return errno == EPERM && same_uid ? 0 : -errno;
}

int box_privileges_lock(bool same_uid)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
		SECBIT_NO_SETUID_FIXUP_LOCKED;
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
		int r = prctl(PR_CAPBSET_DROP, capability) < 0 ? missing_right(same_uid) : 0;
		if (r < 0) {
			return r;
		}
	}
	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	int r = prctl(PR_SET_SECUREBITS, bits) < 0 ? missing_right(same_uid) : 0;
	if (r < 0) {
		return r;
	}
	if (prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0) {
		return -errno;
	}
	return 0;
}

int box_privileges_become(uint32_t uid, uint32_t gid)
{
	if (setgroups(0, NULL) < 0 || setresgid(gid, gid, gid) < 0 ||
		setresuid(uid, uid, uid) < 0) {
		return -errno;
	}
	return 0;
}

static int allow(int ruleset, uint32_t abi, const char *path)
{
	_cleanup_(box_close_p) int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	return box_landlock_allow(ruleset, abi, fd, box_landlock_rights(abi));
}

int box_privileges_restrict_paths(uint32_t abi, const char *const *paths, size_t count)
{
	if (abi == 0) {
		return 0;
	}
	_cleanup_(box_close_p) int ruleset = box_landlock_open(abi, BOX_LANDLOCK_ALL);
	if (ruleset < 0) {
		return ruleset;
	}
	for (size_t i = 0; i < count; i++) {
		int r = allow(ruleset, abi, paths[i]);
		if (r < 0) {
			return r;
		}
	}
	return box_landlock_restrict(ruleset);
}
