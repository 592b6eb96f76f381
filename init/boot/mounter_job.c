/* Looks at a job before the mounter, which has rights that PID 1 has given up, works on it: PID 1 may
 * have been taken over. Pure: no calls. */
#include "init/boot/mounter_job.h"

#include <errno.h>
#include <string.h>

int box_mounter_check_job(const struct box_mounter_packet *packet, const char *bytes, size_t size)
{
	const struct box_init_run *run = &packet->run;
	uint64_t body_size = (uint64_t)run->env_size + run->workdir_size + run->command_size;
	if (run->mount_count > BOX_INIT_MOUNTS_MAX || body_size > BOX_INIT_BODY_MAX ||
		size != packet->targets_size + body_size + 1) {
		return -EBADMSG;
	}
	const char *at = bytes;
	const char *end = bytes + packet->targets_size;
	for (uint32_t i = 0; i < run->mount_count; i++) {
		if (at == end || *at != '/' || !memchr(at, '\0', (size_t)(end - at))) {
			return -EBADMSG;
		}
		at += strlen(at) + 1;
	}
	return at == end ? 0 : -EBADMSG;
}
