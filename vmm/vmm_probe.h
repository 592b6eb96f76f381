/* Checks whether this host can run microVMs, and prints the result as lines of key=value. */
#pragma once

#include <stdbool.h>

/* The exit code: the first thing that is missing. Documented in docs/boxd.8. */
enum box_vmm_probe_end {
	BOX_VMM_PROBE_OK,
	BOX_VMM_PROBE_USAGE,
	BOX_VMM_PROBE_NO_LIBRARY,   /* libkrun is missing or cannot be loaded */
	BOX_VMM_PROBE_OLD_LIBRARY,  /* libkrun lacks a function */
	BOX_VMM_PROBE_NO_FIRMWARE,  /* libkrunfw is missing or cannot be used */
	BOX_VMM_PROBE_NO_KVM,       /* /dev/kvm is missing */
	BOX_VMM_PROBE_DENIED_KVM,   /* /dev/kvm cannot be opened */
	BOX_VMM_PROBE_BROKEN_KVM,   /* /dev/kvm does not work */
	BOX_VMM_PROBE_BOOT_FAILED,  /* a guest was started but did not boot */
	BOX_VMM_PROBE_BOOT_TIMEOUT, /* a guest did not boot in time */
};

/* Prints:
 *
 * libkrun=PATH           or empty; with libkrun_version=, if the file name contains it
 * libkrunfw=PATH         likewise, with libkrunfw_version=
 * library_error=TEXT     if one of them cannot be used
 * kvm=ok|missing|denied|broken, with kvm_error=TEXT
 * kvm_api=N
 * boot=ok|failed|timeout with boot_ms=N; with boot_error=TEXT and lines of boot_console=TEXT
 *
 * `boot`: if nothing else is missing, boots a guest and waits for its report.
 */
enum box_vmm_probe_end box_vmm_probe_run(bool boot);
