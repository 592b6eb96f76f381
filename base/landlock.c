/* Landlock's system calls, and which rights each version of its ABI knows. */
#include "base/landlock.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"

enum {
	GET_VERSION = 1, /* LANDLOCK_CREATE_RULESET_VERSION */
	PATH_BENEATH = 1,
	NET_RIGHTS = 3, /* TCP bind and connect */
	SCOPES = 3,     /* abstract sockets and signals */
};

/* Rights that apply to files, not only to folders. */
#define FILE_RIGHTS                                                                \
	(BOX_LANDLOCK_EXECUTE | BOX_LANDLOCK_READ_FILE | BOX_LANDLOCK_WRITE_FILE | \
		BOX_LANDLOCK_TRUNCATE | BOX_LANDLOCK_IOCTL_DEV)

struct ruleset {
	uint64_t files;
	uint64_t net;
	uint64_t scoped;
};

struct path_beneath {
	uint64_t allowed;
	int32_t fd;
} __attribute__((packed));

uint32_t box_landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, GET_VERSION);
	if (abi == 0) {
		errno = ENOSYS; /* a seccomp filter around us may answer this way */
	}
	return abi > 0 ? (uint32_t)abi : 0;
}

uint64_t box_landlock_rights(uint32_t abi)
{
	static const int counts[] = {0, 13, 14, 15, 15, 16};
	size_t last = BOX_COUNT_OF(counts) - 1;
	return (1ULL << counts[abi < last ? abi : last]) - 1;
}

int box_landlock_open(uint32_t abi, enum box_landlock_scope scope)
{
	bool all = scope == BOX_LANDLOCK_ALL;
	struct ruleset forbidden = {
		.files = box_landlock_rights(abi),
		.net = all && abi >= 4 ? NET_RIGHTS : 0,
		.scoped = all && abi >= 6 ? SCOPES : 0,
	};
	/* Older kernels refuse a struct that is longer than their own. */
	size_t size = forbidden.scoped ? sizeof(forbidden) : forbidden.net ? 16 : 8;
	long fd = syscall(SYS_landlock_create_ruleset, &forbidden, size, 0);
	return fd < 0 ? -errno : (int)fd;
}

int box_landlock_allow(int ruleset, uint32_t abi, int fd, uint64_t rights)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	struct path_beneath rule = {.allowed = rights & box_landlock_rights(abi), .fd = fd};
	if (!S_ISDIR(st.st_mode)) {
		rule.allowed &= FILE_RIGHTS;
	}
	long r = syscall(SYS_landlock_add_rule, ruleset, PATH_BENEATH, &rule, 0);
	return r < 0 ? -errno : 0;
}

int box_landlock_restrict(int ruleset)
{
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0 ? -errno : 0;
}

int box_landlock_enter(uint32_t abi, enum box_landlock_scope scope,
	const struct box_landlock_rule *rules, size_t count, const char **ret_step)
{
	*ret_step = "landlock_create_ruleset";
	_cleanup_(box_close_p) int ruleset = box_landlock_open(abi, scope);
	if (ruleset < 0) {
		return ruleset;
	}
	*ret_step = "landlock_add_rule";
	for (size_t i = 0; i < count; i++) {
		int r = box_landlock_allow(ruleset, abi, rules[i].fd, rules[i].rights);
		if (r < 0) {
			return r;
		}
	}
	*ret_step = "landlock_restrict_self";
	return box_landlock_restrict(ruleset);
}
