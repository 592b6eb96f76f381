/* The user and group that box-rpc and our other programs run as. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/limits.h"

#define BOX_IDENTITY_DYNAMIC_LAST 65519U

struct box_identity {
	bool change; /* false: it keeps boxd's own ids */
	uid_t uid;
	gid_t gid;
};

/* As root: the account `box-rpc`, else ids that no account has. Logs it when ids cannot be changed. */
int box_identity_choose_for_rpc(struct box_identity *ret_ids, struct box_err *err);

/* The owner of an opened file; whether ids are changed at all is as in `ids`. */
int box_identity_of_owner(const struct box_identity *ids, int fd, struct box_identity *ret_ids);

/* Whether a user namespace has this id, by the text of /proc/self/uid_map or gid_map. True when it cannot
 * be read: then the use of the id will fail. */
bool box_identity_is_mapped(const char *path, unsigned long id);
