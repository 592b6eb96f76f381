/* Whether this host can hold a folder to a quota, found out by doing it: a small image in memory,
 * which nobody sees, is filled with bytes and with files until it says that it is full. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/quota/quota_image.h"

#define TRIAL_BYTES BOX_QUOTA_BYTES_MIN
#define PIECE (64 * BOX_KIB)
#define BYTES_MAX (2 * TRIAL_BYTES) /* by then it does not hold */
#define FILES_MAX 65536

static int fill_bytes(int root)
{
	static const char zeros[PIECE];
	size_t written = 0;
	_cleanup_(box_close_p) int fd = openat(root, "f", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0) {
		return -errno;
	}
	while (written < BYTES_MAX) {
		ssize_t got = write(fd, zeros, sizeof(zeros));
		if (got <= 0) {
			return errno == ENOSPC && written >= TRIAL_BYTES - PIECE ? 0 : -errno;
		}
		written += (size_t)got;
	}
	return -EFBIG;
}

static int fill_files(int root)
{
	for (unsigned i = 0; i < FILES_MAX; i++) {
		char name[32];
		(void)snprintf(name, sizeof(name), "n%u", i);
		int fd = openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0) {
			return errno == ENOSPC ? 0 : -errno;
		}
		(void)close(fd);
	}
	return -EMFILE;
}

int box_quota_probe_host(const struct box_quota_support *support, struct box_err *err)
{
	struct box_quota_image image = BOX_QUOTA_IMAGE_NONE;
	struct box_quota_shape shape = {0};
	if (!support->mkfs || support->missing[0] != '\0') {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP, "%s", support->missing);
	}
	image.file = memfd_create("box-quota", MFD_CLOEXEC);
	int r = image.file < 0 || box_quota_shape(TRIAL_BYTES, &shape) < 0 ||
			ftruncate(image.file, (off_t)shape.size_bytes) < 0
		? box_err_set(
			  err, BOX_ERR_OS, errno, "a file in memory: %s", box_err_strerror(errno))
		: box_quota_image_format(image.file, support->mkfs, &shape, err);
	r = r < 0 ? r : box_quota_image_mount(&image, err);
	r = r < 0 ? r : box_quota_image_fit(&image, support->resize, TRIAL_BYTES, err);
	if (r == 0) {
		r = fill_bytes(image.mount);
		if (r == 0 && unlinkat(image.mount, "f", 0) < 0) {
			r = -errno;
		}
		r = r < 0 ? r : fill_files(image.mount);
		r = r < 0 ? box_err_set(err, BOX_ERR_BOX, -r,
				    "an image was not held to its size: %s", box_err_strerror(-r))
			  : 0;
	}
	box_quota_image_close(&image);
	return r;
}
