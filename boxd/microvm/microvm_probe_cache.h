/* What was found out about microVMs since the host was started, kept where it goes with the next start:
 * /run/box, or the folder of the user's session. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* `root`: for the host, else for a user. What box-vmm said, if it was this box-vmm and this start
 * of the host: the length, or negative. */
int box_microvm_probe_cache_read(bool root, const char *vmm_path, char *text, size_t room);
/* Nobody is told when it cannot be written: it is tried again then. */
void box_microvm_probe_cache_write(bool root, const char *vmm_path, const char *text, size_t len);
