/* Owns what the microVM process does between fork and libkrun: it gives up its privileges before it sees the first
 * byte of the guest. A guest that takes this process over has the files of the share, /dev/kvm, two sockets, and
 * the system calls of BOX_SYSCALL_RULES_MICROVM. Called by vmm_run.c and vmm_probe.c. */
#include "vmm/microvm_process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/err.h"
#include "base/fds.h"
#include "base/macros.h"
#include "vmm/privileges.h"
#include "vmm/syscall_rules.h"

#define CONSOLE_PATH "/proc/self/fd/1"
#define KVM_PATH "/dev/kvm"

static int arrange_fds(struct box_microvm_process *microvm)
{
	int *net = &microvm->guest.net_fd;
	if (dup2(microvm->console_fd, STDOUT_FILENO) < 0 ||
		dup2(microvm->console_fd, STDERR_FILENO) < 0) {
		return -errno;
	}
	/* A copy, because libkrun may close it. */
	microvm->guest.log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int needed[] = {microvm->guest.log_fd, *net};
	if (needed[0] < 0) {
		return -errno;
	}
	return box_fds_close_but(STDERR_FILENO + 1, needed, BOX_COUNT_OF(needed));
}

/* Each file that the guest has looked up is an open fd here. */
static int raise_open_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
		return -errno;
	}
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

static int give_up_privileges(const struct box_microvm_process *microvm)
{
	const char *const paths[] = {KVM_PATH, microvm->guest.share};
	sigset_t none;
	(void)sigemptyset(&none);
	if (sigprocmask(SIG_SETMASK, &none, NULL) < 0) {
		return -errno;
	}
	int r = raise_open_files();
	if (r < 0) {
		return r;
	}
	r = microvm->same_uid ? 0 : box_privileges_become(microvm->uid, microvm->gid);
	if (r < 0) {
		return r;
	}
	r = box_caps_keep(0);
	if (r < 0) {
		return r;
	}
	/* After the change of ids, which clears PDEATHSIG. */
	if (prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ||
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
		return -errno;
	}
	size_t count = microvm->guest.share ? 2 : 1;
	return box_privileges_restrict_paths(microvm->landlock_abi, paths, count);
}

_Noreturn static void microvm_main(struct box_microvm_process *microvm, pid_t parent)
{
	static struct box_err err;
	microvm->guest.console_path = CONSOLE_PATH;
	(void)prctl(PR_SET_NAME, "box-microvm", 0L, 0L, 0L);
	(void)umask(0); /* the guest's processes have umasks of their own */
	int r = arrange_fds(microvm);
	if (r == 0) {
		r = give_up_privileges(microvm);
	}
	if (r == 0 && getppid() != parent) {
		r = -EOWNERDEAD;
	}
	if (r < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
	} else {
		r = box_syscall_rules_enter(BOX_SYSCALL_RULES_MICROVM, &err);
	}
	if (r == 0) {
		(void)box_libkrun_enter(microvm->krun, &microvm->guest, &err);
	}
	(void)dprintf(STDERR_FILENO, "box-vmm: %s\n", err.text);
	_exit(1);
}

int box_microvm_process_start(
	const struct box_microvm_process *microvm, pid_t *ret_pid, struct box_err *err)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		struct box_microvm_process copy = *microvm;
		microvm_main(&copy, parent);
	}
	if (pid < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "cannot fork the microVM process: %s",
			box_err_strerror(errno));
	}
	*ret_pid = pid;
	return 0;
}
