/* Unpacks one archive: copies it, checks it, and has a confined child write its files. */
#include "skills/archive/archive.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/err.h"
#include "skills/archive/archive_child.h"
#include "skills/archive/archive_write.h"
#include "skills/archive/zip.h"

const char *const box_archive_calls[] = {
	/* the caller */
	"pipe2",
	"clone",
	"poll",
	"read",
	"close",
	"pidfd_send_signal",
	"wait4",
	"fstat",
	"newfstatat",
	/* the child until it is confined */
	"set_robust_list",
	"rseq",
	"getppid",
	"fcntl",
	"openat",
	"dup3",
	"close_range",
	"umask",
	"prctl",
	"prlimit64",
	"landlock_create_ruleset",
	"landlock_add_rule",
	"landlock_restrict_self",
	"seccomp",
	/* the confined child */
	"pread64",
	"openat2",
	"mkdirat",
	"write",
	"syncfs",
	"mmap",
	"mprotect",
	"munmap",
	"mremap",
	"madvise",
	"brk",
	"futex",
	"sched_getaffinity",
	"exit",
	"getrandom",
	"exit_group",
	"rt_sigprocmask",
	"rt_sigaction",
	"tgkill",
	"gettid",
	"getpid",
	NULL,
};

_Static_assert(2 * BOX_ARCHIVE_MS <= BOX_SKILLS_ARCHIVE_REQUEST_MS,
	"there is time left to load what was unpacked");

static int fail(struct box_err *err, int errnum, const char *step)
{
	return box_err_set(err, BOX_ERR_OS, errnum, "%s: %s", step, box_err_strerror(errnum));
}

/* Copies the archive: the bytes that are checked are those that are unpacked, even if the file changes. */
static int read_all(const struct box_archive_child_job *job, uint8_t *bytes, struct box_err *err)
{
	for (size_t done = 0; done < job->archive_size;) {
		ssize_t got = pread(
			job->archive_fd, bytes + done, job->archive_size - done, (off_t)done);
		if (got < 0 && errno != EINTR) {
			return fail(err, errno, "pread");
		}
		if (got == 0) {
			return fail(err, EIO, "the archive was truncated");
		}
		done += got > 0 ? (size_t)got : 0;
	}
	return 0;
}

/* Runs in the child, whose memory is freed with it. */
static int unpack(const struct box_archive_child_job *job, struct box_err *err)
{
	struct box_zip zip = {0};
	struct box_arena *arena = box_arena_new();
	uint8_t *bytes = box_archive_write_alloc(job->archive_size);
	int r = bytes ? read_all(job, bytes, err) : fail(err, ENOMEM, "memory");
	if (r == 0) {
		r = box_zip_check(bytes, job->archive_size, arena, &zip, err);
	}
	if (r == 0) {
		r = box_archive_write(&zip, job->out_fd, err);
	}
	/* One syncfs, so that the journal is written once, not for each file. */
	if (r == 0 && job->is_lasting && syncfs(job->out_fd) < 0) {
		r = fail(err, errno, "syncfs");
	}
	return r;
}

static int confine(int archive_fd, int out_fd, bool is_lasting, struct box_err *err)
{
	struct stat st;
	if (fstat(archive_fd, &st) < 0) {
		return fail(err, errno, "fstat");
	}
	if (!S_ISREG(st.st_mode)) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Uploaded file must be a valid .zip archive: not a regular file");
	}
	if (st.st_size == 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "Uploaded file is empty");
	}
	if (st.st_size > (off_t)BOX_ARCHIVE_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"Uploaded archive exceeds the compressed size limit (%lu bytes)",
			BOX_ARCHIVE_BYTES_MAX);
	}
	struct box_archive_child_job job = {
		.archive_fd = archive_fd,
		.out_fd = out_fd,
		.archive_size = (size_t)st.st_size,
		.is_lasting = is_lasting,
	};
	return box_archive_child_run(&job, unpack, BOX_ARCHIVE_MS, err);
}

int box_archive_unpack(int archive_fd, int out_fd, struct box_err *err)
{
	return confine(archive_fd, out_fd, true, err);
}

int box_archive_peek(int archive_fd, int out_fd, struct box_err *err)
{
	return confine(archive_fd, out_fd, false, err);
}
