/* Owns the copy of the boot file that the guest gets. boxd is trusted, but an inconsistent file is refused here,
 * because the guest could not report why it fails. Called by vmm_run.c. */
#include "vmm/boot_image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"

static int read_all(int fd, char *bytes, size_t size)
{
	for (size_t got = 0; got < size;) {
		ssize_t n = pread(fd, bytes + got, size - got, (off_t)got);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n <= 0) {
			return n < 0 ? -errno : -EBADMSG;
		}
		got += (size_t)n;
	}
	return 0;
}

static bool is_sane(const struct box_microvm_boot *microvm)
{
	return microvm->memory_mib >= BOX_VMM_MEMORY_MIB_MIN &&
		microvm->memory_mib <= BOX_VMM_MEMORY_MIB_MAX && microvm->cpus >= 1 &&
		microvm->cpus <= BOX_VMM_CPUS_MAX && microvm->deadline_ms >= 1 &&
		microvm->deadline_ms <= BOX_VMM_DEADLINE_MS_MAX && microvm->prefix <= 32;
}

static int check(struct box_boot_image *image)
{
	struct box_microvm_parts parts;
	int r = box_microvm_find_parts(image->bytes, image->size, &parts);
	if (r < 0) {
		return r;
	}
	memcpy(&image->guest, image->bytes, sizeof(image->guest));
	image->microvm = parts.boot;
	return is_sane(&image->microvm) ? 0 : -EBADMSG;
}

int box_boot_image_read(int fd, struct box_boot_image *ret_image)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	if (st.st_size <= 0 || (uint64_t)st.st_size > BOX_VMM_BOOT_BYTES_MAX) {
		return -EBADMSG;
	}
	size_t size = (size_t)st.st_size;
	struct box_boot_image image = {.size = size + sizeof(struct box_microvm_order)};
	image.bytes = calloc(1, image.size);
	if (!image.bytes) {
		return -ENOMEM;
	}
	int r = read_all(fd, image.bytes, size);
	if (r == 0) {
		r = check(&image);
	}
	if (r < 0) {
		box_boot_image_free(&image);
		return r;
	}
	*ret_image = image;
	return 0;
}

void box_boot_image_add_order(struct box_boot_image *image, uint32_t order, uint64_t realtime_ns)
{
	struct box_microvm_order last = {.order = order, .realtime_ns = realtime_ns};
	memcpy(image->bytes + image->size - sizeof(last), &last, sizeof(last));
}

void box_boot_image_free(struct box_boot_image *image)
{
	free(image->bytes);
	*image = (struct box_boot_image){0};
}
