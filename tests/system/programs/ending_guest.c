/* PID 1 of a guest that reports itself ready, and ends at the first packet after the request for
 * its clock: MODE says how. */
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "protocol/microvm.h"

#define PANIC 1 /* by using up all memory: there is no other process to kill */
#define REBOOT 2
#define EXIT 3  /* as PID 1: this kernel reboots then */
#define CLOSE 4 /* only the connection */

static char packet[BOX_INIT_PACKET_MAX];

/* As box-init does: the messages of a panicking kernel must be printed. There is no mount point for
 * /proc. */
static void wait_after_panic(void)
{
	long made = syscall(SYS_fsopen, "proc", 0);
	(void)syscall(SYS_fsconfig, made, 6 /* FSCONFIG_CMD_CREATE */, NULL, NULL, 0);
	long proc = syscall(SYS_fsmount, made, 0, 0);
	int fd = openat((int)proc, "sys/kernel/panic", O_WRONLY | O_CLOEXEC);
	(void)(write(fd, "1", 1) < 0);
}

int main(void)
{
	struct sockaddr_vm host = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = BOX_MICROVM_PORT};
	struct box_init_report ready = {0};
	struct box_init_header header = {.kind = BOX_MICROVM_CLOCK};
	wait_after_panic();
	int sock = socket(AF_VSOCK, SOCK_STREAM, 0);
	if (connect(sock, (struct sockaddr *)&host, sizeof(host)) < 0 ||
		write(sock, &ready, sizeof(ready)) != (ssize_t)sizeof(ready)) {
		return 1;
	}
	while (header.kind == BOX_MICROVM_CLOCK) {
		if (recv(sock, &header, sizeof(header), MSG_WAITALL) != (ssize_t)sizeof(header)) {
			return 1;
		}
		(void)recv(sock, packet, header.size - sizeof(header), MSG_WAITALL);
	}
	while (MODE == PANIC) {
		char *more = sbrk(sizeof(packet));
		for (size_t i = 0; more != (void *)-1 && i < sizeof(packet); i += 1024) {
			more[i] = 1;
		}
	}
	if (MODE == REBOOT) {
		(void)reboot(RB_AUTOBOOT);
	}
	if (MODE == EXIT) {
		return 1;
	}
	(void)close(sock);
	for (;;) {
		(void)pause();
	}
}
