/* The fence around box-rpc: what is left to it once it talks to strangers.
 *
 * No file of the host can be opened, no socket made or connected, no program run, no process
 * inspected. Everything it needs it has as open fds by then, or asks boxd for.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* The system calls that stay whatever their arguments, by name; NULL ends the list. */
extern const char *const box_confine_allowed_calls[];

/* To be called before any library starts: takes away what one would set up now and could not use
 * behind the fence. 0, or negative with the step in err. */
int box_confine_prepare(struct box_err *err);

/* Landlock where the kernel has it (a log line says when not), then seccomp. 0, or negative with
 * the step in err: without seccomp box-rpc does not serve. */
int box_confine_enter(struct box_err *err);
