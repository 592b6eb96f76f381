/* One skill package: a folder with SKILL.md (or skill.md), read and ready for answers. For skill_tree.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/value.h"

struct box_arena;
struct box_err;
struct stat;

/* The stat fields that must be unchanged for earlier results to remain valid. */
struct box_package_stamp {
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
};

/* The stamp of an entry, not following a link at its end. 0 or -errno. */
int box_package_stamp_read(
	int dir_fd, const char *path, struct box_package_stamp *ret_stamp, unsigned *ret_mode);
/* The stamp of an open file. */
int box_package_stamp_of_fd(int fd, struct box_package_stamp *ret_stamp);
bool box_package_stamp_same(const struct box_package_stamp *a, const struct box_package_stamp *b);
/* True if any change after `now_ns` certainly shows in the stamp: file times are coarse, so a stamp that is
 * younger than a few ticks proves nothing. */
bool box_package_stamp_is_settled(const struct box_package_stamp *stamp, int64_t now_ns);
int64_t box_package_stamp_now_ns(void);

struct box_package {
	struct box_arena *arena; /* owns all below */
	struct box_str name;
	struct box_str instructions;
	struct box_str display_name;
	struct box_str description;
	struct box_str updated_at;
	const char *package_root;
	struct box_value map;              /* the public fields, ready for an answer */
	struct box_value warnings;         /* {field, message}: deviations from the format */
	struct box_value content_warnings; /* the same without the check of the folder's name */
	size_t text_bytes;                 /* of the public fields */
	struct box_package_stamp stamp;    /* of the entry file */
	bool is_settled;
	int entry_fd; /* the file it was read from; -1 if it was closed */
	bool has_links; /* python_project depends on a link, whose changes no stamp of the folder shows */
};

/* Reads the package in the opened folder. `root` is its absolute path for clients, whose last component is
 * the package's name if the front matter has none. -errno with a text for clients. ret_work is set in either
 * case, and may be NULL. */
int box_package_load(int folder_fd, const char *entry_file, const char *root,
	struct box_package **ret_skill, size_t *ret_work, struct box_err *err);
void box_package_free(struct box_package *skill);
/* How much memory the package takes. */
size_t box_package_bytes(const struct box_package *skill);
/* Updates what the stamps of the folder and of the entry file do not cover. */
void box_package_refresh(struct box_package *skill, int folder_fd);

enum box_package_entry_kind {
	BOX_PACKAGE_ENTRY_NONE,
	BOX_PACKAGE_ENTRY_GOOD,
	BOX_PACKAGE_ENTRY_BAD, /* there is one, but it is not a regular file */
};
/* Which entry file a folder has. Links, FIFOs and devices are not opened. */
enum box_package_entry_kind box_package_find_entry(int folder_fd, const char **ret_entry_file);
