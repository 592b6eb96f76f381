/* What boxd and box-rpc say to each other, over a socketpair of packets.
 *
 * Fixed-size structs, both ends of one build; fds travel beside them. boxd reads no text from
 * box-rpc but the one path of MAKE_FOLDER, and treats every packet as hostile: a wrong size or an
 * unknown kind ends box-rpc.
 */
#pragma once

#include <limits.h>
#include <stdint.h>

#include "base/limits.h"

#define BOX_KEEPER_FD 3 /* box-rpc's end of the socketpair */
#define BOX_KEEPER_LISTENERS_MAX 8

/* box-rpc's exit codes that mean something to boxd. */
#define BOX_EXIT_CONFIG 78 /* the configuration is wrong: do not start again */

enum box_keeper_kind {
	/* boxd -> box-rpc, in this order */
	BOX_KEEPER_START = 1, /* fds: the texts that are there, by the flags */
	BOX_KEEPER_LISTEN,    /* after READY; fds: the listening sockets */
	BOX_KEEPER_RELOAD,    /* fd: the --config text as it is now */
	BOX_KEEPER_STOP,      /* stop accepting, finish or cancel, exit 0 */
	BOX_KEEPER_FOLDER,    /* the answer to MAKE_FOLDER */

	/* box-rpc -> boxd */
	BOX_KEEPER_READY = 64, /* configured and fenced: give me the listeners */
	BOX_KEEPER_TAKEN,      /* the text of RELOAD is good: my successor shall have it too */
	BOX_KEEPER_STATE,      /* fd: keep this in place of the last one, for my successor */
	BOX_KEEPER_MAKE_FOLDER,
};

enum box_keeper_start_flag {
	BOX_START_STDIO = 1 << 0,         /* fds 0 and 1 are a connection */
	BOX_START_HAS_FILE = 1 << 1,      /* fd: --config */
	BOX_START_HAS_VARIABLE = 1 << 2,  /* fd: LANGBOT_BOX_CONFIG */
	BOX_START_HAS_STATE = 1 << 3,     /* fd: the predecessor's STATE */
	BOX_START_CHECK_CONFIG = 1 << 4,  /* say whether the configuration is good, and exit */
	BOX_START_EXPLICIT_HOST = 1 << 5, /* --host was given */
	BOX_START_SOFT_STORAGE = 1 << 6,  /* LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS */
	BOX_START_WIDE_OPEN = 1 << 7,     /* listens beyond loopback and has no token */
};

struct box_keeper_start {
	uint32_t kind;
	uint32_t flags;
	uint32_t restarts; /* how often box-rpc was started again */
	int32_t log_level;
	int32_t log_format;
	char config_path[BOX_PATH_MAX]; /* for messages only */
	char working_folder[BOX_PATH_MAX];
	char token[BOX_TOKEN_MAX + 2]; /* LANGBOT_BOX_CONTROL_TOKEN, cut here if longer */
	char instance[BOX_INSTANCE_ID_MAX + 130]; /* LANGBOT_BOX_TRUSTED_INSTANCE_UUID, likewise */
};

/* LISTEN, RELOAD, STOP, READY, TAKEN and STATE are this alone. */
struct box_keeper_plain {
	uint32_t kind;
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
	int32_t result; /* 0, -ENOTDIR when something else is there, -EPERM when it is not allowed */
};
