/* The bridge: PID 1 of a microVM box after its start. It forwards packets between box-rpc and the guest. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_BRIDGE_CHILDREN_MAX 3

struct box_bridge {
	int control;             /* socket to box-rpc */
	int report;              /* takes one struct box_microvm_report, for boxd */
	int listener;            /* box_bridge_listen, for the guest's one connection */
	const char *socket_path; /* of the listener */
	int console;             /* read end of the guest's console, does not block */
	int mount_helper;        /* socket to the mount helper */
	int clock;               /* box_bridge_open_clock */
	int signals;             /* signalfd for SIGCHLD */
	/* Processes whose death ends the box, in the order of enum box_microvm_end_cause; 0: none. */
	pid_t children[BOX_BRIDGE_CHILDREN_MAX];
	uint32_t deadline_ms; /* timeout for the guest's report, from now on */
};

/* Listens at a path that does not exist yet; any process that sees the path may connect. 0 or -errno. */
int box_bridge_listen(const char *path, int *ret_fd);

/* Opens a timer that fires every BOX_VMM_CLOCK_SEC and whenever the host's clock was set. 0 or -errno. */
int box_bridge_open_clock(int *ret_fd);

/* Waits for the guest's report, then forwards until the box ends. 0 if the guest was ready, else -errno. */
int box_bridge_run(const struct box_bridge *bridge);

/* Tells boxd which step failed, with text for people. Closes `report`. */
void box_bridge_report(int report, uint32_t step, int errnum, const char *text);
