/* Which jobs the mounter accepts from a PID 1 that may have been taken over. */
#include <errno.h>

#include "init/boot/mounter.h"
#include "tests/unit/lib/test.h"

#define TARGETS "/mnt/a\0/b\0" /* the literal's own NUL stands for the first byte of the body */
#define TARGETS_SIZE (sizeof(TARGETS) - 1)

static char bytes[64];

/* Two targets, then 2 + 2 + 3 bytes of body, then one more. */
static struct box_mounter_packet usual(size_t *ret_size)
{
	memset(bytes, 'x', sizeof(bytes));
	memcpy(bytes, TARGETS, TARGETS_SIZE);
	*ret_size = TARGETS_SIZE + 7 + 1;
	return (struct box_mounter_packet){
		.run = {.mount_count = 2, .env_size = 2, .workdir_size = 2, .command_size = 3},
		.targets_size = TARGETS_SIZE,
	};
}

TEST(whole_jobs_are_taken)
{
	size_t size;
	struct box_mounter_packet packet = usual(&size);
	ASSERT_INT(box_mounter_check_job(&packet, bytes, size), 0);
	packet.run.mount_count = 0;
	packet.targets_size = 0;
	ASSERT_INT(box_mounter_check_job(&packet, bytes, 8), 0);
}

TEST(sizes_that_lead_out_of_the_bytes_are_refused)
{
	static const uint32_t sizes[] = {0, 1, TARGETS_SIZE - 1, TARGETS_SIZE + 1, 1 << 20,
		INT32_MAX, UINT32_MAX, UINT32_MAX - 7};
	size_t size;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		struct box_mounter_packet packet = usual(&size);
		packet.targets_size = sizes[i];
		ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
		/* Even if the body makes up for it. */
		packet.run.command_size = 3 + (uint32_t)TARGETS_SIZE - sizes[i];
		ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
		packet = usual(&size);
		packet.run.env_size = UINT32_MAX - (uint32_t)i; /* no sum may wrap */
		ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
		packet = usual(&size);
		packet.run.command_size = 4 + (uint32_t)i;
		ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
	}
	struct box_mounter_packet packet = usual(&size);
	packet.run.env_size = BOX_INIT_BODY_MAX;
	ASSERT_INT(box_mounter_check_job(&packet, bytes, TARGETS_SIZE + BOX_INIT_BODY_MAX + 6),
		-EBADMSG);
	for (size_t less = 0; less < size; less++) {
		packet = usual(&size);
		ASSERT_INT(box_mounter_check_job(&packet, bytes, less), -EBADMSG);
	}
	ASSERT_INT(box_mounter_check_job(&packet, bytes, size + 1), -EBADMSG);
}

TEST(targets_are_as_many_as_mounts_and_have_an_end)
{
	static const uint32_t counts[] = {0, 1, 3, BOX_INIT_MOUNTS_MAX + 1, UINT32_MAX};
	size_t size;
	struct box_mounter_packet packet;
	for (size_t i = 0; i < COUNT(counts); i++) {
		packet = usual(&size);
		packet.run.mount_count = counts[i];
		ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
	}
	packet = usual(&size);
	bytes[TARGETS_SIZE - 1] = 'x'; /* the last one runs on into the body */
	ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
	packet = usual(&size);
	bytes[0] = 'm'; /* not an absolute path */
	ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
	packet = usual(&size);
	bytes[7] = '\0'; /* an empty one */
	ASSERT_INT(box_mounter_check_job(&packet, bytes, size), -EBADMSG);
}
