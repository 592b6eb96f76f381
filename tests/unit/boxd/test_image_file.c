/* Image files are recognized by their first bytes. */
#include <string.h>

#include "boxd/image/image_file.h"
#include "tests/unit/lib/test.h"

static unsigned char head[BOX_IMAGE_FILE_HEAD_BYTES];

static const char *kind_with(size_t at, const char *magic, size_t len, size_t size)
{
	memset(head, 0, sizeof(head));
	memcpy(head + at, magic, len);
	return box_image_file_kind(head, size);
}

TEST(kinds)
{
	ASSERT_STR(kind_with(0, "hsqs", 4, sizeof(head)), "squashfs");
	ASSERT_STR(kind_with(1024, "\xe2\xe1\xf5\xe0", 4, sizeof(head)), "erofs");
	ASSERT_STR(kind_with(1080, "\x53\xef", 2, sizeof(head)), "ext4");
	ASSERT_STR(kind_with(1080, "\x53\xef", 2, 1082), "ext4");
}

TEST(none)
{
	ASSERT(!kind_with(0, "", 0, sizeof(head)));
	ASSERT(!kind_with(0, "sqsh", 4, sizeof(head)));
	ASSERT(!kind_with(1, "hsqs", 4, sizeof(head)));
	/* Not beyond the end of what was read. */
	ASSERT(!kind_with(1080, "\x53\xef", 2, 1081));
	ASSERT(!kind_with(1024, "\xe2\xe1\xf5\xe0", 4, 1024));
	ASSERT(!kind_with(0, "hsqs", 4, 3));
	ASSERT(!kind_with(0, "hsqs", 4, 0));
}
