/* A boxd that we start as a child: it is found, started with its stdin and stdout on one socket, and waited
 * for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_boxd_child {
	pid_t pid; /* 0: none */
	int pidfd;
	int log_fd;      /* -1: its log goes to our stderr */
	int last_signal; /* the last signal that box_boxd_child_leave sent, or 0 */
};

struct box_boxd_child_setup {
	const char *config;  /* its --config, or NULL */
	const char *program; /* NULL: searched for */
	const char *instance;
	const char *token;
	bool show_log;
};

/* Starts it; *ret_fd is our end of its stdin and stdout, nonblocking. It ends when that is closed. */
int box_boxd_child_start(const struct box_boxd_child_setup *setup, int *ret_fd,
	struct box_boxd_child *ret_child, struct box_err *err);

#define BOX_BOXD_CHILD_END_SIZE 64

/* Waits until it has ended, whose stdin is closed before; SIGTERM and then SIGKILL when it takes too long.
 * Then `line`, unless it is NULL, gets each of the last lines of its log. `out` says how it ended: "ended
 * with code 2"; it is empty when there is no child. */
void box_boxd_child_end(struct box_boxd_child *child, void (*line)(void *arg, const char *line),
	void *arg, char out[BOX_BOXD_CHILD_END_SIZE]);

/* The same in steps that do not block; its stdin was closed waited_ms ago. True when it has ended, with `out`
 * and `line` as above. Else call again when its pidfd is readable, or after *ret_again_ms. */
bool box_boxd_child_leave(struct box_boxd_child *child, uint64_t waited_ms,
	void (*line)(void *arg, const char *line), void *arg, char out[BOX_BOXD_CHILD_END_SIZE],
	int *ret_again_ms);
