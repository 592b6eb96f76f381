/* Resolves a path in the box to the folder that contains its last name, one name at a time, without
 * leaving a base folder. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "protocol/init_file.h"

#define BOX_PATH_WALK_LEFT_MAX (2 * BOX_INIT_FILE_TEXT_MAX)

enum box_path_walk_flag {
	BOX_PATH_WALK_FOLLOW = 1 << 0,  /* follow the last name too, if it is a link */
	BOX_PATH_WALK_PARENTS = 1 << 1, /* create missing folders on the way */
};

struct box_path_walk {
	int base;                              /* O_PATH; the folder that must not be left */
	bool is_root;                          /* the base is the root of the box */
	int folder;                            /* O_PATH; the folder that the walk has reached */
	char name[BOX_INIT_FILE_NAME_MAX + 1]; /* last name, in that folder; "": the base itself */
	bool slash;                            /* the path ended with a slash: must be a folder */
	uint32_t why;                          /* after an error: enum box_init_file_why */
	uint32_t type;                         /* with BOX_INIT_FILE_WHY_TYPE */

	/* Used by the walk itself. */
	const char *base_path;
	unsigned links;                     /* how many were followed */
	char trail[BOX_INIT_FILE_TEXT_MAX]; /* names from the base to the folder */
	char left[BOX_PATH_WALK_LEFT_MAX];  /* the rest of the path */
};

/* Walks `path` from `base`, a path from `root`, the root of the box. The last name need not exist. Must be
 * closed in any case. 0 or -errno. */
int box_path_walk(
	struct box_path_walk *walk, int root, const char *base, const char *path, unsigned flags);
void box_path_walk_close(struct box_path_walk *walk);

/* Opens what the walk found with O_PATH. An fd or -errno. */
int box_path_walk_open_path(struct box_path_walk *walk, struct stat *ret_stat);
/* Checks that it is a regular file, without opening it. 0 or -errno. */
int box_path_walk_check_regular(struct box_path_walk *walk, struct stat *ret_stat);
/* Opens a regular file. Anything else is refused by its type, without blocking. */
int box_path_walk_open(struct box_path_walk *walk, int flags, struct stat *ret_stat);
/* Opens a folder to read its entries. */
int box_path_walk_open_folder(struct box_path_walk *walk);

/* Opens the folder at `trail` below `base` with O_PATH, without following links; "" is the base itself. An
 * fd or -errno. */
int box_path_walk_descend(int base, const char *trail);

/* -EACCES if `fd` is in a file system like /proc, else 0. */
int box_path_walk_check_file_system(int fd);

uint32_t box_path_walk_file_type(mode_t mode);

/* Copies a text with its NUL. The caller ensures that it fits. */
static inline void box_path_walk_copy(char *to, const char *text)
{
	memcpy(to, text, strlen(text) + 1);
}
