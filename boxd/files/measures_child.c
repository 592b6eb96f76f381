/* Drops the rights that reading does not need, then measures. A folder of the host is checked like one
 * that a box asks for. In a box, separate file systems report their usage themselves; folders in them
 * are walked, and count at most the size of their file system, whatever links and moves do to the sum. */
#include "boxd/files/measures_child.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "boxd/files/host_folder.h"
#include "boxd/files/tree_size.h"
#include "plan/plan.h"
#include "protocol/storage_parts.h"

#define OUT_FD 0
#define ROOT_FD 1 /* the root of a box, or the folder */
#define NICENESS 10
#define CACHE BOX_PLAN_HOME "/.cache"

/* --- the process --- */

/* Moves the fd that is measured to its number and closes all others of boxd. 2 stays, for sanitizers. */
static int keep_only(int root)
{
	if (dup3(root, ROOT_FD, O_CLOEXEC) < 0) {
		return -errno;
	}
	return close_range(STDERR_FILENO + 1, ~0U, 0) < 0 ? -errno : 0;
}

static int drop_rights(pid_t parent, int out)
{
	struct rlimit core = {0, 0};
	/* boxd always has 0 to 2 open, so the fd is not one of these. */
	int r = dup3(out, OUT_FD, O_CLOEXEC) < 0 ? -errno : 0;
	/* Keeps only the right to read, also files of other users, as the payload's are. */
	if (r == 0) {
		r = box_caps_keep(1ULL << CAP_DAC_READ_SEARCH);
	}
	/* After the change of capabilities, which clears it. */
	if (r == 0 &&
		(prctl(PR_SET_PDEATHSIG, (long)SIGKILL, 0L, 0L, 0L) < 0 ||
			prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ||
			setrlimit(RLIMIT_CORE, &core) < 0)) {
		r = -errno;
	}
	/* Fails if boxd has a higher niceness already; then it is not needed. */
	(void)setpriority(PRIO_PROCESS, 0, NICENESS);
	return r == 0 && getppid() != parent ? -EOWNERDEAD : r;
}

/* --- what is measured --- */

static bool is_missing(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP;
}

static int measure_folder(const struct box_measures_task *task, struct box_mount_roots *mount_roots,
	struct box_boxd_part *parts)
{
	static const char *const names[] = {".mcp", "inbox", "outbox"};
	_cleanup_(box_close_p) int fd = -1;
	int folder = -1;
	size_t link = 0;
	const struct box_host_folder_request ask = {.path = task->path, .asker = {.namespace = ""}};
	/* Checks with the fds of the mount roots, which are closed after this. */
	int r = box_host_folder_open(&ask, mount_roots, &link, &folder);
	if (r < 0) {
		/* A path with a link in it is not a folder that a box may have. */
		return link > 0 ? -EPERM : r;
	}
	r = keep_only(folder);
	if (r < 0) {
		return r;
	}
	r = box_fsmount_open_beneath(ROOT_FD, task->below, &fd);
	if (r == 0) {
		box_tree_size_add(fd, BOX_TREE_SIZE_LENGTHS, names, BOX_COUNT_OF(names), parts);
	} else if (r != -ENOENT && r != -ENOTDIR) {
		parts[BOX_BOXD_FOLDER_WHOLE].error_count = 1;
	}
	return 0;
}

static int measure_place(const char *path, struct box_storage_part *place)
{
	_cleanup_(box_close_p) int fd = -1;
	struct statfs filesystem;
	struct stat status;
	int r = box_fsmount_open_beneath(ROOT_FD, path + 1, &fd);
	if (r < 0) {
		return is_missing(r) ? 0 : r;
	}
	if (fstatfs(fd, &filesystem) < 0 || fstat(fd, &status) < 0) {
		return -errno;
	}
	if (filesystem.f_type != TMPFS_MAGIC) {
		return -EXDEV;
	}
	place->is_there = true;
	place->device = status.st_dev;
	place->used_bytes = (uint64_t)(filesystem.f_blocks - filesystem.f_bfree) *
		(uint64_t)filesystem.f_bsize;
	struct box_boxd_part part = {0};
	box_tree_size_add(fd, BOX_TREE_SIZE_BLOCKS, NULL, 0, &part);
	place->size_bytes = part.size_bytes;
	place->file_count = part.file_count;
	return 0;
}

/* A workspace that is a folder of the host hides the box's own folder at its path, and is measured as a
 * folder. */
static bool is_own(const struct box_measures_task *task, const char *path)
{
	return task->own_workspace || !box_plan_path_is_under(path, task->workspace);
}

/* When the last process of a box ends, all its mounts go at once, and folders under them seem empty. */
static int check_still_whole(void)
{
	struct stat root;
	struct stat proc;
	if (fstat(ROOT_FD, &root) < 0 || fstatat(ROOT_FD, "proc", &proc, AT_SYMLINK_NOFOLLOW) < 0) {
		return -errno;
	}
	return root.st_dev == proc.st_dev ? -ESRCH : 0;
}

static struct box_boxd_part part_of(const struct box_storage_part *place)
{
	return (struct box_boxd_part){
		.exists = place->is_there,
		.size_bytes = place->size_bytes,
		.file_count = place->file_count,
	};
}

static int measure_box(const struct box_measures_task *task, struct box_boxd_part *parts)
{
	struct box_storage_part workspace = {0};
	struct box_storage_part cache = {0};
	struct box_storage_part temp = {0};
	int r = is_own(task, "/tmp") ? measure_place("/tmp", &temp) : 0;
	if (r == 0 && is_own(task, CACHE)) {
		r = measure_place(CACHE, &cache);
	}
	if (r == 0 && task->own_workspace) {
		r = measure_place(task->workspace, &workspace);
	}
	if (r == 0) {
		r = check_still_whole();
	}
	if (r < 0) {
		return r;
	}
	box_storage_parts_settle(&workspace, &cache, &temp);
	parts[BOX_BOXD_BOX_WORKSPACE] = part_of(&workspace);
	parts[BOX_BOXD_BOX_CACHE] = part_of(&cache);
	parts[BOX_BOXD_BOX_TEMP] = part_of(&temp);
	return 0;
}

_Noreturn void box_measures_run_task(const struct box_measures_task *task,
	struct box_mount_roots *mount_roots, pid_t parent, int out)
{
	struct box_boxd_measured answer = {0};
	bool is_box = task->root >= 0;
	if (drop_rights(parent, out) < 0 || (is_box && keep_only(task->root) < 0)) {
		_exit(1);
	}
	answer.result = is_box ? measure_box(task, answer.parts)
			       : measure_folder(task, mount_roots, answer.parts);
	/* It fits into an empty pipe. */
	ssize_t wrote = write(OUT_FD, &answer, sizeof(answer));
	_exit(wrote == (ssize_t)sizeof(answer) ? 0 : 1);
}
