/* The user and group that box-rpc and our other programs run as. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_IDENTITY_DYNAMIC_LAST 65519U

struct box_identity {
	bool change; /* false: box-rpc keeps boxd's ids */
	uid_t uid;
	gid_t gid;
};

/* As root: the account `box-rpc`, else ids that no account has. Logs a warning when ids cannot be
 * changed. */
int box_identity_choose_for_rpc(struct box_identity *ret_ids, struct box_err *err);

/* The ids of the owner of an opened file; `ids` says whether ids are changed at all. */
int box_identity_of_owner(const struct box_identity *ids, int fd, struct box_identity *ret_ids);

/* Whether a user namespace has this id, from the text of /proc/self/uid_map or gid_map. True when that
 * cannot be read: then using the id will fail. */
bool box_identity_is_mapped(const char *path, unsigned long id);
