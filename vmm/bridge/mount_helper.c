/* Owns both ends of the mount helper's socket, and its process. A mount is hung at an empty folder or file in
 * a file system that the guest may not write to: a walk of one name, which the number is. */
#include "vmm/bridge/mount_helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/fds.h"
#include "vmm/privileges.h"
#include "vmm/syscall_rules.h"

#define NAME_SIZE 16

enum wish {
	HANG = 1, /* with one fd; answered */
	TAKE,
};

struct packet {
	uint32_t wish;
	uint32_t number;
};

/* --- in the bridge --- */

/* It waits if it must: the mount helper always comes back to its socket. */
static int send_packet(int socket, const struct packet *packet, int fd)
{
	return box_fds_send_one(socket, packet, sizeof(*packet), fd, 0) < 0 ? -EPIPE : 0;
}

int box_mount_helper_attach(int socket, uint32_t number, int mount_fd)
{
	return send_packet(socket, &(struct packet){HANG, number}, mount_fd);
}

int box_mount_helper_detach(int socket, uint32_t number)
{
	return send_packet(socket, &(struct packet){TAKE, number}, -1);
}

int box_mount_helper_answer(int socket)
{
	uint32_t errnum;
	ssize_t got;
	do {
		got = recv(socket, &errnum, sizeof(errnum), MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got != (ssize_t)sizeof(errnum)) {
		return got < 0 && errno == EAGAIN ? -EAGAIN : -EPIPE;
	}
	return errnum != 0;
}

/* --- in the mount helper --- */

static int make_place(int folder, const char *name, int mount_fd, int *ret_place)
{
	struct stat st;
	if (fstat(mount_fd, &st) < 0) {
		return -errno;
	}
	bool is_folder = S_ISDIR(st.st_mode);
	int r = is_folder ? mkdirat(folder, name, 0755) : mknodat(folder, name, S_IFREG | 0644, 0);
	if (r < 0) {
		return -errno;
	}
	int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC | (is_folder ? O_DIRECTORY : 0);
	int place = openat(folder, name, flags);
	if (place < 0) {
		return -errno;
	}
	*ret_place = place;
	return 0;
}

/* The name is below the working folder, which is `folder`: umount2 has no fd to begin at. */
static void take(int folder, const char *name)
{
	struct stat st;
	(void)umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		(void)unlinkat(folder, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	}
}

static int hang(int folder, const char *name, int mount_fd)
{
	_cleanup_(box_close_p) int place = -1;
	int r = mount_fd < 0 ? -EBADF : make_place(folder, name, mount_fd, &place);
	if (r == 0 &&
		syscall(SYS_move_mount, mount_fd, "", place, "",
			MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
		r = -errno;
	}
	if (r < 0) {
		take(folder, name);
	}
	return r;
}

int box_mount_helper_serve(int socket, int folder)
{
	struct packet packet;
	_cleanup_(box_close_p) int mount_fd = -1;
	if (box_fds_receive_one(socket, &packet, sizeof(packet), &mount_fd, 0) < 0) {
		return -EPIPE;
	}
	char name[NAME_SIZE];
	(void)snprintf(name, sizeof(name), "%u", packet.number);
	if (packet.wish == TAKE) {
		take(folder, name);
		return 0;
	}
	if (packet.wish != HANG) {
		return -EPIPE;
	}
	uint32_t errnum = (uint32_t)-hang(folder, name, mount_fd);
	return send(socket, &errnum, sizeof(errnum), MSG_NOSIGNAL) < 0 ? -EPIPE : 0;
}

_Noreturn static void mount_helper_main(int socket, int folder, pid_t parent)
{
	struct box_err err;
	(void)prctl(PR_SET_NAME, "box-mnt-helper", 0L, 0L, 0L);
	(void)umask(0);
	if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0 || getppid() != parent ||
		fchdir(folder) < 0 || box_caps_keep(1ULL << CAP_SYS_ADMIN) < 0 ||
		box_syscall_rules_enter(BOX_SYSCALL_RULES_MOUNT_HELPER, &err) < 0) {
		_exit(1);
	}
	while (box_mount_helper_serve(socket, folder) == 0) {
	}
	_exit(0);
}

int box_mount_helper_start(int folder, int *ret_socket, pid_t *ret_pid, struct box_err *err)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "no socket for the process that mounts");
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		if (box_privileges_keep_fds((int[]){pair[1], folder}, 2) < 0) {
			_exit(1);
		}
		mount_helper_main(pair[1], folder, parent);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return box_err_set(
			err, BOX_ERR_OS, errno, "the process that mounts cannot be started");
	}
	*ret_socket = pair[0];
	*ret_pid = pid;
	return 0;
}
