/* Owns the calls by which rights are given up. Each is for good. */
#include "vmm/privileges.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"

#define LANDLOCK_VERSION 1U /* LANDLOCK_CREATE_RULESET_VERSION */
#define FDS_MAX 8
#define BIT(number) (1ULL << (number))

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

static int compare_fds(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

int box_privileges_keep_fds(const int *fds, size_t count)
{
	int kept[FDS_MAX];
	if (count > FDS_MAX) {
		return -EINVAL;
	}
	for (size_t i = 0; i < count; i++) {
		kept[i] = fds[i];
	}
	qsort(kept, count, sizeof(kept[0]), compare_fds);
	unsigned from = STDERR_FILENO + 1;
	for (size_t i = 0; i < count; i++) {
		if (kept[i] < (int)from) {
			continue;
		}
		if ((unsigned)kept[i] > from && close_range(from, (unsigned)kept[i] - 1, 0) < 0) {
			return -errno;
		}
		from = (unsigned)kept[i] + 1;
	}
	return close_range(from, ~0U, 0) < 0 ? -errno : 0;
}

/* --- Landlock --- */

/* Newer than the headers that some distributions build with. */
enum {
	FS_EXECUTE = 0,
	FS_WRITE_FILE = 1,
	FS_READ_FILE = 2,
	FS_TRUNCATE = 14,
	FS_IOCTL_DEV = 15,
	RULE_PATH_BENEATH = 1,
	NET_RIGHTS = 3, /* TCP bind and connect */
	SCOPES = 3,     /* abstract sockets and signals */
};

struct ruleset {
	uint64_t fs;
	uint64_t net;
	uint64_t scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

/* Every right that this version of the kernel can take away. */
static uint64_t fs_rights(uint32_t abi)
{
	static const int counts[] = {0, 13, 14, 15, 15, 16};
	size_t last = BOX_COUNT_OF(counts) - 1;
	return BIT(counts[BOX_MIN(abi, last)]) - 1;
}

static int allow(int ruleset, const char *path, uint64_t rights)
{
	struct stat st;
	_cleanup_(box_close_p) int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		return -errno;
	}
	struct path_beneath rule = {.allowed = rights, .fd = fd};
	if (!S_ISDIR(st.st_mode)) {
		rule.allowed &= BIT(FS_EXECUTE) | BIT(FS_READ_FILE) | BIT(FS_WRITE_FILE) |
			BIT(FS_TRUNCATE) | BIT(FS_IOCTL_DEV);
	}
	long r = syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &rule, 0);
	return r < 0 ? -errno : 0;
}

int box_privileges_restrict_paths(uint32_t abi, const char *const *paths, size_t count)
{
	if (abi == 0) {
		return 0;
	}
	struct ruleset handled = {
		.fs = fs_rights(abi),
		.net = abi >= 4 ? NET_RIGHTS : 0,
		.scoped = abi >= 6 ? SCOPES : 0,
	};
	size_t size = abi >= 6 ? sizeof(handled) : abi >= 4 ? 16 : 8;
	_cleanup_(box_close_p) int ruleset = (int)syscall(
		SYS_landlock_create_ruleset, &handled, size, 0);
	if (ruleset < 0) {
		return -errno;
	}
	for (size_t i = 0; i < count; i++) {
		int r = allow(ruleset, paths[i], handled.fs);
		if (r < 0) {
			return r;
		}
	}
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

uint32_t box_privileges_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION);
	return abi > 0 ? (uint32_t)abi : 0;
}
