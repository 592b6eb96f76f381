/* What a box that is asked for now would get of the roots: looked at anew, since what was there at the
 * seal may be gone.
 *
 * Cheap, and without a change: nothing is opened by a path, but for --check-config. What was not there at the seal is not
 * taken later: whoever could make it then would have made the root of boxes.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/files/location.h"
#include "boxd/files/mount_roots.h"
#include "boxd/host_state.h"
#include "boxd/image/images.h"

/* The tree of the entry with this name; -1: it is a link, or there is none. */
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
	/* A link is not followed: what is meant is that the folder was emptied. */
	return tree >= 0 && fstatat(tree, path, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

static void look_at_root(const struct box_host_state *ground, struct box_boxd_host *host)
{
	const char *path = ground->policy.rootfs;
	if (!ground->sealed) {
		return;
	}
	if (!ground->possible && path[0]) {
		(void)snprintf(host->missing, sizeof(host->missing),
			"%.*s; boxd looks for it when it starts", (int)sizeof(host->missing) - 64,
			ground->missing);
	} else if (ground->possible &&
		!box_root_has_shell(ground->host.root_entries, ground->common.entries,
			ground->host.root_entry_count)) {
		host->possible = 0;
		(void)snprintf(host->missing, sizeof(host->missing),
			"%s%.400s has no /bin/sh any more, which commands are given to",
			path[0] ? "local.rootfs: " : "the host's own root", path);
	}
}

void box_host_state_report_now(const struct box_host_state *ground, struct box_boxd_host *ret_host)
{
	box_host_state_report_at_start(ground, ret_host);
	ret_host->sealed = ground->sealed;
	ret_host->degraded = ground->policy.degraded;
	look_at_root(ground, ret_host);
	if (ground->images) {
		box_images_missing(
			ground->images, ret_host->images_missing, sizeof(ret_host->images_missing));
	}
}

int box_host_state_check_policy_paths(
	const struct box_host_state *ground, const struct box_policy *policy, struct box_err *err)
{
	_cleanup_(box_free_p) struct box_mount_roots *roots = box_alloc(sizeof(*roots));
	int r = box_mount_roots_seal(roots, policy, &ground->own_paths, err);
	if (r == 0) {
		box_mount_roots_close(roots);
	}
	return r;
}

int box_host_state_check_config_path(
	enum box_boxd_check_kind what, const char *path, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = open(path, O_PATH | O_CLOEXEC);
	struct stat status;
	if (fd < 0 || fstat(fd, &status) < 0) {
		return box_err_set(
			err, BOX_ERR_VALUE, errno, "%s: %s", path, box_err_strerror(errno));
	}
	bool folder = S_ISDIR(status.st_mode);
	if (what == BOX_BOXD_CHECK_FOLDER && !folder) {
		return box_err_set(err, BOX_ERR_VALUE, ENOTDIR, "%s: no folder", path);
	}
	if (what == BOX_BOXD_CHECK_FOLDER) {
		return box_location_check_not_in_system(fd) == 0
			? 0
			: box_err_set(err, BOX_ERR_VALUE, EPERM,
				  "%s: blocked for security: no box mounts what is there", path);
	}
	if (folder && box_root_check_shell(fd) < 0) {
		return box_err_set(err, BOX_ERR_VALUE, ENOENT,
			"%s: has no /bin/sh, which commands are given to", path);
	}
	return folder || (S_ISREG(status.st_mode) && status.st_size > 0)
		? 0
		: box_err_set(err, BOX_ERR_VALUE, EINVAL,
			  "%s: neither a folder nor a file with a file system in it", path);
}
