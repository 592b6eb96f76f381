/* A job of the mounter, as PID 1 sends it: a packet, and a memfd with the targets of its mounts and
 * the body of the RUN. */
#pragma once

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/init.h"

/* Of the memfd of a job: what was checked stays as it is. */
#define BOX_MOUNTER_JOB_SEALS (F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* The first packet of a job. Its mounts follow in packets of their own. */
struct box_mounter_packet {
	struct box_init_run run;
	uint32_t targets_size;
	uint32_t has_stdin;
	uint32_t has_door;
	uint32_t search_path;
};

/* Whether the bytes of its memfd are what the packet says, no target without its end: 0 or -EBADMSG.
 * Pure. */
int box_mounter_check_job(const struct box_mounter_packet *packet, const char *bytes, size_t size);
