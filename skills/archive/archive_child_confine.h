/* Confines the process that unpacks an archive, so that a hijacked one can do little.
 *
 * It can create files and folders below one folder and write to them, and nothing else: it can neither
 * read, remove, rename or link a file, nor change a mode, nor start a process, program or socket.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Limits memory, time and file size; sets no_new_privs; enters Landlock for out_fd where the kernel has it;
 * then seccomp. 0, with ret_has_landlock; or negative with the step in err: nothing may be unpacked
 * then. */
int box_archive_child_confine(int out_fd, bool *ret_has_landlock, struct box_err *err);
