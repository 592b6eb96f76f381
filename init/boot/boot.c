/* Owns the order in which PID 1 gives up its privileges: the list `steps`. At the end it is confined by the
 * same filter and Landlock domain as commands, so that starting a command costs only a clone and an exec; of
 * its capabilities it keeps those for changing to the ids of commands and for killing them. */
#include "init/boot/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/seccomp.h>
#include <linux/securebits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/landlock.h"
#include "base/macros.h"
#include "init/boot/boot_order.h"
#include "init/boot/mounter.h"
#include "init/event_loop.h"
#include "init/run/launch.h"

#define SIGNAL_MAX 64
#define BIT(number) (1ULL << (number))

static struct box_boot boot;

const struct box_boot *box_boot_facts(void)
{
	return &boot;
}

/* --- Landlock --- */

static uint64_t rights_of(uint32_t right)
{
	uint64_t read = BOX_LANDLOCK_EXECUTE | BOX_LANDLOCK_READ_FILE | BOX_LANDLOCK_READ_DIR;
	switch (right) {
	case BOX_INIT_MAY_WRITE:
		return ~(uint64_t)(BOX_LANDLOCK_MAKE_CHAR | BOX_LANDLOCK_MAKE_BLOCK |
			BOX_LANDLOCK_IOCTL_DEV);
	case BOX_INIT_MAY_USE:
		return read | BOX_LANDLOCK_WRITE_FILE | BOX_LANDLOCK_TRUNCATE |
			BOX_LANDLOCK_IOCTL_DEV;
	case BOX_INIT_MAY_READ:
		return read;
	default:
		return 0;
	}
}

static int add_rule(int ruleset, int fd, uint32_t right)
{
	return box_landlock_allow(ruleset, boot.facts.landlock_abi, fd, rights_of(right));
}

static int add_rules(int ruleset, const int *fds, size_t fd_count)
{
	for (uint32_t i = 0; i < boot.facts.rule_count; i++) {
		_cleanup_(box_close_p) int fd = open(boot.rules[i].path, O_PATH | O_CLOEXEC);
		if (fd < 0) {
			return -errno;
		}
		int r = add_rule(ruleset, fd, boot.rules[i].right);
		if (r < 0) {
			return r;
		}
	}
	for (size_t i = 0; i < fd_count; i++) {
		int r = add_rule(ruleset, fds[i], BOX_INIT_MAY_WRITE);
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

/* Signals and abstract sockets are not restricted: the pid and network namespaces isolate them, and commands
 * with mounts have a domain of their own, which would cut them off from the other commands and from us. */
int box_boot_enter_landlock(const int *fds, size_t fd_count)
{
	if (boot.facts.landlock_abi == 0) {
		return 0;
	}
	_cleanup_(box_close_p) int ruleset = box_landlock_open(
		boot.facts.landlock_abi, BOX_LANDLOCK_FILES);
	if (ruleset < 0) {
		return ruleset;
	}
	int r = add_rules(ruleset, fds, fd_count);
	return r < 0 ? r : box_landlock_restrict(ruleset);
}

/* --- seccomp and capabilities --- */

static int install(const struct sock_filter *instructions, uint32_t count)
{
	if (count == 0) {
		return 0;
	}
	struct sock_fprog program = {
		.len = (unsigned short)count,
		.filter = (struct sock_filter *)(uintptr_t)instructions, /* only read */
	};
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

int box_boot_install_filter(void)
{
	return install(boot.filter, boot.facts.filter_count);
}

int box_boot_install_mounter_filter(void)
{
	return install(boot.mounter_filter, boot.facts.mounter_filter_count);
}

/* --- the steps --- */

static int read_boot(void)
{
	struct stat st;
	if (fstat(BOX_INIT_BOOT_FD, &st) < 0) {
		return -errno;
	}
	size_t size = (size_t)st.st_size;
	if (size < sizeof(boot.facts)) {
		return -EBADMSG;
	}
	const char *bytes = mmap(NULL, size, PROT_READ, MAP_PRIVATE, BOX_INIT_BOOT_FD, 0);
	if (bytes == MAP_FAILED) {
		return -errno;
	}
	(void)close(BOX_INIT_BOOT_FD);
	memcpy(&boot.facts, bytes, sizeof(boot.facts));
	uint64_t rules_size = (uint64_t)boot.facts.rule_count * sizeof(struct box_init_path_rule);
	uint64_t filters_size =
		((uint64_t)boot.facts.filter_count + boot.facts.mounter_filter_count) *
		sizeof(struct sock_filter);
	if (boot.facts.size != sizeof(boot.facts) || boot.facts.filter_count > BPF_MAXINSNS ||
		boot.facts.mounter_filter_count > BPF_MAXINSNS ||
		size < sizeof(boot.facts) + rules_size + filters_size) {
		return -EBADMSG;
	}
	boot.rules = (const struct box_init_path_rule *)(bytes + sizeof(boot.facts));
	boot.filter = (const struct sock_filter *)(bytes + sizeof(boot.facts) + rules_size);
	boot.mounter_filter = boot.filter + boot.facts.filter_count;
	boot.mapped_size = size;
	box_launch_set_ids((struct box_launch_ids){
		.uid = boot.facts.payload_uid,
		.gid = boot.facts.payload_gid,
		.same = boot.facts.same_uid,
	});
	return 0;
}

/* The box's own devices; commands inherit them. */
static int open_stdio(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	int r = 0;
	for (int standard = STDIN_FILENO; r == 0 && standard <= STDERR_FILENO; standard++) {
		r = dup2(fd, standard) < 0 ? -errno : 0;
	}
	(void)(fd > STDERR_FILENO && close(fd));
	return r;
}

static int hide(void)
{
	return prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* A signal that is ignored would stay ignored in commands. */
static int reset_signals(void)
{
	/* A raw system call, with zeros for the default: the C library reserves some numbers for itself.
	 * SIGKILL and SIGSTOP have no action. */
	static const unsigned long action[4];
	for (int number = 1; number <= SIGNAL_MAX; number++) {
		(void)syscall(SYS_rt_sigaction, number, action, NULL, SIGNAL_MAX / 8);
	}
	(void)umask(022);
	return chdir("/") < 0 ? -errno : 0;
}

/* If only one id is mapped, this right may be missing; then no capability can be gained either. */
static int missing_right(void)
{
	return errno == EPERM && boot.facts.same_uid ? 0 : -errno;
}

static int drop_bounding_set(void)
{
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
		int r = prctl(PR_CAPBSET_DROP, capability) < 0 ? missing_right() : 0;
		if (r < 0) {
			return r;
		}
	}
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* An exec then gives root no capabilities. A change of the uid still clears them. */
static int lock_secure_bits(void)
{
	unsigned long bits = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
		SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
		SECBIT_NO_SETUID_FIXUP_LOCKED;
	return prctl(PR_SET_SECUREBITS, bits) < 0 ? missing_right() : 0;
}

static int forbid_new_privileges(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

static int enter_landlock(void)
{
	return box_boot_enter_landlock(NULL, 0);
}

/* What a command opens through /dev/stdout is a pipe of ours: the pipe must belong to the payload. */
static void make_files_as_payload(void)
{
	if (!boot.facts.same_uid) {
		(void)syscall(SYS_setfsgid, boot.facts.payload_gid);
		(void)syscall(SYS_setfsuid, boot.facts.payload_uid);
	}
}

static int drop_capabilities(void)
{
	make_files_as_payload();
	uint64_t keep = BIT(CAP_SETUID) | BIT(CAP_SETGID) | BIT(CAP_KILL);
	return box_caps_keep(boot.facts.same_uid ? 0 : keep);
}

/* In the order of enum box_init_boot_step. The filter is last, because the earlier steps need calls that it
 * refuses. */
static int (*const steps[])(void) = {
	read_boot,
	open_stdio,
	box_launch_find_oom_score,
	hide,
	reset_signals,
	box_event_loop_open,
	drop_bounding_set,
	lock_secure_bits,
	forbid_new_privileges,
	box_mounter_start,
	box_boot_await_order,
	box_boot_attach_workspace,
	enter_landlock,
	drop_capabilities,
	box_boot_install_filter,
};
_Static_assert(
	BOX_COUNT_OF(steps) == BOX_INIT_BOOT_END_ - BOX_INIT_BOOT_READ, "every step has a number");

int box_boot_run(uint32_t *ret_step)
{
	/* This name lets people and tests distinguish a waiting warm box from one in use. */
	(void)prctl(PR_SET_NAME, "box-warm", 0L, 0L, 0L);
	for (uint32_t i = 0; i < BOX_COUNT_OF(steps); i++) {
		int r = steps[i]();
		if (r < 0) {
			*ret_step = BOX_INIT_BOOT_READ + i;
			return r;
		}
	}
	/* The mounter has a mapping of its own. */
	void *bytes = (void *)(uintptr_t)((const char *)boot.rules - sizeof(boot.facts));
	(void)munmap(bytes, boot.mapped_size);
	boot.rules = NULL;
	boot.filter = NULL;
	boot.mounter_filter = NULL;
	return 0;
}

void box_boot_report(uint32_t step, int errnum)
{
	struct box_init_report report = {.step = step, .errnum = errnum};
	ssize_t ignored = write(BOX_INIT_REPORT_FD, &report, sizeof(report));
	(void)ignored;
	(void)close(BOX_INIT_REPORT_FD);
}
