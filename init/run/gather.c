/* Owns what has arrived of incomplete commands. It is kept in memfds, which grow in place, can be sent
 * to the mounter as they are, and return their memory to the kernel at once. Called by run.c. */
#include "init/run/gather.h"

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/write.h"
#include "protocol/init.h"

static int all_mount_fds[BOX_INIT_RUNS_MAX][BOX_INIT_MOUNTS_MAX];
static uint32_t reserved_in_all;

void box_gather_init(struct box_gather *gather, uint32_t index)
{
	*gather = (struct box_gather){.fd = -1, .mount_fds = all_mount_fds[index]};
}

void box_gather_free(struct box_gather *gather)
{
	for (uint32_t i = 0; i < gather->mount_count; i++) {
		(void)close(gather->mount_fds[i]);
	}
	gather->mount_count = 0;
	if (gather->fd >= 0) {
		(void)close(gather->fd);
		gather->fd = -1;
	}
	reserved_in_all -= gather->reserved;
	gather->reserved = 0;
}

static int reserve(struct box_gather *gather, uint32_t size)
{
	if (size > BOX_INIT_GATHER_MAX - reserved_in_all) {
		return -ENOMEM;
	}
	if (gather->fd < 0) {
		gather->fd = memfd_create("body", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (gather->fd < 0) {
			return -errno;
		}
	}
	reserved_in_all += size;
	gather->reserved += size;
	return 0;
}

int box_gather_mount(struct box_gather *gather, const char *target, uint32_t size, int fd)
{
	int r = gather->mount_count < BOX_INIT_MOUNTS_MAX ? reserve(gather, size) : -E2BIG;
	if (r == 0) {
		r = box_write_all(gather->fd, target, size);
	}
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	gather->targets_size += size;
	gather->mount_fds[gather->mount_count++] = fd;
	return 0;
}

int box_gather_begin(struct box_gather *gather, uint32_t body_size)
{
	gather->body_size = body_size;
	return reserve(gather, body_size);
}

int box_gather_add(struct box_gather *gather, const char *bytes, uint32_t size)
{
	if (size > gather->body_size - gather->body_have) {
		return -EMSGSIZE;
	}
	gather->body_have += size;
	int r = box_write_all(gather->fd, bytes, size);
	if (r == 0 && gather->body_have == gather->body_size) {
		off_t complete = (off_t)gather->targets_size + gather->body_size;
		r = ftruncate(gather->fd, complete + 1) < 0 ? -errno : 0;
	}
	return r;
}

static size_t mapped_size(const struct box_gather *gather)
{
	return (size_t)gather->targets_size + gather->body_size + 1;
}

int box_gather_map(const struct box_gather *gather, char **ret_body)
{
	char *bytes = mmap(
		NULL, mapped_size(gather), PROT_READ | PROT_WRITE, MAP_SHARED, gather->fd, 0);
	if (bytes == MAP_FAILED) {
		return -errno;
	}
	*ret_body = bytes + gather->targets_size;
	return 0;
}

void box_gather_unmap(const struct box_gather *gather, char *body)
{
	(void)munmap(body - gather->targets_size, mapped_size(gather));
}
