/* box-init over a stream socket, as in a microVM: requests split anywhere, numbers in place of fds,
 * and a hang-up on malformed packets. */
#define CHILD_SOCKET SOCK_STREAM
#include "protocol/init_process.h"
#include "protocol/microvm.h"
#include "tests/unit/lib/init_fixture.h"

static char packet[BOX_INIT_PACKET_MAX + 1];

static size_t make_packet(struct box_init_header header, const void *bytes, size_t size)
{
	header.size = (uint32_t)(sizeof(header) + size);
	memcpy(packet, &header, sizeof(header));
	if (size > 0) {
		memcpy(packet + sizeof(header), bytes, size);
	}
	return header.size;
}

/* A RUN packet with a text for the shell. */
static size_t make_run(uint32_t id, const char *text, uint32_t mounts)
{
	struct {
		struct box_init_run run;
		char body[256];
	} bytes = {.run = {.workdir_size = 2,
			   .mount_count = mounts,
			   .output_limit = OUTPUT_MAX,
			   .credit = UINT64_MAX}};
	size_t len = strlen(text);
	memcpy(bytes.body, "/", 2);
	memcpy(bytes.body + 2, text, len);
	bytes.run.command_size = (uint32_t)len;
	return make_packet((struct box_init_header){.kind = BOX_INIT_RUN, .id = id}, &bytes,
		sizeof(bytes.run) + 2 + len);
}

static void put(const struct child *child, const char *bytes, size_t size)
{
	while (size > 0) {
		ssize_t sent = send(child->control, bytes, size, MSG_NOSIGNAL);
		ASSERT(sent > 0);
		bytes += sent;
		size -= (size_t)sent;
	}
}

/* box-init ends by itself, without sending anything. */
static void expect_end(struct child *child)
{
	struct pollfd fd = {.fd = child->control, .events = POLLIN};
	char byte;
	ASSERT_INT(poll(&fd, 1, CHILD_WAIT_MS), 1);
	ASSERT(recv(child->control, &byte, 1, 0) <= 0);
	stop_child(child);
}

TEST(how_much_is_missing)
{
	struct box_init_header header = {.size = 20, .kind = BOX_INIT_CREDIT, .id = 1};
	for (size_t have = 0; have < sizeof(header); have++) {
		ASSERT_INT(box_init_frame_missing(&header, have), sizeof(header) - have);
	}
	for (size_t have = sizeof(header); have <= header.size; have++) {
		ASSERT_INT(box_init_frame_missing(&header, have), header.size - have);
	}
	ASSERT_INT(box_init_frame_missing(&header, 21), -EBADMSG);
	static const struct {
		uint32_t size;
		int missing;
	} table[] = {{0, -EBADMSG}, {15, -EBADMSG}, {16, 0}, {17, 1},
		{BOX_INIT_PACKET_MAX, BOX_INIT_BYTES_MAX}, {BOX_INIT_PACKET_MAX + 1, -EBADMSG},
		{UINT32_MAX, -EBADMSG}};
	for (size_t i = 0; i < COUNT(table); i++) {
		header.size = table[i].size;
		ASSERT_INT(box_init_frame_missing(&header, sizeof(header)), table[i].missing);
	}
}

TEST(split_at_every_byte)
{
	struct child child;
	start_child(&child);
	size_t size = make_run(1, "echo hello", 0);
	for (size_t at = 1; at < size; at++) {
		forget(1);
		put(&child, packet, at);
		/* Wait, so that it reads the first piece alone. */
		(void)usleep(500);
		put(&child, packet + at, size - at);
		ASSERT_OUT(collect(&child, 1), "hello\n");
	}
	stop_child(&child);
}

TEST(byte_by_byte_and_many_at_once)
{
	struct child child;
	start_child(&child);
	size_t size = make_run(1, "echo one", 0);
	for (size_t i = 0; i < size; i++) {
		put(&child, packet + i, 1);
	}
	ASSERT_OUT(collect(&child, 1), "one\n");
	static char many[64 * 512];
	size_t have = 0;
	for (uint32_t id = 2; id < 42; id++) {
		/* A text gets its NUL in place: the bytes after it must be preserved. */
		size = make_run(id, "echo many", 0);
		ASSERT(have + size <= sizeof(many));
		memcpy(many + have, packet, size);
		have += size;
	}
	put(&child, many, have);
	for (uint32_t id = 2; id < 42; id++) {
		ASSERT_OUT(collect(&child, id), "many\n");
	}
	stop_child(&child);
}

/* A large body, and a large output: both in many packets that fill the socket. */
TEST(much_both_ways)
{
	struct child child;
	start_child(&child);
	static const char end[] = "\nhead -c 4000000 /dev/zero";
	const size_t before = 1024UL * 1024;
	char *text = calloc(1, before + sizeof(end));
	ASSERT(text);
	memset(text, '#', before);
	memcpy(text + before, end, sizeof(end));
	const struct outcome *outcome = run_one(&child, 1, (struct asked){.command = text});
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(outcome->out_len, 4000000);
	free(text);
	stop_child(&child);
}

/* A packet that is partly sent is completed, also when a reset arrives. */
TEST(reset_in_the_middle_of_an_answer)
{
	struct child child;
	start_child(&child);
	ask(&child, 1, (struct asked){.command = "head -c 8000000 /dev/zero; echo end"});
	(void)usleep(300000); /* the socket is full */
	size_t size = make_packet((struct box_init_header){.kind = BOX_INIT_RESET}, NULL, 0);
	put(&child, packet, size);
	while (!reset_done) {
		ASSERT(receive(&child, CHILD_WAIT_MS));
	}
	forget(1);
	ASSERT_OUT(run_one(&child, 2, (struct asked){.command = "echo new"}), "new\n");
	stop_child(&child);
}

TEST(malformed_requests_are_answered)
{
	struct child child;
	start_child(&child);
	struct box_init_run run = {.flags = UINT32_MAX};
	put(&child, packet,
		make_packet((struct box_init_header){.kind = BOX_INIT_RUN, .id = 1}, &run,
			sizeof(run)));
	const struct outcome *outcome = collect(&child, 1);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EBADMSG);
	/* A number where none belongs. */
	size_t size = make_run(2, "echo no", 0);
	memcpy(packet + offsetof(struct box_init_header, reserved), &(uint32_t){7}, 4);
	put(&child, packet, size);
	outcome = collect(&child, 2);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EBADMSG);
	ASSERT_OUT(run_one(&child, 3, (struct asked){.command = "echo yes"}), "yes\n");
	stop_child(&child);
}

/* Without a privileged helper, a number in place of an fd cannot be resolved; the request fails
 * with an error. */
TEST(numbers_that_stand_for_nothing)
{
	struct child child;
	start_child(&child);
	struct box_init_header mount = {.kind = BOX_INIT_MOUNT, .id = 1, .reserved = 7};
	put(&child, packet, make_packet(mount, "/m", 3));
	put(&child, packet, make_run(1, "echo no", 1));
	const struct outcome *outcome = collect(&child, 1);
	ASSERT_END(outcome, BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_REQUEST);

	struct {
		struct box_init_start_process keep;
		char body[2 + 10];
	} keep = {{.workdir_size = 2, .command_size = 10}, "/\0/bin/true"};
	struct box_init_header in = {.kind = BOX_INIT_START_PROCESS_IN, .id = 900, .reserved = 64};
	put(&child, packet, make_packet(in, &keep, sizeof(keep)));
	struct box_init_process_state state;
	size_t size = receive_packet(&child, packet);
	ASSERT_INT(box_init_check_answer(packet, size), 0);
	memcpy(&state, packet + sizeof(in), sizeof(state));
	ASSERT_INT(state.phase, BOX_INIT_PROCESS_ENDED);
	ASSERT_INT(state.end, BOX_INIT_END_FAILED);
	ASSERT_INT(state.step, BOX_INIT_STEP_CGROUP);
	ASSERT_INT(state.value, ENOTCONN);
	stop_child(&child);
}

TEST(clocks)
{
	struct child child;
	start_child(&child);
	struct timespec now;
	struct box_microvm_clock clock = {.token = 4711};
	struct box_init_header header = {.kind = BOX_MICROVM_CLOCK};
	put(&child, packet, make_packet(header, &clock, sizeof(clock)));
	struct {
		struct box_init_header header;
		struct box_microvm_time time;
	} said;
	ASSERT_INT(recv(child.control, &said, sizeof(said), MSG_WAITALL), sizeof(said));
	ASSERT_INT(clock_gettime(CLOCK_REALTIME, &now), 0);
	ASSERT_INT(said.header.kind, BOX_MICROVM_TIME);
	ASSERT_INT(said.header.size, sizeof(said));
	ASSERT_INT(said.time.token, 4711);
	uint64_t there = said.time.realtime_ns / 1000000000U;
	ASSERT(there <= (uint64_t)now.tv_sec && there + 10 >= (uint64_t)now.tv_sec);
	/* Without a privileged helper the clock is not set, and box-init keeps running. */
	clock = (struct box_microvm_clock){.step_ns = 1};
	put(&child, packet, make_packet(header, &clock, sizeof(clock)));
	ASSERT_OUT(run_one(&child, 1, (struct asked){.command = "echo on"}), "on\n");
	put(&child, packet, make_packet(header, &clock, sizeof(clock) - 1));
	expect_end(&child);
}

TEST(nonsense_is_the_end)
{
	static const uint32_t sizes[] = {0, 15, BOX_INIT_PACKET_MAX + 1, UINT32_MAX};
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct child child;
		start_child(&child);
		struct box_init_header header = {.size = sizes[i], .kind = BOX_INIT_RUN, .id = 1};
		put(&child, (const char *)&header, sizeof(header));
		expect_end(&child);
	}
}

TEST(the_end_in_the_middle_of_a_packet)
{
	struct child child;
	start_child(&child);
	size_t size = make_run(1, "echo hello", 0);
	put(&child, packet, size - 1);
	ASSERT_INT(shutdown(child.control, SHUT_WR), 0);
	expect_end(&child);
}
