/* What memory the host has, and what our own cgroup leaves us of it. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxd/box/host_memory.h"
#include "boxd/cgroup/cgroup.h"

#define MEMINFO_MAX 8192

int box_host_memory_read(
	const struct box_cgroups *cgroups, struct box_host_memory *ret_facts, struct box_err *err)
{
	char text[MEMINFO_MAX];
	_cleanup_(box_close_p) int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got <= 0) {
		return box_err_set(err, BOX_ERR_OS, got < 0 ? errno : EIO,
			"/proc/meminfo cannot be read: it is not known what memory is free");
	}
	text[got] = '\0';
	*ret_facts = (struct box_host_memory){
		.total_bytes = box_host_memory_meminfo_bytes(text, "MemTotal"),
		.free_bytes = box_host_memory_meminfo_bytes(text, "MemAvailable"),
		.group_bytes = BOX_HOST_MEMORY_NO_LIMIT,
		.group_free_bytes = BOX_HOST_MEMORY_NO_LIMIT,
	};
	if (cgroups) {
		box_cgroups_memory(cgroups, &ret_facts->group_bytes, &ret_facts->group_free_bytes);
	}
	return 0;
}
