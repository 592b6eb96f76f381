/* The parent group, which holds the groups of boxes and is locked while its boxd lives; and the removal
 * of parent groups of dead runtimes.
 *
 * The lock shows whether the owner lives, because the kernel releases it with the owner's last fd; a
 * name with a pid could not show that. Only names of exactly our form are considered: another program's
 * group may begin with the same letters. */
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
#define OWN_LOCK_TRIES 200 /* one second */

static int open_folder(int parent, const char *name, int *ret_fd)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

/* Whether the name still refers to the opened folder. */
static bool is_still(int parent, const char *name, int fd)
{
	struct stat opened;
	struct stat named;
	return fstat(fd, &opened) == 0 && fstatat(parent, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
		opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

/* Another runtime may remove it between mkdir and flock: then -EAGAIN, to try another name. */
static int try_make(int own, const char *name, int *ret_parent)
{
	_cleanup_(box_close_p) int parent = -1;
	/* Mode 0700: nobody else can open it, so nobody else can lock it. */
	if (mkdirat(own, name, 0700) < 0) {
		return errno == EEXIST ? -EAGAIN : -errno;
	}
	int r = open_folder(own, name, &parent);
	if (r < 0) {
		(void)unlinkat(own, name, AT_REMOVEDIR);
		return r == -ENOENT ? -EAGAIN : r;
	}
	if (flock(parent, LOCK_EX | LOCK_NB) < 0) {
		r = errno == EWOULDBLOCK ? -EAGAIN : -errno;
		(void)unlinkat(own, name, AT_REMOVEDIR);
		return r;
	}
	if (!is_still(own, name, parent)) {
		return -EAGAIN;
	}
	*ret_parent = TAKE_FD(parent);
	return 0;
}

int box_cgroup_parent_make(
	int own, char name[BOX_CGROUP_PARENT_NAME_SIZE], int *ret_parent, struct box_err *err)
{
	int r = -EAGAIN;
	for (int i = 0; r == -EAGAIN && i < MAKE_TRIES; i++) {
		uint64_t number = 0;
		if (getrandom(&number, sizeof(number), 0) != (ssize_t)sizeof(number)) {
			return box_err_set(err, BOX_ERR_BOX, EIO, "no random numbers");
		}
		(void)snprintf(name, BOX_CGROUP_PARENT_NAME_SIZE, PREFIX "%016llx",
			(unsigned long long)number);
		r = try_make(own, name, ret_parent);
	}
	return r == 0
		? 0
		: box_err_set(err, BOX_ERR_BOX, -r, "cannot make a cgroup below that of boxd: %s",
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

static bool is_parent_name(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0 &&
		strlen(name) == BOX_CGROUP_PARENT_NAME_SIZE - 1 &&
		strspn(name + strlen(PREFIX), "0123456789abcdef") ==
		BOX_CGROUP_PARENT_NAME_SIZE - 1 - strlen(PREFIX);
}

/* Opens the folder again for a directory position of its own: an fd's position is shared. */
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

/* Nesting is two levels, process cgroups in boxes: nobody else can make groups there. */
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

/* If it fails, the next runtime that starts tries again. */
int box_cgroup_parent_remove(
	int own, const char *name, const struct box_cgroup_manager *manager, int rounds)
{
	_cleanup_(box_close_p) int parent = -1;
	int r = open_folder(own, name, &parent);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	if (flock(parent, LOCK_EX | LOCK_NB) < 0) {
		return -EAGAIN;
	}
	if (!is_still(own, name, parent)) {
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
		manager->kill(parent);
		box_cgroup_clear(parent, manager);
	}
	return -EBUSY;
}

void box_cgroup_parent_sweep(int own, const struct box_cgroup_manager *manager)
{
	DIR *entries = list_folders(own);
	const char *name = NULL;
	while (entries && (name = next_folder(entries)) != NULL) {
		if (!is_parent_name(name)) {
			continue;
		}
		int r = box_cgroup_parent_remove(own, name, manager, SWEEP_TRIES);
		/* -EAGAIN: locked, its owner is alive. -EACCES: it belongs to another user's boxd. */
		if (r < 0 && r != -EAGAIN && r != -EACCES) {
			BOX_LOG(BOX_LOG_WARNING, "cgroup.left", box_log_str("group", name),
				box_log_errno("why", r));
		}
	}
	if (entries) {
		(void)closedir(entries);
	}
}
