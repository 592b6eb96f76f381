/* Owns the way from fork to libkrun: what the process gives up before it sees a guest's first byte. A
 * guest that takes it over has the files of the share, /dev/kvm, two sockets, and the calls of
 * BOX_SYSCALL_RULES_MICROVM. */
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
#include "vmm/privileges.h"
#include "vmm/syscall_rules.h"

#define CONSOLE_PATH "/proc/self/fd/1"
#define KVM_PATH "/dev/kvm"

static int arrange_fds(struct box_microvm_process *machine)
{
	int *net = &machine->guest.net_fd;
	if (dup2(machine->console_fd, STDOUT_FILENO) < 0 ||
		dup2(machine->console_fd, STDERR_FILENO) < 0) {
		return -errno;
	}
	/* One of its own, which libkrun closes when it likes. */
	machine->guest.log_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int kept[] = {machine->guest.log_fd, *net};
	if (kept[0] < 0) {
		return -errno;
	}
	return box_privileges_keep_fds(kept, *net < 0 ? 1 : 2);
}

/* Each file that the guest knows of is an open one. */
static int raise_open_files(void)
{
	struct rlimit files;
	if (getrlimit(RLIMIT_NOFILE, &files) < 0) {
		return -errno;
	}
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) < 0 ? -errno : 0;
}

static int give_up(const struct box_microvm_process *machine)
{
	const char *const paths[] = {KVM_PATH, machine->guest.share};
	sigset_t none;
	(void)sigemptyset(&none);
	int r = sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : raise_open_files();
	if (r == 0 && !machine->same_uid) {
		r = box_privileges_become(machine->uid, machine->gid);
	}
	r = r < 0 ? r : box_caps_keep(0);
	/* The change of ids has cleared the second. */
	if (r == 0 &&
		(prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ||
			prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0)) {
		r = -errno;
	}
	if (r == 0) {
		size_t count = machine->guest.share ? 2 : 1;
		r = box_privileges_restrict_paths(machine->landlock_abi, paths, count);
	}
	return r;
}

_Noreturn static void machine_main(struct box_microvm_process *machine, pid_t parent)
{
	static struct box_err err;
	machine->guest.console_path = CONSOLE_PATH;
	(void)prctl(PR_SET_NAME, "box-microvm", 0L, 0L, 0L);
	(void)umask(0); /* guests apply their own */
	int r = arrange_fds(machine);
	r = r < 0 ? r : give_up(machine);
	if (r == 0 && getppid() != parent) {
		r = -EOWNERDEAD;
	}
	if (r < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
	} else {
		r = box_syscall_rules_enter(BOX_SYSCALL_RULES_MICROVM, &err);
	}
	if (r == 0) {
		(void)box_libkrun_enter(machine->krun, &machine->guest, &err);
	}
	(void)dprintf(STDERR_FILENO, "box-vmm: %s\n", err.text);
	_exit(1);
}

int box_microvm_process_start(
	const struct box_microvm_process *machine, pid_t *ret_pid, struct box_err *err)
{
	pid_t parent = getpid();
	pid_t pid = fork();
	if (pid == 0) {
		struct box_microvm_process copy = *machine;
		machine_main(&copy, parent);
	}
	if (pid < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "the machine cannot be started: %s",
			box_err_strerror(errno));
	}
	*ret_pid = pid;
	return 0;
}
