/* Which our other programs are, and who box-rpc runs as. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_IDENTITY_DYNAMIC_LAST 65519U

/* Who box-rpc runs as. */
struct box_identity {
	bool change; /* false: it keeps boxd's own ids */
	uid_t uid;
	gid_t gid;
};

/* As root: the account `box-rpc`, else ids that nobody has. Where ids cannot be changed, it says so
 * in the log. */
int box_identity_choose_for_rpc(struct box_identity *ret_ids, struct box_err *err);

/* Whoever owns the opened file, where ids can be changed at all: `ids` says so. */
int box_identity_of_owner(const struct box_identity *ids, int fd, struct box_identity *ret_ids);

/* Whether a user namespace has this id, by the text of /proc/self/uid_map or gid_map. True when it
 * cannot be read: then the use of the id itself will tell. */
bool box_identity_is_mapped(const char *path, unsigned long id);

/* The path of a program of ours: beside boxd, else where the build installs it. */
int box_program_find(const char *name, char ret_path[BOX_PATH_MAX], struct box_err *err);
