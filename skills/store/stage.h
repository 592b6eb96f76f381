/* The staging folder of a tenant: what is being built or thrown away is there, and nowhere else.
 *
 * It is made when it is needed and removed when it is empty. Who works in it has a shared lock on it;
 * who finds it without one may clear it, because then it is left over from a crash. Marks of installs
 * that do not last yet are heeded first (skills/store/deferred_sync.h).
 */
#pragma once

#include <stddef.h>

#define BOX_STAGE_NAME \
	".box-staging" /* at the top of a tenant's folder; discovery passes it over */
#define BOX_STAGE_ITEM_SIZE 48

struct box_stage {
	int root_fd; /* the tenant's; not owned */
	int fd;
};

/* Opens or makes it; what a crash has left in it goes then, if a sweep came too early for it (a
 * helper of who was killed lives on for a moment, with the lock). 0 or -errno; -ENOLCK when another
 * program keeps it locked. */
int box_stage_open(int root_fd, struct box_stage *ret_stage);
void box_stage_close(struct box_stage *stage);
static inline void box_stage_close_p(struct box_stage *stage)
{
	box_stage_close(stage);
}

/* A name in it that is not taken. */
void box_stage_name(char name[BOX_STAGE_ITEM_SIZE]);
/* A new empty folder: its fd, or -errno. */
int box_stage_folder(struct box_stage *stage, char ret_name[BOX_STAGE_ITEM_SIZE]);
/* Removes one item with all that is in it, as far as that can be. */
void box_stage_remove(struct box_stage *stage, const char *name);
/* Moves an entry of a folder here and removes it: whoever looks sees all of it or nothing. */
int box_stage_discard(struct box_stage *stage, int dir_fd, const char *name);

/* Puts a file in a folder in one step: the old content or the new, never a part. */
int box_stage_put(struct box_stage *stage, int dir_fd, const char *name, const char *bytes,
	size_t len, unsigned mode);

/* Clears what a crash has left below a tenant's folder. */
void box_stage_sweep(int root_fd);
