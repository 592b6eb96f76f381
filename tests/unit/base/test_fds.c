/* Fds over a socket: as many as expected, never more, and unexpected ones are closed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fds.h"
#include "tests/unit/lib/test.h"

static int pair[2];

static void open_pair(void)
{
	ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
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

static void send_some(const char *text, size_t count)
{
	int fds[BOX_FDS_MAX];
	const struct iovec part = {(void *)(uintptr_t)text, strlen(text)};
	for (size_t i = 0; i < count; i++) {
		fds[i] = STDERR_FILENO;
	}
	ASSERT_INT(box_fds_send(pair[0], &part, 1, fds, count, 0), (long long)strlen(text));
}

TEST(fds_come_with_their_bytes)
{
	char bytes[8];
	int list[3] = {-1, -1, -1};
	struct box_fds fds = {.list = list, .max = 3};
	open_pair();
	send_some("abc", 3);
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, 0), 3);
	ASSERT_BYTES(bytes, 3, "abc", 3);
	ASSERT_INT(fds.count, 3);
	ASSERT(!fds.cut && !fds.table_full);
	for (int i = 0; i < 3; i++) {
		ASSERT_INT(fcntl(list[i], F_GETFD), FD_CLOEXEC);
	}
}

TEST(as_many_as_there_may_be)
{
	char bytes[8];
	int list[BOX_FDS_MAX];
	struct box_fds fds = {.list = list, .max = BOX_FDS_MAX};
	open_pair();
	send_some("x", BOX_FDS_MAX);
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, 0), 1);
	ASSERT_INT(fds.count, BOX_FDS_MAX);
	int more[BOX_FDS_MAX + 1] = {0};
	const struct iovec part = {bytes, 1};
	ASSERT_INT(box_fds_send(pair[0], &part, 1, more, BOX_FDS_MAX + 1, 0), -E2BIG);
}

/* One more fd than expected, and many more: fds without room are not even opened, and that is
 * reported. */
TEST(more_than_wanted_are_dropped_and_told)
{
	char bytes[8];
	open_pair();
	int before = open_count();
	for (size_t sent = 2; sent <= 9; sent++) {
		int fd = -1;
		struct box_fds fds = {.list = &fd, .max = 1};
		send_some("x", sent);
		ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, 0), 1);
		ASSERT_INT(fds.count, 1);
		ASSERT(fds.cut && !fds.table_full);
		ASSERT_INT(open_count(), before + 1);
		box_fds_close(&fds);
		ASSERT_INT(fd, -1);
		ASSERT_INT(open_count(), before);
	}
}

TEST(none_wanted_none_come)
{
	char bytes[8];
	struct box_fds fds = {0};
	open_pair();
	int before = open_count();
	send_some("x", 2);
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, 0), 1);
	ASSERT(fds.cut);
	ASSERT_INT(open_count(), before);
}

TEST(a_full_table_is_told_apart)
{
	char bytes[8];
	int list[4];
	struct box_fds fds = {.list = list, .max = 4};
	open_pair();
	send_some("x", 2);
	int last = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
	struct rlimit files;
	ASSERT(getrlimit(RLIMIT_NOFILE, &files) == 0);
	const struct rlimit few = {.rlim_cur = (rlim_t)last + 1, .rlim_max = files.rlim_max};
	ASSERT(setrlimit(RLIMIT_NOFILE, &few) == 0);
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, 0), 1);
	ASSERT(setrlimit(RLIMIT_NOFILE, &files) == 0);
	ASSERT(fds.cut && fds.table_full);
	ASSERT_INT(fds.count, 0);
}

TEST(longer_packets_are_told)
{
	char bytes[2];
	struct box_fds fds = {0};
	open_pair();
	send_some("abc", 0);
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, 0), 2);
	ASSERT(fds.cut && !fds.table_full);
}

TEST(nothing_there_and_the_end)
{
	char bytes[2];
	struct box_fds fds = {0};
	open_pair();
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, MSG_DONTWAIT), -EAGAIN);
	(void)close(pair[0]);
	ASSERT_INT(box_fds_receive(pair[1], bytes, sizeof(bytes), &fds, MSG_DONTWAIT), 0);
	/* SIGPIPE would end us here. */
	ASSERT_INT(box_fds_send_one(pair[1], "x", 1, -1, 0), -EPIPE);
}

TEST(one_packet_of_one_size)
{
	char bytes[3];
	int fd = 99;
	open_pair();
	int before = open_count();
	ASSERT_INT(box_fds_send_one(pair[0], "abc", 3, -1, 0), 0);
	ASSERT_INT(box_fds_receive_one(pair[1], bytes, sizeof(bytes), &fd, 0), 0);
	ASSERT_INT(fd, -1);
	ASSERT_INT(box_fds_send_one(pair[0], "abc", 3, STDERR_FILENO, 0), 0);
	ASSERT_INT(box_fds_receive_one(pair[1], bytes, sizeof(bytes), &fd, 0), 0);
	ASSERT(fd >= 0);
	(void)close(fd);
	/* Too short, too long, too many: no fd is kept, and nothing is written. */
	const char *const wrong[] = {"ab", "abcd"};
	for (size_t i = 0; i < 2; i++) {
		fd = 99;
		ASSERT_INT(box_fds_send_one(pair[0], wrong[i], 2 + 2 * i, STDERR_FILENO, 0), 0);
		ASSERT_INT(box_fds_receive_one(pair[1], bytes, sizeof(bytes), &fd, 0), -EMSGSIZE);
		ASSERT_INT(fd, 99);
	}
	send_some("abc", 2);
	ASSERT_INT(box_fds_receive_one(pair[1], bytes, sizeof(bytes), &fd, 0), -EMSGSIZE);
	ASSERT_INT(open_count(), before);
	(void)close(pair[0]);
	ASSERT_INT(box_fds_receive_one(pair[1], bytes, sizeof(bytes), &fd, 0), -EPIPE);
}

/* --- which fds stay open --- */

static void open_some(int *fds, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		ASSERT(fds[i] > STDERR_FILENO);
	}
}

TEST(only_named_fds_stay)
{
	int fds[6];
	open_some(fds, COUNT(fds));
	ASSERT_INT(box_fds_close_but(STDERR_FILENO + 1, (int[]){fds[4], fds[1]}, 2), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		ASSERT_INT(fcntl(fds[i], F_GETFD) >= 0, i == 1 || i == 4);
	}
	ASSERT(fcntl(STDERR_FILENO, F_GETFD) >= 0);
}

/* Neighbours, duplicates, one below the first, and none. */
TEST(fds_that_stay_in_any_order)
{
	int fds[8];
	open_some(fds, COUNT(fds));
	const int kept[] = {fds[3], -1, STDIN_FILENO, fds[2], fds[3], fds[7]};
	ASSERT_INT(box_fds_close_but((unsigned)fds[1], kept, COUNT(kept)), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		ASSERT_INT(fcntl(fds[i], F_GETFD) >= 0, i == 0 || i == 2 || i == 3 || i == 7);
	}
	ASSERT(fcntl(STDIN_FILENO, F_GETFD) >= 0 || errno == EBADF);
	ASSERT_INT(box_fds_close_but(STDERR_FILENO + 1, NULL, 0), 0);
	for (size_t i = 0; i < COUNT(fds); i++) {
		ASSERT_INT(fcntl(fds[i], F_GETFD), -1);
	}
}

TEST(even_the_standard_ones_are_closed)
{
	int fds[2];
	open_some(fds, COUNT(fds));
	ASSERT_INT(fcntl(fds[0], F_DUPFD_CLOEXEC, 1000), 1000);
	ASSERT_INT(box_fds_close_but(0, &fds[1], 1), 0);
	ASSERT_INT(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
	ASSERT_INT(fcntl(fds[0], F_GETFD), -1);
	ASSERT_INT(fcntl(1000, F_GETFD), -1);
	ASSERT_INT(fcntl(STDERR_FILENO, F_GETFD), -1);
}
