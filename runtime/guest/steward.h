/* The process of a microVM's box that keeps what PID 1 gives up: the share, the cgroups, the clock and
 * the way to end the machine. PID 1 lives behind the filter of commands and asks it.
 *
 * The share is in the steward's own mount namespace alone; what comes out of it are single trees,
 * mounted nowhere. */
#pragma once

#include <stdint.h>

struct box_steward {
	/* In the steward, in a mount namespace of its own: makes the share the working folder. 0 or
	 * -errno. */
	int (*enter_share)(void);
	/* Ends the machine; does not return if it can. */
	void (*end)(void);
};

/* Mounts the share of this machine, and reboots it: what a guest's steward does. */
extern const struct box_steward box_steward_of_machine;

/* A step of the preamble. 0 or -errno. */
int box_steward_start(const struct box_steward *steward);
/* The group of the box, from now on its. -1: this kernel has none. 0 or -errno. */
int box_steward_give_groups(int box_fd);
/* In a process that has no business with it. */
void box_steward_forget(void);

/* Each an fd, or -errno; -ENOTCONN where there is no steward. */
int box_steward_tree(const char *name);
int box_steward_workspace(void);
int box_steward_mount(uint32_t number);
/* The door of a new one; with it its memory events. */
int box_steward_group(uint64_t memory_mib, int *ret_events);

/* Does not wait for it. */
void box_steward_step_clock(int64_t step_ns);
/* Waits for the end of the machine, for a second at most. */
void box_steward_end(void);
