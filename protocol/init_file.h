/* The protocol for file operations in a box, between box-rpc and the process that box-init forks.
 *
 * The command of a RUN with BOX_INIT_RUN_FILE is a struct box_init_file and its texts. Box-init forks
 * a process for it with the rights of a command. The process writes the requested bytes to stdout,
 * then one struct box_init_file_answer to stderr, and exits. Bytes to be written to a file arrive as
 * INPUT. A watch writes struct box_init_file_event to stdout until it is killed, and an answer only
 * if it could not start.
 *
 * None of this can be trusted: other processes of the box run with the same ids. The functions
 * box_init_file_* below validate every byte before any other code reads it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

#define BOX_INIT_FILE_TEXT_MAX 4096U /* a base, a path, a link's target, with its NUL */
#define BOX_INIT_FILE_NAME_MAX 255U
#define BOX_INIT_FILE_FOLDERS_MAX 8192U /* of one recursive watch */

enum box_init_file_kind {
	BOX_INIT_FILE_READ = 1,
	BOX_INIT_FILE_WRITE,
	BOX_INIT_FILE_LIST,
	BOX_INIT_FILE_STAT,
	BOX_INIT_FILE_MKDIR,
	BOX_INIT_FILE_REMOVE,
	BOX_INIT_FILE_MOVE,
	BOX_INIT_FILE_WATCH,
	BOX_INIT_FILE_MEASURE, /* of the box's storage; the base is the path of its caches */
	BOX_INIT_FILE_KINDS_
};

enum box_init_file_flag {
	BOX_INIT_FILE_AT_OFFSET = 1 << 0, /* WRITE: at the offset; else replaces the whole file */
	BOX_INIT_FILE_APPEND = 1 << 1,    /* WRITE: at the end */
	BOX_INIT_FILE_PARENTS = 1 << 2,   /* WRITE, MKDIR: creates missing parent folders */
	BOX_INIT_FILE_RECURSIVE = 1 << 3, /* REMOVE, WATCH */
	BOX_INIT_FILE_REPLACE = 1 << 4,   /* MOVE: replaces an existing target */
	BOX_INIT_FILE_MODE = 1 << 5,      /* WRITE, MKDIR: `mode` is set */
	BOX_INIT_FILE_FLAGS_ = (1 << 6) - 1,
};

/* Followed by four texts, each with its NUL: the base, a folder that the path must not leave,
 * absolute and normalised; the path below it, without a leading slash; base and path of the target of
 * a MOVE, else two empty texts. Of a LIST the fourth text is the name after which the page starts. */
struct box_init_file {
	uint32_t kind;
	uint32_t flags;
	uint32_t mode;     /* permissions, 0 to 0777 */
	uint32_t limit;    /* LIST: maximum number of entries */
	uint64_t offset;   /* READ; WRITE with AT_OFFSET */
	uint64_t size;     /* READ: maximum bytes; WRITE: bytes of INPUT; LIST: maximum bytes */
	uint32_t sizes[4]; /* of the texts, with their NULs */
};

/* Why a request was refused, in addition to errnum. */
enum box_init_file_why {
	BOX_INIT_FILE_WHY_NONE,
	BOX_INIT_FILE_WHY_OUTSIDE, /* a link or .. leads out of the base */
	BOX_INIT_FILE_WHY_MAGIC,   /* it is in /proc, /sys, /dev or a similar file system */
	BOX_INIT_FILE_WHY_TYPE,    /* it is not a regular file: see facts.type */
	BOX_INIT_FILE_WHY_BASE,    /* it is the base itself */
	BOX_INIT_FILE_WHY_INOTIFY, /* the seccomp filter of this box refuses inotify */
	BOX_INIT_FILE_WHY_FOLDERS, /* more than BOX_INIT_FILE_FOLDERS_MAX folders to watch */
	BOX_INIT_FILE_WHYS_
};

enum box_init_file_type {
	BOX_INIT_FILE_TYPE_NONE, /* not specified */
	BOX_INIT_FILE_TYPE_FILE,
	BOX_INIT_FILE_TYPE_FOLDER,
	BOX_INIT_FILE_TYPE_LINK,
	BOX_INIT_FILE_TYPE_FIFO,
	BOX_INIT_FILE_TYPE_SOCKET,
	BOX_INIT_FILE_TYPE_DEVICE,
	BOX_INIT_FILE_TYPES_
};

struct box_init_file_facts {
	uint32_t type;
	uint32_t mode; /* permissions, 0 to 07777 */
	uint64_t size;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	uint32_t target_size; /* length of a link's target, which follows the name without NUL */
};

struct box_init_file_answer {
	int32_t errnum; /* 0: success */
	uint32_t why;
	uint32_t of_to; /* 1: errnum concerns the target of a MOVE */
	uint32_t more;  /* LIST: 1 if there are names after the last one */
	uint64_t written;
	uint64_t data_size; /* bytes written to stdout */
	struct box_init_file_facts facts;
};

/* The output of a LIST: entries sorted by the bytes of their names, each followed by its name and, for a
 * link, its target. */
struct box_init_file_entry {
	struct box_init_file_facts facts;
	uint32_t name_size;
	uint32_t reserved;
};

/* The output of a MEASURE: the storage of three parts, none counted twice. */
struct box_init_file_part {
	uint64_t exists; /* 0 or 1 */
	uint64_t size_bytes;
	uint64_t file_count;
};

struct box_init_file_measured {
	struct box_init_file_part workspace; /* if it is not a folder of the host */
	struct box_init_file_part cache;
	struct box_init_file_part temp;
};

enum box_init_file_change {
	BOX_INIT_FILE_STARTED = 1,
	BOX_INIT_FILE_CREATED,
	BOX_INIT_FILE_CHANGED,
	BOX_INIT_FILE_REMOVED, /* without a path: the watched file or folder; the last event */
	BOX_INIT_FILE_MOVED,   /* with the old path in `from` */
	BOX_INIT_FILE_OVERFLOW,
	BOX_INIT_FILE_CHANGES_
};

/* Followed by the path and the old path, relative to what is watched, without NUL. */
struct box_init_file_event {
	uint32_t change;
	uint32_t is_folder; /* 0 or 1 */
	uint32_t path_size;
	uint32_t from_size;
};

/* Validates the command of a RUN: 0 and pointers to its texts, or -EBADMSG. `bytes` need not be
 * aligned. */
int box_init_file_check(
	const char *bytes, size_t size, struct box_init_file *ret_file, const char *ret_texts[4]);

/* Validates what arrived on stderr, and the number of bytes on stdout: 0, or -EBADMSG if it is not an
 * answer to `file`. */
int box_init_file_read_answer(const struct box_init_file *file, struct box_str err,
	size_t data_size, struct box_init_file_answer *ret_answer);

/* Validates the output of a MEASURE: 0 or -EBADMSG. */
int box_init_file_read_measured(struct box_str data, struct box_init_file_measured *ret_measured);

struct box_init_file_entry_read {
	struct box_init_file_facts facts;
	struct box_str name;
	struct box_str target;
};

/* Removes the next entry from `left`; its name must sort after `after`. 1; 0 at the end; -EBADMSG. */
int box_init_file_next_entry(
	struct box_str *left, struct box_str after, struct box_init_file_entry_read *ret_named);

struct box_init_file_event_read {
	uint32_t change;
	bool is_folder;
	struct box_str path;
	struct box_str from;
};

/* Removes the next event from `left`. 1; 0 if it is incomplete; -EBADMSG. */
int box_init_file_next_event(struct box_str *left, struct box_init_file_event_read *ret_changed);

/* Whether `path` is one or more names separated by single slashes, none of them . or .. */
bool box_init_file_is_below(struct box_str path);
