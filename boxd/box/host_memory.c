/* Room for boxes: what was promised, and what there is. Pure. */
#include "boxd/box/host_memory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"

uint64_t box_host_memory_meminfo_bytes(const char *text, const char *name)
{
	size_t len = strlen(name);
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, name, len) == 0 && line[len] == ':') {
			uint64_t kibibytes = strtoull(line + len + 1, NULL, 10);
			return kibibytes < UINT64_MAX / BOX_KIB ? kibibytes * BOX_KIB : 0;
		}
	}
	return 0;
}

static uint64_t without(uint64_t bytes, uint64_t part)
{
	return bytes > part ? bytes - part : 0;
}

/* What is left of so much free memory when every microVM takes all it was promised, and the host
 * keeps its part. */
static uint64_t room_in(
	const struct box_host_memory *facts, uint64_t total_bytes, uint64_t free_bytes)
{
	uint64_t reserve = total_bytes / BOX_MICROVM_RESERVE_DIVISOR;
	reserve = BOX_MAX(reserve, BOX_MICROVM_RESERVE_BYTES_MIN);
	uint64_t due = without(facts->promised_bytes, facts->taken_bytes);
	return without(without(free_bytes, reserve), due);
}

int box_host_memory_check_promises(
	const struct box_host_memory *facts, uint64_t wanted_bytes, struct box_err *err)
{
	uint64_t host = room_in(facts, facts->total_bytes, facts->free_bytes);
	uint64_t group = facts->group_bytes == BOX_HOST_MEMORY_NO_LIMIT
		? BOX_HOST_MEMORY_NO_LIMIT
		: room_in(facts, facts->group_bytes, facts->group_free_bytes);
	uint64_t room = BOX_MIN(host, group);
	if (wanted_bytes <= room) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_CAPACITY, ENOMEM,
		"there is no memory for another microVM: it may take %" PRIu64
		" MiB with what runs it, and %" PRIu64
		" MiB %s are promised to nobody (%u microVMs "
		"are there); end a session, or ask for less memory_mb",
		wanted_bytes / BOX_MIB, room / BOX_MIB,
		host < group ? "of the host's memory" : "of what boxd's cgroup may take",
		facts->machines);
}

int box_host_memory_check_reserve(
	const struct box_host_memory *facts, uint64_t reserve_bytes, struct box_err *err)
{
	bool group = facts->group_free_bytes < facts->free_bytes;
	uint64_t left = group ? facts->group_free_bytes : facts->free_bytes;
	if (left >= reserve_bytes) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_CAPACITY, ENOMEM,
		"there is no memory for another box: %" PRIu64 " MiB of %s %" PRIu64
		" MiB are available, and limits.reserve_memory_mb keeps %" PRIu64
		"; wait until something ends, or have the operator lower it",
		left / BOX_MIB, group ? "what boxd's cgroup may take," : "the host's",
		(group ? facts->group_bytes : facts->total_bytes) / BOX_MIB,
		reserve_bytes / BOX_MIB);
}
