/* Writes all bytes to a blocking fd. Inline, so that box-init has it too. */
#pragma once

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

/* 0 or -errno; never -EINTR. */
static inline int box_write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;
	while (size > 0) {
		ssize_t written = write(fd, at, size);
		if (written < 0 && errno != EINTR) {
			return -errno;
		}
		if (written > 0) {
			at += written;
			size -= (size_t)written;
		}
	}
	return 0;
}
