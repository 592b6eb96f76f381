/* The process of a microVM's box that keeps what PID 1 gives up: the share, the cgroups, the clock and
 * the way to end the machine. PID 1 lives behind the filter of commands and asks it.
 *
 * The share is in the privileged helper's own mount namespace alone; what comes out of it are single trees,
 * mounted nowhere. */
#pragma once

#include <stdint.h>

struct box_priv_helper {
	/* In the privileged helper, in a mount namespace of its own: makes the share the working folder. 0 or
	 * -errno. */
	int (*enter_share)(void);
	/* Ends the machine; does not return if it can. */
	void (*end)(void);
};

/* Mounts the share of this machine, and reboots it: what a guest's privileged helper does. */
extern const struct box_priv_helper box_priv_helper_of_microvm;

/* A step of the preamble. 0 or -errno. */
int box_priv_helper_start(const struct box_priv_helper *helper);
/* The group of the box, from now on its. -1: this kernel has none. 0 or -errno. */
int box_priv_helper_give_cgroups(int box_fd);
/* In a process that has no business with it. */
void box_priv_helper_forget(void);

/* Each an fd, or -errno; -ENOTCONN where there is no privileged helper. */
int box_priv_helper_open_tree(const char *name);
int box_priv_helper_open_workspace(void);
int box_priv_helper_open_mount(uint32_t number);
/* The door of a new one; with it its memory events. */
int box_priv_helper_make_cgroup(uint64_t memory_mib, int *ret_events);

/* Does not wait for it. */
void box_priv_helper_step_clock(int64_t step_ns);
/* Waits for the end of the machine, for a second at most. */
void box_priv_helper_end_microvm(void);
