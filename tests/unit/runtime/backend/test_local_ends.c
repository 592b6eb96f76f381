/* How commands in boxes end, as box-init reports it, and to which of them out-of-memory kills are
 * attributed. Then boxes of a predecessor: reset, adopted or dropped. */
#include "tests/unit/lib/local_fixture.h"

TEST(each_end_is_an_outcome)
{
	static const struct {
		uint32_t end;
		int32_t value;
		enum box_backend_end_reason reason;
		int exit_code;
		int number;
	} rows[] = {
		{BOX_INIT_END_EXIT, 0, BOX_BACKEND_END_EXIT, 0, 0},
		{BOX_INIT_END_EXIT, 255, BOX_BACKEND_END_EXIT, 255, 0},
		{BOX_INIT_END_EXIT, 137, BOX_BACKEND_END_EXIT, 137, 0},
		{BOX_INIT_END_SIGNAL, 9, BOX_BACKEND_END_SIGNAL, 137, 9},
		{BOX_INIT_END_SIGNAL, 15, BOX_BACKEND_END_SIGNAL, 143, 15},
		{BOX_INIT_END_SIGNAL, 64, BOX_BACKEND_END_SIGNAL, 192, 64},
		{BOX_INIT_END_TIMEOUT, 0, BOX_BACKEND_END_TIMEOUT, 0, 0},
		/* a microVM enforces the limit itself */
		{BOX_INIT_END_MEMORY, 137, BOX_BACKEND_END_MEMORY, 137, 9},
	};
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	make_played(&played, 3);
	for (uint32_t i = 0; i < COUNT(rows); i++) {
		struct ran ran = {0};
		begin_plain(&played, &spec, i + 1, &ran);
		say_text(&played, BOX_INIT_STDOUT, i + 1, "so far");
		say_exit(&played, i + 1, rows[i].end, rows[i].value);
		expect_ended(&ran, rows[i].reason, rows[i].exit_code, rows[i].number);
		ASSERT_STR(ran.out, "so far");
	}
	end_played(&played, 3);
	finish();
}

TEST(each_step_that_fails_is_named)
{
	static const struct {
		uint32_t step;
		int32_t errnum;
		uint32_t mount;
		enum box_code code;
		const char *text;
	} rows[] = {
		{BOX_INIT_STEP_REQUEST, EINVAL, 0, BOX_ERR_BOX,
			"the command cannot be started: the request was refused: Invalid argument"},
		{BOX_INIT_STEP_MEMORY, ENOMEM, 0, BOX_ERR_BOX,
			"the command cannot be started: memory for the command: Cannot allocate "
			"memory"},
		{BOX_INIT_STEP_PIPES, EMFILE, 0, BOX_ERR_BOX,
			"the command cannot be started: pipes: Too many open files"},
		{BOX_INIT_STEP_CLONE, EAGAIN, 0, BOX_ERR_BOX,
			"the command cannot be started: a new process: Resource temporarily "
			"unavailable"},
		{BOX_INIT_STEP_MOUNT, ENOTDIR, 1, BOX_ERR_VALIDATION,
			"extra_mounts.mount_path /b cannot be mounted: Not a directory"},
		{BOX_INIT_STEP_MOUNT, EPERM, 2, BOX_ERR_BOX,
			"the command cannot be started: mounts: Operation not permitted"},
		{BOX_INIT_STEP_MOUNTER, ESRCH, 0, BOX_ERR_BOX,
			"the box cannot mount anything more: delete the session and create a new one"},
		{BOX_INIT_STEP_IDS, EPERM, 0, BOX_ERR_BOX,
			"the command cannot be started: user ids: Operation not permitted"},
		{BOX_INIT_STEP_WORKDIR, EACCES, 0, BOX_ERR_VALIDATION,
			"workdir /workspace cannot be used: Permission denied"},
		{BOX_INIT_STEP_CONFINE, EPERM, 0, BOX_ERR_BOX,
			"the command cannot be started: its confinement: Operation not permitted"},
		{BOX_INIT_STEP_EXEC, ENOENT, 0, BOX_ERR_BOX,
			"the command cannot be started: /bin/sh: No such file or directory"},
		{BOX_INIT_STEP_EXEC, 4095, 0, BOX_ERR_BOX,
			"the command cannot be started: /bin/sh: unknown error"},
	};
	static struct box_mount mounts[] = {
		{.host_path = "/h", .mount_path = "/a", .mode = BOX_MOUNT_RO},
		{.host_path = "/h", .mount_path = "/b", .mode = BOX_MOUNT_RO},
	};
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	spec.mounts = mounts;
	spec.mount_count = COUNT(mounts);
	make_played(&played, 3);
	for (uint32_t i = 0; i < COUNT(rows); i++) {
		struct ran ran = {0};
		struct heard heard;
		boxd.mount_count = 0;
		begin(&played, &spec, 1000, &ran);
		for (int at = 0; at < 2; at++) {
			boxd.mounts[at].done(boxd.mounts[at].arg, memory_file(""), NULL);
		}
		for (int at = 0; at < 2; at++) {
			expect(&played, BOX_INIT_MOUNT, i + 1, &heard);
			ASSERT_INT(close(heard.fd), 0);
		}
		expect(&played, BOX_INIT_RUN, i + 1, &heard);
		const struct box_init_exit end = {.end = BOX_INIT_END_FAILED,
			.step = rows[i].step,
			.value = rows[i].errnum,
			.mount = rows[i].mount};
		say(&played, BOX_INIT_EXIT, i + 1, &end, sizeof(end));
		expect_failed(&ran, rows[i].code, rows[i].errnum, rows[i].text);
	}
	end_played(&played, 3);
	finish();
}

/* boxd reports the end of the box before its last packets were read. */
TEST(an_end_that_was_told_counts)
{
	static const struct {
		struct box_init_header header;
		struct box_init_exit end;
	} packet = {{sizeof(packet), BOX_INIT_EXIT, 1, 0}, {.value = 3}};
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran[2] = {{0}};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran[0]);
	begin_plain(&played, &spec, 2, &ran[1]);
	ASSERT_INT(send(played.init, &packet, sizeof(packet), 0), sizeof(packet));
	box_local_gone(local, 3);
	expect_ended(&ran[0], BOX_BACKEND_END_EXIT, 3, 0);
	expect_failed(&ran[1], BOX_ERR_BOX, EPIPE,
		"the box ended while the command ran: its first process has ended");
	backend->ops->destroy(played.box, on_destroyed, &played);
	turn();
	ASSERT_INT(played.destroyed, 1);
	played_close(&played);
	finish();
}

/* --- memory --- */

TEST(a_kill_for_lack_of_memory_is_put_down_to_one_command)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran[5] = {{0}};
	make_played(&played, 3);
	for (uint32_t i = 0; i < COUNT(ran); i++) {
		begin_plain(&played, &spec, i + 1, &ran[i]);
	}
	say_kills(&played, "low 0\nmax 9\noom 3\noom_kill 2\n");
	say_exit(&played, 1, BOX_INIT_END_EXIT, 1);
	expect_ended(&ran[0], BOX_BACKEND_END_EXIT, 1, 0);
	say_exit(&played, 2, BOX_INIT_END_SIGNAL, 15);
	expect_ended(&ran[1], BOX_BACKEND_END_SIGNAL, 143, 15);
	say_exit(&played, 3, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran[2], BOX_BACKEND_END_MEMORY, 137, 9);
	say_exit(&played, 4, BOX_INIT_END_EXIT, 137); /* a shell reports its child's signal */
	expect_ended(&ran[3], BOX_BACKEND_END_MEMORY, 137, 9);
	say_exit(&played, 5, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran[4], BOX_BACKEND_END_SIGNAL, 137, 9);
	end_played(&played, 3);
	finish();
}

TEST(a_kill_before_a_command_began_is_not_its_own)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran[2] = {{0}};
	make_played(&played, 3);
	say_kills(&played, "oom_kill 1\n");
	begin_plain(&played, &spec, 1, &ran[0]);
	say_exit(&played, 1, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran[0], BOX_BACKEND_END_SIGNAL, 137, 9);
	begin_plain(&played, &spec, 2, &ran[1]);
	say_kills(&played, "oom_kill 2\n");
	say_exit(&played, 2, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran[1], BOX_BACKEND_END_MEMORY, 137, 9);
	end_played(&played, 3);
	finish();
}

TEST(a_box_without_limits_has_no_kills)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	(void)backend->ops->make(backend, "b", &spec, on_made, &played);
	played.memory = memory_file("oom_kill 5\n");
	boxd.makes[0].done(boxd.makes[0].arg, 3, new_control(&played), -1, 0, NULL);
	begin_plain(&played, &spec, 1, &ran);
	say_exit(&played, 1, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran, BOX_BACKEND_END_SIGNAL, 137, 9);
	end_played(&played, 3);
	finish();
}

/* --- boxes of a predecessor --- */

static void keep(struct played *played, uint64_t number)
{
	int control = new_control(played);
	played->memory = memory_file("oom_kill 3\n");
	box_local_inherited(local, number, control, another(played->memory), -1, 0);
	expect_packet(played, BOX_INIT_RESET, 0, "", 0);
}

static void adopt(struct played *played, uint64_t number)
{
	played->box = backend->ops->adopt(backend, number);
	ASSERT(played->box != NULL);
	backend->ops->watch(played->box, on_lost, played);
}

TEST(nothing_counts_before_an_adopted_box_is_reset)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	keep(&played, 8);
	adopt(&played, 8);
	ASSERT_INT(backend->ops->mark(played.box), 8);
	say_text(&played, BOX_INIT_STDOUT, 1, "of another life");
	begin_plain(&played, &spec, 1, &ran);
	say_text(&played, BOX_INIT_STDOUT, 1, "of another life");
	say_exit(&played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(ran.calls, 0);
	say(&played, BOX_INIT_RESET_DONE, 0, NULL, 0);
	say_text(&played, BOX_INIT_STDOUT, 1, "mine");
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_STR(ran.out, "mine");
	ASSERT_INT(played.lost, 0);
	end_played(&played, 8);
	finish();
}

TEST(nonsense_before_the_reset_is_nonsense_all_the_same)
{
	start();
	struct played played = {0};
	keep(&played, 8);
	adopt(&played, 8);
	say_raw(&played, "no packet", 9);
	ASSERT_INT(played.lost, 1);
	ASSERT_STR(played.why, "it broke the protocol");
	end_played(&played, 8);
	finish();
}

TEST(kills_of_another_life_are_accounted_for)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran[2] = {{0}};
	keep(&played, 8);
	adopt(&played, 8);
	say(&played, BOX_INIT_RESET_DONE, 0, NULL, 0);
	begin_plain(&played, &spec, 1, &ran[0]);
	begin_plain(&played, &spec, 2, &ran[1]);
	say_kills(&played, "oom_kill 4\n");
	say_exit(&played, 1, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran[0], BOX_BACKEND_END_MEMORY, 137, 9);
	say_exit(&played, 2, BOX_INIT_END_SIGNAL, 9);
	expect_ended(&ran[1], BOX_BACKEND_END_SIGNAL, 137, 9);
	end_played(&played, 8);
	finish();
}

TEST(a_box_is_adopted_once_and_only_by_its_mark)
{
	start();
	struct played played = {0};
	struct played own = {0};
	keep(&played, 8);
	make_played(&own, 9);
	ASSERT(backend->ops->adopt(backend, 7) == NULL);
	ASSERT(backend->ops->adopt(backend, 9) == NULL); /* no predecessor left it */
	adopt(&played, 8);
	ASSERT(backend->ops->adopt(backend, 8) == NULL);
	end_played(&played, 8);
	end_played(&own, 9);
	finish();
}

TEST(boxes_that_nobody_adopts_are_ended)
{
	start();
	struct played played[3] = {{0}};
	for (uint64_t i = 0; i < COUNT(played); i++) {
		keep(&played[i], 10 + i);
	}
	adopt(&played[1], 11);
	box_local_end_inherited(local);
	ASSERT_INT(boxd.end_count, 2);
	ASSERT_INT(boxd.ends[0] + boxd.ends[1], 10 + 12);
	box_local_end_inherited(local);
	ASSERT_INT(boxd.end_count, 2);
	box_local_gone(local, 12);
	box_local_gone(local, 10);
	turn();
	ASSERT(backend->ops->adopt(backend, 10) == NULL);
	end_played(&played[1], 11);
	played_close(&played[0]);
	played_close(&played[2]);
	finish();
}

TEST(a_box_that_ends_before_it_is_adopted_is_no_more)
{
	start();
	struct played played[2] = {{0}};
	keep(&played[0], 8);
	keep(&played[1], 9);
	box_local_gone(local, 8);
	init_ends(&played[1]);
	ASSERT(backend->ops->adopt(backend, 8) == NULL);
	ASSERT(backend->ops->adopt(backend, 9) == NULL);
	box_local_end_inherited(local);
	ASSERT_INT(boxd.end_count, 1);
	ASSERT_INT(boxd.ends[0], 9);
	box_local_gone(local, 9);
	turn();
	played_close(&played[0]);
	played_close(&played[1]);
	finish();
}
