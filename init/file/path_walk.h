/* From a path of the box to the folder that holds its last name, one name at a time. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include "protocol/init_file.h"

#define BOX_PATH_WALK_LEFT_MAX (2 * BOX_INIT_FILE_TEXT_MAX)

enum box_path_walk_flag {
	BOX_PATH_WALK_FOLLOW = 1 << 0,  /* the last name too, if it is a link */
	BOX_PATH_WALK_PARENTS = 1 << 1, /* folders on the way are made */
};

struct box_path_walk {
	int place;                             /* O_PATH; what cannot be left */
	bool is_root;                          /* the place is the root of the box */
	int folder;                            /* O_PATH; where the walk is */
	char name[BOX_INIT_FILE_NAME_MAX + 1]; /* in the folder; "": the place itself */
	bool slash;                            /* the path ended with one: it must be a folder */
	uint32_t why;                          /* with an error: enum box_init_file_why */
	uint32_t type;                         /* with BOX_INIT_FILE_WHY_TYPE */

	/* For the walk itself. */
	const char *place_text;
	unsigned links;
	char trail[BOX_INIT_FILE_TEXT_MAX]; /* names from the place to the folder */
	char left[BOX_PATH_WALK_LEFT_MAX];  /* what is still to be walked */
};

/* 0 or -errno. `root` is the root of the box. What comes last need not be there. To be closed in
 * every case. */
int box_path_walk(
	struct box_path_walk *walk, int root, const char *place, const char *path, unsigned flags);
void box_path_walk_close(struct box_path_walk *walk);

/* O_PATH for what the walk found. An fd or -errno. */
int box_path_walk_open_path(struct box_path_walk *walk, struct stat *ret_stat);
/* The same, and it must be a regular file; nothing is opened. 0 or -errno. */
int box_path_walk_check_regular(struct box_path_walk *walk, struct stat *ret_stat);
/* A regular file for its bytes; anything else is refused by its type and never waited for. */
int box_path_walk_open(struct box_path_walk *walk, int flags, struct stat *ret_stat);
/* A folder for its names. */
int box_path_walk_open_folder(struct box_path_walk *walk);

/* The folder at `trail` below `base`, no link followed; "" is base itself. O_PATH fd or -errno. */
int box_path_walk_descend(int base, const char *trail);

/* Whether what `fd` stands for lies in a file system like /proc. 0, or -EACCES. */
int box_path_walk_check_file_system(int fd);

uint32_t box_path_walk_file_type(mode_t mode);

/* A text with its NUL; the caller knows that it fits. */
static inline void box_path_walk_copy(char *to, const char *text)
{
	memcpy(to, text, strlen(text) + 1);
}
