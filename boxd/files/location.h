/* Where an opened folder is: judged by device and inode on the way up from its fd and by the kind of
 * its file system, never by the text of a path, so that no link or race leads past a judgement. Of
 * bind mounts those of a folder itself are seen; of one below it only the kind of file system is. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The mount tells a folder from a bind mount of itself inside itself. */
struct box_location {
	unsigned major;
	unsigned minor;
	uint64_t inode;
	uint64_t mount;
};

int box_location_of(int fd, struct box_location *ret_place);

/* Opens a folder as O_PATH, following links but not those of /proc that are no paths. */
int box_location_open_following(int parent, const char *name, int *ret_fd);
/* The same, following none: -ELOOP. `name` is one component. */
int box_location_open_no_follow(int parent, const char *name, int *ret_fd);

/* The same folder or file, through whatever mount. */
bool box_location_same(const struct box_location *a, const struct box_location *b);

/* Calls `visit` for a folder and all above it until it gives true: 1, 0 when it never did, or
 * -errno. */
typedef bool box_location_visitor(void *arg, const struct box_location *place);
int box_location_visit_upwards(int start, box_location_visitor *visit, void *arg);

/* Whether an opened folder is this one or below it. */
bool box_location_is_below(int fd, const struct box_location *place);

/* 0 when it is in a file system that holds files; -EPERM in one by which the kernel shows itself. */
int box_location_check_filesystem(int fd);
/* 0 when the folder is neither one of the folders of the system nor below one, and of a kind that
 * holds files: -EPERM. */
int box_location_check_not_in_system(int fd);
/* 0 when it contains none of them: -EPERM. */
int box_location_check_contains_no_system(int fd);
/* 0 when `name`, made in `parent`, would be none of those that this host has not: -EPERM. */
int box_location_check_makes_no_system(int parent, const char *name);
