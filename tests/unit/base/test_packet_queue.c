/* Packets with fds that wait for a socket: their order, their fds, and the limit of the queue. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/packet_queue.h"
#include "tests/unit/lib/test.h"

static struct box_packet_queue queue;
static int pair[2];

static void open_queue(size_t count_max, size_t size_bytes_max)
{
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	box_packet_queue_init(&queue, count_max, size_bytes_max);
}

static int open_count(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/fd");
	ASSERT(folder);
	while (readdir(folder)) {
		count++;
	}
	(void)closedir(folder);
	return count;
}

/* A packet with a number and a text, and so many fds of /dev/null. */
static int send_number(uint32_t number, const char *text, size_t fd_count)
{
	int fds[4] = {-1, -1, -1, -1};
	const struct iovec parts[] = {
		{&number, sizeof(number)}, {NULL, 0}, {(void *)(uintptr_t)text, strlen(text)}};
	ASSERT(fd_count <= COUNT(fds));
	for (size_t i = 0; i < fd_count; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ASSERT(fds[i] >= 0);
	}
	int r = box_packet_queue_send(&queue, pair[0], parts, COUNT(parts), fds, fd_count);
	for (size_t i = 0; i < fd_count; i++) {
		ASSERT_INT(close(fds[i]), 0); /* they are still ours */
	}
	return r;
}

static int send_taking(uint32_t number, int fd)
{
	const struct iovec part = {&number, sizeof(number)};
	return box_packet_queue_send_taking_fd(&queue, pair[0], &part, 1, fd);
}

/* -1: no packet has arrived. */
static int64_t receive_number(const char *text, size_t fd_count)
{
	uint32_t number;
	char bytes[sizeof(number) + 64];
	int list[4];
	struct box_fds fds = {.list = list, .max = COUNT(list)};
	ssize_t got = box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, MSG_DONTWAIT);
	if (got == -EAGAIN) {
		return -1;
	}
	ASSERT(got >= (ssize_t)sizeof(number));
	memcpy(&number, bytes, sizeof(number));
	ASSERT_BYTES(bytes + sizeof(number), got - (ssize_t)sizeof(number), text, strlen(text));
	ASSERT_INT(fds.count, fd_count);
	for (size_t i = 0; i < fds.count; i++) {
		ASSERT_INT(fcntl(list[i], F_GETFD), FD_CLOEXEC);
	}
	box_fds_close(&fds);
	return number;
}

static uint32_t fill_socket(void)
{
	uint32_t number = 0;
	while (queue.count == 0) {
		ASSERT_INT(send_number(number++, "text", 0), 0);
		ASSERT(number < 100000);
	}
	return number;
}

TEST(sent_at_once_where_the_socket_takes_it)
{
	open_queue(1, 1);
	ASSERT_INT(send_number(7, "text", 3), 0);
	ASSERT_INT(queue.count, 0);
	ASSERT_INT(receive_number("text", 3), 7);
	ASSERT_INT(send_number(8, "", 0), 0);
	ASSERT_INT(receive_number("", 0), 8);
	ASSERT_INT(box_packet_queue_flush(&queue, pair[0]), 0);
}

TEST(what_waits_keeps_its_order_and_its_fds)
{
	open_queue(SIZE_MAX, SIZE_MAX);
	uint32_t number = fill_socket();
	int before = open_count();
	static const char *const texts[] = {"", "a", "ab", "abc", "abcd", "abcde"};
	for (uint32_t i = 0; i < COUNT(texts); i++) {
		ASSERT_INT(send_number(number + i, texts[i], i % 4), 0);
	}
	ASSERT_INT(open_count(), before + 0 + 1 + 2 + 3 + 0 + 1);
	/* The socket has no room yet. */
	ASSERT_INT(box_packet_queue_flush(&queue, pair[0]), 0);
	ASSERT_INT(queue.count, COUNT(texts) + 1);
	for (uint32_t i = 0; i < number; i++) {
		ASSERT_INT(receive_number("text", 0), i);
		ASSERT_INT(box_packet_queue_flush(&queue, pair[0]), 0);
	}
	ASSERT_INT(queue.count, 0);
	ASSERT_INT(queue.size_bytes, 0);
	for (uint32_t i = 0; i < COUNT(texts); i++) {
		ASSERT_INT(receive_number(texts[i], i % 4), number + i);
	}
	ASSERT_INT(receive_number("", 0), -1);
	ASSERT_INT(open_count(), before);
}

/* A later packet does not overtake queued ones, although there is room by now. */
TEST(nothing_overtakes)
{
	open_queue(SIZE_MAX, SIZE_MAX);
	uint32_t number = fill_socket();
	for (uint32_t i = 0; i + 1 < number; i++) {
		ASSERT_INT(receive_number("text", 0), i);
	}
	ASSERT_INT(send_number(number, "last", 0), 0);
	ASSERT_INT(queue.count, 2);
	ASSERT_INT(receive_number("", 0), -1);
	ASSERT_INT(box_packet_queue_flush(&queue, pair[0]), 0);
	ASSERT_INT(receive_number("text", 0), number - 1);
	ASSERT_INT(receive_number("last", 0), number);
}

TEST(a_taken_fd_is_closed_in_the_end)
{
	open_queue(SIZE_MAX, SIZE_MAX);
	int before = open_count();
	ASSERT_INT(send_taking(1, open("/dev/null", O_RDONLY | O_CLOEXEC)), 0);
	ASSERT_INT(open_count(), before);
	ASSERT_INT(receive_number("", 1), 1);
	uint32_t number = fill_socket();
	ASSERT_INT(send_taking(2, open("/dev/null", O_RDONLY | O_CLOEXEC)), 0);
	ASSERT_INT(send_taking(3, -1), 0);
	ASSERT_INT(open_count(), before + 1);
	for (uint32_t i = 0; i < number; i++) {
		ASSERT_INT(receive_number("text", 0), i);
		ASSERT_INT(box_packet_queue_flush(&queue, pair[0]), 0);
	}
	ASSERT_INT(open_count(), before);
	ASSERT_INT(receive_number("", 1), 2);
	ASSERT_INT(receive_number("", 0), 3);
}

TEST(so_many_packets)
{
	open_queue(3, SIZE_MAX);
	(void)fill_socket();
	int before = open_count();
	ASSERT_INT(send_number(0, "", 1), 0);
	ASSERT_INT(send_number(0, "", 1), 0);
	ASSERT_INT(queue.count, 3);
	ASSERT_INT(send_number(0, "", 1), -ENOBUFS);
	ASSERT_INT(send_taking(0, open("/dev/null", O_RDONLY | O_CLOEXEC)), -ENOBUFS);
	ASSERT_INT(queue.count, 3);
	ASSERT_INT(open_count(), before + 2);
	box_packet_queue_clear(&queue);
	ASSERT_INT(queue.count, 0);
	ASSERT_INT(queue.size_bytes, 0);
	ASSERT_INT(open_count(), before);
}

/* The packet that crosses the limit is accepted, the next one is not. */
TEST(so_many_bytes)
{
	open_queue(SIZE_MAX, 0);
	(void)fill_socket();
	ASSERT(queue.size_bytes >= 8);
	ASSERT_INT(send_number(0, "", 0), -ENOBUFS);
	queue.size_bytes_max = queue.size_bytes;
	ASSERT_INT(send_number(0, "", 0), 0);
	ASSERT_INT(send_number(0, "", 0), -ENOBUFS);
	box_packet_queue_clear(&queue);
	ASSERT_INT(queue.size_bytes, 0);
}

TEST(the_other_side_is_gone)
{
	open_queue(SIZE_MAX, SIZE_MAX);
	(void)fill_socket();
	int before = open_count();
	ASSERT_INT(send_number(0, "", 2), 0);
	ASSERT_INT(close(pair[1]), 0);
	/* Nothing is queued forever, and no fd stays open. */
	ASSERT_INT(box_packet_queue_flush(&queue, pair[0]), -EPIPE);
	ASSERT_INT(queue.count, 0);
	ASSERT_INT(open_count(), before - 1);
	ASSERT_INT(send_number(0, "", 1), -EPIPE);
	ASSERT_INT(send_taking(0, open("/dev/null", O_RDONLY | O_CLOEXEC)), -EPIPE);
	ASSERT_INT(queue.count, 0);
	ASSERT_INT(open_count(), before - 1);
}

/* Duplicating an fd can fail: then the packet is not kept. */
TEST(an_fd_that_cannot_be_copied)
{
	uint32_t number = 5;
	const int fds[] = {STDERR_FILENO, -1};
	const struct iovec part = {&number, sizeof(number)};
	open_queue(SIZE_MAX, SIZE_MAX);
	(void)fill_socket();
	int before = open_count();
	ASSERT_INT(box_packet_queue_send(&queue, pair[0], &part, 1, fds, COUNT(fds)), -EBADF);
	ASSERT_INT(queue.count, 1);
	ASSERT_INT(open_count(), before);
	box_packet_queue_clear(&queue);
}
