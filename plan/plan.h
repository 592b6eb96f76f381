/* What a box is made of, as data: a request, the operator's policy and what the host can do go in,
 * a plan comes out, or why there is none. Pure: nothing is opened or tried here.
 *
 * boxd makes a plan of every request and applies it step by step; `box plan` prints it. Strings
 * point into the request, the policy, the host or static storage, which must outlive the plan.
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

/* Every box has one of each kind: its first process is made before anyone has asked for it. */
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

/* Where the file system that a microVM shares with its jail has what; protocol/microvm.h has
 * the same names. */
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

/* What box-rpc asks for; fixed-size, it travels as it is. Text is NUL-terminated or refused. */
struct box_plan_request {
	char name[BOX_PLAN_NAME_MAX]; /* [A-Za-z0-9_.-]+ */
	char tenant[BOX_TENANT_SIZE]; /* whose it is: the workspace that its name begins with */
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
	uint64_t quota_bytes; /* of the workspace, 0: none */
	struct box_egress egress;
};

/* Folders at or below which mounts must be. */
struct box_policy_roots {
	uint32_t count;
	char paths[BOX_MOUNT_ROOTS_MAX][BOX_PATH_MAX]; /* absolute */
};

/* A root that boxes can ask for by a name. */
struct box_policy_image {
	char name[BOX_IMAGE_NAME_MAX + 1];
	char path[BOX_PATH_MAX]; /* absolute: a folder, or a file with a file system in it */
};

/* The operator's, sealed in boxd. Fixed-size, it travels as it is. */
struct box_policy {
	struct box_policy_roots roots;    /* none: nothing may be mounted */
	struct box_policy_roots narrower; /* a client's; none: nothing is narrowed. May change */
	char skills_root[BOX_PATH_MAX];   /* the skill store; "": there is none */
	char client_skills[BOX_PATH_MAX]; /* guarded like it, or ""; may change */
	uint32_t profile;  /* the weakest filter: STRICT here makes every box strict */
	uint32_t degraded; /* not 0: boxes may run without limits where no cgroup can be had */
	char rootfs[BOX_PATH_MAX];     /* "" for the host's own system folders */
	uint64_t artifact_bytes;       /* of memory for artifacts; 0: as usual */
	uint64_t artifact_share_bytes; /* of that, for one workspace; 0: all */
	uint64_t reserve_bytes;        /* of the host's memory: with less there is no new box */
	uint32_t image_count;
	struct box_policy_image images[BOX_IMAGES_MAX];
};

/* One entry at the top of a box's root that comes from outside. */
struct box_root_entry {
	char name[256]; /* "usr" */
	char link[256]; /* what it links to, or "": then it is a folder */
};

/* What was found on this host by trying. */
struct box_plan_host {
	bool root;        /* we are root of the first user namespace that matters: many ids */
	bool id_ranges;   /* BOX_PLAN_ID_COUNT ids for each box */
	bool cgroups;     /* limits hold */
	int landlock_abi; /* 0: none */
	bool network;     /* boxes can have one */
	char network_missing[256]; /* why not */
	char cgroups_missing[256];
	struct box_root_entry root_entries[BOX_ROOT_ENTRIES_MAX];
	size_t root_entry_count;
	bool own_etc;          /* /etc is made by us; else it is one of root_entries */
	const char *root_path; /* where they come from, for people; NULL: the policy's rootfs */
	uint32_t cpus;         /* of the host: a microVM gets no more; 0: not known */
	uint64_t files_max;    /* fs.file-max; 0: not known */
	uint32_t machine_ms;   /* for the start of a microVM; 0: as long as on real hardware */
};

enum box_plan_step_kind {
	BOX_PLAN_STEP_TMPFS, /* a file system of its own: size, inodes, mode, owner */
	BOX_PLAN_STEP_TREE,  /* a tree that boxd opened and detached: which */
	BOX_PLAN_STEP_PROC,
	BOX_PLAN_STEP_PTS,
	BOX_PLAN_STEP_FOLDER, /* made, with parents, in the root: mode, owner */
	BOX_PLAN_STEP_LINK,   /* source: what it links to */
	BOX_PLAN_STEP_MASK,   /* an empty file or folder over something of /proc, if it is there */
	BOX_PLAN_STEP_FREEZE, /* read-only from now on, below /proc or the root itself */
};

/* Trees that are opened outside. */
enum box_plan_tree {
	BOX_PLAN_TREE_ENTRY, /* root_entries[entry] */
	BOX_PLAN_TREE_ETC,
	BOX_PLAN_TREE_DEV,
	BOX_PLAN_TREE_KVM, /* a /dev with kvm in it and nothing else */
	BOX_PLAN_TREE_HOST_PATH,
};

enum box_plan_owner {
	BOX_PLAN_OWNER_INIT,
	BOX_PLAN_OWNER_PAYLOAD,
};

struct box_plan_step {
	enum box_plan_step_kind kind;
	const char *target; /* absolute, in the box */
	const char *source; /* LINK: the text; TREE: rootfs or host_path, for people */
	enum box_plan_tree tree;
	size_t entry;
	bool read_only;
	bool no_exec;
	bool devices;   /* device files work here */
	bool pids_only; /* PROC: nothing but processes */
	enum box_plan_owner owner;
	uint32_t mode;
	uint64_t size_bytes;
	uint64_t inodes;
};

enum box_plan_right {
	BOX_PLAN_MAY_READ,  /* and execute */
	BOX_PLAN_MAY_WRITE, /* all but devices */
	BOX_PLAN_MAY_USE,   /* read and write what is there */
};

struct box_plan_rule {
	const char *path;
	enum box_plan_right may;
};

struct box_plan_id_map {
	uint32_t inside;
	uint32_t count; /* 1 or BOX_PLAN_ID_COUNT; outside is chosen when the box is made */
};

/* Of a microVM: numbers for the guest and for who runs it. */
struct box_plan_microvm {
	uint32_t memory_mib;
	uint32_t cpus;
	uint32_t start_ms; /* in which it must be there */
};

struct box_plan {
	const struct box_plan_request *ask;
	uint64_t namespaces; /* CLONE_NEW* */
	struct box_plan_id_map ids;
	bool drop_groups; /* setgroups is allowed and groups are dropped; else it is denied */
	struct box_plan_step steps[BOX_PLAN_STEPS_MAX];
	size_t step_count;
	/* A microVM: `steps` are its jail, and this is what the guest makes its root of. */
	struct box_plan_step inside[BOX_PLAN_STEPS_MAX];
	size_t inside_count;
	struct box_plan_microvm machine;
	struct box_plan_rule rules[BOX_PLAN_RULES_MAX]; /* Landlock */
	size_t rule_count;
	int landlock_abi;
	enum box_filter_profile profile;
	bool network;
	bool limited;          /* by a cgroup; else degraded, by the operator's word */
	uint64_t memory_bytes; /* of commands, and what they leave in memory */
	uint32_t pids;
	uint32_t cpu_milli;
	uint64_t limit_bytes; /* of the cgroup: with what box-init or box-vmm needs */
	uint32_t limit_pids;
	uint64_t open_files;
	uint64_t quota_bytes; /* what the workspace is held to, 0: nothing of its own */
	const char *hostname;
	char entry_targets[BOX_ROOT_ENTRIES_MAX][264]; /* steps point here: a plan is not copied */
	char tree_targets[BOX_ROOT_ENTRIES_MAX + 1][288];
};

/* 0, or -errno with err saying what is missing and what to do: BOX_ERR_VALIDATION for what the
 * caller asked wrongly, BOX_ERR_BACKEND_UNAVAILABLE for what the host lacks. */
int box_plan_make(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_plan *ret_plan, struct box_err *err);

/* Whether the boxes of both requests are the same until their host folder and limits come: then what
 * was prepared for one serves the other. Without cgroups the processes are limited from the
 * beginning; whether there is a network decides over the filter. */
bool box_plan_same_shape(const struct box_plan_request *a, const struct box_plan_request *b,
	const struct box_plan_host *host);

/* Its refusals alone. */
int box_plan_check(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_err *err);

/* Whether a box has this entry of its root for itself, whatever comes from outside by that name. */
bool box_plan_is_own(const char *entry, const struct box_plan_host *host);

/* Whether a normalised path is `root` or lies below it. */
bool box_plan_path_is_under(const char *path, const char *root);

/* In words and columns, for people and for comparison in tests. */
void box_plan_print(const struct box_plan *plan, FILE *to);

/* Whether something may be mounted at this absolute path inside a box, besides what is there: not
 * the root, nor at, below or above what we mount ourselves for the system (/usr, /etc, /proc, /dev
 * ...): 0, or -EINVAL with BOX_ERR_VALIDATION. `what` names the field. */
int box_plan_check_target(const char *path, const char *what, struct box_err *err);

/* The environment that every command begins with: NAME=VALUE, NULL-terminated. A spec's own comes
 * over it. */
extern const char *const box_plan_environment[];
