/* Whether this host can run microVMs: what is looked at, and what is to be said about it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BOX_MICROVM_FACTS_WORD_MAX 256

struct box_microvm_facts {
	/* Seen by box_microvm_facts_collect, which starts nothing. */
	bool known_processor; /* x86-64 or aarch64 */
	bool has_vmm;         /* box-vmm is there */
	int kvm_errnum;       /* of opening /dev/kvm, 0: it is open to us */
	mode_t kvm_mode;      /* of the device, when it is there */
	uid_t kvm_uid;
	gid_t kvm_gid;
	char kvm_group[64];   /* its name, or its number */
	bool kvm_in_kernel;   /* the kernel has the device, whether it is in /dev or not */
	bool kvm_module;      /* a module of KVM is loaded, or built in */
	bool has_cpu_flags;   /* the processor tells what it can */
	bool cpu_virtualises; /* vmx or svm */
	bool cpu_is_virtual;  /* we run in a virtual machine */
	bool in_container;
	/* Told by `box-vmm --probe=boot`. */
	bool probed;
	char libkrun[BOX_MICROVM_FACTS_WORD_MAX];         /* its path, "": none */
	char libkrun_version[BOX_MICROVM_FACTS_WORD_MAX]; /* as it tells it */
	char libkrun_error[BOX_MICROVM_FACTS_WORD_MAX];   /* why it cannot be used, "": it can */
	char libkrunfw[BOX_MICROVM_FACTS_WORD_MAX];
	char libkrunfw_error[BOX_MICROVM_FACTS_WORD_MAX];
	char kvm_error[BOX_MICROVM_FACTS_WORD_MAX]; /* why no virtual machine can be made */
	bool booted;                                /* a guest was there */
	uint32_t boot_ms;
	char boot_error[BOX_MICROVM_FACTS_WORD_MAX];
	char boot_console[BOX_MICROVM_FACTS_WORD_MAX]; /* its last line */
};

struct box_microvm_facts_verdict {
	bool works;
	char why[768]; /* what is in the way; or what there is */
	char cure[512];
};

/* `vmm_path` is "" where there is no box-vmm. */
void box_microvm_facts_collect(const char *vmm_path, struct box_microvm_facts *ret_facts);

/* What box-vmm has printed: lines KEY=VALUE. What it does not know is passed over. Pure. */
void box_microvm_facts_add_probe(const char *text, size_t len, struct box_microvm_facts *facts);

/* Whether it is worth to start the probe. Pure. */
bool box_microvm_facts_may_work(const struct box_microvm_facts *facts);
/* Pure. Facts that were not probed are never found to work. */
void box_microvm_facts_judge(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *ret_verdict);

/* How long the start of a guest may take here, by how long the first one took. Pure. */
uint32_t box_microvm_facts_start_ms(const struct box_microvm_facts *facts);
