/* Decides whether there is memory for a box, from /proc/meminfo and boxd's own cgroup. All but
 * box_host_memory_read is pure. */
#include "boxd/box/host_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/cgroup/cgroup.h"

#define MEMINFO_BYTES_MAX 8192

uint64_t box_host_memory_meminfo_bytes(const char *text, const char *name)
{
	size_t len = strlen(name);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ':') {
			uint64_t kib = strtoull(line + len + 1, NULL, 10);
			return kib < UINT64_MAX / BOX_KIB ? kib * BOX_KIB : 0;
		}
	}
	return 0;
}

int box_host_memory_read(
	const struct box_cgroups *cgroups, struct box_host_memory *ret_memory, struct box_err *err)
{
	char text[MEMINFO_BYTES_MAX];
	_cleanup_(box_close_p) int fd = open("/proc/meminfo", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (got <= 0) {
		return box_err_set(err, BOX_ERR_OS, got < 0 ? errno : EIO,
			"/proc/meminfo cannot be read, so the free memory is unknown");
	}
	text[got] = '\0';
	*ret_memory = (struct box_host_memory){
		.total_bytes = box_host_memory_meminfo_bytes(text, "MemTotal"),
		.free_bytes = box_host_memory_meminfo_bytes(text, "MemAvailable"),
		.group_bytes = BOX_HOST_MEMORY_NO_LIMIT,
		.group_free_bytes = BOX_HOST_MEMORY_NO_LIMIT,
	};
	if (cgroups) {
		box_cgroups_memory(
			cgroups, &ret_memory->group_bytes, &ret_memory->group_free_bytes);
	}
	return 0;
}

static uint64_t without(uint64_t bytes, uint64_t part)
{
	return bytes > part ? bytes - part : 0;
}

/* What is left of `free_bytes` when every microVM has taken all it was promised and the host keeps its
 * reserve. */
static uint64_t unpromised_of(
	const struct box_host_memory *memory, uint64_t total_bytes, uint64_t free_bytes)
{
	uint64_t reserve = total_bytes / BOX_MICROVM_RESERVE_DIVISOR;
	reserve = BOX_MAX(reserve, BOX_MICROVM_RESERVE_BYTES_MIN);
	uint64_t still_promised = without(memory->promised_bytes, memory->taken_bytes);
	return without(without(free_bytes, reserve), still_promised);
}

int box_host_memory_check_promises(
	const struct box_host_memory *memory, uint64_t wanted_bytes, struct box_err *err)
{
	uint64_t host = unpromised_of(memory, memory->total_bytes, memory->free_bytes);
	uint64_t group = memory->group_bytes == BOX_HOST_MEMORY_NO_LIMIT
		? BOX_HOST_MEMORY_NO_LIMIT
		: unpromised_of(memory, memory->group_bytes, memory->group_free_bytes);
	uint64_t unpromised = BOX_MIN(host, group);
	if (wanted_bytes <= unpromised) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_CAPACITY, ENOMEM,
		"there is no memory for another microVM: it may take up to %" PRIu64
		" MiB with the programs that run it, and %" PRIu64
		" MiB %s are not promised to other microVMs (there are %u); end a session, or ask "
		"for less memory_mb",
		wanted_bytes / BOX_MIB, unpromised / BOX_MIB,
		host < group ? "of the host's memory" : "of what boxd's cgroup may take",
		memory->microvms);
}

int box_host_memory_check_reserve(
	const struct box_host_memory *memory, uint64_t reserve_bytes, struct box_err *err)
{
	bool group = memory->group_free_bytes < memory->free_bytes;
	uint64_t left = group ? memory->group_free_bytes : memory->free_bytes;
	if (left >= reserve_bytes) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_CAPACITY, ENOMEM,
		"there is no memory for another box: %" PRIu64 " MiB of %s %" PRIu64
		" MiB are available, and limits.reserve_memory_mb keeps %" PRIu64
		" free; wait until a session ends, or have the operator lower that limit",
		left / BOX_MIB, group ? "what boxd's cgroup may take," : "the host's",
		(group ? memory->group_bytes : memory->total_bytes) / BOX_MIB,
		reserve_bytes / BOX_MIB);
}
