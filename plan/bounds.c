/* The table of resources. A resource that no kernel can limit is not here: docs/security.md lists
 * those. */
#include "plan/bounds.h"

#include <stdio.h>

#include "base/limits.h"

#define USUAL_PIDS 128

static struct box_bounds_row by_cgroup(
	const struct box_bounds_facts *facts, const char *resource, const char *by)
{
	return (struct box_bounds_row){resource, facts->limits ? by : "no cgroup",
		facts->limits ? BOX_BOUND_PER_BOX : BOX_BOUND_NONE};
}

/* Limits that the kernel counts per user. */
static struct box_bounds_row by_user(
	const struct box_bounds_facts *facts, const char *resource, const char *by)
{
	return (struct box_bounds_row){
		resource, by, facts->id_ranges ? BOX_BOUND_PER_BOX : BOX_BOUND_SHARED};
}

size_t box_bounds_list(
	const struct box_bounds_facts *facts, struct box_bounds_row rows[BOX_BOUNDS_ROWS_MAX])
{
	size_t count = 0;
	bool sockets = facts->limits && facts->sockets;
	rows[count++] = by_cgroup(facts, "memory", "memory.max");
	rows[count++] = (struct box_bounds_row){"TCP and UDP buffers",
		sockets                 ? "memory.max, or memory.kmem.tcp"
			: facts->limits ? "no memory.kmem.tcp.limit_in_bytes in this kernel"
					: "no cgroup",
		sockets ? BOX_BOUND_PER_BOX : BOX_BOUND_NONE};
	rows[count++] = (struct box_bounds_row){
		"processes", facts->limits ? "pids.max" : "RLIMIT_NPROC", BOX_BOUND_PER_BOX};
	rows[count++] = by_cgroup(facts, "processors", "cpu.max");
	/* The cgroup limits the memory of files, pipes, Unix sockets and so on. */
	rows[count++] = by_cgroup(
		facts, "kernel memory of files, pipes and Unix sockets", "memory.max");
	rows[count++] = (struct box_bounds_row){"open files",
		"RLIMIT_NOFILE, a share of fs.file-max",
		facts->files ? BOX_BOUND_PER_BOX : BOX_BOUND_SHARED};
	rows[count++] = by_user(facts, "inotify instances and watches", "user.max_inotify_*");
	rows[count++] = by_user(facts, "queued signals and timers", "RLIMIT_SIGPENDING");
	rows[count++] = by_user(facts, "locked memory", "RLIMIT_MEMLOCK");
	rows[count++] = by_user(facts, "room in pipes, descriptors in flight and epoll watches",
		"fs.pipe-user-pages-*, RLIMIT_NOFILE, fs.epoll.max_user_watches");
	rows[count++] = (struct box_bounds_row){
		"netlink buffers", "boxd ends the box", BOX_BOUND_PER_BOX};
	rows[count++] = (struct box_bounds_row){
		"error queues of UDP and TCP sockets", "boxd ends the box", BOX_BOUND_PER_BOX};
	return count;
}

void box_bounds_name(
	const struct box_bounds_facts *facts, enum box_bound held, char *text, size_t size)
{
	struct box_bounds_row rows[BOX_BOUNDS_ROWS_MAX];
	size_t count = box_bounds_list(facts, rows);
	size_t len = 0;
	text[0] = '\0';
	for (size_t i = 0; i < count && len < size; i++) {
		if (rows[i].held == held) {
			len += (size_t)snprintf(text + len, size - len, "%s%s", len > 0 ? ", " : "",
				rows[i].resource);
		}
	}
}

bool box_bounds_has_files(uint64_t files_max)
{
	return files_max == 0 ||
		files_max / BOX_OPEN_FILES_SHARE / USUAL_PIDS >= BOX_OPEN_FILES_MIN;
}
