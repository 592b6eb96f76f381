/* Pairs are made with the file system ids of the command, so that the slave is its own without a
 * capability to give it away; and the slave is opened by its master, never by a name. */
#include "runtime/guest/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

int box_terminal_resize(int master, struct box_terminal_size size)
{
	const struct winsize wanted = {.ws_row = size.rows, .ws_col = size.columns};
	return ioctl(master, TIOCSWINSZ, &wanted) < 0 ? -errno : 0;
}

static int open_master(uint32_t uid, uint32_t gid)
{
	/* Where there is one id alone these change nothing. */
	(void)syscall(SYS_setfsgid, gid);
	(void)syscall(SYS_setfsuid, uid);
	int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	int errnum = errno;
	(void)syscall(SYS_setfsuid, geteuid());
	(void)syscall(SYS_setfsgid, getegid());
	return master < 0 ? -errnum : master;
}

int box_terminal_open(
	struct box_terminal_size size, uint32_t uid, uint32_t gid, int *ret_master, int *ret_slave)
{
	int master = open_master(uid, gid);
	if (master < 0) {
		return master;
	}
	const int unlocked = 0;
	int slave = -1;
	int r = box_terminal_resize(master, size);
	if (r == 0 && ioctl(master, TIOCSPTLCK, &unlocked) < 0) {
		r = -errno;
	}
	if (r == 0) {
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
		r = slave < 0 ? -errno : 0;
	}
	if (r < 0) {
		(void)close(master);
		return r;
	}
	*ret_master = master;
	*ret_slave = slave;
	return 0;
}
