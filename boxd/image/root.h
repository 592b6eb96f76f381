/* A root file system as boxes get it: the folders at its top as read-only mounts, the links beside
 * them as text, and an /etc made of its own. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "plan/plan.h"

struct box_root {
	size_t count;
	struct box_root_entry entries[BOX_ROOT_ENTRIES_MAX];
	int trees[BOX_ROOT_ENTRIES_MAX]; /* of each entry; -1 for links */
	int etc;
	bool once; /* the mounts are detached, and go into one box */
};

void box_root_init(struct box_root *root);
void box_root_close(struct box_root *root);

/* Whose it is decides what is taken of it, and how carefully. */
enum box_root_kind {
	BOX_ROOT_HOST,     /* the host's own: its system folders */
	BOX_ROOT_OPERATOR, /* all that boxes do not have for themselves, with what is mounted in it */
	BOX_ROOT_CALLER, /* the same without that, detached: `anchor` is not used; its etc is empty yet */
};

/* Takes it from an opened folder; the mounts hang on new folders of `anchor`. 0, or -errno. */
int box_root_take(int folder, enum box_root_kind whose, int anchor, struct box_root *root);

/* Whether the trees that were taken of a root still have a shell. Called by host_state.c and images.c. */
bool box_root_has_shell(const struct box_root_entry *entries, const int *trees, size_t count);

/* Whether it has a shell that commands can be given to: 0, or -ENOENT. */
int box_root_check_shell(int folder);

/* Puts its entries into `host`: box_plan_make then makes boxes of this root. `path` says where it
 * is, for people; it must outlive the plan. */
void box_root_describe(const struct box_root *root, const char *path, struct box_plan_host *host);
