/* Finds the parts of the boot file of a microVM and checks their sizes. Called by box-vmm before the guest
 * starts and by box-init in the guest. Pure: no system calls. */
#include "protocol/microvm.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>

#include "base/macros.h"

/* Whether both texts of a root step end within their arrays. */
static int check_root_step(const char *bytes)
{
	struct box_root_step step;
	memcpy(&step, bytes, sizeof(step));
	return step.kind <= BOX_ROOT_STEP_FREEZE && step.target[0] == '/' &&
			memchr(step.target, '\0', sizeof(step.target)) &&
			memchr(step.source, '\0', sizeof(step.source))
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
	parts.root_steps = at + sizeof(parts.boot);
	uint64_t steps_size = (uint64_t)parts.boot.root_step_count * sizeof(struct box_root_step);
	if (parts.boot.size != sizeof(parts.boot) ||
		parts.boot.root_step_count > BOX_ROOT_STEPS_MAX ||
		steps_size != size - fixed - before ||
		!memchr(parts.boot.hostname, '\0', sizeof(parts.boot.hostname))) {
		return -EBADMSG;
	}
	for (uint64_t i = 0; i < steps_size; i += sizeof(struct box_root_step)) {
		if (check_root_step(parts.root_steps + i) < 0) {
			return -EBADMSG;
		}
	}
	memcpy(&parts.order, parts.root_steps + steps_size, sizeof(parts.order));
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
