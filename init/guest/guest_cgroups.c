/* Owns the tree of cgroups, which is mounted nowhere: whoever has no fd of it cannot see it. */
#include "init/guest/guest_cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "init/guest/mount.h"
#include "protocol/init_process.h"

#define MIB (1024ULL * 1024)
#define PARTS_MAX BOX_INIT_PROCESSES_MAX
#define MEMORY_MIB_MAX (1ULL << 40)

static bool taken[PARTS_MAX];

static int put(int folder, const char *file, const char *text)
{
	_cleanup_(box_close_p) int fd = openat(folder, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int put_number(int folder, const char *file, uint64_t number)
{
	char text[BOX_MOUNT_NUMBER_SIZE];
	box_mount_number(text, number, 10);
	return put(folder, file, text);
}

static int open_folder(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_folder(int parent, const char *name)
{
	return mkdirat(parent, name, 0700) < 0 ? -errno : open_folder(parent, name);
}

/* Of itself, without what is below: kills there are told by its own. */
static int open_events(int group)
{
	return openat(group, "memory.events.local", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* A controller that this kernel has not is found missing by whoever needs it. */
static int fill(int tree, int box, uint32_t pids, int *ret_events)
{
	(void)put(tree, "cgroup.subtree_control", "+memory");
	(void)put(tree, "cgroup.subtree_control", "+pids");
	int r = pids ? put_number(box, "pids.max", pids) : 0;
	if (r < 0) {
		return r == -ENOENT || r == -EACCES ? -EOPNOTSUPP : r;
	}
	/* Before anyone is in it: then it could not be divided any more. */
	(void)put(box, "cgroup.subtree_control", "+memory");
	_cleanup_(box_close_p) int rest = make_folder(box, "rest");
	r = rest < 0 ? rest : put(rest, "cgroup.procs", "0");
	if (r == 0) {
		*ret_events = open_events(rest);
	}
	return r;
}

int box_guest_cgroups_open(uint32_t pids, int *ret_events)
{
	_cleanup_(box_close_p) int tree = box_mount_make(
		"cgroup2", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (tree < 0) {
		return tree == -ENODEV ? -EOPNOTSUPP : tree;
	}
	_cleanup_(box_close_p) int box = make_folder(tree, "box");
	int r = box < 0 ? box : fill(tree, box, pids, ret_events);
	return r < 0 ? r : TAKE_FD(box);
}

/* --- parts --- */

static void name_part(uint32_t place, char name[BOX_MOUNT_NUMBER_SIZE + 1])
{
	name[0] = 'p';
	box_mount_number(name + 1, place, 10);
}

/* The first place that is free, once all that are empty are. */
static uint32_t free_place(int box)
{
	uint32_t first = PARTS_MAX;
	for (uint32_t i = 0; i < PARTS_MAX; i++) {
		char name[BOX_MOUNT_NUMBER_SIZE + 1];
		name_part(i, name);
		if (taken[i] && unlinkat(box, name, AT_REMOVEDIR) == 0) {
			taken[i] = false;
		}
		first = !taken[i] && i < first ? i : first;
	}
	return first;
}

/* Its door, or -errno. All of one that takes too much is ended together. */
static int limit(int part, uint64_t memory_mib, int *ret_events)
{
	int r = put_number(part, "memory.max", memory_mib * MIB);
	if (r < 0) {
		return r == -ENOENT || r == -EACCES ? -EOPNOTSUPP : r;
	}
	/* Where there is no swap there is no file for it. */
	r = put(part, "memory.swap.max", "0");
	r = r == -ENOENT || r == -EACCES ? 0 : r;
	r = r < 0 ? r : put(part, "memory.oom.group", "1");
	if (r < 0) {
		return r;
	}
	int events = open_events(part);
	int door = events < 0 ? -1
			      : openat(part, "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (door < 0) {
		r = -errno;
		box_close_p(&events);
		return r;
	}
	*ret_events = events;
	return door;
}

int box_guest_cgroups_make(int box, uint64_t memory_mib, int *ret_events)
{
	if (box < 0) {
		return -EOPNOTSUPP;
	}
	if (memory_mib == 0 || memory_mib > MEMORY_MIB_MAX) {
		return -EINVAL;
	}
	uint32_t place = free_place(box);
	if (place == PARTS_MAX) {
		return -EAGAIN;
	}
	char name[BOX_MOUNT_NUMBER_SIZE + 1];
	name_part(place, name);
	_cleanup_(box_close_p) int part = make_folder(box, name);
	int door = part < 0 ? part : limit(part, memory_mib, ret_events);
	if (door < 0 && part >= 0) {
		(void)unlinkat(box, name, AT_REMOVEDIR);
	}
	taken[place] = door >= 0;
	return door;
}
