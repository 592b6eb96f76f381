/* A hostile box-init: it reports itself ready and then does what the command names (`modes`).
 *
 * The file /workspace/boot says how it behaves before it is ready. It never runs a command. */
#include <errno.h>
#include <fcntl.h>
#include <linux/mount.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "protocol/init.h"

#define COMMAND_MAX 64
#define STRANGERS 1000
#define PASSED_FDS 200

static char packet[2 * BOX_INIT_PACKET_MAX];

static void send_bytes(size_t size)
{
	while (send(BOX_INIT_CONTROL_FD, packet, size, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR) {
			_exit(1);
		}
	}
}

static void send_kind(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size), .kind = kind, .id = id};
	memcpy(packet, &header, sizeof(header));
	memcpy(packet + sizeof(header), bytes, size);
	send_bytes(sizeof(header) + size);
}

static void send_exit(uint32_t id, uint32_t end, int32_t value)
{
	struct box_init_exit body = {.end = end, .value = value};
	send_kind(BOX_INIT_EXIT, id, &body, sizeof(body));
}

static void wait_forever(void)
{
	for (;;) {
		(void)pause();
	}
}

static void do_good(uint32_t id)
{
	send_kind(BOX_INIT_STDOUT, id, "good", 4);
	send_exit(id, BOX_INIT_END_EXIT, 0);
}

static void do_nonsense(uint32_t id)
{
	(void)id;
	for (size_t i = 0; i < 1000; i++) {
		packet[i] = (char)(i * 37 + 11);
	}
	send_bytes(1000);
}

static void do_short(uint32_t id)
{
	(void)id;
	send_bytes(3);
}

static void do_empty(uint32_t id)
{
	(void)id;
	send_bytes(0);
}

static void do_long(uint32_t id)
{
	struct box_init_header header = {
		.size = BOX_INIT_PACKET_MAX + 1, .kind = BOX_INIT_STDOUT, .id = id};
	memcpy(packet, &header, sizeof(header));
	send_bytes(BOX_INIT_PACKET_MAX + 1);
}

static void do_kind(uint32_t id)
{
	send_kind(9999, id, "x", 1);
}

static void do_request(uint32_t id)
{
	send_kind(BOX_INIT_KILL, id, "", 0);
}

static void do_size(uint32_t id)
{
	struct box_init_header header = {
		.size = sizeof(header) + 100, .kind = BOX_INIT_STDOUT, .id = id};
	memcpy(packet, &header, sizeof(header));
	send_bytes(sizeof(header) + 10);
}

static void do_end(uint32_t id)
{
	send_exit(id, 77, 0);
}

static void do_signal(uint32_t id)
{
	send_exit(id, BOX_INIT_END_SIGNAL, 100000);
}

static void do_nobody(uint32_t id)
{
	(void)id;
	send_kind(BOX_INIT_STDOUT, 0, "x", 1);
}

static void do_die(uint32_t id)
{
	(void)id;
	_exit(0);
}

static void do_silent(uint32_t id)
{
	(void)id;
}

static void do_deaf(uint32_t id)
{
	(void)id;
	wait_forever();
}

static void do_flood(uint32_t id)
{
	static char bytes[BOX_INIT_BYTES_MAX];
	memset(bytes, 'x', sizeof(bytes));
	for (;;) {
		send_kind(BOX_INIT_STDOUT, id, bytes, sizeof(bytes));
	}
}

static void do_crumbs(uint32_t id)
{
	for (;;) {
		send_kind(BOX_INIT_STDERR, id, "x", 1);
	}
}

static void do_strangers(uint32_t id)
{
	for (uint32_t i = 1; i <= STRANGERS; i++) {
		send_kind(BOX_INIT_STDOUT, id + i, "bad", 3);
		send_exit(id + i, BOX_INIT_END_EXIT, 0);
	}
}

static void do_twice(uint32_t id)
{
	do_good(id);
	send_kind(BOX_INIT_STDOUT, id, "bad", 3);
	send_exit(id, BOX_INIT_END_EXIT, 9);
}

static void do_reset(uint32_t id)
{
	send_kind(BOX_INIT_RESET_DONE, 0, "", 0);
	do_good(id);
}

/* Unrequested packets, and impossible numbers. */
static void do_taken(uint32_t id)
{
	uint64_t most = UINT64_MAX;
	send_kind(BOX_INIT_STARTED, id, "", 0);
	send_kind(BOX_INIT_INPUT_TAKEN, id, &most, sizeof(most));
	do_good(id);
}

static void do_boast(uint32_t id)
{
	struct box_init_exit body = {
		.stdout_dropped = UINT64_MAX,
		.stderr_dropped = UINT64_MAX,
		.duration_us = UINT64_MAX,
	};
	send_kind(BOX_INIT_STDOUT, id, "good", 4);
	send_kind(BOX_INIT_EXIT, id, &body, sizeof(body));
}

/* A failure of a mount that the command does not have. */
static void do_mount(uint32_t id)
{
	struct box_init_exit body = {.end = BOX_INIT_END_FAILED,
		.step = BOX_INIT_STEP_MOUNT,
		.value = EPERM,
		.mount = BOX_INIT_MOUNTS_MAX - 1};
	send_kind(BOX_INIT_EXIT, id, &body, sizeof(body));
}

/* Fds that nobody requested. */
static void do_fds(uint32_t id)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct box_init_header header = {
		.size = sizeof(header) + 1, .kind = BOX_INIT_STDERR, .id = id};
	struct iovec parts[] = {{&header, sizeof(header)}, {packet, 1}};
	struct msghdr message = {
		.msg_iov = parts,
		.msg_iovlen = 2,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct cmsghdr *fds = CMSG_FIRSTHDR(&message);
	fds->cmsg_level = SOL_SOCKET;
	fds->cmsg_type = SCM_RIGHTS;
	fds->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(fds), &null, sizeof(int));
	packet[0] = 'x';
	for (int i = 0; i < PASSED_FDS; i++) {
		if (sendmsg(BOX_INIT_CONTROL_FD, &message, MSG_NOSIGNAL) < 0) {
			_exit(1);
		}
	}
	(void)close(null);
	do_good(id);
}

static const struct {
	const char *name;
	void (*run)(uint32_t id);
} modes[] = {
	{"good", do_good},
	{"nonsense", do_nonsense},
	{"short", do_short},
	{"empty", do_empty},
	{"long", do_long},
	{"kind", do_kind},
	{"request", do_request},
	{"size", do_size},
	{"end", do_end},
	{"signal", do_signal},
	{"nobody", do_nobody},
	{"die", do_die},
	{"silent", do_silent},
	{"deaf", do_deaf},
	{"flood", do_flood},
	{"crumbs", do_crumbs},
	{"strangers", do_strangers},
	{"twice", do_twice},
	{"reset", do_reset},
	{"taken", do_taken},
	{"boast", do_boast},
	{"mount", do_mount},
	{"fds", do_fds},
};

static void obey(uint32_t id, const char *command)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		if (strcmp(command, modes[i].name) == 0) {
			modes[i].run(id);
			return;
		}
	}
	_exit(1);
}

static void take(const char *bytes, size_t size)
{
	struct box_init_header header;
	struct box_init_run run;
	char command[COMMAND_MAX] = "";
	memcpy(&header, bytes, sizeof(header));
	if (header.kind == BOX_INIT_RESET) {
		send_kind(BOX_INIT_RESET_DONE, 0, "", 0);
	}
	if (header.kind != BOX_INIT_RUN) {
		return;
	}
	memcpy(&run, bytes + sizeof(header), sizeof(run));
	size_t at = sizeof(header) + sizeof(run) + run.env_size + run.workdir_size;
	if (at + run.command_size > size || run.command_size >= sizeof(command)) {
		_exit(1);
	}
	memcpy(command, bytes + at, run.command_size);
	obey(header.id, command);
}

/* As the real one does: a workspace, if there is one, comes with the order. */
static void await_order(void)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	int fd;
	struct iovec part = {&byte, 1};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	if (prctl(PR_SET_NAME, "box-warm") < 0 ||
		recvmsg(BOX_INIT_ORDER_FD, &message, MSG_CMSG_CLOEXEC) != 1 ||
		prctl(PR_SET_NAME, "box-init") < 0) {
		_exit(1);
	}
	if (!CMSG_FIRSTHDR(&message)) {
		return;
	}
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(fd));
	if (syscall(SYS_move_mount, fd, "", BOX_INIT_WORKSPACE_FD, "",
		    MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) < 0) {
		_exit(1);
	}
}

static bool boot_is(const char *name)
{
	static char text[COMMAND_MAX];
	int fd = open("/workspace/boot", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t got = read(fd, text, sizeof(text) - 1);
		text[got > 0 ? got : 0] = '\0';
		(void)close(fd);
	}
	return strcmp(text, name) == 0;
}

static void report(void)
{
	struct box_init_report ready = {0};
	size_t size = sizeof(ready);
	if (boot_is("die")) {
		_exit(1);
	}
	if (boot_is("mute")) {
		wait_forever();
	}
	if (boot_is("nonsense")) {
		ready = (struct box_init_report){.step = 77777, .errnum = -5};
	}
	if (boot_is("failed")) {
		ready = (struct box_init_report){.step = BOX_INIT_BOOT_LANDLOCK, .errnum = EPERM};
	}
	if (boot_is("short")) {
		size = 3;
	}
	if (write(BOX_INIT_REPORT_FD, &ready, size) != (ssize_t)size) {
		_exit(1);
	}
	if (!boot_is("open")) {
		(void)close(BOX_INIT_REPORT_FD);
	}
}

int main(void)
{
	static char incoming[BOX_INIT_PACKET_MAX];
	ssize_t got;
	await_order();
	report();
	while ((got = recv(BOX_INIT_CONTROL_FD, incoming, sizeof(incoming), 0)) > 0) {
		take(incoming, (size_t)got);
	}
	return 0;
}
