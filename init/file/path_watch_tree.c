/* The folders of a watch and the kernel's numbers for them. Folders are found by walking down from
 * the first one without following links, and given to inotify as the working folder: a path would
 * be resolved once more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "init/file/dir_entries.h"
#include "init/file/path_walk.h"
#include "init/file/path_watch.h"

#define ENTRIES_BYTES 4096
#define DEPTH_MAX 128 /* of folders that are found at once */
#define EVENTS (IN_CREATE | IN_MODIFY | IN_ATTRIB | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)
#define OWN_EVENTS (IN_DELETE_SELF | IN_MOVE_SELF)

static uint32_t *bucket_of(struct box_watch_tree *tree, int wd)
{
	return &tree->buckets[(uint32_t)wd % BOX_WATCH_TREE_BUCKETS];
}

uint32_t box_watch_tree_find(const struct box_watch_tree *tree, int wd)
{
	uint32_t at = tree->buckets[(uint32_t)wd % BOX_WATCH_TREE_BUCKETS];
	while (at != BOX_WATCH_TREE_NONE && tree->nodes[at].wd != wd) {
		at = tree->nodes[at].next;
	}
	return at;
}

uint32_t box_watch_tree_child(const struct box_watch_tree *tree, uint32_t parent, const char *name)
{
	for (uint32_t i = 1; i < tree->used; i++) {
		const struct box_watch_tree_node *node = &tree->nodes[i];
		if (node->wd >= 0 && node->parent == parent && strcmp(node->name, name) == 0) {
			return i;
		}
	}
	return BOX_WATCH_TREE_NONE;
}

int box_watch_tree_path(const struct box_watch_tree *tree, uint32_t node, const char *name,
	char path[BOX_INIT_FILE_TEXT_MAX])
{
	size_t at = BOX_INIT_FILE_TEXT_MAX - 1;
	path[at] = '\0';
	for (;;) {
		size_t len = strlen(name);
		bool between = len > 0 && path[at] != '\0';
		if (len + between > at) {
			return -ENAMETOOLONG;
		}
		if (between) {
			path[--at] = '/';
		}
		at -= len;
		memcpy(path + at, name, len);
		if (node == 0) {
			memmove(path, path + at, BOX_INIT_FILE_TEXT_MAX - at);
			return 0;
		}
		name = tree->nodes[node].name;
		node = tree->nodes[node].parent;
	}
}

/* --- places --- */

static uint32_t take_place(struct box_watch_tree *tree, int wd)
{
	uint32_t place = tree->free;
	if (place != BOX_WATCH_TREE_NONE) {
		tree->free = tree->nodes[place].next;
	} else if (tree->used < BOX_INIT_FILE_FOLDERS_MAX) {
		place = tree->used++;
	} else {
		return BOX_WATCH_TREE_NONE;
	}
	uint32_t *bucket = bucket_of(tree, wd);
	tree->nodes[place] = (struct box_watch_tree_node){.wd = wd, .next = *bucket};
	*bucket = place;
	return place;
}

void box_watch_tree_forget(struct box_watch_tree *tree, uint32_t node)
{
	uint32_t *at = bucket_of(tree, tree->nodes[node].wd);
	while (*at != node) {
		at = &tree->nodes[*at].next;
	}
	*at = tree->nodes[node].next;
	tree->nodes[node].wd = -1;
	tree->nodes[node].next = tree->free;
	tree->free = node;
}

void box_watch_tree_drop(struct box_watch_tree *tree, uint32_t node)
{
	(void)inotify_rm_watch(tree->inotify, tree->nodes[node].wd);
	box_watch_tree_forget(tree, node);
	for (uint32_t i = 1; i < tree->used; i++) {
		if (tree->nodes[i].wd >= 0 && tree->nodes[i].parent == node) {
			box_watch_tree_drop(tree, i);
		}
	}
}

void box_watch_tree_move(
	struct box_watch_tree *tree, uint32_t node, uint32_t parent, const char *name)
{
	tree->nodes[node].parent = parent;
	(void)snprintf(tree->nodes[node].name, sizeof(tree->nodes[node].name), "%s", name);
}

/* --- folders --- */

/* Gone again, or something else by now: not worth a word. */
static bool is_gone(int r)
{
	return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EACCES;
}

/* A wd, or -errno. */
static int watch_folder(const struct box_watch_tree *tree, int fd, uint32_t events)
{
	if (fchdir(fd) < 0) {
		return -errno;
	}
	int wd = inotify_add_watch(tree->inotify, ".", events | IN_ONLYDIR);
	int r = wd < 0 ? -errno : wd;
	int ignored = chdir("/");
	(void)ignored;
	return r == -ENOSPC ? -E2BIG : r;
}

/* An opened folder. Its node, or -errno. */
static int add_watch(struct box_watch_tree *tree, int fd, uint32_t parent, const char *name)
{
	int wd = watch_folder(tree, fd, EVENTS | (name[0] ? 0 : OWN_EVENTS));
	if (wd < 0) {
		return wd;
	}
	uint32_t node = box_watch_tree_find(tree, wd);
	node = node != BOX_WATCH_TREE_NONE ? node : take_place(tree, wd);
	if (node == BOX_WATCH_TREE_NONE) {
		(void)inotify_rm_watch(tree->inotify, wd);
		return -E2BIG;
	}
	box_watch_tree_move(tree, node, parent, name);
	return (int)node;
}

static int add_below(struct box_watch_tree *tree, int fd, uint32_t node, int depth);

static int add_one(
	struct box_watch_tree *tree, int folder, uint32_t parent, const char *name, int depth)
{
	int fd = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0) {
		return is_gone(-errno) ? 0 : -errno;
	}
	if (box_path_walk_check_file_system(fd) < 0) {
		(void)close(fd);
		return 0;
	}
	int r = add_watch(tree, fd, parent, name);
	if (r >= 0) {
		r = depth < DEPTH_MAX ? add_below(tree, fd, (uint32_t)r, depth + 1) : -E2BIG;
	}
	(void)close(fd);
	return is_gone(r) ? 0 : r;
}

static int tell_found(struct box_watch_tree *tree, uint32_t node, const char *name, bool is_folder)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	if (!tree->found) {
		return 0;
	}
	int r = box_watch_tree_path(tree, node, name, path);
	return r < 0 ? r : tree->found(tree->arg, path, is_folder);
}

static bool is_folder_at(int fd, const char *name)
{
	struct stat st;
	return fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int add_below(struct box_watch_tree *tree, int fd, uint32_t node, int depth)
{
	BOX_DIR_ENTRIES_ALIGNED char bytes[ENTRIES_BYTES];
	struct box_dir_entries folder = {.fd = fd, .bytes = bytes, .room = sizeof(bytes)};
	const char *name;
	while ((name = box_dir_entries_next(&folder))) {
		bool is_folder = is_folder_at(fd, name);
		int r = tell_found(tree, node, name, is_folder);
		if (r == 0 && is_folder) {
			r = add_one(tree, fd, node, name, depth);
		}
		if (r < 0) {
			return r;
		}
	}
	return folder.failed;
}

int box_watch_tree_add(struct box_watch_tree *tree, uint32_t parent, const char *name)
{
	char path[BOX_INIT_FILE_TEXT_MAX];
	if (!tree->recursive) {
		return 0;
	}
	int r = box_watch_tree_path(tree, parent, "", path);
	int folder = r < 0 ? r : box_path_walk_descend(tree->base, path);
	if (folder < 0) {
		return is_gone(folder) ? 0 : folder;
	}
	r = add_one(tree, folder, parent, name, 0);
	(void)close(folder);
	return r;
}

int box_watch_tree_begin(struct box_watch_tree *tree)
{
	size_t size = BOX_INIT_FILE_FOLDERS_MAX * sizeof(struct box_watch_tree_node);
	void *nodes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (nodes == MAP_FAILED) {
		return -ENOMEM;
	}
	tree->nodes = nodes;
	tree->used = 0;
	tree->free = BOX_WATCH_TREE_NONE;
	for (uint32_t i = 0; i < BOX_WATCH_TREE_BUCKETS; i++) {
		tree->buckets[i] = BOX_WATCH_TREE_NONE;
	}
	tree->inotify = inotify_init1(IN_CLOEXEC);
	if (tree->inotify < 0) {
		return -errno;
	}
	tree->above_wd = -1;
	if (tree->above >= 0) {
		int wd = watch_folder(tree, tree->above, IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO);
		if (wd < 0) {
			return wd;
		}
		tree->above_wd = wd;
	}
	int (*found)(void *arg, const char *path, bool is_folder) = tree->found;
	tree->found = NULL; /* what was there before is no news */
	int r = add_watch(tree, tree->base, 0, "");
	if (r >= 0 && tree->recursive) {
		int fd = openat(tree->base, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? -errno : add_below(tree, fd, 0, 0);
		if (fd >= 0) {
			(void)close(fd);
		}
	}
	tree->found = found;
	return r < 0 ? r : 0;
}

void box_watch_tree_end(struct box_watch_tree *tree)
{
	if (tree->inotify >= 0) {
		(void)close(tree->inotify);
		tree->inotify = -1;
	}
	if (tree->nodes) {
		(void)munmap(tree->nodes,
			BOX_INIT_FILE_FOLDERS_MAX * sizeof(struct box_watch_tree_node));
		tree->nodes = NULL;
	}
}
