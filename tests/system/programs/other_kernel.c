/* A libkrunfw with the right interface and no kernel: its image is not a valid instruction, so the
 * guest ends at once. */
#include <stddef.h>

#define HERE 0x1000000

static char image[1 << 20] __attribute__((aligned(4096))) = {0x0f, 0x0b};

char *krunfw_get_kernel(size_t *address, size_t *entry, size_t *size);

char *krunfw_get_kernel(size_t *address, size_t *entry, size_t *size)
{
	*address = HERE;
	*entry = HERE;
	*size = sizeof(image);
	return image;
}
