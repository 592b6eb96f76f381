/* Owns the copy of the boot file that the guest gets. boxd is trusted, but what does not add up is not
 * booted: the guest would fail at it where nobody sees why. */
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

static bool is_sane(const struct box_microvm_boot *machine)
{
	return machine->memory_mib >= BOX_VMM_MEMORY_MIB_MIN &&
		machine->memory_mib <= BOX_VMM_MEMORY_MIB_MAX && machine->cpus >= 1 &&
		machine->cpus <= BOX_VMM_CPUS_MAX && machine->deadline_ms >= 1 &&
		machine->deadline_ms <= BOX_VMM_DEADLINE_MS_MAX && machine->prefix <= 32;
}

static int look_at(struct box_boot_image *image)
{
	struct box_microvm_parts parts;
	int r = box_microvm_find_parts(image->bytes, image->size, &parts);
	if (r < 0) {
		return r;
	}
	memcpy(&image->guest, image->bytes, sizeof(image->guest));
	image->machine = parts.boot;
	return is_sane(&image->machine) ? 0 : -EBADMSG;
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
	r = r < 0 ? r : look_at(&image);
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
