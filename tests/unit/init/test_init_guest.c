/* A microVM's boot file in every broken state; the guest's clock and network mask. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>

#include "init/guest/guest_clock.h"
#include "init/guest/guest_net.h"
#include "protocol/microvm.h"
#include "tests/unit/lib/test.h"

static char file[sizeof(struct box_init_boot) + 2 * sizeof(struct box_init_path_rule) +
	3 * sizeof(struct sock_filter) + sizeof(struct box_microvm_boot) +
	4 * sizeof(struct box_root_step) + sizeof(struct box_microvm_order) + 1];

struct wanted {
	struct box_init_boot facts;
	struct box_microvm_boot boot;
	struct box_root_step piece;
};

static struct wanted usual(void)
{
	return (struct wanted){
		.facts = {.size = sizeof(struct box_init_boot),
			.rule_count = 2,
			.filter_count = 2,
			.mounter_filter_count = 1},
		.boot = {.size = sizeof(struct box_microvm_boot),
			.root_step_count = 2,
			.hostname = "box"},
		.piece = {.kind = BOX_ROOT_STEP_TREE, .target = "/usr", .source = "usr"},
	};
}

static size_t write_file(const struct wanted *wanted, uint32_t pieces)
{
	struct box_microvm_order order = {.order = BOX_INIT_ORDER_QUOTA, .realtime_ns = 123456789};
	size_t at = 0;
	memset(file, 0, sizeof(file));
	memcpy(file, &wanted->facts, sizeof(wanted->facts));
	at += sizeof(wanted->facts) + 2 * sizeof(struct box_init_path_rule) +
		3 * sizeof(struct sock_filter);
	memcpy(file + at, &wanted->boot, sizeof(wanted->boot));
	at += sizeof(wanted->boot);
	for (uint32_t i = 0; i < pieces; i++) {
		memcpy(file + at, &wanted->piece, sizeof(wanted->piece));
		at += sizeof(wanted->piece);
	}
	memcpy(file + at, &order, sizeof(order));
	return at + sizeof(order);
}

TEST(parts_are_found)
{
	struct wanted wanted = usual();
	struct box_microvm_parts parts;
	size_t size = write_file(&wanted, 2);
	ASSERT_INT(box_microvm_find_parts(file, size, &parts), 0);
	ASSERT_STR(parts.boot.hostname, "box");
	ASSERT_INT(parts.order.order, BOX_INIT_ORDER_QUOTA);
	ASSERT_INT(parts.order.realtime_ns, 123456789);
	struct box_root_step piece;
	memcpy(&piece, parts.root_steps + sizeof(piece), sizeof(piece));
	ASSERT_STR(piece.source, "usr");
	wanted.boot.root_step_count = 0;
	size = write_file(&wanted, 0);
	ASSERT_INT(box_microvm_find_parts(file, size, &parts), 0);
}

TEST(every_other_size_is_refused)
{
	struct wanted wanted = usual();
	struct box_microvm_parts parts;
	size_t size = write_file(&wanted, 2);
	for (size_t less = 0; less < size; less++) {
		ASSERT_INT(box_microvm_find_parts(file, less, &parts), -EBADMSG);
	}
	ASSERT_INT(box_microvm_find_parts(file, size + 1, &parts), -EBADMSG);
}

TEST(what_is_wrong_is_refused)
{
	struct box_microvm_parts parts;
	struct wanted table[12];
	for (size_t i = 0; i < COUNT(table); i++) {
		table[i] = usual();
	}
	table[0].facts.size--;
	table[1].facts.rule_count = UINT32_MAX;
	table[2].facts.filter_count = BPF_MAXINSNS + 1;
	table[3].facts.filter_count = UINT32_MAX;
	table[4].boot.size++;
	table[5].boot.root_step_count = 3;
	table[6].boot.root_step_count = UINT32_MAX;
	memset(table[7].boot.hostname, 'x', sizeof(table[7].boot.hostname));
	table[8].piece.kind = BOX_ROOT_STEP_FREEZE + 1;
	memset(table[9].piece.target, '/', sizeof(table[9].piece.target));
	memset(table[10].piece.source, 'x', sizeof(table[10].piece.source));
	table[11].facts.mounter_filter_count = BPF_MAXINSNS + 1;
	for (size_t i = 0; i < COUNT(table); i++) {
		size_t size = write_file(&table[i], 2);
		if (box_microvm_find_parts(file, size, &parts) != -EBADMSG) {
			TEST_FAIL("row %zu is taken", i);
		}
	}
	struct wanted relative = usual();
	memcpy(relative.piece.target, "usr", 4);
	size_t size = write_file(&relative, 2);
	ASSERT_INT(box_microvm_find_parts(file, size, &parts), -EBADMSG);
}

TEST(steps_have_names)
{
	for (uint32_t i = BOX_MICROVM_STEP_READ; i < BOX_MICROVM_STEP_END_; i++) {
		ASSERT(box_microvm_step_name(i));
		ASSERT(!box_init_boot_step_name(i));
	}
	ASSERT(box_microvm_step_name(BOX_MICROVM_STEP_ROOT_STEP));
	ASSERT(box_microvm_step_name(BOX_MICROVM_STEP_ROOT_STEP_END_ - 1));
	ASSERT(!box_microvm_step_name(BOX_MICROVM_STEP_ROOT_STEP_END_));
	ASSERT(!box_microvm_step_name(BOX_MICROVM_STEP_END_));
	ASSERT(!box_microvm_step_name(0));
}

/* Only impossible values: nothing is set on this host. */
TEST(steps_out_of_time)
{
	ASSERT_INT(box_guest_clock_step(INT64_MIN), -ERANGE);
	ASSERT_INT(box_guest_clock_step(INT64_MAX), -ERANGE);
	ASSERT_INT(box_guest_clock_step(-(int64_t)box_guest_clock_now() - 1000000000), -ERANGE);
}

TEST(masks)
{
	ASSERT_INT(box_guest_net_mask(0), 0);
	ASSERT_INT(ntohl(box_guest_net_mask(1)), 0x80000000U);
	ASSERT_INT(ntohl(box_guest_net_mask(24)), 0xffffff00U);
	ASSERT_INT(ntohl(box_guest_net_mask(32)), 0xffffffffU);
	ASSERT_INT(ntohl(box_guest_net_mask(33)), 0xffffffffU);
}
