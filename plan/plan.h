/* What a box is made of, as data: from a request, the operator's policy and the abilities of the host
 * to a plan, or an error. Pure: nothing is opened or tried here.
 *
 * boxd makes a plan of every request and applies it step by step; `box plan` prints it. Strings point
 * into the request, the policy, the host or static storage, which must outlive the plan.
 */
#pragma once

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/err.h"
#include "base/limits.h"
#include "plan/egress.h"
#include "plan/filter.h"

/* Every box has one namespace of each kind: its first process is made before a request is known. */
#define BOX_PLAN_NAMESPACES                                                                    \
	((uint64_t)(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | \
		CLONE_NEWUTS | CLONE_NEWCGROUP))

#define BOX_PLAN_PAYLOAD_ID 1000 /* uid and gid of commands inside */
#define BOX_PLAN_ID_COUNT 65536  /* host ids of one box, as root */
#define BOX_PLAN_HOME "/home/box"
#define BOX_PLAN_NAME_MAX 640
#define BOX_PLAN_STEPS_MAX 128
#define BOX_PLAN_RULES_MAX 32
#define BOX_ROOT_ENTRIES_MAX 32

/* Layout of the file system that a microVM shares with its jail; protocol/microvm.h has the same names. */
#define BOX_PLAN_SHARE "/share"
#define BOX_PLAN_TREES BOX_PLAN_SHARE "/trees"
#define BOX_PLAN_SHARED_WORKSPACE BOX_PLAN_SHARE "/workspace"
#define BOX_PLAN_SHARED_MOUNTS BOX_PLAN_SHARE "/mounts"

enum box_plan_kind {
	BOX_PLAN_KIND_NATIVE,
	BOX_PLAN_KIND_MICROVM, /* a microVM: a kernel of its own */
};

enum box_plan_mount_mode {
	BOX_PLAN_MOUNT_NONE, /* no host folder: the workspace is the box's own */
	BOX_PLAN_MOUNT_RO,
	BOX_PLAN_MOUNT_RW,
};

/* The request of box-rpc; fixed-size, sent as it is. Texts must be NUL-terminated. */
struct box_plan_request {
	char name[BOX_PLAN_NAME_MAX]; /* [A-Za-z0-9_.-]+ */
	char tenant[BOX_TENANT_SIZE]; /* owner: the workspace that its name begins with */
	uint32_t padding;
	char host_path[BOX_PATH_MAX]; /* "" with BOX_PLAN_MOUNT_NONE */
	char mount_path[BOX_PATH_MAX];
	char image[BOX_PATH_MAX]; /* a name of the policy, an absolute path, or a label */
	uint32_t host_mode;
	uint32_t network;       /* 0 or 1 */
	uint32_t writable_root; /* 0 or 1 */
	uint32_t profile;       /* enum box_filter_profile */
	uint32_t kind;          /* enum box_plan_kind */
	uint32_t reserved;
	uint64_t memory_bytes;
	uint64_t pids;
	uint64_t cpu_milli;
	uint64_t quota_bytes; /* of the workspace; 0: none */
	struct box_egress egress;
};

/* Folders at or below which mounts must be. */
struct box_policy_roots {
	uint32_t count;
	char paths[BOX_MOUNT_ROOTS_MAX][BOX_PATH_MAX]; /* absolute */
};

/* A root that boxes can request by name. */
struct box_policy_image {
	char name[BOX_IMAGE_NAME_MAX + 1];
	char path[BOX_PATH_MAX]; /* absolute: a folder, or a file with a file system in it */
};

/* The operator's policy, sealed in boxd. Fixed-size, sent as it is. */
struct box_policy {
	struct box_policy_roots roots;    /* none: nothing may be mounted */
	struct box_policy_roots narrower; /* a client's; none: no restriction. May change */
	char skills_root[BOX_PATH_MAX];   /* the skill store; "": none */
	char client_skills[BOX_PATH_MAX]; /* protected like it, or ""; may change */
	uint32_t profile;                 /* the minimum filter: with STRICT every box is strict */
	uint32_t degraded;         /* not 0: boxes may run without limits if there are no cgroups */
	char rootfs[BOX_PATH_MAX]; /* "" for the host's own system folders */
	uint64_t artifact_bytes;   /* memory for artifacts; 0: the default */
	uint64_t artifact_share_bytes; /* of that, for one workspace; 0: all */
	uint64_t reserve_bytes;        /* of the host's memory: no new box when less is free */
	uint32_t image_count;
	struct box_policy_image images[BOX_IMAGES_MAX];
};

/* One entry at the top of a box's root that comes from outside. */
struct box_root_entry {
	char name[256]; /* "usr" */
	char link[256]; /* the target of a link, or "" for a folder */
};

/* What was found on this host by trying. */
struct box_plan_host {
	bool root;                 /* we are root in the relevant user namespace: many ids */
	bool id_ranges;            /* BOX_PLAN_ID_COUNT ids for each box */
	bool cgroups;              /* limits hold */
	int landlock_abi;          /* 0: none */
	bool network;              /* boxes can have one */
	char network_missing[256]; /* why not */
	char cgroups_missing[256];
	struct box_root_entry root_entries[BOX_ROOT_ENTRIES_MAX];
	size_t root_entry_count;
	bool own_etc;          /* boxd makes /etc; else it is one of root_entries */
	const char *root_path; /* their origin, for messages; NULL: the policy's rootfs */
	uint32_t cpus;         /* of the host: the maximum for a microVM; 0: unknown */
	uint64_t files_max;    /* fs.file-max; 0: unknown */
	uint32_t microvm_ms;   /* to start a microVM; 0: as on real hardware */
};

enum box_plan_step_kind {
	BOX_PLAN_STEP_TMPFS, /* a new file system: size, inodes, mode, owner */
	BOX_PLAN_STEP_TREE,  /* a detached tree that boxd has opened: which */
	BOX_PLAN_STEP_PROC,
	BOX_PLAN_STEP_PTS,
	BOX_PLAN_STEP_FOLDER, /* made in the root, with its parents: mode, owner */
	BOX_PLAN_STEP_LINK,   /* source: the target of the link */
	BOX_PLAN_STEP_MASK,   /* covers a path below /proc, if it exists, with something empty */
	BOX_PLAN_STEP_FREEZE, /* makes read-only: a path below /proc, or the root itself */
};

/* Trees that boxd opens outside of the box. */
enum box_plan_tree {
	BOX_PLAN_TREE_ENTRY, /* root_entries[entry] */
	BOX_PLAN_TREE_ETC,
	BOX_PLAN_TREE_DEV,
	BOX_PLAN_TREE_KVM, /* a /dev with only kvm in it */
	BOX_PLAN_TREE_HOST_PATH,
};

enum box_plan_owner {
	BOX_PLAN_OWNER_INIT,
	BOX_PLAN_OWNER_PAYLOAD,
};

struct box_plan_step {
	enum box_plan_step_kind kind;
	const char *target; /* absolute, in the box */
	const char *source; /* LINK: the target; TREE: rootfs or host_path, for messages */
	enum box_plan_tree tree;
	size_t entry;
	bool read_only;
	bool no_exec;
	bool devices;   /* device files are usable */
	bool pids_only; /* PROC: processes only */
	enum box_plan_owner owner;
	uint32_t mode;
	uint64_t size_bytes;
	uint64_t inodes;
};

enum box_plan_right {
	BOX_PLAN_MAY_READ,  /* and execute */
	BOX_PLAN_MAY_WRITE, /* everything but devices */
	BOX_PLAN_MAY_USE,   /* read and write existing files */
};

struct box_plan_rule {
	const char *path;
	enum box_plan_right may;
};

struct box_plan_id_map {
	uint32_t inside;
	/* 1 or BOX_PLAN_ID_COUNT; the outside ids are chosen when the box is made. */
	uint32_t count;
};

/* Of a microVM: values for the guest and for box-vmm. */
struct box_plan_microvm {
	uint32_t memory_mib;
	uint32_t cpus;
	uint32_t start_ms; /* deadline for its start */
};

struct box_plan {
	const struct box_plan_request *ask;
	uint64_t namespaces; /* CLONE_NEW* */
	struct box_plan_id_map ids;
	bool drop_groups; /* allow setgroups and drop the groups; else deny setgroups */
	struct box_plan_step steps[BOX_PLAN_STEPS_MAX];
	size_t step_count;
	/* A microVM: `steps` build its jail, and these the guest's root. */
	struct box_plan_step inside[BOX_PLAN_STEPS_MAX];
	size_t inside_count;
	struct box_plan_microvm microvm;
	struct box_plan_rule rules[BOX_PLAN_RULES_MAX]; /* Landlock */
	size_t rule_count;
	int landlock_abi;
	enum box_filter_profile profile;
	bool network;
	bool limited;          /* by a cgroup; else degraded, as the operator allows */
	uint64_t memory_bytes; /* for commands and the files they keep in memory */
	uint32_t pids;
	uint32_t cpu_milli;
	uint64_t limit_bytes; /* of the cgroup: including what box-init or box-vmm needs */
	uint32_t limit_pids;
	uint64_t open_files;
	uint64_t quota_bytes; /* of the workspace; 0: none of its own */
	const char *hostname;
	char entry_targets[BOX_ROOT_ENTRIES_MAX][264]; /* steps point here: do not copy a plan */
	char tree_targets[BOX_ROOT_ENTRIES_MAX + 1][288];
};

/* 0, or -errno with err saying what is missing and what to do: BOX_ERR_VALIDATION for wrong requests,
 * BOX_ERR_BACKEND_UNAVAILABLE for what the host lacks. */
int box_plan_make(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_plan *ret_plan, struct box_err *err);

/* Whether the boxes of both requests are the same until their host folder and limits are set: then a
 * warm box for one fits the other. Without cgroups the limits of processes are set from the beginning;
 * a network changes the filter. */
bool box_plan_same_shape(const struct box_plan_request *a, const struct box_plan_request *b,
	const struct box_plan_host *host);

/* Only the checks of box_plan_make. */
int box_plan_check(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_err *err);

/* Whether boxes have their own version of this entry of the root, whatever comes from outside. */
bool box_plan_is_own(const char *entry, const struct box_plan_host *host);

/* Whether a normalised path is `root` or lies below it. */
bool box_plan_path_is_under(const char *path, const char *root);

/* Prints a plan in columns, for people and for comparison in tests. */
void box_plan_print(const struct box_plan *plan, FILE *to);

/* Whether something may be mounted at this absolute path inside a box: not at the root, nor at, below
 * or above the system's mounts (/usr, /etc, /proc, /dev ...): 0, or -EINVAL with BOX_ERR_VALIDATION.
 * `what` is the name of the field. */
int box_plan_check_target(const char *path, const char *what, struct box_err *err);

/* The default environment of every command: NAME=VALUE, NULL-terminated. A spec's own variables
 * override it. */
extern const char *const box_plan_environment[];
