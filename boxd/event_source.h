/* What boxd's event loop (rpc/supervise.c) runs: an fd to poll, a time by which it must be called, and
 * the call. Every subsystem that waits for something has a function box_X_event_source, and one line in
 * the list that supervise.c and serve.c fill. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"

struct box_event_source {
	void *arg; /* passed to all these functions; any of them but `step` may be NULL */
	/* The fd to poll, or -1 when there is none at the moment. */
	int (*fd)(const void *arg);
	/* The events to poll for; NULL: POLLIN. */
	short (*events)(const void *arg);
	/* Milliseconds until `step` must be called even without an event; -1: no limit. */
	int (*timeout_ms)(const void *arg);
	/* Called after every wait, whatever woke the loop; `revents` is what poll reported for the fd. */
	void (*step)(void *arg, short revents);
};

#define BOX_EVENT_SOURCES_MAX 16

/* In the order in which the loop calls them. */
struct box_event_sources {
	size_t count;
	struct box_event_source all[BOX_EVENT_SOURCES_MAX];
};

static inline void box_event_source_add(
	struct box_event_sources *sources, struct box_event_source source)
{
	if (sources->count == BOX_EVENT_SOURCES_MAX) {
		abort();
	}
	sources->all[sources->count++] = source;
}

/* The timeout_ms until a time of box_clock_ms; UINT64_MAX: never. */
static inline int box_event_source_timeout_ms(uint64_t due_ms)
{
	uint64_t now_ms = box_clock_ms();
	if (due_ms == UINT64_MAX) {
		return -1;
	}
	return due_ms > now_ms ? (int)(due_ms - now_ms) : 0;
}
