/* The bridge of a microVM box, between a box-rpc and a guest that are both played here: a guest that
 * behaves, and guests that do not. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "runtime/guest/machine.h"
#include "runtime/guest/wire_kept.h"
#include "runtime/vmm/bridge.h"
#include "runtime/vmm/listen.h"
#include "runtime/vmm/mounts.h"
#include "tests/unit/test.h"

#define WAIT_MS 10000

static char folder[] = "/tmp/test_bridge_XXXXXX";
static char path[64];
static pid_t bridge_pid;
static pid_t machine_pid;
static int control;
static int report;
static int console;
static int hanger;
static int stream = -1;
static struct box_machine_report words;

/* --- the stage --- */

static void remove_folder(void)
{
	(void)unlink(path);
	(void)rmdir(folder);
}

_Noreturn static void play_bridge(struct box_bridge *bridge, int tell)
{
	sigset_t set;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
	bridge->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
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

static void start(uint32_t deadline_ms)
{
	int controls[2];
	int reports[2];
	int consoles[2];
	int hangers[2];
	int tell[2];
	ASSERT(mkdtemp(folder));
	ASSERT_INT(atexit(remove_folder), 0);
	(void)snprintf(path, sizeof(path), "%s/s", folder);
	struct box_bridge bridge = {.socket_path = path, .deadline_ms = deadline_ms};
	ASSERT_INT(box_listen_at(path, &bridge.listener), 0);
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, controls), 0);
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, hangers), 0);
	ASSERT_INT(pipe2(reports, O_CLOEXEC), 0);
	ASSERT_INT(pipe2(consoles, O_CLOEXEC), 0);
	ASSERT_INT(pipe2(tell, O_CLOEXEC), 0);
	ASSERT_INT(fcntl(consoles[0], F_SETFL, O_NONBLOCK), 0);
	bridge.control = controls[1];
	bridge.report = reports[1];
	bridge.console = consoles[0];
	bridge.hanger = hangers[1];
	bridge_pid = fork();
	ASSERT(bridge_pid >= 0);
	if (bridge_pid == 0) {
		(void)close(controls[0]);
		(void)close(hangers[0]);
		(void)close(consoles[1]);
		play_bridge(&bridge, tell[1]);
	}
	(void)close(controls[1]);
	(void)close(hangers[1]);
	(void)close(reports[1]);
	(void)close(consoles[0]);
	(void)close(bridge.listener);
	ASSERT_INT(read(tell[0], &machine_pid, sizeof(machine_pid)), sizeof(machine_pid));
	control = controls[0];
	report = reports[0];
	console = consoles[1];
	hanger = hangers[0];
}

/* How it ended: 0 after a report that it is ready, else 1. */
static int ended(void)
{
	int status = 0;
	ASSERT_INT(waitpid(bridge_pid, &status, 0), bridge_pid);
	ASSERT(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int dial(void)
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

static void hear_report(void)
{
	ASSERT_INT(read(report, &words, sizeof(words)), sizeof(words));
	char byte;
	ASSERT_INT(read(report, &byte, 1), 0);
}

static void say_report(uint32_t step, int32_t errnum)
{
	struct box_guest_report said = {step, errnum};
	ASSERT_INT(send(stream, &said, sizeof(said), MSG_NOSIGNAL), sizeof(said));
}

/* --- the guest's side --- */

static void read_exactly(void *to, size_t size)
{
	for (size_t got = 0; got < size;) {
		struct pollfd fd = {.fd = stream, .events = POLLIN};
		ASSERT_INT(poll(&fd, 1, WAIT_MS), 1);
		ssize_t n = recv(stream, (char *)to + got, size - got, 0);
		ASSERT(n > 0);
		got += (size_t)n;
	}
}

static struct box_guest_header read_packet(char *bytes)
{
	struct box_guest_header header;
	read_exactly(&header, sizeof(header));
	ASSERT(header.size >= sizeof(header) && header.size <= BOX_GUEST_PACKET_MAX);
	read_exactly(bytes, header.size - sizeof(header));
	return header;
}

/* A guest that is up, and has been told the time. */
static void start_ready(void)
{
	struct box_machine_clock clock;
	start(WAIT_MS);
	stream = dial();
	ASSERT(stream >= 0);
	say_report(0, 0);
	hear_report();
	ASSERT_INT(words.report.step, 0);
	ASSERT_STR(words.text, "");
	struct box_guest_header header = read_packet((char *)&clock);
	ASSERT_INT(header.kind, BOX_MACHINE_CLOCK);
	ASSERT_INT(header.size, sizeof(header) + sizeof(clock));
	time_t there = (time_t)(clock.realtime_ns / 1000000000U);
	/* time() is a tick behind. */
	ASSERT(there <= time(NULL) + 1 && there >= time(NULL) - 5);
}

static size_t make_packet(char *to, uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	struct box_guest_header header = {
		.size = (uint32_t)(sizeof(header) + size), .kind = kind, .id = id};
	memcpy(to, &header, sizeof(header));
	if (size > 0) {
		memcpy(to + sizeof(header), bytes, size);
	}
	return header.size;
}

static void answer(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	static char packet[BOX_GUEST_PACKET_MAX];
	size_t len = make_packet(packet, kind, id, bytes, size);
	ASSERT_INT(send(stream, packet, len, MSG_NOSIGNAL), len);
}

/* --- box-rpc's side --- */

static void ask(uint32_t kind, uint32_t id, const void *bytes, size_t size, int fd)
{
	static char packet[BOX_GUEST_PACKET_MAX];
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

static ssize_t hear(char *bytes, size_t size)
{
	struct pollfd fd = {.fd = control, .events = POLLIN};
	ASSERT_INT(poll(&fd, 1, WAIT_MS), 1);
	return recv(control, bytes, size, 0);
}

static bool is_quiet(int fd, int wait_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
	return poll(&poll_fd, 1, wait_ms) == 0;
}

/* --- before the report --- */

TEST(a_guest_that_reports_byte_by_byte)
{
	start(WAIT_MS);
	stream = dial();
	struct box_guest_report said = {BOX_GUEST_BOOT_STDIO, ENOENT};
	for (size_t i = 0; i < sizeof(said); i++) {
		ASSERT_INT(send(stream, (char *)&said + i, 1, MSG_NOSIGNAL), 1);
		(void)usleep(2000);
	}
	hear_report();
	ASSERT_INT(words.report.step, BOX_GUEST_BOOT_STDIO);
	ASSERT_INT(words.report.errnum, ENOENT);
	ASSERT_INT(ended(), 1);
}

TEST(reports_that_make_no_sense)
{
	static const struct box_guest_report table[] = {{0, 1}, {0, -1}, {1, 1}, {64, 5}, {999, 1},
		{BOX_GUEST_BOOT_READ, 0}, {BOX_GUEST_BOOT_READ, -5}, {BOX_GUEST_BOOT_READ, 4096},
		{BOX_GUEST_BOOT_END_, 1}, {BOX_VMM_READ, 1}, {BOX_VMM_DEADLINE, ETIMEDOUT},
		{UINT32_MAX, INT32_MAX}};
	for (size_t i = 0; i < COUNT(table); i++) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
		start(WAIT_MS);
		stream = dial();
		say_report(table[i].step, table[i].errnum);
		hear_report();
		ASSERT_INT(words.report.step, BOX_VMM_ANSWER);
		ASSERT_INT(words.report.errnum, EBADMSG);
		ASSERT_INT(ended(), 1);
		remove_folder();
	}
}

TEST(a_guest_that_never_comes)
{
	start(300);
	ASSERT_INT(write(console, "Linux version\nall is lost\n", 26), 26);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_DEADLINE);
	ASSERT_INT(words.report.errnum, ETIMEDOUT);
	ASSERT_STR(words.text, "Linux version\nall is lost");
	ASSERT_INT(ended(), 1);
}

TEST(a_guest_that_comes_and_is_silent)
{
	start(300);
	stream = dial();
	ASSERT_INT(send(stream, "\0\0\0", 3, MSG_NOSIGNAL), 3);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_DEADLINE);
	ASSERT_INT(ended(), 1);
}

/* What it says meanwhile does not make it earlier or later. */
TEST(a_console_that_never_ends)
{
	start(500);
	char much[4096];
	memset(much, 'x', sizeof(much));
	(void)signal(SIGPIPE, SIG_IGN);
	time_t began = time(NULL);
	while (write(console, much, sizeof(much)) > 0) {
		ASSERT(time(NULL) - began < 20);
	}
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_DEADLINE);
	ASSERT_INT(strlen(words.text), BOX_MACHINE_TEXT_MAX - 1);
	ASSERT_INT(ended(), 1);
}

TEST(a_guest_that_comes_and_goes)
{
	start(WAIT_MS);
	stream = dial();
	ASSERT_INT(send(stream, "\0\0\0", 3, MSG_NOSIGNAL), 3);
	(void)close(stream);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_ANSWER);
	ASSERT_INT(ended(), 1);
}

TEST(a_machine_that_dies_early)
{
	start(WAIT_MS);
	ASSERT_INT(write(console, "libkrun: no\n", 12), 12);
	ASSERT_INT(kill(machine_pid, SIGKILL), 0);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_START);
	ASSERT_INT(words.report.errnum, ECHILD);
	ASSERT_STR(words.text, "libkrun: no");
	ASSERT_INT(ended(), 1);
}

TEST(a_box_that_nobody_wants_any_more)
{
	start(WAIT_MS);
	(void)close(control);
	ASSERT_INT(ended(), 1);
}

TEST(there_is_one_connection)
{
	start_ready();
	ASSERT_INT(dial(), -ENOENT);
	ASSERT_INT(access(path, F_OK), -1);
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* --- carrying --- */

static char bytes[BOX_GUEST_PACKET_MAX];
static char packet[BOX_GUEST_PACKET_MAX];

TEST(requests_go_down_in_their_order)
{
	start_ready();
	static char body[BOX_GUEST_BYTES_MAX];
	for (uint32_t i = 1; i <= 64; i++) {
		size_t size = i == 64 ? sizeof(body) : i * 37;
		memset(body, (int)i, size);
		ask(BOX_GUEST_INPUT, i, body, size, -1);
		if (i % 4 == 0) {
			for (uint32_t k = i - 3; k <= i; k++) {
				struct box_guest_header header = read_packet(bytes);
				ASSERT_INT(header.kind, BOX_GUEST_INPUT);
				ASSERT_INT(header.id, k);
				ASSERT_INT(bytes[0], (char)k);
				ASSERT_INT(bytes[header.size - sizeof(header) - 1], (char)k);
			}
		}
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Whatever the pieces are that the stream comes in. */
TEST(answers_come_up_whole)
{
	start_ready();
	static char all[8 * BOX_GUEST_PACKET_MAX];
	static const size_t sizes[] = {1, 100, BOX_GUEST_BYTES_MAX, 7, 60000, 60000, 60000, 3};
	size_t total = 0;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		memset(bytes, 'a' + (int)i, sizes[i]);
		total += make_packet(all + total, BOX_GUEST_STDOUT, 5, bytes, sizes[i]);
	}
	static const size_t pieces[] = {1, 15, 16, 17, 4096, 100000};
	for (size_t p = 0; p < COUNT(pieces); p++) {
		size_t heard = 0;
		size_t slow = 0; /* byte by byte only at the beginning: it takes long */
		for (size_t at = 0; at < total;) {
			size_t piece = pieces[p] < 100 && slow++ > 300 ? 5000 : pieces[p];
			piece = piece < total - at ? piece : total - at;
			ssize_t sent = send(stream, all + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
			at += sent > 0 ? (size_t)sent : 0;
			while (!is_quiet(control, 0)) {
				ASSERT_INT(hear(packet, sizeof(packet)), sizes[heard] + 16);
				ASSERT_INT(packet[16], 'a' + (char)heard);
				ASSERT_INT(packet[sizes[heard] + 15], 'a' + (char)heard);
				heard++;
			}
		}
		for (; heard < COUNT(sizes); heard++) {
			ASSERT_INT(hear(packet, sizeof(packet)), sizes[heard] + 16);
		}
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Resident memory of the bridge, in KiB. */
static long resident_kib(void)
{
	char name[64];
	long pages = 0;
	(void)snprintf(name, sizeof(name), "/proc/%d/statm", bridge_pid);
	FILE *from = fopen(name, "re");
	ASSERT(from && fscanf(from, "%*d %ld", &pages) == 1);
	(void)fclose(from);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A guest that says more than box-rpc takes waits; nothing is lost, and nothing piles up. */
TEST(a_guest_that_says_too_much)
{
	start_ready();
	ASSERT_INT(fcntl(stream, F_SETFL, O_NONBLOCK), 0);
	memset(bytes, 'x', sizeof(bytes));
	size_t len = make_packet(packet, BOX_GUEST_STDOUT, 5, bytes, BOX_GUEST_BYTES_MAX);
	long before_kib = resident_kib();
	size_t sent = 0;
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(stream, packet + sent % len, len - sent % len, MSG_NOSIGNAL);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		ASSERT(sent < 64U * 1024 * 1024);
		if (n < 0) {
			(void)usleep(10000);
		}
	}
	ASSERT(resident_kib() < before_kib + 1024);
	size_t heard = 0;
	while (heard + len <= sent) {
		ASSERT_INT(hear(bytes, sizeof(bytes)), len);
		ASSERT(memcmp(bytes, packet, len) == 0);
		heard += len;
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* A guest that reads nothing stops box-rpc, and nobody else. */
TEST(a_guest_that_reads_nothing)
{
	start_ready();
	ASSERT_INT(fcntl(control, F_SETFL, O_NONBLOCK), 0);
	size_t len = make_packet(packet, BOX_GUEST_INPUT, 5, bytes, BOX_GUEST_BYTES_MAX);
	size_t sent = 0;
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(control, packet, len, MSG_NOSIGNAL);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0;
		ASSERT(sent < 1024);
		if (n < 0) {
			(void)usleep(10000);
		}
	}
	answer(BOX_GUEST_STDOUT, 5, "up", 2);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 18);
	for (; sent > 0; sent--) {
		ASSERT_INT(read_packet(bytes).size, len);
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Each ends the box, and box-rpc hears nothing of it. */
TEST(nonsense_ends_the_box)
{
	static const struct {
		struct box_guest_header header;
		char bytes[32];
	} table[] = {
		{{0, BOX_GUEST_STDOUT, 1, 0}, "size 0"},
		{{15, BOX_GUEST_STDOUT, 1, 0}, "less than a header"},
		{{BOX_GUEST_PACKET_MAX + 1, BOX_GUEST_STDOUT, 1, 0}, "too long"},
		{{UINT32_MAX, BOX_GUEST_STDOUT, 1, 0}, "endless"},
		{{48, 0, 1, 0}, "no kind"},
		{{48, BOX_GUEST_RUN, 1, 0}, "box-rpc's kind"},
		{{24, BOX_MACHINE_CLOCK, 0, 0}, "ours"},
		{{48, BOX_GUEST_STDOUT, 0, 0}, "no id"},
		{{48, BOX_GUEST_STDOUT, 1, 1}, "a number"},
		{{16, BOX_GUEST_STDOUT, 1, 0}, "no bytes"},
		{{48, BOX_GUEST_EXIT, 1, 0}, "a short end"},
		{{48, BOX_GUEST_RESET_DONE, 0, 0}, "bytes"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
		start_ready();
		answer(BOX_GUEST_STDOUT, 7, "good", 4);
		ASSERT_INT(hear(bytes, sizeof(bytes)), 20);
		ASSERT_INT(
			send(stream, &table[i], sizeof(table[i]), MSG_NOSIGNAL), sizeof(table[i]));
		if (hear(bytes, sizeof(bytes)) != 0) {
			TEST_FAIL("it was passed on: %s", table[i].bytes);
		}
		ASSERT_INT(ended(), 0);
		(void)close(stream);
		(void)close(control);
		remove_folder();
	}
}

TEST(what_box_rpc_must_not_send)
{
	static const struct box_guest_header table[] = {
		{17, BOX_GUEST_INPUT, 1, 0},
		{UINT32_MAX, BOX_GUEST_INPUT, 1, 0},
		{16, BOX_MACHINE_CLOCK, 0, 0},
		{16, BOX_GUEST_EXIT, 1, 0},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
		start_ready();
		ASSERT_INT(
			send(control, &table[i], sizeof(table[i]), MSG_NOSIGNAL), sizeof(table[i]));
		char byte;
		ASSERT_INT(recv(stream, &byte, 1, 0), 0);
		ASSERT_INT(ended(), 0);
		remove_folder();
	}
	(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
	start_ready();
	ask(BOX_GUEST_INPUT, 1, "x", 1, STDERR_FILENO);
	ASSERT_INT(ended(), 0);
}

/* --- ends --- */

TEST(the_end_of_the_guest)
{
	start_ready();
	answer(BOX_GUEST_STDOUT, 7, "last words", 10);
	(void)close(stream);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 26);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 0);
	ASSERT_INT(ended(), 0);
}

TEST(the_end_of_the_machine)
{
	start_ready();
	ASSERT_INT(kill(machine_pid, SIGKILL), 0);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 0);
	ASSERT_INT(ended(), 0);
}

TEST(the_end_of_who_mounts)
{
	start_ready();
	(void)close(hanger);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 0);
	ASSERT_INT(ended(), 0);
}

/* While its guest reads nothing, and while box-rpc does not. */
TEST(the_end_of_box_rpc)
{
	start_ready();
	ASSERT_INT(fcntl(control, F_SETFL, O_NONBLOCK), 0);
	size_t len = make_packet(packet, BOX_GUEST_INPUT, 5, bytes, BOX_GUEST_BYTES_MAX);
	for (int idle = 0; idle < 5;) {
		idle += send(control, packet, len, MSG_NOSIGNAL) < 0;
		(void)usleep(1000);
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Processor time of the bridge, in ticks. */
static long ticks(void)
{
	char name[64];
	long user = 0;
	long system_ticks = 0;
	(void)snprintf(name, sizeof(name), "/proc/%d/stat", bridge_pid);
	FILE *from = fopen(name, "re");
	ASSERT(from &&
		fscanf(from, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld", &user,
			&system_ticks) == 2);
	(void)fclose(from);
	return user + system_ticks;
}

/* A guest that is gone while its last words wait for box-rpc: nobody spins. */
TEST(a_dead_guest_costs_nothing)
{
	start_ready();
	ASSERT_INT(fcntl(stream, F_SETFL, O_NONBLOCK), 0);
	size_t len = make_packet(packet, BOX_GUEST_STDOUT, 5, bytes, BOX_GUEST_BYTES_MAX);
	size_t sent = 0;
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(stream, packet + sent % len, len - sent % len, MSG_NOSIGNAL);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		(void)usleep(n < 0 ? 5000 : 0);
	}
	(void)close(stream);
	long before = ticks();
	(void)usleep(1000000);
	ASSERT(ticks() - before < 20);
	while (hear(bytes, sizeof(bytes)) > 0) {
	}
	ASSERT_INT(ended(), 0);
}

/* --- mounts --- */

struct wish {
	uint32_t wish; /* 1: hang, 2: take */
	uint32_t number;
};

static struct wish hear_wish(void)
{
	struct wish wish;
	struct pollfd fd = {.fd = hanger, .events = POLLIN};
	ASSERT_INT(poll(&fd, 1, WAIT_MS), 1);
	ASSERT_INT(recv(hanger, &wish, sizeof(wish), 0), sizeof(wish));
	return wish;
}

static void say_hung(uint32_t errnum)
{
	ASSERT_INT(send(hanger, &errnum, sizeof(errnum), MSG_NOSIGNAL), sizeof(errnum));
}

static void ask_mount(uint32_t id)
{
	ask(BOX_GUEST_MOUNT, id, "/m", sizeof("/m"), STDERR_FILENO);
}

static void exit_of(uint32_t id)
{
	struct box_guest_exit end = {0};
	answer(BOX_GUEST_EXIT, id, &end, sizeof(end));
	ASSERT(hear(bytes, sizeof(bytes)) > 0);
}

TEST(mounts_hang_before_the_guest_hears_of_them)
{
	start_ready();
	ask_mount(9);
	ask(BOX_GUEST_INPUT, 9, "x", 1, -1);
	struct wish wish = hear_wish();
	ASSERT_INT(wish.wish, 1);
	ASSERT_INT(wish.number, 1);
	ASSERT(is_quiet(stream, 100));
	/* Answers go on meanwhile. */
	answer(BOX_GUEST_STDOUT, 3, "up", 2);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 18);
	say_hung(0);
	struct box_guest_header header = read_packet(bytes);
	ASSERT_INT(header.kind, BOX_GUEST_MOUNT);
	ASSERT_INT(header.reserved, 1);
	ASSERT_STR(bytes, "/m");
	ASSERT_INT(read_packet(bytes).kind, BOX_GUEST_INPUT);
	/* One that cannot be hung has its number all the same, under which nothing is. */
	ask_mount(9);
	ASSERT_INT(hear_wish().number, 2);
	say_hung(EPERM);
	ASSERT_INT(read_packet(bytes).reserved, 2);
	/* They go with their command. */
	exit_of(8);
	ASSERT(is_quiet(hanger, 50));
	exit_of(9);
	uint32_t sum = 0;
	for (int i = 0; i < 2; i++) {
		wish = hear_wish();
		ASSERT_INT(wish.wish, 2);
		sum += wish.number;
	}
	ASSERT_INT(sum, 1 + 2);
	ASSERT(is_quiet(hanger, 50));
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

TEST(mounts_without_an_fd)
{
	start_ready();
	ask(BOX_GUEST_MOUNT, 9, "/m", sizeof("/m"), -1);
	ASSERT_INT(read_packet(bytes).reserved, BOX_MOUNTS_NONE);
	ASSERT(is_quiet(hanger, 50));
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* RESET ends the commands that there are; those that come after it are others. */
TEST(mounts_go_with_a_reset)
{
	start_ready();
	answer(BOX_GUEST_RESET_DONE, 0, NULL, 0); /* that nobody asked for */
	ASSERT_INT(hear(bytes, sizeof(bytes)), 16);
	ask_mount(4);
	ASSERT_INT(hear_wish().number, 1);
	say_hung(0);
	ask(BOX_GUEST_RESET, 0, NULL, 0, -1);
	ask_mount(5);
	ASSERT_INT(hear_wish().number, 2);
	say_hung(0);
	for (int i = 0; i < 3; i++) {
		(void)read_packet(bytes);
	}
	ASSERT(is_quiet(hanger, 50));
	answer(BOX_GUEST_RESET_DONE, 0, NULL, 0);
	struct wish wish = hear_wish();
	ASSERT_INT(wish.wish, 2);
	ASSERT_INT(wish.number, 1);
	ASSERT(is_quiet(hanger, 50));
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* KEEP_IN has a number of box-rpc's own: it goes through as it is. */
TEST(numbers_of_groups)
{
	start_ready();
	struct box_guest_header header = {
		.size = sizeof(header), .kind = BOX_GUEST_KEEP_IN, .id = 3, .reserved = 64};
	ASSERT_INT(send(control, &header, sizeof(header), MSG_NOSIGNAL), sizeof(header));
	ASSERT_INT(read_packet(bytes).reserved, 64);
	(void)close(control);
	ASSERT_INT(ended(), 0);
}
