/* Whether this host can run microVMs: the facts, and the advice for a person. Called by microvm_probe.c
 * and by `box doctor`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_MICROVM_FACTS_WORD_MAX 256

struct box_microvm_facts {
	/* From box_microvm_facts_collect, which starts nothing. */
	bool known_processor; /* x86-64 or aarch64 */
	bool has_vmm;         /* box-vmm is there */
	int kvm_errnum;       /* errno of opening /dev/kvm; 0: allowed */
	mode_t kvm_mode;      /* of the device, if it exists */
	uid_t kvm_uid;
	gid_t kvm_gid;
	char kvm_group[64];   /* name or number of that group */
	bool kvm_in_kernel;   /* the kernel has the device, whether or not it is in /dev */
	bool kvm_module;      /* a KVM module is loaded or built in */
	bool has_cpu_flags;   /* /proc/cpuinfo lists flags */
	bool cpu_virtualises; /* vmx or svm */
	bool cpu_is_virtual;  /* we run in a virtual machine */
	bool in_container;
	/* From `box-vmm --probe=boot`. */
	bool probed;
	char libkrun[BOX_MICROVM_FACTS_WORD_MAX];         /* its path; "": not found */
	char libkrun_version[BOX_MICROVM_FACTS_WORD_MAX]; /* as it reports itself */
	char libkrun_error[BOX_MICROVM_FACTS_WORD_MAX];   /* why it cannot be used; "": it can */
	char libkrunfw[BOX_MICROVM_FACTS_WORD_MAX];
	char libkrunfw_error[BOX_MICROVM_FACTS_WORD_MAX];
	char kvm_error[BOX_MICROVM_FACTS_WORD_MAX]; /* why no virtual machine can be made */
	bool booted;                                /* a guest was up */
	uint32_t boot_ms;
	char boot_error[BOX_MICROVM_FACTS_WORD_MAX];
	char boot_console[BOX_MICROVM_FACTS_WORD_MAX]; /* its last line */
};

struct box_microvm_facts_verdict {
	bool works;
	char why[768]; /* the obstacle, or what was found */
	char fix[512]; /* what to do about the obstacle */
};

/* `vmm_path` is "" when box-vmm is missing. */
void box_microvm_facts_collect(const char *vmm_path, struct box_microvm_facts *ret_facts);

/* Parses the output of box-vmm: lines KEY=VALUE. Unknown keys are ignored. Pure. */
void box_microvm_facts_add_probe(const char *text, size_t len, struct box_microvm_facts *facts);

/* Whether it is worth starting the probe. Pure. */
bool box_microvm_facts_may_work(const struct box_microvm_facts *facts);
/* Pure. Without a probe the verdict is never that microVMs work. */
void box_microvm_facts_judge(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *ret_verdict);

/* The time limit for the start of a guest, depending on how long the first guest took. Pure. */
uint32_t box_microvm_facts_start_ms(const struct box_microvm_facts *facts);
