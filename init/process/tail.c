/* Owns the memory of a tail, a ring of fixed size that overwrites its oldest bytes. Called by mproc.c. */
#include "init/process/tail.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/macros.h"
#include "protocol/init_process.h"

ssize_t box_tail_read(struct box_tail *tail, int fd)
{
	if (!tail->bytes) {
		void *bytes = mmap(NULL, BOX_INIT_STDERR_TAIL_MAX, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (bytes == MAP_FAILED) {
			return -errno;
		}
		(void)madvise(bytes, BOX_INIT_STDERR_TAIL_MAX, MADV_DONTFORK); /* as in ring.c */
		tail->bytes = bytes;
	}
	size_t index = tail->total % BOX_INIT_STDERR_TAIL_MAX;
	struct iovec parts[] = {
		{tail->bytes + index, BOX_INIT_STDERR_TAIL_MAX - index}, {tail->bytes, index}};
	ssize_t got;
	do {
		got = readv(fd, parts, 2);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		return -errno;
	}
	tail->total += (uint64_t)got;
	return got;
}

size_t box_tail_copy(const struct box_tail *tail, char *to)
{
	size_t index = tail->total % BOX_INIT_STDERR_TAIL_MAX;
	if (tail->total <= BOX_INIT_STDERR_TAIL_MAX) {
		if (tail->total > 0) {
			memcpy(to, tail->bytes, (size_t)tail->total);
		}
		return (size_t)tail->total;
	}
	memcpy(to, tail->bytes + index, BOX_INIT_STDERR_TAIL_MAX - index);
	memcpy(to + BOX_INIT_STDERR_TAIL_MAX - index, tail->bytes, index);
	return BOX_INIT_STDERR_TAIL_MAX;
}

size_t box_tail_peek(
	const struct box_tail *tail, uint64_t offset, char *to, size_t max, uint64_t *ret_offset)
{
	uint64_t kept = tail->total < BOX_INIT_STDERR_TAIL_MAX ? tail->total
							       : BOX_INIT_STDERR_TAIL_MAX;
	offset = offset > tail->total - kept ? offset : tail->total - kept;
	offset = BOX_MIN(offset, tail->total);
	*ret_offset = offset;
	size_t size = tail->total - offset < max ? (size_t)(tail->total - offset) : max;
	if (size == 0) {
		return 0;
	}
	size_t index = offset % BOX_INIT_STDERR_TAIL_MAX;
	size_t first = BOX_INIT_STDERR_TAIL_MAX - index < size ? BOX_INIT_STDERR_TAIL_MAX - index
							       : size;
	memcpy(to, tail->bytes + index, first);
	memcpy(to + first, tail->bytes, size - first);
	return size;
}

void box_tail_close(struct box_tail *tail)
{
	if (tail->bytes) {
		(void)munmap(tail->bytes, BOX_INIT_STDERR_TAIL_MAX);
		tail->bytes = NULL;
	}
	tail->total = 0;
}
