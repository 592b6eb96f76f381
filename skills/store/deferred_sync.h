/* Syncs installed packages after the answer. For store.c and store_zip.c.
 *
 * An install is answered when its packages can be used, and synced to disk afterwards. Until then marks in
 * staging name them, with the boot id of the machine. Marks of the current boot that are found at start mean
 * that only a process has died: all data are there, and are synced now. Marks of another boot mean that the
 * machine went down meanwhile: the packages that they name may be incomplete, and are removed. The same
 * happens after a disk error, which the kernel reports only once: the marks are then renamed so that they
 * belong to no boot. Marks are folders, because a file system keeps the order in which folders are created
 * and moved, but not that of file contents.
 */
#pragma once

#include <stdbool.h>

#include "skills/store/stage.h"

#define BOX_DEFERRED_SYNC_NAME_SIZE 128

/* The packages still to be synced; none if root_fd is -1. */
struct box_deferred_sync {
	int root_fd;            /* the tenant's folder */
	struct box_stage stage; /* with its lock, so that nobody else handles the marks */
	char marks[BOX_DEFERRED_SYNC_NAME_SIZE];
};

/* Whether boots can be told apart here. Reads /proc on its first call, so that must precede confinement. */
bool box_deferred_sync_is_possible(void);

/* Creates a folder for marks, whose name is written on success only. 0 or -errno; the caller removes what
 * there is of it with box_stage_remove. */
int box_deferred_sync_begin(struct box_stage *stage, char ret_marks[BOX_DEFERRED_SYNC_NAME_SIZE]);
int box_deferred_sync_mark(struct box_stage *stage, const char *marks, const char *package);

/* Removes the marks of a package that was removed, so that they do not apply to the next one of its name. */
void box_deferred_sync_forget(struct box_stage *stage, const char *package);

/* Takes over once all packages are in their place; they are durable after box_deferred_sync_finish. 0, or
 * -errno and nothing is taken over. */
int box_deferred_sync_hand_over(
	const struct box_stage *stage, const char *marks, struct box_deferred_sync *ret_deferred);
/* Waits for the disk (one syncfs, which includes what others have written there), then removes the marks. */
void box_deferred_sync_finish(struct box_deferred_sync *deferred);

/* Handles marks left by a process that died. The caller holds the only lock on the staging folder. False if
 * the marks must stay. */
bool box_deferred_sync_recover(struct box_stage *stage);
