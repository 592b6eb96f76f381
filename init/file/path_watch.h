/* What a watch knows of the folders below it: shared by path_watch.c, which reads events, and
 * path_watch_tree.c, which knows the folders. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "protocol/init_file.h"

#define BOX_WATCH_TREE_BUCKETS 4096U
#define BOX_WATCH_TREE_NONE UINT32_MAX

/* A watched folder; the first is the one that was asked for. */
struct box_watch_tree_node {
	int wd; /* of inotify; -1: a free place */
	uint32_t parent;
	uint32_t next; /* in its bucket, or the next free place */
	char name[BOX_INIT_FILE_NAME_MAX + 1];
};

struct box_watch_tree {
	int base;             /* O_PATH of the first folder */
	int above;            /* O_PATH of the folder that it is in, or -1 */
	const char *own_name; /* its name there */
	int above_wd;         /* of that folder, of which only the end of ours matters; or -1 */
	int inotify;
	bool recursive;
	struct box_watch_tree_node *nodes;
	uint32_t used; /* no place from here on was ever used */
	uint32_t free;
	uint32_t buckets[BOX_WATCH_TREE_BUCKETS]; /* by wd */
	/* Told for what is found in a folder that came later; NULL: nobody. Returns 0 or -errno. */
	int (*found)(void *arg, const char *path, bool is_folder);
	void *arg;
};

/* Opens inotify anew and watches what there is. 0 or -errno; -E2BIG: too many folders. */
int box_watch_tree_begin(struct box_watch_tree *tree);
void box_watch_tree_end(struct box_watch_tree *tree);

/* The folder of a wd, or BOX_WATCH_TREE_NONE. */
uint32_t box_watch_tree_find(const struct box_watch_tree *tree, int wd);
/* That of a name in a folder. */
uint32_t box_watch_tree_child(const struct box_watch_tree *tree, uint32_t parent, const char *name);
/* The path of `name` ("": none) in a folder, below the first. 0, or -ENAMETOOLONG. */
int box_watch_tree_path(const struct box_watch_tree *tree, uint32_t node, const char *name,
	char path[BOX_INIT_FILE_TEXT_MAX]);

/* A folder has come: it and all in it. 0 or -errno; that it went again is no error. */
int box_watch_tree_add(struct box_watch_tree *tree, uint32_t parent, const char *name);
/* It has another name now. */
void box_watch_tree_move(
	struct box_watch_tree *tree, uint32_t node, uint32_t parent, const char *name);
/* It has left the tree, and all below it: nothing of them is told any more. */
void box_watch_tree_drop(struct box_watch_tree *tree, uint32_t node);
/* The kernel has forgotten it. */
void box_watch_tree_forget(struct box_watch_tree *tree, uint32_t node);
