/* Packets about managed processes: which are well-formed, each kind at its edges. */
#include "protocol/init.h"
#include "protocol/init_process.h"
#include "tests/unit/lib/test.h"

static char packet[BOX_INIT_PACKET_MAX + 1];

static size_t make(uint32_t kind, uint32_t id, const void *first, size_t first_size, size_t rest)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + first_size + rest), .kind = kind, .id = id};
	ASSERT(header.size <= sizeof(packet));
	memset(packet, 'x', sizeof(packet));
	memcpy(packet, &header, sizeof(header));
	if (first_size > 0) {
		memcpy(packet + sizeof(header), first, first_size);
	}
	return header.size;
}

static bool request_good(uint32_t kind, const void *first, size_t first_size, size_t rest)
{
	size_t size = make(kind, 7, first, first_size, rest);
	bool good = box_init_check_request(packet, size) == 0;
	/* It is not an answer, a truncated one is invalid, and it is always about one process. */
	ASSERT(box_init_check_answer(packet, size) < 0);
	ASSERT(box_init_check_request(packet, size - 1) < 0);
	size = make(kind, 0, first, first_size, rest);
	ASSERT(box_init_check_request(packet, size) < 0);
	return good;
}

static bool answer_good(uint32_t kind, const void *first, size_t first_size, size_t rest)
{
	size_t size = make(kind, 7, first, first_size, rest);
	bool good = box_init_check_answer(packet, size) == 0;
	ASSERT(box_init_check_request(packet, size) < 0);
	ASSERT(box_init_check_answer(packet, size - 1) < 0);
	size = make(kind, 0, first, first_size, rest);
	ASSERT(box_init_check_answer(packet, size) < 0);
	return good;
}

TEST(kinds)
{
	ASSERT(!request_good(BOX_INIT_START_PROCESS - 1, NULL, 0, 0));
	ASSERT(!request_good(BOX_INIT_PROCESS_REQUESTS_END_, NULL, 0, 0));
	ASSERT(!answer_good(BOX_INIT_PROCESS_STATE - 1, NULL, 0, 8));
	ASSERT(!answer_good(BOX_INIT_PROCESS_ANSWERS_END_, NULL, 0, 8));
}

TEST(keep)
{
	/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): the packet comes first */
	static const struct {
		struct box_init_start_process keep;
		size_t more; /* bytes beyond what it says; or one byte less */
		bool good;
	} table[] = {
		{{0, 0, 0, 2, 2}, 0, true},
		{{0, 0, 0, 2, 2}, 1, false},
		{{0, 0, 0, 2, 2}, SIZE_MAX, false},
		{{1, 0, 3, 2, 2}, 0, true},
		{{1, 0, 2, 2, 2}, 0, false},
		{{0, 0, 1, 2, 2}, 0, false},
		{{1, 0, 0, 2, 2}, 0, false},
		{{2, 0, 6, 2, 2}, 0, true},
		{{2, 0, 5, 2, 2}, 0, false},
		{{0, 0, 0, 1, 2}, 0, false},
		{{0, 0, 0, 0, 2}, 0, false},
		{{0, 0, 0, 2, 1}, 0, false},
		{{0, 0, 0, 2, 0}, 0, false},
		{{0, 0, 0, BOX_INIT_PATH_MAX, 2}, 0, true},
		{{0, 0, 0, BOX_INIT_PATH_MAX + 1, 2}, 0, false},
		{{BOX_INIT_ENV_MAX, 0, 3 * BOX_INIT_ENV_MAX, 2, 2}, 0, true},
		{{BOX_INIT_ENV_MAX + 1, 0, 3 * BOX_INIT_ENV_MAX + 3, 2, 2}, 0, false},
		{{0, 0, 0, 2, 2, BOX_INIT_OUTPUT_HELD_MIN}, 0, true},
		{{0, 0, 0, 2, 2, BOX_INIT_OUTPUT_HELD_MAX}, 0, true},
		{{0, 0, 0, 2, 2, BOX_INIT_OUTPUT_HELD_MIN - 1}, 0, false},
		{{0, 0, 0, 2, 2, BOX_INIT_OUTPUT_HELD_MAX + 1}, 0, false},
		{{0, BOX_INIT_MOUNTS_MAX, 0, 2, 2}, 0, true},
		{{0, BOX_INIT_MOUNTS_MAX + 1, 0, 2, 2}, 0, false},
		{{0, 0, 0, 2, BOX_INIT_BYTES_MAX - sizeof(struct box_init_start_process) - 2}, 0,
			true},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		const struct box_init_start_process *keep = &table[i].keep;
		size_t body = (size_t)keep->env_size + keep->workdir_size + keep->command_size +
			table[i].more;
		if (request_good(BOX_INIT_START_PROCESS, keep, sizeof(*keep), body) !=
			table[i].good) {
			TEST_FAIL("row %zu", i);
		}
	}
	/* Sums that overflow. */
	struct box_init_start_process round = {0, 0, 0, 2, UINT32_MAX};
	ASSERT(!request_good(BOX_INIT_START_PROCESS, &round, sizeof(round), 1));
	round = (struct box_init_start_process){UINT16_MAX, 0, 2, 2, 2};
	ASSERT(!request_good(BOX_INIT_START_PROCESS, &round, sizeof(round), 6));
	ASSERT(!request_good(BOX_INIT_START_PROCESS, &round, sizeof(round) - 1, 0));
	ASSERT(!request_good(BOX_INIT_START_PROCESS, NULL, 0, 0));
	ASSERT(!request_good(BOX_INIT_START_PROCESS_IN, NULL, 0, 0));
	/* The fd of cgroup.procs is not part of the bytes. */
	struct box_init_start_process least = {0, 0, 0, 2, 2};
	ASSERT(request_good(BOX_INIT_START_PROCESS_IN, &least, sizeof(least), 4));
	ASSERT(!request_good(BOX_INIT_START_PROCESS_IN, &least, sizeof(least), 3));
}

TEST(follow)
{
	struct box_init_follow_output follow = {
		0, BOX_INIT_FROM_CURRENT, UINT64_MAX, BOX_INIT_OUTPUT_HELD_MIN};
	ASSERT(request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow), 0));
	ASSERT(!request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow), 1));
	ASSERT(!request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow) - 1, 0));
	follow.hold = BOX_INIT_OUTPUT_HELD_MIN - 1;
	ASSERT(!request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow), 0));
	follow.hold = BOX_INIT_OUTPUT_HELD_MAX;
	ASSERT(request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow), 0));
	follow.hold = BOX_INIT_OUTPUT_HELD_MAX + 1;
	ASSERT(!request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow), 0));
	follow.hold = UINT64_MAX;
	ASSERT(!request_good(BOX_INIT_FOLLOW_OUTPUT, &follow, sizeof(follow), 0));
}

TEST(other_requests)
{
	uint32_t grace_ms = 0;
	ASSERT(request_good(BOX_INIT_WRITE_STDIN, NULL, 0, 8));
	ASSERT(request_good(BOX_INIT_WRITE_STDIN, NULL, 0, BOX_INIT_BYTES_MAX));
	ASSERT(!request_good(BOX_INIT_WRITE_STDIN, NULL, 0, 7));
	ASSERT(request_good(BOX_INIT_STOP_PROCESS, &grace_ms, sizeof(grace_ms), 0));
	grace_ms = BOX_INIT_GRACE_MS_MAX;
	ASSERT(request_good(BOX_INIT_STOP_PROCESS, &grace_ms, sizeof(grace_ms), 0));
	ASSERT(!request_good(BOX_INIT_STOP_PROCESS, &grace_ms, sizeof(grace_ms), 1));
	grace_ms++;
	ASSERT(!request_good(BOX_INIT_STOP_PROCESS, &grace_ms, sizeof(grace_ms), 0));
	ASSERT(!request_good(BOX_INIT_STOP_PROCESS, NULL, 0, 0));
	for (uint32_t kind = BOX_INIT_FORGET_PROCESS; kind <= BOX_INIT_QUERY_PROCESS; kind++) {
		ASSERT(request_good(kind, NULL, 0, 0));
		ASSERT(!request_good(kind, NULL, 0, 1));
	}
}

TEST(peeks)
{
	struct box_init_peek peek = {1, 0, BOX_INIT_PEEK_BYTES_MAX, BOX_INIT_PEEK_STDERR, 1};
	ASSERT(request_good(BOX_INIT_PEEK, &peek, sizeof(peek), 0));
	ASSERT(!request_good(BOX_INIT_PEEK, &peek, sizeof(peek), 1));
	ASSERT(!request_good(BOX_INIT_PEEK, &peek, sizeof(peek) - 1, 0));
	peek.max_bytes++;
	ASSERT(!request_good(BOX_INIT_PEEK, &peek, sizeof(peek), 0));
	peek = (struct box_init_peek){1, 0, 0, BOX_INIT_PEEK_STDERR + 1, 0};
	ASSERT(!request_good(BOX_INIT_PEEK, &peek, sizeof(peek), 0));
	peek = (struct box_init_peek){1, 0, 0, BOX_INIT_PEEK_STDOUT, 2};
	ASSERT(!request_good(BOX_INIT_PEEK, &peek, sizeof(peek), 0));

	struct box_init_peek_answer peeked = {1, 5, 10, 0, 0};
	ASSERT(answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 0));
	ASSERT(answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 5));
	ASSERT(!answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 6));
	ASSERT(!answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked) - 1, 0));
	peeked.offset = 11;
	ASSERT(!answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 0));
	peeked = (struct box_init_peek_answer){1, 0, UINT64_MAX, 1, 0};
	ASSERT(answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 9));
	peeked.ended = 2;
	ASSERT(!answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 0));
	peeked = (struct box_init_peek_answer){1, 0, 9, 0, 1};
	ASSERT(!answer_good(BOX_INIT_PEEK_ANSWER, &peeked, sizeof(peeked), 0));
}

#define RUNNING BOX_INIT_PROCESS_RUNNING
#define GONE BOX_INIT_PROCESS_ENDED
#define EXIT BOX_INIT_END_EXIT
#define SIGNAL BOX_INIT_END_SIGNAL
#define FAILED BOX_INIT_END_FAILED
#define STEP BOX_INIT_STEP_EXEC
#define HOLD BOX_INIT_OUTPUT_HELD_MAX

TEST(states)
{
	static const struct {
		struct box_init_process_state state;
		bool good;
	} table[] = {
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 0, 0}, true},
		{{RUNNING, 0, 0, 0, 0, 0, 0, 0, 0, 0}, false},
		{{RUNNING, 0, 0, 0, -1, 0, 0, 0, 0, 0}, false},
		{{RUNNING, 1, 0, 0, 5, 0, 0, 0, 0, 0}, false},
		{{RUNNING, 0, 1, 0, 5, 0, 0, 0, 0, 0}, false},
		{{RUNNING, 0, 0, 1, 5, 0, 0, 0, 0, 0}, false},
		{{RUNNING, 0, 0, 0, 5, 1, 0, 0, 0, 0}, true},
		{{RUNNING, 0, 0, 0, 5, 2, 0, 0, 0, 0}, false},
		{{RUNNING, 0, 0, 0, 5, 0, 9, 9, 0, 0}, true},
		{{RUNNING, 0, 0, 0, 5, 0, 10, 9, 0, 0}, false},
		{{RUNNING, 0, 0, 0, 5, 0, 9, 9 + HOLD, 0, 0}, true},
		{{RUNNING, 0, 0, 0, 5, 0, 9, 10 + HOLD, 0, 0}, false},
		{{RUNNING, 0, 0, 0, 5, 0, 0, UINT64_MAX, 0, 0}, false},
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 3, 3}, true},
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 3, 4}, false},
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 3, 3, 1}, true},
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 3, 3, 2}, false},
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 1}, true},
		{{RUNNING, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 2}, false},
		{{GONE, EXIT, 0, 0, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, EXIT, 0, 255, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, EXIT, 0, 256, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, EXIT, 0, -1, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, EXIT, STEP, 1, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, SIGNAL, 0, 0, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, SIGNAL, 0, 1, 0, 0, 0, 0, 0, 0}, true},
		{{GONE, SIGNAL, 0, 64, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, SIGNAL, 0, 65, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, FAILED, STEP, 0, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, FAILED, STEP, 1, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, FAILED, STEP, 4095, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, FAILED, STEP, 4096, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, FAILED, 0, 1, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, FAILED, BOX_INIT_STEPS_ - 1, 1, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, FAILED, BOX_INIT_STEPS_, 1, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, BOX_INIT_END_TIMEOUT, 0, 0, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, BOX_INIT_END_MEMORY, 0, 137, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, BOX_INIT_END_MEMORY, 0, 1, 0, 1, 0, 0, 0, 0}, true},
		{{GONE, BOX_INIT_END_MEMORY, 0, 256, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, BOX_INIT_END_MEMORY, STEP, 137, 0, 1, 0, 0, 0, 0}, false},
		{{GONE, 99, 0, 0, 0, 1, 0, 0, 0, 0}, false},
		{{BOX_INIT_PROCESS_UNKNOWN, 0, 0, 0, 0, 0, 0, 0, 0, 0}, true},
		{{BOX_INIT_PROCESS_UNKNOWN, 0, 0, 0, 0, 0, 0, 0, 0, 1}, false},
		{{BOX_INIT_PROCESS_UNKNOWN, 0, 0, 0, 1, 0, 0, 0, 0, 0}, false},
		{{BOX_INIT_PROCESS_UNKNOWN + 1, 0, 0, 0, 5, 0, 0, 0, 0, 0}, false},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		const struct box_init_process_state *state = &table[i].state;
		if (answer_good(BOX_INIT_PROCESS_STATE, state, sizeof(*state), 0) !=
			table[i].good) {
			TEST_FAIL("row %zu", i);
		}
		/* With a tail of stderr of the maximum size; an unknown process has none. */
		bool good = table[i].good && state->phase != BOX_INIT_PROCESS_UNKNOWN;
		if (answer_good(BOX_INIT_PROCESS_STATE, state, sizeof(*state),
			    BOX_INIT_STDERR_TAIL_MAX) != good) {
			TEST_FAIL("row %zu with stderr", i);
		}
		ASSERT(!answer_good(BOX_INIT_PROCESS_STATE, state, sizeof(*state),
			BOX_INIT_STDERR_TAIL_MAX + 1));
		ASSERT(!answer_good(BOX_INIT_PROCESS_STATE, state, sizeof(*state) - 1, 0));
	}
}

TEST(other_answers)
{
	ASSERT(!answer_good(BOX_INIT_PROCESS_OUTPUT, NULL, 0, 8));
	ASSERT(answer_good(BOX_INIT_PROCESS_OUTPUT, NULL, 0, 9));
	ASSERT(answer_good(BOX_INIT_PROCESS_OUTPUT, NULL, 0, BOX_INIT_BYTES_MAX));
	ASSERT(!answer_good(BOX_INIT_STDIN_TAKEN, NULL, 0, 7));
	ASSERT(answer_good(BOX_INIT_STDIN_TAKEN, NULL, 0, 8));
	ASSERT(!answer_good(BOX_INIT_STDIN_TAKEN, NULL, 0, 9));
}
