/* Owns the translation of a wait status into an EXIT: timeout, OOM kill, and the usage of a workspace with
 * a quota. Called by run.c. */
#include "init/run/run_exit.h"

#include <signal.h>
#include <sys/statfs.h>
#include <sys/wait.h>

#include "init/boot/boot.h"
#include "init/boot/boot_order.h"
#include "init/event_loop.h"
#include "init/guest/memory_kills.h"

#define NS_PER_US 1000ULL
#define EXIT_KILLED (128 + SIGKILL)
/* Less than most programs write at once, so that their next write fails. Ext4 reserves a few blocks for
 * itself. */
#define FULL_BYTES (64ULL * 1024)

struct box_init_exit box_run_exit_failed(uint32_t step, int errnum, uint32_t mount)
{
	return (struct box_init_exit){
		.end = BOX_INIT_END_FAILED,
		.step = step,
		.value = errnum,
		.mount = step == BOX_INIT_STEP_MOUNT ? mount : 0,
	};
}

/* Every kind of quota makes statfs report its limit as the size of the file system. */
static void add_workspace_usage(struct box_init_exit *end)
{
	struct statfs usage;
	if (!box_boot_wants_quota() || statfs(box_boot_facts()->facts.workspace_path, &usage) < 0 ||
		usage.f_bsize <= 0 || usage.f_bfree > usage.f_blocks) {
		return;
	}
	uint64_t block = (uint64_t)usage.f_bsize;
	uint64_t used = usage.f_blocks - usage.f_bfree;
	end->used_bytes = used * block;
	end->room_bytes = (used + usage.f_bavail) * block;
	bool no_blocks = usage.f_bavail * block < FULL_BYTES;
	bool no_inodes = usage.f_files > 0 && usage.f_ffree == 0;
	end->full = end->room_bytes > 0 && (no_blocks || no_inodes);
}

struct box_init_exit box_run_exit_ended(
	int status, bool timed_out, uint64_t begin_ns, uint64_t kills_before)
{
	bool signaled = WIFSIGNALED(status);
	struct box_init_exit end = {
		.end = signaled ? BOX_INIT_END_SIGNAL : BOX_INIT_END_EXIT,
		.value = signaled ? WTERMSIG(status) : WEXITSTATUS(status),
		.duration_us = (box_event_loop_now_ns() - begin_ns) / NS_PER_US,
	};
	if (timed_out) {
		end.end = BOX_INIT_END_TIMEOUT;
		end.value = 0;
	} else if (box_memory_kills_looks_killed(status) &&
		box_memory_kills_account(kills_before)) {
		end.end = BOX_INIT_END_MEMORY;
		end.value = EXIT_KILLED;
	}
	add_workspace_usage(&end);
	return end;
}
