/* Packages that are in their place before the disk has them.
 *
 * An install is answered when its packages can be used, and made to last after the answer. Until
 * then marks in staging name them, with the boot of the machine that they were made in. Who finds
 * marks of the same boot knows that only a process has died: all is there, and is made to last now.
 * Marks of another boot mean that the machine went down meanwhile: what they name may be half a
 * package, and is removed. So it is when the disk has refused something, which is told only once: the
 * marks are renamed then, to be of no boot. Marks are folders: a file system keeps the order of their
 * making and of the moves that follow, which it does not do with what is in files.
 */
#pragma once

#include <stdbool.h>

#include "skills/store/stage.h"

#define BOX_DEFERRED_SYNC_NAME_SIZE 128

/* What is still to be made to last; one whose root_fd is -1: nothing. */
struct box_deferred_sync {
	int root_fd;            /* of the tenant */
	struct box_stage stage; /* with its lock: the marks stay ours */
	char marks[BOX_DEFERRED_SYNC_NAME_SIZE];
};

/* Whether boots can be told apart here. Reads /proc when it is called first, so not behind a fence. */
bool box_deferred_sync_is_possible(void);

/* Makes a folder for marks, whose name is written on success only, and marks in it. 0 or -errno; what
 * there is of it is the caller's to remove with box_stage_remove. */
int box_deferred_sync_begin(struct box_stage *stage, char ret_marks[BOX_DEFERRED_SYNC_NAME_SIZE]);
int box_deferred_sync_mark(struct box_stage *stage, const char *marks, const char *package);

/* A package is no more: whoever marked one of its name, it is not the next one. */
void box_deferred_sync_forget(struct box_stage *stage, const char *package);

/* All packages are in their place: they last when box_deferred_sync_finish has been called. 0, or -errno and
 * nothing is taken over. */
int box_deferred_sync_hand_over(
	const struct box_stage *stage, const char *marks, struct box_deferred_sync *ret_later);
/* Waits for the disk (one syncfs: for what others have written there too), then the marks go. */
void box_deferred_sync_finish(struct box_deferred_sync *later);

/* For who has the lock of a staging folder alone: marks that somebody has left are heeded. False when
 * they must stay. */
bool box_deferred_sync_recover(struct box_stage *stage);
