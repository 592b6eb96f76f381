/* The bridge of a microVM box between a fake box-rpc and a fake guest. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "protocol/init_process.h"
#include "protocol/microvm.h"
#include "tests/unit/lib/test.h"
#include "vmm/bridge/bridge.h"
#include "vmm/bridge/mount_helper.h"

#define WAIT_MS 10000

static char folder[] = "/tmp/test_bridge_XXXXXX";
static char path[64];
static pid_t bridge_pid;
static pid_t machine_pid;
static int control;
static int report;
static int console;
static int mount_helper;
static int stream = -1;
static struct box_microvm_report words;

/* --- the stage --- */

static inline void remove_folder(void)
{
	(void)unlink(path);
	(void)rmdir(folder);
}

static inline void exit_well(int number)
{
	(void)number;
	_exit(0);
}

_Noreturn static inline void play_bridge(struct box_bridge *bridge, int tell)
{
	sigset_t set;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
	bridge->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	/* Before the virtual machine is there, which it asks to exit. */
	(void)signal(SIGTERM, exit_well);
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		(void)close_range(STDERR_FILENO + 1, ~0U, 0);
		while (getppid() == parent) {
			(void)pause();
		}
	}
	bridge->children[0] = pid;
	if (box_bridge_open_clock(&bridge->clock) < 0 || write(tell, &pid, sizeof(pid)) < 0) {
		_exit(90);
	}
	_exit(box_bridge_run(bridge) < 0 ? 1 : 0);
}

static inline void start(uint32_t deadline_ms)
{
	int controls[2];
	int reports[2];
	int consoles[2];
	int mount_helpers[2];
	int tell[2];
	ASSERT(mkdtemp(folder));
	ASSERT_INT(atexit(remove_folder), 0);
	(void)snprintf(path, sizeof(path), "%s/s", folder);
	struct box_bridge bridge = {.socket_path = path, .deadline_ms = deadline_ms};
	ASSERT_INT(box_bridge_listen(path, &bridge.listener), 0);
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, controls), 0);
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, mount_helpers), 0);
	ASSERT_INT(pipe2(reports, O_CLOEXEC), 0);
	ASSERT_INT(pipe2(consoles, O_CLOEXEC), 0);
	ASSERT_INT(pipe2(tell, O_CLOEXEC), 0);
	ASSERT_INT(fcntl(consoles[0], F_SETFL, O_NONBLOCK), 0);
	bridge.control = controls[1];
	bridge.report = reports[1];
	bridge.console = consoles[0];
	bridge.mount_helper = mount_helpers[1];
	bridge_pid = fork();
	ASSERT(bridge_pid >= 0);
	if (bridge_pid == 0) {
		(void)close(controls[0]);
		(void)close(mount_helpers[0]);
		(void)close(consoles[1]);
		play_bridge(&bridge, tell[1]);
	}
	(void)close(controls[1]);
	(void)close(mount_helpers[1]);
	(void)close(reports[1]);
	(void)close(consoles[0]);
	(void)close(bridge.listener);
	ASSERT_INT(read(tell[0], &machine_pid, sizeof(machine_pid)), sizeof(machine_pid));
	control = controls[0];
	report = reports[0];
	console = consoles[1];
	mount_helper = mount_helpers[0];
}

/* How it ended: 0 after a ready report, else 1. */
static inline int ended(void)
{
	int status = 0;
	ASSERT_INT(waitpid(bridge_pid, &status, 0), bridge_pid);
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static inline int dial(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(fd >= 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		(void)close(fd);
		return -errno;
	}
	return fd;
}

static inline void hear_report(void)
{
	ASSERT_INT(read(report, &words, sizeof(words)), sizeof(words));
	char byte;
	ASSERT_INT(read(report, &byte, 1), 0);
}

static inline void say_report(uint32_t step, int32_t errnum)
{
	struct box_init_report said = {step, errnum};
	ASSERT_INT(send(stream, &said, sizeof(said), MSG_NOSIGNAL), sizeof(said));
}

/* --- the guest's side --- */

static inline void read_exactly(void *to, size_t size)
{
	for (size_t got = 0; got < size;) {
		struct pollfd fd = {.fd = stream, .events = POLLIN};
		ASSERT_INT(poll(&fd, 1, WAIT_MS), 1);
		ssize_t n = recv(stream, (char *)to + got, size - got, 0);
		ASSERT(n > 0);
		got += (size_t)n;
	}
}

static inline struct box_init_header read_packet(char *bytes)
{
	struct box_init_header header;
	read_exactly(&header, sizeof(header));
	ASSERT(header.size >= sizeof(header) && header.size <= BOX_INIT_PACKET_MAX);
	read_exactly(bytes, header.size - sizeof(header));
	return header;
}

/* A guest that has reported ready, and got the request for its clock. */
static inline uint64_t start_ready(void)
{
	struct box_microvm_clock clock;
	start(WAIT_MS);
	stream = dial();
	ASSERT(stream >= 0);
	say_report(0, 0);
	hear_report();
	ASSERT_INT(words.report.step, 0);
	ASSERT_STR(words.text, "");
	struct box_init_header header = read_packet((char *)&clock);
	ASSERT_INT(header.kind, BOX_MICROVM_CLOCK);
	ASSERT_INT(header.size, sizeof(header) + sizeof(clock));
	ASSERT(clock.token != 0);
	ASSERT_INT(clock.step_ns, 0);
	return clock.token;
}

static inline size_t make_packet(
	char *to, uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size), .kind = kind, .id = id};
	memcpy(to, &header, sizeof(header));
	if (size > 0) {
		memcpy(to + sizeof(header), bytes, size);
	}
	return header.size;
}

static inline void answer(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	static char packet[BOX_INIT_PACKET_MAX];
	size_t len = make_packet(packet, kind, id, bytes, size);
	ASSERT_INT(send(stream, packet, len, MSG_NOSIGNAL), len);
}

/* --- box-rpc's side --- */

static inline void ask(uint32_t kind, uint32_t id, const void *bytes, size_t size, int fd)
{
	static char packet[BOX_INIT_PACKET_MAX];
	size_t len = make_packet(packet, kind, id, bytes, size);
	struct iovec part = {packet, len};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} ancillary = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
			       .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS}};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof(fd));
		message.msg_control = ancillary.bytes;
		message.msg_controllen = sizeof(ancillary.bytes);
	}
	ASSERT_INT(sendmsg(control, &message, MSG_NOSIGNAL), len);
}

static inline ssize_t hear(char *bytes, size_t size)
{
	struct pollfd fd = {.fd = control, .events = POLLIN};
	ASSERT_INT(poll(&fd, 1, WAIT_MS), 1);
	return recv(control, bytes, size, 0);
}

static inline bool is_quiet(int fd, int wait_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	return poll(&poll_fd, 1, wait_ms) == 0;
}

static char bytes[BOX_INIT_PACKET_MAX];
static char packet[BOX_INIT_PACKET_MAX];

/* The last line that box-rpc receives. */
static inline const char *hear_last(void)
{
	struct box_init_header header;
	ssize_t size = hear(bytes, sizeof(bytes));
	ASSERT(size > (ssize_t)sizeof(header) && size < (ssize_t)sizeof(bytes));
	ASSERT_INT(box_init_check_answer(bytes, (size_t)size), 0);
	memcpy(&header, bytes, sizeof(header));
	ASSERT_INT(header.kind, BOX_INIT_BOX_ENDS);
	bytes[size] = '\0';
	char after;
	ASSERT_INT(hear(&after, 1), 0);
	return bytes + sizeof(header);
}
