/* Boxes on this host, native ones and microVMs: made by boxd, served by their box-init.
 *
 * This is box-rpc's half. It turns a spec into a request to boxd, and a command into a request to box-init, and
 * treats whatever comes out of a box as hostile. One object serves a process; a successor of this process adopts
 * the boxes of which boxd still has the fds.
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

/* Each is called once, later, never from inside the call that asked. Fds are the callee's. The
 * address is the box's own on the host's loopback (IPv4, network order), or 0. */
typedef void box_local_make_done(void *arg, uint64_t box, int control, int oom_fd,
	uint32_t host_address, const struct box_err *err);
typedef void box_local_mount_done(void *arg, int mount, const struct box_err *err);

typedef void box_local_probe_done(void *arg, const struct box_err *err);

/* The cgroup of one process. All fds are -1 when the box (a microVM) enforces the limit itself: then box-init gets
 * the number. */
struct box_local_process_cgroup {
	int procs_fd;    /* its cgroup.procs: the process enters by writing "0" */
	int oom_fd;      /* counts kills for memory in it */
	int oom_rest_fd; /* counts those of processes in no such cgroup */
};
typedef void box_local_process_cgroup_done(
	void *arg, const struct box_local_process_cgroup *cgroup, const struct box_err *err);

/* What boxd does for us; the program that owns the link implements it. */
struct box_local_boxd {
	void (*make)(void *boxd, const struct box_plan_request *ask, box_local_make_done *done,
		void *arg);
	void (*end)(void *boxd, uint64_t box);
	void (*mount)(void *boxd, uint64_t box, const struct box_mount *wanted,
		box_local_mount_done *done, void *arg);
	/* Makes the cgroup of one process in a box, with its limit, and removes it. Opened again it is
	 * the same one. */
	void (*open_cgroup)(void *boxd, uint64_t box, uint32_t process, uint32_t memory_mib,
		box_local_process_cgroup_done *done, void *arg);
	void (*close_cgroup)(void *boxd, uint64_t box, uint32_t process);
	/* Whether there can be microVMs; may take a minute the first time. */
	void (*probe_microvm)(void *boxd, box_local_probe_done *done, void *arg);
};

/* What boxes can have here, as boxd found out. Texts outlive the object. */
struct box_local_support {
	bool possible;
	const char *missing; /* why not */
	bool limits;
	const char *limits_missing; /* why there are none */
	bool quota;                 /* folders of the host can be held to one */
	const char *quota_missing;
	const char *images_missing; /* which of the operator's images are not there; "": all are */
	struct box_bounds_facts held; /* what enforces each limit */
};

struct box_local *box_local_new(struct uv_loop_s *loop, const struct box_local_support *support,
	const struct box_local_boxd *boxd, void *boxd_arg);
/* boxd has looked again. */
void box_local_set_support(struct box_local *local, const struct box_local_support *support);
/* Every box must be gone. */
void box_local_free(struct box_local *local);

/* The two backends of this object; freeing them does nothing. */
struct box_backend *box_local_native_backend(struct box_local *local);
struct box_backend *box_local_microvm_backend(struct box_local *local);
/* Has boxd find out whether there can be microVMs, unless it does already. */
void box_local_probe_microvm(struct box_local *local);
/* The same again for what is known already: it may have changed. Until the answer comes the old one
 * counts. */
void box_local_probe_microvm_again(struct box_local *local);
/* Whether boxes may run without limits where none can be set: the operator decides. At first they may not. */
void box_local_allow_degraded(struct box_local *local, bool allowed);

/* NULL, or why no box can be made here. */
const char *box_local_missing(const struct box_local *local);
/* NULL, or why boxes run without limits, which the operator has allowed. */
const char *box_local_degraded_reason(const struct box_local *local);

/* What enforces the limit of each resource. */
const struct box_bounds_facts *box_local_held(const struct box_local *local);
/* NULL, or why quotas of folders of the host are not enforced, which the operator has allowed. */
const char *box_local_unheld_quota_reason(const struct box_local *local);

/* NULL, or why boxes that ask for a quota of a folder of the host are refused. */
const char *box_local_quota_missing(const struct box_local *local);
/* NULL, or why boxes of some of the operator's images are refused. */
const char *box_local_image_missing(const struct box_local *local);

/* What boxd reports: a box of a predecessor, which can be adopted from now on, with the fds of a box that was made
 * and of a cgroup; and that a box, asked for or not, is gone. */
void box_local_inherited(struct box_local *local, uint64_t number, int control, int oom_fd,
	int oom_rest_fd, uint32_t host_address);
/* Before it is gone: boxd ends it, for this reason. */
void box_local_ending(struct box_local *local, uint64_t number, const char *why);
void box_local_gone(struct box_local *local, uint64_t number);
/* What a box that boxd cannot look into says about how much is in it. */
struct box_local_measured_part {
	bool exists;
	uint64_t size_bytes;
	uint64_t file_count;
};
struct box_local_measured_parts {
	struct box_local_measured_part workspace; /* when it is the box's own */
	struct box_local_measured_part cache;
	struct box_local_measured_part temp;
};
/* `result` is 0 or a negative errno, -ESRCH when the box is gone. */
typedef void box_local_measure_done(
	void *arg, const struct box_local_measured_parts *parts, int result);
/* `done` is called once; at once when there is no such box. */
void box_local_measure(
	struct box_local *local, uint64_t number, box_local_measure_done *done, void *arg);
/* Ends the boxes of a predecessor that nobody has adopted. */
void box_local_end_inherited(struct box_local *local);
