/* The adapter of the kernel's Landlock for the programs here. */
#include "skills/landlock.h"

#include <errno.h>
#include <linux/landlock.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"

/* Newer than the headers that some distributions build with. */
#define REFER (1ULL << 13)
#define TRUNCATE (1ULL << 14)

struct attributes {
	uint64_t handled_access_fs;
	uint64_t handled_access_net;
	uint64_t scoped;
};

static int fail(struct box_err *err, const char *step)
{
	return box_err_set(err, BOX_ERR_OS, errno, "%s: %s", step, box_err_strerror(errno));
}

/* Every right that this version of the kernel can take away. */
static struct attributes everything(long abi)
{
	static const int fs_rights[] = {0, 13, 14, 15, 15, 16};
	size_t last = BOX_COUNT_OF(fs_rights) - 1;
	int rights = fs_rights[(size_t)abi < last ? (size_t)abi : last];
	return (struct attributes){
		.handled_access_fs = (1ULL << rights) - 1,
		.handled_access_net = abi >= 4 ? 3 : 0, /* TCP bind and connect */
		.scoped = abi >= 6 ? 3 : 0,             /* abstract sockets and signals */
	};
}

static size_t attributes_size(long abi)
{
	return abi >= 6 ? sizeof(struct attributes) : abi >= 4 ? 16 : 8;
}

static uint64_t rights_of(unsigned int may)
{
	uint64_t rights = 0;
	if (may & BOX_LANDLOCK_READ) {
		rights |= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
	}
	if (may & BOX_LANDLOCK_WRITE) {
		rights |= LANDLOCK_ACCESS_FS_WRITE_FILE;
	}
	if (may & BOX_LANDLOCK_MAKE) {
		rights |= LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_DIR;
	}
	if (may & BOX_LANDLOCK_MOVE) {
		rights |= LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | REFER |
			TRUNCATE;
	}
	return rights;
}

static bool wants_moves(const struct box_landlock_rule *rules, size_t count)
{
	bool wanted = false;
	for (size_t i = 0; i < count; i++) {
		wanted = wanted || (rules[i].may & BOX_LANDLOCK_MOVE);
	}
	return wanted;
}

int box_landlock_enter(const struct box_landlock_rule *rules, size_t count, struct box_err *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	if (abi < 0) {
		return fail(err, "Landlock");
	}
	if (abi < 2 && wants_moves(rules, count)) {
		return box_err_set(err, BOX_ERR_OS, EOPNOTSUPP,
			"Landlock: files can be moved between folders since Linux 5.19");
	}
	struct attributes attributes = everything(abi);
	_cleanup_(box_close_p) int ruleset = (int)syscall(
		SYS_landlock_create_ruleset, &attributes, attributes_size(abi), 0);
	if (ruleset < 0) {
		return fail(err, "landlock_create_ruleset");
	}
	for (size_t i = 0; i < count; i++) {
		struct landlock_path_beneath_attr rule = {
			.allowed_access = rights_of(rules[i].may) & attributes.handled_access_fs,
			.parent_fd = rules[i].fd,
		};
		if (syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) <
			0) {
			return fail(err, "landlock_add_rule");
		}
	}
	return syscall(SYS_landlock_restrict_self, ruleset, 0) < 0
		? fail(err, "landlock_restrict_self")
		: 0;
}
