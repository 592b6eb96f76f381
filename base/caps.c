/* Past libcap, which PID 1 of a box does not have. */
#include "base/caps.h"

#include <errno.h>
#include <linux/capability.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int box_caps_keep(uint64_t mask)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};
	if (syscall(SYS_capget, &header, sets) < 0) {
		return -errno;
	}
	for (size_t i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		/* There may be none to keep. */
		sets[i].permitted &= (uint32_t)(mask >> (32 * i));
		sets[i].effective = sets[i].permitted;
		sets[i].inheritable = 0;
	}
	return syscall(SYS_capset, &header, sets) < 0 ? -errno : 0;
}
