/* What fences allow in the same way: rules and the loading of seccomp filters. Which calls a program
 * needs is the program's to say. */
#pragma once

#include <seccomp.h>
#include <stdint.h>

#include "base/err.h"

/* Each adds to a filter: 0 or -errno. */

/* Calls by name, up to a NULL. Another architecture may lack one, or an older libseccomp its name. */
int box_seccomp_allow_names(scmp_filter_ctx filter, const char *const *names);
/* Memory, but none that can be executed: all code there will be is loaded already. */
int box_seccomp_allow_memory(scmp_filter_ctx filter);
/* clone where these flags of `mask` are set and its others are not. clone3 hides its flags behind a
 * pointer: it answers ENOSYS and glibc goes back to clone. */
int box_seccomp_allow_clone(scmp_filter_ctx filter, uint64_t mask, uint64_t flags);
/* Processes and threads, but no namespaces. */
int box_seccomp_allow_children(scmp_filter_ctx filter);
/* abort() signals its own thread; other processes of this uid are none of its business. */
int box_seccomp_allow_abort(scmp_filter_ctx filter);

/* Makes a filter of what `add` adds and enters it; `otherwise` happens to all other calls, and calls
 * of another architecture kill. */
int box_seccomp_load(uint32_t otherwise, int (*add)(scmp_filter_ctx filter), struct box_err *err);
