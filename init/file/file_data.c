/* READ and WRITE of a file: reads from an offset; writes at an offset, at the end, or a whole file that
 * replaces the old one atomically. Called by file_job.c. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "init/file/file_job.h"
#include "init/file/new_file.h"

#define FILE_MODE 0644

static char buffer[65536];

static size_t chunk_of(uint64_t left)
{
	return left < sizeof(buffer) ? (size_t)left : sizeof(buffer);
}

/* --- reading --- */

int box_file_job_read(struct box_file_job *job)
{
	struct stat st;
	int r = box_file_job_walk(job, BOX_PATH_WALK_FOLLOW);
	if (r < 0) {
		return r;
	}
	int fd = box_path_walk_open(&job->walk, O_RDONLY, &st);
	if (fd < 0) {
		return fd;
	}
	uint64_t at = job->request.offset;
	uint64_t end = at + job->request.size;
	while (r == 0 && at < end) {
		ssize_t got = pread(fd, buffer, chunk_of(end - at), (off_t)at);
		if (got == 0) {
			break;
		}
		if (got < 0) {
			r = errno == EINTR ? 0 : -errno;
			continue;
		}
		r = box_file_job_put_data(job, buffer, (size_t)got);
		at += (uint64_t)got;
	}
	/* Its size may have changed meanwhile. */
	if (r == 0 && fstat(fd, &st) < 0) {
		r = -errno;
	}
	job->answer.facts = box_file_job_facts(&st);
	(void)close(fd);
	return r;
}

/* --- writing --- */

static int write_chunk(int fd, size_t size, int64_t at, uint64_t *written)
{
	for (size_t done = 0; done < size;) {
		ssize_t now = at < 0 ? write(fd, buffer + done, size - done)
				     : pwrite(fd, buffer + done, size - done, at);
		if (now < 0 && errno != EINTR) {
			return -errno;
		}
		if (now > 0) {
			done += (size_t)now;
			*written += (uint64_t)now;
			at += at < 0 ? 0 : now;
		}
	}
	return 0;
}

/* Writes all input at offset `at`; -1: at the current position. */
static int write_input(struct box_file_job *job, int fd, int64_t at)
{
	uint64_t *written = &job->answer.written;
	while (*written < job->request.size) {
		ssize_t got = read(job->in, buffer, chunk_of(job->request.size - *written));
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return got < 0 ? -errno : -ECANCELED;
		}
		int r = write_chunk(fd, (size_t)got, at < 0 ? -1 : at + (int64_t)*written, written);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

static int finish(struct box_file_job *job, int fd, int r)
{
	struct stat st;
	if (r == 0 && fstat(fd, &st) < 0) {
		r = -errno;
	}
	if (r == 0) {
		job->answer.facts = box_file_job_facts(&st);
	}
	/* Some file systems report only here that they are full. */
	if (close(fd) < 0 && r == 0) {
		r = -errno;
	}
	return r;
}

static mode_t mode_of(const struct box_file_job *job)
{
	return job->request.flags & BOX_INIT_FILE_MODE ? job->request.mode : FILE_MODE;
}

/* Writes to the existing file or a new one. */
static int write_in_place(struct box_file_job *job)
{
	struct box_path_walk *walk = &job->walk;
	bool append = job->request.flags & BOX_INIT_FILE_APPEND;
	int flags = O_WRONLY | (append ? O_APPEND : 0);
	struct stat st;
	int fd = box_path_walk_open(walk, flags, &st);
	if (fd == -ENOENT) {
		fd = openat(walk->folder, walk->name,
			flags | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode_of(job));
		fd = fd < 0 ? -errno : fd;
	} else if (fd >= 0 && (job->request.flags & BOX_INIT_FILE_MODE) &&
		fchmod(fd, mode_of(job)) < 0) {
		return finish(job, fd, -errno);
	}
	if (fd < 0) {
		return fd;
	}
	return finish(job, fd, write_input(job, fd, append ? -1 : (int64_t)job->request.offset));
}

/* --- a whole file --- */

/* The existing file must be writable, and its mode is kept. It is not opened: a file that is being executed
 * can be replaced but not opened for writing. */
static int check_old(struct box_file_job *job, mode_t *mode)
{
	struct box_path_walk *walk = &job->walk;
	struct stat st;
	int r = box_path_walk_check_regular(walk, &st);
	if (r < 0) {
		return r == -ENOENT ? 0 : r;
	}
	if (faccessat(walk->folder, walk->name, W_OK, 0) < 0) {
		return errno == ENOENT ? 0 : -errno;
	}
	if (!(job->request.flags & BOX_INIT_FILE_MODE)) {
		*mode = st.st_mode & 0777;
	}
	return 0;
}

static int write_whole(struct box_file_job *job)
{
	mode_t mode = mode_of(job);
	struct box_new_file fresh;
	int r = check_old(job, &mode);
	if (r < 0) {
		return r;
	}
	r = box_new_file_open(&fresh, job->walk.folder, mode);
	if (r < 0) {
		return r;
	}
	r = write_input(job, fresh.fd, -1);
	if (r == 0) {
		r = box_new_file_publish(&fresh, job->walk.name);
	}
	box_new_file_discard(&fresh);
	r = finish(job, fresh.fd, r);
	if (r < 0) {
		job->answer.written = 0; /* nothing was changed */
	}
	return r;
}

int box_file_job_write(struct box_file_job *job)
{
	bool parents = job->request.flags & BOX_INIT_FILE_PARENTS;
	int r = box_file_job_walk(
		job, BOX_PATH_WALK_FOLLOW | (parents ? BOX_PATH_WALK_PARENTS : 0));
	if (r < 0) {
		return r;
	}
	if (!job->walk.name[0] || job->walk.slash) {
		job->walk.why = BOX_INIT_FILE_WHY_TYPE;
		job->walk.type = BOX_INIT_FILE_TYPE_FOLDER;
		return -EISDIR;
	}
	bool whole = !(job->request.flags & (BOX_INIT_FILE_AT_OFFSET | BOX_INIT_FILE_APPEND));
	return whole ? write_whole(job) : write_in_place(job);
}
