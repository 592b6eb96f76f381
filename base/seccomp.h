/* Rules that several seccomp filters share, and the loading of filters. Each program lists the system
 * calls it needs itself. */
#pragma once

#include <seccomp.h>
#include <stdint.h>

#include "base/err.h"

/* Each adds rules to a filter: 0 or -errno. */

/* Allows system calls by name, up to a NULL. A call that this architecture or libseccomp does not know
 * is left out. */
int box_seccomp_allow_names(scmp_filter_ctx filter, const char *const *names);
/* Allows memory mappings, but no executable ones: all code is loaded already. */
int box_seccomp_allow_memory(scmp_filter_ctx filter);
/* Allows clone when, of the flags in `mask`, exactly these are set. clone3 passes its flags by pointer,
 * where a filter cannot see them: it fails with ENOSYS, and glibc falls back to clone. */
int box_seccomp_allow_clone(scmp_filter_ctx filter, uint64_t mask, uint64_t flags);
/* Allows processes and threads, but no namespaces. */
int box_seccomp_allow_children(scmp_filter_ctx filter);
/* Allows abort() to signal the own thread, but no signals to other processes. */
int box_seccomp_allow_abort(scmp_filter_ctx filter);

/* Loads a filter made by `add`; `otherwise` is the action for all other calls. Calls of another
 * architecture kill the process. */
int box_seccomp_load(uint32_t otherwise, int (*add)(scmp_filter_ctx filter), struct box_err *err);
