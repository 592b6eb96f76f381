/* PID 1 of a guest in an attacker's hands: it does what MODE names, and no command is ever run. */
#include <linux/vm_sockets.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <unistd.h>

#include "runtime/guest/machine.h"

#define PANIC 1    /* the end of PID 1 */
#define HALT 2     /* the machine goes off */
#define NONSENSE 3 /* in place of a report */
#define LATER 4    /* a good report, then nonsense */
#define ABSENT 5   /* nothing is ever heard of it */

static char noise[1 << 16];

static int dial(void)
{
	struct sockaddr_vm host = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = BOX_MACHINE_PORT};
	int sock = socket(AF_VSOCK, SOCK_STREAM, 0);
	return connect(sock, (struct sockaddr *)&host, sizeof(host)) < 0 ? -1 : sock;
}

static void speak(int sock)
{
	struct box_guest_report ready = {0};
	if (MODE == LATER && write(sock, &ready, sizeof(ready)) != (ssize_t)sizeof(ready)) {
		return;
	}
	memset(noise, 0xff, sizeof(noise));
	while (write(sock, noise, sizeof(noise)) > 0) {
	}
}

int main(void)
{
	if (MODE == PANIC) {
		return 1;
	}
	if (MODE == HALT) {
		(void)reboot(RB_POWER_OFF);
	}
	if (MODE == NONSENSE || MODE == LATER) {
		speak(dial());
	}
	for (;;) {
		(void)pause();
	}
}
