/* box-init as PID 1 of a box: mounts of managed processes and of file work, which no other process
 * sees. Needs root. */
#include "tests/unit/lib/init_box.h"
#include "tests/unit/lib/init_file_fixture.h"
#include "tests/unit/lib/init_process_fixture.h"

static const char posture[] = "grep -E '^(Uid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status; "
			      "ls /proc/self/fd";
static const char expected_posture[] = "Uid:\t1000\t1000\t1000\t1000\nGroups:\t \n"
				       "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
				       "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
				       "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
				       "0\n1\n2\n3\n";

/* A folder of its own name each time, with that name in its file. */
static const char *source_of(uint32_t id, const char *name)
{
	char own[64];
	(void)snprintf(own, sizeof(own), "%s%u", name, id);
	return make_source(own);
}

static void mount_for(uint32_t id, const char *target, const char *name)
{
	send_mount(
		&child, id | BOX_INIT_MOUNT_OF_PROCESS, target, detach(source_of(id, name), false));
}

static void keep_with(uint32_t id, uint32_t mounts, const char *script)
{
	keep_mounts = mounts;
	keep(id, script);
	keep_mounts = 0;
}

static void expect_all(uint32_t id, const char *text)
{
	follow(id, 0, 0, ENDLESS, HOLD);
	wait_ended(id, BOX_INIT_END_EXIT, 0);
	WAIT_FOR(told[id].next == told[id].state.out_end);
	expect_out(id, text);
}

TEST(a_process_sees_its_mounts_and_nobody_else_does)
{
	start_box(&child);
	char path[200];
	mount_for(5, "/vol/a", "one");
	(void)snprintf(path, sizeof(path), "%s/one5/new", folder);
	mount_for(5, "/workspace/b", "two");
	keep_with(5, 2,
		"cat /vol/a/file /workspace/b/file; echo more >/vol/a/new; stat -c %u /vol/a/new");
	expect_all(5, "one5\ntwo5\n1000\n");
	ASSERT_INT(access(path, F_OK), 0);
	ASSERT_OUT(
		run_one(&child, 5,
			(struct asked){
				.command =
					"cat /vol/a/file /workspace/b/file 2>/dev/null; exit 0"}),
		"");
	keep(6, "cat /vol/a/file /workspace/b/file 2>/dev/null; exit 0");
	expect_all(6, "");
	stop_child(&child);
}

TEST(it_has_the_rights_of_a_command)
{
	start_box(&child);
	mount_for(5, "/vol", "one");
	keep_with(5, 1, posture);
	expect_all(5, expected_posture);
	stop_child(&child);
}

TEST(mounts_that_are_missing)
{
	start_box(&child);
	keep_with(5, 1, "echo started");
	wait_ended(5, BOX_INIT_END_FAILED, EINVAL);
	ASSERT_INT(told[5].state.step, BOX_INIT_STEP_REQUEST);
	mount_for(6, "/vol", "one");
	keep_with(6, 2, "echo started");
	wait_ended(6, BOX_INIT_END_FAILED, EINVAL);
	/* A target where no mount is possible. */
	mount_for(7, "/proc/self", "two");
	keep_with(7, 1, "echo started");
	WAIT_FOR(told[7].state.phase == BOX_INIT_PROCESS_ENDED);
	ASSERT_INT(told[7].state.end, BOX_INIT_END_FAILED);
	ASSERT_INT(told[7].state.step, BOX_INIT_STEP_MOUNT);
	/* The box still works. */
	mount_for(8, "/vol", "three");
	keep_with(8, 1, "cat /vol/file");
	expect_all(8, "three8\n");
	stop_child(&child);
}

/* Requests that come before it has a process are applied, too. */
TEST(asked_for_while_it_mounts)
{
	start_box(&child);
	for (uint32_t id = 10; id < 20; id++) {
		mount_for(id, "/vol", "one");
		keep_with(id, 1, "cat; cat /vol/file; sleep 1000");
		send_kind(&child, BOX_INIT_QUERY_PROCESS, id, NULL, 0);
		feed(id, 0, "in\n", 3);
		feed(id, 3, NULL, 0);
		follow(id, 0, 0, ENDLESS, HOLD);
	}
	for (uint32_t id = 10; id < 20; id++) {
		char text[16];
		(void)snprintf(text, sizeof(text), "in\none%u\n", id);
		WAIT_FOR(told[id].next == strlen(text));
		expect_out(id, text);
		halt(id, 60000);
		wait_ended(id, BOX_INIT_END_SIGNAL, 15);
	}
	/* Ended before or just when it started. */
	for (uint32_t id = 20; id < 30; id++) {
		mount_for(id, "/vol", "one");
		keep_with(id, 1, "sleep 1000");
		halt(id, 60000);
		WAIT_FOR(told[id].state.phase == BOX_INIT_PROCESS_ENDED);
		ASSERT_INT(told[id].state.end, BOX_INIT_END_SIGNAL);
	}
	for (uint32_t id = 30; id < 40; id++) {
		mount_for(id, "/vol", "one");
		keep_with(id, 1, "exec sleep 1000");
		drop(id);
	}
	const char *none = "i=0; while pgrep -x sleep && [ $i -lt 100 ]; do sleep 0.1; i=$((i+1)); "
			   "done >/dev/null; [ $i -lt 100 ] && echo gone";
	ASSERT_OUT(run_one(&child, 3, (struct asked){.command = none}), "gone\n");
	stop_child(&child);
}

/* Of ten at once most wait for the mounter when their time is over, while timers of others run. */
TEST(killed_before_it_began)
{
	start_box(&child);
	for (uint32_t id = 10; id < 20; id++) {
		mount_for(id, "/vol", "one");
		keep_with(id, 1, "trap '' TERM; sleep 1000");
		halt(id, 0);
	}
	for (uint32_t id = 10; id < 20; id++) {
		WAIT_FOR(told[id].state.phase == BOX_INIT_PROCESS_ENDED);
		ASSERT_INT(told[id].state.end, BOX_INIT_END_SIGNAL);
	}
	stop_child(&child);
}

/* Refused, because there is a process of that number already. */
TEST(mounts_of_one_that_is_not_started_go)
{
	int ends[2];
	char none;
	start_box(&child);
	keep(5, "sleep 1000");
	ASSERT_INT(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	send_mount(&child, 5 | BOX_INIT_MOUNT_OF_PROCESS, "/vol", ends[1]);
	keep_with(5, 1, "true");
	ASSERT_OUT(run_one(&child, 3, (struct asked){.command = "echo on"}), "on\n");
	ASSERT_INT(read(ends[0], &none, 1), 0);
	ASSERT_INT(close(ends[0]), 0);
	stop_child(&child);
}

/* RESET ends commands, but not processes that are being started. */
TEST(a_reset_meanwhile)
{
	start_box(&child);
	mount_for(5, "/vol", "one");
	keep_with(5, 1, "cat /vol/file; sleep 1000");
	mount_for(6, "/vol", "two"); /* its START_PROCESS never arrives */
	send_kind(&child, BOX_INIT_RESET, 0, NULL, 0);
	follow(5, 0, 0, ENDLESS, HOLD);
	WAIT_FOR(told[5].next == 5);
	expect_out(5, "one5\n");
	ASSERT(reset_done);
	keep_with(6, 1, "true");
	wait_ended(6, BOX_INIT_END_FAILED, EINVAL);
	stop_child(&child);
}

/* A cgroup and mounts together. */
TEST(in_a_group_of_its_own)
{
	char text[8] = "";
	start_box(&child);
	int procs_fd = memfd_create("cgroup.procs", MFD_CLOEXEC);
	mount_for(5, "/vol", "one");
	keep_mounts = 1;
	keep_in(5, "cat /vol/file; ls /proc/self/fd", procs_fd);
	keep_mounts = 0;
	expect_all(5, "one5\n0\n1\n2\n3\n");
	ASSERT_INT(pread(procs_fd, text, sizeof(text), 0), 1);
	ASSERT_STR(text, "0");
	/* A cgroup that cannot be entered: the process is not started. */
	int bad = open("/dev/null", O_RDONLY | O_CLOEXEC);
	mount_for(6, "/vol", "two");
	keep_mounts = 1;
	keep_in(6, "true", bad);
	keep_mounts = 0;
	wait_ended(6, BOX_INIT_END_FAILED, EBADF);
	ASSERT_INT(told[6].state.step, BOX_INIT_STEP_CGROUP);
	stop_child(&child);
}

/* --- files --- */

static struct outcome *file_with(uint32_t id, uint32_t kind, const char *path, const char *source)
{
	struct asked asked = file_of(kind, path);
	asked.mounts = source != NULL;
	forget(id);
	if (source) {
		send_mount(&child, id, "/vol/a", detach(source, false));
	}
	ask(&child, id, asked);
	return collect(&child, id);
}

static int errnum_of(const struct outcome *outcome)
{
	return answer_of(outcome).errnum;
}

TEST(work_on_files_sees_mounts)
{
	start_box(&child);
	char source[128];
	(void)snprintf(source, sizeof(source), "%s", make_source("one"));
	struct outcome *outcome = file_with(1, BOX_INIT_FILE_READ, "vol/a/file", source);
	ASSERT_END(outcome, BOX_INIT_END_EXIT, 0);
	ASSERT_OUT(outcome, "one\n");
	ASSERT_INT(errnum_of(outcome), 0);
	ASSERT_INT(errnum_of(file_with(2, BOX_INIT_FILE_MKDIR, "vol/a/d", source)), 0);
	char path[200];
	struct stat st;
	(void)snprintf(path, sizeof(path), "%s/d", source);
	ASSERT_INT(stat(path, &st), 0);
	ASSERT_INT(st.st_uid, payload_outside());
	ASSERT_INT(errnum_of(file_with(3, BOX_INIT_FILE_READ, "vol/a/file", NULL)), ENOENT);
	ASSERT_INT(errnum_of(file_with(4, BOX_INIT_FILE_READ, "vol/a/none", source)), ENOENT);
	ASSERT_INT(errnum_of(file_with(5, BOX_INIT_FILE_READ, "proc/1/environ", source)), EACCES);
	stop_child(&child);
}

TEST(work_on_files_whose_mounts_fail)
{
	start_box(&child);
	struct asked asked = {
		.command = "x", .env = no_env, .flags = BOX_INIT_RUN_FILE, .mounts = 1};
	forget(1);
	send_mount(&child, 1, "/vol", detach(make_source("one"), false));
	ask(&child, 1, asked);
	ASSERT_END(collect(&child, 1), BOX_INIT_END_FAILED, EBADMSG);
	/* A folder cannot be mounted over a file. */
	ASSERT_OUT(run_one(&child, 2,
			   (struct asked){.command = "mkdir -p /workspace/v; : >/workspace/v/a"}),
		"");
	static char command[sizeof(struct box_init_file) + 8];
	struct box_init_file file = {.kind = BOX_INIT_FILE_STAT, .sizes = {2, 1, 1, 1}};
	memcpy(command, &file, sizeof(file));
	memcpy(command + sizeof(file), "/\0\0\0", 5);
	asked.command = command;
	asked.command_size = sizeof(file) + 5;
	forget(3);
	send_mount(&child, 3, "/workspace/v/a", detach(make_source("two"), false));
	ask(&child, 3, asked);
	struct outcome *outcome = collect(&child, 3);
	ASSERT_INT(outcome->end.end, BOX_INIT_END_FAILED);
	ASSERT_INT(outcome->end.step, BOX_INIT_STEP_MOUNT);
	stop_child(&child);
}
