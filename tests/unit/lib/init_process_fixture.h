/* Managed processes of a real box-init: sends requests as box-rpc would, and checks that output
 * arrives in the order of its offsets. Use with init_fixture.h. */
#pragma once

#include "protocol/init_process.h"
#include "tests/unit/lib/init_fixture.h"

#define ENDLESS UINT64_MAX
#define KIB 1024ULL
#define HOLD (1024 * KIB)
#define OUT_MAX (24U * 1024 * 1024)

#define NOBODY 63 /* a number that is never used */

/* What has arrived from one process. */
static struct told {
	struct box_init_process_state state;
	char *out;
	uint64_t first; /* offset of out[0] */
	uint64_t next;  /* the next expected offset */
	uint64_t fed;
	size_t err_len;
	int states;
	char err[BOX_INIT_STDERR_TAIL_MAX + 1];
	bool loose;       /* output that does not follow is ignored */
	uint64_t skipped; /* in all; earlier output is dropped */
} told[NOBODY + 1];

static struct child child;
static uint32_t keep_mounts; /* sent for the next process */
static uint32_t keep_log;    /* its log_bytes */

static inline void follow(uint32_t id, uint64_t freed, uint64_t from, uint64_t until, uint64_t hold)
{
	struct box_init_follow_output packet = {freed, from, until, hold};
	if (from != BOX_INIT_FROM_CURRENT) {
		told[id].first = told[id].next = from;
	}
	send_kind(&child, BOX_INIT_FOLLOW_OUTPUT, id, &packet, sizeof(packet));
}

/* args: the program and its arguments, each with its NUL; procs_fd: -1 for none. */
static inline void keep_args_in(uint32_t id, const char *args, size_t args_size,
	const char *workdir, const char *env, int procs_fd)
{
	static char packet[BOX_INIT_PACKET_MAX];
	struct box_init_header header = {
		.kind = procs_fd >= 0 ? BOX_INIT_START_PROCESS_IN : BOX_INIT_START_PROCESS,
		.id = id};
	size_t env_size = strlen(env) + 1;
	size_t workdir_size = strlen(workdir) + 1;
	struct box_init_start_process keep = {1, (uint16_t)keep_mounts, (uint32_t)env_size,
		(uint32_t)workdir_size, (uint32_t)args_size, keep_log};
	char *at = packet + sizeof(header);
	memcpy(at, &keep, sizeof(keep));
	at += sizeof(keep);
	memcpy(at, env, env_size);
	at += env_size;
	memcpy(at, workdir, workdir_size);
	at += workdir_size;
	memcpy(at, args, args_size);
	at += args_size;
	free(told[id].out);
	told[id] = (struct told){0};
	header.size = (uint32_t)(at - packet);
	memcpy(packet, &header, sizeof(header));
	send_bytes(&child, packet, header.size, procs_fd);
}

static inline void keep_args(
	uint32_t id, const char *args, size_t args_size, const char *workdir, const char *env)
{
	keep_args_in(id, args, args_size, workdir, env, -1);
}

static inline void keep_in(uint32_t id, const char *script, int procs_fd)
{
	char args[4096] = "sh\0-c";
	size_t size = strlen(script) + 1;
	ASSERT(size + 6 <= sizeof(args));
	memcpy(args + 6, script, size);
	keep_args_in(id, args, 6 + size, "/", "PATH=/usr/bin:/bin", procs_fd);
}

static inline void keep(uint32_t id, const char *script)
{
	keep_in(id, script, -1);
}

/* Handles one packet. */
static inline bool take_one(int wait_ms)
{
	static char packet[BOX_INIT_PACKET_MAX];
	struct pollfd fd = {.fd = child.control, .events = POLLIN};
	struct box_init_header header;
	if (poll(&fd, 1, wait_ms) <= 0) {
		return false;
	}
	ssize_t got = recv(child.control, packet, sizeof(packet), 0);
	ASSERT(got > 0);
	memcpy(&header, packet, sizeof(header));
	if (!box_init_process_is_answer(header.kind)) {
		take_answer(packet, (size_t)got);
		return true;
	}
	ASSERT_INT(box_init_check_answer(packet, (size_t)got), 0);
	ASSERT(header.id < COUNT(told));
	struct told *one = &told[header.id];
	const char *bytes = packet + sizeof(header);
	size_t size = (size_t)got - sizeof(header);
	if (header.kind == BOX_INIT_PROCESS_STATE) {
		memcpy(&one->state, bytes, sizeof(one->state));
		one->err_len = size - sizeof(one->state);
		memcpy(one->err, bytes + sizeof(one->state), one->err_len);
		one->err[one->err_len] = '\0';
		one->states++;
	} else if (header.kind == BOX_INIT_OUTPUT_SKIPPED) {
		struct box_init_output_skipped skipped;
		memcpy(&skipped, bytes, sizeof(skipped));
		ASSERT_INT(skipped.from, one->next);
		one->skipped += skipped.to - skipped.from;
		one->first = one->next = skipped.to;
	} else if (header.kind == BOX_INIT_STDIN_TAKEN) {
		uint64_t fed;
		memcpy(&fed, bytes, sizeof(fed));
		ASSERT(fed > one->fed);
		one->fed = fed;
	} else {
		uint64_t offset;
		memcpy(&offset, bytes, sizeof(offset));
		size -= sizeof(offset);
		if (one->loose && offset != one->next) {
			return true;
		}
		ASSERT_INT(offset, one->next);
		if (!one->out) {
			one->out = calloc(1, OUT_MAX);
			ASSERT(one->out);
		}
		ASSERT(one->next - one->first + size < OUT_MAX);
		memcpy(one->out + (one->next - one->first), bytes + sizeof(offset), size);
		one->next += size;
	}
	return true;
}

#define WAIT_FOR(condition)                                         \
	do {                                                        \
		while (!(condition)) {                              \
			if (!take_one(CHILD_WAIT_MS)) {             \
				TEST_FAIL("never: %s", #condition); \
			}                                           \
		}                                                   \
	} while (0)

/* Checks that nothing arrives for a while. */
static inline void expect_silence(void)
{
	while (take_one(0)) {
	}
	if (take_one(200)) {
		TEST_FAIL("something came");
	}
}

/* Its current state, requested: earlier reports are discarded. */
static inline const struct box_init_process_state *look(uint32_t id)
{
	int before = told[NOBODY].states;
	send_kind(&child, BOX_INIT_QUERY_PROCESS, id, NULL, 0);
	send_kind(&child, BOX_INIT_QUERY_PROCESS, NOBODY, NULL, 0);
	WAIT_FOR(told[NOBODY].states > before);
	return &told[id].state;
}

static inline void wait_ended(uint32_t id, uint32_t end, int value)
{
	WAIT_FOR(told[id].state.phase == BOX_INIT_PROCESS_ENDED && told[id].state.out_ended);
	ASSERT_INT(told[id].state.end, end);
	ASSERT_INT(told[id].state.value, value);
	ASSERT_INT(told[id].state.pid, 0);
}

static inline void expect_out(uint32_t id, const char *text)
{
	ASSERT_BYTES(told[id].out ? told[id].out : "", told[id].next - told[id].first, text,
		strlen(text));
}

static inline void feed(uint32_t id, uint64_t offset, const char *bytes, size_t size)
{
	static char packet[BOX_INIT_BYTES_MAX];
	memcpy(packet, &offset, sizeof(offset));
	if (size > 0) {
		memcpy(packet + sizeof(offset), bytes, size);
	}
	send_kind(&child, BOX_INIT_WRITE_STDIN, id, packet, sizeof(offset) + size);
}

static inline void drop(uint32_t id)
{
	send_kind(&child, BOX_INIT_FORGET_PROCESS, id, NULL, 0);
	ASSERT_INT(look(id)->phase, BOX_INIT_PROCESS_UNKNOWN);
}

static inline void halt(uint32_t id, uint32_t grace_ms)
{
	send_kind(&child, BOX_INIT_STOP_PROCESS, id, &grace_ms, sizeof(grace_ms));
}
