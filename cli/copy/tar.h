/* Tar archives: ustar, with the extensions of pax and GNU tar for long names, large sizes and exact times. Pure:
 * no file, no clock. What is read may come from a hostile box: sizes are limited, and names are checked with
 * box_tar_check_name; what an entry may do on the host is decided by the caller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/value.h"

#define BOX_TAR_BLOCK 512

enum box_tar_type {
	BOX_TAR_FILE,
	BOX_TAR_FOLDER,
	BOX_TAR_LINK, /* symbolic */
	BOX_TAR_HARD_LINK,
	BOX_TAR_OTHER, /* a device, a FIFO, or something unknown: entry->what says which */
};

struct box_tar_entry {
	enum box_tar_type type;
	const char *what; /* the reason as text */
	unsigned mode;    /* the lower 12 bits */
	int64_t size;     /* of a file's data; 0 for others */
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	struct box_str path; /* as in the archive, not checked; without NUL */
	struct box_str link; /* the target of a link */
};

/* --- reading --- */

enum box_tar_event {
	BOX_TAR_MORE,  /* all was used */
	BOX_TAR_ENTRY, /* reader->entry, good until the next call */
	BOX_TAR_DATA,  /* *ret_data: bytes of the entry, in order */
	BOX_TAR_DONE,  /* the entry is complete; for every entry */
	BOX_TAR_END,   /* of the archive: what follows is ignored */
	BOX_TAR_BROKEN,
};

struct box_tar_reader {
	char block[BOX_TAR_BLOCK];
	size_t block_len;
	int state;
	unsigned zeros;        /* empty blocks in a row */
	int extra;             /* the kind of extra header that is read */
	struct box_buf gather; /* its bytes */
	uint64_t left;         /* of the data */
	uint64_t padding;
	struct box_buf path; /* from an extra header, for the next entry */
	struct box_buf link;
	bool has_size;
	bool has_mtime;
	bool sparse;
	int64_t size;
	int64_t mtime_sec;
	uint32_t mtime_nsec;
	char path_room[260];
	char link_room[104];
	struct box_tar_entry entry;
};

void box_tar_reader_start(struct box_tar_reader *reader);
void box_tar_reader_free(struct box_tar_reader *reader);

/* Parses up to the next event; *ret_used is how many bytes that took. After BROKEN, with the reason in *ret_why,
 * it cannot go on. */
enum box_tar_event box_tar_reader_feed(struct box_tar_reader *reader, struct box_str bytes,
	size_t *ret_used, struct box_str *ret_data, const char **ret_why);
/* Whether an archive may end here, before its END: between two entries. */
bool box_tar_reader_at_edge(const struct box_tar_reader *reader);

/* NULL when a path stays below a folder, or the reason: it is absolute, has "..", is empty or too long. */
const char *box_tar_check_name(struct box_str path);
/* The next part of such a path, without "."; false at its end. Advances *path. */
bool box_tar_next_part(struct box_str *path, struct box_str *ret_part);

/* --- writing --- */

/* Appends the headers of an entry. 0 or -EMSGSIZE. Data and box_tar_padding zeros must follow. */
int box_tar_write_entry(struct box_buf *out, const struct box_tar_entry *entry);
/* How many zeros follow the data. */
size_t box_tar_padding(uint64_t size);
/* Appends the end of the archive. */
int box_tar_write_end(struct box_buf *out);
