/* Timeouts of commands in boxes, and of box-init in ending them. Timers are linked so that they can
 * fire at once. */
#include "runtime/backend/backend_file.h"
#include "tests/unit/lib/local_fixture.h"

#define WHILE "the box ended while the command ran: "

int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);

static bool hurry; /* the next timer runs out at once */
static uint64_t last_timeout_ms;

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	bool now = hurry;
	hurry = false;
	last_timeout_ms = timeout;
	return __real_uv_timer_start(timer, cb, now ? 0 : timeout, repeat);
}

TEST(a_timeout_beyond_a_century_is_a_century)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	struct heard heard;
	spec.timeout_sec = INT64_MAX;
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.timeout_ms, 100LL * 366 * 86400 * 1000);
	ASSERT_INT(last_timeout_ms, run.timeout_ms + 5000);
	backend->ops->cancel(ran.op);
	end_played(&played, 3);
	finish();
}

TEST(init_must_end_a_command_in_time)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran[2] = {{0}};
	spec.timeout_sec = 1;
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran[0]);
	ASSERT_INT(last_timeout_ms, 6000);
	turn();
	ASSERT_INT(played.lost, 0);
	hurry = true;
	begin_plain(&played, &spec, 2, &ran[1]);
	turn();
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, "it did not end a command in time");
	for (int i = 0; i < 2; i++) {
		expect_failed(
			&ran[i], BOX_ERR_BOX, EPIPE, WHILE "it did not end a command in time");
	}
	end_played(&played, 3);
	finish();
}

/* Sent but not read yet: timers run first. */
static void say_unheard(struct played *played, uint32_t kind, const void *bytes, size_t size)
{
	static _Alignas(8) char packet[BOX_INIT_PACKET_MAX];
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size), .kind = kind, .id = 1};
	memcpy(packet, &header, sizeof(header));
	memcpy(packet + sizeof(header), bytes, size);
	ASSERT_INT(send(played->init, packet, header.size, MSG_NOSIGNAL), header.size);
}

TEST(an_end_that_came_in_time_counts)
{
	static const struct box_init_exit end = {.end = BOX_INIT_END_EXIT, .value = 3};
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	make_played(&played, 3);
	hurry = true;
	begin_plain(&played, &spec, 1, &ran);
	say_unheard(&played, BOX_INIT_EXIT, &end, sizeof(end));
	turn();
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 3, 0);
	ASSERT_INT(played.lost, 0);
	end_played(&played, 3);
	finish();
}

static void ignore_start(void *arg)
{
	(void)arg;
}

static void ignore_output(void *arg, bool is_stderr, struct box_str bytes)
{
	(void)arg;
	(void)is_stderr;
	(void)bytes;
}

/* A live command that has used up its credit, and whose time is over. */
static void begin_stuck(struct played *played, const struct box_spec *spec, struct ran *ran)
{
	static const struct box_backend_stream_events events = {ignore_start, ignore_output};
	static const struct box_backend_stream live = {.events = &events, .credit = 5};
	struct heard heard;
	start_microvms();
	make_played(played, 3);
	hurry = true;
	ran->op = backend->ops->exec(played->box, spec, 1000, &live, on_ran, ran);
	say_unheard(played, BOX_INIT_STDOUT, "12345", 5);
	expect(played, BOX_INIT_RUN, 1, &heard);
	expect_packet(played, BOX_INIT_INPUT, 1, "", 0);
	turn();
	ASSERT_INT(played->lost, 0);
}

TEST(the_end_may_wait_for_a_slow_reader)
{
	struct played played = {0};
	struct box_spec spec = spec_of("yes");
	struct ran ran = {0};
	begin_stuck(&played, &spec, &ran);
	ASSERT_INT(last_timeout_ms, 5000);
	last_timeout_ms = 0;
	backend->ops->credit(ran.op, 1);
	ASSERT_INT(last_timeout_ms, 5000); /* from now on */
	turn();
	ASSERT_INT(played.lost, 0);
	hurry = true;
	backend->ops->credit(ran.op, 1);
	turn();
	ASSERT_INT(played.lost, 1);
	expect_failed(&ran, BOX_ERR_BOX, EPIPE, WHILE "it did not end a command in time");
	end_played(&played, 3);
	finish();
}

/* It has ended, and its remaining output is read in the same loop turn: timers run first. */
TEST(an_end_that_is_here_is_not_late)
{
	static const struct box_backend_stream_events events = {ignore_start, ignore_output};
	static const struct box_backend_stream live = {.events = &events, .credit = 2};
	struct played played = {0};
	struct box_spec spec = spec_of("yes");
	struct ran ran = {0};
	struct heard heard;
	int fds[3];
	start();
	make_played(&played, 3);
	hurry = true;
	ran.op = backend->ops->exec(played.box, &spec, 1000, &live, on_ran, &ran);
	for (int i = 0; i < 3; i++) {
		expect(&played, BOX_INIT_PIPE, 1, &heard);
		fds[i] = heard.fd;
	}
	static const struct box_init_exit end = {.end = BOX_INIT_END_EXIT, .value = 3};
	expect(&played, BOX_INIT_RUN, 1, &heard);
	ASSERT_INT(write(fds[1], "12345", 5), 5);
	say_unheard(&played, BOX_INIT_EXIT, &end, sizeof(end));
	turn();
	ASSERT_INT(ran.calls, 0);
	hurry = true;
	backend->ops->credit(ran.op, 1);
	turn();
	ASSERT_INT(played.lost, 0);
	backend->ops->credit(ran.op, 100);
	turn();
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 3, 0);
	for (int i = 0; i < 3; i++) {
		ASSERT_INT(close(fds[i]), 0);
	}
	end_played(&played, 3);
	finish();
}

static const struct box_mount mount = {
	.host_path = "/host", .mount_path = "/data", .mode = BOX_MOUNT_RW};

/* boxd may have to copy a tree first: the box is not to blame for that. */
TEST(a_command_that_waits_for_boxd_is_not_late)
{
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	struct heard heard;
	spec.timeout_sec = 1;
	spec.mounts = (struct box_mount *)(uintptr_t)&mount;
	spec.mount_count = 1;
	start();
	make_played(&played, 3);
	last_timeout_ms = 0;
	hurry = true;
	begin(&played, &spec, 1000, &ran);
	turn();
	ASSERT_INT(played.lost, 0);
	ASSERT_INT(last_timeout_ms, 0);
	/* Its timeout starts with the command: this is still the next timer. */
	boxd.mounts[0].done(boxd.mounts[0].arg, memory_file("x"), NULL);
	ASSERT_INT(last_timeout_ms, 6000);
	expect(&played, BOX_INIT_MOUNT, 1, &heard);
	ASSERT_INT(close(heard.fd), 0);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	turn();
	ASSERT_INT(played.lost, 1);
	expect_failed(&ran, BOX_ERR_BOX, EPIPE, WHILE "it did not end a command in time");
	end_played(&played, 3);
	finish();
}

/* Whose answer comes whenever it comes. */
static int filed;

static void on_filed(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	(void)arg;
	ASSERT(!outcome && err);
	filed++;
}

TEST(work_on_files_that_waits_for_boxd_is_not_late)
{
	const struct box_backend_file_request ask = {.kind = BOX_FILE_STAT,
		.path = {"/", "data/x"},
		.mode = -1,
		.mounts = &mount,
		.mount_count = 1};
	struct played played = {0};
	struct heard heard;
	start();
	make_played(&played, 3);
	hurry = true;
	ASSERT(backend->ops->file(played.box, &ask, NULL, on_filed, NULL));
	turn();
	ASSERT_INT(filed, 0);
	/* Its timeout starts with the request: this is still the next timer. */
	boxd.mounts[0].done(boxd.mounts[0].arg, memory_file("x"), NULL);
	expect(&played, BOX_INIT_MOUNT, 1, &heard);
	ASSERT_INT(close(heard.fd), 0);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	turn();
	ASSERT_INT(filed, 1);
	ASSERT_INT(played.lost, 0);
	end_played(&played, 3);
	finish();
}

TEST(the_end_of_a_cancelled_command_must_come_soon)
{
	struct played played = {0};
	struct box_spec spec = spec_of("yes");
	struct ran ran = {0};
	begin_stuck(&played, &spec, &ran);
	last_timeout_ms = 0;
	hurry = true;
	backend->ops->cancel(ran.op);
	ASSERT_INT(last_timeout_ms, 5000);
	/* Also without credit: the command is killed, and its output discarded. */
	turn();
	ASSERT_INT(played.lost, 1);
	ASSERT_INT(ran.calls, 0);
	end_played(&played, 3);
	finish();
}
