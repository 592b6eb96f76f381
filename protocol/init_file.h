/* What box-rpc asks of the process in a box that works on files, and what that one answers.
 *
 * A RUN with BOX_INIT_RUN_FILE has as its command a struct box_init_file and its texts. Box-init
 * forks a process for it with the rights of a command. That one writes the bytes that were asked
 * for to its stdout, then one struct box_init_file_answer to its stderr, and ends. Bytes to write
 * come by INPUT. A watch writes struct box_init_file_event to its stdout for as long as it lives,
 * and an answer only when it could not begin.
 *
 * All of that may be lies: other processes of the box have the same ids. box_init_file_* below
 * decide over every byte of it before anyone looks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

#define BOX_INIT_FILE_TEXT_MAX 4096U /* a place, a path, a link's target, with its NUL */
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
	BOX_INIT_FILE_MEASURE, /* of the box itself; the place is that of its caches */
	BOX_INIT_FILE_KINDS_
};

enum box_init_file_flag {
	BOX_INIT_FILE_AT_OFFSET = 1 << 0, /* WRITE: at the offset, else the whole file anew */
	BOX_INIT_FILE_APPEND = 1 << 1,    /* WRITE: at the end */
	BOX_INIT_FILE_PARENTS = 1 << 2,   /* WRITE, MKDIR: folders on the way are made */
	BOX_INIT_FILE_RECURSIVE = 1 << 3, /* REMOVE, WATCH */
	BOX_INIT_FILE_REPLACE = 1 << 4,   /* MOVE: what is there is replaced */
	BOX_INIT_FILE_MODE = 1 << 5,      /* WRITE, MKDIR: mode counts */
	BOX_INIT_FILE_FLAGS_ = (1 << 6) - 1,
};

/* Behind it four texts, each with its NUL: the place that the path may not leave, absolute and
 * normalised; the path below it, without a slash in front; the same for `to` of a MOVE, else two
 * empty ones; of a LIST the second of them is the name after which it begins. */
struct box_init_file {
	uint32_t kind;
	uint32_t flags;
	uint32_t mode;     /* permissions, 0 to 0777 */
	uint32_t limit;    /* LIST: entries */
	uint64_t offset;   /* READ, WRITE with AT */
	uint64_t size;     /* READ: bytes at most; WRITE: of INPUT; LIST: of entries at most */
	uint32_t sizes[4]; /* of the texts, with their NULs */
};

/* Why something was refused, beside an errno. */
enum box_init_file_why {
	BOX_INIT_FILE_WHY_NONE,
	BOX_INIT_FILE_WHY_OUTSIDE, /* a link or .. leads out of the place */
	BOX_INIT_FILE_WHY_MAGIC,   /* it is in /proc, /sys, /dev or the like */
	BOX_INIT_FILE_WHY_TYPE,    /* it is no regular file: see facts.type */
	BOX_INIT_FILE_WHY_BASE,    /* it is the place itself */
	BOX_INIT_FILE_WHY_INOTIFY, /* the filter of this box has no inotify */
	BOX_INIT_FILE_WHY_FOLDERS, /* more than BOX_INIT_FILE_FOLDERS_MAX to be watched */
	BOX_INIT_FILE_WHYS_
};

enum box_init_file_type {
	BOX_INIT_FILE_TYPE_NONE, /* nothing is said */
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
	uint32_t target_size; /* of a link, without NUL, behind the name */
};

struct box_init_file_answer {
	int32_t errnum; /* 0: it was done */
	uint32_t why;
	uint32_t of_to; /* 1: errnum is about `to` */
	uint32_t more;  /* LIST: 1 when there are names behind the last one */
	uint64_t written;
	uint64_t data_size; /* bytes on stdout */
	struct box_init_file_facts facts;
};

/* LIST: one after the other, sorted by the bytes of their names. */
struct box_init_file_entry {
	struct box_init_file_facts facts;
	uint32_t name_size;
	uint32_t reserved;
};

/* MEASURE: all that is on stdout. Nothing is in two of them. */
struct box_init_file_part {
	uint64_t exists; /* 0 or 1 */
	uint64_t size_bytes;
	uint64_t file_count;
};

struct box_init_file_measured {
	struct box_init_file_part workspace; /* when it is the box's own */
	struct box_init_file_part cache;
	struct box_init_file_part temp;
};

enum box_init_file_change {
	BOX_INIT_FILE_STARTED = 1,
	BOX_INIT_FILE_CREATED,
	BOX_INIT_FILE_CHANGED,
	BOX_INIT_FILE_REMOVED, /* without a path: what is watched; the last one */
	BOX_INIT_FILE_MOVED,   /* has a `from` */
	BOX_INIT_FILE_OVERFLOW,
	BOX_INIT_FILE_CHANGES_
};

/* Then the path and `from`, below what is watched, without NUL. */
struct box_init_file_event {
	uint32_t change;
	uint32_t is_folder; /* 0 or 1 */
	uint32_t path_size;
	uint32_t from_size;
};

/* The command of a RUN: 0 and where its texts are, or -EBADMSG. `bytes` need not be aligned. */
int box_init_file_check(
	const char *bytes, size_t size, struct box_init_file *ret_file, const char *ret_texts[4]);

/* What came on stderr and how much on stdout: 0, or -EBADMSG when that is no answer to `file`. */
int box_init_file_read_answer(const struct box_init_file *file, struct box_str err,
	size_t data_size, struct box_init_file_answer *ret_answer);

/* What a MEASURE has told: 0, or -EBADMSG. */
int box_init_file_read_measured(struct box_str data, struct box_init_file_measured *ret_measured);

struct box_init_file_entry_read {
	struct box_init_file_facts facts;
	struct box_str name;
	struct box_str target;
};

/* Takes the next entry off `left`, whose name must come after `after`. 1; 0 at the end; -EBADMSG. */
int box_init_file_next_entry(
	struct box_str *left, struct box_str after, struct box_init_file_entry_read *ret_named);

struct box_init_file_event_read {
	uint32_t change;
	bool is_folder;
	struct box_str path;
	struct box_str from;
};

/* Takes the next event off `left`. 1; 0 when it is not whole yet; -EBADMSG. */
int box_init_file_next_event(struct box_str *left, struct box_init_file_event_read *ret_changed);

/* Whether `path` is one or more names with single slashes between, none of them . or .. */
bool box_init_file_is_below(struct box_str path);
