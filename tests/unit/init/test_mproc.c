/* Managed processes in box-init, from START_PROCESS to FORGET_PROCESS: how they start and end, and
 * their input. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/unit/lib/init_process_fixture.h"

/* --- beginning and end --- */

TEST(ends)
{
	static const struct {
		const char *script;
		uint32_t end;
		int value;
		const char *out;
		const char *err;
	} table[] = {
		{"exit 0", BOX_INIT_END_EXIT, 0, "", ""},
		{"echo out; echo err >&2; exit 3", BOX_INIT_END_EXIT, 3, "out\n", "err\n"},
		{"echo x; kill -9 $$", BOX_INIT_END_SIGNAL, 9, "x\n", ""},
		{"kill -TERM $$", BOX_INIT_END_SIGNAL, 15, "", ""},
		{"printf 'no end'", BOX_INIT_END_EXIT, 0, "no end", ""},
	};
	start_child(&child);
	for (uint32_t i = 0; i < COUNT(table); i++) {
		keep(i + 1, table[i].script);
		WAIT_FOR(told[i + 1].states > 0);
		follow(i + 1, 0, 0, ENDLESS, HOLD);
		wait_ended(i + 1, table[i].end, table[i].value);
		WAIT_FOR(told[i + 1].next == told[i + 1].state.out_end);
		expect_out(i + 1, table[i].out);
		ASSERT_STR(told[i + 1].err, table[i].err);
	}
	/* They are kept: reporting an end does not forget the process. */
	for (uint32_t i = 0; i < COUNT(table); i++) {
		ASSERT_INT(look(i + 1)->end, table[i].end);
		ASSERT_STR(told[i + 1].err, table[i].err);
		follow(i + 1, 0, 0, ENDLESS, HOLD);
		WAIT_FOR(told[i + 1].next == told[i + 1].state.out_end);
		expect_out(i + 1, table[i].out);
		drop(i + 1);
	}
	stop_child(&child);
}

/* --- a group of its own --- */

static int procs_file(const char *text)
{
	int fd = memfd_create("cgroup.procs", MFD_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, text, strlen(text)), strlen(text));
	ASSERT_INT(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

/* It enters its cgroup before its program starts; no program inherits the cgroup.procs fd. */
TEST(goes_into_its_group_first)
{
	char text[8] = "";
	start_child(&child);
	int procs_fd = procs_file("");
	const char *look_for_it = "for fd in /proc/self/fd/*; do readlink $fd; done | "
				  "grep -c memfd; exit 4";
	keep_in(1, look_for_it, procs_fd);
	follow(1, 0, 0, ENDLESS, HOLD);
	wait_ended(1, BOX_INIT_END_EXIT, 4);
	WAIT_FOR(told[1].next == told[1].state.out_end);
	expect_out(1, "0\n");
	ASSERT_INT(pread(procs_fd, text, sizeof(text), 0), 1);
	ASSERT_STR(text, "0");
	keep(2, look_for_it);
	follow(2, 0, 0, ENDLESS, HOLD);
	wait_ended(2, BOX_INIT_END_EXIT, 4);
	WAIT_FOR(told[2].next == told[2].state.out_end);
	expect_out(2, "0\n");
	/* A start that is ignored closes its fd, too. */
	keep_in(2, "exit 5", procs_fd);
	ASSERT_INT(look(2)->value, 4);
	ASSERT_INT(pread(procs_fd, text, sizeof(text), 0), 1);
	drop(1);
	drop(2);
	(void)close(procs_fd);
	stop_child(&child);
}

TEST(does_not_start_without_its_group)
{
	start_child(&child);
	int procs_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ASSERT(procs_fd >= 0);
	keep_in(1, "touch /tmp/box-test-started", procs_fd);
	wait_ended(1, BOX_INIT_END_FAILED, EBADF);
	ASSERT_INT(told[1].state.step, BOX_INIT_STEP_CGROUP);
	ASSERT_INT(access("/tmp/box-test-started", F_OK), -1);
	(void)close(procs_fd);
	drop(1);
	stop_child(&child);
}

/* A cgroup fd that is missing or not expected fails the start with an answer. */
TEST(malformed_beginnings)
{
	static const struct box_init_start_process keep_none = {0, 0, 0, 2, 2};
	char bytes[sizeof(keep_none) + 4];
	memcpy(bytes, &keep_none, sizeof(keep_none));
	memcpy(bytes + sizeof(keep_none), "/\0x", 4);
	start_child(&child);
	send_kind(&child, BOX_INIT_START_PROCESS_IN, 1, bytes, sizeof(bytes));
	wait_ended(1, BOX_INIT_END_FAILED, EBADMSG);
	ASSERT_INT(told[1].state.step, BOX_INIT_STEP_REQUEST);
	int procs_fd = procs_file("");
	struct {
		struct box_init_header header;
		char bytes[sizeof(bytes)];
	} packet = {.header = {.size = sizeof(packet), .kind = BOX_INIT_START_PROCESS, .id = 2}};
	memcpy(packet.bytes, bytes, sizeof(bytes));
	send_bytes(&child, &packet, sizeof(packet), procs_fd);
	wait_ended(2, BOX_INIT_END_FAILED, EBADMSG);
	/* An existing process is not affected. */
	keep(3, "sleep 1000");
	WAIT_FOR(told[3].states > 0);
	send_kind(&child, BOX_INIT_START_PROCESS_IN, 3, bytes, sizeof(bytes));
	ASSERT_INT(look(3)->phase, BOX_INIT_PROCESS_RUNNING);
	(void)close(procs_fd);
	for (uint32_t id = 1; id <= 3; id++) {
		drop(id);
	}
	stop_child(&child);
}

TEST(a_program_that_is_not_there)
{
	static const struct {
		const char *program;
		const char *workdir;
		uint32_t step;
		int errnum;
	} table[] = {
		{"nosuch", "/", BOX_INIT_STEP_EXEC, ENOENT},
		{"/nosuch/x", "/", BOX_INIT_STEP_EXEC, ENOENT},
		{"/tmp", "/", BOX_INIT_STEP_EXEC, EACCES},
		{"true", "/dev/null", BOX_INIT_STEP_WORKDIR, ENOTDIR},
	};
	start_child(&child);
	for (uint32_t i = 0; i < COUNT(table); i++) {
		keep_args(i + 1, table[i].program, strlen(table[i].program) + 1, table[i].workdir,
			"PATH=/usr/bin:/bin");
		wait_ended(i + 1, BOX_INIT_END_FAILED, table[i].errnum);
		ASSERT_INT(told[i + 1].state.step, table[i].step);
		ASSERT_INT(told[i + 1].state.out_end, 0);
		drop(i + 1);
	}
	stop_child(&child);
}

TEST(searched_for_in_its_own_path)
{
	char folder[] = "/tmp/kept-XXXXXX";
	char path[64];
	char env[64];
	start_child(&child);
	ASSERT(mkdtemp(folder) != NULL);
	(void)snprintf(path, sizeof(path), "%s/hello", folder);
	(void)snprintf(env, sizeof(env), "PATH=/nosuch:%s:/bin", folder);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	ASSERT_INT(write(fd, "#!/bin/sh\necho \"$0 $1\"\n", 23), 23);
	ASSERT_INT(close(fd), 0);
	keep_args(1, "hello\0word", 11, "/", env);
	follow(1, 0, 0, ENDLESS, HOLD);
	wait_ended(1, BOX_INIT_END_EXIT, 0);
	char said[80];
	(void)snprintf(said, sizeof(said), "%s word\n", path);
	expect_out(1, said);
	/* Not in the PATH of others; not executable is a different error than not found. */
	keep_args(2, "hello", 6, "/", "PATH=/usr/bin:/bin");
	wait_ended(2, BOX_INIT_END_FAILED, ENOENT);
	ASSERT_INT(chmod(path, 0644), 0);
	keep_args(3, "hello", 6, "/", env);
	wait_ended(3, BOX_INIT_END_FAILED, EACCES);
	ASSERT_INT(unlink(path), 0);
	ASSERT_INT(rmdir(folder), 0);
	stop_child(&child);
}

/* A background process of a managed process does not delay its end; other process groups are not
 * affected. */
TEST(what_it_started)
{
	start_child(&child);
	keep(1, "sleep 1000 & echo here; exit 4");
	wait_ended(1, BOX_INIT_END_EXIT, 4);
	ASSERT_INT(told[1].state.out_end, 5);
	/* A background process that writes into both pipes without pause. */
	keep(2, "setsid sh -c 'yes & exec yes >&2' & sleep 0.2; exit 5");
	WAIT_FOR(told[2].state.phase == BOX_INIT_PROCESS_ENDED);
	ASSERT_INT(told[2].state.value, 5);
	ASSERT_INT(told[2].err_len, BOX_INIT_STDERR_TAIL_MAX);
	follow(2, 0, 0, ENDLESS, BOX_INIT_OUTPUT_HELD_MAX);
	WAIT_FOR(told[2].state.out_ended && told[2].next == told[2].state.out_end);
	ASSERT(told[2].next <= 4 * HOLD);
	ASSERT_INT(look(1)->value, 4);
	stop_child(&child);
}

/* --- input --- */

TEST(input_with_offsets)
{
	start_child(&child);
	keep(1, "exec cat");
	follow(1, 0, 0, ENDLESS, HOLD);
	feed(1, 0, "abc", 3);
	WAIT_FOR(told[1].next == 3 && told[1].fed == 3);
	feed(1, 0, "abc", 3); /* again */
	feed(1, 1, "bcd", 3); /* one more byte */
	feed(1, 6, "x", 1);   /* a gap */
	feed(1, 5, "", 0);    /* an end at the wrong offset */
	feed(1, 4, "e", 1);
	WAIT_FOR(told[1].next == 5 && told[1].fed == 5);
	expect_out(1, "abcde");
	ASSERT_INT(look(1)->in_have, 5);
	ASSERT_INT(told[1].state.in_taken, 5);
	ASSERT_INT(told[1].state.phase, BOX_INIT_PROCESS_RUNNING);
	ASSERT_INT(told[1].state.in_ended, 0);
	feed(1, 5, "", 0);
	wait_ended(1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(told[1].state.in_ended, 1);
	ASSERT_INT(told[1].next, 5);
	feed(1, 5, "late", 4);
	ASSERT_INT(look(1)->phase, BOX_INIT_PROCESS_ENDED);
	stop_child(&child);
}

TEST(input_that_is_not_taken_waits)
{
	enum {
		COUNT = 20
	};
	static char bytes[32 * 1024];
	memset(bytes, 'i', sizeof(bytes));
	start_child(&child);
	keep(1, "read x; wc -c");
	follow(1, 0, 0, ENDLESS, HOLD);
	for (uint64_t i = 0; i < COUNT; i++) { /* more than the largest pipe */
		feed(1, i * sizeof(bytes), bytes, sizeof(bytes));
	}
	ASSERT_INT(look(1)->in_have, COUNT * sizeof(bytes));
	ASSERT(told[1].state.in_taken < COUNT * sizeof(bytes));
	feed(1, COUNT * sizeof(bytes), "\nrest", 5);
	feed(1, COUNT * sizeof(bytes) + 5, "", 0);
	wait_ended(1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(told[1].fed, COUNT * sizeof(bytes) + 5);
	expect_out(1, "4\n");
	stop_child(&child);
}

/* Nobody reads its input any more: it is discarded, and the sender need not wait. */
TEST(input_that_nobody_will_take)
{
	static char bytes[32 * 1024];
	start_child(&child);
	keep(1, "exec <&-; exec sleep 1000");
	while (told[1].fed < 5 * sizeof(bytes)) {
		for (uint64_t i = 0; i < 5; i++) {
			feed(1, i * sizeof(bytes), bytes, sizeof(bytes));
		}
		(void)look(1);
	}
	drop(1);
	stop_child(&child);
}

/* --- halting --- */

TEST(halted)
{
	start_child(&child);
	keep(1, "exec sleep 1000");
	halt(1, 60000);
	wait_ended(1, BOX_INIT_END_SIGNAL, 15);
	/* The end of input is enough for some; SIGTERM is sent anyway. */
	keep(2, "trap 'echo term; exit 7' TERM; echo on; cat; echo eof; while :; do sleep 0.01; done");
	follow(2, 0, 0, ENDLESS, HOLD);
	WAIT_FOR(told[2].next == 3);
	halt(2, 60000);
	wait_ended(2, BOX_INIT_END_EXIT, 7);
	WAIT_FOR(told[2].next == told[2].state.out_end);
	ASSERT(strstr(told[2].out, "term\n") != NULL);
	/* A stopped process is continued for it. */
	keep(3, "kill -STOP $$; exec sleep 1000");
	WAIT_FOR(told[3].states > 0);
	usleep(100000);
	halt(3, 60000);
	wait_ended(3, BOX_INIT_END_SIGNAL, 15);
	halt(3, 1); /* one that has ended, and one that never existed */
	halt(4, 1);
	expect_silence();
	stop_child(&child);
}

TEST(killed_after_the_grace)
{
	start_child(&child);
	keep(1, "trap '' TERM; echo on; while :; do sleep 0.01; done");
	keep(2, "trap '' TERM; echo on; while :; do sleep 0.01; done");
	follow(1, 0, 0, ENDLESS, HOLD);
	follow(2, 0, 0, ENDLESS, HOLD);
	WAIT_FOR(told[1].next == 3 && told[2].next == 3);
	uint64_t begun = now_us();
	halt(1, 600);
	halt(2, 200);
	halt(1, 60000); /* which does not postpone it */
	wait_ended(2, BOX_INIT_END_SIGNAL, 9);
	ASSERT(now_us() - begun >= 200000);
	ASSERT_INT(told[1].state.phase, BOX_INIT_PROCESS_RUNNING);
	wait_ended(1, BOX_INIT_END_SIGNAL, 9);
	ASSERT(now_us() - begun >= 600000 && now_us() - begun < 5000000);
	stop_child(&child);
}

TEST(dropped)
{
	start_child(&child);
	keep(1, "echo $$; exec sleep 1000");
	follow(1, 0, 0, ENDLESS, HOLD);
	WAIT_FOR(told[1].next > 0 && strchr(told[1].out, '\n'));
	pid_t pid = (pid_t)strtol(told[1].out, NULL, 10);
	ASSERT_INT(kill(pid, 0), 0);
	drop(1);
	while (kill(pid, 0) == 0) {
		usleep(1000);
	}
	expect_silence();
	/* Its number and its slot can be used again. */
	keep(1, "echo again; exit 1");
	follow(1, 0, 0, ENDLESS, HOLD);
	wait_ended(1, BOX_INIT_END_EXIT, 1);
	expect_out(1, "again\n");
	stop_child(&child);
}

TEST(asked_for_what_there_is_not)
{
	start_child(&child);
	ASSERT_INT(look(9)->phase, BOX_INIT_PROCESS_UNKNOWN);
	ASSERT_INT(look(9)->phase, BOX_INIT_PROCESS_UNKNOWN);
	follow(9, 0, 0, ENDLESS, HOLD);
	feed(9, 0, "x", 1);
	send_kind(&child, BOX_INIT_FORGET_PROCESS, 9, NULL, 0);
	expect_silence();
	/* The number is in use: the second one is not started. */
	keep(1, "echo first; exec sleep 1000");
	keep(1, "echo second");
	follow(1, 0, 0, ENDLESS, HOLD);
	WAIT_FOR(told[1].next == 6);
	expect_out(1, "first\n");
	drop(1);
	stop_child(&child);
}

/* RESET ends commands; managed processes stay, with all their output. */
TEST(reset_leaves_them_alone)
{
	start_child(&child);
	keep(1, "echo kept; exec cat");
	ask(&child, 40, (struct asked){.command = "sleep 1000"});
	feed(1, 0, "abc", 3);
	while (look(1)->out_end < 8) {
	}
	int pid = told[1].state.pid;
	send_kind(&child, BOX_INIT_RESET, 0, NULL, 0);
	WAIT_FOR(reset_done);
	ASSERT_INT(look(1)->pid, pid);
	ASSERT_INT(told[1].state.in_have, 3);
	follow(1, 0, 0, ENDLESS, HOLD);
	WAIT_FOR(told[1].next == 8);
	expect_out(1, "kept\nabc");
	drop(1);
	stop_child(&child);
}

/* Many processes that nobody reads, and answers that do not fit into the socket. */
TEST(many_at_once)
{
	start_child(&child);
	for (uint32_t id = 1; id < NOBODY; id++) {
		keep(id, "seq 1 20000; echo err >&2; exit 2");
		follow(id, 0, 0, ENDLESS, HOLD);
	}
	usleep(500000); /* the socket is full by now */
	for (uint32_t id = 1; id < NOBODY; id++) {
		wait_ended(id, BOX_INIT_END_EXIT, 2);
		WAIT_FOR(told[id].next == 108894);
		ASSERT_STR(told[id].err, "err\n");
		drop(id);
	}
	stop_child(&child);
}
