/* A box-vmm that boots no guest: it pivots into its jail, reports its guest ready, and answers
 * every command with a description of its surroundings. It tests boxd's part of microVMs on hosts
 * that cannot boot a guest.
 *
 * The file `boot` of the workspace says how it behaves before it is ready. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "protocol/microvm.h"

static char packet[BOX_INIT_PACKET_MAX];
static char seen[16384];
static struct box_microvm_boot machine;

static void see(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void see(const char *format, ...)
{
	va_list arguments;
	size_t len = strlen(seen);
	va_start(arguments, format);
	(void)vsnprintf(seen + len, sizeof(seen) - len, format, arguments);
	va_end(arguments);
}

static void report(uint32_t step, int errnum, const char *text)
{
	struct box_microvm_report words = {.report = {step, errnum}};
	(void)snprintf(words.text, sizeof(words.text), "%s", text);
	(void)!write(BOX_INIT_REPORT_FD, &words, sizeof(words));
}

static _Noreturn void fail(uint32_t step, const char *text)
{
	report(step, errno ? errno : EIO, text);
	_exit(1);
}

/* The fds it was started with, and what they are. */
static void see_fds(void)
{
	for (int fd = 0; fd < 64; fd++) {
		struct stat status;
		if (fstat(fd, &status) == 0) {
			see("fd %d %s\n", fd,
				S_ISSOCK(status.st_mode)           ? "socket"
					: S_ISFIFO(status.st_mode) ? "pipe"
					: S_ISDIR(status.st_mode)  ? "folder"
					: S_ISCHR(status.st_mode)  ? "device"
								   : "file");
		}
	}
}

static void read_boot(void)
{
	static char bytes[1 << 20];
	ssize_t size = pread(BOX_INIT_BOOT_FD, bytes, sizeof(bytes), 0);
	struct box_init_boot guest;
	memcpy(&guest, bytes, sizeof(guest));
	size_t before = sizeof(guest) + guest.rule_count * sizeof(struct box_init_path_rule) +
		(guest.filter_count + guest.mounter_filter_count) * 8U;
	if (size < (ssize_t)(before + sizeof(machine))) {
		fail(BOX_VMM_READ, "the boot file is too short");
	}
	memcpy(&machine, bytes + before, sizeof(machine));
	see("boot same_uid=%u memory=%u cpus=%u pids=%u root_steps=%u deadline=%u network=%u\n",
		guest.same_uid, machine.memory_mib, machine.cpus, machine.pids,
		machine.root_step_count, machine.deadline_ms, machine.network);
}

static void take_order(void)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	char order;
	struct iovec part = {&order, 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	if (recvmsg(BOX_INIT_ORDER_FD, &message, 0) != 1) {
		_exit(1);
	}
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int tree = -1;
	if (header) {
		memcpy(&tree, CMSG_DATA(header), sizeof(tree));
		if (syscall(SYS_move_mount, tree, "", BOX_INIT_WORKSPACE_FD, "", 0x44) < 0) {
			fail(BOX_VMM_WORKSPACE, "");
		}
	}
}

static void enter_jail(void)
{
	see("host %d\n", access("/usr/bin/env", F_OK) == 0);
	if (fchdir(BOX_MICROVM_JAIL_FD) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0) {
		fail(BOX_VMM_ROOT, "");
	}
}

static void see_folder(const char *path)
{
	DIR *folder = opendir(path);
	if (!folder) {
		see("no %s: %s\n", path, strerror(errno));
		return;
	}
	for (const struct dirent *at; (at = readdir(folder));) {
		if (at->d_name[0] != '.' && (at->d_name[0] < '0' || at->d_name[0] > '9')) {
			see("in %s %s\n", path, at->d_name);
		}
	}
	(void)closedir(folder);
}

static void see_jail(void)
{
	static const char *const folders[] = {
		"/", "/dev", "/proc", "/run", "/share", "/share/trees", "/share/mounts"};
	struct stat status;
	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		see_folder(folders[i]);
	}
	if (stat("/dev/kvm", &status) == 0) {
		see("kvm %o %u:%u open %d\n", status.st_mode & 07777, major(status.st_rdev),
			minor(status.st_rdev), open("/dev/kvm", O_RDWR | O_CLOEXEC) >= 0);
	}
	see("root writable %d\n", mkdir("/x", 0700) == 0);
	see("tree writable %d\n", mkdir("/share/trees/usr/x", 0700) == 0);
}

static void behave(void)
{
	char mode[32] = "";
	int fd = open("/share/workspace/boot", O_RDONLY | O_CLOEXEC);
	(void)!read(fd, mode, sizeof(mode) - 1);
	(void)close(fd);
	if (strncmp(mode, "panic", 5) == 0) {
		errno = ECHILD;
		fail(BOX_VMM_START, "booting\nKernel panic - \033[31mno init\n");
	}
	if (strncmp(mode, "die", 3) == 0) {
		_exit(1);
	}
	if (strncmp(mode, "plain", 5) == 0) { /* as a native box would */
		(void)!write(BOX_INIT_REPORT_FD, &(struct box_init_report){0}, 8);
		(void)pause();
	}
	report(0, 0, "");
	(void)close(BOX_INIT_REPORT_FD);
}

static void send_kind(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size), .kind = kind, .id = id};
	memcpy(packet, &header, sizeof(header));
	memcpy(packet + sizeof(header), bytes, size);
	(void)!send(BOX_INIT_CONTROL_FD, packet, sizeof(header) + size, MSG_NOSIGNAL);
}

static void serve(void)
{
	struct box_init_exit good = {.end = BOX_INIT_END_EXIT};
	struct box_init_header header;
	while (recv(BOX_INIT_CONTROL_FD, packet, sizeof(packet), 0) > 0) {
		memcpy(&header, packet, sizeof(header));
		if (header.kind == BOX_INIT_RESET) {
			send_kind(BOX_INIT_RESET_DONE, 0, "", 0);
		} else if (header.kind == BOX_INIT_RUN) {
			send_kind(BOX_INIT_STDOUT, header.id, seen, strlen(seen));
			send_kind(BOX_INIT_EXIT, header.id, &good, sizeof(good));
		}
	}
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--probe=boot") == 0) {
		(void)printf("libkrun=fake\nlibkrun_version=0\nkvm=ok\nboot=ok\nboot_ms=1\n");
		return 0;
	}
	see_fds();
	read_boot();
	take_order();
	enter_jail();
	see_jail();
	behave();
	serve();
	return 0;
}
