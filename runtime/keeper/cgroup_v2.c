/* Version 2: one hierarchy, in which a group that gives controllers to others holds no process.
 *
 * So we, and all that is in our own group with us, move down into a leaf `keeper` first. The leaf
 * stays, for we live in it; a runtime that starts in such a leaf makes its lot beside it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/keeper/cgroup_manager.h"

#define LEAF "keeper"
#define MOVE_ROUNDS 8 /* whoever is moved may just have forked */

static unsigned controllers_in(int folder, const char *file)
{
	char text[1024];
	int len = box_cgroup_read(folder, file, text, sizeof(text));
	return len < 0 ? 0 : box_cgroup_controllers(text, (size_t)len);
}

/* Only the root of the whole hierarchy has no such file; it may hold processes beside groups. */
static bool is_true_root(int folder)
{
	return faccessat(folder, "cgroup.events", F_OK, 0) < 0 && errno == ENOENT;
}

static int enable(int folder, unsigned controllers, struct box_err *err)
{
	char text[64];
	if ((controllers_in(folder, "cgroup.subtree_control") & controllers) == controllers) {
		return 0;
	}
	(void)snprintf(text, sizeof(text), "%s%s%s", controllers & BOX_CGROUP_PIDS ? "+pids " : "",
		controllers & BOX_CGROUP_MEMORY ? "+memory " : "",
		controllers & BOX_CGROUP_CPU ? "+cpu" : "");
	int r = box_cgroup_write(folder, "cgroup.subtree_control", text);
	if (r == 0 &&
		(controllers_in(folder, "cgroup.subtree_control") & controllers) != controllers) {
		r = -EINVAL;
	}
	return r == 0
		? 0
		: box_err_set(err, BOX_ERR_BOX, -r,
			  "cannot write \"%s\" to cgroup.subtree_control: %s", text, strerror(-r));
}

/* Moves what can be moved; what cannot shows itself when the controllers are enabled. */
static int move_all(int from, int to)
{
	struct box_cgroup_list list;
	char text[16];
	pid_t pid = 0;
	/* 0 is the writer itself, whatever its pid is here. */
	int r = box_cgroup_write(to, "cgroup.procs", "0");
	r = r < 0 ? r : box_cgroup_list_open(&list, from);
	if (r < 0) {
		return r;
	}
	while (box_cgroup_list_next(&list, &pid)) {
		(void)snprintf(text, sizeof(text), "%d", (int)pid);
		(void)box_cgroup_write(to, "cgroup.procs", text);
	}
	box_cgroup_list_close(&list);
	return 0;
}

static int open_leaf(int own, int *ret_leaf, struct box_err *err)
{
	if (mkdirat(own, LEAF, 0755) < 0 && errno != EEXIST) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot make a group in our own: %s",
			strerror(errno));
	}
	int leaf = openat(own, LEAF, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (leaf < 0) {
		return box_err_set(err, BOX_ERR_BOX, errno, "cannot open the group " LEAF ": %s",
			strerror(errno));
	}
	*ret_leaf = leaf;
	return 0;
}

/* Moves all down into the leaf and enables the controllers; back again when that cannot be. */
static int move_aside(int own, unsigned controllers, struct box_err *err)
{
	_cleanup_(box_close_p) int leaf = -1;
	int r = open_leaf(own, &leaf, err);
	if (r < 0) {
		return r;
	}
	for (int round = 0; round < MOVE_ROUNDS; round++) {
		r = move_all(own, leaf);
		if (r < 0) {
			(void)box_err_set(err, BOX_ERR_BOX, -r,
				"cannot move to the group " LEAF ": %s", strerror(-r));
			break;
		}
		r = enable(own, controllers, err);
		if (r != -EBUSY) {
			break;
		}
	}
	if (r < 0) {
		(void)move_all(leaf, own);
		(void)unlinkat(own, LEAF, AT_REMOVEDIR);
	}
	return r;
}

/* Opens the group that `below` is the leaf of, when it is one. */
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
	if (box_cgroup_open_below(mount, above, &own) < 0 ||
		(controllers_in(own, "cgroup.subtree_control") & controllers) != controllers) {
		return false;
	}
	*ret_own = TAKE_FD(own);
	return true;
}

static int settle(
	int mount, const char *below, unsigned controllers, int *ret_own, struct box_err *err)
{
	_cleanup_(box_close_p) int own = -1;
	if (open_above_leaf(mount, below, controllers, ret_own)) {
		return 0;
	}
	int r = box_cgroup_open_below(mount, below, &own);
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_BOX, -r, "cannot open the group %s: %s", below, strerror(-r));
	}
	r = is_true_root(own) ? enable(own, controllers, err) : move_aside(own, controllers, err);
	if (r == 0) {
		*ret_own = TAKE_FD(own);
	}
	return r;
}

/* memory.oom.group stays 0: what ends for lack of memory is a command, not the box. */
static int limit_memory(int folder, uint64_t bytes, struct box_err *err)
{
	int r = box_cgroup_put_number(folder, "memory.max", bytes, err);
	/* Not there when the kernel does not account for swap. */
	if (r < 0 || (faccessat(folder, "memory.swap.max", F_OK, 0) < 0 && errno == ENOENT)) {
		return r;
	}
	return box_cgroup_put_number(folder, "memory.swap.max", 0, err);
}

static int limit_cpu(int folder, uint64_t quota_us, struct box_err *err)
{
	char text[64];
	(void)snprintf(text, sizeof(text), "%llu %llu", (unsigned long long)quota_us,
		BOX_CGROUP_PERIOD_US);
	return box_cgroup_put(folder, "cpu.max", text, err);
}

/* cgroup.kill came with Linux 5.14. */
static void kill_all(int folder)
{
	if (box_cgroup_write(folder, "cgroup.kill", "1") < 0) {
		box_cgroup_kill_listed(folder);
	}
}

const struct box_cgroup_manager box_cgroup_v2 = {
	.mode = BOX_CGROUP_V2,
	.events = "memory.events",
	.settle = settle,
	.furnish = enable,
	.limit_memory = limit_memory,
	.limit_cpu = limit_cpu,
	.kill = kill_all,
};
