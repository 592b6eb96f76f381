/* The fence around the process that unpacks an archive: what a taken-over one could still do.
 *
 * It can make files and folders beneath one folder and write to them, and nothing else: no file can
 * be read, removed, renamed or linked, no mode changed, no process, program or socket made.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

/* Limits of memory, time and file size; no_new_privs; Landlock for out_fd where the kernel has it;
 * then seccomp. 0, with ret_has_landlock; or negative with the step in err: nothing may be unpacked
 * then. */
int box_archive_child_confine(int out_fd, bool *ret_has_landlock, struct box_err *err);
