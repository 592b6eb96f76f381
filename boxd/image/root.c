/* Takes a root apart by opened folders: in a caller's root nothing is followed that leads out of it. */
#include "boxd/image/root.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/macros.h"
#include "boxd/files/host_mount.h"
#include "boxd/image/etc.h"

#define SEEN_MAX 4096 /* names at the top of an operator's root, of any type */

/* What a box gets of the host's own root. */
static const char *const system_folders[] = {
	"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"};

/* What a box never gets of another root, because it has its own. */
static const char *const own_folders[] = {"boot", "dev", "etc", "home", "lost+found", "media",
	"mnt", "opt", "proc", "root", "run", "srv", "sys", "tmp", "var", "workspace"};

void box_root_init(struct box_root *root)
{
	memset(root, 0, sizeof(*root));
	root->etc = -1;
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		root->trees[i] = -1;
	}
}

void box_root_close(struct box_root *root)
{
	box_close_p(&root->etc);
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		box_close_p(&root->trees[i]);
	}
}

/* Attaches a read-only clone of `source` to a new folder in `parent`. */
static int attach_clone(int parent, const char *name, int source, int *ret_fd)
{
	_cleanup_(box_close_p) int tree = open_tree(
		source, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | AT_RECURSIVE);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		.propagation = MS_PRIVATE,
	};
	if (tree < 0 || mkdirat(parent, name, 0755) < 0 ||
		mount_setattr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &attr, sizeof(attr)) < 0) {
		return -errno;
	}
	return box_fsmount_attach(tree, parent, name, ret_fd);
}

/* A root with mounts below it is refused: they may be anything. */
static int detach(int source, int *ret_fd)
{
	static const struct box_host_mount_owner as_they_are = {.map = false};
	struct box_err err;
	int r = box_host_mount_detach(source, true, &as_they_are, ret_fd, &err);
	return r < 0 ? -err.errnum : 0;
}

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (strcmp(name, names[i]) == 0) {
			return true;
		}
	}
	return false;
}

/* One name at the top of the root: a link is remembered, a folder is mounted. */
static int take_entry(int folder, const char *name, int place, struct box_root *root)
{
	struct stat status;
	if (fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	if (root->count == BOX_ROOT_ENTRIES_MAX || strlen(name) >= sizeof(root->entries[0].name)) {
		return -E2BIG;
	}
	struct box_root_entry *entry = &root->entries[root->count];
	memset(entry, 0, sizeof(*entry));
	(void)snprintf(entry->name, sizeof(entry->name), "%s", name);
	if (S_ISLNK(status.st_mode)) {
		ssize_t len = readlinkat(folder, name, entry->link, sizeof(entry->link) - 1);
		if (len <= 0) {
			return len < 0 ? -errno : -EINVAL;
		}
	} else if (S_ISDIR(status.st_mode)) {
		_cleanup_(box_close_p) int fd = openat(
			folder, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int *tree = &root->trees[root->count];
		int r = fd < 0       ? -errno
			: root->once ? detach(fd, tree)
				     : attach_clone(place, name, fd, tree);
		if (r < 0) {
			return r;
		}
	} else {
		return 0;
	}
	root->count++;
	return 0;
}

static int take_system_folders(int folder, int place, struct box_root *root)
{
	int r = 0;
	for (size_t i = 0; i < BOX_COUNT_OF(system_folders) && r == 0; i++) {
		r = take_entry(folder, system_folders[i], place, root);
	}
	return r;
}

static int take_all_entries(int folder, int place, struct box_root *root)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *entries = fd < 0 ? NULL : fdopendir(fd);
	if (!entries) {
		return -errno;
	}
	int r = 0;
	size_t seen = 0;
	for (const struct dirent *at; r == 0 && (at = readdir(entries));) {
		/* boxd waits for this if it is a caller's root. */
		if (++seen > (root->once ? BOX_CALLERS_ROOT_TOP_MAX : SEEN_MAX)) {
			r = -E2BIG;
			break;
		}
		if (at->d_name[0] != '.' &&
			!is_one_of(at->d_name, own_folders, BOX_COUNT_OF(own_folders))) {
			r = take_entry(folder, at->d_name, place, root);
		}
	}
	(void)closedir(entries);
	return r;
}

int box_root_take(int folder, enum box_root_kind whose, int anchor, struct box_root *root)
{
	_cleanup_(box_close_p) int place = -1;
	root->once = whose == BOX_ROOT_CALLER;
	if (!root->once) {
		if (mkdirat(anchor, "root", 0755) < 0) {
			return -errno;
		}
		place = openat(anchor, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
		if (place < 0) {
			return -errno;
		}
	}
	int r = whose == BOX_ROOT_HOST ? take_system_folders(folder, place, root)
				       : take_all_entries(folder, place, root);
	if (r < 0) {
		return r;
	}
	if (root->once) {
		return box_etc_open(BOX_ETC_CALLER, &root->etc);
	}
	return box_etc_make(folder, whose == BOX_ROOT_HOST ? BOX_ETC_HOST : BOX_ETC_OPERATOR,
		anchor, "etc", &root->etc);
}

int box_root_check_shell(int folder)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS,
	};
	struct stat status;
	_cleanup_(box_close_p) int fd = (int)syscall(
		SYS_openat2, folder, "bin/sh", &how, sizeof(how));
	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
			(status.st_mode & (S_IXUSR | S_IXGRP | S_IXOTH))
		? 0
		: -ENOENT;
}

void box_root_describe(const struct box_root *root, const char *path, struct box_plan_host *host)
{
	memcpy(host->root_entries, root->entries, sizeof(host->root_entries));
	host->root_entry_count = root->count;
	host->own_etc = true;
	host->root_path = path;
}

/* The tree of the entry with this name; -1: it is a link, or missing. */
static int find_tree(const struct box_root_entry *entries, const int *trees, size_t count,
	const char *name, size_t len, const struct box_root_entry **ret_entry)
{
	for (size_t i = 0; i < count; i++) {
		if (strlen(entries[i].name) == len && memcmp(entries[i].name, name, len) == 0) {
			*ret_entry = &entries[i];
			return trees[i];
		}
	}
	*ret_entry = NULL;
	return -1;
}

bool box_root_has_shell(const struct box_root_entry *entries, const int *trees, size_t count)
{
	char path[sizeof(entries[0].link) + sizeof("/sh")];
	const struct box_root_entry *bin = NULL;
	struct stat status;
	int tree = find_tree(entries, trees, count, "bin", strlen("bin"), &bin);
	if (!bin) {
		return false;
	}
	(void)snprintf(path, sizeof(path), "%s", "sh");
	if (bin->link[0]) {
		/* usr/bin */
		const char *link = bin->link + strspn(bin->link, "/");
		size_t len = strcspn(link, "/");
		const struct box_root_entry *first = NULL;
		tree = find_tree(entries, trees, count, link, len, &first);
		link += len;
		(void)snprintf(path, sizeof(path), "%s%ssh", link + strspn(link, "/"),
			link[strspn(link, "/")] ? "/" : "");
	}
	/* A link is not followed: this only detects a folder that was emptied. */
	return tree >= 0 && fstatat(tree, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}
