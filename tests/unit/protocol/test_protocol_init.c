/* Packets between box-rpc and box-init: which are well-formed, at the edges. */
#include <errno.h>

#include "protocol/init.h"
#include "tests/unit/lib/test.h"

static char packet[BOX_INIT_PACKET_MAX + 16];

static size_t make(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size),
		.kind = kind,
		.id = id,
	};
	memcpy(packet, &header, sizeof(header));
	if (bytes) {
		memcpy(packet + sizeof(header), bytes, size);
	} else {
		memset(packet + sizeof(header), 'x', size);
	}
	return header.size;
}

static int request(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	return box_init_check_request(packet, make(kind, id, bytes, size));
}

static int answer(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	return box_init_check_answer(packet, make(kind, id, bytes, size));
}

TEST(sizes_of_requests)
{
	const size_t most = BOX_INIT_BYTES_MAX;
	static const struct {
		uint32_t kind;
		uint32_t id;
		size_t size;
		int result;
	} table[] = {
		{BOX_INIT_RESET, 0, 0, 0},
		{BOX_INIT_RESET, 1, 0, -EBADMSG},
		{BOX_INIT_RESET, 0, 1, -EBADMSG},
		{BOX_INIT_MORE, 1, 1, 0},
		{BOX_INIT_MORE, UINT32_MAX, 1, 0},
		{BOX_INIT_MORE, 0, 1, -EBADMSG},
		{BOX_INIT_MORE, 1, 0, -EBADMSG},
		{BOX_INIT_INPUT, 1, 0, 0},
		{BOX_INIT_INPUT, 1, 1, 0},
		{BOX_INIT_CREDIT, 1, 8, 0},
		{BOX_INIT_CREDIT, 1, 7, -EBADMSG},
		{BOX_INIT_CREDIT, 1, 9, -EBADMSG},
		{BOX_INIT_CREDIT, 1, 0, -EBADMSG},
		{BOX_INIT_SIGNAL, 1, 3, -EBADMSG},
		{BOX_INIT_SIGNAL, 1, 8, -EBADMSG},
		{BOX_INIT_KILL, 1, 0, 0},
		{BOX_INIT_KILL, 1, 1, -EBADMSG},
		{BOX_INIT_KILL, 0, 0, -EBADMSG},
		{BOX_INIT_RUN, 1, sizeof(struct box_init_run) - 1, -EBADMSG},
		{0, 1, 0, -EBADMSG},
		{BOX_INIT_PIPE, 1, 0, -EBADMSG},
		{BOX_INIT_PIPE, 1, 8, -EBADMSG},
		{BOX_INIT_DRAIN, 1, 0, 0},
		{BOX_INIT_DRAIN, 1, 1, -EBADMSG},
		{BOX_INIT_DRAIN, 0, 0, -EBADMSG},
		{BOX_INIT_DRAIN + 1, 1, 0, -EBADMSG},
		{BOX_INIT_RESET_DONE, 0, 0, -EBADMSG},
		{BOX_INIT_EXIT, 1, sizeof(struct box_init_exit), -EBADMSG},
		{UINT32_MAX, 1, 0, -EBADMSG},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		int result = request(table[i].kind, table[i].id, NULL, table[i].size);
		if (result != table[i].result) {
			TEST_FAIL("row %zu gives %d", i, result);
		}
	}
	ASSERT_INT(request(BOX_INIT_MORE, 1, NULL, most), 0);
	ASSERT_INT(request(BOX_INIT_MORE, 1, NULL, most + 1), -EBADMSG);
}

TEST(headers)
{
	size_t size = make(BOX_INIT_KILL, 1, NULL, 0);
	ASSERT_INT(size, 16);
	for (size_t len = 0; len < size; len++) {
		ASSERT_INT(box_init_check_request(packet, len), -EBADMSG);
	}
	ASSERT_INT(box_init_check_request(packet, size), 0);
	ASSERT_INT(box_init_check_request(packet, size + 1), -EBADMSG);
	struct box_init_header header;
	memcpy(&header, packet, sizeof(header));
	header.reserved = 1;
	put_bytes(packet, &header, sizeof(header));
	ASSERT_INT(box_init_check_request(packet, size), -EBADMSG);
	header.reserved = 0;
	header.size = 17;
	put_bytes(packet, &header, sizeof(header));
	ASSERT_INT(box_init_check_request(packet, size), -EBADMSG);
	ASSERT_INT(box_init_check_request(packet, size + 1), -EBADMSG);
}

TEST(signals)
{
	static const struct {
		uint32_t number;
		int result;
	} table[] = {
		{0, -EBADMSG}, {1, 0}, {15, 0}, {64, 0}, {65, -EBADMSG}, {UINT32_MAX, -EBADMSG}};
	for (size_t i = 0; i < COUNT(table); i++) {
		ASSERT_INT(request(BOX_INIT_SIGNAL, 1, &table[i].number, sizeof(uint32_t)),
			table[i].result);
	}
}

TEST(pipes)
{
	static const int results[] = {0, 0, 0, -EBADMSG, -EBADMSG};
	for (uint32_t which = 0; which < COUNT(results); which++) {
		ASSERT_INT(request(BOX_INIT_PIPE, 1, &which, sizeof(which)), results[which]);
	}
}

TEST(targets)
{
	static const struct {
		const char *bytes;
		size_t size;
		int result;
	} table[] = {
		{"/", 2, 0},
		{"/a/b", 5, 0},
		{"/a/b", 4, -EBADMSG},
		{"a", 2, -EBADMSG},
		{"", 1, -EBADMSG},
		{"/", 1, -EBADMSG},
		{"/a\0b", 5, -EBADMSG},
		{"/a\0", 4, -EBADMSG},
		{"", 0, -EBADMSG},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		ASSERT_INT(
			request(BOX_INIT_MOUNT, 1, table[i].bytes, table[i].size), table[i].result);
	}
	char path[BOX_INIT_PATH_MAX + 1];
	memset(path, '/', sizeof(path));
	path[BOX_INIT_PATH_MAX - 1] = '\0';
	ASSERT_INT(request(BOX_INIT_MOUNT, 1, path, BOX_INIT_PATH_MAX), 0);
	path[BOX_INIT_PATH_MAX - 1] = '/';
	path[BOX_INIT_PATH_MAX] = '\0';
	ASSERT_INT(request(BOX_INIT_MOUNT, 1, path, BOX_INIT_PATH_MAX + 1), -EBADMSG);
}

/* A RUN with `extra` bytes of its body. */
static int check_run(struct box_init_run run, size_t extra)
{
	static char bytes[BOX_INIT_BYTES_MAX];
	memcpy(bytes, &run, sizeof(run));
	return request(BOX_INIT_RUN, 9, bytes, sizeof(run) + extra);
}

TEST(runs)
{
	const uint32_t most = BOX_INIT_BODY_MAX;
	const struct {
		struct box_init_run run;
		size_t extra;
		int result;
	} table[] = {
		{{.workdir_size = 2, .command_size = 1}, 3, 0},
		{{.workdir_size = 2, .command_size = 1}, 0, 0},
		{{.workdir_size = 2, .command_size = 1}, 4, -EBADMSG},
		{{.workdir_size = 1, .command_size = 1}, 0, -EBADMSG},
		{{.workdir_size = 4096, .command_size = 1}, 0, 0},
		{{.workdir_size = 4097, .command_size = 1}, 0, -EBADMSG},
		{{.workdir_size = 2, .command_size = 0}, 0, -EBADMSG},
		{{.workdir_size = 2, .command_size = most - 2}, 0, 0},
		{{.workdir_size = 2, .command_size = most - 1}, 0, -EBADMSG},
		{{.workdir_size = 2, .command_size = UINT32_MAX}, 0, -EBADMSG},
		{{.env_count = 1, .env_size = UINT32_MAX, .workdir_size = 2, .command_size = 2}, 0,
			-EBADMSG},
		{{.env_count = 1, .env_size = 3, .workdir_size = 2, .command_size = 1}, 6, 0},
		{{.env_count = 1, .env_size = 2, .workdir_size = 2, .command_size = 1}, 0,
			-EBADMSG},
		{{.env_count = 1, .workdir_size = 2, .command_size = 1}, 0, -EBADMSG},
		{{.env_size = 3, .workdir_size = 2, .command_size = 1}, 0, -EBADMSG},
		{{.env_count = 4096, .env_size = 12288, .workdir_size = 2, .command_size = 1}, 0,
			0},
		{{.env_count = 4097, .env_size = 99999, .workdir_size = 2, .command_size = 1}, 0,
			-EBADMSG},
		{{.env_count = 0x55555556, .env_size = 2, .workdir_size = 2, .command_size = 1}, 0,
			-EBADMSG},
		{{.flags = 3, .workdir_size = 2, .command_size = 1}, 0, 0},
		{{.flags = 4, .workdir_size = 2, .command_size = 1}, 0, -EBADMSG},
		{{.flags = BOX_INIT_RUN_FILE, .workdir_size = 2, .command_size = 1}, 0, 0},
		{{.flags = BOX_INIT_RUN_FILE | BOX_INIT_RUN_STDIN,
			 .workdir_size = 2,
			 .command_size = 1},
			0, 0},
		{{.flags = BOX_INIT_RUN_FILE | BOX_INIT_RUN_ARGV,
			 .workdir_size = 2,
			 .command_size = 1},
			0, -EBADMSG},
		{{.flags = BOX_INIT_RUN_FILE,
			 .mount_count = 1,
			 .workdir_size = 2,
			 .command_size = 1},
			0, 0},
		{{.flags = BOX_INIT_RUN_PIPES, .workdir_size = 2, .command_size = 1}, 0, 0},
		{{.flags = BOX_INIT_RUN_PIPES | BOX_INIT_RUN_ARGV,
			 .mount_count = 1,
			 .workdir_size = 2,
			 .command_size = 1},
			0, 0},
		{{.flags = BOX_INIT_RUN_PIPES | BOX_INIT_RUN_STDIN,
			 .workdir_size = 2,
			 .command_size = 1},
			0, -EBADMSG},
		{{.flags = BOX_INIT_RUN_PIPES | BOX_INIT_RUN_FILE,
			 .workdir_size = 2,
			 .command_size = 1},
			0, -EBADMSG},
		{{.flags = 1U << 31, .workdir_size = 2, .command_size = 1}, 0, -EBADMSG},
		{{.grace_ms = 60001, .workdir_size = 2, .command_size = 1}, 0, -EBADMSG},
		{{.mount_count = 256, .workdir_size = 2, .command_size = 1}, 0, 0},
		{{.mount_count = 257, .workdir_size = 2, .command_size = 1}, 0, -EBADMSG},
		{{.workdir_size = 2,
			 .command_size = 1,
			 .timeout_ms = UINT64_MAX,
			 .grace_ms = 60000,
			 .output_limit = UINT64_MAX,
			 .credit = UINT64_MAX},
			0, 0},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		int result = check_run(table[i].run, table[i].extra);
		if (result != table[i].result) {
			TEST_FAIL("row %zu gives %d", i, result);
		}
	}
}

TEST(last_words)
{
	static char text[BOX_INIT_BOX_ENDS_MAX + 1];
	static const char *const bad[] = {"a\nb", "\x1b[31m", "\x7f", "caf\xc3\xa9", "tab\t"};
	memset(text, ' ', sizeof(text));
	ASSERT_INT(answer(BOX_INIT_BOX_ENDS, 0, "it ended ~", 10), 0);
	ASSERT_INT(answer(BOX_INIT_BOX_ENDS, 1, "it ended ~", 10), -EBADMSG);
	ASSERT_INT(answer(BOX_INIT_BOX_ENDS, 0, NULL, 0), -EBADMSG);
	ASSERT_INT(answer(BOX_INIT_BOX_ENDS, 0, text, BOX_INIT_BOX_ENDS_MAX), 0);
	ASSERT_INT(answer(BOX_INIT_BOX_ENDS, 0, text, sizeof(text)), -EBADMSG);
	for (size_t i = 0; i < COUNT(bad); i++) {
		ASSERT_INT(answer(BOX_INIT_BOX_ENDS, 0, bad[i], strlen(bad[i])), -EBADMSG);
	}
}

TEST(sizes_of_answers)
{
	static const struct {
		uint32_t kind;
		uint32_t id;
		size_t size;
		int result;
	} table[] = {
		{BOX_INIT_RESET_DONE, 0, 0, 0},
		{BOX_INIT_RESET_DONE, 1, 0, -EBADMSG},
		{BOX_INIT_RESET_DONE, 0, 1, -EBADMSG},
		{BOX_INIT_STARTED, 1, 0, 0},
		{BOX_INIT_STARTED, 0, 0, -EBADMSG},
		{BOX_INIT_STARTED, 1, 1, -EBADMSG},
		{BOX_INIT_STDOUT, 1, 1, 0},
		{BOX_INIT_STDOUT, 1, 0, -EBADMSG},
		{BOX_INIT_STDERR, 1, 1, 0},
		{BOX_INIT_STDERR, 1, 0, -EBADMSG},
		{BOX_INIT_STDERR, 0, 1, -EBADMSG},
		{BOX_INIT_INPUT_TAKEN, 1, 8, 0},
		{BOX_INIT_INPUT_TAKEN, 1, 4, -EBADMSG},
		{BOX_INIT_EXIT, 1, sizeof(struct box_init_exit) - 1, -EBADMSG},
		{BOX_INIT_EXIT, 1, sizeof(struct box_init_exit) + 1, -EBADMSG},
		{BOX_INIT_BOX_ENDS + 1, 1, 0, -EBADMSG},
		{BOX_INIT_RESET_DONE - 1, 1, 0, -EBADMSG},
		{BOX_INIT_RESET, 0, 0, -EBADMSG},
		{BOX_INIT_KILL, 1, 0, -EBADMSG},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		int result = answer(table[i].kind, table[i].id, NULL, table[i].size);
		if (result != table[i].result) {
			TEST_FAIL("row %zu gives %d", i, result);
		}
	}
	ASSERT_INT(answer(BOX_INIT_STDOUT, 1, NULL, BOX_INIT_BYTES_MAX), 0);
}

TEST(exits)
{
	static const struct {
		struct box_init_exit end;
		int result;
	} table[] = {
		{{.end = BOX_INIT_END_EXIT}, 0},
		{{.end = BOX_INIT_END_EXIT, .value = 255}, 0},
		{{.end = BOX_INIT_END_EXIT, .value = 256}, -EBADMSG},
		{{.end = BOX_INIT_END_EXIT, .value = -1}, -EBADMSG},
		{{.end = BOX_INIT_END_EXIT, .step = BOX_INIT_STEP_EXEC}, -EBADMSG},
		{{.end = BOX_INIT_END_EXIT, .mount = 1}, -EBADMSG},
		{{.end = BOX_INIT_END_EXIT,
			 .stdout_dropped = UINT64_MAX,
			 .stderr_dropped = UINT64_MAX,
			 .duration_us = UINT64_MAX},
			0},
		{{.end = BOX_INIT_END_SIGNAL, .value = 0}, -EBADMSG},
		{{.end = BOX_INIT_END_SIGNAL, .value = 1}, 0},
		{{.end = BOX_INIT_END_SIGNAL, .value = 64}, 0},
		{{.end = BOX_INIT_END_SIGNAL, .value = 65}, -EBADMSG},
		{{.end = BOX_INIT_END_TIMEOUT}, 0},
		{{.end = BOX_INIT_END_TIMEOUT, .value = 9}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED, .value = 2}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_REQUEST}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_REQUEST, .value = 1}, 0},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_EXEC, .value = 4095}, 0},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_EXEC, .value = 4096}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_EXEC, .value = -2}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEPS_, .value = 2}, -EBADMSG},
		{{.end = BOX_INIT_END_FAILED,
			 .step = BOX_INIT_STEP_MOUNT,
			 .value = 2,
			 .mount = 255},
			0},
		{{.end = BOX_INIT_END_FAILED,
			 .step = BOX_INIT_STEP_MOUNT,
			 .value = 2,
			 .mount = 256},
			-EBADMSG},
		{{.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_EXEC, .value = 2, .mount = 1},
			-EBADMSG},
		{{.end = BOX_INIT_END_MEMORY, .value = 137}, 0},
		{{.end = BOX_INIT_END_MEMORY, .value = 256}, -EBADMSG},
		{{.end = BOX_INIT_END_MEMORY, .value = -1}, -EBADMSG},
		{{.end = BOX_INIT_END_MEMORY, .step = BOX_INIT_STEP_EXEC}, -EBADMSG},
		{{.end = BOX_INIT_END_MEMORY + 1, .value = 1}, -EBADMSG},
		{{.room_bytes = 4096, .used_bytes = 4096, .full = 1}, 0},
		{{.room_bytes = UINT64_MAX}, 0},
		{{.room_bytes = 4096, .used_bytes = 4097}, -EBADMSG},
		{{.used_bytes = 1}, -EBADMSG},
		{{.full = 1}, -EBADMSG},
		{{.room_bytes = 1, .full = 2}, -EBADMSG},
		{{.reserved = 1}, -EBADMSG},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		int result = answer(BOX_INIT_EXIT, 1, &table[i].end, sizeof(table[i].end));
		if (result != table[i].result) {
			TEST_FAIL("row %zu gives %d", i, result);
		}
	}
}

TEST(names_of_boot_steps)
{
	ASSERT_STR(box_init_boot_step_name(BOX_INIT_BOOT_READ), "read the boot file");
	ASSERT_STR(box_init_boot_step_name(BOX_INIT_BOOT_MOUNTER), "start the mounter");
	ASSERT_STR(box_init_boot_step_name(BOX_INIT_BOOT_WORKSPACE), "attach the workspace");
	ASSERT_STR(box_init_boot_step_name(BOX_INIT_BOOT_FILTER), "install the filter");
	ASSERT(!box_init_boot_step_name(BOX_INIT_BOOT_END_));
	ASSERT(!box_init_boot_step_name(BOX_INIT_BOOT_READ - 1));
	ASSERT(!box_init_boot_step_name(0));
}
