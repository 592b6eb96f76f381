/* Starts one box-skills for each box-rpc. It runs as the owner of the store, so that the files it
 * writes belong to that owner. */
#include "boxd/files/skill_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fsmount.h"
#include "base/log.h"
#include "base/operator.h"
#include "boxd/files/mount_roots.h"
#include "boxd/jobs.h"
#include "boxd/program.h"

struct box_skill_folder {
	struct box_jobs *jobs;
	const char *program;
	const struct box_identity *ids;
	int folder; /* -1: not opened yet */
};

struct box_skill_folder *box_skill_folder_new(
	struct box_jobs *jobs, const char *program, const struct box_identity *ids)
{
	struct box_skill_folder *skills = box_alloc(sizeof(*skills));
	skills->jobs = jobs;
	skills->program = program;
	skills->ids = ids;
	skills->folder = -1;
	return skills;
}

void box_skill_folder_free(struct box_skill_folder *skills)
{
	box_close_p(&skills->folder);
	free(skills);
}

static void ended(void *arg)
{
	(void)arg;
	BOX_LOG(BOX_LOG_DEBUG, "skills.ended");
}

static bool is_empty(int folder)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *opened = fd < 0 ? NULL : fdopendir(fd);
	size_t count = 0;
	if (!opened) {
		box_close_p(&fd);
		return false;
	}
	while (count <= 2 && readdir(opened)) {
		count++;
	}
	(void)closedir(opened);
	return count <= 2; /* "." and ".." */
}

/* A new store that root has made is given to box-rpc's user: the process that reads strangers' archives
 * should not be root, even without capabilities. A store that is not empty keeps its owner. */
static void give_away(const struct box_skill_folder *skills, int folder)
{
	struct stat status;
	if (skills->ids->change && fstat(folder, &status) == 0 && status.st_uid == 0 &&
		is_empty(folder) &&
		fchownat(folder, "", skills->ids->uid, skills->ids->gid, AT_EMPTY_PATH) < 0) {
		BOX_LOG(BOX_LOG_WARNING, "skills.root", box_log_errno("why", errno));
	}
}

/* An earlier boxd took its ids from systemd's range and made the store with them. */
static void warn_of_owner(const struct box_identity *owner)
{
	if (owner->uid >= BOX_DYNAMIC_ID_FIRST && owner->uid <= BOX_IDENTITY_DYNAMIC_LAST &&
		!getpwuid(owner->uid)) {
		BOX_LOG(BOX_LOG_WARNING, "skills.owner", box_log_int("uid", owner->uid),
			box_log_str("why", "systemd may give this id to another service"),
			box_log_str("do",
				"add the account box-rpc and chown -R box-rpc: the skill store"));
	}
}

static int start(struct box_skill_folder *skills, int folder, int *ret_socket, struct box_err *err)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "box-skills cannot start: sockets: %s",
			box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = ends[0];
	_cleanup_(box_close_p) int theirs = ends[1];
	struct box_program wanted = {
		.path = skills->program,
		.name = "box-skills",
		.task = "store",
		.fds = {theirs, folder},
		.fd_count = 2,
	};
	int r = box_identity_of_owner(skills->ids, folder, &wanted.ids);
	if (r == 0) {
		warn_of_owner(&wanted.ids);
	}
	if (r < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -r, "the skill store: %s", box_err_strerror(-r));
	}
	/* A box-skills that still runs belongs to nobody any more. It would end by itself, unless it
	 * hangs. */
	box_jobs_kill(skills->jobs, skills);
	r = box_jobs_start(skills->jobs, &wanted, 0, ended, skills, err);
	if (r == 0) {
		*ret_socket = TAKE_FD(ours);
	}
	return r;
}

/* The sealed path: box-rpc names it, but cannot choose another. */
static int open_folder(
	const char *path, struct box_mount_roots *mount_roots, int *ret_folder, struct box_err *err)
{
	int r = box_mount_roots_open_store(mount_roots, path, ret_folder);
	switch (r) {
	case 0:
		return 0;
	case -ESTALE:
		return box_err_set(err, BOX_ERR_BOX, ESTALE,
			"local.skills_root %s is not the one that boxd was started with: restart "
			"boxd",
			path);
	case -EPERM:
		return box_err_set(err, BOX_ERR_VALIDATION, EPERM,
			"local.skills_root %s is blocked for security", path);
	default:
		return box_err_set(err, BOX_ERR_VALIDATION, -r,
			"local.skills_root %s cannot be opened: %s", path, box_err_strerror(-r));
	}
}

int box_skill_folder_open(struct box_skill_folder *skills, const char *path,
	struct box_mount_roots *mount_roots, int *ret_socket, struct box_err *err)
{
	_cleanup_(box_close_p) int folder = -1;
	if (skills->program[0] == '\0') {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOENT,
			"this runtime keeps no skills: box-skills is not installed");
	}
	int r = open_folder(path, mount_roots, &folder, err);
	if (r == 0) {
		give_away(skills, folder);
		r = start(skills, folder, ret_socket, err);
	}
	if (r == 0) {
		box_close_p(&skills->folder);
		skills->folder = TAKE_FD(folder);
	}
	return r;
}

int box_skill_folder_open_package(
	const struct box_skill_folder *skills, const char *path, int *ret_fd, struct box_err *err)
{
	_cleanup_(box_close_p) int fd = -1;
	struct stat status;
	int r = skills->folder < 0 ? -ENOENT : box_fsmount_open_beneath(skills->folder, path, &fd);
	if (r == 0 && fstat(fd, &status) < 0) {
		r = -errno;
	}
	if (r == 0 && !S_ISDIR(status.st_mode)) {
		r = -ENOTDIR;
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, -r, "the skill's package is gone: %s",
			box_err_strerror(-r));
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

void box_skill_folder_path(const struct box_skill_folder *skills, char *out, size_t size)
{
	if (box_fsmount_path_of(skills->folder, out, size) < 0) {
		out[0] = '\0';
	}
}
