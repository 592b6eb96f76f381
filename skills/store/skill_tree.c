/* The tree of a store: one node for each folder, kept between walks; each walk checks its stamp. */
#include "skills/store/skill_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "skills/store/package.h"
#include "skills/store/stage.h"
#include "skills/store/subtree.h"

#define FDS_FOR_OTHERS 256 /* reserved for the rest of the process */

/* Folders and entry files stay open, so that checking a stamp needs no path lookup. The stamp of an fd is
 * valid for its path as long as the folders above are unchanged. */
static size_t kept_fds;

struct node {
	int fd; /* the folder; -1 if it was closed */
	char *path;
	const char *name; /* the last component of path */
	struct box_package_stamp stamp;
	bool is_known; /* the rest was read when the folder had this stamp */
	enum box_package_entry_kind entry;
	const char *entry_file;
	size_t entries; /* the number of entries of any kind */
	struct node **children;
	size_t child_count;
	struct box_package *skill;
	size_t work; /* the cost of loading it, even if that failed */
	char *why;
	struct box_package_stamp why_stamp; /* of the entry file that could not be loaded */
	bool why_is_settled;
};

struct box_skill_tree {
	char *root_path;
	struct node *root;
	struct node **found;
	size_t found_count, found_room;
	size_t node_bytes, skill_bytes;
};

static bool may_keep_fd(void)
{
	static size_t max;
	struct rlimit limit;
	if (max == 0) {
		bool known = getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
			limit.rlim_cur > FDS_FOR_OTHERS;
		max = known ? (size_t)limit.rlim_cur - FDS_FOR_OTHERS : 1;
		max = BOX_MIN(max, BOX_SKILL_CACHED_FDS_MAX);
	}
	return kept_fds < max;
}

static void close_kept(int *fd)
{
	if (*fd >= 0) {
		kept_fds--;
		box_close_p(fd);
	}
}

static struct node *node_new(const char *parent, const char *name)
{
	struct node *node = box_alloc(sizeof(*node));
	size_t before = strlen(parent);
	size_t len = strlen(name);
	node->fd = -1;
	node->path = box_alloc(before + len + 2);
	if (before > 0) {
		memcpy(node->path, parent, before);
		node->path[before++] = '/';
	}
	memcpy(node->path + before, name, len + 1);
	node->name = node->path + before;
	return node;
}

static void forget_package(struct node *node)
{
	if (node->skill) {
		close_kept(&node->skill->entry_fd);
	}
	box_package_free(node->skill);
	node->skill = NULL;
	node->work = 0;
	free(node->why);
	node->why = NULL;
}

static void node_free(struct node *node)
{
	for (size_t i = 0; i < node->child_count; i++) {
		node_free(node->children[i]);
	}
	free(node->children);
	forget_package(node);
	close_kept(&node->fd);
	free(node->path);
	free(node);
}

static void forget_children(struct node *node)
{
	for (size_t i = 0; i < node->child_count; i++) {
		node_free(node->children[i]);
	}
	free(node->children);
	node->children = NULL;
	node->child_count = 0;
	node->entries = 0;
}

struct box_skill_tree *box_skill_tree_new(const char *root_path)
{
	struct box_skill_tree *tree = box_alloc(sizeof(*tree));
	tree->root_path = box_strdup(root_path);
	tree->root = node_new("", "");
	return tree;
}

void box_skill_tree_free(struct box_skill_tree *tree)
{
	if (tree) {
		node_free(tree->root);
		free(tree->found);
		free(tree->root_path);
		free(tree);
	}
}

/* -- one folder ------------------------------------------------------------------------------- */

struct listing {
	char **folders;
	size_t count, room;
	size_t entries;
	size_t entries_max;
	bool is_root;
};

static int list_entry(void *context, const char *name, int d_type)
{
	struct listing *listing = context;
	if (listing->is_root && strcmp(name, BOX_STAGE_NAME) == 0) {
		return 0;
	}
	if (++listing->entries > listing->entries_max) {
		return -E2BIG;
	}
	if (d_type != DT_DIR || !box_utf8_valid(name, strlen(name))) {
		return 0;
	}
	if (listing->count == listing->room) {
		listing->room = listing->room ? 2 * listing->room : 16;
		listing->folders = box_realloc(
			listing->folders, listing->room * sizeof(*listing->folders));
	}
	listing->folders[listing->count++] = box_strdup(name);
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Takes over new children in order; for those that existed before, what is known about them stays. */
static void adopt_children(struct node *node, struct listing *listing)
{
	struct node **fresh = box_alloc((listing->count + 1) * sizeof(struct node *));
	size_t old = 0;
	if (listing->count > 1) {
		qsort(listing->folders, listing->count, sizeof(*listing->folders), by_text);
	}
	for (size_t i = 0; i < listing->count; i++) {
		int order = -1;
		while (old < node->child_count &&
			(order = strcmp(node->children[old]->name, listing->folders[i])) < 0) {
			node_free(node->children[old++]);
		}
		bool same = old < node->child_count && order == 0;
		fresh[i] = same ? node->children[old++] : node_new(node->path, listing->folders[i]);
	}
	while (old < node->child_count) {
		node_free(node->children[old++]);
	}
	free(node->children);
	node->children = fresh;
	node->child_count = listing->count;
	node->entries = listing->entries;
}

/* Reads a folder whose stamp has changed. -E2BIG above the limit; after other errors the node is empty. */
static int read_folder(struct node *node, int root_fd, bool descend, size_t entries_max)
{
	int64_t now = box_package_stamp_now_ns();
	unsigned mode = 0;
	node->is_known = false;
	node->entry = BOX_PACKAGE_ENTRY_NONE;
	/* What the package says about other files of the folder is outdated too. */
	forget_package(node);
	close_kept(&node->fd);
	_cleanup_(box_close_p) int fd = box_subtree_open(
		root_fd, node->path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0 || box_package_stamp_read(fd, "", &node->stamp, &mode) < 0) {
		forget_children(node);
		return 0;
	}
	node->entry = box_package_find_entry(fd, &node->entry_file);
	if (node->entry != BOX_PACKAGE_ENTRY_NONE) {
		forget_children(node);
	} else if (descend) {
		struct listing listing = {.entries_max = entries_max, .is_root = !*node->path};
		int r = box_subtree_each(fd, list_entry, &listing);
		if (r == 0) {
			adopt_children(node, &listing);
		} else {
			forget_children(node);
		}
		for (size_t i = 0; i < listing.count; i++) {
			free(listing.folders[i]);
		}
		free(listing.folders);
		if (r < 0) {
			return r == -E2BIG ? r : 0;
		}
	}
	node->is_known = box_package_stamp_is_settled(&node->stamp, now);
	if (node->is_known && may_keep_fd()) {
		node->fd = TAKE_FD(fd);
		kept_fds++;
	}
	return 0;
}

static int visit(struct node *node, int root_fd, bool descend, size_t entries_max)
{
	struct box_package_stamp stamp;
	unsigned mode = S_IFDIR;
	/* root_fd may be another folder than last time, so the root's stamp is read through it. */
	int r = !node->is_known ? -ENOENT
		: node->fd >= 0 && *node->path
		? box_package_stamp_of_fd(node->fd, &stamp)
		: box_package_stamp_read(root_fd, node->path, &stamp, &mode);
	if (r == 0 && S_ISDIR(mode) && box_package_stamp_same(&stamp, &node->stamp)) {
		return node->entries > entries_max ? -E2BIG : 0;
	}
	return read_folder(node, root_fd, descend, entries_max);
}

/* -- the walk --------------------------------------------------------------------------------- */

struct queue {
	struct node **nodes;
	size_t first, count, room;
};

static void push(struct node ***nodes, size_t *count, size_t *room, struct node *node)
{
	if (*count == *room) {
		*room = *room ? 2 * *room : 64;
		*nodes = box_realloc(*nodes, *room * sizeof(struct node *));
	}
	(*nodes)[(*count)++] = node;
}

static unsigned depth_of(const struct node *node)
{
	unsigned depth = *node->path != '\0';
	for (const char *p = node->path; *p; p++) {
		depth += *p == '/';
	}
	return depth;
}

static int walk_all(struct box_skill_tree *tree, int root_fd, unsigned max_depth,
	struct queue *queue, struct box_err *err)
{
	size_t entries = 0;
	push(&queue->nodes, &queue->count, &queue->room, tree->root);
	while (queue->first < queue->count) {
		struct node *node = queue->nodes[queue->first++];
		bool descend = depth_of(node) < max_depth;
		if (visit(node, root_fd, descend, BOX_SKILL_ENTRIES_MAX - entries) < 0) {
			return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
				"Skill discovery exceeded the configured entry limit");
		}
		entries += node->entries;
		tree->node_bytes += sizeof(*node) + sizeof(struct node *) + strlen(node->path);
		if (node->entry != BOX_PACKAGE_ENTRY_NONE) {
			push(&tree->found, &tree->found_count, &tree->found_room, node);
		}
		if (tree->found_count > BOX_SKILLS_MAX) {
			return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
				"Skill discovery exceeded the configured package limit");
		}
		for (size_t i = 0; i < node->child_count; i++) {
			push(&queue->nodes, &queue->count, &queue->room, node->children[i]);
		}
	}
	return 0;
}

int box_skill_tree_walk(
	struct box_skill_tree *tree, int root_fd, unsigned max_depth, struct box_err *err)
{
	struct queue queue = {0};
	tree->found_count = 0;
	tree->node_bytes = 0;
	int r = walk_all(tree, root_fd, max_depth, &queue, err);
	if (r < 0) {
		tree->found_count = 0;
	}
	free(queue.nodes);
	return r;
}

/* -- packages --------------------------------------------------------------------------------- */

static bool is_current(const struct node *node, int root_fd)
{
	struct box_package_stamp stamp;
	unsigned mode = 0;
	char path[BOX_PATH_MAX];
	const struct box_package_stamp *known = node->skill ? &node->skill->stamp
							    : &node->why_stamp;
	bool settled = node->skill ? node->skill->is_settled : node->why && node->why_is_settled;
	size_t len = strlen(node->path);
	const char *file = node->entry_file ? node->entry_file : "";
	size_t file_len = strlen(file);
	if (!node->is_known || !settled || len + file_len + 2 > sizeof(path)) {
		return false;
	}
	if (node->skill && node->skill->entry_fd >= 0) {
		return box_package_stamp_of_fd(node->skill->entry_fd, &stamp) == 0 &&
			box_package_stamp_same(&stamp, known);
	}
	memcpy(path, node->path, len);
	path[len] = '/';
	memcpy(path + len + (len > 0), file, file_len + 1);
	return box_package_stamp_read(root_fd, path, &stamp, &mode) == 0 && S_ISREG(mode) &&
		box_package_stamp_same(&stamp, known);
}

static void load(struct box_skill_tree *tree, struct node *node, int root_fd)
{
	struct box_err *err = box_alloc(sizeof(*err));
	size_t len = strlen(tree->root_path);
	size_t path_len = strlen(node->path);
	char *root = box_alloc(len + path_len + 2);
	memcpy(root, tree->root_path, len + 1);
	if (path_len > 0) {
		root[len] = '/';
		memcpy(root + len + 1, node->path, path_len + 1);
	}
	int64_t now = box_package_stamp_now_ns();
	unsigned mode = 0;
	forget_package(node);
	node->why_is_settled = false;
	_cleanup_(box_close_p) int fd = box_subtree_open(
		root_fd, node->path, O_RDONLY | O_DIRECTORY, 0);
	if (fd < 0) {
		(void)box_err_set(err, BOX_ERR_VALIDATION, -fd, "%s", box_err_strerror(-fd));
	} else if (box_package_load(fd, node->entry_file, root, &node->skill, &node->work, err) <
			0 &&
		box_package_stamp_read(fd, node->entry_file, &node->why_stamp, &mode) == 0) {
		/* The stamp was taken after reading, so only an old one proves that nothing changed. */
		node->why_is_settled = box_package_stamp_is_settled(&node->why_stamp, now);
	}
	if (!node->skill) {
		node->why = box_strdup(err->text);
	} else if (node->skill->is_settled && may_keep_fd()) {
		kept_fds++;
	} else {
		box_close_p(&node->skill->entry_fd);
	}
	free(root);
	free(err);
}

static void refresh(struct node *node, int root_fd)
{
	_cleanup_(box_close_p) int opened = node->fd >= 0
		? -1
		: box_subtree_open(root_fd, node->path, O_PATH | O_DIRECTORY, 0);
	if (node->fd >= 0 || opened >= 0) {
		box_package_refresh(node->skill, node->fd >= 0 ? node->fd : opened);
	}
}

/* Packages that are loaded already stay, so that removing some brings the rest back. */
static void set_unread(struct node *node)
{
	forget_package(node);
	node->why = box_strdup(
		"Skill front matter is not read: the skills together exceed the limit");
	node->why_is_settled = false;
}

int box_skill_tree_load(struct box_skill_tree *tree, int root_fd, struct box_err *err)
{
	size_t text = 0;
	size_t work = 0;
	tree->skill_bytes = 0;
	for (size_t i = 0; i < tree->found_count; i++) {
		struct node *node = tree->found[i];
		if (text > BOX_SKILL_LIST_TEXT_BYTES_MAX) {
			forget_package(node);
			continue;
		}
		if (work > BOX_SKILL_META_WORK_MAX) {
			set_unread(node);
			continue;
		}
		if (!is_current(node, root_fd)) {
			load(tree, node, root_fd);
		} else if (node->skill && node->skill->has_links) {
			refresh(node, root_fd);
		}
		work += node->work;
		text += node->skill ? node->skill->text_bytes : 0;
		tree->skill_bytes += node->skill ? box_package_bytes(node->skill) : 0;
	}
	if (text > BOX_SKILL_LIST_TEXT_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
			"Skill listing exceeds the configured text limit");
	}
	return 0;
}

size_t box_skill_tree_count(const struct box_skill_tree *tree)
{
	return tree->found_count;
}

struct box_skill_tree_found box_skill_tree_at(const struct box_skill_tree *tree, size_t i)
{
	const struct node *node = tree->found[i];
	return (struct box_skill_tree_found){node->path, node->entry_file, node->skill, node->why};
}

size_t box_skill_tree_bytes(const struct box_skill_tree *tree)
{
	return tree->node_bytes + tree->skill_bytes;
}
