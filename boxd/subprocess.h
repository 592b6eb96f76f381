/* A child of boxd that is watched by its pidfd and killed at its deadline, while the loop continues: a
 * fork of boxd that does one thing and writes one answer to a pipe, or a program that was started
 * (jobs.c). The caller polls an epoll set that contains all its children. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct box_subprocess {
	int pidfd;            /* -1: there is no child */
	int answer;           /* read end of the pipe, or -1 */
	uint64_t deadline_ms; /* UINT64_MAX: no deadline, or killed already */
	bool killed;
};

#define BOX_SUBPROCESS_NONE \
	((struct box_subprocess){.pidfd = -1, .answer = -1, .deadline_ms = UINT64_MAX})

/* What the child does: writes its answer to `out` and exits, at the latest with `parent`. */
typedef void box_subprocess_main(const void *task, pid_t parent, int out);

/* Forks. `epoll` reports the end of the child, which is killed after `limit_ms`. The child sees the
 * task as it is now. 0 or -errno. */
int box_subprocess_start(struct box_subprocess *ret_child, int epoll, uint64_t limit_ms,
	box_subprocess_main *child_main, const void *task);
/* The same for a child that runs already. Takes `pidfd`; on failure the child is killed. `limit_ms` 0:
 * no deadline. */
int box_subprocess_adopt(struct box_subprocess *ret_child, int epoll, uint64_t limit_ms, int pidfd);

bool box_subprocess_has_ended(const struct box_subprocess *child, int wait_ms);
void box_subprocess_kill(struct box_subprocess *child);
/* Kills it if its deadline has passed. */
void box_subprocess_check_deadline(struct box_subprocess *child);

/* Reaps a child that has ended and reads its answer: whether that was complete. */
bool box_subprocess_finish(struct box_subprocess *child, int epoll, void *answer, size_t size);
/* When boxd ends: kills it, waits a second at most, and forgets it. */
void box_subprocess_end(struct box_subprocess *child, int epoll);
