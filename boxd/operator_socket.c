/* In this order: the folder is made and checked, and from then on used through its fd; a lock on the
 * folder keeps two boxds from mistaking each other's socket for a stale one; the socket is bound with a
 * mode that lets nobody else in, and only then given to a group. */
#include "boxd/operator_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"

#define BACKLOG 1024
#define LOCK_TRIES 200 /* one second; a boxd that starts holds the lock for a moment */
#define LOCK_PAUSE_MS 5
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

static int socket_nonblocking(void)
{
	return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int refuse(
	struct box_err *err, const struct box_operator_socket *socket, int errnum, const char *why)
{
	return box_err_set(
		err, BOX_ERR_OS, errnum, "the operator's socket %s: %s", socket->path, why);
}

static int choose_path(const char *path, struct box_operator_socket *socket, struct box_err *err)
{
	int r = path ? 0
		     : box_operator_socket_path(geteuid(), getenv("XDG_RUNTIME_DIR"), socket->path);
	if (path) {
		int len = snprintf(socket->path, sizeof(socket->path), "%s", path);
		r = (size_t)len < sizeof(socket->path) ? 0 : -ENAMETOOLONG;
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r,
			"the operator's socket: its path must be shorter than %zu bytes: %.200s",
			sizeof(socket->path), path ? path : "XDG_RUNTIME_DIR is too long");
	}
	return socket->path[0] == '/' ? 0 : refuse(err, socket, EINVAL, "not an absolute path");
}

/* Otherwise other users could replace our socket. */
static const char *check_folder(const struct stat *status)
{
	if (status->st_uid != geteuid() && status->st_uid != 0) {
		return "its folder belongs to another user";
	}
	return status->st_mode & OTHERS_WRITE ? "its folder can be written by others" : NULL;
}

static int open_folder(struct box_operator_socket *socket, struct box_err *err)
{
	char copy[BOX_SOCKET_PATH_SIZE];
	memcpy(copy, socket->path, sizeof(copy));
	const char *folder = dirname(copy);
	socket->folder_made = mkdir(folder, geteuid() == 0 ? 0711 : 0700) == 0;
	if (!socket->folder_made && errno != EEXIST) {
		return box_err_set(err, BOX_ERR_OS, errno,
			"the operator's socket %s: its folder cannot be made: %s", socket->path,
			box_err_strerror(errno));
	}
	struct stat status;
	socket->folder = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (socket->folder < 0 || fstat(socket->folder, &status) < 0) {
		bool link = errno == ENOTDIR || errno == ELOOP;
		return refuse(err, socket, errno,
			link ? "its folder is a link or not a folder" : box_err_strerror(errno));
	}
	const char *why = check_folder(&status);
	return why ? refuse(err, socket, EPERM, why) : 0;
}

static const char *name_in(const struct box_operator_socket *socket)
{
	return strrchr(socket->path, '/') + 1;
}

static void fill_address(const struct box_operator_socket *socket, struct sockaddr_un *address)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(address->sun_path, socket->path, sizeof(address->sun_path));
}

/* Whether a process listens there, even if its queue is full. */
static bool is_served(const struct box_operator_socket *socket)
{
	struct sockaddr_un address;
	_cleanup_(box_close_p) int fd = socket_nonblocking();
	fill_address(socket, &address);
	return fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
		(errno != ECONNREFUSED && errno != ENOENT);
}

/* Removes a socket left behind by a boxd that was killed. */
static int remove_stale(const struct box_operator_socket *socket, struct box_err *err)
{
	struct stat status;
	if (fstatat(socket->folder, name_in(socket), &status, AT_SYMLINK_NOFOLLOW) < 0) {
		return errno == ENOENT ? 0 : refuse(err, socket, errno, box_err_strerror(errno));
	}
	if (!S_ISSOCK(status.st_mode)) {
		return refuse(err, socket, EEXIST, "a file that is not a socket has this name");
	}
	if (is_served(socket)) {
		return refuse(err, socket, EADDRINUSE, "another running boxd has it");
	}
	if (unlinkat(socket->folder, name_in(socket), 0) < 0 && errno != ENOENT) {
		return refuse(err, socket, errno, box_err_strerror(errno));
	}
	return 0;
}

static int bind_private(struct box_operator_socket *socket, struct box_err *err)
{
	struct sockaddr_un address;
	struct stat status;
	fill_address(socket, &address);
	mode_t before = umask(0177);
	int r = bind(socket->fd, (struct sockaddr *)&address, sizeof(address));
	int errnum = errno;
	(void)umask(before);
	if (r < 0) {
		return refuse(err, socket, errnum, box_err_strerror(errnum));
	}
	if (fstatat(socket->folder, name_in(socket), &status, AT_SYMLINK_NOFOLLOW) < 0) {
		return refuse(err, socket, errno, box_err_strerror(errno));
	}
	socket->inode = status.st_ino;
	return 0;
}

static int find_group(const char *name, gid_t *ret_gid)
{
	char *end;
	const struct group *group = getgrnam(name);
	unsigned long number = strtoul(name, &end, 10);
	if (!group && (name[0] < '0' || name[0] > '9' || *end != '\0' || number >= (gid_t)-1)) {
		return -ENOENT;
	}
	*ret_gid = group ? group->gr_gid : (gid_t)number;
	return 0;
}

static int share_with(
	const struct box_operator_socket *socket, const char *name, struct box_err *err)
{
	gid_t group;
	if (find_group(name, &group) < 0) {
		return box_err_set(
			err, BOX_ERR_VALUE, ENOENT, "--socket-group: no group \"%.100s\"", name);
	}
	if (fchownat(socket->folder, name_in(socket), (uid_t)-1, group, AT_SYMLINK_NOFOLLOW) < 0 ||
		fchmodat(socket->folder, name_in(socket), 0660, 0) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno,
			"--socket-group: %s cannot be given to the group %.100s: %s", socket->path,
			name, box_err_strerror(errno));
	}
	return 0;
}

/* With a time limit: every process that may read the folder can lock it too. */
static int lock_folder(const struct box_operator_socket *socket, struct box_err *err)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_MS * 1000000L};
	for (int i = 0; flock(socket->folder, LOCK_EX | LOCK_NB) < 0; i++) {
		if (errno != EWOULDBLOCK && errno != EINTR) {
			return refuse(err, socket, errno, box_err_strerror(errno));
		}
		if (i == LOCK_TRIES) {
			return refuse(err, socket, EWOULDBLOCK,
				"another process has its folder locked (flock)");
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static int open_socket(struct box_operator_socket *socket, const char *group, struct box_err *err)
{
	int r = open_folder(socket, err);
	if (r < 0) {
		return r;
	}
	r = lock_folder(socket, err);
	if (r < 0) {
		return r;
	}
	r = remove_stale(socket, err);
	if (r < 0) {
		return r;
	}
	socket->fd = socket_nonblocking();
	if (socket->fd < 0) {
		return refuse(err, socket, errno, box_err_strerror(errno));
	}
	r = bind_private(socket, err);
	if (r == 0 && group) {
		r = share_with(socket, group, err);
	}
	if (r == 0 && listen(socket->fd, BACKLOG) < 0) {
		r = refuse(err, socket, errno, box_err_strerror(errno));
	}
	(void)flock(socket->folder, LOCK_UN);
	return r;
}

int box_operator_socket_open(const char *path, const char *group,
	struct box_operator_socket *ret_socket, struct box_err *err)
{
	struct box_operator_socket socket = BOX_OPERATOR_SOCKET_NONE;
	int r = choose_path(path, &socket, err);
	if (r < 0) {
		return r;
	}
	r = open_socket(&socket, group, err);
	if (r < 0) {
		box_operator_socket_close(&socket);
		return r;
	}
	*ret_socket = socket;
	return 0;
}

void box_operator_socket_close(struct box_operator_socket *socket)
{
	struct stat status;
	if (socket->inode != 0 &&
		fstatat(socket->folder, name_in(socket), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		status.st_ino == socket->inode) {
		(void)unlinkat(socket->folder, name_in(socket), 0);
	}
	if (socket->folder_made) {
		char copy[BOX_SOCKET_PATH_SIZE];
		memcpy(copy, socket->path, sizeof(copy));
		(void)rmdir(dirname(copy)); /* fails if the folder is not empty */
	}
	box_close_p(&socket->fd);
	box_close_p(&socket->folder);
	socket->inode = 0;
}
