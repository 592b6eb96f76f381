/* Staging: a locked folder, items with unique names, and removal that works for trees of any shape. */
#include "skills/store/stage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/write.h"
#include "skills/store/deferred_sync.h"
#include "skills/store/subtree.h"

#define TRIES 64
#define LOCK_PAUSE_NS 10000000

static unsigned long last_number; /* number of the last name made by this process */

static void name_of(unsigned long number, char name[BOX_STAGE_ITEM_SIZE])
{
	(void)snprintf(name, BOX_STAGE_ITEM_SIZE, "%ld-%lu", (long)getpid(), number);
}

void box_stage_name(char name[BOX_STAGE_ITEM_SIZE])
{
	name_of(++last_number, name);
}

/* A process that removes a crash's leftovers needs the lock only briefly, but anybody may lock a folder for
 * ever, so there is a timeout. */
static int lock_shared(int fd, uint64_t deadline_ms)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	while (flock(fd, LOCK_SH | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR) {
			return -errno;
		}
		if (box_clock_ms() >= deadline_ms) {
			return -ENOLCK;
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static bool clear(int root_fd, int fd);

/* Creates and locks it: fd, -EAGAIN if it was removed meanwhile, or another -errno. */
static int open_locked(int root_fd, uint64_t deadline_ms)
{
	bool was_there = mkdirat(root_fd, BOX_STAGE_NAME, 0700) < 0;
	if (was_there && errno != EEXIST) {
		return -errno;
	}
	_cleanup_(box_close_p) int fd = box_subtree_open(
		root_fd, BOX_STAGE_NAME, O_RDONLY | O_DIRECTORY, 0);
	struct stat st = {0};
	if (fd < 0) {
		return fd == -ENOENT ? -EAGAIN : fd;
	}
	if (was_there) {
		(void)clear(root_fd, fd);
	}
	int r = lock_shared(fd, deadline_ms);
	if (r == 0 && fstat(fd, &st) < 0) {
		r = -errno;
	}
	if (r < 0) {
		return r;
	}
	return st.st_nlink == 0 ? -EAGAIN : TAKE_FD(fd);
}

int box_stage_open(int root_fd, struct box_stage *ret_stage)
{
	uint64_t deadline_ms = box_clock_ms() + BOX_SKILL_LOCK_MS;
	int fd = -EAGAIN;
	for (int i = 0; i < TRIES && fd == -EAGAIN; i++) {
		fd = open_locked(root_fd, deadline_ms);
	}
	if (fd < 0) {
		return fd;
	}
	*ret_stage = (struct box_stage){root_fd, fd};
	return 0;
}

/* After ENOENT: another process emptied and removed the folder between our lock and now. */
static int reopen(struct box_stage *stage)
{
	struct box_stage fresh;
	int r = box_stage_open(stage->root_fd, &fresh);
	if (r == 0) {
		(void)close(stage->fd);
		stage->fd = fresh.fd;
	}
	return r;
}

void box_stage_close(struct box_stage *stage)
{
	if (stage->fd >= 0) {
		/* Fails while others work in it. */
		(void)unlinkat(stage->root_fd, BOX_STAGE_NAME, AT_REMOVEDIR);
		(void)close(stage->fd);
		stage->fd = -1;
	}
}

int box_stage_folder(struct box_stage *stage, char ret_name[BOX_STAGE_ITEM_SIZE])
{
	for (int i = 0; i < TRIES; i++) {
		box_stage_name(ret_name);
		if (mkdirat(stage->fd, ret_name, 0777) == 0) {
			return box_subtree_open(stage->fd, ret_name, O_RDONLY | O_DIRECTORY, 0);
		}
		if (errno == ENOENT) {
			int r = reopen(stage);
			if (r < 0) {
				return r;
			}
		} else if (errno != EEXIST) {
			return -errno;
		}
	}
	return -EEXIST;
}

/* -- removal ---------------------------------------------------------------------------------- */

struct removal {
	struct box_stage *stage;
	int dir_fd;
	unsigned depth;
};

static int remove_entry(void *context, const char *name, int d_type);

static void remove_in(struct box_stage *stage, int dir_fd, unsigned depth)
{
	struct removal removal = {stage, dir_fd, depth};
	(void)box_subtree_each(dir_fd, remove_entry, &removal);
}

static int remove_entry(void *context, const char *name, int d_type)
{
	const struct removal *removal = context;
	char item[BOX_STAGE_ITEM_SIZE];
	if (d_type != DT_DIR && unlinkat(removal->dir_fd, name, 0) == 0) {
		return 0;
	}
	if (unlinkat(removal->dir_fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
		return 0;
	}
	/* Too deep to keep an fd open at each level: the lower part becomes an item of its own. */
	if (removal->depth >= BOX_SKILL_REMOVE_DEPTH) {
		box_stage_name(item);
		(void)renameat(removal->dir_fd, name, removal->stage->fd, item);
		return 0;
	}
	_cleanup_(box_close_p) int fd = box_subtree_open(
		removal->dir_fd, name, O_RDONLY | O_DIRECTORY, 0);
	/* A folder that its owner may not read stays: a mode can be changed through an fd only, because no
	 * confinement can check chmod by path. */
	if (fd >= 0) {
		(void)fchmod(fd, 0700);
		remove_in(removal->stage, fd, removal->depth + 1);
		(void)unlinkat(removal->dir_fd, name, AT_REMOVEDIR);
	}
	return 0;
}

/* Removes the lower parts that were moved out; their numbers come after `from`. */
static void remove_cut(struct box_stage *stage, unsigned long from)
{
	struct removal removal = {stage, stage->fd, 1};
	while (from < last_number) {
		char item[BOX_STAGE_ITEM_SIZE];
		name_of(++from, item);
		(void)remove_entry(&removal, item, DT_DIR);
	}
}

void box_stage_remove(struct box_stage *stage, const char *name)
{
	struct removal removal = {stage, stage->fd, 1};
	unsigned long from = last_number;
	(void)remove_entry(&removal, name, DT_DIR);
	remove_cut(stage, from);
}

int box_stage_discard(struct box_stage *stage, int dir_fd, const char *name)
{
	char item[BOX_STAGE_ITEM_SIZE];
	box_stage_name(item);
	if (renameat(dir_fd, name, stage->fd, item) < 0) {
		return -errno;
	}
	(void)box_subtree_sync(dir_fd);
	box_stage_remove(stage, item);
	return 0;
}

int box_stage_put(struct box_stage *stage, int dir_fd, const char *name, const char *bytes,
	size_t len, unsigned mode)
{
	char item[BOX_STAGE_ITEM_SIZE];
	_cleanup_(box_close_p) int fd = -ENOENT;
	for (int i = 0; i < TRIES && (fd == -ENOENT || fd == -EEXIST); i++) {
		box_stage_name(item);
		fd = box_subtree_open(stage->fd, item, O_WRONLY | O_CREAT | O_EXCL, 0666);
		if (fd == -ENOENT && reopen(stage) < 0) {
			break;
		}
	}
	if (fd < 0) {
		return fd;
	}
	int r = box_write_all(fd, bytes, len);
	if (r == 0 && mode != 0 && fchmod(fd, mode) < 0) {
		r = -errno;
	}
	if (r == 0 && fsync(fd) < 0) {
		r = -errno;
	}
	if (r == 0 && renameat(stage->fd, item, dir_fd, name) < 0) {
		r = -errno;
	}
	if (r < 0) {
		(void)unlinkat(stage->fd, item, 0);
		return r;
	}
	return box_subtree_sync(dir_fd);
}

/* Empties the folder, unless others work in it or marks must stay: then false. On success we hold its
 * lock. */
static bool clear(int root_fd, int fd)
{
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		return false;
	}
	struct box_stage stage = {root_fd, fd};
	unsigned long from = last_number;
	if (!box_deferred_sync_recover(&stage)) {
		(void)flock(fd, LOCK_UN);
		return false;
	}
	remove_in(&stage, fd, 1);
	remove_cut(&stage, from);
	/* A mark that came back after a crash would be acted on. */
	int r = box_subtree_sync(fd);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "skills.not_synced",
			box_log_str("why", box_err_strerror(-r)));
	}
	return true;
}

void box_stage_sweep(int root_fd)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(
		root_fd, BOX_STAGE_NAME, O_RDONLY | O_DIRECTORY, 0);
	if (fd >= 0 && clear(root_fd, fd)) {
		(void)unlinkat(root_fd, BOX_STAGE_NAME, AT_REMOVEDIR);
	}
}
