/* Compares normalised paths with the folders that are always refused, and with the mount roots. */
#include "runtime/config/host_path.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/macros.h"
#include "runtime/config/config.h"
#include "runtime/spec/spec.h"

static const char *const blocked_roots[] = {
	"/etc", "/proc", "/sys", "/dev", "/root", "/boot", "/run", "/var/run"};

static bool is_under(const char *path, const char *root)
{
	size_t len = strlen(root);
	if (len == 1) {
		return true; /* everything is under `/` */
	}
	return strncmp(path, root, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool is_blocked(const char *path)
{
	for (size_t i = 0; i < BOX_COUNT_OF(blocked_roots); i++) {
		if (is_under(path, blocked_roots[i]) || is_under(blocked_roots[i], path)) {
			return true;
		}
	}
	return false;
}

static bool is_under_one(const char *path, const char *const *roots)
{
	for (const char *const *root = roots; *root; root++) {
		if (is_under(path, *root)) {
			return true;
		}
	}
	return false;
}

/* Suggests a folder that the operator could allow: the client's own, if the path is in it. */
static const char *advised(const char *path, const struct box_config *config)
{
	return config->host_root && is_under(path, config->host_root) ? config->host_root : path;
}

static int check_roots(const char *member, const char *path, const char *normal,
	const struct box_config *config, struct box_err *err)
{
	if (!is_under_one(normal, config->mount_roots)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"%s %s is outside allowed_mount_roots: start boxd with --mount-root %s, or "
			"write local.allowed_mount_roots in its --config file",
			member, path, advised(normal, config));
	}
	if (config->narrower_roots[0] && !is_under_one(normal, config->narrower_roots)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"%s %s is outside allowed_mount_roots, which the client has named itself",
			member, path);
	}
	return 0;
}

static int check(
	const char *member, const char *path, const struct box_config *config, struct box_err *err)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	const char *normal = box_config_resolve_path(arena, "/", box_str(path));
	if (!normal) {
		return box_err_set(err, BOX_ERR_VALIDATION, ENAMETOOLONG, "%s is too long", member);
	}
	if (is_blocked(normal)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM, "%s %s is blocked for security",
			member, path);
	}
	return check_roots(member, path, normal, config, err);
}

int box_host_path_check(
	const struct box_spec *spec, const struct box_config *config, struct box_err *err)
{
	int r = 0;
	if (spec->host_path && spec->host_path_mode != BOX_MOUNT_NONE) {
		r = check("host_path", spec->host_path, config, err);
	}
	for (size_t i = 0; i < spec->mount_count && r == 0; i++) {
		r = check("extra_mounts.host_path", spec->mounts[i].host_path, config, err);
	}
	return r;
}
