/* A boxd of our own: found, started with its stdin and stdout on one socket, and waited for. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct box_boxd_child {
	pid_t pid; /* 0: none */
	int pidfd;
	int log_fd; /* -1: its log goes to our stderr */
	int asked;  /* the last signal that box_boxd_child_leave sent, or 0 */
};

struct box_boxd_child_setup {
	const char *config;  /* its --config, or NULL */
	const char *program; /* NULL: it is looked for */
	const char *instance;
	const char *token;
	bool show_log;
};

/* Starts it; *ret_fd is our end of its stdin and stdout, which does not block. Closing that ends
 * it. */
int box_boxd_child_start(const struct box_boxd_child_setup *setup, int *ret_fd,
	struct box_boxd_child *ret_child, struct box_err *err);

#define BOX_BOXD_CHILD_END_SIZE 64

/* Waits for its end, which its closed stdin brings, and then by force. Then calls back, unless
 * `line` is NULL, with each of the last lines of its log. `out` says how it ended: "ended with code
 * 2"; nothing when there is no child. */
void box_boxd_child_end(struct box_boxd_child *child, void (*line)(void *arg, const char *line),
	void *arg, char out[BOX_BOXD_CHILD_END_SIZE]);

/* The same in steps that do not wait: its stdin was closed so long ago. True when it is gone;
 * `out` and `line` as above. Else *ret_again_ms says when to look again if its pidfd says
 * nothing before. */
bool box_boxd_child_leave(struct box_boxd_child *child, uint64_t waited_ms,
	void (*line)(void *arg, const char *line), void *arg, char out[BOX_BOXD_CHILD_END_SIZE],
	int *ret_again_ms);
