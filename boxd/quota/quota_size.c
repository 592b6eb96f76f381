/* How large an image must be, and what is to be done for a folder. Pure. The sizes are those of an
 * ext4 with blocks of 4 KiB as mke2fs lays it out, each rounded up: that there is no less room than
 * was asked for is looked at again when it is mounted. */
#include <errno.h>

#include "base/macros.h"
#include "boxd/quota/quota.h"

#define BLOCK 4096ULL
#define GROUP_BLOCKS 32768ULL
#define INODES_IN_BLOCK 16ULL
#define DESCRIPTORS_IN_BLOCK 64ULL
#define RESERVED_DESCRIPTORS_MAX 1024ULL /* so that it can grow, in each copy of the superblock */
#define GROWTH 1024ULL
#define KERNEL_SHARE 50ULL /* the kernel keeps one of so many blocks for itself */
#define KERNEL_BLOCKS_MAX 4096ULL
#define SPARE_BLOCKS 64ULL /* lost+found, the root, what a last group that is too small takes */

#define BYTES_PER_INODE 8192ULL
#define INODES_MIN 12288ULL /* their tables make the smallest image one that can have a journal */
#define INODES_MAX (16ULL * 1024 * 1024)
#define SMALL_BYTES (256 * BOX_MIB)
#define SMALL_JOURNAL_MIB 4
#define JOURNAL_MIB 16

static uint64_t at_most(uint64_t value, uint64_t most)
{
	return BOX_MIN(value, most);
}

static uint64_t divide_up(uint64_t value, uint64_t by)
{
	return (value + by - 1) / by;
}

/* Groups with a copy of the superblock: 0, 1 and the powers of 3, 5 and 7. */
static uint64_t count_copies(uint64_t groups)
{
	uint64_t copies = groups > 1 ? 2 : 1;
	for (uint64_t base = 3; base <= 7; base += 2) {
		for (uint64_t power = base; power < groups; power *= base) {
			copies++;
		}
	}
	return copies;
}

static uint64_t count_orphan_blocks(uint64_t blocks)
{
	if (blocks < 128 * 1024) {
		return 32;
	}
	return at_most(blocks / 4096, 512);
}

/* What an image of so many blocks takes for itself. */
static uint64_t count_overhead(uint64_t blocks, const struct box_quota_shape *shape)
{
	uint64_t groups = divide_up(blocks, GROUP_BLOCKS);
	uint64_t tables = groups *
		(divide_up(divide_up(shape->inodes, groups), INODES_IN_BLOCK) + 1);
	uint64_t most_groups = divide_up(at_most(blocks * GROWTH, UINT32_MAX), GROUP_BLOCKS);
	uint64_t descriptors = divide_up(groups, DESCRIPTORS_IN_BLOCK) +
		at_most(divide_up(most_groups, DESCRIPTORS_IN_BLOCK), RESERVED_DESCRIPTORS_MAX);
	return tables + 2 * groups + count_copies(groups) * (1 + descriptors) +
		shape->journal_mib * BOX_MIB / BLOCK + count_orphan_blocks(blocks) +
		at_most(divide_up(blocks, KERNEL_SHARE), KERNEL_BLOCKS_MAX) + SPARE_BLOCKS;
}

int box_quota_shape(uint64_t quota_bytes, struct box_quota_shape *ret_shape)
{
	if (quota_bytes < BOX_QUOTA_BYTES_MIN || quota_bytes > BOX_QUOTA_BYTES_MAX) {
		return -ERANGE;
	}
	struct box_quota_shape shape = {
		.inodes = at_most(quota_bytes / BYTES_PER_INODE, INODES_MAX),
		.journal_mib = quota_bytes < SMALL_BYTES ? SMALL_JOURNAL_MIB : JOURNAL_MIB,
	};
	shape.inodes = BOX_MAX(shape.inodes, INODES_MIN);
	uint64_t wanted = divide_up(quota_bytes, BLOCK);
	uint64_t blocks = wanted;
	uint64_t before;
	/* What it takes for itself grows far more slowly than it does. */
	do {
		before = blocks;
		blocks = wanted + count_overhead(before, &shape);
	} while (blocks > before);
	shape.size_bytes = before * BLOCK;
	*ret_shape = shape;
	return 0;
}

static int refuse_unheld(
	const struct box_quota_support *support, uint64_t quota_bytes, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
		"workspace_quota_mb %llu cannot be held for a folder of the host: %s; leave out "
		"host_path, provide what is missing, or set local.degraded: true to run without",
		(unsigned long long)(quota_bytes / BOX_MIB), support->missing);
}

static int decide_by_size(const struct box_quota_state *state, uint64_t quota_bytes,
	enum box_quota_verdict *ret_verdict, struct box_err *err)
{
	struct box_quota_shape shape = {0};
	if (box_quota_shape(quota_bytes, &shape) < 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, ERANGE,
			"workspace_quota_mb %llu cannot be held for a folder of the host: it must "
			"be from %llu to %llu",
			(unsigned long long)(quota_bytes / BOX_MIB),
			(unsigned long long)(BOX_QUOTA_BYTES_MIN / BOX_MIB),
			(unsigned long long)(BOX_QUOTA_BYTES_MAX / BOX_MIB));
	}
	if (state->has_image && state->image_bytes > shape.size_bytes) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"workspace_quota_mb %llu is smaller than the one that the folder of the "
			"host has: its image can grow, not shrink",
			(unsigned long long)(quota_bytes / BOX_MIB));
	}
	/* Whoever died while it grew has left a file that is larger than what is in it. */
	bool stands = state->has_image && state->mounted && !state->unswept &&
		state->image_bytes == shape.size_bytes && state->room_bytes >= quota_bytes;
	*ret_verdict = stands ? BOX_QUOTA_READY : BOX_QUOTA_NEEDS_WORK;
	return 0;
}

int box_quota_decide(const struct box_quota_support *support, const struct box_quota_state *state,
	uint64_t quota_bytes, bool degraded, enum box_quota_verdict *ret_verdict,
	struct box_err *err)
{
	bool hidden = state->has_image && !state->mounted;
	if (!support->possible && hidden) {
		/* Never without: what is under the image is not the folder's content. */
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"the folder of the host has an image that cannot be mounted: %s",
			support->missing);
	}
	if (quota_bytes == 0) {
		bool unswept = state->unswept && support->possible;
		*ret_verdict = hidden || unswept ? BOX_QUOTA_NEEDS_WORK : BOX_QUOTA_READY;
		return 0;
	}
	if (!support->possible && degraded) {
		*ret_verdict = BOX_QUOTA_WAIVED;
		return 0;
	}
	return support->possible ? decide_by_size(state, quota_bytes, ret_verdict, err)
				 : refuse_unheld(support, quota_bytes, err);
}
