/* Native boxes and microVMs: asked for at boxd, spoken to through their box-init.
 *
 * This is box-rpc's half. It turns a spec into what boxd is asked, and a command into what box-init
 * is asked, and takes whatever comes out of a box for hostile. One object serves a process; a
 * successor of this process adopts the boxes that boxd has kept.
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
typedef void box_local_make_done(void *arg, uint64_t box, int control, int memory,
	uint32_t host_address, const struct box_err *err);
typedef void box_local_mount_done(void *arg, int mount, const struct box_err *err);

typedef void box_local_probe_done(void *arg, const struct box_err *err);

/* A cgroup of one process; -1 where there is none: without a door and without an error the box holds
 * the limit itself, and box-init is told the number. */
struct box_local_process_cgroup {
	int door;   /* the process goes in by writing "0" to it */
	int events; /* tells kills for memory in it */
	int rest;   /* tells those of what is in no such group */
};
typedef void box_local_process_cgroup_done(
	void *arg, const struct box_local_process_cgroup *group, const struct box_err *err);

/* What boxd does for us; the program that owns the link implements it. */
struct box_local_boxd {
	void (*make)(void *keeper, const struct box_plan_request *ask, box_local_make_done *done,
		void *arg);
	void (*end)(void *keeper, uint64_t box);
	void (*mount)(void *keeper, uint64_t box, const struct box_mount *wanted,
		box_local_mount_done *done, void *arg);
	/* The group of one process in a box, with its limit, and its end. Opened again it is the
	 * same. */
	void (*open_group)(void *keeper, uint64_t box, uint32_t process, uint32_t mebibytes,
		box_local_process_cgroup_done *done, void *arg);
	void (*close_group)(void *keeper, uint64_t box, uint32_t process);
	/* Whether there can be microVMs; may take a minute the first time. */
	void (*try_machines)(void *keeper, box_local_probe_done *done, void *arg);
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
	struct box_bounds_facts held;
};

struct box_local *box_local_new(struct uv_loop_s *loop, const struct box_local_support *means,
	const struct box_local_boxd *keeper, void *keeper_arg);
/* They have changed, or were looked at anew. */
void box_local_set_support(struct box_local *native, const struct box_local_support *means);
/* Every box must be gone. */
void box_local_free(struct box_local *native);

/* The two backends of this object; freeing them does nothing. */
struct box_backend *box_local_native_backend(struct box_local *native);
struct box_backend *box_local_microvm_backend(struct box_local *native);
/* Has boxd find out whether there can be microVMs, unless it does already. */
void box_local_probe_microvm(struct box_local *native);
/* The same again for what is known already: it may have changed. Until the answer comes the old one
 * counts. */
void box_local_probe_microvm_again(struct box_local *native);
/* What the operator allows: boxes without limits, where none can be set. Until then not. */
void box_local_allow_degraded(struct box_local *native, bool allowed);

/* NULL, or why no box can be made here. */
const char *box_local_missing(const struct box_local *native);
/* NULL, or in what boxes fall short of what they promise, by the operator's word. */
const char *box_local_degraded_reason(const struct box_local *native);

/* What holds each thing that a box can take. */
const struct box_bounds_facts *box_local_held(const struct box_local *native);
/* NULL, or why quotas of folders of the host are not held, by the operator's word. */
const char *box_local_unheld_quota_reason(const struct box_local *native);

/* NULL, or why boxes that ask for a quota of a folder of the host are refused. */
const char *box_local_quota_missing(const struct box_local *native);
/* NULL, or why boxes of some of the operator's images are refused. */
const char *box_local_image_missing(const struct box_local *native);

/* What boxd tells: a box of a predecessor, which can be adopted from now on, with its fds as of a
 * box that was made and of a group; and that a box, asked for or not, is no more. */
void box_local_inherited(struct box_local *native, uint64_t number, int control, int memory,
	int rest, uint32_t host_address);
/* Before it is gone: boxd ends it, and why. */
void box_local_ending(struct box_local *native, uint64_t number, const char *why);
void box_local_gone(struct box_local *native, uint64_t number);
/* How much there is in a box that boxd cannot look into, by its own word. */
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
	struct box_local *native, uint64_t number, box_local_measure_done *done, void *arg);
/* Ends the boxes of a predecessor that nobody has adopted. */
void box_local_end_inherited(struct box_local *native);
