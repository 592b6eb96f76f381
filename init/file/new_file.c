/* Owns the temporary name of a file that is being written. We may be killed at any time together with our
 * process group. So where a file cannot exist without a name, a guard process outside of the group waits
 * until we end, and removes the name if we have not. Called by file_data.c. */
#include "init/file/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "init/file/file_job.h"

/* If the socket closes without a byte, the writer has died. The guard closes all other fds: otherwise the
 * reader of our output would have to wait for the guard too. */
_Noreturn static void guard_main(int socket, int folder, const char *name)
{
	char byte;
	ssize_t got = -1;
	(void)setpgid(0, 0);
	if (dup2(socket, STDIN_FILENO) == STDIN_FILENO &&
		dup2(folder, STDOUT_FILENO) == STDOUT_FILENO &&
		syscall(SYS_close_range, 2, ~0U, 0) == 0) {
		do {
			got = read(STDIN_FILENO, &byte, 1);
		} while (got < 0 && errno == EINTR);
	}
	if (got == 0) {
		(void)unlinkat(STDOUT_FILENO, name, 0);
	}
	_exit(0);
}

/* A failure is ignored: the box may have reached its limit of processes. */
static void start_guard(struct box_new_file *fresh)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0) {
		return;
	}
	/* Above the fds that the guard replaces. */
	int socket = fcntl(ends[0], F_DUPFD_CLOEXEC, 3);
	int folder = fcntl(fresh->folder, F_DUPFD_CLOEXEC, 3);
	pid_t pid = socket >= 0 && folder >= 0 ? fork() : -1;
	if (pid == 0) {
		(void)close(ends[1]);
		guard_main(socket, folder, fresh->temporary);
	}
	if (pid > 0) {
		(void)setpgid(pid, pid); /* in both processes, since either may run first */
		fresh->guard = ends[1];
	} else {
		(void)close(ends[1]);
	}
	(void)close(ends[0]);
	(void)close(socket);
	(void)close(folder);
}

static int open_named(struct box_new_file *fresh, mode_t mode)
{
	int r = box_file_job_temporary_name(fresh->temporary);
	if (r < 0) {
		fresh->temporary[0] = '\0';
		return r;
	}
	start_guard(fresh);
	fresh->fd = openat(fresh->folder, fresh->temporary,
		O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fresh->fd < 0) {
		r = -errno;
		fresh->temporary[0] = '\0';
		box_new_file_discard(fresh);
	}
	return r;
}

int box_new_file_open(struct box_new_file *fresh, int folder, mode_t mode)
{
	char target[16];
	*fresh = (struct box_new_file){
		.folder = folder,
		.fd = openat(folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode),
		.guard = -1,
	};
	if (fresh->fd >= 0) {
		(void)snprintf(fresh->proc, sizeof(fresh->proc), "/proc/self/fd/%d", fresh->fd);
		if (readlinkat(AT_FDCWD, fresh->proc, target, sizeof(target)) > 0) {
			return 0;
		}
		(void)close(fresh->fd);
	} else if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL && errno != ENOENT) {
		return -errno;
	}
	return open_named(fresh, mode);
}

int box_new_file_publish(struct box_new_file *fresh, const char *final)
{
	if (!fresh->temporary[0]) {
		if (linkat(AT_FDCWD, fresh->proc, fresh->folder, final, AT_SYMLINK_FOLLOW) == 0) {
			return 0;
		}
		if (errno != EEXIST) {
			return -errno;
		}
		/* A link cannot replace a file, so it gets a temporary name first. */
		char name[24];
		int r = box_file_job_temporary_name(name);
		if (r < 0) {
			return r;
		}
		if (linkat(AT_FDCWD, fresh->proc, fresh->folder, name, AT_SYMLINK_FOLLOW) < 0) {
			return -errno;
		}
		memcpy(fresh->temporary, name, sizeof(name));
	}
	int r = box_file_job_rename(fresh->folder, fresh->temporary, fresh->folder, final, true);
	if (r == 0) {
		fresh->temporary[0] = '\0';
	}
	return r;
}

void box_new_file_discard(struct box_new_file *fresh)
{
	if (fresh->temporary[0]) {
		(void)unlinkat(fresh->folder, fresh->temporary, 0);
		fresh->temporary[0] = '\0';
	}
	if (fresh->guard >= 0) {
		(void)!send(fresh->guard, "", 1, MSG_NOSIGNAL);
		(void)close(fresh->guard);
		fresh->guard = -1;
	}
}
