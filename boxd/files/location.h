/* Where an opened folder is: found by device and inode on the way up from its fd, and by the type of
 * its file system, never by the text of a path, so no link or race can defeat a check. A bind mount of
 * a system folder itself is recognised; of a folder below it only the type of file system is checked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The mount id tells a folder from a bind mount of it inside itself. */
struct box_location {
	unsigned major;
	unsigned minor;
	uint64_t inode;
	uint64_t mount;
};

int box_location_of(int fd, struct box_location *ret_place);

/* Opens a folder as O_PATH, following links except magic links of /proc. */
int box_location_open_following(int parent, const char *name, int *ret_fd);
/* The same without following links: -ELOOP. `name` is one component. */
int box_location_open_no_follow(int parent, const char *name, int *ret_fd);

/* The same folder or file, through whichever mount. */
bool box_location_same(const struct box_location *a, const struct box_location *b);

/* Calls `visit` for a folder and each folder above it until it returns true: 1; 0 when it never did; or
 * -errno. */
typedef bool box_location_visitor(void *arg, const struct box_location *place);
int box_location_visit_upwards(int start, box_location_visitor *visit, void *arg);

/* Whether an opened folder is this one or below it. */
bool box_location_is_below(int fd, const struct box_location *place);

/* 0 for a file system that stores files; -EPERM for one through which the kernel exposes itself. */
int box_location_check_filesystem(int fd);
/* 0 when the folder is neither a system folder nor below one, on a file system that stores files; else
 * -EPERM. */
int box_location_check_not_in_system(int fd);
/* 0 when it contains no system folder; else -EPERM. */
int box_location_check_contains_no_system(int fd);
/* 0 unless `name`, made in `parent`, would be a system folder that this host lacks: -EPERM. */
int box_location_check_makes_no_system(int parent, const char *name);
