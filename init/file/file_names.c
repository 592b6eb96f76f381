/* STAT, MKDIR and MOVE. Called by file_job.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/file/file_job.h"

#define FOLDER_MODE 0755

int box_file_job_stat(struct box_file_job *job)
{
	char target[BOX_INIT_FILE_TEXT_MAX];
	struct stat st;
	int r = box_file_job_walk(job, 0);
	if (r < 0) {
		return r;
	}
	int fd = box_path_walk_open_path(&job->walk, &st);
	if (fd < 0) {
		return fd;
	}
	job->answer.facts = box_file_job_facts(&st);
	r = 0;
	if (S_ISLNK(st.st_mode)) {
		ssize_t size = readlinkat(fd, "", target, sizeof(target) - 1);
		r = size < 0 ? -errno : box_file_job_put_data(job, target, (size_t)size);
		job->answer.facts.target_size = size < 0 ? 0 : (uint32_t)size;
	}
	(void)close(fd);
	return r;
}

int box_file_job_mkdir(struct box_file_job *job)
{
	struct box_path_walk *walk = &job->walk;
	bool parents = job->request.flags & BOX_INIT_FILE_PARENTS;
	mode_t mode = job->request.flags & BOX_INIT_FILE_MODE ? job->request.mode : FOLDER_MODE;
	struct stat st;
	int r = box_file_job_walk(job, parents ? BOX_PATH_WALK_PARENTS : 0);
	if (r < 0) {
		return r;
	}
	if (walk->name[0] && mkdirat(walk->folder, walk->name, mode) == 0) {
		return 0;
	}
	r = walk->name[0] ? -errno : -EEXIST;
	if (r != -EEXIST || !parents) {
		return r;
	}
	int fd = box_path_walk_open_path(walk, &st);
	if (fd >= 0) {
		(void)close(fd);
	}
	return fd >= 0 && S_ISDIR(st.st_mode) ? 0 : -EEXIST;
}

static int refuse_base(struct box_file_job *job, struct box_path_walk *walk)
{
	walk->why = BOX_INIT_FILE_WHY_BASE;
	job->answer.of_to = walk == &job->to;
	return -EBUSY;
}

int box_file_job_rename_in_steps(int from, const char *from_name, int to, const char *to_name)
{
	struct stat st;
	int r = 0;
	if (fstatat(from, from_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
		return -errno;
	}
	if (S_ISDIR(st.st_mode)) {
		/* rename replaces an empty folder atomically, but no other. */
		if (mkdirat(to, to_name, FOLDER_MODE) < 0) {
			return -errno;
		}
		r = box_file_job_rename(from, from_name, to, to_name, true);
		if (r < 0) {
			(void)unlinkat(to, to_name, AT_REMOVEDIR);
		}
		return r;
	}
	if (linkat(from, from_name, to, to_name, 0) < 0) {
		return errno == EPERM ? -EOPNOTSUPP : -errno;
	}
	if (unlinkat(from, from_name, 0) < 0) {
		r = -errno;
		(void)unlinkat(to, to_name, 0);
	}
	return r;
}

int box_file_job_move(struct box_file_job *job)
{
	struct box_path_walk *from = &job->walk;
	struct box_path_walk *to = &job->to;
	struct stat st;
	int r = box_file_job_walk(job, 0);
	if (r < 0) {
		return r;
	}
	/* The error of rename would not say which of the two is missing. */
	int fd = box_path_walk_open_path(from, &st);
	if (fd < 0) {
		return fd;
	}
	(void)close(fd);
	r = box_file_job_walk_target(job);
	if (r < 0) {
		return r;
	}
	if (!from->name[0] || !to->name[0]) {
		return refuse_base(job, from->name[0] ? to : from);
	}
	if (to->slash && !S_ISDIR(st.st_mode)) {
		return -ENOTDIR;
	}
	bool replace = job->request.flags & BOX_INIT_FILE_REPLACE;
	r = box_file_job_rename(from->folder, from->name, to->folder, to->name, replace);
	if (r == -EINVAL && !replace) {
		r = box_file_job_rename_in_steps(from->folder, from->name, to->folder, to->name);
	}
	job->answer.of_to = r == -EEXIST || r == -ENOTEMPTY || r == -EISDIR || r == -ENOTDIR ||
		r == -ENOSPC || r == -EDQUOT;
	return r;
}
