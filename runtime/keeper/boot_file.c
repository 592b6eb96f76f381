/* Writes what box-init reads first: the box's ids, the rules of Landlock and the filter. */
#include "runtime/keeper/boot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/guest/wire.h"

/* One run of bytes, written at once. */
struct boot_text {
	struct box_guest_boot boot;
	char rest[BOX_PLAN_RULES_MAX * sizeof(struct box_guest_rule)];
};

static size_t fill_rules(char *to, const struct box_plan *plan)
{
	static const uint32_t rights[] = {
		[BOX_MAY_READ] = BOX_GUEST_MAY_READ,
		[BOX_MAY_WRITE] = BOX_GUEST_MAY_WRITE,
		[BOX_MAY_USE] = BOX_GUEST_MAY_USE,
	};
	for (size_t i = 0; i < plan->rule_count; i++) {
		struct box_guest_rule *rule = (struct box_guest_rule *)(void *)to + i;
		rule->right = rights[plan->rules[i].may];
		(void)snprintf(rule->path, sizeof(rule->path), "%s", plan->rules[i].path);
	}
	return plan->rule_count * sizeof(struct box_guest_rule);
}

int box_boot_file_make(const struct box_ground *ground, const struct box_plan *plan, int *ret_fd)
{
	static struct boot_text text;
	const struct box_filter *filter = &ground->filters[plan->profile];
	text.boot = (struct box_guest_boot){
		.size = sizeof(text.boot),
		.payload_uid = BOX_PLAN_PAYLOAD_ID,
		.payload_gid = BOX_PLAN_PAYLOAD_ID,
		.same_uid = ground->ids == NULL,
		.landlock_abi = (uint32_t)plan->landlock_abi,
		.workspace = plan->ask->host_mode != BOX_ASK_NONE,
		.rule_count = (uint32_t)plan->rule_count,
		.filter_count = (uint32_t)filter->count,
	};
	(void)snprintf(text.boot.workspace_path, sizeof(text.boot.workspace_path), "%s",
		plan->ask->mount_path);
	_cleanup_(box_close_p) int fd = memfd_create("box-boot", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct iovec parts[] = {
		{&text, sizeof(text.boot) + fill_rules(text.rest, plan)},
		{filter->instructions, filter->count * sizeof(filter->instructions[0])},
	};
	ssize_t size = (ssize_t)(parts[0].iov_len + parts[1].iov_len);
	if (fd < 0) {
		return -errno;
	}
	if (writev(fd, parts, 2) != size) {
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
