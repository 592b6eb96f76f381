/* The cache of artifacts: complete trees, and trees that are being filled.
 *
 * A tree is found by its digest and its workspace: a tree that one workspace has supplied is never
 * given to another, which may know no more than the digest. Requests for a tree that is being filled
 * wait for it; if filling fails, only the request whose source was used fails, and the next request's
 * source is tried.
 *
 * The memory of all trees has a total limit and a limit per workspace. A tree counts as long as it
 * exists anywhere: cached, mounted in a box, or being filled, when its maximum size is reserved. Trees
 * that no box uses are dropped first, the least recently requested one before the others. */
#include "boxd/files/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fair_queue.h"
#include "base/fsmount.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/files/host_mount.h"
#include "boxd/jobs.h"
#include "boxd/program.h"

#define FAILED "Immutable artifact preparation failed: "

#define NO_BOX 0
#define FILLS_AT_ONCE 3
/* Whole pages, and more files than a manifest has: folders count too. */
#define TREE_BYTES_MAX (BOX_ARTIFACT_BYTES_MAX + BOX_ARTIFACT_FILES_MAX * 4 * BOX_KIB)
#define TREE_BYTES_MIN (64 * BOX_KIB) /* less is not worth a try */

/* A box that has a tree mounted. */
struct holder {
	struct box_list links;
	uint64_t box;
};

/* A request that waits for a tree. */
struct waiter {
	struct box_list links;
	struct box_boxd_open_artifact wanted; /* `box` is NO_BOX when that box has ended */
};

struct tree {
	struct box_list links;           /* in `trees`, last requested last; or in `dropped` */
	struct box_fair_queue_item turn; /* while it waits or is filled */
	struct box_artifacts *artifacts;
	char tenant[BOX_TENANT_SIZE];
	char digest[BOX_DIGEST_HEX_SIZE];
	char name[16]; /* of its mount point */
	int root;      /* O_PATH */
	int report;    /* pipe from box-skills, while it fills the tree */
	bool filled;
	bool left;      /* the requester whose source is used has gone */
	bool dropped;   /* given to no one any more, but boxes still have it */
	uint64_t bytes; /* size; while it is filled, the reserved maximum */
	struct box_list holders;
	struct box_list waiting; /* the first one's source is used, unless `left` */
};

struct box_artifacts {
	struct box_jobs *jobs;
	const char *program;
	const struct box_identity *ids;
	const struct box_policy *policy;
	struct box_mount_roots *mount_roots;
	box_artifacts_done *done;
	void *arg;
	int folder;
	struct box_list trees;
	struct box_list dropped;
	size_t count;
	size_t waiting_count;
	struct box_fair_queue queue;
	unsigned number; /* of the last mount point */
};

struct box_artifacts *box_artifacts_new(struct box_jobs *jobs, const char *program,
	const struct box_identity *ids, const struct box_policy *policy,
	struct box_mount_roots *mount_roots, box_artifacts_done *done, void *arg)
{
	struct box_artifacts *artifacts = box_alloc(sizeof(*artifacts));
	artifacts->jobs = jobs;
	artifacts->program = program;
	artifacts->ids = ids;
	artifacts->policy = policy;
	artifacts->mount_roots = mount_roots;
	artifacts->done = done;
	artifacts->arg = arg;
	artifacts->folder = -1;
	box_list_init(&artifacts->trees);
	box_list_init(&artifacts->dropped);
	box_fair_queue_init(&artifacts->queue, FILLS_AT_ONCE, BOX_ARTIFACTS_MAX);
	/* One fill per workspace: what it has reserved for a fill is never in the way of its next one. */
	artifacts->queue.per_tenant = 1;
	return artifacts;
}

void box_artifacts_set_folder(struct box_artifacts *artifacts, int folder)
{
	artifacts->folder = folder;
}

/* --- trees --- */

static void remove_filesystem(const struct tree *tree)
{
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", tree->root);
	(void)umount2(path, MNT_DETACH);
	(void)unlinkat(tree->artifacts->folder, tree->name, AT_REMOVEDIR);
}

static struct waiter *pop_waiter(struct tree *tree)
{
	struct box_list *item = box_list_pop(&tree->waiting);
	tree->artifacts->waiting_count -= item != NULL;
	return item ? BOX_CONTAINER_OF(item, struct waiter, links) : NULL;
}

static void leave_cache(struct tree *tree)
{
	if (tree->root >= 0) {
		remove_filesystem(tree);
		box_close_p(&tree->root);
	}
	box_list_drop(&tree->links);
	tree->artifacts->count--;
}

static void tree_free(struct tree *tree)
{
	struct box_list *item;
	struct waiter *waiter;
	if (tree->dropped) {
		box_list_drop(&tree->links);
	} else {
		leave_cache(tree);
	}
	if (!tree->filled) {
		box_fair_queue_leave(&tree->artifacts->queue, &tree->turn);
	}
	while ((item = box_list_pop(&tree->holders))) {
		free(BOX_CONTAINER_OF(item, struct holder, links));
	}
	while ((waiter = pop_waiter(tree))) {
		free(waiter);
	}
	box_close_p(&tree->report);
	free(tree);
}

static void free_trees(struct box_list *trees)
{
	while (!box_list_empty(trees)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		tree_free(BOX_CONTAINER_OF(trees->next, struct tree, links));
	}
}

void box_artifacts_free(struct box_artifacts *artifacts)
{
	free_trees(&artifacts->trees);
	free_trees(&artifacts->dropped);
	free(artifacts);
}

static struct tree *tree_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct tree, links);
}

static struct tree *find_tree(
	struct box_artifacts *artifacts, const char *tenant, const char *digest)
{
	for (struct box_list *at = artifacts->trees.next; at != &artifacts->trees; at = at->next) {
		struct tree *tree = tree_at(at);
		if (strcmp(tree->digest, digest) == 0 && strcmp(tree->tenant, tenant) == 0) {
			return tree;
		}
	}
	return NULL;
}

/* Boxes keep their mount of a dropped tree, and so its memory, which still counts for them. */
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

/* The least recently requested tree that no box uses; with a tenant, one of its trees. */
static struct tree *find_unheld(struct box_artifacts *artifacts, const char *tenant)
{
	for (struct box_list *at = artifacts->trees.next; at != &artifacts->trees; at = at->next) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed tree is in no list */
		struct tree *tree = tree_at(at);
		if (tree->filled && box_list_empty(&tree->holders) &&
			(!tenant || strcmp(tree->tenant, tenant) == 0)) {
			return tree;
		}
	}
	return NULL;
}

/* Makes room for one more tree. */
static void make_place(struct box_artifacts *artifacts)
{
	while (artifacts->count >= BOX_ARTIFACTS_MAX) {
		struct tree *tree = find_unheld(artifacts, NULL);
		struct box_list *at = artifacts->trees.next;
		while (!tree && at != &artifacts->trees) {
			/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed tree is in no list */
			tree = tree_at(at)->filled ? tree_at(at) : NULL;
			at = at->next;
		}
		if (!tree) {
			return;
		}
		drop_tree(tree);
	}
}

/* --- memory --- */

static uint64_t total_of(const struct box_artifacts *artifacts)
{
	const struct box_policy *policy = artifacts->policy;
	return policy && policy->artifact_bytes > 0 ? policy->artifact_bytes
						    : BOX_ARTIFACTS_BYTES_MAX;
}

static uint64_t share_of(const struct box_artifacts *artifacts)
{
	const struct box_policy *policy = artifacts->policy;
	uint64_t total = total_of(artifacts);
	return policy && policy->artifact_share_bytes > 0 && policy->artifact_share_bytes < total
		? policy->artifact_share_bytes
		: total;
}

static uint64_t sum_of(const struct box_list *trees, const char *tenant)
{
	uint64_t bytes = 0;
	for (struct box_list *at = trees->next; at != trees; at = at->next) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a freed tree is in no list */
		const struct tree *tree = tree_at(at);
		bytes += !tenant || strcmp(tree->tenant, tenant) == 0 ? tree->bytes : 0;
	}
	return bytes;
}

/* The memory of all trees; with a tenant, of its trees. */
static uint64_t used_by(const struct box_artifacts *artifacts, const char *tenant)
{
	return sum_of(&artifacts->trees, tenant) + sum_of(&artifacts->dropped, tenant);
}

uint64_t box_artifacts_bytes(const struct box_artifacts *artifacts)
{
	return used_by(artifacts, NULL);
}

/* How much of `wanted` is available, after dropping unused trees as far as necessary. */
static uint64_t make_room(struct box_artifacts *artifacts, const char *tenant, uint64_t max_bytes)
{
	uint64_t wanted = BOX_MIN(max_bytes, TREE_BYTES_MAX);
	for (;;) {
		uint64_t used = used_by(artifacts, tenant);
		uint64_t room = max_bytes > used ? max_bytes - used : 0;
		struct tree *tree = room < wanted ? find_unheld(artifacts, tenant) : NULL;
		if (!tree) {
			return room;
		}
		tree_free(tree);
	}
}

static int no_room(const struct box_artifacts *artifacts, const char *tenant, struct box_err *err)
{
	uint64_t own = used_by(artifacts, tenant);
	uint64_t all = used_by(artifacts, NULL);
	if (share_of(artifacts) - (own < share_of(artifacts) ? own : share_of(artifacts)) <
		total_of(artifacts) - (all < total_of(artifacts) ? all : total_of(artifacts))) {
		return box_err_set(err, BOX_ERR_CAPACITY, ENOSPC,
			FAILED "boxes of this workspace hold %" PRIu64
			       " MiB of artifacts, and limits.max_artifact_memory_mb_per_workspace "
			       "is %" PRIu64 ": remove sessions that use them",
			own / BOX_MIB, share_of(artifacts) / BOX_MIB);
	}
	return box_err_set(err, BOX_ERR_CAPACITY, ENOSPC,
		FAILED "boxes hold %" PRIu64
		       " MiB of artifacts, and limits.max_artifact_memory_mb is %" PRIu64
		       ": try again when sessions that use them are gone",
		all / BOX_MIB, total_of(artifacts) / BOX_MIB);
}

/* Makes the file system of a tree, attached so that it can be cloned. It belongs to the owner of the
 * source, as whom box-skills fills it; in a box it appears as owned by nobody. */
static int make_filesystem(struct tree *tree, const struct box_identity *ids)
{
	const struct box_fsmount_options options = {
		.size_bytes = tree->bytes,
		.inodes = 16 * BOX_ARTIFACT_FILES_MAX,
		.mode = 0755,
		.uid = ids->change ? ids->uid : 0,
		.gid = ids->change ? ids->gid : 0,
		.attributes = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
	};
	struct box_artifacts *artifacts = tree->artifacts;
	_cleanup_(box_close_p) int mount = -1;
	(void)snprintf(tree->name, sizeof(tree->name), "%u", ++artifacts->number);
	int r = box_fsmount_make("tmpfs", &options, &mount);
	if (r == 0 && mkdirat(artifacts->folder, tree->name, 0700) < 0) {
		r = -errno;
	}
	return r < 0 ? r : box_fsmount_attach(mount, artifacts->folder, tree->name, &tree->root);
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
			err, BOX_ERR_BOX, errno, FAILED "mount: %s", box_err_strerror(errno));
	}
	*ret_mount = TAKE_FD(mount);
	return 0;
}

/* --- which box has which tree --- */

static struct holder *find_holder(struct tree *tree, uint64_t box)
{
	for (struct box_list *at = tree->holders.next; at != &tree->holders; at = at->next) {
		struct holder *holder = BOX_CONTAINER_OF(at, struct holder, links);
		if (holder->box == box) {
			return holder;
		}
	}
	return NULL;
}

static void count_held(struct box_list *trees, uint64_t box, size_t *count, uint64_t *bytes)
{
	for (struct box_list *at = trees->next; at != trees; at = at->next) {
		struct tree *tree = tree_at(at);
		if (find_holder(tree, box)) {
			++*count;
			*bytes += tree->bytes;
		}
	}
}

/* Whether the box, which does not have this tree, may have it in addition to others. */
static bool is_within_limits(struct box_artifacts *artifacts, const struct tree *tree, uint64_t box)
{
	size_t count = 0;
	uint64_t bytes = tree->bytes;
	count_held(&artifacts->trees, box, &count, &bytes);
	count_held(&artifacts->dropped, box, &count, &bytes);
	return count < BOX_ARTIFACTS_PER_BOX_MAX && bytes <= BOX_ARTIFACT_BYTES_MAX;
}

/* Gives a filled tree to a waiting request. */
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
	if (r == 0) {
		r = clone_mount(tree, &mount, &err);
	}
	if (r == 0 && !find_holder(tree, box)) {
		struct holder *holder = box_alloc(sizeof(*holder));
		holder->box = box;
		box_list_push(&tree->holders, &holder->links);
	}
	artifacts->done(artifacts->arg, request, mount, r < 0 ? &err : NULL);
}

static void remove_holders(struct box_list *trees, uint64_t box)
{
	struct box_list *next;
	for (struct box_list *at = trees->next; at != trees; at = next) {
		struct tree *tree = tree_at(at);
		struct holder *holder = find_holder(tree, box);
		next = at->next;
		if (holder) {
			box_list_drop(&holder->links);
			free(holder);
		}
		for (struct box_list *one = tree->waiting.next; one != &tree->waiting;
			one = one->next) {
			struct waiter *waiter = BOX_CONTAINER_OF(one, struct waiter, links);
			waiter->wanted.box = waiter->wanted.box == box ? NO_BOX
								       : waiter->wanted.box;
		}
		if (tree->dropped && box_list_empty(&tree->holders)) {
			tree_free(tree);
		}
	}
}

void box_artifacts_release_box(struct box_artifacts *artifacts, uint64_t box)
{
	remove_holders(&artifacts->trees, box);
	remove_holders(&artifacts->dropped, box);
}

void box_artifacts_drop_requests(struct box_artifacts *artifacts)
{
	struct box_list *next;
	for (struct box_list *at = artifacts->trees.next; at != &artifacts->trees; at = next) {
		struct tree *tree = tree_at(at);
		struct waiter *waiter;
		next = at->next;
		while ((waiter = pop_waiter(tree))) {
			free(waiter);
		}
		tree->left = true;
		if (!tree->filled && !tree->turn.running) {
			tree_free(tree);
		}
	}
}

/* --- filling a tree --- */

static int read_report(struct tree *tree, struct box_err *err)
{
	struct box_artifact_report report;
	ssize_t got = read(tree->report, &report, sizeof(report));
	box_close_p(&tree->report);
	if (got != (ssize_t)sizeof(report)) {
		return box_err_set(err, BOX_ERR_BOX, ETIMEDOUT, FAILED "it took too long");
	}
	struct statfs status;
	/* It did not fit into the memory that was left: not the fault of the source. */
	if (report.result != 0 && tree->bytes < TREE_BYTES_MAX &&
		fstatfs(tree->root, &status) == 0 && status.f_bfree == 0) {
		tree->bytes = 0;
		return no_room(tree->artifacts, tree->tenant, err);
	}
	if (report.result != 0) {
		return box_err_set(err, BOX_ERR_BOX, EINVAL, FAILED "%.*s",
			(int)sizeof(report.text) - 1, report.text);
	}
	int r = fstatfs(tree->root, &status) < 0 ? -errno : box_fsmount_make_read_only(tree->root);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r, FAILED "%s", box_err_strerror(-r));
	}
	tree->bytes = (uint64_t)(status.f_blocks - status.f_bfree) * (uint64_t)status.f_bsize;
	return 0;
}

static void open_wanted(struct box_artifacts *artifacts, const char *tenant,
	const struct box_boxd_open_artifact *wanted);
static void fill_next(struct box_artifacts *artifacts);

static bool has_same_source(
	const struct box_boxd_open_artifact *a, const struct box_boxd_open_artifact *b)
{
	return strcmp(a->path, b->path) == 0 && strcmp(a->manifest, b->manifest) == 0;
}

/* Fails the requests with this source; the others have sources of their own. */
static void fail_tree(struct tree *tree, const struct box_err *err)
{
	struct box_artifacts *artifacts = tree->artifacts;
	struct box_list others;
	struct waiter *first = tree->left ? NULL : pop_waiter(tree);
	struct waiter *waiter = first ? first : pop_waiter(tree);
	char tenant[BOX_TENANT_SIZE];
	BOX_LOG(BOX_LOG_WARNING, "artifact.refused", box_log_str("why", err->text));
	memcpy(tenant, tree->tenant, sizeof(tenant));
	box_list_init(&others);
	for (; waiter; waiter = pop_waiter(tree)) {
		if (first && has_same_source(&waiter->wanted, &first->wanted)) {
			artifacts->done(artifacts->arg, waiter->wanted.id, -1, err);
			if (waiter != first) {
				free(waiter);
			}
		} else {
			box_list_push(&others, &waiter->links);
		}
	}
	tree_free(tree);
	/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the loop frees the others */
	free(first);
	struct box_list *item;
	while ((item = box_list_pop(&others))) {
		waiter = BOX_CONTAINER_OF(item, struct waiter, links);
		open_wanted(artifacts, tenant, &waiter->wanted);
		free(waiter);
	}
}

/* box-skills has ended: tell those who wait. */
static void filled(void *arg)
{
	struct tree *tree = arg;
	struct box_artifacts *artifacts = tree->artifacts;
	struct box_err err;
	struct waiter *waiter;
	int r = read_report(tree, &err);
	if (r < 0) {
		fail_tree(tree, &err);
	} else {
		tree->filled = true;
		box_fair_queue_leave(&artifacts->queue, &tree->turn);
		while ((waiter = pop_waiter(tree))) {
			give(tree, waiter->wanted.box, waiter->wanted.id);
			free(waiter);
		}
	}
	fill_next(artifacts);
}

/* Opens the folder, and its manifest for reading. */
static int open_source(const struct box_artifacts *artifacts,
	const struct box_boxd_open_artifact *wanted, int *ret_source, int *ret_manifest,
	struct box_err *err)
{
	_cleanup_(box_close_p) int manifest = -1;
	struct box_host_mount_request source = {.path = wanted->path,
		.what = "extra_mounts.host_path",
		.asker = {.namespace = wanted->namespace, .by_digest = true}};
	int r = box_host_mount_open(&source, artifacts->mount_roots, ret_source, err);
	source.path = wanted->manifest;
	source.what = "extra_mounts.manifest_path";
	source.files = true;
	if (r < 0) {
		return r;
	}
	r = box_host_mount_open(&source, artifacts->mount_roots, &manifest, err);
	if (r < 0) {
		return r;
	}
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", manifest);
	*ret_manifest = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	return *ret_manifest < 0 ? box_err_set(err, BOX_ERR_VALIDATION, errno,
					   "extra_mounts.manifest_path %s cannot be read: %s",
					   wanted->manifest, box_err_strerror(errno))
				 : 0;
}

/* The size in the manifest is the maximum, and is reserved until the actual size is known. */
static int set_aside(struct tree *tree, struct box_err *err)
{
	struct box_artifacts *artifacts = tree->artifacts;
	uint64_t own = make_room(artifacts, tree->tenant, share_of(artifacts));
	uint64_t all = make_room(artifacts, NULL, total_of(artifacts));
	uint64_t room = BOX_MIN(own, all);
	if (room < TREE_BYTES_MIN) {
		return no_room(artifacts, tree->tenant, err);
	}
	tree->bytes = BOX_MIN(room, TREE_BYTES_MAX);
	return 0;
}

static int start_filling(struct tree *tree, struct box_err *err)
{
	struct box_artifacts *artifacts = tree->artifacts;
	const struct waiter *first = BOX_CONTAINER_OF(tree->waiting.next, struct waiter, links);
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int manifest = -1;
	struct box_identity ids;
	int ends[2] = {-1, -1};
	int r = open_source(artifacts, &first->wanted, &source, &manifest, err);
	if (r < 0) {
		return r;
	}
	r = set_aside(tree, err);
	if (r < 0) {
		return r;
	}
	r = box_identity_of_owner(artifacts->ids, source, &ids);
	if (r == 0) {
		r = make_filesystem(tree, &ids);
	}
	if (r == 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		r = -errno;
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BOX, -r, FAILED "%s", box_err_strerror(-r));
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
	return box_jobs_start(artifacts->jobs, &wanted, BOX_ARTIFACT_MS, filled, tree, err);
}

/* Starts fills in turn, as long as there is room for the maximum of each; later the actual size is
 * smaller. */
static void fill_next(struct box_artifacts *artifacts)
{
	uint64_t total = total_of(artifacts);
	uint64_t wanted = BOX_MIN(total, TREE_BYTES_MAX);
	while (artifacts->queue.waiting_count > 0 &&
		(artifacts->queue.running_count == 0 ||
			make_room(artifacts, NULL, total) >= wanted)) {
		struct box_fair_queue_item *turn = box_fair_queue_take(&artifacts->queue);
		struct box_err err;
		if (!turn) {
			return;
		}
		struct tree *tree = BOX_CONTAINER_OF(turn, struct tree, turn);
		if (start_filling(tree, &err) < 0) {
			fail_tree(tree, &err);
		}
	}
}

/* --- requests --- */

static int add_tree(struct box_artifacts *artifacts, const char *tenant, const char *digest,
	struct tree **ret_tree, struct box_err *err)
{
	if (artifacts->folder < 0 || artifacts->program[0] == '\0') {
		return box_err_set(err, BOX_ERR_BOX, ENOENT, FAILED "box-skills is not installed");
	}
	make_place(artifacts);
	struct tree *tree = box_alloc(sizeof(*tree));
	if (artifacts->count >= BOX_ARTIFACTS_MAX ||
		!box_fair_queue_put(&artifacts->queue, &tree->turn, tenant)) {
		free(tree);
		return box_err_set(err, BOX_ERR_BUSY, EAGAIN, FAILED "too many requests");
	}
	tree->artifacts = artifacts;
	tree->root = tree->report = -1;
	(void)snprintf(tree->digest, sizeof(tree->digest), "%s", digest);
	(void)snprintf(tree->tenant, sizeof(tree->tenant), "%s", tenant);
	box_list_init(&tree->holders);
	box_list_init(&tree->waiting);
	box_list_init(&tree->links);
	box_list_push(&artifacts->trees, &tree->links);
	artifacts->count++;
	*ret_tree = tree;
	return 0;
}

static int wait_for(
	struct tree *tree, const struct box_boxd_open_artifact *wanted, struct box_err *err)
{
	if (tree->artifacts->waiting_count >= BOX_ARTIFACTS_WAITING_MAX) {
		return box_err_set(err, BOX_ERR_BUSY, EAGAIN,
			FAILED "too many requests wait for this artifact");
	}
	struct waiter *waiter = box_alloc(sizeof(*waiter));
	waiter->wanted = *wanted;
	box_list_init(&waiter->links);
	box_list_push(&tree->waiting, &waiter->links);
	tree->artifacts->waiting_count++;
	return 0;
}

static void open_wanted(struct box_artifacts *artifacts, const char *tenant,
	const struct box_boxd_open_artifact *wanted)
{
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_close_p) int manifest = -1;
	struct box_err err;
	int r = open_source(artifacts, wanted, &source, &manifest, &err);
	struct tree *tree = r < 0 ? NULL : find_tree(artifacts, tenant, wanted->digest);
	if (tree) {
		box_list_drop(&tree->links);
		box_list_push(&artifacts->trees, &tree->links);
	}
	if (tree && tree->filled) {
		give(tree, wanted->box, wanted->id);
		return;
	}
	bool is_new = r == 0 && !tree;
	r = is_new ? add_tree(artifacts, tenant, wanted->digest, &tree, &err) : r;
	if (r == 0) {
		r = wait_for(tree, wanted, &err);
	}
	if (r < 0) {
		if (is_new && tree) {
			tree_free(tree);
		}
		artifacts->done(artifacts->arg, wanted->id, -1, &err);
	}
}

void box_artifacts_open(struct box_artifacts *artifacts, const char *tenant,
	const struct box_boxd_open_artifact *wanted)
{
	open_wanted(artifacts, tenant, wanted);
	fill_next(artifacts);
}
