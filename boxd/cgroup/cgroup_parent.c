/* Lots: the group that holds our boxes' groups, locked for our life, and the lots of the dead.
 *
 * A lock tells a living owner from a dead one, because it goes with the last fd of its owner. A
 * name and a pid could not. Only names of exactly our shape are looked at: a neighbour of another
 * kind may well begin with the same letters. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "boxd/cgroup/cgroup_manager.h"

#define PREFIX "box-"
#define MAKE_TRIES 16
#define SWEEP_TRIES 400 /* what was killed dies within milliseconds, unless a disk hangs */
#define SWEEP_PAUSE_US 5000
#define OWN_LOCK_TRIES 200 /* a second */

static int open_folder(int parent, const char *name, int *ret_fd)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

/* Whether a name still leads to the folder that was opened. */
static bool is_still(int parent, const char *name, int fd)
{
	struct stat opened;
	struct stat named;
	return fstat(fd, &opened) == 0 && fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Someone who sweeps can come between making and locking: then -EAGAIN, and another name. */
static int try_make(int own, const char *name, int *ret_lot)
{
	_cleanup_(box_close_p) int lot = -1;
	/* Nobody else can open it, so nobody else can take its lock. */
	if (mkdirat(own, name, 0700) < 0) {
		return errno == EEXIST ? -EAGAIN : -errno;
	}
	int r = open_folder(own, name, &lot);
	if (r < 0) {
		(void)unlinkat(own, name, AT_REMOVEDIR);
		return r == -ENOENT ? -EAGAIN : r;
	}
	if (flock(lot, LOCK_EX | LOCK_NB) < 0) {
		r = errno == EWOULDBLOCK ? -EAGAIN : -errno;
		(void)unlinkat(own, name, AT_REMOVEDIR);
		return r;
	}
	if (!is_still(own, name, lot)) {
		return -EAGAIN;
	}
	*ret_lot = TAKE_FD(lot);
	return 0;
}

int box_cgroup_parent_make(
	int own, char name[BOX_CGROUP_PARENT_NAME_SIZE], int *ret_lot, struct box_err *err)
{
	int r = -EAGAIN;
	for (int i = 0; r == -EAGAIN && i < MAKE_TRIES; i++) {
		uint64_t number = 0;
		if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
			return box_err_set(err, BOX_ERR_BOX, EIO, "no random numbers");
		}
		(void)snprintf(name, BOX_CGROUP_PARENT_NAME_SIZE, PREFIX "%016llx",
			(unsigned long long)number);
		r = try_make(own, name, ret_lot);
	}
	return r == 0 ? 0
		      : box_err_set(err, BOX_ERR_BOX, -r, "cannot make a group in our own: %s",
				box_err_strerror(-r));
}

void box_cgroup_own_lock(int own)
{
	const struct timespec pause = {.tv_nsec = SWEEP_PAUSE_US * 1000L};
	for (int i = 0; i < OWN_LOCK_TRIES && flock(own, LOCK_EX | LOCK_NB) < 0; i++) {
		(void)nanosleep(&pause, NULL);
	}
}

void box_cgroup_own_unlock(int own)
{
	(void)flock(own, LOCK_UN);
}

static bool is_lot_name(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
		strlen(name) == BOX_CGROUP_PARENT_NAME_SIZE - 1 &&
		strspn(name + strlen(PREFIX), "0123456789abcdef") ==
		BOX_CGROUP_PARENT_NAME_SIZE - 1 - strlen(PREFIX);
}

/* A list of its own on the folder: the position of a shared one is everyone's. */
static DIR *list_folders(int folder)
{
	int fd = -1;
	if (open_folder(folder, ".", &fd) < 0) {
		return NULL;
	}
	DIR *entries = fdopendir(fd);
	if (!entries) {
		(void)close(fd);
	}
	return entries;
}

static const char *next_folder(DIR *entries)
{
	const struct dirent *entry = NULL;
	while ((entry = readdir(entries)) != NULL) {
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
			strcmp(entry->d_name, "..") != 0) {
			return entry->d_name;
		}
	}
	return NULL;
}

/* Boxes in a lot, parts in a box: nobody else can make groups there. */
/* NOLINTNEXTLINE(misc-no-recursion): two levels */
void box_cgroup_clear(int folder, const struct box_cgroup_manager *manager)
{
	DIR *entries = list_folders(folder);
	const char *name = NULL;
	while (entries && (name = next_folder(entries)) != NULL) {
		_cleanup_(box_close_p) int below = -1;
		if (unlinkat(folder, name, AT_REMOVEDIR) < 0 &&
			open_folder(folder, name, &below) == 0) {
			manager->kill(below);
			box_cgroup_clear(below, manager);
			(void)unlinkat(folder, name, AT_REMOVEDIR);
		}
	}
	if (entries) {
		(void)closedir(entries);
	}
}

/* What is left is swept again by whoever comes next. */
int box_cgroup_parent_remove(
	int own, const char *name, const struct box_cgroup_manager *manager, int rounds)
{
	_cleanup_(box_close_p) int lot = -1;
	int r = open_folder(own, name, &lot);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	if (flock(lot, LOCK_EX | LOCK_NB) < 0) {
		return -EAGAIN;
	}
	if (!is_still(own, name, lot)) {
		return 0;
	}
	const struct timespec pause = {.tv_nsec = SWEEP_PAUSE_US * 1000L};
	for (int i = 0; i < rounds; i++) {
		if (unlinkat(own, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
			return 0;
		}
		if (errno != EBUSY && errno != ENOTEMPTY) {
			return -errno;
		}
		if (i > 0) {
			(void)nanosleep(&pause, NULL);
		}
		manager->kill(lot);
		box_cgroup_clear(lot, manager);
	}
	return -EBUSY;
}

void box_cgroup_parent_sweep(int own, const struct box_cgroup_manager *manager)
{
	DIR *entries = list_folders(own);
	const char *name = NULL;
	while (entries && (name = next_folder(entries)) != NULL) {
		if (!is_lot_name(name)) {
			continue;
		}
		int r = box_cgroup_parent_remove(own, name, manager, SWEEP_TRIES);
		/* One that lives has its lock. */
		if (r < 0 && r != -EAGAIN) {
			BOX_LOG(BOX_LOG_WARNING, "cgroup.left", box_log_str("group", name),
				box_log_errno("why", r));
		}
	}
	if (entries) {
		(void)closedir(entries);
	}
}
