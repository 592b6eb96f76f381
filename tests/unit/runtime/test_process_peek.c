/* Peeks at the output of managed processes: they wait in the box, are accepted only as far as they
 * were asked for, and end with the process, with the client or with their timeout. */
#include "base/clock.h"
#include "tests/unit/lib/process_fixture.h"

static struct seen {
	int calls;
	bool failed;
	struct box_backend_process_peeked peeked;
	char bytes[64];
} seen[BOX_PROCESS_PEEKS_MAX + 1];

static void on_seen(void *arg, const struct box_process *process,
	const struct box_backend_process_peeked *peeked, const struct box_err *err)
{
	struct seen *one = arg;
	(void)process;
	one->calls++;
	one->failed = err != NULL;
	if (err) {
		ASSERT_INT(err->code, BOX_ERR_PROCESS_NOT_FOUND);
		return;
	}
	one->peeked = *peeked;
	ASSERT(peeked->bytes.len < sizeof(one->bytes));
	memcpy(one->bytes, peeked->bytes.bytes, peeked->bytes.len);
}

static struct box_process_peek *look(size_t at, bool wait, uint32_t most)
{
	const struct box_backend_process_peek wanted = {.offset = 3, .max = most, .wait = wait};
	struct box_process_peek *peek;
	struct box_err err;
	seen[at] = (struct seen){0};
	int r = box_process_peek(
		process_of("s", "default"), &wanted, 1000, on_seen, &seen[at], &peek, &err);
	if (r < 0) {
		ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	}
	return r < 0 ? NULL : peek;
}

static void answer(uint32_t number, uint64_t token, const char *text)
{
	struct played *one = played_of(number);
	const struct box_backend_process_peeked peeked = {
		.token = token, .offset = 3, .end = 3 + strlen(text), .bytes = box_str(text)};
	one->events->peeked(one->arg, &peeked);
}

static uint32_t begin_one(void)
{
	start_processes();
	make_live("s");
	uint32_t number = begun("s", "default");
	tell_running(number);
	return number;
}

TEST(answered_by_its_token_and_no_more_than_asked)
{
	uint32_t number = begin_one();
	ASSERT(look(0, false, 4) != NULL);
	uint64_t token = played_of(number)->peek.token;
	ASSERT_INT(played_of(number)->peek.offset, 3);
	ASSERT(look(1, false, 64) != NULL);
	answer(number, token + 77, "of nobody");
	ASSERT_INT(seen[0].calls + seen[1].calls, 0);
	answer(number, token, "hello");
	ASSERT_INT(seen[0].calls, 1);
	ASSERT_INT(seen[0].peeked.bytes.len, 4);
	ASSERT_STR(seen[0].bytes, "hell");
	answer(number, token, "again");
	ASSERT_INT(seen[0].calls, 1);
	ASSERT_INT(seen[1].calls, 0);
	answer(number, played_of(number)->peek.token, "other");
	ASSERT_STR(seen[1].bytes, "other");
	finish_processes();
}

TEST(time_is_up)
{
	uint32_t number = begin_one();
	ASSERT(look(0, true, 4) != NULL);
	uint64_t token = played_of(number)->peek.token;
	box_sessions_tick(sessions, box_clock_ms());
	ASSERT_INT(played_of(number)->peeks, 1);
	box_sessions_tick(sessions, box_clock_ms() + 2000);
	/* The box is asked again, with the same token and to answer immediately; but only once. */
	ASSERT_INT(played_of(number)->peeks, 2);
	ASSERT_INT(played_of(number)->peek.token, token);
	ASSERT(!played_of(number)->peek.wait);
	box_sessions_tick(sessions, box_clock_ms() + 3000);
	ASSERT_INT(played_of(number)->peeks, 2);
	answer(number, token, "");
	ASSERT_INT(seen[0].calls, 1);
	finish_processes();
}

TEST(cancelled_and_too_many)
{
	uint32_t number = begin_one();
	struct box_process_peek *peeks[BOX_PROCESS_PEEKS_MAX];
	for (size_t i = 0; i < BOX_PROCESS_PEEKS_MAX; i++) {
		peeks[i] = look(i, true, 4);
		ASSERT(peeks[i] != NULL);
	}
	ASSERT(look(BOX_PROCESS_PEEKS_MAX, true, 4) == NULL);
	/* A peek whose client is gone keeps its slot until the box has answered. */
	box_process_peek_cancel(peeks[2]);
	uint64_t token = played_of(number)->peek.token;
	ASSERT(!played_of(number)->peek.wait);
	ASSERT(look(BOX_PROCESS_PEEKS_MAX, true, 4) == NULL);
	answer(number, token, "late");
	ASSERT_INT(seen[2].calls, 0);
	ASSERT(look(BOX_PROCESS_PEEKS_MAX, true, 4) != NULL);
	finish_processes();
	ASSERT(seen[0].failed && seen[0].calls == 1);
	ASSERT_INT(seen[2].calls, 0);
}

TEST(gone_with_the_process)
{
	uint32_t number = begin_one();
	struct ended_op op = {0};
	struct box_process_op *waiting = NULL;
	ASSERT(look(0, true, 4) != NULL);
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	ASSERT_INT(seen[0].calls, 0);
	tell_exit(number, 0, 0);
	ASSERT_INT(seen[0].calls, 1);
	ASSERT(seen[0].failed);
	ASSERT_INT(op.calls, 1);
	finish_processes();
}
