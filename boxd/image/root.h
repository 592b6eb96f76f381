/* A root file system in the form that boxes get: the folders at its top as read-only mounts, the links
 * beside them as text, and an /etc made for boxes. Called by images.c, common_mounts.c and
 * caller_roots.c. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "plan/plan.h"

struct box_root {
	size_t count;
	struct box_root_entry entries[BOX_ROOT_ENTRIES_MAX];
	int trees[BOX_ROOT_ENTRIES_MAX]; /* per entry; -1 for links */
	int etc;
	bool once; /* the mounts are detached, and used for one box */
};

void box_root_init(struct box_root *root);
void box_root_close(struct box_root *root);

/* Whose root it is decides what is taken of it, and how carefully. */
enum box_root_kind {
	BOX_ROOT_HOST,     /* the host's own: its system folders */
	BOX_ROOT_OPERATOR, /* everything that boxes do not have of their own, with mounts in it */
	BOX_ROOT_CALLER,   /* the same without mounts, detached: no `anchor`; /etc is still empty */
};

/* Takes an opened folder apart; the mounts are attached to new folders in `anchor`. 0 or -errno. */
int box_root_take(int folder, enum box_root_kind whose, int anchor, struct box_root *root);

/* Whether the trees taken from a root still have a shell. */
bool box_root_has_shell(const struct box_root_entry *entries, const int *trees, size_t count);

/* Whether it has a shell to run commands with: 0, or -ENOENT. */
int box_root_check_shell(int folder);

/* Puts its entries into `host`, so that box_plan_make makes boxes of this root. `path` is its location,
 * for messages; it must outlive the plan. */
void box_root_describe(const struct box_root *root, const char *path, struct box_plan_host *host);
