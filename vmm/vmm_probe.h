/* What this host has for microVMs, in lines of key=value on stdout. */
#pragma once

#include <stdbool.h>

/* The exit code: the first thing that is missing. docs/boxd.8 has them too. */
enum box_vmm_probe_end {
	BOX_VMM_PROBE_OK,
	BOX_VMM_PROBE_USAGE,
	BOX_VMM_PROBE_NO_LIBRARY,   /* libkrun is not there, or cannot be loaded */
	BOX_VMM_PROBE_OLD_LIBRARY,  /* it lacks a call */
	BOX_VMM_PROBE_NO_FIRMWARE,  /* the same of libkrunfw */
	BOX_VMM_PROBE_NO_KVM,       /* there is no /dev/kvm */
	BOX_VMM_PROBE_DENIED_KVM,   /* it may not be opened */
	BOX_VMM_PROBE_BROKEN_KVM,   /* it answers, but not as it should */
	BOX_VMM_PROBE_BOOT_FAILED,  /* a guest was started and came to nothing */
	BOX_VMM_PROBE_BOOT_TIMEOUT, /* or did not come up in time */
};

/*
 * libkrun=PATH           or empty; with libkrun_version=, if the file's name tells it
 * libkrunfw=PATH         likewise, with libkrunfw_version=
 * library_error=TEXT     if one of them cannot be used
 * kvm=ok|missing|denied|broken, with kvm_error=TEXT
 * kvm_api=N
 * boot=ok|failed|timeout with boot_ms=N; with boot_error=TEXT and lines of boot_console=TEXT
 *
 * `boot`: starts a guest of its own and waits until it speaks; not without the other things.
 */
enum box_vmm_probe_end box_vmm_probe_run(bool boot);
