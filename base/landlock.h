/* Landlock: a process gives up access to all files except below the folders it allows, and if wanted
 * also TCP, abstract Unix sockets and signals to other processes.
 *
 * Shared by all programs. The kernel's constants are repeated here because box-init is built against a
 * C library without the Landlock header and some distributions have an old one. Nothing here allocates
 * or logs, so it can be used in a freshly forked child. All functions return 0 or more, or -errno.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The kernel's LANDLOCK_ACCESS_FS_*. */
enum {
	BOX_LANDLOCK_EXECUTE = 1 << 0,
	BOX_LANDLOCK_WRITE_FILE = 1 << 1,
	BOX_LANDLOCK_READ_FILE = 1 << 2,
	BOX_LANDLOCK_READ_DIR = 1 << 3,
	BOX_LANDLOCK_REMOVE_DIR = 1 << 4,
	BOX_LANDLOCK_REMOVE_FILE = 1 << 5,
	BOX_LANDLOCK_MAKE_CHAR = 1 << 6,
	BOX_LANDLOCK_MAKE_DIR = 1 << 7,
	BOX_LANDLOCK_MAKE_REG = 1 << 8,
	BOX_LANDLOCK_MAKE_BLOCK = 1 << 11,
	BOX_LANDLOCK_REFER = 1 << 13,     /* since ABI 2: move or link from folder to folder */
	BOX_LANDLOCK_TRUNCATE = 1 << 14,  /* since ABI 3 */
	BOX_LANDLOCK_IOCTL_DEV = 1 << 15, /* since ABI 5 */
};

enum box_landlock_scope {
	BOX_LANDLOCK_FILES, /* file systems only */
	BOX_LANDLOCK_ALL, /* also TCP bind and connect (ABI 4), abstract sockets and signals (ABI 6) */
};

/* The ABI version of this kernel; or 0, with the reason in errno. */
uint32_t box_landlock_abi(void);

/* The file rights that this ABI version can restrict. */
uint64_t box_landlock_rights(uint32_t abi);

/* An fd of a ruleset that handles every right this ABI version knows. */
int box_landlock_open(uint32_t abi, enum box_landlock_scope scope);

/* Allows rights on a file, or on a folder and everything below it; an O_PATH fd is enough. Rights that
 * the ABI version does not know, or that files do not have, are left out. */
int box_landlock_allow(int ruleset, uint32_t abi, int fd, uint64_t rights);

/* Enforces the ruleset on this thread. Needs no_new_privs or CAP_SYS_ADMIN. */
int box_landlock_restrict(int ruleset);

struct box_landlock_rule {
	int fd; /* file or folder, as in box_landlock_allow */
	uint64_t rights;
};

/* All of the above: makes a ruleset, adds the rules, and enforces it. On an error `ret_step` is the
 * name of the system call that failed. */
int box_landlock_enter(uint32_t abi, enum box_landlock_scope scope,
	const struct box_landlock_rule *rules, size_t count, const char **ret_step);
