/* The box's devpts gives every pair to the commands; the slave is opened by its master, never by a
 * name. */
#include "init/run/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

int box_terminal_resize(int master, struct box_init_size size)
{
	const struct winsize wanted = {.ws_row = size.rows, .ws_col = size.columns};
	return ioctl(master, TIOCSWINSZ, &wanted) < 0 ? -errno : 0;
}

/* Commands speak UTF-8 (LANG says so), so erasing takes back a whole character. */
static int set_utf8(int slave)
{
	struct termios modes;
	if (tcgetattr(slave, &modes) < 0) {
		return -errno;
	}
	modes.c_iflag |= IUTF8;
	return tcsetattr(slave, TCSANOW, &modes) < 0 ? -errno : 0;
}

int box_terminal_open(struct box_init_size size, int *ret_master, int *ret_slave)
{
	int master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
	if (master < 0) {
		return -errno;
	}
	const int unlocked = 0;
	int slave = -1;
	int r = box_terminal_resize(master, size);
	if (r == 0 && ioctl(master, TIOCSPTLCK, &unlocked) < 0) {
		r = -errno;
	}
	if (r == 0) {
		slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
		r = slave < 0 ? -errno : set_utf8(slave);
	}
	if (r < 0) {
		if (slave >= 0) {
			(void)close(slave);
		}
		(void)close(master);
		return r;
	}
	*ret_master = master;
	*ret_slave = slave;
	return 0;
}
