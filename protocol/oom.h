/* Reads what the kernel tells of kills for lack of memory. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The count in the text of memory.events.local ("oom_kill N" in a line) or memory.oom_control of
 * version 1 (the same line). 0 when it is not there. Pure. */
uint64_t box_oom_parse_kills(const char *text, size_t len);
