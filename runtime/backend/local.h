/* Boxes on this host, native ones and microVMs: made by boxd, served by their box-init.
 *
 * This is box-rpc's half. It turns a spec into a request to boxd, and a command into a request to box-init, and
 * treats everything from a box as hostile. There is one object in a process; the next box-rpc adopts the boxes
 * whose fds boxd still has.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "plan/bounds.h"
#include "plan/plan.h"

struct box_backend;
struct box_mount;
struct box_local;
struct uv_loop_s;

/* Each is called once, later, never from inside the caller's call. The callee takes over the fds. The
 * address is the box's own on the host's loopback (IPv4, network order), or 0. */
typedef void box_local_make_done(void *arg, uint64_t box, int control, int oom_fd,
	uint32_t host_address, const struct box_err *err);
typedef void box_local_mount_done(void *arg, int mount, const struct box_err *err);

typedef void box_local_probe_done(void *arg, const struct box_err *err);

/* The cgroup of one process. All fds are -1 if the box (a microVM) enforces the limit itself: then box-init gets the
 * number instead. */
struct box_local_process_cgroup {
	int procs_fd;    /* its cgroup.procs: the process enters by writing "0" */
	int oom_fd;      /* counts OOM kills in it */
	int oom_rest_fd; /* counts OOM kills of processes without such a cgroup */
};
typedef void box_local_process_cgroup_done(
	void *arg, const struct box_local_process_cgroup *cgroup, const struct box_err *err);

/* What boxd does for us; implemented by the program that owns the connection to boxd. */
struct box_local_boxd {
	void (*make)(void *boxd, const struct box_plan_request *ask, box_local_make_done *done,
		void *arg);
	void (*end)(void *boxd, uint64_t box);
	void (*mount)(void *boxd, uint64_t box, const struct box_mount *wanted,
		box_local_mount_done *done, void *arg);
	/* Makes the cgroup of one process in a box, with its limit, and removes it. Opening it again gives the
	 * same cgroup. */
	void (*open_cgroup)(void *boxd, uint64_t box, uint32_t process, uint32_t memory_mib,
		box_local_process_cgroup_done *done, void *arg);
	void (*close_cgroup)(void *boxd, uint64_t box, uint32_t process);
	/* Tests whether microVMs are possible; may take a minute the first time. */
	void (*probe_microvm)(void *boxd, box_local_probe_done *done, void *arg);
};

/* What boxes can have here, as tested by boxd. Texts outlive the object. */
struct box_local_support {
	bool possible;
	const char *missing; /* why no boxes can be made */
	bool limits;
	const char *limits_missing; /* why there are no limits */
	bool quota;                 /* quotas of host folders can be enforced */
	const char *quota_missing;
	const char *images_missing; /* which of the operator's images do not exist; "": all exist */
	struct box_bounds_facts held; /* how each limit is enforced */
};

struct box_local *box_local_new(struct uv_loop_s *loop, const struct box_local_support *support,
	const struct box_local_boxd *boxd, void *boxd_arg);
/* boxd has tested again. */
void box_local_set_support(struct box_local *local, const struct box_local_support *support);
/* Frees the object. No box may exist any more. */
void box_local_free(struct box_local *local);

/* The two backends of this object; freeing them does nothing. */
struct box_backend *box_local_native_backend(struct box_local *local);
struct box_backend *box_local_microvm_backend(struct box_local *local);
/* Lets boxd test whether microVMs are possible, unless it is testing already. */
void box_local_probe_microvm(struct box_local *local);
/* Tests again although the result is known, because it may have changed. Until then the old result counts. */
void box_local_probe_microvm_again(struct box_local *local);
/* Whether boxes may run without limits where none can be set, as the operator decides; false by default. */
void box_local_allow_degraded(struct box_local *local, bool allowed);

/* NULL, or why no box can be made here. */
const char *box_local_missing(const struct box_local *local);
/* NULL, or why boxes run without limits, which the operator has allowed. */
const char *box_local_degraded_reason(const struct box_local *local);

/* How the limit of each resource is enforced. */
const struct box_bounds_facts *box_local_held(const struct box_local *local);
/* NULL, or why quotas of folders of the host are not enforced, which the operator has allowed. */
const char *box_local_unheld_quota_reason(const struct box_local *local);

/* NULL, or why boxes with a quota for a host folder are refused. */
const char *box_local_quota_missing(const struct box_local *local);
/* NULL, or why boxes of some of the operator's images are refused. */
const char *box_local_image_missing(const struct box_local *local);

/* Reports from boxd: a box of the previous box-rpc, which can be adopted from now on, with the fds of the box and of
 * its cgroup; and that a box is gone, whether requested or not. */
void box_local_inherited(struct box_local *local, uint64_t number, int control, int oom_fd,
	int oom_rest_fd, uint32_t host_address);
/* A report before the box is gone: boxd ends it, for this reason. */
void box_local_ending(struct box_local *local, uint64_t number, const char *why);
void box_local_gone(struct box_local *local, uint64_t number);
/* How much a box contains that boxd cannot look into, as reported by the box itself. */
struct box_local_measured_part {
	bool exists;
	uint64_t size_bytes;
	uint64_t file_count;
};
struct box_local_measured_parts {
	struct box_local_measured_part workspace; /* if it is the box's own */
	struct box_local_measured_part cache;
	struct box_local_measured_part temp;
};
/* `result` is 0 or a negative errno, -ESRCH if the box is gone. */
typedef void box_local_measure_done(
	void *arg, const struct box_local_measured_parts *parts, int result);
/* `done` is called once; at once when there is no such box. */
void box_local_measure(
	struct box_local *local, uint64_t number, box_local_measure_done *done, void *arg);
/* Ends the boxes of the previous box-rpc that nobody has adopted. */
void box_local_end_inherited(struct box_local *local);
