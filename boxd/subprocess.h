/* A fork of boxd that does one thing and tells one answer by a pipe, while the loop goes on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct box_subprocess {
	int pidfd; /* -1: there is none. Ready for reading when it has ended */
	int answer;
};

#define BOX_SUBPROCESS_NONE ((struct box_subprocess){-1, -1})

/* What the child does: writes its answer to `out` and exits, at the latest with `parent`. */
typedef void box_subprocess_main(const void *task, pid_t parent, int out);

/* Forks it; `epoll` tells its end. 0 or -errno. The task is good in the child as it is now. */
int box_subprocess_start(struct box_subprocess *helper, int epoll, box_subprocess_main *child_main,
	const void *task);
bool box_subprocess_has_ended(const struct box_subprocess *helper, int wait_ms);
void box_subprocess_kill(const struct box_subprocess *helper);
/* Takes the answer of one that has ended, and forgets it: whether it was whole. */
bool box_subprocess_finish(struct box_subprocess *helper, int epoll, void *answer, size_t size);
