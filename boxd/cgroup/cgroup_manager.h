/* What the files of the cgroup module share, and the vtable of a cgroup version: how our own group is
 * prepared, and how groups are limited and emptied.
 *
 * Private to boxd/cgroup and its tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "boxd/cgroup/cgroup.h"

/* The host writes these texts; with thousands of mounts they have a megabyte. */
#define BOX_CGROUP_TEXT_MAX (8 * BOX_MIB)
#define BOX_CGROUP_LOCATIONS_MAX 32
#define BOX_CGROUP_NAME_MAX 200
#define BOX_CGROUP_PARENT_NAME_SIZE (sizeof("box-0123456789abcdef"))
#define BOX_CGROUP_PERIOD_US 100000ULL
/* A file of version 1; in version 2, memory.max includes these bytes. */
#define BOX_CGROUP_V1_SOCKETS "memory.kmem.tcp.limit_in_bytes"
#define BOX_CGROUP_QUOTA_MIN_US 1000ULL /* the minimum that the kernel takes */

enum {
	BOX_CGROUP_PIDS = 1 << 0,
	BOX_CGROUP_MEMORY = 1 << 1,
	BOX_CGROUP_CPU = 1 << 2,
	BOX_CGROUP_NEEDED = BOX_CGROUP_PIDS | BOX_CGROUP_MEMORY | BOX_CGROUP_CPU,
};

/* Our own group in one hierarchy, as seen through one mount. */
struct box_cgroup_location {
	bool unified;
	bool read_only;
	unsigned controllers; /* in version 1; version 2 lists them in a file */
	uint64_t mount_id;
	char mount[BOX_PATH_MAX];
	char below[BOX_PATH_MAX]; /* relative to the mount; "." for its root */
};

/* Our own group, prepared to have children. */
struct box_cgroup_own {
	int fd;
	bool moved;     /* its processes were moved into a leaf that we made */
	unsigned given; /* controllers that we enabled for its children */
};

struct box_cgroup_manager {
	enum box_cgroup_mode mode;
	const char *events;     /* the file that counts OOM kills in a group itself */
	const char *procs_file; /* the file to which a process writes "0" to enter */
	/* Opens our own group and prepares it to have a parent group below it. */
	int (*settle)(int mount, const char *below, unsigned controllers,
		struct box_cgroup_own *ret_own, struct box_err *err);
	/* Undoes that when the parent group is gone; the fd stays open. NULL: nothing to undo. */
	void (*leave)(const struct box_cgroup_own *own);
	/* Prepares a new parent group to have boxes below it; NULL: nothing to do. */
	int (*prepare_parent)(int parent, unsigned controllers, struct box_err *err);
	/* Write limits of a box's group and read them back. */
	int (*limit_memory)(int folder, uint64_t whole_pages_bytes, struct box_err *err);
	int (*limit_cpu)(int folder, uint64_t quota_us, struct box_err *err);
	/* Prepares a box's group, with everything that runs in it, to have process cgroups below it.
	 * *ret_rest is the folder of the leaf that its processes were moved into, or -1: they stay. */
	int (*divide)(int folder, int *ret_rest, struct box_err *err);
	/* As limit_memory, for a process cgroup. */
	int (*limit_process)(int folder, uint64_t whole_pages_bytes, struct box_err *err);
	/* Kills all processes of a group. They die a little later. */
	void (*kill)(int folder);
};

extern const struct box_cgroup_manager box_cgroup_v1;
extern const struct box_cgroup_manager box_cgroup_v2;

#define BOX_CGROUP_HIERARCHIES_MAX 3 /* at most one per controller */

/* One hierarchy. */
struct box_cgroup_hierarchy {
	const struct box_cgroup_manager *manager;
	unsigned controllers;
	struct box_cgroup_own own;
	int parent;
	char parent_name[BOX_CGROUP_PARENT_NAME_SIZE];
};

struct box_cgroups {
	enum box_cgroup_mode mode;
	size_t count;
	struct box_cgroup_hierarchy trees[BOX_CGROUP_HIERARCHIES_MAX];
	char why[512];
};

struct box_cgroup {
	struct box_cgroups *cgroups;
	int folder; /* version 2; else -1 */
	int events;
	uint32_t id;     /* opens the cgroup.procs files of its process cgroups; 0: boxd */
	bool divided;    /* prepared for process cgroups */
	int rest_events; /* of the leaf with all other processes, if there is one; else -1 */
	char name[BOX_CGROUP_NAME_MAX + 1];
};

/* Opens the folder of a box's group in one hierarchy. */
int box_cgroup_open_in(const struct box_cgroup_hierarchy *tree, const struct box_cgroup *cgroup,
	int *ret_folder, struct box_err *err);

/* Which of the needed controllers are in a list, whatever separates the names. Pure. */
unsigned box_cgroup_controllers(const char *list, size_t len);
/* Finds our group in every hierarchy with a needed controller, from the texts of /proc/self/cgroup and
 * /proc/self/mountinfo. Returns how many were found, at most `room`. Pure. */
size_t box_cgroup_find(
	const char *groups, const char *mounts, struct box_cgroup_location *places, size_t room);

/* Makes a parent group with a random name below our own group, and locks it. */
int box_cgroup_parent_make(
	int own, char name[BOX_CGROUP_PARENT_NAME_SIZE], int *ret_parent, struct box_err *err);
/* Removes a parent group whose owner is dead: 0 when it is gone, -EAGAIN when it is locked, or why it
 * is still there. Tries `rounds` times, with pauses. */
int box_cgroup_parent_remove(
	int own, const char *name, const struct box_cgroup_manager *manager, int rounds);
/* Removes the parent groups of dead owners below our own group. */
void box_cgroup_parent_sweep(int own, const struct box_cgroup_manager *manager);
/* Kills the processes in the groups below this one, and removes those that are empty. */
void box_cgroup_clear(int folder, const struct box_cgroup_manager *manager);

/* A lock for preparing or leaving our own group: a runtime that starts must not rely on what another
 * one, which ends, is just removing. Waits for a moment at most, since others may hold the lock. */
void box_cgroup_own_lock(int own);
void box_cgroup_own_unlock(int own);

/* Opens a folder below a mount, following no symbolic link and entering no other mount. */
int box_cgroup_open_below(int mount, const char *below, int *ret_fd);
/* Reads a file and appends a NUL: its length, or -errno; -E2BIG when there is no room. */
int box_cgroup_read(int folder, const char *file, char *text, size_t room);
/* With one write(). */
int box_cgroup_write(int folder, const char *file, const char *text);
/* Writes a value, reads it back and compares. The error names the file. */
int box_cgroup_write_checked(int folder, const char *file, const char *text, struct box_err *err);
int box_cgroup_write_number_checked(
	int folder, const char *file, uint64_t number, struct box_err *err);

/* Makes the file writable for other users; nobody else can reach it by its path. */
int box_cgroup_make_writable(int folder, const char *file, struct box_err *err);
/* Opens a cgroup.procs file that another process will write to, as this id if it is not 0. */
int box_cgroup_open_procs_fd(
	int folder, const char *file, uint32_t id, int *ret_procs_fd, struct box_err *err);

/* Iterates over the pids in cgroup.procs. */
struct box_cgroup_pid_list {
	int fd;
	size_t at;
	size_t len;
	char bytes[4096];
};
int box_cgroup_pid_list_open(struct box_cgroup_pid_list *list, int folder);
/* Skips processes that our pid namespace does not show. */
bool box_cgroup_pid_list_next(struct box_cgroup_pid_list *list, pid_t *ret_pid);
void box_cgroup_pid_list_close(struct box_cgroup_pid_list *list);
/* For version 1: forbids new processes, then kills the listed ones. */
void box_cgroup_kill_listed(int folder);

/* The number in a line `name 12`, or 0. Pure. */
uint64_t box_cgroup_stat_value(const char *text, const char *name);

/* Microseconds per period for this many thousandths of a processor. Pure. */
uint64_t box_cgroup_quota_us(uint32_t cpu_milli);
/* Rounds a number of bytes as the kernel does, to whole pages, but to at least one. */
uint64_t box_cgroup_round_to_pages(uint64_t bytes);
