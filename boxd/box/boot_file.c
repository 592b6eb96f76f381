/* Writes the boot file: the box's ids, the Landlock rules and the seccomp filters; for a microVM also
 * its description and its root steps. */
#include "boxd/box/boot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "boxd/box/boot_file_root_steps.h"
#include "protocol/init.h"

/* written with one call */
struct boot_text {
	struct box_init_boot boot;
	char rest[BOX_PLAN_RULES_MAX * sizeof(struct box_init_path_rule)];
};

static size_t fill_rules(char *to, const struct box_plan *plan)
{
	static const uint32_t rights[] = {
		[BOX_PLAN_MAY_READ] = BOX_INIT_MAY_READ,
		[BOX_PLAN_MAY_WRITE] = BOX_INIT_MAY_WRITE,
		[BOX_PLAN_MAY_USE] = BOX_INIT_MAY_USE,
	};
	for (size_t i = 0; i < plan->rule_count; i++) {
		struct box_init_path_rule *rule = (struct box_init_path_rule *)(void *)to + i;
		rule->right = rights[plan->rules[i].may];
		(void)snprintf(rule->path, sizeof(rule->path), "%s", plan->rules[i].path);
	}
	return plan->rule_count * sizeof(struct box_init_path_rule);
}

static int write_sealed(const struct iovec *parts, int count, int *ret_fd)
{
	_cleanup_(box_close_p) int fd = memfd_create("box-boot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ssize_t size = 0;
	for (int i = 0; i < count; i++) {
		size += (ssize_t)parts[i].iov_len;
	}
	if (fd < 0) {
		return -errno;
	}
	if (writev(fd, parts, count) != size) {
		return errno ? -errno : -EIO;
	}
	if (lseek(fd, 0, SEEK_SET) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) <
			0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void fill_boot(const struct box_host_state *host_state, const struct box_plan *plan,
	const struct box_host_state_filters *filters, struct box_init_boot *boot)
{
	*boot = (struct box_init_boot){
		.size = sizeof(*boot),
		.payload_uid = BOX_PLAN_PAYLOAD_ID,
		.payload_gid = BOX_PLAN_PAYLOAD_ID,
		/* A microVM's guest has the full range of ids, whichever user runs it. */
		.same_uid = host_state->ids == NULL && plan->ask->kind == BOX_PLAN_KIND_NATIVE,
		.landlock_abi = (uint32_t)plan->landlock_abi,
		.workspace = plan->ask->host_mode != BOX_PLAN_MOUNT_NONE,
		.rule_count = (uint32_t)plan->rule_count,
		.filter_count = (uint32_t)filters->commands.count,
		.mounter_filter_count = (uint32_t)filters->mounter.count,
	};
	(void)snprintf(
		boot->workspace_path, sizeof(boot->workspace_path), "%s", plan->ask->mount_path);
}

static struct iovec program_bytes(const struct box_filter *filter)
{
	return (struct iovec){
		filter->instructions, filter->count * sizeof(filter->instructions[0])};
}

int box_boot_file_make(const struct box_host_state *host_state, const struct box_plan *plan,
	const struct box_network_slot *slot, int *ret_fd)
{
	static struct boot_text text;
	const struct box_host_state_filters *filters =
		&host_state->filters[plan->profile][plan->network];
	fill_boot(host_state, plan, filters, &text.boot);
	struct iovec parts[5] = {
		{&text, sizeof(text.boot) + fill_rules(text.rest, plan)},
		program_bytes(&filters->commands),
		program_bytes(&filters->mounter),
	};
	if (plan->ask->kind == BOX_PLAN_KIND_NATIVE) {
		return write_sealed(parts, 3, ret_fd);
	}
	struct box_microvm_boot machine;
	box_boot_file_describe_microvm(plan, slot, &machine);
	size_t size = machine.root_step_count * sizeof(struct box_root_step);
	_cleanup_(box_free_p) struct box_root_step *root_steps = box_alloc(size);
	box_boot_file_fill_root_steps(plan, root_steps);
	parts[3] = (struct iovec){&machine, sizeof(machine)};
	parts[4] = (struct iovec){root_steps, size};
	return write_sealed(parts, 5, ret_fd);
}
