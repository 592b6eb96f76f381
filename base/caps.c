/* Uses the system calls directly: box-init, PID 1 of a box, is not linked with libcap. */
#include "base/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Element 0 holds the low 32 capabilities of each set, element 1 the high ones. */
struct sets {
	struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];
};

static int get(struct sets *ret_sets)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	return syscall(SYS_capget, &header, ret_sets->words) < 0 ? -errno : 0;
}

static int set(const struct sets *sets)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	return syscall(SYS_capset, &header, sets->words) < 0 ? -errno : 0;
}

int box_caps_keep(uint64_t mask)
{
	struct sets sets = {0};
	int r = get(&sets);
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		/* The set may be empty. */
		sets.words[i].permitted &= (uint32_t)(mask >> (32 * i));
		sets.words[i].effective = sets.words[i].permitted;
		sets.words[i].inheritable = 0;
	}
	return set(&sets);
}

int box_caps_drop_all(void)
{
	static const struct sets none;
	return set(&none);
}

int box_caps_keep_over_exec(uint64_t mask)
{
	struct sets sets = {0};
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t word = (uint32_t)(mask >> (32 * i));
		sets.words[i] = (struct __user_cap_data_struct){word, word, word};
	}
	int r = set(&sets);
	if (r < 0) {
		return r;
	}
	for (long capability = 0; capability < 64; capability++) {
		if ((mask >> capability & 1) &&
			prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0L, 0L) < 0) {
			return -errno;
		}
	}
	return 0;
}

int box_caps_restore_effective(void)
{
	struct sets sets = {0};
	int r = get(&sets);
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		sets.words[i].effective = sets.words[i].permitted;
	}
	return set(&sets);
}
