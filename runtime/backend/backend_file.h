/* Files in a box: the requests that a backend handles, and its answers. Paths are those of the box, and are never
 * resolved outside it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/value.h"

struct box_mount;

enum box_file_kind {
	BOX_FILE_READ,
	BOX_FILE_WRITE,
	BOX_FILE_LIST,
	BOX_FILE_STAT,
	BOX_FILE_MKDIR,
	BOX_FILE_REMOVE,
	BOX_FILE_MOVE,
	BOX_FILE_WATCH,
	BOX_FILE_MEASURE, /* how much is in the box; no client asks for it, see local_file.c */
};

/* Neither text has a NUL in it. */
struct box_file_path {
	const char *root;  /* absolute and normalised: no link may lead out of it */
	const char *below; /* below root, without a leading slash; "" is the root itself */
};

struct box_backend_file_request {
	enum box_file_kind kind;
	struct box_file_path path;
	struct box_file_path to; /* MOVE */
	uint64_t offset;         /* READ; WRITE with `at` */
	uint64_t length;         /* READ: bytes at most */
	uint32_t limit;          /* LIST: entries at most */
	const char *after;       /* LIST: only names after this one */
	struct box_str data;     /* WRITE */
	bool at;                 /* WRITE: at the offset; otherwise the whole file is replaced */
	bool append;             /* WRITE: at the end */
	bool parents;            /* WRITE, MKDIR */
	bool recursive;          /* REMOVE, WATCH */
	bool replace;            /* MOVE */
	int mode;                /* WRITE, MKDIR: 0 to 0777; -1: the default */
	uint64_t credit;         /* WATCH: bytes of events before box_backend_ops.credit */
	const struct box_mount *mounts; /* of the session, in addition to the box's own */
	size_t mount_count;
};

enum box_file_type {
	BOX_FILE_TYPE_FILE = 1,
	BOX_FILE_TYPE_FOLDER,
	BOX_FILE_TYPE_LINK,
	BOX_FILE_TYPE_FIFO,
	BOX_FILE_TYPE_SOCKET,
	BOX_FILE_TYPE_DEVICE,
};

struct box_file_facts {
	struct box_str name; /* LIST */
	enum box_file_type type;
	uint32_t mode;
	uint64_t size;
	int64_t mtime_ms;
	struct box_str target; /* of a link */
};

/* Why the box refused. */
enum box_file_refusal {
	BOX_FILE_REFUSAL_NONE,      /* the errno is the reason */
	BOX_FILE_REFUSAL_OUTSIDE,   /* the path leads out of its root */
	BOX_FILE_REFUSAL_KERNEL_FS, /* it is in /proc, /sys, /dev or the like */
	BOX_FILE_REFUSAL_TYPE,      /* it is not a regular file: see facts.type */
	BOX_FILE_REFUSAL_ROOT,      /* it is the root itself */
	BOX_FILE_REFUSAL_INOTIFY,   /* nothing can be watched in this box */
	BOX_FILE_REFUSAL_FOLDERS,   /* too many folders to be watched */
};

/* The result, valid only during `done`. */
struct box_file_outcome {
	int errnum; /* 0: success */
	enum box_file_refusal why;
	bool of_to; /* the errno is about `to` */
	uint64_t written;
	struct box_file_facts facts; /* READ, WRITE: size; STAT: all */
	struct box_str data;         /* READ, MEASURE */
	const struct box_file_facts *entries;
	size_t entry_count;
	bool more; /* LIST */
};

enum box_file_change {
	BOX_FILE_CREATED,
	BOX_FILE_CHANGED,
	BOX_FILE_REMOVED, /* without a path: the watched file or folder itself, and then the watch ends */
	BOX_FILE_MOVED,
	BOX_FILE_OVERFLOW, /* some events were lost: the client must check for itself */
};

struct box_file_event {
	enum box_file_change change;
	bool is_folder;
	struct box_str path; /* below the watched folder; "" is the folder itself */
	struct box_str from; /* MOVED */
	uint64_t cost;       /* to be returned as credit */
};

/* What a watch reports before its `done`. */
struct box_file_events {
	void (*started)(void *arg);
	void (*event)(void *arg, const struct box_file_event *event);
};
