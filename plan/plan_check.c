/* Rejects requests, policies and host facts that no plan can be made of, before plan.c begins.
 *
 * The request comes from box-rpc, which is exposed to clients, so every field is checked as if an
 * attacker had set it. Which host folders may be mounted is not decided here: that is checked on opened
 * fds.
 */
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "plan/plan.h"

#define MEMORY_BYTES_MIN (32 * BOX_MIB)
#define PATH_NAME_MAX 255 /* the kernel's limit for one component */
#define NAME_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"

static int refuse(struct box_err *err, const char *what, const char *why)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "%s %s", what, why);
}

static bool is_ended(const char *text, size_t room)
{
	return memchr(text, '\0', room) != NULL;
}

bool box_plan_path_is_under(const char *path, const char *root)
{
	size_t len = strlen(root);
	if (len == 1) {
		return true; /* everything is under `/` */
	}
	return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* NULL, or what is wrong. Accepts `/`. */
static const char *check_path(const char *path)
{
	if (path[0] != '/') {
		return "must be an absolute path";
	}
	if (path[1] == '\0') {
		return NULL;
	}
	for (const char *at = path; *at == '/';) {
		size_t len = strcspn(++at, "/");
		if (len == 0 || (len == 1 && at[0] == '.') ||
			(len == 2 && at[0] == '.' && at[1] == '.')) {
			return "must be normalized";
		}
		if (len > PATH_NAME_MAX) {
			return "has a name of more than 255 bytes";
		}
		at += len;
	}
	return NULL;
}

/* System folders, and links into them on any layout: even if a box's root lacks one of them, a caller
 * must not supply it. */
static const char *const system_folders[] = {"/bin", "/dev", "/etc", "/lib", "/lib32", "/lib64",
	"/libx32", "/proc", "/sbin", "/sys", "/usr"};

int box_plan_check_target(const char *path, const char *what, struct box_err *err)
{
	const char *why = check_path(path);
	if (why) {
		return refuse(err, what, why);
	}
	if (strcmp(path, "/") == 0) {
		return refuse(err, what, "must not be the root of the box");
	}
	for (size_t i = 0; i < BOX_COUNT_OF(system_folders); i++) {
		if (box_plan_path_is_under(path, system_folders[i])) {
			return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
				"%s %s is part of the box's system folder %s", what, path,
				system_folders[i]);
		}
	}
	if (box_plan_path_is_under(BOX_PLAN_HOME, path) && strcmp(path, BOX_PLAN_HOME) != 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"%s %s would hide the home folder " BOX_PLAN_HOME, what, path);
	}
	return 0;
}

static int check_name(const char *name, struct box_err *err)
{
	if (name[0] == '\0' || name[strspn(name, NAME_CHARACTERS)] != '\0') {
		return refuse(err, "name", "must be one or more of A-Z a-z 0-9 _ . -");
	}
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0) {
		return refuse(err, "name", "must not be . or ..");
	}
	return 0;
}

static int check_host_path(const struct box_plan_request *ask, struct box_err *err)
{
	if (ask->host_mode == BOX_PLAN_MOUNT_NONE) {
		return ask->host_path[0] == '\0'
			? 0
			: refuse(err, "host_path", "must be empty when its mode is none");
	}
	const char *why = check_path(ask->host_path);
	if (why) {
		return refuse(err, "host_path", why);
	}
	if (strcmp(ask->host_path, "/") == 0) {
		return refuse(err, "host_path", "/ is blocked for security");
	}
	return 0;
}

static int check_numbers(const struct box_plan_request *ask, struct box_err *err)
{
	if (ask->host_mode > BOX_PLAN_MOUNT_RW) {
		return refuse(err, "host_mode", "is not a known value");
	}
	if (ask->network > 1) {
		return refuse(err, "network", "must be 0 or 1");
	}
	if (ask->writable_root > 1) {
		return refuse(err, "writable_root", "must be 0 or 1");
	}
	if (ask->profile >= BOX_FILTERS_) {
		return refuse(err, "profile", "is not a known value");
	}
	if (ask->kind > BOX_PLAN_KIND_MICROVM) {
		return refuse(err, "kind", "is not a known value");
	}
	if (ask->memory_bytes < MEMORY_BYTES_MIN) {
		return refuse(err, "memory", "must be at least 32 MiB");
	}
	if (ask->kind == BOX_PLAN_KIND_MICROVM &&
		ask->memory_bytes < BOX_MICROVM_MEMORY_BYTES_MIN) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"memory must be at least %lu MiB for a microVM",
			(unsigned long)(BOX_MICROVM_MEMORY_BYTES_MIN / BOX_MIB));
	}
	if (ask->pids < 1) {
		return refuse(err, "pids", "must be at least 1");
	}
	if (ask->cpu_milli < 1) {
		return refuse(err, "cpus", "must be at least 0.001");
	}
	return 0;
}

static int check_ask(const struct box_plan_request *ask, struct box_err *err)
{
	const struct {
		const char *what;
		const char *text;
		size_t room;
	} texts[] = {
		{"name", ask->name, sizeof(ask->name)},
		{"tenant", ask->tenant, sizeof(ask->tenant)},
		{"host_path", ask->host_path, sizeof(ask->host_path)},
		{"mount_path", ask->mount_path, sizeof(ask->mount_path)},
		{"image", ask->image, sizeof(ask->image)},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(texts); i++) {
		if (!is_ended(texts[i].text, texts[i].room)) {
			return refuse(err, texts[i].what, "is too long");
		}
	}
	int r = check_numbers(ask, err);
	if (r == 0) {
		r = box_egress_check(&ask->egress, ask->network != 0, err);
	}
	if (r == 0) {
		r = check_name(ask->name, err);
	}
	if (r == 0) {
		r = check_host_path(ask, err);
	}
	if (r == 0) {
		r = box_plan_check_target(ask->mount_path, "mount_path", err);
	}
	return r;
}

/* Only the fields that the plan uses; mount_roots.c checks the rest. */
static int check_policy(const struct box_policy *policy, struct box_err *err)
{
	if (policy->profile >= BOX_FILTERS_) {
		return refuse(err, "policy: profile", "is not a known value");
	}
	if (!is_ended(policy->rootfs, sizeof(policy->rootfs))) {
		return refuse(err, "policy: rootfs", "is too long");
	}
	const char *why = policy->rootfs[0] == '\0' ? NULL : check_path(policy->rootfs);
	return why ? refuse(err, "policy: rootfs", why) : 0;
}

static int unavailable(struct box_err *err, const char *what, const char *why, const char *advice)
{
	return box_err_set(
		err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP, "%s: %s; %s", what, why, advice);
}

bool box_plan_is_own(const char *entry, const struct box_plan_host *host)
{
	static const char *const own[] = {"dev", "home", "proc", "run", "sys", "tmp"};
	for (size_t i = 0; i < BOX_COUNT_OF(own); i++) {
		if (strcmp(entry, own[i]) == 0) {
			return true;
		}
	}
	return host->own_etc && strcmp(entry, "etc") == 0;
}

/* Names become paths in the box: a malformed one could lead out of its folder. */
static bool entry_is_right(const struct box_root_entry *entry)
{
	const char *name = entry->name;
	return is_ended(name, sizeof(entry->name)) && is_ended(entry->link, sizeof(entry->link)) &&
		name[0] != '\0' && strchr(name, '/') == NULL && strcmp(name, ".") != 0 &&
		strcmp(name, "..") != 0;
}

static int check_entries(
	const struct box_plan_request *ask, const struct box_plan_host *host, struct box_err *err)
{
	if (host->root_entry_count > BOX_ROOT_ENTRIES_MAX) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, E2BIG,
			"the root file system has more than %d entries", BOX_ROOT_ENTRIES_MAX);
	}
	const char *first = ask->mount_path + 1;
	size_t first_len = strcspn(first, "/");
	for (size_t i = 0; i < host->root_entry_count; i++) {
		const struct box_root_entry *entry = &host->root_entries[i];
		if (!entry_is_right(entry)) {
			return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EINVAL,
				"entry %zu of the root file system has no usable name", i);
		}
		if (first[first_len] == '/' && strlen(entry->name) == first_len &&
			strncmp(entry->name, first, first_len) == 0 &&
			!box_plan_is_own(entry->name, host)) {
			/* It is read-only, so no mount point can be made in it. */
			return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
				"mount_path %s lies in /%s, which comes from outside the box",
				ask->mount_path, entry->name);
		}
	}
	return 0;
}

static int check_host(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_err *err)
{
	if (host->root && !host->id_ranges) {
		/* The only id would be root's. */
		return unavailable(err, "a box cannot have ids of its own",
			"as root each needs 65536 of them and this user namespace has too few",
			"map more ids to it, or run boxd as a plain user");
	}
	if (!host->cgroups && !policy->degraded) {
		return unavailable(err, "limits cannot be set", host->cgroups_missing,
			"give boxd a cgroup it may write to, or set local.degraded: true to run "
			"boxes without limits");
	}
	if (ask->network && !host->network) {
		return unavailable(err, "a network cannot be given", host->network_missing,
			"ask for network off, or provide what is missing");
	}
	return 0;
}

int box_plan_check(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_err *err)
{
	int r = check_ask(ask, err);
	if (r == 0) {
		r = check_policy(policy, err);
	}
	if (r == 0) {
		r = check_entries(ask, host, err);
	}
	if (r == 0) {
		r = check_host(ask, policy, host, err);
	}
	return r;
}
