/* Runs work on untrusted bytes in a child process that archive_child_confine.h confines. For archive.c. */
#pragma once

#include <stddef.h>

#include "base/err.h"

struct box_archive_child_job {
	int archive_fd;
	int out_fd;
	size_t archive_size;
	bool is_lasting; /* what was written must survive a crash of the host */
};

/* Called in the child, with fds that are valid there. 0, or negative with the reason in err. */
typedef int (*box_archive_child_work)(const struct box_archive_child_job *job, struct box_err *err);

/* Forks, confines the child, lets it work and waits for its end, at most timeout_ms. Returns what the
 * work returned; or negative, with BOX_ERR_OS, if the child was not confined or gave no answer. */
int box_archive_child_run(const struct box_archive_child_job *job, box_archive_child_work work,
	int timeout_ms, struct box_err *err);
