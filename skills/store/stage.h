/* A tenant's staging folder: packages are built and removed there, and nowhere else.
 *
 * It is created when needed and removed when empty. Whoever works in it holds a shared lock on it; a process
 * that finds it unlocked may empty it, because the content is left over from a crash. Marks of installs that
 * are not synced yet are handled first (skills/store/deferred_sync.h).
 */
#pragma once

#include <stddef.h>

#define BOX_STAGE_NAME ".box-staging" /* at the top of a tenant's folder; discovery skips it */
#define BOX_STAGE_ITEM_SIZE 48

struct box_stage {
	int root_fd; /* the tenant's; not owned */
	int fd;
};

/* Opens or creates it, and removes what a crash has left in it (an earlier sweep may have been too early: the
 * helper of a killed process lives on for a moment and keeps the lock). 0 or -errno; -ENOLCK if another
 * program keeps it locked. */
int box_stage_open(int root_fd, struct box_stage *ret_stage);
void box_stage_close(struct box_stage *stage);
static inline void box_stage_close_p(struct box_stage *stage)
{
	box_stage_close(stage);
}

/* An unused name in it. */
void box_stage_name(char name[BOX_STAGE_ITEM_SIZE]);
/* A new empty folder: its fd, or -errno. */
int box_stage_folder(struct box_stage *stage, char ret_name[BOX_STAGE_ITEM_SIZE]);
/* Removes one item with everything in it, as far as possible. */
void box_stage_remove(struct box_stage *stage, const char *name);
/* Moves an entry of a folder into staging and removes it: others see all of it or nothing. */
int box_stage_discard(struct box_stage *stage, int dir_fd, const char *name);

/* Replaces a file in a folder atomically: others see the old content or the new. */
int box_stage_put(struct box_stage *stage, int dir_fd, const char *name, const char *bytes,
	size_t len, unsigned mode);

/* Removes what a crash has left below a tenant's folder. */
void box_stage_sweep(int root_fd);
