/* A file that is going to have a name: without one so far, so that nothing is left of it if we end
 * now; or, where that cannot be, with a temporary one, which another process removes if we are
 * killed. */
#pragma once

#include <sys/types.h>

struct box_new_file {
	int folder; /* the caller's */
	int fd;
	int guard;          /* -1: nobody watches over the temporary name */
	char proc[32];      /* by which a nameless one can be named */
	char temporary[24]; /* "": it has none yet */
};

/* 0 or -errno. */
int box_new_file_open(struct box_new_file *fresh, int folder, mode_t mode);
/* Under its name, in one moment, in the place of what is there. 0 or -errno. */
int box_new_file_publish(struct box_new_file *fresh, const char *final);
/* A temporary name goes. The fd stays, and is the caller's to close. */
void box_new_file_discard(struct box_new_file *fresh);
