/* Blocked and allowed roots: which host folders a spec may name. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "runtime/config/config.h"
#include "runtime/config/host_path.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/test.h"

static const char *const blocked[] = {"/", "//", "/etc", "/etc/", "/etc/passwd", "/etc//ssl",
	"/./etc", "/x/../etc", "/etc/../etc/x", "/proc", "/proc/1/root", "/sys", "/sys/fs/cgroup",
	"/dev", "/dev/shm", "/root", "/root/.ssh", "/boot", "/boot/efi", "/run", "/run/docker.sock",
	"/var/run", "/var/run/docker.sock", "/var", "/var/", "/..", "/../..", "/../etc", "/.",
	"/home/../root", "/var/lib/../run"};

static const char *const open_to_all[] = {"/home", "/home/user", "/etcetera", "/etc.d", "/procs",
	"/system", "/device", "/rooted", "/bootstrap", "/runner", "/var/lib", "/var/runner",
	"/var/log", "/opt", "/tmp", "/srv/etc", "/home/root", "/home/etc/passwd", "/usr/share",
	"/etc/../home", "/x/etc"};

static int check_mount(const struct box_config *config, const char *path, struct box_err *err)
{
	struct box_mount mounts[] = {
		{.host_path = "/home/first", .mount_path = "/a", .mode = BOX_MOUNT_RO},
		{.host_path = path, .mount_path = "/b", .mode = BOX_MOUNT_RO},
	};
	struct box_spec spec = {.mounts = mounts, .mount_count = 2};
	return box_host_path_check(&spec, config, err);
}

static int check_host(const struct box_config *config, const char *path, enum box_mount_mode mode,
	struct box_err *err)
{
	struct box_spec spec = {.host_path = path, .host_path_mode = mode};
	return box_host_path_check(&spec, config, err);
}

static void expect(const struct box_err *err, const char *member, const char *path, const char *why)
{
	char wanted[2 * BOX_PATH_MAX];
	(void)snprintf(wanted, sizeof(wanted), "%s %s %s", member, path, why);
	ASSERT_INT(err->code, BOX_ERR_VALIDATION);
	/* Advice may follow. */
	ASSERT(strncmp(err->text, wanted, strlen(wanted)) == 0);
}

TEST(blocked_roots)
{
	struct box_config *config = box_config_default();
	config->mount_roots[0] = "/";
	for (size_t i = 0; i < COUNT(blocked); i++) {
		struct box_err err = {0};
		for (int mode = BOX_MOUNT_RO; mode <= BOX_MOUNT_RW; mode++) {
			if (check_host(config, blocked[i], (enum box_mount_mode)mode, &err) == 0) {
				TEST_FAIL("%s is not blocked", blocked[i]);
			}
			expect(&err, "host_path", blocked[i], "is blocked for security");
		}
		ASSERT_INT(check_mount(config, blocked[i], &err), -EPERM);
		expect(&err, "extra_mounts.host_path", blocked[i], "is blocked for security");
		/* Paths that are not mounted are not checked. */
		ASSERT_INT(check_host(config, blocked[i], BOX_MOUNT_NONE, &err), 0);
	}
	box_config_free(config);
}

TEST(others_are_open)
{
	struct box_config *config = box_config_default();
	struct box_err err = {0};
	struct box_spec bare = {0};
	config->mount_roots[0] = "/";
	for (size_t i = 0; i < COUNT(open_to_all); i++) {
		if (check_host(config, open_to_all[i], BOX_MOUNT_RW, &err) < 0 ||
			check_mount(config, open_to_all[i], &err) < 0) {
			TEST_FAIL("%s: %s", open_to_all[i], err.text);
		}
	}
	ASSERT_INT(box_host_path_check(&bare, config, &err), 0);
	box_config_free(config);
}

TEST(allowed_roots)
{
	static const struct {
		const char *path;
		bool allowed;
	} rows[] = {
		{"/home/bots", true},
		{"/home/bots/", true},
		{"/home/bots/a/b", true},
		{"/home/bots/../bots/a", true},
		{"/home/first", true},
		{"/srv/data/x", true},
		{"/home/botsy", false},
		{"/home", false},
		{"/home/bots/..", false},
		{"/home/bots/../other", false},
		{"/srv", false},
		{"/srv/database", false},
		{"/tmp", false},
	};
	struct box_config *config = box_config_default();
	config->mount_roots[0] = "/home/bots";
	config->mount_roots[1] = "/srv/data";
	config->mount_roots[2] = "/home/first";
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_err err = {0};
		int wanted = rows[i].allowed ? 0 : -EPERM;
		ASSERT_INT(check_host(config, rows[i].path, BOX_MOUNT_RO, &err), wanted);
		if (wanted < 0) {
			expect(&err, "host_path", rows[i].path, "is outside allowed_mount_roots");
		}
		ASSERT_INT(check_mount(config, rows[i].path, &err), wanted);
		if (wanted < 0) {
			expect(&err, "extra_mounts.host_path", rows[i].path,
				"is outside allowed_mount_roots");
		}
	}
	/* The text has advice, and names the client's own folder as the likely one. */
	struct box_err advice = {0};
	ASSERT_INT(check_host(config, "/tmp/x/y", BOX_MOUNT_RO, &advice), -EPERM);
	ASSERT(strstr(advice.text,
		       "start boxd with --mount-root /tmp/x/y, or write "
		       "local.allowed_mount_roots in its --config file") != NULL);
	config->host_root = "/tmp/x";
	ASSERT_INT(check_host(config, "/tmp/x/y", BOX_MOUNT_RO, &advice), -EPERM);
	ASSERT(strstr(advice.text, "--mount-root /tmp/x, or") != NULL);
	/* Both the operator's list and the client's apply. */
	config->narrower_roots[0] = "/srv";
	ASSERT_INT(check_host(config, "/srv/data/x", BOX_MOUNT_RO, &advice), 0);
	ASSERT_INT(check_host(config, "/srv/other", BOX_MOUNT_RO, &advice), -EPERM);
	ASSERT_INT(check_host(config, "/home/bots", BOX_MOUNT_RO, &advice), -EPERM);
	ASSERT(strstr(advice.text, "which the client has named itself") != NULL);
	config->narrower_roots[0] = NULL;
	/* An allowed root does not unblock a path. */
	struct box_err err = {0};
	config->mount_roots[0] = "/";
	config->mount_roots[1] = "/etc/boxes";
	config->mount_roots[2] = NULL;
	ASSERT_INT(check_host(config, "/tmp", BOX_MOUNT_RO, &err), 0);
	ASSERT_INT(check_host(config, "/etc/boxes/a", BOX_MOUNT_RO, &err), -EPERM);
	expect(&err, "host_path", "/etc/boxes/a", "is blocked for security");
	ASSERT_INT(check_host(config, "/", BOX_MOUNT_RO, &err), -EPERM);
	/* An empty list allows nothing. */
	config->mount_roots[0] = NULL;
	ASSERT_INT(check_host(config, "/tmp", BOX_MOUNT_RO, &err), -EPERM);
	box_config_free(config);
}

TEST(order)
{
	struct box_config *config = box_config_default();
	struct box_mount mounts[] = {
		{.host_path = "/etc/b", .mount_path = "/b", .mode = BOX_MOUNT_RO},
		{.host_path = "/etc/c", .mount_path = "/c", .mode = BOX_MOUNT_RO},
	};
	struct box_spec spec = {.host_path = "/etc/a",
		.host_path_mode = BOX_MOUNT_RO,
		.mounts = mounts,
		.mount_count = 2};
	struct box_err err = {0};
	ASSERT_INT(box_host_path_check(&spec, config, &err), -EPERM);
	expect(&err, "host_path", "/etc/a", "is blocked for security");
	spec.host_path = NULL;
	ASSERT_INT(box_host_path_check(&spec, config, &err), -EPERM);
	expect(&err, "extra_mounts.host_path", "/etc/b", "is blocked for security");
	box_config_free(config);
}

TEST(too_long)
{
	static char path[2 * BOX_PATH_MAX];
	struct box_config *config = box_config_default();
	struct box_err err = {0};
	memset(path, 'x', sizeof(path) - 1);
	path[0] = '/';
	ASSERT(check_host(config, path, BOX_MOUNT_RO, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text, "host_path is too long");
	box_config_free(config);
}
