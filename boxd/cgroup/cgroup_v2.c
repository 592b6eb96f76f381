/* Version 2: one hierarchy, in which a group that enables controllers for its children must not contain
 * processes.
 *
 * So all processes of our own group, boxd included, are moved into a leaf `boxd-leaf` first, and back at
 * the end. A runtime that starts in such a leaf makes its parent group beside it, and leaves the leaf
 * to the runtime that made it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/macros.h"
#include "boxd/cgroup/cgroup_manager.h"

#define LEAF "boxd-leaf"
#define REST "rest"   /* in a box's group: the processes that are in no process cgroup */
#define MOVE_ROUNDS 8 /* a process that is moved may just have forked */
#define DIVIDE_MS 500 /* boxd does nothing else meanwhile */

static unsigned controllers_in(int folder, const char *file)
{
	char text[1024];
	int len = box_cgroup_read(folder, file, text, sizeof(text));
	return len < 0 ? 0 : box_cgroup_controllers(text, (size_t)len);
}

/* Only the root of the whole hierarchy lacks this file; it may have processes and children. */
static bool is_true_root(int folder)
{
	return faccessat(folder, "cgroup.events", F_OK, 0) < 0 && errno == ENOENT;
}

/* The format of cgroup.subtree_control: each name with a sign. */
static void name_controllers(unsigned controllers, char sign, char *text, size_t size)
{
	static const struct {
		unsigned bit;
		const char *name;
	} all[] = {
		{BOX_CGROUP_PIDS, "pids"}, {BOX_CGROUP_MEMORY, "memory"}, {BOX_CGROUP_CPU, "cpu"}};
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < BOX_COUNT_OF(all); i++) {
		if (controllers & all[i].bit) {
			len += (size_t)snprintf(text + len, size - len, "%s%c%s", len ? " " : "",
				sign, all[i].name);
		}
	}
}

static int enable(int folder, unsigned controllers, struct box_err *err)
{
	char text[64];
	if ((controllers_in(folder, "cgroup.subtree_control") & controllers) == controllers) {
		return 0;
	}
	name_controllers(controllers, '+', text, sizeof(text));
	int r = box_cgroup_write(folder, "cgroup.subtree_control", text);
	if (r == 0 &&
		(controllers_in(folder, "cgroup.subtree_control") & controllers) != controllers) {
		r = -EINVAL;
	}
	return r == 0 ? 0
		      : box_err_set(err, BOX_ERR_BOX, -r,
				"cannot write \"%s\" to cgroup.subtree_control: %s", text,
				box_err_strerror(-r));
}

/* Moves what it can; processes that cannot be moved make enabling the controllers fail later. */
static int move_listed(int from, int to, uint64_t until_ms)
{
	struct box_cgroup_pid_list list;
	char text[16];
	pid_t pid = 0;
	int r = box_cgroup_pid_list_open(&list, from);
	if (r < 0) {
		return r;
	}
	while (box_clock_ms() < until_ms && box_cgroup_pid_list_next(&list, &pid)) {
		(void)snprintf(text, sizeof(text), "%d", (int)pid);
		(void)box_cgroup_write(to, "cgroup.procs", text);
	}
	box_cgroup_pid_list_close(&list);
	return 0;
}

static int move_all(int from, int to)
{
	/* 0 stands for the writing process. */
	int r = box_cgroup_write(to, "cgroup.procs", "0");
	return r < 0 ? r : move_listed(from, to, UINT64_MAX);
}

static int open_leaf(int own, const char *name, int *ret_leaf, bool *ret_made, struct box_err *err)
{
	*ret_made = mkdirat(own, name, 0755) == 0;
	if (!*ret_made && errno != EEXIST) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot make the group %s: %s", name,
			box_err_strerror(errno));
	}
	int leaf = openat(own, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (leaf < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot open the group %s: %s", name,
			box_err_strerror(errno));
	}
	*ret_leaf = leaf;
	return 0;
}

/* Moves all processes out of the leaf, and removes it. */
static void move_up(int own, int leaf)
{
	for (int round = 0; round < MOVE_ROUNDS; round++) {
		(void)move_all(leaf, own);
		if (unlinkat(own, LEAF, AT_REMOVEDIR) == 0 || errno != EBUSY) {
			break;
		}
	}
}

/* Moves all processes into the leaf and enables the controllers; moves them back if that fails. */
static int move_aside(
	int own, unsigned controllers, struct box_cgroup_own *ret_own, struct box_err *err)
{
	_cleanup_(box_close_p) int leaf = -1;
	bool made = false;
	unsigned before = controllers_in(own, "cgroup.subtree_control");
	int r = open_leaf(own, LEAF, &leaf, &made, err);
	if (r < 0) {
		return r;
	}
	for (int round = 0; round < MOVE_ROUNDS; round++) {
		r = move_all(own, leaf);
		if (r < 0) {
			(void)box_err_set(err, BOX_ERR_BOX, -r,
				"cannot move to the group " LEAF ": %s", box_err_strerror(-r));
			break;
		}
		r = enable(own, controllers, err);
		if (r != -EBUSY) {
			break;
		}
	}
	if (r < 0) {
		move_up(own, leaf);
		return r;
	}
	ret_own->moved = made;
	ret_own->given = controllers & ~before;
	return 0;
}

/* Fails if another runtime has its parent group beside ours: then everything stays as it is. */
static void leave(const struct box_cgroup_own *own)
{
	char text[64];
	if (!own->moved) {
		return;
	}
	box_cgroup_own_lock(own->fd);
	name_controllers(own->given, '-', text, sizeof(text));
	if (!own->given || box_cgroup_write(own->fd, "cgroup.subtree_control", text) == 0) {
		_cleanup_(box_close_p) int leaf = openat(
			own->fd, LEAF, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (leaf >= 0) {
			move_up(own->fd, leaf);
		}
	}
	box_cgroup_own_unlock(own->fd);
}

static bool enables_all(int own, unsigned controllers)
{
	return (controllers_in(own, "cgroup.subtree_control") & controllers) == controllers;
}

/* Opens the group above `below` if that is a leaf of another runtime. */
static bool open_above_leaf(int mount, const char *below, unsigned controllers, int *ret_own)
{
	char above[BOX_PATH_MAX];
	_cleanup_(box_close_p) int own = -1;
	const char *slash = strrchr(below, '/');
	if (strcmp(slash ? slash + 1 : below, LEAF) != 0) {
		return false;
	}
	size_t len = slash ? (size_t)(slash - below) : 1;
	memcpy(above, slash ? below : ".", len);
	above[len] = '\0';
	if (box_cgroup_open_below(mount, above, &own) < 0 || !enables_all(own, controllers)) {
		return false;
	}
	*ret_own = TAKE_FD(own);
	return true;
}

static int settle(int mount, const char *below, unsigned controllers,
	struct box_cgroup_own *ret_own, struct box_err *err)
{
	_cleanup_(box_close_p) int own = -1;
	bool in_leaf = open_above_leaf(mount, below, controllers, &own);
	int r = in_leaf ? 0 : box_cgroup_open_below(mount, below, &own);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r, "cannot open the group %s: %s", below,
			box_err_strerror(-r));
	}
	struct box_cgroup_own settled = {.fd = -1};
	box_cgroup_own_lock(own);
	/* Checked again: a runtime that ended may have just disabled them, and moved us out of the
	 * leaf. */
	if (in_leaf && enables_all(own, controllers)) {
		*ret_own = (struct box_cgroup_own){.fd = TAKE_FD(own)};
		return 0;
	}
	r = is_true_root(own) ? enable(own, controllers, err)
			      : move_aside(own, controllers, &settled, err);
	if (r == 0) {
		settled.fd = TAKE_FD(own);
		*ret_own = settled;
	}
	return r;
}

/* memory.oom.group stays 0: the OOM killer must kill a command, not the box. */
static int limit_memory(int folder, uint64_t bytes, struct box_err *err)
{
	int r = box_cgroup_write_number_checked(folder, "memory.max", bytes, err);
	/* Missing when the kernel does not account for swap. */
	if (r < 0 || (faccessat(folder, "memory.swap.max", F_OK, 0) < 0 && errno == ENOENT)) {
		return r;
	}
	return box_cgroup_write_number_checked(folder, "memory.swap.max", 0, err);
}

/* memory.oom.group: the OOM killer ends the whole process tree, since half of a server is of no use. */
static int limit_process(int folder, uint64_t bytes, struct box_err *err)
{
	int r = limit_memory(folder, bytes, err);
	return r < 0 ? r : box_cgroup_write_number_checked(folder, "memory.oom.group", 1, err);
}

/* What was forked meanwhile is moved in the next round. If the time runs out, the moved processes stay
 * in the leaf, and the next try continues. */
static int move_down(int folder, int rest, struct box_err *err)
{
	uint64_t until_ms = box_clock_ms() + DIVIDE_MS;
	int r = -EBUSY;
	do {
		r = move_listed(folder, rest, until_ms);
		r = r < 0 ? box_err_set(err, BOX_ERR_BOX, -r, "cannot read cgroup.procs: %s",
				    box_err_strerror(-r))
			  : enable(folder, BOX_CGROUP_MEMORY, err);
	} while (r == -EBUSY && box_clock_ms() < until_ms);
	return r;
}

/* Freezes the group while processes are moved: they neither fork nor use the processor. Killing a
 * frozen box still works. Memory allocated before stays charged to the box's group. */
static int divide(int folder, int *ret_rest, struct box_err *err)
{
	_cleanup_(box_close_p) int rest = -1;
	bool made = false;
	int r = open_leaf(folder, REST, &rest, &made, err);
	if (r < 0) {
		return r;
	}
	(void)box_cgroup_write(folder, "cgroup.freeze", "1");
	r = move_down(folder, rest, err);
	(void)box_cgroup_write(folder, "cgroup.freeze", "0");
	if (r == 0) {
		*ret_rest = TAKE_FD(rest);
	}
	return r;
}

static int limit_cpu(int folder, uint64_t quota_us, struct box_err *err)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)quota_us,
		BOX_CGROUP_PERIOD_US);
	return box_cgroup_write_checked(folder, "cpu.max", text, err);
}

/* cgroup.kill exists since Linux 5.14. */
static void kill_all(int folder)
{
	if (box_cgroup_write(folder, "cgroup.kill", "1") < 0) {
		box_cgroup_kill_listed(folder);
	}
}

const struct box_cgroup_manager box_cgroup_v2 = {
	.mode = BOX_CGROUP_V2,
	.events = "memory.events.local",
	.procs_file = "cgroup.procs",
	.settle = settle,
	.leave = leave,
	.prepare_parent = enable,
	.limit_memory = limit_memory,
	.limit_cpu = limit_cpu,
	.divide = divide,
	.limit_process = limit_process,
	.kill = kill_all,
};
