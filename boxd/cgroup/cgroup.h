/* The cgroups of boxes: version 2, version 1 or both at once, found by trying.
 *
 * One group of our own (the lot) holds a group for each box, in every hierarchy that is needed. It
 * is ours as long as we hold a lock on its folder: whoever finds a lot whose lock is free removes
 * it, whatever its name. A limit counts only when it was read back.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_cgroups; /* where our boxes' groups are */
struct box_cgroup;  /* of one box */

enum box_cgroup_mode {
	BOX_CGROUP_NONE, /* no limits can be set here; why: box_cgroups_why */
	BOX_CGROUP_V1,
	BOX_CGROUP_V2,
};

/* 0 means no limit. */
struct box_cgroup_limits {
	uint64_t memory_bytes; /* of memory and swap together */
	uint32_t pids;
	uint32_t cpu_milli; /* thousandths of a processor */
};

/* Finds what there is, moves this process aside where version 2 wants that, makes the lot and
 * removes lots of dead owners. Never fails: without a usable hierarchy the mode is NONE.
 * Controllers needed: memory, pids, cpu. cgroup.kill of version 2 is used where it is. */
struct box_cgroups *box_cgroups_open(void);
enum box_cgroup_mode box_cgroups_mode(const struct box_cgroups *cgroups);
/* Why the mode is NONE, in words for an operator; "" otherwise. */
const char *box_cgroups_why(const struct box_cgroups *cgroups);
/* Whether the limit of memory holds the buffers of TCP and UDP sockets too. */
bool box_cgroups_hold_sockets(const struct box_cgroups *cgroups);
/* Removes the lot, which must be empty of boxes. */
void box_cgroups_close(struct box_cgroups *cgroups);

/* For a process that outlives us. It takes the folders that hold our lots, to keep, and forgets the
 * lots themselves: when it has closed all else, they are locked by us alone. At most
 * BOX_CGROUP_PROCS_FDS_MAX. */
size_t box_cgroups_become_cleaner(struct box_cgroups *cgroups, int *ret_folders);
/* Nothing of any file system but what this takes from here on: reading, writing, removing folders,
 * below these. 0 also where the kernel has no Landlock. */
int box_cgroup_confine(const int *folders, size_t count);
/* In the heir, when we have died: kills what is in our lots and removes them, as a new start would;
 * gives back what version 2 had to be told. True when nothing is left to do; else again a little
 * later. What another runtime has, or has just taken over, is left alone. */
bool box_cgroups_clean_up(struct box_cgroups *cgroups);

/* Makes the group of a box, writes every limit and reads it back. The error names the file. On
 * failure nothing remains. `name` is [A-Za-z0-9_.-]+ and unique. */
int box_cgroup_make(struct box_cgroups *cgroups, const char *name,
	const struct box_cgroup_limits *limits, struct box_cgroup **ret_cgroup,
	struct box_err *err);
/* The same limits for a group that was made without. */
int box_cgroup_limit(
	struct box_cgroup *cgroup, const struct box_cgroup_limits *limits, struct box_err *err);
/* The host's id of the box's own root. The doors of parts go through other hands: they are for what
 * this id starts in this group, and for nothing else. */
void box_cgroup_set_root_id(struct box_cgroup *cgroup, uint32_t id);
/* A folder fd for CLONE_INTO_CGROUP (version 2), or -1: then by the doors. */
int box_cgroup_folder(const struct box_cgroup *cgroup);
/* The doors of every hierarchy that box_cgroup_folder does not cover: files to which the new
 * process itself writes "0" to go in. Going in by oneself is the quick way: to be put in by another
 * waits, at times for milliseconds, until the kernel has stopped every fork and exit there is. The
 * fds are the caller's. */
#define BOX_CGROUP_PROCS_FDS_MAX 4
int box_cgroup_open_procs_fds(const struct box_cgroup *cgroup,
	int ret_fds[BOX_CGROUP_PROCS_FDS_MAX], size_t *ret_count, struct box_err *err);
/* In the new process. 0 or -errno. */
int box_cgroup_enter(const int *fds, size_t count);
/* An fd that tells how many were killed for memory when it is read from its beginning:
 * memory.events.local (version 2) or memory.oom_control (version 1), for box_oom_parse_kills. What is in
 * a part does not count here. The group's, or -1. */
int box_cgroup_events(const struct box_cgroup *cgroup);
/* The same for what has gone on since the group was divided, to be added to the first; or -1. */
int box_cgroup_leaf_events(const struct box_cgroup *cgroup);

/* What a group has taken of memory and cannot give back without swapping; 0 when it is not known. */
uint64_t box_cgroup_memory(const struct box_cgroup *cgroup);
/* What our own group, and those above it, may have and may still take: of the one that has the least
 * left. UINT64_MAX where nothing limits it. */
void box_cgroups_memory(const struct box_cgroups *cgroups, uint64_t *ret_limit, uint64_t *ret_free);

/* A part is a group below a box's, for one process and what it starts, with a limit of memory of
 * its own. The first one divides the box's group: in version 2 all that runs in it goes down into a
 * leaf. `number` is not 0 and is that of no other part of the box. On failure there is no part. */
int box_process_cgroups_make_group(
	struct box_cgroup *cgroup, uint32_t number, uint64_t memory_bytes, struct box_err *err);
/* Its door, as above, and its events; the fds are the caller's. */
int box_process_cgroups_open_group(const struct box_cgroup *cgroup, uint32_t number, int *ret_door,
	int *ret_events, struct box_err *err);
/* 0, or -EBUSY while something is in it. */
int box_process_cgroups_remove_group(const struct box_cgroup *cgroup, uint32_t number);

/* Kills all that is in it, and removes it with its parts: 0, or -EBUSY while something still dies:
 * try again a little later. After 0 the struct is gone. */
int box_cgroup_remove(struct box_cgroup *cgroup);
