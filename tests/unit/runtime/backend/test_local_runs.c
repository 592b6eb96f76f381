/* Commands through the local backend: requests to box-init, mounts, refusals, and cancelling. */
#include <fcntl.h>
#include <sys/resource.h>

#include "tests/unit/lib/local_fixture.h"

/* --- what init is asked --- */

#define PATH_PAIR "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\0"
#define OTHER_PAIRS "USER=box\0LOGNAME=box\0SHELL=/bin/sh\0LANG=C.UTF-8\0PYTHONUNBUFFERED=1\0"

TEST(a_command_is_asked_for_exactly)
{
	static const char env[] = PATH_PAIR "HOME=/home/box\0" OTHER_PAIRS;
	static const char body[] = PATH_PAIR "HOME=/home/box\0" OTHER_PAIRS "/workspace\0echo hi";
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("echo hi");
	struct ran ran = {0};
	struct heard heard;
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	struct box_init_run run;
	ASSERT(heard.size >= sizeof(run));
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.flags, 0);
	ASSERT_INT(run.env_count, 7);
	ASSERT_INT(run.env_size, sizeof(env) - 1);
	ASSERT_INT(run.workdir_size, sizeof("/workspace"));
	ASSERT_INT(run.command_size, strlen("echo hi"));
	ASSERT_INT(run.mount_count, 0);
	ASSERT_INT(run.timeout_ms, 30000);
	ASSERT_INT(run.output_limit, 1000);
	ASSERT(run.credit == UINT64_MAX / 2);
	ASSERT_BYTES(heard.bytes + sizeof(run), heard.size - sizeof(run), body, sizeof(body) - 1);
	expect_silence(&played);
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 0, 0);
	end_played(&played, 3);
	finish();
}

TEST(the_environment_of_a_spec_comes_over_ours)
{
	static const char body[] = PATH_PAIR OTHER_PAIRS "HOME=/x\0A=1\0PATHS=\0/workspace\0true";
	struct box_env env[] = {{"HOME", "/x"}, {"A", "1"}, {"PATHS", ""}};
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	struct heard heard;
	spec.env = env;
	spec.env_count = COUNT(env);
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.env_count, 9);
	ASSERT_BYTES(heard.bytes + sizeof(run), heard.size - sizeof(run), body, sizeof(body) - 1);
	backend->ops->cancel(ran.op);
	end_played(&played, 3);
	finish();
}

TEST(a_long_command_goes_in_pieces_and_in_order)
{
	static char cmd[BOX_MIB + 1];
	static char whole[2 * BOX_MIB];
	for (size_t i = 0; i < BOX_MIB; i++) {
		cmd[i] = (char)('a' + i % 23);
	}
	start();
	struct played played = {0};
	struct box_spec spec = spec_of(cmd);
	struct ran ran = {0};
	struct heard heard;
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	ASSERT_INT(heard.size, BOX_INIT_BYTES_MAX);
	/* The socket has room now, but KILL queues behind earlier packets. */
	backend->ops->cancel(ran.op);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.command_size, BOX_MIB);
	size_t before = run.env_size + run.workdir_size;
	size_t len = heard.size - sizeof(run);
	memcpy(whole, heard.bytes + sizeof(run), len);
	int more = 0;
	while (len < before + BOX_MIB) {
		expect(&played, BOX_INIT_MORE, 1, &heard);
		memcpy(whole + len, heard.bytes, heard.size);
		len += heard.size;
		more++;
	}
	ASSERT_INT(len, before + BOX_MIB);
	ASSERT_INT(more, BOX_MIB / BOX_INIT_BYTES_MAX);
	ASSERT(memcmp(whole + before, cmd, BOX_MIB) == 0);
	expect_packet(&played, BOX_INIT_KILL, 1, "", 0);
	expect_silence(&played);
	end_played(&played, 3);
	finish();
}

/* --- mounts --- */

static struct box_mount two_mounts[] = {
	{.host_path = "/srv/a", .mount_path = "/data/a", .mode = BOX_MOUNT_RO},
	{.host_path = "/srv/b", .mount_path = "/data/b", .mode = BOX_MOUNT_RW},
};

static struct box_spec mounting(const char *cmd)
{
	struct box_spec spec = spec_of(cmd);
	spec.mounts = two_mounts;
	spec.mount_count = COUNT(two_mounts);
	return spec;
}

/* Answers mount number `at` with a file of its own; returns its inode. */
static ino_t boxd_mounted(int at)
{
	struct stat st;
	int fd = memory_file("mount");
	ASSERT_INT(fstat(fd, &st), 0);
	boxd.mounts[at].done(boxd.mounts[at].arg, fd, NULL);
	return st.st_ino;
}

static void expect_mount(struct played *played, const char *target, ino_t inode)
{
	struct heard heard;
	struct stat st;
	expect(played, BOX_INIT_MOUNT, 1, &heard);
	ASSERT_BYTES(heard.bytes, heard.size, target, strlen(target) + 1);
	ASSERT_INT(fstat(heard.fd, &st), 0);
	ASSERT_INT(st.st_ino, inode);
	ASSERT_INT(close(heard.fd), 0);
}

TEST(mounts_are_opened_one_after_the_other_and_sent_first)
{
	start();
	struct played played = {0};
	struct box_spec spec = mounting("true");
	struct ran ran = {0};
	struct heard heard;
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	ASSERT_INT(boxd.mount_count, 1);
	ASSERT_INT(boxd.mounts[0].box, 3);
	ASSERT_STR(boxd.mounts[0].path, "/srv/a");
	ASSERT(boxd.mounts[0].read_only);
	ino_t first = boxd_mounted(0);
	ASSERT_INT(boxd.mount_count, 2);
	ASSERT_STR(boxd.mounts[1].path, "/srv/b");
	ASSERT(!boxd.mounts[1].read_only);
	expect_silence(&played);
	ino_t second = boxd_mounted(1);
	expect_mount(&played, "/data/a", first);
	expect_mount(&played, "/data/b", second);
	expect(&played, BOX_INIT_RUN, 1, &heard);
	struct box_init_run run;
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.mount_count, 2);
	say_exit(&played, 1, BOX_INIT_END_EXIT, 0);
	expect_ended(&ran, BOX_BACKEND_END_EXIT, 0, 0);
	end_played(&played, 3);
	finish();
}

TEST(a_mount_that_boxd_refuses_ends_the_command)
{
	start();
	struct played played = {0};
	struct box_spec spec = mounting("true");
	struct ran ran = {0};
	struct box_err err;
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	(void)boxd_mounted(0);
	(void)box_err_set(&err, BOX_ERR_VALIDATION, EPERM, "/srv/b is not allowed");
	boxd.mounts[1].done(boxd.mounts[1].arg, -1, &err);
	expect_failed(&ran, BOX_ERR_VALIDATION, EPERM, "/srv/b is not allowed");
	expect_silence(&played);
	end_played(&played, 3);
	finish();
}

/* Many commands with many mounts must not use up the fds that others need. */
TEST(a_mount_that_would_take_the_last_files_is_not_kept)
{
	start();
	struct played played = {0};
	struct box_spec spec = mounting("true");
	struct ran ran = {0};
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	(void)boxd_mounted(0);
	const struct rlimit few = {100, 100};
	int low = memory_file("mount");
	int high = fcntl(low, F_DUPFD_CLOEXEC, 76);
	ASSERT(high > 75);
	ASSERT_INT(close(low), 0);
	ASSERT_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
	boxd.mounts[1].done(boxd.mounts[1].arg, high, NULL);
	expect_failed(&ran, BOX_ERR_CAPACITY, EMFILE,
		"too many files are open for mounts of other commands; try again later");
	ASSERT_INT(fcntl(high, F_GETFD), -1);
	expect_silence(&played);
	end_played(&played, 3);
	finish();
}

TEST(a_command_cancelled_while_it_waits_for_a_mount_is_never_sent)
{
	start();
	struct played played = {0};
	struct box_spec spec = mounting("true");
	struct ran ran[2] = {{0}};
	struct box_err err;
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran[0]);
	begin(&played, &spec, 1000, &ran[1]);
	backend->ops->cancel(ran[0].op);
	backend->ops->cancel(ran[1].op);
	memset(&spec, 0, sizeof(spec)); /* the caller's spec is freed by now */
	(void)boxd_mounted(0);
	(void)box_err_set(&err, BOX_ERR_VALIDATION, EPERM, "refused");
	boxd.mounts[1].done(boxd.mounts[1].arg, -1, &err);
	ASSERT_INT(boxd.mount_count, 2);
	expect_silence(&played);
	ASSERT_INT(ran[0].calls + ran[1].calls, 0);
	end_played(&played, 3);
	finish();
}

TEST(a_box_lost_while_a_mount_is_opened_waits_for_the_answer)
{
	start();
	struct played played = {0};
	struct box_spec spec = mounting("true");
	struct ran ran = {0};
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	init_ends(&played);
	ASSERT_INT(played.lost, 1);
	ASSERT_INT(ran.calls, 0);
	backend->ops->destroy(played.box, on_destroyed, &played);
	box_local_gone(local, 3);
	turn();
	ASSERT_INT(played.destroyed, 0);
	(void)boxd_mounted(0);
	expect_failed(&ran, BOX_ERR_BOX, EPIPE, "the box has ended");
	turn();
	ASSERT_INT(played.destroyed, 1);
	played_close(&played);
	finish();
}

TEST(more_mounts_than_init_takes_are_refused)
{
	static struct box_mount mounts[BOX_INIT_MOUNTS_MAX + 1];
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	struct ran ran = {0};
	spec.mounts = mounts;
	spec.mount_count = COUNT(mounts);
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	turn();
	expect_failed(&ran, BOX_ERR_VALIDATION, E2BIG, "extra_mounts has more than 256 members");
	ASSERT_INT(boxd.mount_count, 0);
	expect_silence(&played);
	end_played(&played, 3);
	finish();
}

TEST(a_mount_over_the_system_is_refused_before_boxd_is_asked)
{
	static const struct {
		const char *target;
		const char *text;
	} rows[] = {
		{"/etc/x",
			"extra_mounts.mount_path /etc/x is part of the box's system folder "
			"/etc"},
		{"/", "extra_mounts.mount_path must not be the root of the box"},
		{"/home", "extra_mounts.mount_path /home would hide the home folder /home/box"},
	};
	start();
	struct played played = {0};
	make_played(&played, 3);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_mount mounts[] = {
			{.host_path = "/srv/a", .mount_path = "/data/a", .mode = BOX_MOUNT_RO},
			{.host_path = "/srv/b", .mount_path = rows[i].target, .mode = BOX_MOUNT_RO},
		};
		struct box_spec spec = spec_of("true");
		struct ran ran = {0};
		spec.mounts = mounts;
		spec.mount_count = COUNT(mounts);
		begin(&played, &spec, 1000, &ran);
		turn();
		expect_failed(&ran, BOX_ERR_VALIDATION, EINVAL, rows[i].text);
	}
	ASSERT_INT(boxd.mount_count, 0);
	expect_silence(&played);
	end_played(&played, 3);
	finish();
}

TEST(more_variables_than_init_takes_are_refused)
{
	static struct box_env env[BOX_INIT_ENV_MAX];
	for (size_t i = 0; i < COUNT(env); i++) {
		env[i] = (struct box_env){"A", "1"};
	}
	start();
	struct played played = {0};
	struct box_spec spec = mounting("true");
	struct ran ran = {0};
	spec.mount_count = 0;
	spec.env = env;
	spec.env_count = COUNT(env);
	make_played(&played, 3);
	begin(&played, &spec, 1000, &ran);
	/* Not from inside the call: the caller does not have the op yet. */
	ASSERT_INT(ran.calls, 0);
	turn();
	expect_failed(&ran, BOX_ERR_VALIDATION, E2BIG,
		"cmd and env are too long together, or env has too many members");
	expect_silence(&played);
	end_played(&played, 3);
	finish();
}

/* --- cancelling and crowds --- */

TEST(a_cancelled_command_is_killed_and_its_end_swallowed)
{
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("sleep 100");
	struct ran ran[2] = {{0}};
	make_played(&played, 3);
	begin_plain(&played, &spec, 1, &ran[0]);
	backend->ops->cancel(ran[0].op);
	memset(&spec, 0, sizeof(spec));
	expect_packet(&played, BOX_INIT_KILL, 1, "", 0);
	say_text(&played, BOX_INIT_STDOUT, 1, "late");
	const struct box_init_exit failed = {
		.end = BOX_INIT_END_FAILED, .step = BOX_INIT_STEP_WORKDIR, .value = ENOENT};
	say(&played, BOX_INIT_EXIT, 1, &failed, sizeof(failed));
	ASSERT_INT(ran[0].calls, 0);
	spec = spec_of("true");
	begin_plain(&played, &spec, 2, &ran[1]);
	say_exit(&played, 2, BOX_INIT_END_EXIT, 0);
	expect_ended(&ran[1], BOX_BACKEND_END_EXIT, 0, 0);
	ASSERT_INT(played.lost, 0);
	end_played(&played, 3);
	finish();
}

TEST(a_box_has_room_for_512_commands)
{
	static struct ran ran[BOX_INIT_RUNS_MAX + 2];
	start();
	struct played played = {0};
	struct box_spec spec = spec_of("true");
	make_played(&played, 3);
	for (uint32_t i = 0; i < BOX_INIT_RUNS_MAX; i++) {
		begin_plain(&played, &spec, i + 1, &ran[i]);
	}
	begin(&played, &spec, 1000, &ran[BOX_INIT_RUNS_MAX]);
	turn();
	expect_failed(&ran[BOX_INIT_RUNS_MAX], BOX_ERR_CAPACITY, EAGAIN,
		"too many commands at once in one session (512)");
	expect_silence(&played);
	say_exit(&played, 7, BOX_INIT_END_EXIT, 0);
	begin_plain(&played, &spec, BOX_INIT_RUNS_MAX + 2, &ran[BOX_INIT_RUNS_MAX + 1]);
	init_ends(&played);
	for (uint32_t i = 0; i < COUNT(ran); i++) {
		ASSERT_INT(ran[i].calls, 1);
	}
	end_played(&played, 3);
	finish();
}
