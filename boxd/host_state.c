/* Opens everything that boxes need, in order of dependency; takes the policy; reports to box-rpc. */
#include "boxd/host_state.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/landlock.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/host_memory.h"
#include "boxd/box/id_ranges.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/files/location.h"
#include "boxd/files/mount_roots.h"
#include "boxd/image/images.h"
#include "boxd/net/netns.h"
#include "boxd/net/network.h"
#include "boxd/program.h"
#include "plan/bounds.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Whether the highest id that a box may get is mapped here: a container may have fewer. */
bool box_host_state_has_id_ranges(void)
{
	static const uint32_t last = 0xf0000000U;
	return box_identity_is_mapped("/proc/self/uid_map", last) &&
		box_identity_is_mapped("/proc/self/gid_map", last);
}

static int seal_copy(int source, off_t size, int *ret_fd)
{
	_cleanup_(box_close_p) int fd = memfd_create(
		"box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
	if (fd < 0 && errno == EINVAL) {
		fd = memfd_create("box-init", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	}
	if (fd < 0) {
		return -errno;
	}
	while (size > 0) {
		ssize_t sent = sendfile(fd, source, NULL, (size_t)size);
		if (sent <= 0) {
			return sent < 0 ? -errno : -EIO;
		}
		size -= sent;
	}
	/* Executable but not readable: then even the root of a box's user namespace cannot inspect it. */
	if (fchmod(fd, 0511) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
			0) {
		return -errno;
	}
	/* Executed through an fd that cannot write to it. */
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int reopened = open(path, O_RDONLY | O_CLOEXEC);
	if (reopened < 0) {
		return -errno;
	}
	*ret_fd = reopened;
	return 0;
}

/* The program is read once: a file that replaces it on disk later does not get into boxes. */
static int load_init(int *ret_fd, struct box_err *err)
{
	char path[BOX_PATH_MAX];
	int r = box_program_find("box-init", path, err);
	if (r < 0) {
		return r;
	}
	_cleanup_(box_close_p) int source = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	if (source < 0 || fstat(source, &status) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
	}
	r = seal_copy(source, status.st_size, ret_fd);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "%s cannot be loaded into memory: %s", path,
			       box_err_strerror(-r))
		     : 0;
}

/* Only microVM boxes need it. */
static void find_vmm(struct box_host_state *host_state)
{
	struct box_err ignored;
	if (box_program_find("box-vmm", host_state->vmm_path, &ignored) < 0) {
		host_state->vmm_path[0] = '\0';
		return;
	}
	host_state->vmm = open(host_state->vmm_path, O_PATH | O_CLOEXEC);
}

static uint32_t count_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	return count > 0 ? (uint32_t)count : 1;
}

/* 0 when unknown. */
uint64_t box_host_state_files_max(void)
{
	char text[32] = "";
	_cleanup_(box_close_p) int fd = open("/proc/sys/fs/file-max", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	return len > 0 ? strtoull(text, NULL, 10) : 0;
}

static int compile_filters(struct box_host_state *host_state, struct box_err *err)
{
	for (int i = 0; i < BOX_FILTERS_ * 2; i++) {
		struct box_filter_kind kind = {
			.profile = (enum box_filter_profile)(i / 2), .network = i % 2 == 1};
		struct box_host_state_filters *filters =
			&host_state->filters[kind.profile][kind.network];
		int r = box_filter_compile(kind, &filters->commands, err);
		if (r < 0) {
			return r;
		}
		kind.mounter = true;
		r = box_filter_compile(kind, &filters->mounter, err);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* If all boxes have the same uid, boxd leaves its keyring once for all of them: see leave_keyring in
 * first_process.c. */
static int join_own_keyring(struct box_err *err)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS) {
		return box_err_set(err, BOX_ERR_OS, errno, "the session keyring cannot be left: %s",
			box_err_strerror(errno));
	}
	return 0;
}

static void find_network(struct box_host_state *host_state, const struct box_identity *ids)
{
	struct box_err why;
	host_state->network = box_network_new(ids->uid, ids->gid);
	if (!host_state->network) {
		(void)box_err_set(&why, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"boxes cannot have a network: the host's addresses cannot be watched");
	}
	host_state->host.network = host_state->network &&
		box_network_is_possible(host_state->network, &why);
	if (!host_state->host.network) {
		(void)snprintf(host_state->host.network_missing,
			sizeof(host_state->host.network_missing), "%.*s",
			(int)sizeof(host_state->host.network_missing) - 1, why.text);
	}
}

static int open_all(
	struct box_host_state *host_state, const struct box_identity *ids, struct box_err *err)
{
	bool root = geteuid() == 0;
	host_state->host.root = root;
	host_state->host.id_ranges = root && box_host_state_has_id_ranges();
	host_state->host.landlock_abi = (int)box_landlock_abi();
	host_state->host.cpus = count_cpus();
	host_state->host.files_max = box_host_state_files_max();
	find_vmm(host_state);
	int r = load_init(&host_state->init, err);
	if (r < 0) {
		return r;
	}
	/* Cgroups before the namespaces: our rights to them are those outside. */
	host_state->cgroups = box_cgroups_open();
	host_state->host.cgroups = box_cgroups_mode(host_state->cgroups) != BOX_CGROUP_NONE;
	if (host_state->host.cgroups) {
		box_watcher_start(&host_state->watcher, host_state->cgroups);
	}
	(void)snprintf(host_state->host.cgroups_missing, sizeof(host_state->host.cgroups_missing),
		"%s", box_cgroups_why(host_state->cgroups));
	box_quota_support_find(&host_state->quota);
	r = box_common_mounts_enter_namespace(err);
	if (r < 0) {
		return r;
	}
	box_quota_support_enter_namespace(&host_state->quota);
	host_state->ids = host_state->host.id_ranges ? box_id_ranges_new() : NULL;
	r = host_state->ids ? 0 : join_own_keyring(err);
	if (r < 0) {
		return r;
	}
	host_state->netns = box_netns_new();
	find_network(host_state, ids);
	return compile_filters(host_state, err);
}

static void give_up(struct box_host_state *host_state, const struct box_err *err)
{
	host_state->possible = false;
	(void)snprintf(host_state->missing, sizeof(host_state->missing), "%.*s",
		(int)sizeof(host_state->missing) - 1, err->text);
	BOX_LOG(BOX_LOG_WARNING, "boxes.impossible", box_log_str("why", host_state->missing));
}

void box_host_state_init(struct box_host_state *host_state)
{
	host_state->watcher = BOX_WATCHER_NONE;
	host_state->mount_roots = box_alloc(sizeof(*host_state->mount_roots));
	box_mount_roots_init(host_state->mount_roots);
	host_state->init = -1;
	host_state->vmm = -1;
	host_state->quota.host_ns = -1;
	host_state->quota.own_ns = -1;
	host_state->common.etc = -1;
	host_state->common.dev = -1;
	host_state->common.kvm = -1;
	host_state->common.artifacts = -1;
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		host_state->common.entries[i] = -1;
	}
}

void box_host_state_open(struct box_host_state *host_state, const struct box_identity *ids)
{
	struct box_err err;
	host_state->possible = true;
	if (open_all(host_state, ids, &err) < 0) {
		give_up(host_state, &err);
	}
}

void box_host_state_close(struct box_host_state *host_state)
{
	box_images_free(host_state->images);
	box_mount_roots_close(host_state->mount_roots);
	free(host_state->mount_roots);
	box_common_mounts_close(&host_state->common);
	box_close_p(&host_state->init);
	box_close_p(&host_state->vmm);
	box_quota_support_close(&host_state->quota);
	for (int i = 0; i < BOX_FILTERS_ * 2; i++) {
		box_filter_free(&host_state->filters[i / 2][i % 2].commands);
		box_filter_free(&host_state->filters[i / 2][i % 2].mounter);
	}
	if (host_state->network) {
		box_network_free(host_state->network);
	}
	box_netns_free(host_state->netns);
	box_id_ranges_free(host_state->ids);
	box_watcher_stop(&host_state->watcher);
	if (host_state->cgroups) {
		box_cgroups_close(host_state->cgroups);
	}
}

/* Copies into zeroed memory and skips pages of zeros: a page that is not written takes no memory, in
 * boxd and in the watcher, which is a copy of it. A policy is large and mostly empty. */
static void copy_written(void *zeroed, const void *from, size_t size)
{
	static const char zeros[4096];
	for (size_t at = 0; at < size; at += sizeof(zeros)) {
		size_t len = BOX_MIN(size - at, sizeof(zeros));
		if (memcmp((const char *)from + at, zeros, len) != 0) {
			memcpy((char *)zeroed + at, (const char *)from + at, len);
		}
	}
}

static bool is_terminated(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

static bool are_paths(const struct box_policy_roots *roots)
{
	if (roots->count > BOX_MOUNT_ROOTS_MAX) {
		return false;
	}
	for (uint32_t i = 0; i < roots->count; i++) {
		if (roots->paths[i][0] != '/' ||
			!is_terminated(roots->paths[i], sizeof(roots->paths[i]))) {
			return false;
		}
	}
	return true;
}

static bool is_path_or_empty(const char path[BOX_PATH_MAX])
{
	return is_terminated(path, BOX_PATH_MAX) && (path[0] == '\0' || path[0] == '/');
}

static bool are_images(const struct box_policy *policy)
{
	if (policy->image_count > BOX_IMAGES_MAX) {
		return false;
	}
	for (uint32_t i = 0; i < policy->image_count; i++) {
		const struct box_policy_image *image = &policy->images[i];
		if (!is_terminated(image->name, sizeof(image->name)) || image->name[0] == '\0' ||
			!is_terminated(image->path, sizeof(image->path)) || image->path[0] != '/') {
			return false;
		}
	}
	return true;
}

bool box_host_state_is_well_formed(const struct box_policy *policy)
{
	return are_paths(&policy->roots) && are_paths(&policy->narrower) &&
		policy->profile < BOX_FILTERS_ && are_images(policy) &&
		is_terminated(policy->rootfs, sizeof(policy->rootfs)) &&
		is_path_or_empty(policy->skills_root) && is_path_or_empty(policy->client_skills);
}

int box_host_state_set_policy(
	struct box_host_state *host_state, const struct box_policy *policy, struct box_err *err)
{
	struct box_err why;
	if (host_state->sealed) {
		return 0;
	}
	host_state->sealed = true;
	copy_written(&host_state->policy, policy, sizeof(*policy));
	int r = box_mount_roots_seal(
		host_state->mount_roots, &host_state->policy, &host_state->own_paths, err);
	if (r < 0) {
		return r;
	}
	if (host_state->possible &&
		box_common_mounts_make(
			policy->rootfs, &host_state->host, &host_state->common, &why) < 0) {
		give_up(host_state, &why);
	}
	if (host_state->possible) {
		host_state->images = box_images_new(
			&host_state->policy, host_state->mount_roots, host_state->common.anchor);
	}
	return 0;
}

static void copy_narrower(struct box_policy *policy, const struct box_policy *from)
{
	policy->narrower = from->narrower;
	memcpy(policy->client_skills, from->client_skills, sizeof(policy->client_skills));
}

void box_host_state_narrow_policy(
	struct box_host_state *host_state, const struct box_policy *policy, bool roots)
{
	struct box_err err;
	copy_narrower(&host_state->policy, policy);
	if (!roots) {
		box_mount_roots_narrow(host_state->mount_roots, &host_state->policy);
		return;
	}
	_cleanup_(box_free_p) struct box_policy *before = box_alloc(sizeof(*before));
	*before = host_state->policy;
	host_state->policy.roots = policy->roots;
	memcpy(host_state->policy.skills_root, policy->skills_root, sizeof(policy->skills_root));
	box_mount_roots_close(host_state->mount_roots);
	if (box_mount_roots_seal(host_state->mount_roots, &host_state->policy,
		    &host_state->own_paths, &err) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "mount_roots.refused", box_log_str("why", err.text));
		host_state->policy = *before;
		/* It has succeeded once, so it cannot fail now. */
		(void)box_mount_roots_seal(
			host_state->mount_roots, &host_state->policy, &host_state->own_paths, &err);
	}
}

static int64_t usable_memory_mb(const struct box_host_state *host_state)
{
	struct box_host_memory memory;
	struct box_err ignored;
	if (box_host_memory_read(host_state->cgroups, &memory, &ignored) < 0) {
		return 0;
	}
	uint64_t bytes = BOX_MIN(memory.total_bytes, memory.group_bytes);
	return (int64_t)(bytes / BOX_MIB);
}

void box_host_state_report_at_start(
	const struct box_host_state *host_state, struct box_boxd_host *ret_host)
{
	struct box_boxd_host host = {
		.possible = host_state->possible,
		.limits = host_state->cgroups ? (uint32_t)box_cgroups_mode(host_state->cgroups) : 0,
		.network = host_state->host.network,
		.landlock_abi = (uint32_t)host_state->host.landlock_abi,
		.id_ranges = host_state->host.id_ranges,
		.quota = host_state->quota.possible,
		.held_sockets = host_state->cgroups &&
			box_cgroups_hold_sockets(host_state->cgroups),
		.held_files = box_bounds_has_files(host_state->host.files_max),
		.cpus = host_state->host.cpus,
		.memory_mb = usable_memory_mb(host_state),
	};
	memcpy(host.quota_missing, host_state->quota.missing, sizeof(host_state->quota.missing));
	memcpy(host.missing, host_state->missing, sizeof(host.missing));
	memcpy(host.limits_missing, host_state->host.cgroups_missing,
		sizeof(host_state->host.cgroups_missing));
	memcpy(host.network_missing, host_state->host.network_missing,
		sizeof(host_state->host.network_missing));
	*ret_host = host;
}

/* --- reports --- */

/* Cheap and without side effects: opens no path. A root that was missing when the policy was set is not
 * taken later: a process that could make it then would have chosen the root of boxes. */
static void report_root(const struct box_host_state *host_state, struct box_boxd_host *host)
{
	const char *path = host_state->policy.rootfs;
	if (!host_state->sealed) {
		return;
	}
	if (!host_state->possible && path[0]) {
		(void)snprintf(host->missing, sizeof(host->missing),
			"%.*s; boxd looks for it when it starts", (int)sizeof(host->missing) - 64,
			host_state->missing);
	} else if (host_state->possible &&
		!box_root_has_shell(host_state->host.root_entries, host_state->common.entries,
			host_state->host.root_entry_count)) {
		host->possible = 0;
		(void)snprintf(host->missing, sizeof(host->missing),
			"%s%.400s has no /bin/sh any more, which runs commands",
			path[0] ? "local.rootfs: " : "the host's own root", path);
	}
}

void box_host_state_report_now(
	const struct box_host_state *host_state, struct box_boxd_host *ret_host)
{
	box_host_state_report_at_start(host_state, ret_host);
	ret_host->sealed = host_state->sealed;
	ret_host->degraded = host_state->policy.degraded;
	report_root(host_state, ret_host);
	if (host_state->images) {
		box_images_missing(host_state->images, ret_host->images_missing,
			sizeof(ret_host->images_missing));
	}
}

int box_host_state_check_policy_paths(const struct box_host_state *host_state,
	const struct box_policy *policy, struct box_err *err)
{
	_cleanup_(box_free_p) struct box_mount_roots *roots = box_alloc(sizeof(*roots));
	int r = box_mount_roots_seal(roots, policy, &host_state->own_paths, err);
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
		return box_err_set(err, BOX_ERR_VALUE, ENOTDIR, "%s: not a folder", path);
	}
	if (what == BOX_BOXD_CHECK_FOLDER) {
		return box_location_check_not_in_system(fd) == 0
			? 0
			: box_err_set(err, BOX_ERR_VALUE, EPERM,
				  "%s: blocked for security: no box may mount it", path);
	}
	if (folder && box_root_check_shell(fd) < 0) {
		return box_err_set(err, BOX_ERR_VALUE, ENOENT,
			"%s: has no /bin/sh, which runs commands", path);
	}
	return folder || (S_ISREG(status.st_mode) && status.st_size > 0)
		? 0
		: box_err_set(err, BOX_ERR_VALUE, EINVAL,
			  "%s: neither a folder nor a file with a file system in it", path);
}
