/* The start of everything that a box needs, in the order in which one thing needs another. */
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
#include "boxd/box/host_memory.h"
#include "boxd/box/id_ranges.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/files/mount_roots.h"
#include "boxd/image/images.h"
#include "boxd/net/netns.h"
#include "boxd/net/network.h"
#include "plan/bounds.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* Whether the highest id that a box may get is an id here: a container may have fewer. */
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
	/* Executable and not readable: then even the root of the box's own user namespace may not
	 * look into it. */
	if (fchmod(fd, 0511) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
			0) {
		return -errno;
	}
	/* Executed through an fd that cannot write it. */
	char path[32];
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int reopened = open(path, O_RDONLY | O_CLOEXEC);
	if (reopened < 0) {
		return -errno;
	}
	*ret_fd = reopened;
	return 0;
}

/* The program is read once: what is replaced on disk later does not get into boxes. */
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
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "%s cannot be kept in memory: %s", path,
			       box_err_strerror(-r))
		     : 0;
}

/* What microVMs run in. Boxes without one need it not. */
static void find_vmm(struct box_host_state *ground)
{
	struct box_err ignored;
	if (box_program_find("box-vmm", ground->vmm_path, &ignored) < 0) {
		ground->vmm_path[0] = '\0';
		return;
	}
	ground->vmm = open(ground->vmm_path, O_PATH | O_CLOEXEC);
}

static uint32_t count_cpus(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);
	return count > 0 ? (uint32_t)count : 1;
}

/* 0 when it is not known. */
uint64_t box_host_state_files_max(void)
{
	char text[32] = "";
	_cleanup_(box_close_p) int fd = open("/proc/sys/fs/file-max", O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	return len > 0 ? strtoull(text, NULL, 10) : 0;
}

static int compile_filters(struct box_host_state *ground, struct box_err *err)
{
	int r = 0;
	for (int i = 0; i < BOX_FILTERS_ * 2 && r == 0; i++) {
		struct box_filter_kind kind = {
			.profile = (enum box_filter_profile)(i / 2), .network = i % 2 == 1};
		struct box_host_state_filters *filters =
			&ground->filters[kind.profile][kind.network];
		r = box_filter_compile(kind, &filters->commands, err);
		kind.mounter = true;
		r = r < 0 ? r : box_filter_compile(kind, &filters->mounter, err);
	}
	return r;
}

/* Boxes of one and the same user leave boxd's keyring with boxd, once: see leave_keyring in
 * first_process.c. */
static int join_own_keyring(struct box_err *err)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) < 0 && errno != ENOSYS) {
		return box_err_set(err, BOX_ERR_OS, errno, "the session keyring cannot be left: %s",
			box_err_strerror(errno));
	}
	return 0;
}

static void find_network(struct box_host_state *ground, const struct box_identity *ids)
{
	struct box_err why;
	ground->network = box_network_new(ids->uid, ids->gid);
	if (!ground->network) {
		(void)box_err_set(&why, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"boxes cannot have a network: the host's addresses cannot be watched");
	}
	ground->host.network = ground->network && box_network_is_possible(ground->network, &why);
	if (!ground->host.network) {
		(void)snprintf(ground->host.network_missing, sizeof(ground->host.network_missing),
			"%.*s", (int)sizeof(ground->host.network_missing) - 1, why.text);
	}
}

static int open_all(
	struct box_host_state *ground, const struct box_identity *ids, struct box_err *err)
{
	bool root = geteuid() == 0;
	ground->host.root = root;
	ground->host.id_ranges = root && box_host_state_has_id_ranges();
	ground->host.landlock_abi = (int)box_landlock_abi();
	ground->host.cpus = count_cpus();
	ground->host.files_max = box_host_state_files_max();
	find_vmm(ground);
	int r = load_init(&ground->init, err);
	if (r < 0) {
		return r;
	}
	/* Cgroups before the namespaces: what we may do there goes by who we are outside. */
	ground->cgroups = box_cgroups_open();
	ground->host.cgroups = box_cgroups_mode(ground->cgroups) != BOX_CGROUP_NONE;
	if (ground->host.cgroups) {
		box_watcher_start(&ground->watcher, ground->cgroups);
	}
	(void)snprintf(ground->host.cgroups_missing, sizeof(ground->host.cgroups_missing), "%s",
		box_cgroups_why(ground->cgroups));
	box_quota_support_find(&ground->quota);
	r = box_common_mounts_enter_namespace(err);
	if (r < 0) {
		return r;
	}
	box_quota_support_enter_namespace(&ground->quota);
	ground->ids = ground->host.id_ranges ? box_id_ranges_new() : NULL;
	r = ground->ids ? 0 : join_own_keyring(err);
	if (r < 0) {
		return r;
	}
	ground->netns = box_netns_new();
	find_network(ground, ids);
	return compile_filters(ground, err);
}

static void give_up(struct box_host_state *ground, const struct box_err *err)
{
	ground->possible = false;
	(void)snprintf(ground->missing, sizeof(ground->missing), "%.*s",
		(int)sizeof(ground->missing) - 1, err->text);
	BOX_LOG(BOX_LOG_WARNING, "boxes.impossible", box_log_str("why", ground->missing));
}

void box_host_state_init(struct box_host_state *ground)
{
	ground->watcher = BOX_WATCHER_NONE;
	ground->mount_roots = box_alloc(sizeof(*ground->mount_roots));
	box_mount_roots_init(ground->mount_roots);
	ground->init = -1;
	ground->vmm = -1;
	ground->quota.host_ns = -1;
	ground->quota.own_ns = -1;
	ground->common.etc = -1;
	ground->common.dev = -1;
	ground->common.kvm = -1;
	ground->common.artifacts = -1;
	for (size_t i = 0; i < BOX_ROOT_ENTRIES_MAX; i++) {
		ground->common.entries[i] = -1;
	}
}

void box_host_state_open(struct box_host_state *ground, const struct box_identity *ids)
{
	struct box_err err;
	ground->possible = true;
	if (open_all(ground, ids, &err) < 0) {
		give_up(ground, &err);
	}
}

void box_host_state_close(struct box_host_state *ground)
{
	box_images_free(ground->images);
	box_mount_roots_close(ground->mount_roots);
	free(ground->mount_roots);
	box_common_mounts_close(&ground->common);
	box_close_p(&ground->init);
	box_close_p(&ground->vmm);
	box_quota_support_close(&ground->quota);
	for (int i = 0; i < BOX_FILTERS_ * 2; i++) {
		box_filter_free(&ground->filters[i / 2][i % 2].commands);
		box_filter_free(&ground->filters[i / 2][i % 2].mounter);
	}
	if (ground->network) {
		box_network_free(ground->network);
	}
	box_netns_free(ground->netns);
	box_id_ranges_free(ground->ids);
	box_watcher_stop(&ground->watcher);
	if (ground->cgroups) {
		box_cgroups_close(ground->cgroups);
	}
}

/* Into memory that is all zeros, and no page of zeros with it: what is not written takes no memory,
 * in boxd as in the watcher, which is a copy of it. A policy is large and mostly empty. */
static void copy_written(void *zeroed, const void *from, size_t size)
{
	static const char zeros[4096];
	for (size_t at = 0; at < size; at += sizeof(zeros)) {
		size_t len = size - at < sizeof(zeros) ? size - at : sizeof(zeros);
		if (memcmp((const char *)from + at, zeros, len) != 0) {
			memcpy((char *)zeroed + at, (const char *)from + at, len);
		}
	}
}

int box_host_state_set_policy(
	struct box_host_state *ground, const struct box_policy *policy, struct box_err *err)
{
	struct box_err why;
	if (ground->sealed) {
		return 0;
	}
	ground->sealed = true;
	copy_written(&ground->policy, policy, sizeof(*policy));
	int r = box_mount_roots_seal(ground->mount_roots, &ground->policy, &ground->own_paths, err);
	if (r < 0) {
		return r;
	}
	if (ground->possible &&
		box_common_mounts_make(policy->rootfs, &ground->host, &ground->common, &why) < 0) {
		give_up(ground, &why);
	}
	if (ground->possible) {
		ground->images = box_images_new(
			&ground->policy, ground->mount_roots, ground->common.anchor);
	}
	return 0;
}

static void take_narrower(struct box_policy *policy, const struct box_policy *from)
{
	policy->narrower = from->narrower;
	memcpy(policy->client_skills, from->client_skills, sizeof(policy->client_skills));
}

void box_host_state_narrow_policy(
	struct box_host_state *ground, const struct box_policy *policy, bool roots)
{
	struct box_err err;
	take_narrower(&ground->policy, policy);
	if (!roots) {
		box_mount_roots_narrow(ground->mount_roots, &ground->policy);
		return;
	}
	_cleanup_(box_free_p) struct box_policy *before = box_alloc(sizeof(*before));
	*before = ground->policy;
	ground->policy.roots = policy->roots;
	memcpy(ground->policy.skills_root, policy->skills_root, sizeof(policy->skills_root));
	box_mount_roots_close(ground->mount_roots);
	if (box_mount_roots_seal(ground->mount_roots, &ground->policy, &ground->own_paths, &err) <
		0) {
		BOX_LOG(BOX_LOG_ERROR, "mount_roots.refused", box_log_str("why", err.text));
		ground->policy = *before;
		/* They were good before. */
		(void)box_mount_roots_seal(
			ground->mount_roots, &ground->policy, &ground->own_paths, &err);
	}
}

static int64_t usable_memory_mb(const struct box_host_state *ground)
{
	struct box_host_memory facts;
	struct box_err ignored;
	if (box_host_memory_read(ground->cgroups, &facts, &ignored) < 0) {
		return 0;
	}
	uint64_t bytes = facts.total_bytes < facts.group_bytes ? facts.total_bytes
							       : facts.group_bytes;
	return (int64_t)(bytes / BOX_MIB);
}

void box_host_state_report_at_start(
	const struct box_host_state *ground, struct box_boxd_host *ret_host)
{
	struct box_boxd_host host = {
		.possible = ground->possible,
		.limits = ground->cgroups ? (uint32_t)box_cgroups_mode(ground->cgroups) : 0,
		.network = ground->host.network,
		.landlock_abi = (uint32_t)ground->host.landlock_abi,
		.id_ranges = ground->host.id_ranges,
		.quota = ground->quota.possible,
		.held_sockets = ground->cgroups && box_cgroups_hold_sockets(ground->cgroups),
		.held_files = box_bounds_has_files(ground->host.files_max),
		.cpus = ground->host.cpus,
		.memory_mb = usable_memory_mb(ground),
	};
	memcpy(host.quota_missing, ground->quota.missing, sizeof(ground->quota.missing));
	memcpy(host.missing, ground->missing, sizeof(host.missing));
	memcpy(host.limits_missing, ground->host.cgroups_missing,
		sizeof(ground->host.cgroups_missing));
	memcpy(host.network_missing, ground->host.network_missing,
		sizeof(ground->host.network_missing));
	*ret_host = host;
}
