/* Where an opened folder is: judged by device and inode on the way up from its fd and by the kind of
 * its file system, never by the text of a path, so that no link or race leads past a judgement. Of
 * bind mounts those of a folder itself are seen; of one below it only the kind of file system is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct box_policy;

/* The mount tells a folder from a bind mount of itself inside itself. */
struct box_place {
	unsigned major;
	unsigned minor;
	uint64_t inode;
	uint64_t mount;
};

/* The policy's roots of both kinds that are there. */
struct box_place_roots {
	size_t count;
	struct box_place places[2 * BOX_MOUNT_ROOTS_MAX];
};

int box_place_of(int fd, struct box_place *ret_place);

/* Opens a folder as O_PATH, following links but not those of /proc that are no paths. */
int box_place_open_any(int parent, const char *name, int *ret_fd);
/* The same, following none: -ELOOP. `name` is one component. */
int box_place_open_plain(int parent, const char *name, int *ret_fd);

void box_place_find_roots(const struct box_policy *policy, struct box_place_roots *ret_roots);
/* Whether an opened folder is one of them; with `or_below`, or below one. */
bool box_place_is_root(int fd, const struct box_place_roots *roots, bool or_below);

/* 0 when it is in a file system that holds files; -EPERM in one by which the kernel shows itself. */
int box_place_check_kind(int fd);
/* 0 when the folder is neither one of the folders of the system nor below one, and of a kind that
 * holds files: -EPERM. */
int box_place_check_not_under(int fd);
/* 0 when it contains none of them: -EPERM. */
int box_place_check_contains_none(int fd);
/* 0 when `name`, made in `parent`, would be none of those that this host has not: -EPERM. */
int box_place_check_makes_none(int parent, const char *name);
/* 0 when it is at or below one of the operator's roots, or there are none: -EXDEV. */
int box_place_check_roots(int fd, const struct box_policy *policy);
