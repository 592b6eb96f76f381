/* Mounts of a guest: file systems made, trees changed, places found. By the calls themselves: the C
 * library that box-init is linked with has no functions for them. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_mount_option {
	const char *key;
	const char *value;
};

/* A new file system that is mounted nowhere yet. Its fd, or -errno. */
int box_mount_make(const char *type, const struct box_mount_option *options, size_t count,
	uint64_t attributes);
/* MOUNT_ATTR_* that it has from now on besides. 0 or -errno. */
int box_mount_add_attributes(int mount_fd, uint64_t attributes);
/* A copy of what is at `path`, mounted nowhere. Its fd, or -errno. Links are not followed. */
int box_mount_clone(int folder, const char *path);

#define BOX_MOUNT_NUMBER_SIZE 24

/* As text, in base 8 or 10. */
void box_mount_number(char to[BOX_MOUNT_NUMBER_SIZE], uint64_t number, unsigned base);
