/* The mounts and the body of a command that arrives in more than one packet. */
#pragma once

#include <stdint.h>

struct box_gather {
	int fd; /* a memfd: the targets of the mounts, each with its NUL, then the body; -1: empty */
	uint32_t targets_size;
	uint32_t mount_count;
	uint32_t body_size; /* of the complete body */
	uint32_t body_have; /* how many bytes of it have arrived */
	uint32_t reserved;  /* its share of BOX_INIT_GATHER_MAX */
	int *mount_fds;     /* mount_count detached mounts */
};

/* `index` is that of the command in its table, below BOX_INIT_RUNS_MAX. */
void box_gather_init(struct box_gather *gather, uint32_t index);
void box_gather_free(struct box_gather *gather);

/* Adds a mount. Takes the fd, also on failure. 0 or -errno. */
int box_gather_mount(struct box_gather *gather, const char *target, uint32_t size, int fd);
/* Begins the body, after the mounts. 0 or -errno. */
int box_gather_begin(struct box_gather *gather, uint32_t body_size);
/* Adds a part of the body. 0 or -errno. */
int box_gather_add(struct box_gather *gather, const char *bytes, uint32_t size);

/* Maps the complete body, writable, with one more byte after it. */
int box_gather_map(const struct box_gather *gather, char **ret_body);
void box_gather_unmap(const struct box_gather *gather, char *body);
