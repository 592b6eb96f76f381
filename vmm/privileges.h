/* Gives up privileges in the processes of box-vmm. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For all processes: an exec gives no capability, none can be gained later, and no other process may trace
 * them. `same_uid`: only one id is mapped, and the right to change ids may be missing. */
int box_privileges_lock(bool same_uid);

/* Becomes another user of the box, without groups. */
int box_privileges_become(uint32_t uid, uint32_t gid);

/* Landlock: allows everything below `paths`; elsewhere nothing can be read, written or created. `abi` is the
 * kernel's; does nothing if it is 0. */
int box_privileges_restrict_paths(uint32_t abi, const char *const *paths, size_t count);
