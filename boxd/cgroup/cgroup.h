/* The cgroups of boxes: version 2, version 1 or both at once, found by trying.
 *
 * In every hierarchy that is needed, boxd makes one parent group, which holds a group for each box. A
 * lock on its folder shows that its runtime lives: whoever finds a parent that is not locked removes
 * it. A limit counts as set only after it was read back. Called by boxd/box, host_state.c and
 * watcher.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_cgroups; /* the parent groups, and where they are */
struct box_cgroup;  /* the group of one box */

enum box_cgroup_mode {
	BOX_CGROUP_NONE, /* no limits can be set here; see box_cgroups_why */
	BOX_CGROUP_V1,
	BOX_CGROUP_V2,
};

/* 0: no limit. */
struct box_cgroup_limits {
	uint64_t memory_bytes; /* memory and swap together */
	uint32_t pids;
	uint32_t cpu_milli; /* thousandths of a processor */
};

/* Finds the hierarchies, moves this process aside if version 2 requires that, makes the parent groups
 * and removes those of dead runtimes. Never fails: without a usable hierarchy the mode is NONE. Needs
 * the controllers memory, pids and cpu; uses cgroup.kill of version 2 if there is one. */
struct box_cgroups *box_cgroups_open(void);
enum box_cgroup_mode box_cgroups_mode(const struct box_cgroups *cgroups);
/* Why the mode is NONE, for the operator; otherwise "". */
const char *box_cgroups_why(const struct box_cgroups *cgroups);
/* Whether the memory limit also covers the buffers of TCP and UDP sockets. */
bool box_cgroups_hold_sockets(const struct box_cgroups *cgroups);
/* Removes the parent groups, in which there must be no boxes any more. */
void box_cgroups_close(struct box_cgroups *cgroups);

/* For a process that outlives boxd (the watcher). Takes the folders that contain the parent groups, and
 * closes the parent groups themselves, so that only boxd holds their locks. At most
 * BOX_CGROUP_PROCS_FDS_MAX folders. */
size_t box_cgroups_become_cleaner(struct box_cgroups *cgroups, int *ret_folders);
/* Confines the process with Landlock: from here on it can read, write and remove folders below these
 * folders, and nothing else of any file system. 0 also if the kernel has no Landlock. */
int box_cgroup_confine(const int *folders, size_t count);
/* In that process, after boxd's death: kills what is in boxd's parent groups and removes them, as the
 * next start of boxd would, and undoes the preparation of version 2. True when nothing is left to do;
 * else call it again a little later. Leaves alone what another runtime has, or has just taken over. */
bool box_cgroups_clean_up(struct box_cgroups *cgroups);

/* Makes the group of a box, writes every limit and reads it back. The error names the file. On failure
 * nothing remains. `name` is [A-Za-z0-9_.-]+ and unique. */
int box_cgroup_make(struct box_cgroups *cgroups, const char *name,
	const struct box_cgroup_limits *limits, struct box_cgroup **ret_cgroup,
	struct box_err *err);
/* Sets the limits of a group that was made without limits. */
int box_cgroup_limit(
	struct box_cgroup *cgroup, const struct box_cgroup_limits *limits, struct box_err *err);
/* Sets the host's id of the box's own root. The cgroup.procs fds of process cgroups are passed to
 * box-rpc and box-init: opened as this id, they can move only processes of this box's group. */
void box_cgroup_set_root_id(struct box_cgroup *cgroup, uint32_t id);
/* A folder fd for CLONE_INTO_CGROUP (version 2), or -1: then use box_cgroup_open_procs_fds. */
int box_cgroup_folder(const struct box_cgroup *cgroup);
/* Opens the files to which the new process writes "0" to enter its group, one for every hierarchy that
 * box_cgroup_folder does not cover. Entering by itself is fast: moving another process waits, sometimes
 * for milliseconds, until the kernel has stopped all forks and exits. The caller owns the fds. */
#define BOX_CGROUP_PROCS_FDS_MAX 4
int box_cgroup_open_procs_fds(const struct box_cgroup *cgroup,
	int ret_fds[BOX_CGROUP_PROCS_FDS_MAX], size_t *ret_count, struct box_err *err);
/* Called in the new process. 0 or -errno. */
int box_cgroup_enter(const int *fds, size_t count);
/* An fd of memory.events.local (version 2) or memory.oom_control (version 1), which counts OOM kills;
 * to be read from its beginning, for box_oom_parse_kills. Process cgroups count separately. The group
 * owns the fd; -1 if there is none. */
int box_cgroup_events(const struct box_cgroup *cgroup);
/* The same for the leaf that holds the other processes once the group has process cgroups, to be added
 * to the first; or -1. */
int box_cgroup_leaf_events(const struct box_cgroup *cgroup);

/* Memory of a group that cannot be freed without swapping; 0 when it is not known. */
uint64_t box_cgroup_memory(const struct box_cgroup *cgroup);
/* The memory limit of our own group and those above it, and what is left of it: of the group that has
 * the least left. UINT64_MAX if there is no limit. */
void box_cgroups_memory(const struct box_cgroups *cgroups, uint64_t *ret_limit, uint64_t *ret_free);

/* A process cgroup is a group below a box's, for one process and its children, with a memory limit of
 * its own. In version 2 the first one moves everything else in the box's group into a leaf. `number` is
 * not 0 and unique within the box. On failure nothing was made. */
int box_process_cgroups_make_group(
	struct box_cgroup *cgroup, uint32_t number, uint64_t memory_bytes, struct box_err *err);
/* Its cgroup.procs fd, as above, and its events fd; the caller owns both. */
int box_process_cgroups_open_group(const struct box_cgroup *cgroup, uint32_t number,
	int *ret_procs_fd, int *ret_events, struct box_err *err);
/* 0, or -EBUSY while processes are in it. */
int box_process_cgroups_remove_group(const struct box_cgroup *cgroup, uint32_t number);

/* Kills all processes of the group and removes it with its process cgroups: 0, or -EBUSY while
 * something still dies: try again a little later. After 0 the struct is freed. */
int box_cgroup_remove(struct box_cgroup *cgroup);
