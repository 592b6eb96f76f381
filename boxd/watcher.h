/* The watcher: a process of boxd's own that waits for boxd's death and then removes what only boxd
 * could have removed, the cgroups of its boxes. Everything else of a box is held by fds and goes by
 * itself.
 *
 * It is forked at the start, holds the folders of our own cgroups and a pidfd of boxd, and has no
 * right but to write and remove there, and to kill. When boxd ends in
 * order it is ended first. A machine that went down is swept by the next start (cgroup_parent.c).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "boxd/event_source.h"

#define BOX_WATCHER_PAUSE_MS 1000
#define BOX_WATCHER_PAUSE_MAX_MS 60000

struct box_cgroups;

struct box_watcher {
	pid_t pid;
	int pidfd;          /* -1: there is none */
	int64_t started_ms; /* the last one, or the last try */
	int64_t pause_ms;   /* from that to the next one; doubles while they die at once */
	struct box_cgroups *cgroups;
};

#define BOX_WATCHER_NONE ((struct box_watcher){.pidfd = -1, .pause_ms = BOX_WATCHER_PAUSE_MS})

/* Never fails: without a watcher boxes work all the same, and the log says so. */
void box_watcher_start(struct box_watcher *watcher, struct box_cgroups *cgroups);
/* To be polled for reading: then box_watcher_step. -1 while there is none. */
struct box_event_source box_watcher_event_source(struct box_watcher *watcher);
/* Before the cgroups are closed. */
void box_watcher_stop(struct box_watcher *watcher);
