/* Where an opened folder is: judged by device and inode on the way up from its fd, never by the
 * text of a path, so that no link, bind mount or race leads past a judgement. */
#pragma once

#include <stdint.h>

struct box_policy;

/* The mount tells a folder from a bind mount of itself inside itself. */
struct box_place {
	unsigned major;
	unsigned minor;
	uint64_t inode;
	uint64_t mount;
};

int box_place_of(int fd, struct box_place *ret_place);

/* Opens a folder as O_PATH, following links but not those of /proc that are no paths. */
int box_place_open(int parent, const char *name, int *ret_fd);

/* 0 when the folder is neither one of the folders of the system nor below one: -EPERM. */
int box_place_check_not_under(int fd);
/* 0 when it contains none of them: -EPERM. */
int box_place_check_contains_none(int fd);
/* 0 when `name`, made in `parent`, would be none of those that this host has not: -EPERM. */
int box_place_check_makes_none(int parent, const char *name);
/* 0 when it is at or below one of the operator's roots, or there are none: -EXDEV. */
int box_place_check_roots(int fd, const struct box_policy *policy);
