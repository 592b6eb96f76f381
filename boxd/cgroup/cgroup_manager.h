/* What the files of the cgroup module share, and the one thing that varies: how a version of
 * cgroups is settled into, limited and emptied.
 *
 * Private to cgroup*.c and their tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "boxd/cgroup/cgroup.h"

/* The host writes these texts; a host with thousands of mounts has a megabyte of them. */
#define BOX_CGROUP_TEXT_MAX (8 * BOX_MIB)
#define BOX_CGROUP_LOCATIONS_MAX 32
#define BOX_CGROUP_NAME_MAX 200
#define BOX_CGROUP_PARENT_NAME_SIZE (sizeof("box-0123456789abcdef"))
#define BOX_CGROUP_PERIOD_US 100000ULL
/* Of version 1; version 2 counts the same bytes for memory.max. */
#define BOX_CGROUP_V1_SOCKETS "memory.kmem.tcp.limit_in_bytes"
#define BOX_CGROUP_QUOTA_MIN_US 1000ULL /* the kernel takes no less */

enum {
	BOX_CGROUP_PIDS = 1 << 0,
	BOX_CGROUP_MEMORY = 1 << 1,
	BOX_CGROUP_CPU = 1 << 2,
	BOX_CGROUP_NEEDED = BOX_CGROUP_PIDS | BOX_CGROUP_MEMORY | BOX_CGROUP_CPU,
};

/* Our own group in one hierarchy, as one mount shows it. */
struct box_cgroup_location {
	bool unified;
	bool read_only;
	unsigned controllers; /* of version 1; version 2 tells them in a file */
	uint64_t mount_id;
	char mount[BOX_PATH_MAX];
	char below[BOX_PATH_MAX]; /* relative to the mount; "." for its top */
};

/* Our own group, settled into. */
struct box_cgroup_own {
	int fd;
	bool moved;     /* all that was in it went down into a leaf of ours */
	unsigned given; /* controllers that groups below it did not have before */
};

struct box_cgroup_manager {
	enum box_cgroup_mode mode;
	const char *events; /* where kills for lack of memory in this very group are told */
	const char *door;   /* where a process writes "0" to go in */
	/* Opens our own group and readies it to have a lot below it. */
	int (*settle)(int mount, const char *below, unsigned controllers,
		struct box_cgroup_own *ret_own, struct box_err *err);
	/* Undoes it when the lot is gone; the fd stays open. NULL: there is nothing to undo. */
	void (*leave)(const struct box_cgroup_own *own);
	/* Readies a new lot to have boxes below it; NULL where nothing is to be done. */
	int (*furnish)(int lot, unsigned controllers, struct box_err *err);
	/* Write limits into a box's group and read them back. */
	int (*limit_memory)(int folder, uint64_t whole_pages_bytes, struct box_err *err);
	int (*limit_cpu)(int folder, uint64_t quota_us, struct box_err *err);
	/* Readies a box's group, with all that runs in it, to have parts below it. *ret_rest is the
	 * folder where what was in it is from now on, or -1: it stays. */
	int (*divide)(int folder, int *ret_rest, struct box_err *err);
	/* As limit_memory, for a part. */
	int (*limit_part)(int folder, uint64_t whole_pages_bytes, struct box_err *err);
	/* Kills what is in a group. It dies a little later. */
	void (*kill)(int folder);
};

extern const struct box_cgroup_manager box_cgroup_v1;
extern const struct box_cgroup_manager box_cgroup_v2;

#define BOX_CGROUP_HIERARCHIES_MAX 3 /* one for each needed controller at most */

/* One hierarchy. */
struct box_cgroup_hierarchy {
	const struct box_cgroup_manager *manager;
	unsigned controllers;
	struct box_cgroup_own own;
	int lot;
	char lot_name[BOX_CGROUP_PARENT_NAME_SIZE];
};

struct box_cgroups {
	enum box_cgroup_mode mode;
	size_t count;
	struct box_cgroup_hierarchy trees[BOX_CGROUP_HIERARCHIES_MAX];
	char why[512];
};

struct box_cgroup {
	struct box_cgroups *cgroups;
	int folder; /* of version 2, or -1 */
	int events;
	uint32_t id;     /* who opens the doors of its parts; 0: we do */
	bool divided;    /* it can have parts */
	int rest_events; /* of what is in none, where that has a group of its own; else -1 */
	char name[BOX_CGROUP_NAME_MAX + 1];
};

/* The folder of a box's group in one hierarchy. */
int box_cgroup_open_in(const struct box_cgroup_hierarchy *tree, const struct box_cgroup *cgroup,
	int *ret_folder, struct box_err *err);

/* Which of the needed controllers a list names, whatever stands between the names. Pure. */
unsigned box_cgroup_controllers(const char *list, size_t len);
/* Finds our group in every hierarchy of interest from the texts of /proc/self/cgroup and
 * /proc/self/mountinfo. Gives how many places it found, at most `room`. Pure. */
size_t box_cgroup_find(
	const char *groups, const char *mounts, struct box_cgroup_location *places, size_t room);

/* Makes a lot below our own group and locks it. The name is chosen here. */
int box_cgroup_parent_make(
	int own, char name[BOX_CGROUP_PARENT_NAME_SIZE], int *ret_lot, struct box_err *err);
/* Removes a lot whose owner is dead: 0 when it is gone, -EAGAIN when its lock is held, or another
 * reason why it is still there. Tries `rounds` times, with pauses. */
int box_cgroup_parent_remove(
	int own, const char *name, const struct box_cgroup_manager *manager, int rounds);
/* Removes the lots of dead owners that are below our own group. */
void box_cgroup_parent_sweep(int own, const struct box_cgroup_manager *manager);
/* Kills what is in the groups below this one, and removes those that are empty. */
void box_cgroup_clear(int folder, const struct box_cgroup_manager *manager);

/* Held while our own group is settled into or left: one that comes must not find what another who
 * goes is just taking away. Waits for a moment at most, since others may lock it too. */
void box_cgroup_own_lock(int own);
void box_cgroup_own_unlock(int own);

/* A folder below a mount; no link and no other mount on the way. */
int box_cgroup_open_below(int mount, const char *below, int *ret_fd);
/* The text of a file with a NUL after it: its length, or -errno; -E2BIG when there is no room. */
int box_cgroup_read(int folder, const char *file, char *text, size_t room);
/* One write. */
int box_cgroup_write(int folder, const char *file, const char *text);
/* Writes, and reads back what must then be there. The error names the file. */
int box_cgroup_write_checked(int folder, const char *file, const char *text, struct box_err *err);
int box_cgroup_write_number_checked(
	int folder, const char *file, uint64_t number, struct box_err *err);

/* Lets others than us write to a door who can get at it, which nobody can by its name. */
int box_cgroup_make_writable(int folder, const char *file, struct box_err *err);
/* Opens a door that somebody else will write to, as this id if it is not 0. */
int box_cgroup_open_procs_fd(
	int folder, const char *file, uint32_t id, int *ret_door, struct box_err *err);

/* The pids in cgroup.procs, one after the other. */
struct box_cgroup_pid_list {
	int fd;
	size_t at;
	size_t len;
	char bytes[4096];
};
int box_cgroup_pid_list_open(struct box_cgroup_pid_list *list, int folder);
/* Processes that our pid namespace does not show are passed over. */
bool box_cgroup_pid_list_next(struct box_cgroup_pid_list *list, pid_t *ret_pid);
void box_cgroup_pid_list_close(struct box_cgroup_pid_list *list);
/* The way of version 1: forbids new processes, then kills those that are listed. */
void box_cgroup_kill_listed(int folder);

/* The number in a line `name 12`, or 0. Pure. */
uint64_t box_cgroup_stat_value(const char *text, const char *name);

/* Microseconds of each period for so many thousandths of a processor. Pure. */
uint64_t box_cgroup_quota_us(uint32_t cpu_milli);
/* What the kernel makes of a number of bytes: whole pages, but here at least one. */
uint64_t box_cgroup_round_to_pages(uint64_t bytes);
