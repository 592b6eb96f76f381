/* Version 1: one hierarchy per controller, and no way to kill a whole group at once.
 *
 * The freezer is not used: it would need a fourth group per box and one more move per process (a
 * quarter of a millisecond), and a box could be left frozen. A pids limit of 0 stops forks as well. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/err.h"
#include "boxd/cgroup/cgroup_manager.h"

#define BATCH 64

struct victim {
	pid_t pid;
	int pidfd;
	bool listed;
};

static int settle(int mount, const char *below, unsigned controllers,
	struct box_cgroup_own *ret_own, struct box_err *err)
{
	(void)controllers;
	int own = -1;
	int r = box_cgroup_open_below(mount, below, &own);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r, "cannot open the group %s: %s", below,
			box_err_strerror(-r));
	}
	*ret_own = (struct box_cgroup_own){.fd = own};
	return 0;
}

static bool has_file(int folder, const char *file)
{
	return faccessat(folder, file, F_OK, 0) == 0 || errno != ENOENT;
}

/* Buffers of TCP and UDP sockets have a limit of their own, so they may use the same amount again. The
 * kernel counts them from this write on, for sockets that are made later: so it is written before
 * anything but box-init runs in a box. If the kernel lacks the file they are unlimited;
 * box_cgroups_hold_sockets reports that. */
static int limit_sockets(int folder, uint64_t bytes, struct box_err *err)
{
	return has_file(folder, BOX_CGROUP_V1_SOCKETS)
		? box_cgroup_write_number_checked(folder, BOX_CGROUP_V1_SOCKETS, bytes, err)
		: 0;
}

/* First without swap, then with: the kernel requires the second limit to be at least the first. */
static int limit_memory(int folder, uint64_t bytes, struct box_err *err)
{
	int r = box_cgroup_write_number_checked(folder, "memory.limit_in_bytes", bytes, err);
	if (r < 0) {
		return r;
	}
	/* Missing when the kernel does not account for swap. */
	if (has_file(folder, "memory.memsw.limit_in_bytes")) {
		r = box_cgroup_write_number_checked(
			folder, "memory.memsw.limit_in_bytes", bytes, err);
	}
	return r < 0 ? r : limit_sockets(folder, bytes, err);
}

/* With hierarchical accounting, as we need it, groups below can have limits of their own. It can be off
 * before Linux 5.11. */
static int divide(int folder, int *ret_rest, struct box_err *err)
{
	char text[16];
	*ret_rest = -1;
	int len = box_cgroup_read(folder, "memory.use_hierarchy", text, sizeof(text));
	if (len == -ENOENT || (len > 0 && text[0] == '1')) {
		return 0;
	}
	return box_cgroup_write_number_checked(folder, "memory.use_hierarchy", 1, err);
}

static int limit_cpu(int folder, uint64_t quota_us, struct box_err *err)
{
	int r = box_cgroup_write_number_checked(
		folder, "cpu.cfs_period_us", BOX_CGROUP_PERIOD_US, err);
	return r < 0 ? r
		     : box_cgroup_write_number_checked(folder, "cpu.cfs_quota_us", quota_us, err);
}

static int compare_victims(const void *a, const void *b)
{
	pid_t first = ((const struct victim *)a)->pid;
	pid_t second = ((const struct victim *)b)->pid;
	return (first > second) - (first < second);
}

/* If a pid is still listed after its pidfd was opened, the pidfd refers to a process of this group, or
 * to one that has ended since. */
static void kill_batch(int folder, struct victim *victims, size_t count)
{
	struct box_cgroup_pid_list list;
	qsort(victims, count, sizeof(victims[0]), compare_victims);
	if (box_cgroup_pid_list_open(&list, folder) == 0) {
		struct victim key = {0};
		while (box_cgroup_pid_list_next(&list, &key.pid)) {
			struct victim *found = bsearch(
				&key, victims, count, sizeof(key), compare_victims);
			if (found) {
				found->listed = true;
			}
		}
		box_cgroup_pid_list_close(&list);
	}
	for (size_t i = 0; i < count; i++) {
		if (victims[i].listed) {
			(void)syscall(SYS_pidfd_send_signal, victims[i].pidfd, SIGKILL, NULL, 0);
		}
		(void)close(victims[i].pidfd);
	}
}

void box_cgroup_kill_listed(int folder)
{
	struct victim victims[BATCH];
	struct box_cgroup_pid_list list;
	size_t count = 0;
	pid_t pid = 0;
	(void)box_cgroup_write(folder, "pids.max", "0");
	if (box_cgroup_pid_list_open(&list, folder) < 0) {
		return;
	}
	while (box_cgroup_pid_list_next(&list, &pid)) {
		long pidfd = syscall(SYS_pidfd_open, pid, 0);
		if (pidfd < 0) {
			continue;
		}
		victims[count++] = (struct victim){.pid = pid, .pidfd = (int)pidfd};
		if (count == BATCH) {
			kill_batch(folder, victims, count);
			count = 0;
		}
	}
	kill_batch(folder, victims, count);
	box_cgroup_pid_list_close(&list);
}

const struct box_cgroup_manager box_cgroup_v1 = {
	.mode = BOX_CGROUP_V1,
	.events = "memory.oom_control",
	.procs_file = "tasks",
	.settle = settle,
	.limit_memory = limit_memory,
	.limit_cpu = limit_cpu,
	.divide = divide,
	.limit_process = limit_memory,
	.kill = box_cgroup_kill_listed,
};
