/* Owns memory.events of the cgroup of commands, and how many of its kills are attributed to commands. Called
 * by run_exit.c and mproc.c. */
#include "init/guest/memory_kills.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "protocol/oom.h"

#define TEXT_MAX 1024
#define SHELL_SIGNALED 128 /* exit code of a shell whose child was killed by signal n: 128 + n */

static int watched = -1;
static uint64_t accounted;

void box_memory_kills_watch(int events)
{
	box_close_p(&watched);
	watched = events;
	accounted = 0;
}

void box_memory_kills_forget(void)
{
	box_close_p(&watched);
}

uint64_t box_memory_kills_read(int events)
{
	char text[TEXT_MAX];
	ssize_t got = events < 0 ? -1 : pread(events, text, sizeof(text), 0);
	return got > 0 ? box_oom_parse_kills(text, (size_t)got) : 0;
}

uint64_t box_memory_kills_count(void)
{
	return box_memory_kills_read(watched);
}

bool box_memory_kills_looks_killed(int status)
{
	return (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
		(WIFEXITED(status) && WEXITSTATUS(status) == SHELL_SIGNALED + SIGKILL);
}

bool box_memory_kills_account(uint64_t began)
{
	uint64_t before = BOX_MAX(accounted, began);
	if (box_memory_kills_count() <= before) {
		return false;
	}
	accounted = before + 1;
	return true;
}
