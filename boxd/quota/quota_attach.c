/* One mount in two namespaces: the host's, because the folder is the host's too, and boxd's own,
 * where boxes take it from. Where mounts of the host reach boxd by themselves the second is there
 * already. */
#include "boxd/quota/quota_attach.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "boxd/files/location.h"

static int fail(struct box_err *err, const char *step, int errnum)
{
	return box_err_set(err, BOX_ERR_BOX, errnum,
		"the quota of host_path cannot be held: %s: %s", step, box_err_strerror(errnum));
}

static bool same_device(const struct box_location *a, const struct box_location *b)
{
	return a->major == b->major && a->minor == b->minor;
}

static bool same_folder(const struct box_location *a, const struct box_location *b)
{
	return same_device(a, b) && a->inode == b->inode;
}

/* In boxd's own namespace, where a shared mount of the host's has it as its master. */
bool box_quota_attach_mount_is_shared(const char *line, unsigned long mount)
{
	char *end = NULL;
	unsigned long number = strtoul(line, &end, 10);
	const char *options = strstr(line, " - ");
	const char *shared = strstr(line, " shared:");
	const char *master = strstr(line, " master:");
	return end != line && *end == ' ' && number == mount && options &&
		((shared && shared < options) || (master && master < options));
}

/* What is mounted below a shared mount reaches whoever else has it. */
static bool is_shared(unsigned long mount)
{
	FILE *mounts = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t room = 0;
	bool found = false;
	while (mounts && !found && getline(&line, &room, mounts) > 0) {
		found = box_quota_attach_mount_is_shared(line, mount);
	}
	free(line);
	if (mounts) {
		(void)fclose(mounts);
	}
	return found;
}

static bool in_container(void)
{
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
		getenv("KUBERNETES_SERVICE_HOST") != NULL;
}

int box_quota_attach_check(int under, bool alone, struct box_err *err)
{
	_cleanup_(box_close_p) int root = -1;
	struct box_location place = {0};
	struct box_location top = {0};
	if (alone || !in_container()) {
		return 0;
	}
	/* What is in a container's root is its own; a volume may be others' too. */
	if (box_location_open_following(AT_FDCWD, "/", &root) == 0 &&
		box_location_of(root, &top) == 0 && box_location_of(under, &place) == 0 &&
		(place.mount == top.mount || is_shared((unsigned long)place.mount))) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"workspace_quota_mb cannot be held for host_path: boxd runs in a container, and "
		"what it mounts in this volume would not be seen by others who share it; give the "
		"volume mount propagation, or leave out the quota");
}

/* The folder as the host sees it: what we found, or our mount over it from another time. */
static int open_there(const char *path, const struct box_location *under,
	const struct box_location *image, int *ret_fd, bool *ret_done, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	struct box_location place = {0};
	int r = box_location_open_following(AT_FDCWD, path, &fd);
	r = r < 0 ? r : box_location_of(fd, &place);
	if (r < 0) {
		return fail(err, "the folder as the host sees it", -r);
	}
	*ret_done = same_folder(&place, image);
	if (!*ret_done && !same_folder(&place, under)) {
		return box_err_set(err, BOX_ERR_BOX, ESTALE,
			"the quota of host_path cannot be held: boxd does not see the folder as "
			"the host does");
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int attach_there(const struct box_quota_attach *attach, const struct box_location *under,
	const struct box_location *image, int *ret_clone, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	bool done = false;
	int r = open_there(attach->path, under, image, &folder, &done, err);
	if (r < 0) {
		return r;
	}
	r = done ? 0 : box_fsmount_attach_at(attach->mount, folder);
	if (r < 0) {
		return fail(err, "the image cannot be attached for the host", -r);
	}
	/* From the one of the two that is in this namespace now. */
	int clone = open_tree(done ? folder : attach->mount, "",
		OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);
	if (clone < 0) {
		return fail(err, "a second mount of the image", errno);
	}
	*ret_clone = clone;
	return 0;
}

static int attach_here(const struct box_quota_attach *attach, const struct box_location *image,
	int clone, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	struct box_location place = {0};
	int r = box_location_open_no_follow(attach->parent, attach->name, &folder);
	r = r < 0 ? r : box_location_of(folder, &place);
	if (r == 0 && !same_folder(&place, image)) {
		r = box_fsmount_attach_at(clone, folder);
	}
	return r < 0 ? fail(err, "the image cannot be attached", -r) : 0;
}

int box_quota_attach(const struct box_quota_attach *attach, struct box_err *err)
{
	_cleanup_(box_close_p) int clone = -1;
	struct box_location under = {0};
	struct box_location image = {0};
	int r = box_location_of(attach->under, &under);
	r = r < 0 ? r : box_location_of(attach->mount, &image);
	if (r < 0) {
		return fail(err, "the folder", -r);
	}
	if (setns(attach->host_ns, CLONE_NEWNS) < 0) {
		return fail(err, "the host's mount namespace", errno);
	}
	r = attach_there(attach, &under, &image, &clone, err);
	if (setns(attach->own_ns, CLONE_NEWNS) < 0 && r == 0) {
		r = fail(err, "boxd's mount namespace", errno);
	}
	return r < 0 ? r : attach_here(attach, &image, clone, err);
}
