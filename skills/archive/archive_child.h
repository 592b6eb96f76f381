/* Work that must not be trusted, in a process of its own behind the fence of archive_child_confine.h. */
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

/* Forks, fences the child in, lets it work and waits for its end, at most timeout_ms. Returns what
 * the work returned; or negative, with BOX_ERR_OS, when there was no fence or no answer. */
int box_archive_child_run(const struct box_archive_child_job *job, box_archive_child_work work,
	int timeout_ms, struct box_err *err);
