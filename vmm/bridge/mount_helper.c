/* Owns both ends of the mount helper's socket, its process, and the numbers of mounts. A mount is attached to
 * an empty folder or file, named by its number, in a file system that the guest cannot write to. Called by
 * bridge.c and vmm_run.c. */
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
#include "base/fsmount.h"
#include "protocol/init_process.h"
#include "vmm/privileges.h"
#include "vmm/syscall_rules.h"

#define NAME_SIZE 16

enum request {
	ATTACH = 1, /* with one fd; answered */
	DETACH,
};

struct packet {
	uint32_t request;
	uint32_t number;
};

/* --- in the bridge --- */

/* May block: the mount helper always returns to its socket. */
static int send_packet(int socket, const struct packet *packet, int fd)
{
	return box_fds_send_one(socket, packet, sizeof(*packet), fd, 0) < 0 ? -EPIPE : 0;
}

int box_mount_helper_attach(int socket, uint32_t number, int mount_fd)
{
	return send_packet(socket, &(struct packet){ATTACH, number}, mount_fd);
}

int box_mount_helper_detach(int socket, uint32_t number)
{
	return send_packet(socket, &(struct packet){DETACH, number}, -1);
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

/* Creates an empty folder or file to attach the mount to. */
static int make_mount_point(int folder, const char *name, int mount_fd, int *ret_fd)
{
	struct stat st;
	if (fstat(mount_fd, &st) < 0) {
		return -errno;
	}
	bool is_folder = S_ISDIR(st.st_mode);
	if ((is_folder ? mkdirat(folder, name, 0755) : mknodat(folder, name, S_IFREG | 0644, 0)) <
		0) {
		return -errno;
	}
	int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC | (is_folder ? O_DIRECTORY : 0);
	int fd = openat(folder, name, flags);
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = fd;
	return 0;
}

/* `folder` is also the working folder, because umount2 only takes paths. */
static void detach(int folder, const char *name)
{
	struct stat st;
	(void)umount2(name, MNT_DETACH | UMOUNT_NOFOLLOW);
	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		(void)unlinkat(folder, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0);
	}
}

static int attach(int folder, const char *name, int mount_fd)
{
	_cleanup_(box_close_p) int point = -1;
	int r = mount_fd < 0 ? -EBADF : make_mount_point(folder, name, mount_fd, &point);
	r = r == 0 ? box_fsmount_attach_at(mount_fd, point) : r;
	if (r < 0) {
		detach(folder, name);
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
	if (packet.request == DETACH) {
		detach(folder, name);
		return 0;
	}
	if (packet.request != ATTACH) {
		return -EPIPE;
	}
	uint32_t errnum = (uint32_t)-attach(folder, name, mount_fd);
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
		return box_err_set(err, BOX_ERR_OS, errno,
			"cannot make a socket for the mount helper: %s", box_err_strerror(errno));
	}
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		if (box_fds_close_but(STDERR_FILENO + 1, (int[]){pair[1], folder}, 2) < 0) {
			_exit(1);
		}
		mount_helper_main(pair[1], folder, parent);
	}
	(void)close(pair[1]);
	if (pid < 0) {
		(void)close(pair[0]);
		return box_err_set(err, BOX_ERR_OS, errno, "cannot fork the mount helper: %s",
			box_err_strerror(errno));
	}
	*ret_socket = pair[0];
	*ret_pid = pid;
	return 0;
}

/* --- numbers: a list, searched from its end, because commands have few mounts, side by side --- */

uint32_t box_mount_helper_take_number(struct box_mount_numbers *mounts, uint32_t id)
{
	if (mounts->count == BOX_VMM_MOUNTS_MAX || mounts->last == BOX_MOUNT_NUMBERS_NONE - 1) {
		return BOX_MOUNT_NUMBERS_NONE;
	}
	uint32_t number = ++mounts->last;
	mounts->list[mounts->count].number = number;
	mounts->list[mounts->count].id = id;
	mounts->count++;
	return number;
}

static uint32_t take_out(struct box_mount_numbers *mounts, size_t index)
{
	uint32_t number = mounts->list[index].number;
	mounts->list[index] = mounts->list[--mounts->count];
	return number;
}

uint32_t box_mount_helper_drop_number(struct box_mount_numbers *mounts, uint32_t id)
{
	for (size_t i = mounts->count; i-- > 0;) {
		if (mounts->list[i].id == id) {
			return take_out(mounts, i);
		}
	}
	return 0;
}

uint32_t box_mount_helper_drop_number_upto(struct box_mount_numbers *mounts, uint32_t last)
{
	for (size_t i = mounts->count; i-- > 0;) {
		bool of_process = mounts->list[i].id & BOX_INIT_MOUNT_OF_PROCESS;
		if (mounts->list[i].number <= last && !of_process) {
			return take_out(mounts, i);
		}
	}
	return 0;
}
