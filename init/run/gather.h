/* A command that comes in more than one packet: its mounts and its body, until all is there. */
#pragma once

#include <stdint.h>

struct box_gather {
	int fd; /* a memfd: targets, each with its NUL, then the body; -1: nothing came yet */
	uint32_t targets_size;
	uint32_t mount_count;
	uint32_t body_size; /* of the whole */
	uint32_t body_have;
	uint32_t reserved; /* what it counts for in the sum of all */
	int *mount_fds;
};

/* `place` is the number of the command, below BOX_INIT_RUNS_MAX. */
void box_gather_init(struct box_gather *gather, uint32_t place);
void box_gather_free(struct box_gather *gather);

/* Takes the fd, whatever comes of it. These return 0 or -errno. */
int box_gather_mount(struct box_gather *gather, const char *target, uint32_t size, int fd);
int box_gather_begin(struct box_gather *gather, uint32_t body_size);
int box_gather_add(struct box_gather *gather, const char *bytes, uint32_t size);

/* The whole body, writable, with one more byte behind it. */
int box_gather_map(const struct box_gather *gather, char **ret_body);
void box_gather_unmap(const struct box_gather *gather, char *body);
