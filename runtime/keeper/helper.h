/* A fork of boxd that does one thing and tells one answer by a pipe, while the loop goes on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct box_helper {
	int pidfd; /* -1: there is none. Ready for reading when it has ended */
	int answer;
};

#define BOX_HELPER_NONE ((struct box_helper){-1, -1})

/* What the child does: writes its answer to `out` and exits, at the latest with `parent`. */
typedef void box_helper_main(const void *task, pid_t parent, int out);

/* Forks it; `epoll` tells its end. 0 or -errno. The task is good in the child as it is now. */
int box_helper_start(
	struct box_helper *helper, int epoll, box_helper_main *child_main, const void *task);
bool box_helper_has_ended(const struct box_helper *helper, int wait_ms);
void box_helper_kill(const struct box_helper *helper);
/* Takes the answer of one that has ended, and forgets it: whether it was whole. */
bool box_helper_bury(struct box_helper *helper, int epoll, void *answer, size_t size);
