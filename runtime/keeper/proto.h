/* What boxd and box-rpc say to each other, over a socketpair of packets.
 *
 * Fixed-size structs, both ends of one build; fds travel beside them. boxd reads no text from
 * box-rpc but paths, and treats every packet as hostile: a wrong size or an unknown kind ends
 * box-rpc.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/limits.h"
#include "runtime/plan/plan.h"

#define BOX_KEEPER_FD 3                  /* box-rpc's end of the socketpair */
#define BOX_KEEPER_LISTENERS_MAX 8       /* of TCP */
#define BOX_KEEPER_OTHER_LISTENERS_MAX 1 /* the operator's socket */
#define BOX_KEEPER_LISTEN_FDS_MAX                                    \
	(BOX_KEEPER_LISTENERS_MAX + BOX_KEEPER_OTHER_LISTENERS_MAX + \
		1) /* and the one of sock_diag */

/* box-rpc's exit codes that mean something to boxd. */
#define BOX_EXIT_CONFIG 78 /* the configuration is wrong: do not start again */

enum box_keeper_kind {
	/* boxd -> box-rpc, in this order */
	BOX_KEEPER_START = 1, /* fds: the texts that are there, by the flags */
	BOX_KEEPER_LISTEN, /* after READY; fds: the listening sockets, of TCP and of the operator; and,
			       * where there is no token, one that tells whose a connection is
			       * (base/sock_diag.h). Each is known by its own domain */
	BOX_KEEPER_RELOAD, /* fd: the --config text as it is now */
	BOX_KEEPER_STOP,   /* stop accepting, finish or cancel, exit 0 */
	BOX_KEEPER_FOLDER, /* the answer to MAKE_FOLDER */
	BOX_KEEPER_KEPT,   /* a box of my predecessor; fds as of MADE. All come before LISTEN */
	BOX_KEEPER_MADE, /* the answer to MAKE_BOX; fds: its control socket, its memory events and,
			     * when it has groups below it, those of what is in none of them */
	BOX_KEEPER_MOUNTED,  /* the answer to OPEN_MOUNT; fd: the detached mount */
	BOX_KEEPER_GONE,     /* a box that was made is no more, asked for or not; comes once */
	BOX_KEEPER_ENDS,     /* boxd ends a box for what it has done; GONE will come */
	BOX_KEEPER_MEASURED, /* the answer to MEASURE_FOLDER and MEASURE_BOX */
	BOX_KEEPER_GROUPED,  /* the answer to OPEN_GROUP; fds: its door, its memory events, and the
			      * third of MADE where there is one; none where the box, a microVM,
			      * holds the limit itself */
	BOX_KEEPER_STORED,   /* the answer to OPEN_STORE; fd: the socket to box-skills */
	BOX_KEEPER_TRIED,    /* the answer to TRY_MACHINES */
	BOX_KEEPER_HELD,     /* how much memory artifacts hold now */
	BOX_KEEPER_TOKENS,   /* the text of the token file as it is now */
	BOX_KEEPER_LOOKED,   /* the answer to LOOK_AT */
	BOX_KEEPER_HOST,     /* what boxes would get now: before LISTEN, and the answer to LOOK */

	/* box-rpc -> boxd */
	BOX_KEEPER_READY = 64, /* configured and fenced: give me the listeners */
	BOX_KEEPER_TAKEN,      /* the text of RELOAD is good: my successor shall have it too */
	BOX_KEEPER_STATE,      /* fd: keep this in place of the last one, for my successor */
	BOX_KEEPER_MAKE_FOLDER,
	BOX_KEEPER_POLICY, /* fd: struct box_policy; all of it counts before the first READY, later only
			    * what it narrows */
	BOX_KEEPER_MAKE_BOX,
	BOX_KEEPER_END_BOX,       /* GONE will come */
	BOX_KEEPER_OPEN_MOUNT,    /* a folder or file of the host, for a command in a box */
	BOX_KEEPER_OPEN_ARTIFACT, /* a tree named by its digest; MOUNTED answers it too */
	BOX_KEEPER_OPEN_STORE,    /* starts box-skills in the folder of the skills */
	BOX_KEEPER_MEASURE_FOLDER,
	BOX_KEEPER_MEASURE_BOX,
	BOX_KEEPER_OPEN_GROUP,   /* limits the memory of one process; again: the same group */
	BOX_KEEPER_CLOSE_GROUP,  /* it goes when it is empty, at the latest with its box */
	BOX_KEEPER_TRY_MACHINES, /* whether there can be microVMs; a guest may be booted for it */
	BOX_KEEPER_TOKENS_TAKEN, /* the text of TOKENS is good: my successor shall have it too */
	BOX_KEEPER_LOOK,         /* HOST answers */
	BOX_KEEPER_LOOK_AT, /* what is at a path of the configuration: for --check-config alone */
};

enum box_keeper_start_flag {
	BOX_START_STDIO = 1 << 0,            /* fds 0 and 1 are a connection */
	BOX_START_HAS_FILE = 1 << 1,         /* fd: --config */
	BOX_START_HAS_VARIABLE = 1 << 2,     /* fd: LANGBOT_BOX_CONFIG */
	BOX_START_HAS_STATE = 1 << 3,        /* fd: the predecessor's STATE */
	BOX_START_CHECK_CONFIG = 1 << 4,     /* say whether the configuration is good, and exit */
	BOX_START_EXPLICIT_HOST = 1 << 5,    /* --host was given */
	BOX_START_SOFT_STORAGE = 1 << 6,     /* LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS */
	BOX_START_WIDE_OPEN = 1 << 7,        /* is to listen beyond loopback and has no token */
	BOX_START_TOKEN_FILE = 1 << 9,       /* `token` is the text of a file, a line a token */
	BOX_START_UNAUTHENTICATED = 1 << 10, /* --unauthenticated, or its variable */
	BOX_START_HAS_FIRST = 1 << 8,  /* fd: the --config that boxd was started with, if another */
	BOX_START_HAS_ROOTS = 1 << 11, /* fd: --mount-root, each with a NUL behind it */
	BOX_START_SOCKET_GROUP = 1 << 12, /* --socket-group was given */
};

#define BOX_KEEPER_NO_UID UINT32_MAX
#define BOX_KEEPER_TEXT_MAX 512
#define BOX_KEEPER_BELOW_MAX 64

/* What boxd found out about this host. */
struct box_keeper_host {
	uint32_t possible; /* boxes can be made at all */
	uint32_t limits;   /* cgroup version, 0: none */
	uint32_t network;
	uint32_t landlock_abi;
	uint32_t id_ranges;
	uint32_t quota;        /* folders of the host can be held to one */
	uint32_t held_sockets; /* as in struct box_held_facts */
	uint32_t held_files;
	uint32_t cpus; /* 0: not known, as the next */
	uint32_t reserved;
	int64_t memory_mb; /* that boxes can have at all: of the host, or of our own cgroup */
	char missing[BOX_KEEPER_TEXT_MAX];         /* why they cannot */
	char limits_missing[BOX_KEEPER_TEXT_MAX];  /* why there are no limits */
	char network_missing[BOX_KEEPER_TEXT_MAX]; /* why there is no network */
	char quota_missing[BOX_KEEPER_TEXT_MAX];   /* why there are no quotas */
	/* Of the sealed policy, which a successor's file may not be: in HOST alone. */
	uint32_t sealed;
	uint32_t degraded;
	char images_missing[BOX_KEEPER_TEXT_MAX]; /* which of the operator's images are not there */
};

struct box_keeper_start {
	uint32_t kind;
	uint32_t flags;
	uint32_t restarts; /* how often box-rpc was started again */
	int32_t log_level;
	int32_t log_format;
	char config_path[BOX_PATH_MAX]; /* for messages only */
	char working_folder[BOX_PATH_MAX];
	/* Without a token: the user whose connections are let in beside root's, or
	 * BOX_KEEPER_NO_UID. */
	uint32_t uid;
	/* The same user as box-rpc sees it, which may be in a user namespace by now. */
	uint32_t operator_uid;
	char token
		[BOX_TOKENS_TEXT_MAX]; /* LANGBOT_BOX_CONTROL_TOKEN, cut if too long; or a file's */
	char instance[BOX_INSTANCE_ID_MAX + 130]; /* LANGBOT_BOX_TRUSTED_INSTANCE_UUID, likewise */
	struct box_keeper_host host;
};

/* How an answer tells a failure: 0, or a negative errno with code and text. */
struct box_keeper_failure {
	int32_t result;
	uint32_t code; /* enum box_code */
	char text[BOX_KEEPER_TEXT_MAX];
};

enum box_keeper_look_kind {
	BOX_LOOK_ROOT,   /* a folder with a shell, or a file */
	BOX_LOOK_FOLDER, /* a folder */
	BOX_LOOK_LAYOUT, /* no path: whether the POLICY that came before could be sealed */
};

struct box_keeper_look_at {
	uint32_t kind;
	uint32_t what; /* enum box_keeper_look_kind */
	char path[BOX_PATH_MAX];
};

struct box_keeper_looked {
	uint32_t kind;
	uint32_t reserved;
	struct box_keeper_failure failure;
};

struct box_keeper_host_told {
	uint32_t kind;
	uint32_t reserved;
	struct box_keeper_host host;
};

/* LISTEN, RELOAD, STOP, READY, TAKEN, TOKENS_TAKEN, STATE, LOOK and POLICY are this alone. */
struct box_keeper_plain {
	uint32_t kind;
};

struct box_keeper_tokens {
	uint32_t kind;
	char text[BOX_TOKENS_TEXT_MAX];
};

struct box_keeper_make_folder {
	uint32_t kind;
	uint32_t id;
	uint32_t look_only; /* not 0: make nothing, -ENOENT when it is not there */
	char path[BOX_PATH_MAX];
};

struct box_keeper_folder {
	uint32_t kind;
	uint32_t id;
	int32_t result; /* 0, -ENOTDIR when something else is there, -EPERM when it is not allowed,
			 * -EXDEV when it is outside the mount roots */
};

struct box_keeper_make_box {
	uint32_t kind;
	uint32_t id;
	struct box_ask ask;
};

struct box_keeper_made {
	uint32_t kind;
	uint32_t id; /* 0 in KEPT */
	uint64_t box;
	uint32_t host_address; /* its own on the host's loopback: IPv4, network order; or 0 */
	uint32_t reserved;
	struct box_keeper_failure failure;
};

/* Why boxd ends a box by itself. */
enum box_keeper_why {
	BOX_KEEPER_WHY_SOCKETS = 1,
};

/* In words for whoever waits for something in the box. */
static inline const char *box_keeper_why(uint32_t why)
{
	return why == BOX_KEEPER_WHY_SOCKETS
		? "its sockets held more of the host's memory than the box may have"
		: "boxd has ended it";
}

/* END_BOX, ENDS and GONE. */
struct box_keeper_box {
	uint32_t kind;
	uint32_t why; /* ENDS: enum box_keeper_why */
	uint64_t box;
};

struct box_keeper_open_mount {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
	uint32_t read_only;
	uint32_t in_store; /* not 0: the path is relative to the folder of OPEN_STORE */
	char namespace[BOX_TENANT_SIZE]; /* whose box it is: see mount_roots.h */
	char path[BOX_PATH_MAX];
};

/* The folder that the tree is copied from, and the manifest that says what is in it. */
struct box_keeper_open_artifact {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
	char digest[BOX_DIGEST_HEX_SIZE];
	char namespace[BOX_TENANT_SIZE];
	char path[BOX_PATH_MAX];
	char manifest[BOX_PATH_MAX];
};

struct box_keeper_open_store {
	uint32_t kind;
	uint32_t id;
	char path[BOX_PATH_MAX];
};

struct box_keeper_stored {
	uint32_t kind;
	uint32_t id;
	struct box_keeper_failure failure;
	char path[BOX_PATH_MAX]; /* of the folder, without links */
};

/* What box-skills tells boxd of a tree that it was to fill. */
struct box_artifact_report {
	int32_t result; /* 0, or a negative errno with a text */
	char text[BOX_KEEPER_TEXT_MAX];
};

struct box_keeper_mounted {
	uint32_t kind;
	uint32_t id;
	struct box_keeper_failure failure;
};

struct box_keeper_held {
	uint32_t kind;
	uint32_t reserved;
	uint64_t artifact_bytes;
};

/* Neither number is 0. */
struct box_keeper_open_group {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
	uint32_t process; /* chosen by box-rpc, once for each */
	uint32_t mebibytes;
};

struct box_keeper_grouped {
	uint32_t kind;
	uint32_t id;
	struct box_keeper_failure failure;
};

struct box_keeper_close_group {
	uint32_t kind;
	uint32_t process;
	uint64_t box;
};

struct box_keeper_try {
	uint32_t kind;
	uint32_t id; /* not 0 */
};

struct box_keeper_tried {
	uint32_t kind;
	uint32_t id;
	struct box_keeper_failure failure;
};

/* How much there is in `below`, a relative path in the folder `path`. */
struct box_keeper_measure_folder {
	uint32_t kind;
	uint32_t id;
	char path[BOX_PATH_MAX];
	char below[BOX_KEEPER_BELOW_MAX];
	char tenant[BOX_TENANT_SIZE]; /* who asks */
};

struct box_keeper_measure_box {
	uint32_t kind;
	uint32_t id;
	uint64_t box;
};

/* Which part is which in the answer. */
enum box_keeper_part_of_folder {
	BOX_FOLDER_WHOLE,
	BOX_FOLDER_MCP,
	BOX_FOLDER_INBOX,
	BOX_FOLDER_OUTBOX,
};

enum box_keeper_part_of_box {
	BOX_BOX_WORKSPACE, /* when it is the box's own */
	BOX_BOX_CACHE,
	BOX_BOX_TEMP,
};

#define BOX_KEEPER_PARTS 4

struct box_keeper_part {
	uint32_t exists;
	uint32_t reserved;
	uint64_t size_bytes;
	uint64_t file_count;
	uint64_t error_count;
};

struct box_keeper_measured {
	uint32_t kind;
	uint32_t id;
	/* 0; -ENOENT, -ENOTDIR, -EPERM or -EXDEV when there is no such folder that a box may have;
	 * -ESRCH when the box has ended; -ETIMEDOUT; or why it could not be measured. */
	int32_t result;
	uint32_t reserved;
	struct box_keeper_part parts[BOX_KEEPER_PARTS];
};
