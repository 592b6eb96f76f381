/* The cache of trees and those that are being filled. Who asks for one that is being filled waits for
 * it; a box may have so many trees and bytes of them, and all together too: the one that was asked for
 * longest ago goes first. */
#include "runtime/keeper/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "runtime/keeper/errands.h"
#include "runtime/keeper/filesystem.h"
#include "runtime/keeper/program.h"
#include "runtime/keeper/source.h"

#define FAILED "Immutable artifact preparation failed: "

#define NO_BOX 0

/* Who has a tree, or waits for it. */
struct user {
	struct box_list links;
	uint64_t box;     /* NO_BOX: it has ended, and is still to be answered */
	uint32_t request; /* of one that waits */
};

struct tree {
	struct box_list links; /* the one asked for last is the last; or in `dropped` */
	struct box_artifacts *artifacts;
	char digest[BOX_DIGEST_HEX_SIZE];
	char name[16]; /* of its mount point */
	int root;      /* O_PATH */
	int report;    /* of box-skills; -1: it is filled */
	bool dropped;  /* nobody gets it any more, but boxes have it */
	uint64_t bytes;
	struct box_list holders;
	struct box_list waiting;
};

struct box_artifacts {
	struct box_errands *errands;
	const char *program;
	const struct box_worker_ids *ids;
	const struct box_policy *policy;
	box_artifacts_done *done;
	void *arg;
	int folder;
	struct box_list trees;
	struct box_list dropped;
	size_t count;
	uint64_t bytes;
	unsigned number; /* of the last mount point */
};

struct box_artifacts *box_artifacts_new(struct box_errands *errands, const char *program,
	const struct box_worker_ids *ids, const struct box_policy *policy, box_artifacts_done *done,
	void *arg)
{
	struct box_artifacts *artifacts = box_alloc(sizeof(*artifacts));
	artifacts->errands = errands;
	artifacts->program = program;
	artifacts->ids = ids;
	artifacts->policy = policy;
	artifacts->done = done;
	artifacts->arg = arg;
	artifacts->folder = -1;
	box_list_init(&artifacts->trees);
	box_list_init(&artifacts->dropped);
	return artifacts;
}

void box_artifacts_place(struct box_artifacts *artifacts, int folder)
{
	artifacts->folder = folder;
}

/* --- trees --- */

static void unhang(const struct tree *tree)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", tree->root);
	(void)umount2(path, MNT_DETACH);
	(void)unlinkat(tree->artifacts->folder, tree->name, AT_REMOVEDIR);
}

static void free_users(struct box_list *users)
{
	struct box_list *item;
	while ((item = box_list_pop(users))) {
		free(BOX_LIST_ITEM(item, struct user, links));
	}
}

static void leave_cache(struct tree *tree)
{
	if (tree->root >= 0) {
		unhang(tree);
		box_close_p(&tree->root);
	}
	box_list_drop(&tree->links);
	tree->artifacts->count--;
	tree->artifacts->bytes -= tree->bytes;
}

static void tree_free(struct tree *tree)
{
	if (tree->dropped) {
		box_list_drop(&tree->links);
	} else {
		leave_cache(tree);
	}
	free_users(&tree->holders);
	free_users(&tree->waiting);
	box_close_p(&tree->report);
	free(tree);
}

static void free_trees(struct box_list *trees)
{
	while (!box_list_empty(trees)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		tree_free(BOX_LIST_ITEM(trees->next, struct tree, links));
	}
}

void box_artifacts_free(struct box_artifacts *artifacts)
{
	free_trees(&artifacts->trees);
	free_trees(&artifacts->dropped);
	free(artifacts);
}

static struct tree *find_tree(struct box_artifacts *artifacts, const char *digest)
{
	for (struct box_list *at = artifacts->trees.next; at != &artifacts->trees; at = at->next) {
		struct tree *tree = BOX_LIST_ITEM(at, struct tree, links);
		if (strcmp(tree->digest, digest) == 0) {
			return tree;
		}
	}
	return NULL;
}

/* Boxes keep what they have mounted, and with it the memory: it goes on counting for them. */
static void drop_tree(struct tree *tree)
{
	if (box_list_empty(&tree->holders)) {
		tree_free(tree);
		return;
	}
	leave_cache(tree);
	tree->dropped = true;
	box_list_push(&tree->artifacts->dropped, &tree->links);
}

/* Room for one more, as large as one may be. */
static void make_room(struct box_artifacts *artifacts)
{
	struct box_list *at = artifacts->trees.next;
	while (at != &artifacts->trees &&
		(artifacts->count >= BOX_ARTIFACTS_MAX ||
			artifacts->bytes + BOX_ARTIFACT_BYTES_MAX > BOX_ARTIFACTS_BYTES_MAX)) {
		struct tree *tree = BOX_LIST_ITEM(at, struct tree, links);
		at = at->next;
		if (tree->report < 0) {
			drop_tree(tree);
		}
	}
}

/* A file system for it, hung up so that it can be cloned. It belongs to whom the source does, and so
 * does the process that fills it; a box sees it as nobody's. */
static int hang(struct tree *tree, const struct box_worker_ids *ids)
{
	const struct box_fs_options options = {
		/* Pages, and more files than a manifest has: folders count too. */
		.size_bytes = BOX_ARTIFACT_BYTES_MAX + BOX_ARTIFACT_FILES_MAX * 4 * BOX_KIB,
		.inodes = 16 * BOX_ARTIFACT_FILES_MAX,
		.mode = 0755,
		.uid = ids->change ? ids->uid : 0,
		.gid = ids->change ? ids->gid : 0,
		.attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
	};
	struct box_artifacts *artifacts = tree->artifacts;
	_cleanup_(box_close_p) int mount = -1;
	(void)snprintf(tree->name, sizeof(tree->name), "%u", ++artifacts->number);
	int r = box_fs_make("tmpfs", &options, &mount);
	if (r == 0 && mkdirat(artifacts->folder, tree->name, 0700) < 0) {
		r = -errno;
	}
	return r < 0 ? r : box_fs_attach(mount, artifacts->folder, tree->name, &tree->root);
}

static int clone_mount(const struct tree *tree, int *ret_mount, struct box_err *err)
{
	_cleanup_(box_close_p) int mount = open_tree(
		tree->root, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	struct mount_attr attr = {
		.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
		.propagation = MS_PRIVATE,
	};
	if (mount < 0 || mount_setattr(mount, "", AT_EMPTY_PATH, &attr, sizeof(attr)) < 0) {
		return box_err_set(
			err, BOX_ERR_BOX, errno, FAILED "mount: %s", strerrordesc_np(errno));
	}
	*ret_mount = TAKE_FD(mount);
	return 0;
}

/* --- who has what --- */

static struct user *find_user(struct box_list *users, uint64_t box)
{
	for (struct box_list *at = users->next; at != users; at = at->next) {
		struct user *user = BOX_LIST_ITEM(at, struct user, links);
		if (user->box == box) {
			return user;
		}
	}
	return NULL;
}

static struct user *find_holder(struct tree *tree, uint64_t box)
{
	return find_user(&tree->holders, box);
}

static void count_held(struct box_list *trees, uint64_t box, size_t *count, uint64_t *bytes)
{
	for (struct box_list *at = trees->next; at != trees; at = at->next) {
		struct tree *tree = BOX_LIST_ITEM(at, struct tree, links);
		if (find_holder(tree, box)) {
			++*count;
			*bytes += tree->bytes;
		}
	}
}

/* Whether the box, which does not have it, may have this one too. */
static bool is_within_limits(struct box_artifacts *artifacts, const struct tree *tree, uint64_t box)
{
	size_t count = 0;
	uint64_t bytes = tree->bytes;
	count_held(&artifacts->trees, box, &count, &bytes);
	count_held(&artifacts->dropped, box, &count, &bytes);
	return count < BOX_BOX_ARTIFACTS_MAX && bytes <= BOX_ARTIFACT_BYTES_MAX;
}

static void add_user(struct box_list *users, uint64_t box, uint32_t request)
{
	struct user *user = box_alloc(sizeof(*user));
	user->box = box;
	user->request = request;
	box_list_push(users, &user->links);
}

/* Of a tree that is filled. */
static void give(struct tree *tree, uint64_t box, uint32_t request)
{
	struct box_artifacts *artifacts = tree->artifacts;
	struct box_err err;
	int mount = -1;
	int r = 0;
	if (box == NO_BOX) {
		r = box_err_set(&err, BOX_ERR_BOX, ESRCH, FAILED "the box has ended");
	} else if (!find_holder(tree, box) && !is_within_limits(artifacts, tree, box)) {
		r = box_err_set(&err, BOX_ERR_BOX, ENOSPC,
			FAILED "Immutable artifact cache limit reached; acquire a new Box");
	}
	r = r < 0 ? r : clone_mount(tree, &mount, &err);
	if (r == 0 && !find_holder(tree, box)) {
		add_user(&tree->holders, box, 0);
	}
	artifacts->done(artifacts->arg, request, mount, r < 0 ? &err : NULL);
}

static void forget_in(struct box_list *trees, uint64_t box)
{
	struct box_list *next;
	for (struct box_list *at = trees->next; at != trees; at = next) {
		struct tree *tree = BOX_LIST_ITEM(at, struct tree, links);
		struct user *user = find_holder(tree, box);
		next = at->next;
		if (user) {
			box_list_drop(&user->links);
			free(user);
		}
		while ((user = find_user(&tree->waiting, box))) {
			user->box = NO_BOX;
		}
		if (tree->dropped && box_list_empty(&tree->holders)) {
			tree_free(tree);
		}
	}
}

void box_artifacts_forget(struct box_artifacts *artifacts, uint64_t box)
{
	forget_in(&artifacts->trees, box);
	forget_in(&artifacts->dropped, box);
}

void box_artifacts_drop(struct box_artifacts *artifacts)
{
	for (struct box_list *at = artifacts->trees.next; at != &artifacts->trees; at = at->next) {
		free_users(&BOX_LIST_ITEM(at, struct tree, links)->waiting);
	}
}

/* --- filling --- */

static int read_report(struct tree *tree, struct box_err *err)
{
	struct box_artifact_report report;
	ssize_t got = read(tree->report, &report, sizeof(report));
	box_close_p(&tree->report);
	if (got != (ssize_t)sizeof(report)) {
		return box_err_set(err, BOX_ERR_BOX, ETIMEDOUT, FAILED "it took too long");
	}
	if (report.result != 0) {
		return box_err_set(err, BOX_ERR_BOX, EINVAL, FAILED "%.*s",
			(int)sizeof(report.text) - 1, report.text);
	}
	struct statfs status;
	int r = fstatfs(tree->root, &status) < 0 ? -errno : box_fs_freeze(tree->root);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r, FAILED "%s", strerrordesc_np(-r));
	}
	tree->bytes = (uint64_t)(status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
	tree->artifacts->bytes += tree->bytes;
	return 0;
}

/* box-skills has ended; those who wait are told. */
static void filled(void *arg)
{
	struct tree *tree = arg;
	struct box_artifacts *artifacts = tree->artifacts;
	struct box_err err;
	struct box_list *item;
	int r = read_report(tree, &err);
	while ((item = box_list_pop(&tree->waiting))) {
		struct user *user = BOX_LIST_ITEM(item, struct user, links);
		if (r < 0) {
			artifacts->done(artifacts->arg, user->request, -1, &err);
		} else {
			give(tree, user->box, user->request);
		}
		free(user);
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "artifact.refused", box_kv_str("why", err.text));
		tree_free(tree);
	}
}

/* `source` and `manifest` stay the caller's. */
static int start_filling(struct tree *tree, int source, int manifest, struct box_err *err)
{
	struct box_artifacts *artifacts = tree->artifacts;
	struct box_worker_ids ids;
	int ends[2] = {-1, -1};
	int r = box_owner_ids(artifacts->ids, source, &ids);
	r = r < 0 ? r : hang(tree, &ids);
	if (r == 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		r = -errno;
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r, FAILED "%s", strerrordesc_np(-r));
	}
	tree->report = ends[0];
	_cleanup_(box_close_p) int out = ends[1];
	const struct box_program wanted = {
		.path = artifacts->program,
		.name = "box-skills",
		.task = tree->digest,
		.ids = ids,
		.fds = {out, source, manifest, tree->root},
		.fd_count = 4,
	};
	return box_errands_start(artifacts->errands, &wanted, BOX_ARTIFACT_MS, filled, tree, err);
}

/* The folder, and its manifest to be read. */
static int open_source(const struct box_artifacts *artifacts,
	const struct box_keeper_open_artifact *wanted, int *ret_source, int *ret_manifest,
	struct box_err *err)
{
	_cleanup_(box_close_p) int manifest = -1;
	int r = box_source_open(wanted->path, "extra_mounts.host_path", false, false,
		artifacts->policy, ret_source, err);
	r = r < 0 ? r
		  : box_source_open(wanted->manifest, "extra_mounts.manifest_path", false, true,
			    artifacts->policy, &manifest, err);
	if (r < 0) {
		return r;
	}
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", manifest);
	*ret_manifest = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return *ret_manifest < 0 ? box_err_set(err, BOX_ERR_VALIDATION, errno,
					   "extra_mounts.manifest_path %s cannot be read: %s",
					   wanted->manifest, strerrordesc_np(errno))
				 : 0;
}

static int begin(struct box_artifacts *artifacts, const struct box_keeper_open_artifact *wanted,
	int source, int manifest, struct box_err *err)
{
	if (artifacts->folder < 0 || artifacts->program[0] == '\0') {
		return box_err_set(err, BOX_ERR_BOX, ENOENT, FAILED "box-skills is not installed");
	}
	make_room(artifacts);
	if (artifacts->count >= BOX_ARTIFACTS_MAX) {
		return box_err_set(err, BOX_ERR_BUSY, EAGAIN, FAILED "too many at once");
	}
	struct tree *tree = box_alloc(sizeof(*tree));
	tree->artifacts = artifacts;
	tree->root = tree->report = -1;
	(void)snprintf(tree->digest, sizeof(tree->digest), "%s", wanted->digest);
	box_list_init(&tree->holders);
	box_list_init(&tree->waiting);
	box_list_init(&tree->links);
	box_list_push(&artifacts->trees, &tree->links);
	artifacts->count++;
	int r = start_filling(tree, source, manifest, err);
	if (r < 0) {
		tree_free(tree);
		return r;
	}
	add_user(&tree->waiting, wanted->box, wanted->id);
	return 0;
}

void box_artifacts_open(
	struct box_artifacts *artifacts, const struct box_keeper_open_artifact *wanted)
{
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int manifest = -1;
	struct box_err err;
	int r = open_source(artifacts, wanted, &source, &manifest, &err);
	struct tree *tree = r < 0 ? NULL : find_tree(artifacts, wanted->digest);
	if (tree) {
		box_list_drop(&tree->links);
		box_list_push(&artifacts->trees, &tree->links);
	}
	if (tree && tree->report < 0) {
		give(tree, wanted->box, wanted->id);
	} else if (tree) {
		add_user(&tree->waiting, wanted->box, wanted->id);
	} else if (r < 0 || begin(artifacts, wanted, source, manifest, &err) < 0) {
		artifacts->done(artifacts->arg, wanted->id, -1, &err);
	}
}
