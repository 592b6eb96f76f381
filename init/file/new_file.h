/* A new file that is written before it gets its name. It has no name at first, so that nothing is left if we
 * are killed. Where the file system does not support that, it has a temporary name, which another process
 * removes if we are killed. */
#pragma once

#include <sys/types.h>

struct box_new_file {
	int folder;         /* the caller's */
	int fd;             /* of the new file */
	int guard;          /* socket to the process that removes the temporary name, or -1 */
	char proc[32];      /* path of a file without a name, by which it can be linked */
	char temporary[24]; /* its temporary name; "": none */
};

/* Creates it in `folder`. 0 or -errno. */
int box_new_file_open(struct box_new_file *fresh, int folder, mode_t mode);
/* Gives it its name, replacing an existing file atomically. 0 or -errno. */
int box_new_file_publish(struct box_new_file *fresh, const char *final);
/* Removes the temporary name, if there is one. The caller closes fd. */
void box_new_file_discard(struct box_new_file *fresh);
