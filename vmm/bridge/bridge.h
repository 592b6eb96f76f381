/* The first process of a microVM box, once all else runs: between the guest and box-rpc. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_BRIDGE_CHILDREN_MAX 3

struct box_bridge {
	int control;  /* box-rpc's end is elsewhere */
	int report;   /* struct box_microvm_report, once */
	int listener; /* the guest's one port */
	const char *socket_path;
	int console; /* read end, does not block */
	int mount_helper;
	int clock;   /* a timer of the host's clock, of box_bridge_open_clock */
	int signals; /* SIGCHLD */
	/* Whose death is the end, in the order of enum box_microvm_end_cause; 0: none. */
	pid_t children[BOX_BRIDGE_CHILDREN_MAX];
	uint32_t deadline_ms; /* for the guest's report, from now on */
};

/* A timer that goes off every BOX_VMM_CLOCK_SEC, and when the clock was set. */
int box_bridge_open_clock(int *ret_fd);

/* Carries until there is nothing more to carry. 0 when the guest had reported that it is ready. */
int box_bridge_run(const struct box_bridge *bridge);

/* Tells boxd what went wrong, with words for a person. */
void box_bridge_report(int report, uint32_t step, int errnum, const char *text);
