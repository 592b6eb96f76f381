/* Attaches the mounts of one command, in a mount namespace of its own. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_attach {
	char *targets;  /* `count` absolute paths, each terminated by a NUL */
	const int *fds; /* detached mounts */
	uint32_t count;
	int root_fd; /* the file system of the root, writable, with nothing mounted on it */
	uint32_t uid;
	uint32_t gid;
	uint32_t same; /* not 0: these ids are our own */
};

/* Called in the new process, between clone and exec: unshares the mount namespace first. 0, or -errno with the
 * index of the mount. Allocates nothing. */
int box_attach_all(const struct box_attach *attach, uint32_t *ret_index);
