/* The protocol between boxd and box-rpc, over a socketpair of packets.
 *
 * Fixed-size structs, with both ends from one build; fds are sent along. boxd reads no text from
 * box-rpc but paths, and treats every packet as hostile: after a wrong size or an unknown kind it kills
 * box-rpc.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/limits.h"
#include "plan/plan.h"

#define BOX_BOXD_FD 3                  /* box-rpc's end of the socketpair */
#define BOX_BOXD_LISTENERS_MAX 8       /* of TCP */
#define BOX_BOXD_OTHER_LISTENERS_MAX 1 /* the operator's socket */
#define BOX_BOXD_LISTEN_FDS_MAX \
	(BOX_BOXD_LISTENERS_MAX + BOX_BOXD_OTHER_LISTENERS_MAX + 1) /* and one of sock_diag */

/* box-rpc's exit codes that boxd interprets. */
#define BOX_BOXD_EXIT_CONFIG 78 /* the configuration is wrong: do not start again */

enum box_boxd_kind {
	/* boxd -> box-rpc, in this order */
	BOX_BOXD_START = 1, /* fds: the texts that exist, see the flags */
	BOX_BOXD_LISTEN, /* after READY; fds: the listening sockets, of TCP and of the operator; and,
			       * without a token, one to look up the owner of a connection
			       * (base/sock_diag.h). They are told apart by their domains */
	BOX_BOXD_RELOAD,    /* fd: the present --config text */
	BOX_BOXD_STOP,      /* stop accepting, finish or cancel, exit 0 */
	BOX_BOXD_FOLDER,    /* the answer to MAKE_FOLDER */
	BOX_BOXD_INHERITED, /* a box of an earlier box-rpc; fds as in MADE. All come before LISTEN */
	BOX_BOXD_MADE,    /* the answer to MAKE_BOX; fds: its control socket, its memory events and,
			     * if it has process cgroups, the memory events of all other processes */
	BOX_BOXD_MOUNTED, /* the answer to OPEN_MOUNT; fd: the detached mount */
	BOX_BOXD_GONE,    /* a box has ended, whether that was requested or not; sent once */
	BOX_BOXD_ENDING,  /* boxd ends a box that broke a limit; GONE follows */
	BOX_BOXD_MEASURED,       /* the answer to MEASURE_FOLDER and MEASURE_BOX */
	BOX_BOXD_PROCESS_CGROUP, /* the answer to OPEN_PROCESS_CGROUP; fds: its cgroup.procs, its memory
			      * events, and the third of MADE if there is one; no fds for a
			      * microVM, which enforces the limit itself */
	BOX_BOXD_STORE,          /* the answer to OPEN_STORE; fd: the socket to box-skills */
	BOX_BOXD_PROBED,         /* the answer to PROBE_MICROVMS */
	BOX_BOXD_ARTIFACT_BYTES, /* how much memory artifacts use now */
	BOX_BOXD_TOKENS,         /* the present text of the token file */
	BOX_BOXD_PATH_CHECKED,   /* the answer to CHECK_PATH */
	BOX_BOXD_HOST, /* what boxes would get now: before LISTEN, and the answer to QUERY_HOST */

	/* box-rpc -> boxd */
	BOX_BOXD_READY = 64,      /* configured and confined: LISTEN may come */
	BOX_BOXD_CONFIG_ACCEPTED, /* the text of RELOAD is valid: the next box-rpc gets it too */
	BOX_BOXD_STATE,           /* fd: replaces the previous one; kept for the next box-rpc */
	BOX_BOXD_MAKE_FOLDER,
	BOX_BOXD_POLICY, /* fd: struct box_policy; before the first READY all of it counts, later only
			    * what narrows the first one */
	BOX_BOXD_MAKE_BOX,
	BOX_BOXD_END_BOX,       /* GONE follows */
	BOX_BOXD_OPEN_MOUNT,    /* a folder or file of the host, for a command in a box */
	BOX_BOXD_OPEN_ARTIFACT, /* a tree named by its digest; answered by MOUNTED too */
	BOX_BOXD_OPEN_STORE,    /* starts box-skills in the folder of the skill store */
	BOX_BOXD_MEASURE_FOLDER,
	BOX_BOXD_MEASURE_BOX,
	BOX_BOXD_OPEN_PROCESS_CGROUP, /* limits the memory of one process; repeated: the same group */
	BOX_BOXD_CLOSE_PROCESS_CGROUP, /* it is removed when empty, at the latest with its box */
	BOX_BOXD_PROBE_MICROVMS,       /* whether microVMs can run; may boot a guest */
	BOX_BOXD_TOKENS_ACCEPTED, /* the text of TOKENS is valid: the next box-rpc gets it too */
	BOX_BOXD_QUERY_HOST,      /* answered by HOST */
	BOX_BOXD_CHECK_PATH, /* what is at a path of the configuration; only with --check-config */
};

enum box_boxd_start_flag {
	BOX_BOXD_START_STDIO = 1 << 0,        /* fds 0 and 1 are a connection */
	BOX_BOXD_START_HAS_FILE = 1 << 1,     /* fd: --config */
	BOX_BOXD_START_HAS_VARIABLE = 1 << 2, /* fd: LANGBOT_BOX_CONFIG */
	BOX_BOXD_START_HAS_STATE = 1 << 3,    /* fd: the STATE of the previous box-rpc */
	/* Report whether the configuration is valid, and exit. */
	BOX_BOXD_START_CHECK_CONFIG = 1 << 4,
	BOX_BOXD_START_EXPLICIT_HOST = 1 << 5, /* --host was given */
	BOX_BOXD_START_SOFT_STORAGE = 1 << 6,  /* LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS */
	BOX_BOXD_START_WIDE_OPEN = 1 << 7,     /* would listen beyond loopback without a token */
	BOX_BOXD_START_TOKEN_FILE = 1 << 9, /* `token` is the text of a file, one token per line */
	BOX_BOXD_START_UNAUTHENTICATED = 1 << 10, /* --unauthenticated, or its variable */
	/* The fd of the --config text at boxd's start, if it has changed. */
	BOX_BOXD_START_HAS_FIRST = 1 << 8,
	BOX_BOXD_START_HAS_ROOTS = 1 << 11,    /* fd: the --mount-root paths, each with its NUL */
	BOX_BOXD_START_SOCKET_GROUP = 1 << 12, /* --socket-group was given */
};

#define BOX_BOXD_NO_UID UINT32_MAX
#define BOX_BOXD_TEXT_MAX 512
#define BOX_BOXD_BELOW_MAX 64

/* What boxd found out about this host. */
struct box_boxd_host {
	uint32_t possible; /* boxes can be made at all */
	uint32_t limits;   /* cgroup version, 0: none */
	uint32_t network;
	uint32_t landlock_abi;
	uint32_t id_ranges;
	uint32_t quota;        /* folders of the host can have one */
	uint32_t held_sockets; /* as in struct box_bounds_facts */
	uint32_t held_files;
	uint32_t cpus; /* 0: unknown, as the next field */
	uint32_t reserved;
	int64_t memory_mb; /* the maximum for boxes: of the host, or of boxd's cgroup */
	char missing[BOX_BOXD_TEXT_MAX];         /* why they cannot */
	char limits_missing[BOX_BOXD_TEXT_MAX];  /* why there are no limits */
	char network_missing[BOX_BOXD_TEXT_MAX]; /* why there is no network */
	char quota_missing[BOX_BOXD_TEXT_MAX];   /* why there are no quotas */
	/* From the sealed policy, which may differ from a later --config: in HOST only. */
	uint32_t sealed;
	uint32_t degraded;
	char images_missing[BOX_BOXD_TEXT_MAX]; /* which of the operator's images are missing */
};

struct box_boxd_start {
	uint32_t kind;
	uint32_t flags;
	uint32_t restarts; /* how often box-rpc was started again */
	int32_t log_level;
	int32_t log_format;
	char config_path[BOX_PATH_MAX]; /* for messages only */
	char working_folder[BOX_PATH_MAX];
	/* Without a token: the user whose connections are let in beside root's, or
	 * BOX_BOXD_NO_UID. */
	uint32_t uid;
	/* The same user as box-rpc sees it, which may be in a user namespace by now. */
	uint32_t operator_uid;
	char token
		[BOX_TOKENS_TEXT_MAX]; /* LANGBOT_BOX_CONTROL_TOKEN, cut if too long; or a file's */
	char instance[BOX_INSTANCE_ID_MAX + 130]; /* LANGBOT_BOX_TRUSTED_INSTANCE_UUID, likewise */
	struct box_boxd_host host;
};

/* The result in an answer: 0, or a negative errno with code and text. */
struct box_boxd_failure {
	int32_t result;
	uint32_t code; /* enum box_code */
	char text[BOX_BOXD_TEXT_MAX];
};

enum box_boxd_check_kind {
	BOX_BOXD_CHECK_ROOT,   /* a folder with a shell, or a file */
	BOX_BOXD_CHECK_FOLDER, /* a folder */
	BOX_BOXD_CHECK_LAYOUT, /* no path: whether the last POLICY could be sealed */
};

struct box_boxd_check_path {
	uint32_t kind;
	uint32_t what; /* enum box_boxd_check_kind */
	char path[BOX_PATH_MAX];
};

struct box_boxd_path_checked {
	uint32_t kind;
	uint32_t reserved;
	struct box_boxd_failure failure;
};

struct box_boxd_host_report {
	uint32_t kind;
	uint32_t reserved;
	struct box_boxd_host host;
};

/* LISTEN, RELOAD, STOP, READY, CONFIG_ACCEPTED, TOKENS_ACCEPTED, STATE, QUERY_HOST and POLICY have
 * no more than this. */
struct box_boxd_plain {
	uint32_t kind;
};

struct box_boxd_tokens {
	uint32_t kind;
	char text[BOX_TOKENS_TEXT_MAX];
};

struct box_boxd_make_folder {
	uint32_t kind;
	uint32_t id;
	uint32_t look_only; /* not 0: make nothing, -ENOENT if it is missing */
	char path[BOX_PATH_MAX];
};

struct box_boxd_folder {
	uint32_t kind;
	uint32_t id;
	int32_t result; /* 0, -ENOTDIR when something else is there, -EPERM when it is not allowed,
			 * -EXDEV when it is outside the mount roots */
};

struct box_boxd_make_box {
	uint32_t kind;
	uint32_t id;
	struct box_plan_request ask;
};

struct box_boxd_made {
	uint32_t kind;
	uint32_t id; /* 0 in INHERITED */
	uint64_t box;
	uint32_t host_address; /* its address on the host's loopback: IPv4, network order; or 0 */
	uint32_t reserved;
	struct box_boxd_failure failure;
};

/* Why boxd ends a box. */
enum box_boxd_end_reason {
	BOX_BOXD_END_SOCKETS = 1,
};

/* The reason as text, for clients that wait for something in the box. */
static inline const char *box_boxd_end_reason(uint32_t why)
{
	return why == BOX_BOXD_END_SOCKETS
		? "its sockets held more of the host's memory than the box may have"
		: "boxd has ended it";
}

/* END_BOX, ENDING and GONE. */
struct box_boxd_box {
	uint32_t kind;
	uint32_t why; /* ENDING: enum box_boxd_end_reason */
	uint64_t box;
};

struct box_boxd_open_mount {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
	uint32_t read_only;
	uint32_t in_store; /* not 0: the path is relative to the folder of OPEN_STORE */
	char namespace[BOX_TENANT_SIZE]; /* of the box's owner: see boxd/files/mount_roots.h */
	char path[BOX_PATH_MAX];
};

/* The folder that the tree is copied from, and the manifest that lists its content. */
struct box_boxd_open_artifact {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
	char digest[BOX_DIGEST_HEX_SIZE];
	char namespace[BOX_TENANT_SIZE];
	char path[BOX_PATH_MAX];
	char manifest[BOX_PATH_MAX];
};

struct box_boxd_open_store {
	uint32_t kind;
	uint32_t id;
	char path[BOX_PATH_MAX];
};

struct box_boxd_store {
	uint32_t kind;
	uint32_t id;
	struct box_boxd_failure failure;
	char path[BOX_PATH_MAX]; /* of the folder, without links */
};

/* The result of box-skills filling a tree, for boxd. */
struct box_artifact_report {
	int32_t result; /* 0, or a negative errno with a text */
	char text[BOX_BOXD_TEXT_MAX];
};

struct box_boxd_mounted {
	uint32_t kind;
	uint32_t id;
	struct box_boxd_failure failure;
};

struct box_boxd_artifact_bytes {
	uint32_t kind;
	uint32_t reserved;
	uint64_t artifact_bytes;
};

/* Neither number is 0. */
struct box_boxd_open_process_cgroup {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
	uint32_t process; /* chosen by box-rpc, unique */
	uint32_t memory_mib;
};

struct box_boxd_process_cgroup {
	uint32_t kind;
	uint32_t id;
	struct box_boxd_failure failure;
};

struct box_boxd_close_process_cgroup {
	uint32_t kind;
	uint32_t process;
	uint64_t box;
};

struct box_boxd_probe_microvms {
	uint32_t kind;
	uint32_t id; /* not 0 */
};

struct box_boxd_probed {
	uint32_t kind;
	uint32_t id;
	struct box_boxd_failure failure;
};

/* Measures `below`, a relative path in the folder `path`. */
struct box_boxd_measure_folder {
	uint32_t kind;
	uint32_t id;
	char path[BOX_PATH_MAX];
	char below[BOX_BOXD_BELOW_MAX];
	char tenant[BOX_TENANT_SIZE]; /* who asks */
};

struct box_boxd_measure_box {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
};

/* The order of the parts in the answer. */
enum box_boxd_folder_part {
	BOX_BOXD_FOLDER_WHOLE,
	BOX_BOXD_FOLDER_MCP,
	BOX_BOXD_FOLDER_INBOX,
	BOX_BOXD_FOLDER_OUTBOX,
};

enum box_boxd_box_part {
	BOX_BOXD_BOX_WORKSPACE, /* if it is the box's own */
	BOX_BOXD_BOX_CACHE,
	BOX_BOXD_BOX_TEMP,
};

#define BOX_BOXD_PARTS 4

struct box_boxd_part {
	uint32_t exists;
	uint32_t reserved;
	uint64_t size_bytes;
	uint64_t file_count;
	uint64_t error_count;
};

struct box_boxd_measured {
	uint32_t kind;
	uint32_t id;
	/* 0; -ENOENT, -ENOTDIR, -EPERM or -EXDEV when it is not a folder that a box may have;
	 * -ESRCH when the box has ended; -ETIMEDOUT; or why it could not be measured. */
	int32_t result;
	uint32_t reserved;
	struct box_boxd_part parts[BOX_BOXD_PARTS];
};
