/* The watcher: a child of boxd that waits for boxd's death and then removes what only boxd could have
 * removed, the cgroups of its boxes. Everything else of a box is held by fds and goes away by itself.
 *
 * It is forked at the start, holds the folders that contain our parent cgroups and a pidfd of boxd, and
 * has only the rights to write and remove there, and to kill. When boxd stops normally, the watcher is
 * killed first. After a crash of the machine the next boxd removes what is left (cgroup_parent.c).
 * Owned by host_state.c; run by the loop.
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
	int pidfd;          /* -1: none runs */
	int64_t started_ms; /* the last start, or attempt */
	int64_t pause_ms;   /* until the next start; doubles while watchers die at once */
	struct box_cgroups *cgroups;
};

#define BOX_WATCHER_NONE ((struct box_watcher){.pidfd = -1, .pause_ms = BOX_WATCHER_PAUSE_MS})

/* Never fails: boxes work without a watcher, and the log says so. */
void box_watcher_start(struct box_watcher *watcher, struct box_cgroups *cgroups);
/* Restarts a watcher that has died. */
struct box_event_source box_watcher_event_source(struct box_watcher *watcher);
/* Before the cgroups are closed. */
void box_watcher_stop(struct box_watcher *watcher);
