/* Looks, and says what it sees; decides nothing. */
#include "vmm/vmm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/kvm.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "vmm/libkrun.h"
#include "vmm/libkrun_folders.h"
#include "vmm/vmm_probe_boot.h"

static void say_file(const char *name, const struct box_libkrun_file *file)
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
	say_file("libkrun", &files[0]);
	say_file("libkrunfw", &files[1]);
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

/* Its console's lines, each with the key in front. */
static void say_lines(char *text)
{
	char *rest = NULL;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		printf("boot_console=%s\n", line);
	}
}

static enum box_vmm_probe_end try_boot(struct box_libkrun *krun)
{
	static struct box_vmm_probe_boot boot;
	static struct box_err err;
	int r = box_vmm_probe_boot(krun, &boot, &err);
	printf("boot=%s\n", r == 0 ? "ok" : r == -ETIMEDOUT ? "timeout" : "failed");
	printf("boot_ms=%u\n", boot.took_ms);
	if (r < 0) {
		printf("boot_error=%s\n", err.text);
		say_lines(boot.text);
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
