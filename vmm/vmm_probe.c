/* Owns `box-vmm --probe`: looks for libkrun, libkrunfw and KVM, may boot a guest, and prints the result. The guest
 * has no root steps, 128 MiB, no share and no network, but the same process and seccomp filter as that of a box.
 * Called by main.c; decides nothing. */
#include "vmm/vmm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/landlock.h"
#include "protocol/microvm.h"
#include "vmm/bridge/bridge.h"
#include "vmm/libkrun.h"
#include "vmm/microvm_process.h"
#include "vmm/privileges.h"

#define MEMORY_MIB 128
#define DEADLINE_MS 60000 /* nested KVMs take tens of seconds */

static void print_file(const char *name, const struct box_libkrun_file *file)
{
	printf("%s=%s\n", name, file->path);
	if (file->version[0] != '\0') {
		printf("%s_version=%s\n", name, file->version);
	}
}

static enum box_vmm_probe_end look_for_library(struct box_libkrun **ret_krun)
{
	static struct box_libkrun_folders folders;
	static struct box_libkrun_file files[2];
	static struct box_err err;
	box_libkrun_find_folders(&folders);
	int r = box_libkrun_open(folders.list, ret_krun, files, &err);
	print_file("libkrun", &files[0]);
	print_file("libkrunfw", &files[1]);
	if (r == 0) {
		return BOX_VMM_PROBE_OK;
	}
	printf("library_error=%s\n", err.text);
	if (strstr(err.text, BOX_LIBKRUN_FIRMWARE)) {
		return BOX_VMM_PROBE_NO_FIRMWARE;
	}
	return r == -ENOTSUP ? BOX_VMM_PROBE_OLD_LIBRARY : BOX_VMM_PROBE_NO_LIBRARY;
}

static enum box_vmm_probe_end say_kvm(const char *what, int errnum, enum box_vmm_probe_end end)
{
	printf("kvm=%s\n", what);
	if (errnum != 0) {
		printf("kvm_error=%s\n", box_err_strerror(errnum));
	}
	return end;
}

static enum box_vmm_probe_end look_at_kvm(void)
{
	_cleanup_(box_close_p) int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0 && (errno == ENOENT || errno == ENXIO || errno == ENODEV)) {
		return say_kvm("missing", errno, BOX_VMM_PROBE_NO_KVM);
	}
	if (kvm < 0) {
		return say_kvm("denied", errno, BOX_VMM_PROBE_DENIED_KVM);
	}
	int api = ioctl(kvm, KVM_GET_API_VERSION, 0);
	if (api != KVM_API_VERSION) {
		return say_kvm("broken", api < 0 ? errno : EPROTO, BOX_VMM_PROBE_BROKEN_KVM);
	}
	printf("kvm_api=%d\n", api);
	_cleanup_(box_close_p) int machine = ioctl(kvm, KVM_CREATE_VM, 0);
	if (machine < 0) {
		return say_kvm("broken", errno, BOX_VMM_PROBE_BROKEN_KVM);
	}
	return say_kvm("ok", 0, BOX_VMM_PROBE_OK);
}

/* --- booting a guest --- */

/* The result of a boot. */
struct boot_result {
	uint32_t took_ms;
	char text[BOX_MICROVM_TEXT_MAX]; /* of the guest's console, if it failed */
};

/* What the test guest is started with. */
struct parts {
	char folder[64]; /* for the socket */
	char socket_path[80];
	void *init; /* box-init, mapped */
	size_t init_size;
	struct {
		struct box_init_boot guest;
		struct box_microvm_boot microvm;
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
		return box_err_set(err, BOX_ERR_OS, ENOENT, "%s is not a box-init", path);
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
	parts->boot.microvm = (struct box_microvm_boot){
		.size = sizeof(parts->boot.microvm),
		.memory_mib = MEMORY_MIB,
		.cpus = 1,
		.deadline_ms = DEADLINE_MS,
		.hostname = "probe",
	};
	parts->boot.order.realtime_ns = (uint64_t)box_clock_utc_us() * 1000;
}

/* --- the process that watches the microVM --- */

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
	const struct box_microvm_process microvm = {
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
	if (box_microvm_process_start(&microvm, &bridge.children[0], &err) < 0) {
		_exit(1);
	}
	(void)close(console[1]);
	(void)box_bridge_run(&bridge);
	_exit(0);
}

/* --- in the probe --- */

static int check_report(const struct box_microvm_report *report, ssize_t got, struct box_err *err)
{
	if (got != (ssize_t)sizeof(*report)) {
		return box_err_set(err, BOX_ERR_BOX, ECHILD, "the guest could not be started");
	}
	switch (report->report.step) {
	case BOX_VMM_START:
		return box_err_set(
			err, BOX_ERR_BOX, ECHILD, "the microVM ended before the guest reported");
	case BOX_VMM_DEADLINE:
		return box_err_set(err, BOX_ERR_BOX, ETIMEDOUT,
			"the guest did not report within %d s", DEADLINE_MS / 1000);
	case BOX_VMM_ANSWER:
		return box_err_set(err, BOX_ERR_BOX, EBADMSG, "the guest sent an invalid report");
	default:
		return 0;
	}
}

static int run_guest(struct box_libkrun *krun, const struct parts *parts,
	struct boot_result *ret_boot, struct box_err *err)
{
	struct box_microvm_report report = {0};
	int control[2];
	int report_pipe[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) < 0 ||
		pipe2(report_pipe, O_CLOEXEC) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s", box_err_strerror(errno));
	}
	/* Processes of the microVM that outlive its watcher become our children. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1L, 0L, 0L, 0L);
	pid_t pid = fork();
	if (pid == 0) {
		(void)close(control[0]);
		watch(krun, parts, control[1], report_pipe[1]);
	}
	(void)close(control[1]);
	(void)close(report_pipe[1]);
	uint64_t began_ms = box_clock_ms();
	ssize_t got = pid < 0 ? 0 : read(report_pipe[0], &report, sizeof(report));
	ret_boot->took_ms = (uint32_t)(box_clock_ms() - began_ms);
	report.text[sizeof(report.text) - 1] = '\0';
	memcpy(ret_boot->text, report.text, sizeof(report.text));
	(void)close(report_pipe[0]);
	(void)close(control[0]);
	if (pid > 0) {
		(void)kill(pid, SIGKILL);
	}
	while (waitpid(-1, NULL, 0) > 0) {
	}
	return check_report(&report, got, err);
}

/* 0 if box-init in the guest has reported; its report is a failure, because it has nothing to boot. -ETIMEDOUT, or
 * another -errno, with err. Leaves nothing behind. */
static int boot_guest(struct box_libkrun *krun, struct boot_result *ret_boot, struct box_err *err)
{
	static struct parts parts;
	fill_boot(&parts);
	int r = map_init(&parts, err);
	if (r < 0) {
		return r;
	}
	r = make_folder(&parts, err);
	if (r < 0) {
		return r;
	}
	r = run_guest(krun, &parts, ret_boot, err);
	(void)unlink(parts.socket_path);
	(void)rmdir(parts.folder);
	(void)munmap(parts.init, parts.init_size);
	return r;
}

/* The lines of its console, each with the key in front. */
static void print_lines(char *text)
{
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		printf("boot_console=%s\n", line);
	}
}

static enum box_vmm_probe_end try_boot(struct box_libkrun *krun)
{
	static struct boot_result boot;
	static struct box_err err;
	int r = boot_guest(krun, &boot, &err);
	printf("boot=%s\n", r == 0 ? "ok" : r == -ETIMEDOUT ? "timeout" : "failed");
	printf("boot_ms=%u\n", boot.took_ms);
	if (r < 0) {
		printf("boot_error=%s\n", err.text);
		print_lines(boot.text);
	}
	return r == 0             ? BOX_VMM_PROBE_OK
		: r == -ETIMEDOUT ? BOX_VMM_PROBE_BOOT_TIMEOUT
				  : BOX_VMM_PROBE_BOOT_FAILED;
}

enum box_vmm_probe_end box_vmm_probe_run(bool boot)
{
	struct box_libkrun *krun = NULL;
	enum box_vmm_probe_end end = look_for_library(&krun);
	enum box_vmm_probe_end kvm = look_at_kvm();
	end = end == BOX_VMM_PROBE_OK ? kvm : end;
	if (end == BOX_VMM_PROBE_OK && boot) {
		(void)fflush(stdout);
		end = try_boot(krun);
	}
	box_libkrun_close(krun);
	return end;
}
