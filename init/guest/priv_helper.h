/* The privileged helper: a second process in a microVM that keeps what PID 1 gives up: the share, the cgroups,
 * the clock and the right to shut the guest down. PID 1 runs behind the filter of commands and asks it.
 *
 * The share is mounted only in the helper's own mount namespace; it returns single detached trees. */
#pragma once

#include <stdint.h>

/* What the helper does differently in tests. */
struct box_priv_helper {
	/* In the helper, in its own mount namespace: makes the share the working folder. 0 or -errno. */
	int (*enter_share)(void);
	/* Shuts the guest down; does not return on success. */
	void (*end)(void);
};

/* In a guest: mounts the virtio-fs share, and reboots. */
extern const struct box_priv_helper box_priv_helper_of_microvm;

/* A boot step: forks the helper. 0 or -errno. */
int box_priv_helper_start(const struct box_priv_helper *helper);
/* Gives it the cgroup of the box; -1: this kernel has none. 0 or -errno. */
int box_priv_helper_give_cgroups(int box_fd);
/* In a forked process that does not use it. */
void box_priv_helper_forget(void);

/* Each returns an fd, or -errno; -ENOTCONN if there is no helper. */
int box_priv_helper_open_tree(const char *name);
int box_priv_helper_open_workspace(void);
int box_priv_helper_open_mount(uint32_t number);
/* cgroup.procs of a new cgroup, and its memory.events. */
int box_priv_helper_make_cgroup(uint64_t memory_mib, int *ret_events);

/* Does not wait for the result. */
void box_priv_helper_step_clock(int64_t step_ns);
/* Waits at most one second for the end of the guest. */
void box_priv_helper_end_microvm(void);
