/* Out-of-memory kills as box-init counts them in a microVM, from a file of the kernel: each is
 * reported once. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "init/guest/memory_kills.h"
#include "tests/unit/lib/test.h"

static int events;

static void set_kills(unsigned count)
{
	ASSERT(ftruncate(events, 0) == 0);
	ASSERT(pwrite(events, "", 0, 0) == 0);
	ASSERT(lseek(events, 0, SEEK_SET) == 0);
	ASSERT(dprintf(events, "low 0\nhigh 7\noom 9\noom_kill %u\noom_group_kill 5\n", count) > 0);
}

static void watch(unsigned count)
{
	events = memfd_create("events", MFD_CLOEXEC);
	ASSERT(events >= 0);
	set_kills(count);
	box_memory_kills_watch(fcntl(events, F_DUPFD_CLOEXEC, 3));
}

TEST(without_events_nothing_is_counted)
{
	ASSERT_INT(box_memory_kills_count(), 0);
	ASSERT_INT(box_memory_kills_read(-1), 0);
	ASSERT(!box_memory_kills_account(0));
}

TEST(the_count_is_read_anew)
{
	watch(3);
	ASSERT_INT(box_memory_kills_count(), 3);
	set_kills(12);
	ASSERT_INT(box_memory_kills_count(), 12);
	ASSERT_INT(box_memory_kills_read(events), 12);
	box_memory_kills_forget();
	ASSERT_INT(box_memory_kills_count(), 0);
}

TEST(each_kill_is_accounted_for_once)
{
	watch(2);
	/* Two that started after two kills; one is killed. */
	ASSERT(!box_memory_kills_account(2));
	set_kills(3);
	ASSERT(box_memory_kills_account(2));
	ASSERT(!box_memory_kills_account(2));
	/* A command that started later is not blamed. */
	ASSERT(!box_memory_kills_account(3));
	/* Two more kills, of which the older command gets the first. */
	set_kills(5);
	ASSERT(box_memory_kills_account(2));
	ASSERT(box_memory_kills_account(3));
	ASSERT(!box_memory_kills_account(3));
}

/* Kills before a command's start are never attributed to it. */
TEST(earlier_kills_are_not_its_own)
{
	watch(4);
	ASSERT(!box_memory_kills_account(4));
	set_kills(5);
	ASSERT(box_memory_kills_account(4));
}

static int status_of(const char *command)
{
	pid_t pid = fork();
	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(90);
	}
	int status = 0;
	ASSERT(waitpid(pid, &status, 0) == pid);
	return status;
}

TEST(what_looks_killed)
{
	ASSERT(box_memory_kills_looks_killed(status_of("kill -9 $$")));
	ASSERT(box_memory_kills_looks_killed(status_of("sh -c 'kill -9 $$'; exit $?")));
	ASSERT(box_memory_kills_looks_killed(status_of("exit 137")));
	ASSERT(!box_memory_kills_looks_killed(status_of("kill -15 $$")));
	ASSERT(!box_memory_kills_looks_killed(status_of("exit 9")));
	ASSERT(!box_memory_kills_looks_killed(status_of("true")));
}
