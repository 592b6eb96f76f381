/* Packets between boxd and box-rpc with more fds than there is room for, on either side; and the
 * reports of a box's first process. */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "boxd/box/first_process.h"
#include "protocol/init.h"
#include "protocol/packet.h"
#include "tests/unit/lib/test.h"

#define TAKEN 64
#define PLENTY 64 /* sanitizers open files at the end */

static int pair[2];

/* All fds below TAKEN are in use. */
static void open_pair(void)
{
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	int fd;
	do {
		fd = fcntl(pair[0], F_DUPFD_CLOEXEC, 0);
		ASSERT(fd >= 0);
	} while (fd < TAKEN);
	ASSERT_INT(close(fd), 0);
}

static void send_fds(size_t count)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(100 * sizeof(int))];
	} control = {0};
	struct box_boxd_plain packet = {.kind = BOX_BOXD_STATE};
	struct iovec part = {.iov_base = &packet, .iov_len = sizeof(packet)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = CMSG_SPACE(count * sizeof(int))};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(count * sizeof(int));
	for (size_t i = 0; i < count; i++) {
		int fd = STDERR_FILENO;
		memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(fd));
	}
	ASSERT_INT(sendmsg(pair[0], &message, 0), sizeof(packet));
}

/* From now on so many fds are free. */
static void leave_room(rlim_t count)
{
	struct rlimit limit;
	ASSERT_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = TAKEN + count;
	ASSERT_INT(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(fds_that_fit)
{
	struct box_packet packet;
	open_pair();
	leave_room(BOX_PACKET_FDS_MAX);
	send_fds(BOX_PACKET_FDS_MAX);
	ASSERT_INT(box_packet_recv(pair[1], &packet), 0);
	ASSERT_INT(packet.fd_count, BOX_PACKET_FDS_MAX);
	box_packet_close_fds(&packet);
	leave_room(PLENTY);
}

TEST(more_fds_than_a_packet_may_have)
{
	struct box_packet packet;
	open_pair();
	leave_room(BOX_PACKET_FDS_MAX);
	send_fds(BOX_PACKET_FDS_MAX + 1);
	ASSERT_INT(box_packet_recv(pair[1], &packet), -EMSGSIZE);
	send_fds(100);
	ASSERT_INT(box_packet_recv(pair[1], &packet), -EMSGSIZE);
	leave_room(PLENTY);
}

TEST(more_fds_than_we_may_have)
{
	struct box_packet packet;
	open_pair();
	leave_room(0);
	send_fds(1);
	ASSERT_INT(box_packet_recv(pair[1], &packet), -EMFILE);
	leave_room(3);
	send_fds(4);
	ASSERT_INT(box_packet_recv(pair[1], &packet), -EMFILE);
	/* None of the three stays open. */
	send_fds(3);
	ASSERT_INT(box_packet_recv(pair[1], &packet), 0);
	ASSERT_INT(packet.fd_count, 3);
	leave_room(PLENTY);
}

TEST(reports)
{
	static const struct {
		struct box_init_report report;
		const char *text; /* NULL: it is ready */
	} rows[] = {
		{{.step = 0}, NULL},
		{{.step = 4, .errnum = EBUSY},
			"the box cannot be made: enter the cgroup: Device or resource busy"},
		{{.step = 4, .errnum = EAGAIN},
			"the box cannot be made: enter the cgroup: Resource temporarily "
			"unavailable"},
		{{.step = 5, .errnum = -3},
			"the box cannot be made: wait for boxd: Protocol error"},
		{{.step = 63, .errnum = EPERM},
			"the box cannot be made: box-init: an unknown step: Operation not "
			"permitted"},
	};
	static struct box_plan_request ask;
	static struct box_plan plan = {.ask = &ask};
	struct box_err err;
	int ends[2];
	ASSERT_INT(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_first_process_read_report(ends[0], &plan, &err), 0);
		ASSERT_INT(write(ends[1], &rows[i].report, sizeof(rows[i].report)),
			sizeof(rows[i].report));
		int r = box_first_process_read_report(ends[0], &plan, &err);
		ASSERT_INT(r > 0, rows[i].text == NULL);
		if (rows[i].text) {
			ASSERT(r < 0);
			ASSERT_STR(err.text, rows[i].text);
		}
	}
	ASSERT_INT(write(ends[1], "short", 5), 5);
	ASSERT_INT(box_first_process_read_report(ends[0], &plan, &err), -ECHILD);
	ASSERT_INT(close(ends[1]), 0);
	ASSERT_INT(box_first_process_read_report(ends[0], &plan, &err), -ECHILD);
	ASSERT_STR(err.text,
		"the box cannot be made: it ended before it was ready: No child processes");
}
