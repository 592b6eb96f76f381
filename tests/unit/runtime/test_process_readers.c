/* Readers of a managed process, one at a time. */
#include "tests/unit/lib/process_reader_fixture.h"

TEST(one_reader)
{
	struct reading one = {0};
	uint32_t number = started();
	attach(&one, "default");
	ASSERT_INT(played_of(number)->follows, 0);
	box_process_read(one.reader, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT_INT(one.attached, 1);
	ASSERT_INT(one.offset, 0);
	/* A reader says how far it reads, and the first time also from where. */
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	expect_follow(number, 0, 0, 100, 5000);
	tell_output(number, 0, "hello ");
	tell_output(number, 6, "world");
	ASSERT_STR(one.out, "hello world");
	/* Output that does not follow is not delivered. */
	tell_output(number, 6, "again");
	tell_output(number, 100, "gap");
	ASSERT_INT(one.next, 11);
	(void)box_process_confirm(one.reader, 6, 200, 6000);
	expect_follow(number, 6, BOX_BACKEND_PROCESS_CONTINUE, 200, 6000);
	/* Never backwards, and never more than was delivered. */
	ASSERT(!box_process_confirm(one.reader, 2, 200, 6000));
	box_process_send_confirmed(one.reader);
	ASSERT_INT(played_of(number)->follow.freed, 6);
	ASSERT(!box_process_confirm(one.reader, 1000, 200, 6000));
	box_process_send_confirmed(one.reader);
	ASSERT_INT(played_of(number)->follow.freed, 11);
	/* Detached: no output may be sent, and unconfirmed output will be sent again. */
	box_process_detach(one.reader);
	expect_follow(number, 11, 11, 0, 1024 * KIB);
	tell_output(number, 11, "nobody's");
	finish_processes();
}

/* Otherwise there would be as many packets as pieces of output. */
TEST(what_is_confirmed_is_told_when_it_matters)
{
	static char bytes[100 * KIB];
	struct reading one = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT(box_process_confirm(one.reader, 0, 1000 * KIB, 5000));
	ASSERT_INT(played_of(number)->follows, 1);
	memset(bytes, 'x', sizeof(bytes) - 1);
	tell_output(number, 0, bytes);
	ASSERT(!box_process_confirm(one.reader, 10, 1010 * KIB, 5000));
	ASSERT(!box_process_confirm(one.reader, 20, 1020 * KIB, 5000));
	ASSERT_INT(played_of(number)->follows, 1);
	box_process_send_confirmed(one.reader);
	expect_follow(number, 20, BOX_BACKEND_PROCESS_CONTINUE, 1020 * KIB, 5000);
	box_process_send_confirmed(one.reader); /* it knows */
	ASSERT_INT(played_of(number)->follows, 2);
	/* Much was confirmed; more may be held; a larger window; a smaller window. */
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 1020 * KIB, 5000));
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 1020 * KIB, 5001));
	ASSERT(!box_process_confirm(one.reader, 70 * KIB, 1900 * KIB, 5001));
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 2000 * KIB, 5001));
	ASSERT(box_process_confirm(one.reader, 70 * KIB, 1999 * KIB, 5001));
	ASSERT_INT(played_of(number)->follows, 6);
	/* A reader that detaches leaves no confirmation unsent. */
	ASSERT(!box_process_confirm(one.reader, 71 * KIB, 1999 * KIB, 5001));
	box_process_detach(one.reader);
	expect_follow(number, 71 * KIB, 71 * KIB, 0, 1024 * KIB);
	finish_processes();
}

TEST(one_after_the_other)
{
	struct reading one = {0};
	struct reading two = {0};
	struct reading three = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	attach_and_read(&two, BOX_PROCESS_FROM_UNCONFIRMED);
	attach_and_read(&three, 0);
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	tell_output(number, 0, "abcdef");
	(void)box_process_confirm(one.reader, 2, 100, 5000);
	ASSERT_INT(two.attached + three.attached, 0);
	/* A waiting reader has no influence. */
	int follows = played_of(number)->follows;
	(void)box_process_confirm(two.reader, 6, 100, 5000);
	ASSERT_INT(played_of(number)->follows, follows);
	box_process_detach(one.reader);
	ASSERT_INT(two.attached, 1);
	ASSERT_INT(two.offset, 2);
	(void)box_process_confirm(two.reader, 0, 100, 5000);
	expect_follow(number, 2, 2, 100, 5000);
	tell_output(number, 2, "cdef");
	ASSERT_STR(two.out, "cdef");
	/* A reader that leaves the middle of the queue is not noticed. */
	box_process_detach(three.reader);
	ASSERT_INT(two.attached, 1);
	attach_and_read(&three, BOX_PROCESS_FROM_UNCONFIRMED);
	box_process_detach(two.reader);
	ASSERT_INT(three.attached, 1);
	ASSERT_INT(three.offset, 2);
	box_process_detach(three.reader);
	finish_processes();
}

TEST(from_an_offset)
{
	static const struct {
		uint64_t from;
		uint64_t offset;
	} table[] = {{0, 3}, {3, 3}, {5, 5}, {8, 8}, {9, 8}, {UINT64_MAX - 1, 8},
		{BOX_PROCESS_FROM_UNCONFIRMED, 3}};
	struct reading one = {0};
	uint32_t number = started();
	attach_and_read(&one, 0);
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	tell_output(number, 0, "01234567");
	(void)box_process_confirm(one.reader, 3, 100, 5000);
	box_process_detach(one.reader);
	for (size_t i = 0; i < COUNT(table); i++) {
		attach_and_read(&one, table[i].from);
		ASSERT_INT(one.offset, table[i].offset);
		box_process_detach(one.reader);
	}
	finish_processes();
}

/* The end is reported after the last output, not with the exit. */
TEST(the_end)
{
	struct reading one = {0};
	struct reading two = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	attach_and_read(&two, BOX_PROCESS_FROM_UNCONFIRMED);
	(void)box_process_confirm(one.reader, 0, 100, 5000);
	tell_output(number, 0, "abc");
	tell(number, (struct box_backend_process_state){.exit_code = 1, .out_end = 5});
	ASSERT(!box_process_runs(process_of("s", "default")));
	ASSERT_INT(one.ended, 0);
	tell(number,
		(struct box_backend_process_state){
			.exit_code = 1, .out_end = 6, .out_ended = true});
	tell_output(number, 3, "d");
	ASSERT_INT(one.ended, 0);
	tell_output(number, 4, "ef");
	ASSERT_INT(one.ended, 1);
	ASSERT(one.with_process);
	ASSERT_STR(one.out, "abcdef");
	tell_output(number, 6, "more");
	/* Once, and the next reader gets everything, too. */
	tell_exit(number, 1, 6);
	ASSERT_INT(one.ended, 1);
	ASSERT_INT(two.ended, 0);
	box_process_detach(one.reader);
	ASSERT_INT(two.attached, 1);
	(void)box_process_confirm(two.reader, 0, 100, 5000);
	tell_output(number, 0, "abcdef");
	ASSERT_INT(two.ended, 1);
	box_process_detach(two.reader);
	/* Without output it is reported immediately. */
	number = begun("s", "default");
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	tell_exit(number, 0, 0);
	ASSERT_INT(one.ended, 1);
	box_process_detach(one.reader);
	finish_processes();
}

TEST(readers_of_one_that_goes)
{
	struct reading readers[4] = {0};
	struct ended_op op = {0};
	struct box_process_op *waiting = NULL;
	uint32_t number = started();
	attach_and_read(&readers[0], BOX_PROCESS_FROM_UNCONFIRMED);
	attach_and_read(&readers[1], BOX_PROCESS_FROM_UNCONFIRMED);
	attach(&readers[2], "default");
	ASSERT_INT(box_process_stop(process_of("s", "default"), on_op, &op, &waiting), 1);
	ASSERT_INT(readers[0].ended, 1);
	ASSERT_INT(readers[1].ended, 1);
	ASSERT_INT(readers[1].attached, 0);
	/* Not in the queue yet: reported when it queues. */
	ASSERT_INT(readers[2].ended, 0);
	tell_exit(number, 0, 0);
	box_process_read(readers[2].reader, 0);
	ASSERT_INT(readers[2].ended, 1);
	ASSERT(!readers[2].with_process);
	/* Calls on them have no effect and do not fail. */
	for (size_t i = 0; i < 3; i++) {
		(void)box_process_confirm(readers[i].reader, 0, 100, 5000);
		ASSERT_INT(box_process_write_input(readers[i].reader, box_str("x")), -ESRCH);
		ASSERT(!box_process_input_full(readers[i].reader));
		ASSERT_INT(box_process_input_end(readers[i].reader), 0);
		box_process_skip_line(readers[i].reader, true);
		ASSERT(!box_process_skips_line(readers[i].reader));
		box_process_detach(readers[i].reader);
	}
	finish_processes();
}

TEST(readers_of_a_session_that_goes)
{
	struct reading one = {0};
	struct reading two = {0};
	struct note note = {0};
	(void)started();
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	attach(&two, "default");
	(void)remove_id(ID("s"), &note);
	ASSERT_INT(one.ended, 1);
	ASSERT_INT(two.ended, 0);
	box_process_detach(one.reader);
	headless_gone();
	box_process_read(two.reader, 0);
	ASSERT_INT(two.ended, 1);
	box_process_detach(two.reader);
	finish_processes();
}

static void detach_now(struct reading *self)
{
	box_process_detach(self->reader);
}

/* A reader that detaches at the moment of its turn. */
TEST(gone_at_once)
{
	struct reading one = {0};
	struct reading two = {.then = detach_now};
	struct reading three = {0};
	uint32_t number = started();
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	attach_and_read(&two, BOX_PROCESS_FROM_UNCONFIRMED);
	attach_and_read(&three, BOX_PROCESS_FROM_UNCONFIRMED);
	box_process_detach(one.reader);
	ASSERT_INT(two.attached, 1);
	ASSERT_INT(three.attached, 1);
	tell_exit(number, 0, 0);
	ASSERT_INT(three.ended, 1);
	ASSERT_INT(two.ended, 0);
	box_process_detach(three.reader);
	finish_processes();
}

TEST(a_line_that_is_skipped)
{
	struct reading one = {0};
	struct reading two = {0};
	(void)started();
	attach_and_read(&one, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT(!box_process_skips_line(one.reader));
	box_process_skip_line(one.reader, true);
	box_process_detach(one.reader);
	attach_and_read(&two, BOX_PROCESS_FROM_UNCONFIRMED);
	ASSERT(box_process_skips_line(two.reader));
	box_process_skip_line(two.reader, false);
	ASSERT(!box_process_skips_line(two.reader));
	box_process_detach(two.reader);
	finish_processes();
}
