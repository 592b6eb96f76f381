/* Owns the cgroup file system of a guest. It is not attached anywhere: without an fd of it nobody can see
 * it. Made during boot by microvm_boot.c; cgroups of managed processes are made by the privileged helper. */
#include "init/guest/guest_cgroups.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "base/number.h"
#include "protocol/init_process.h"

#define MIB (1024ULL * 1024)
#define CGROUPS_MAX BOX_INIT_PROCESSES_MAX
#define MEMORY_MIB_MAX (1ULL << 40)

static bool used[CGROUPS_MAX]; /* which of the names p0, p1, ... exist */

static int write_file(int folder, const char *file, const char *text)
{
	_cleanup_(box_close_p) int fd = openat(folder, file, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static int write_number(int folder, const char *file, uint64_t number)
{
	char text[BOX_NUMBER_SIZE];
	box_number_put(text, number, 10);
	return write_file(folder, file, text);
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

/* Counts without the cgroups below, which have files of their own. */
static int open_events(int cgroup)
{
	return openat(cgroup, "memory.events.local", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
}

/* If this kernel lacks a controller, writing a limit will fail. */
static int fill(int tree, int box, uint32_t pids, int *ret_events)
{
	(void)write_file(tree, "cgroup.subtree_control", "+memory");
	(void)write_file(tree, "cgroup.subtree_control", "+pids");
	int r = pids ? write_number(box, "pids.max", pids) : 0;
	if (r < 0) {
		return r == -ENOENT || r == -EACCES ? -EOPNOTSUPP : r;
	}
	/* Before a process enters it, because after that it could have no child cgroups. */
	(void)write_file(box, "cgroup.subtree_control", "+memory");
	_cleanup_(box_close_p) int rest = make_folder(box, "rest");
	r = rest < 0 ? rest : write_file(rest, "cgroup.procs", "0");
	if (r == 0) {
		*ret_events = open_events(rest);
	}
	return r;
}

int box_guest_cgroups_open(uint32_t pids, int *ret_events)
{
	_cleanup_(box_close_p) int tree = box_fsmount_make_by_parameters(
		"cgroup2", NULL, 0, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
	if (tree < 0) {
		return tree == -ENODEV ? -EOPNOTSUPP : tree;
	}
	_cleanup_(box_close_p) int box = make_folder(tree, "box");
	int r = box < 0 ? box : fill(tree, box, pids, ret_events);
	return r < 0 ? r : TAKE_FD(box);
}

/* --- cgroups of managed processes --- */

static void make_name(uint32_t index, char name[BOX_NUMBER_SIZE + 1])
{
	name[0] = 'p';
	box_number_put(name + 1, index, 10);
}

/* Removes empty cgroups. Returns the first free index, or CGROUPS_MAX. */
static uint32_t free_index(int box)
{
	uint32_t first = CGROUPS_MAX;
	for (uint32_t i = 0; i < CGROUPS_MAX; i++) {
		char name[BOX_NUMBER_SIZE + 1];
		make_name(i, name);
		if (used[i] && unlinkat(box, name, AT_REMOVEDIR) == 0) {
			used[i] = false;
		}
		first = !used[i] && i < first ? i : first;
	}
	return first;
}

/* Returns its cgroup.procs, or -errno. When memory runs out, all its processes are killed together. */
static int limit(int cgroup, uint64_t memory_mib, int *ret_events)
{
	int r = write_number(cgroup, "memory.max", memory_mib * MIB);
	if (r < 0) {
		return r == -ENOENT || r == -EACCES ? -EOPNOTSUPP : r;
	}
	/* Without swap there is no such file. */
	r = write_file(cgroup, "memory.swap.max", "0");
	r = r == -ENOENT || r == -EACCES ? 0 : r;
	if (r < 0) {
		return r;
	}
	r = write_file(cgroup, "memory.oom.group", "1");
	if (r < 0) {
		return r;
	}
	int events = open_events(cgroup);
	int procs_fd = events < 0
		? -1
		: openat(cgroup, "cgroup.procs", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	if (procs_fd < 0) {
		r = -errno;
		box_close_p(&events);
		return r;
	}
	*ret_events = events;
	return procs_fd;
}

int box_guest_cgroups_make(int box, uint64_t memory_mib, int *ret_events)
{
	if (box < 0) {
		return -EOPNOTSUPP;
	}
	if (memory_mib == 0 || memory_mib > MEMORY_MIB_MAX) {
		return -EINVAL;
	}
	uint32_t index = free_index(box);
	if (index == CGROUPS_MAX) {
		return -EAGAIN;
	}
	char name[BOX_NUMBER_SIZE + 1];
	make_name(index, name);
	_cleanup_(box_close_p) int cgroup = make_folder(box, name);
	int procs_fd = cgroup < 0 ? cgroup : limit(cgroup, memory_mib, ret_events);
	if (procs_fd < 0 && cgroup >= 0) {
		(void)unlinkat(box, name, AT_REMOVEDIR);
	}
	used[index] = procs_fd >= 0;
	return procs_fd;
}
