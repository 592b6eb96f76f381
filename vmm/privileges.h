/* What a process of box-vmm gives up. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* For all of them: no capability by exec, none to be had later, nobody looks into them. `same_uid`:
 * only one id is mapped, and there may be no right to give up. */
int box_privileges_lock(bool same_uid);

/* Becomes another user of the box, without groups. */
int box_privileges_become(uint32_t uid, uint32_t gid);

/* Landlock: below `paths` everything, elsewhere nothing is read, written or made. `abi` is the
 * kernel's; does nothing on 0. */
int box_privileges_restrict_paths(uint32_t abi, const char *const *paths, size_t count);
