/* Owns a guest without root steps: 128 MiB, no share, no network. It is made of the parts that boxes are
 * made of, the machine's fence included, but outside of a jail: what runs in it is box-init. */
#include "vmm/vmm_probe_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/landlock.h"
#include "vmm/bridge/bridge.h"
#include "vmm/bridge/bridge_listen.h"
#include "vmm/microvm_process.h"
#include "vmm/privileges.h"

#define MEMORY_MIB 128
#define DEADLINE_MS 60000 /* slow KVMs, such as those in other machines, take tens of seconds */

struct parts {
	char folder[64];
	char socket_path[80];
	void *init;
	size_t init_size;
	struct {
		struct box_init_boot guest;
		struct box_microvm_boot machine;
		struct box_microvm_order order;
	} __attribute__((packed)) boot;
};

static int map_init(struct parts *parts, struct box_err *err)
{
	char path[BOX_PATH_MAX + 16] = "";
	struct stat st;
	ssize_t len = readlink("/proc/self/exe", path, BOX_PATH_MAX);
	char *slash = len > 0 ? strrchr(path, '/') : NULL;
	if (slash) {
		(void)snprintf(slash + 1, 16, "box-init");
	}
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0 ||
		(uint64_t)st.st_size > BOX_VMM_INIT_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_OS, ENOENT, "%s is no box-init", path);
	}
	parts->init_size = (size_t)st.st_size;
	parts->init = mmap(NULL, parts->init_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (parts->init == MAP_FAILED) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s: %s", path, box_err_strerror(errno));
	}
	return 0;
}

static int make_folder(struct parts *parts, struct box_err *err)
{
	(void)snprintf(parts->folder, sizeof(parts->folder), "/tmp/box-probe-XXXXXX");
	if (!mkdtemp(parts->folder)) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "no folder in /tmp: %s", box_err_strerror(errno));
	}
	(void)snprintf(parts->socket_path, sizeof(parts->socket_path), "%s/sock", parts->folder);
	return 0;
}

static void fill_boot(struct parts *parts)
{
	parts->boot.guest = (struct box_init_boot){
		.size = sizeof(parts->boot.guest),
		.same_uid = 1,
		.workspace_path = "/",
	};
	parts->boot.machine = (struct box_microvm_boot){
		.size = sizeof(parts->boot.machine),
		.memory_mib = MEMORY_MIB,
		.cpus = 1,
		.deadline_ms = DEADLINE_MS,
		.hostname = "probe",
	};
	parts->boot.order.realtime_ns = (uint64_t)box_clock_utc_us() * 1000;
}

/* --- the process that watches the machine --- */

static int open_signals(void)
{
	sigset_t set;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

_Noreturn static void watch(
	struct box_libkrun *krun, const struct parts *parts, int control, int report)
{
	static struct box_err err;
	int console[2];
	struct box_bridge bridge = {
		.control = control,
		.report = report,
		.socket_path = parts->socket_path,
		.mount_helper = -1,
		.clock = -1,
		.signals = open_signals(),
		.deadline_ms = DEADLINE_MS,
	};
	if (pipe2(console, O_CLOEXEC) < 0 || fcntl(console[0], F_SETFL, O_NONBLOCK) < 0 ||
		box_bridge_listen(parts->socket_path, &bridge.listener) < 0 ||
		prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0 || box_privileges_lock(true) < 0) {
		_exit(1);
	}
	const struct box_microvm_process machine = {
		.krun = krun,
		.guest =
			{
				.cpus = 1,
				.memory_mib = MEMORY_MIB,
				.init = parts->init,
				.init_size = parts->init_size,
				.boot = &parts->boot,
				.boot_size = sizeof(parts->boot),
				.socket_path = parts->socket_path,
				.net_fd = -1,
			},
		.console_fd = console[1],
		.same_uid = true,
		.landlock_abi = box_landlock_abi(),
	};
	bridge.console = console[0];
	if (box_microvm_process_start(&machine, &bridge.children[0], &err) < 0) {
		_exit(1);
	}
	(void)close(console[1]);
	(void)box_bridge_run(&bridge);
	_exit(0);
}

/* --- in the probe --- */

static int judge(const struct box_microvm_report *words, ssize_t got, struct box_err *err)
{
	if (got != (ssize_t)sizeof(*words)) {
		return box_err_set(err, BOX_ERR_BOX, ECHILD, "it could not be started");
	}
	switch (words->report.step) {
	case BOX_VMM_START:
		return box_err_set(err, BOX_ERR_BOX, ECHILD, "the machine ended before it spoke");
	case BOX_VMM_DEADLINE:
		return box_err_set(err, BOX_ERR_BOX, ETIMEDOUT, "it did not speak within %d s",
			DEADLINE_MS / 1000);
	case BOX_VMM_ANSWER:
		return box_err_set(err, BOX_ERR_BOX, EBADMSG, "what it said made no sense");
	default:
		return 0;
	}
}

static int try_it(struct box_libkrun *krun, const struct parts *parts,
	struct box_vmm_probe_boot *ret_boot, struct box_err *err)
{
	struct box_microvm_report words = {0};
	int control[2];
	int report[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
		pipe2(report, O_CLOEXEC) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s", box_err_strerror(errno));
	}
	/* What is left of the machine when its watcher ends becomes our child. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(control[0]);
		watch(krun, parts, control[1], report[1]);
	}
	(void)close(control[1]);
	(void)close(report[1]);
	uint64_t began_ms = box_clock_ms();
	ssize_t got = pid < 0 ? 0 : read(report[0], &words, sizeof(words));
	ret_boot->took_ms = (uint32_t)(box_clock_ms() - began_ms);
	words.text[sizeof(words.text) - 1] = '\0';
	memcpy(ret_boot->text, words.text, sizeof(words.text));
	(void)close(report[0]);
	(void)close(control[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
	}
	while (waitpid(-1, NULL, 0) > 0) {
	}
	return judge(&words, got, err);
}

int box_vmm_probe_boot(
	struct box_libkrun *krun, struct box_vmm_probe_boot *ret_boot, struct box_err *err)
{
	static struct parts parts;
	fill_boot(&parts);
	int r = map_init(&parts, err);
	r = r < 0 ? r : make_folder(&parts, err);
	if (r < 0) {
		return r;
	}
	r = try_it(krun, &parts, ret_boot, err);
	(void)unlink(parts.socket_path);
	(void)rmdir(parts.folder);
	(void)munmap(parts.init, parts.init_size);
	return r;
}
