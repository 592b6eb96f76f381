/* How many processes the kernel has ended for lack of memory, as far as box-init can see it: in a
 * microVM. In other boxes boxd and box-rpc count, and here it is always 0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The memory events of the group that commands are in, ours from now on; -1: there are none. */
void box_memory_kills_watch(int events);
/* In a process that has no business with it. */
void box_memory_kills_forget(void);

/* In the group of commands, so far. */
uint64_t box_memory_kills_count(void);
/* In a group of its own, by its events; 0 for -1. */
uint64_t box_memory_kills_read(int events);

/* Whether it was killed, or says 137 as a shell does of a child that was. */
bool box_memory_kills_looks_killed(int status);
/* Whether lack of memory ended a command that looks killed, when there had been `began` kills at its
 * beginning. Each kill is accounted for once, to the first command that ends like that. */
bool box_memory_kills_account(uint64_t began);
