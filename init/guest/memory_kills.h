/* How many processes the kernel's OOM killer has killed, as far as box-init can see it: only in a microVM. In
 * other boxes boxd and box-rpc count, and the count here is always 0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Sets memory.events of the cgroup of commands. Takes the fd; -1: there is none. */
void box_memory_kills_watch(int events);
/* In a forked process that does not use it. */
void box_memory_kills_forget(void);

/* Kills in the cgroup of commands so far. */
uint64_t box_memory_kills_count(void);
/* Kills in the cgroup that `events`, its memory.events, belongs to; 0 for -1. */
uint64_t box_memory_kills_read(int events);

/* Whether a process was killed by SIGKILL, or exited with 137 like a shell whose child was. */
bool box_memory_kills_looks_killed(int status);
/* Whether a command that looks killed was killed by the OOM killer. `began` is the count when it started. Each
 * kill is attributed once, to the first command that ends like that. */
bool box_memory_kills_account(uint64_t began);
