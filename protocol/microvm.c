/* Finds its way through a boot file of a microVM. Pure: no calls. */
#include "protocol/microvm.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#include "base/macros.h"

/* One text of a piece of furniture ends where it should. */
static int check_piece(const char *bytes)
{
	struct box_root_step piece;
	memcpy(&piece, bytes, sizeof(piece));
	return piece.kind <= BOX_ROOT_STEP_FREEZE && piece.target[0] == '/' &&
			memchr(piece.target, '\0', sizeof(piece.target)) &&
			memchr(piece.source, '\0', sizeof(piece.source))
		? 0
		: -EBADMSG;
}

int box_microvm_find_parts(const char *bytes, size_t size, struct box_microvm_parts *ret_parts)
{
	struct box_init_boot facts;
	struct box_microvm_parts parts;
	const size_t fixed = sizeof(facts) + sizeof(parts.boot) + sizeof(parts.order);
	if (size < fixed) {
		return -EBADMSG;
	}
	memcpy(&facts, bytes, sizeof(facts));
	if (facts.size != sizeof(facts) || facts.filter_count > BPF_MAXINSNS ||
		facts.mounter_filter_count > BPF_MAXINSNS) {
		return -EBADMSG;
	}
	uint64_t before = (uint64_t)facts.rule_count * sizeof(struct box_init_path_rule) +
		((uint64_t)facts.filter_count + facts.mounter_filter_count) *
			sizeof(struct sock_filter);
	if (before > size - fixed) {
		return -EBADMSG;
	}
	const char *at = bytes + sizeof(facts) + before;
	memcpy(&parts.boot, at, sizeof(parts.boot));
	parts.furniture = at + sizeof(parts.boot);
	uint64_t furniture = (uint64_t)parts.boot.furniture_count * sizeof(struct box_root_step);
	if (parts.boot.size != sizeof(parts.boot) ||
		parts.boot.furniture_count > BOX_ROOT_STEPS_MAX ||
		furniture != size - fixed - before ||
		!memchr(parts.boot.hostname, '\0', sizeof(parts.boot.hostname))) {
		return -EBADMSG;
	}
	for (uint64_t i = 0; i < furniture; i += sizeof(struct box_root_step)) {
		if (check_piece(parts.furniture + i) < 0) {
			return -EBADMSG;
		}
	}
	memcpy(&parts.order, parts.furniture + furniture, sizeof(parts.order));
	*ret_parts = parts;
	return 0;
}

const char *box_microvm_step_name(uint32_t step)
{
	static const char *const names[] = {
		"read the guest's boot file",
		"connect the guest to its host",
		"set the guest's clock",
		"set the guest's limits",
		"open what the host shares with the guest",
		"make the guest's cgroups",
		"make the guest's root",
		"move into the guest's root",
		"set the guest's host name",
		"set up the guest's network",
		"hand over to the boot of every box",
	};
	_Static_assert(BOX_COUNT_OF(names) == BOX_MICROVM_STEP_END_ - BOX_MICROVM_STEP_READ,
		"a name for each step");
	if (step >= BOX_MICROVM_STEP_ROOT_STEP && step < BOX_MICROVM_STEP_ROOT_STEP_END_) {
		return "mount a part of the guest's root";
	}
	if (step < BOX_MICROVM_STEP_READ || step >= BOX_MICROVM_STEP_END_) {
		return NULL;
	}
	return names[step - BOX_MICROVM_STEP_READ];
}
