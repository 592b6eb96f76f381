/* Confines box-rpc before it talks to untrusted clients. Called by main.c.
 *
 * Afterwards it can open no file of the host, create or connect no socket, run no program and inspect no
 * process. It already has everything it needs as open fds, or asks boxd for it.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* The system calls that are allowed with any arguments, by name; NULL ends the list. */
extern const char *const box_confine_allowed_calls[];

/* To be called before any library starts: prevents one from setting up what it could not use once
 * confined. 0, or negative with the step in err. */
int box_confine_prepare(struct box_err *err);

/* Landlock where the kernel has it (otherwise logged), then seccomp. 0, or negative with the step in err:
 * without seccomp box-rpc does not serve. */
int box_confine_enter(struct box_err *err);
