/* Reads how many processes the kernel's OOM killer has killed in a cgroup. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The count in the text of memory.events.local (a line "oom_kill N") or of version 1's
 * memory.oom_control (the same line). 0 when it is missing. Pure. */
uint64_t box_oom_parse_kills(const char *text, size_t len);
