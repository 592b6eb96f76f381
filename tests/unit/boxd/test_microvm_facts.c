/* Whether microVMs are possible, from facts about the host: each case with the text for people. */
#include <errno.h>

#include "base/limits.h"
#include "boxd/microvm/microvm_facts.h"
#include "tests/unit/lib/test.h"

#define HERE .known_processor = true, .has_vmm = true
#define DEVICE HERE, .kvm_errnum = 0
#define PROBED DEVICE, .probed = true

static const struct {
	struct box_microvm_facts facts;
	const char *why;  /* begins so */
	const char *cure; /* has this in it */
} rows[] = {
	{{.has_vmm = true}, "microVMs need an x86-64 or aarch64 processor", "native"},
	{{.known_processor = true}, "box-vmm is neither beside boxd nor installed",
		"box-vmm beside boxd"},
	/* no /dev/kvm */
	{{HERE, .kvm_errnum = ENOENT, .kvm_in_kernel = true, .in_container = true},
		"/dev/kvm is not in this container, though the kernel has KVM",
		"docker run --device /dev/kvm"},
	{{HERE, .kvm_errnum = ENOENT, .kvm_in_kernel = true},
		"/dev/kvm is missing, though the kernel has KVM", "mknod /dev/kvm c 10 232"},
	{{HERE, .kvm_errnum = ENOENT, .has_cpu_flags = true, .cpu_is_virtual = true},
		"/dev/kvm is missing: this is itself a virtual machine, and it has no nested",
		"nested=1"},
	{{HERE, .kvm_errnum = ENOENT, .has_cpu_flags = true},
		"/dev/kvm is missing: virtualisation is turned off in the firmware", "BIOS"},
	{{HERE, .kvm_errnum = ENOENT, .has_cpu_flags = true, .cpu_virtualises = true,
		 .in_container = true},
		"/dev/kvm is missing: the kernel of this container's host has no KVM loaded",
		"at the container's host"},
	{{HERE, .kvm_errnum = ENOENT, .has_cpu_flags = true, .cpu_virtualises = true},
		"/dev/kvm is missing: no module of KVM is loaded", "modprobe kvm_intel"},
	{{HERE, .kvm_errnum = ENOENT}, "/dev/kvm is missing: no module of KVM is loaded",
		"CONFIG_KVM"},
	{{HERE, .kvm_errnum = ENOENT, .has_cpu_flags = true, .cpu_virtualises = true,
		 .kvm_module = true},
		"/dev/kvm is missing: KVM is loaded, but found no virtualisation", "dmesg"},
	/* no permission */
	{{HERE, .kvm_errnum = EACCES, .kvm_group = "kvm", .kvm_mode = 020660},
		"/dev/kvm is there, but not for this user: it is for group kvm (mode 0660)",
		"usermod -aG kvm USER"},
	{{HERE, .kvm_errnum = EACCES, .kvm_group = "0", .kvm_mode = 020600},
		"/dev/kvm is there, but not for this user: it is for group 0 (mode 0600)",
		"chgrp kvm /dev/kvm"},
	{{HERE, .kvm_errnum = EPERM},
		"/dev/kvm is there, but a cgroup or a security module forbids it",
		"docker run --device /dev/kvm"},
	{{HERE, .kvm_errnum = ENXIO}, "/dev/kvm is there, but no driver is behind it", "modprobe"},
	{{HERE, .kvm_errnum = ENODEV}, "/dev/kvm is there, but no driver is behind it", "modprobe"},
	{{HERE, .kvm_errnum = EBUSY}, "/dev/kvm cannot be opened: Device or resource busy",
		"dmesg"},
	/* what box-vmm says */
	{{DEVICE}, "box-vmm --probe could not be run", "log"},
	{{PROBED, .libkrun_error = "no libkrun.so.1"}, "libkrun: no libkrun.so.1", "make libkrun"},
	{{PROBED, .libkrun_error = "it has no krun_x: too old"}, "libkrun: it has no krun_x",
		"install libkrun"},
	{{PROBED, .libkrunfw_error = "no libkrunfw.so.5"}, "libkrunfw: no libkrunfw.so.5",
		"install libkrunfw"},
	{{PROBED, .kvm_error = "Out of memory"},
		"/dev/kvm opens, but no virtual machine can be made: Out of memory", "dmesg"},
	{{PROBED, .boot_error = "the guest did not report within 60 s"},
		"this KVM cannot run a guest: the guest did not report within 60 s", "box doctor"},
	{{PROBED, .boot_error = "it ended", .boot_console = "panic"},
		"this KVM cannot run a guest: it ended; its last output: panic", "nest"},
	{{PROBED}, "this KVM cannot run a guest: box-vmm ended before it could tell why", "dmesg"},
};

TEST(each_case_has_its_words)
{
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_microvm_facts_verdict verdict;
		box_microvm_facts_judge(&rows[i].facts, &verdict);
		ASSERT(!verdict.works);
		if (strncmp(verdict.why, rows[i].why, strlen(rows[i].why)) != 0 ||
			!strstr(verdict.fix, rows[i].cure)) {
			TEST_FAIL("case %zu: \"%s\", cure \"%s\"", i, verdict.why, verdict.fix);
		}
		/* Both fit into the error that a client reads. */
		ASSERT(strlen(verdict.why) + strlen(verdict.fix) < 470);
		ASSERT_INT(box_microvm_facts_may_work(&rows[i].facts),
			rows[i].facts.known_processor && rows[i].facts.has_vmm &&
				rows[i].facts.kvm_errnum == 0);
	}
}

TEST(it_works)
{
	const struct box_microvm_facts facts = {PROBED, .booted = true, .boot_ms = 120,
		.libkrun = "/lib/libkrun.so.1", .libkrun_version = "1.19.7",
		.libkrunfw = "/lib/libkrunfw.so.5"};
	struct box_microvm_facts_verdict verdict;
	box_microvm_facts_judge(&facts, &verdict);
	ASSERT(verdict.works);
	ASSERT_STR(verdict.why,
		"a guest was up after 120 ms (/lib/libkrun.so.1 1.19.7, /lib/libkrunfw.so.5)");
	ASSERT_STR(verdict.fix, "");
}

TEST(slow_hosts_get_more_time)
{
	ASSERT_INT(box_microvm_facts_start_ms(&(struct box_microvm_facts){.boot_ms = 2000}), 10000);
	ASSERT_INT(box_microvm_facts_start_ms(&(struct box_microvm_facts){.boot_ms = 2001}), 60000);
}

static struct box_microvm_facts probe(const char *text)
{
	struct box_microvm_facts facts = {DEVICE};
	box_microvm_facts_add_probe(text, strlen(text), &facts);
	ASSERT(facts.probed);
	return facts;
}

TEST(what_box_vmm_prints)
{
	struct box_microvm_facts facts = probe(
		"libkrun=/usr/lib/libkrun.so.1\nlibkrun_version=1.19.7\n"
		"libkrunfw=/usr/lib/libkrunfw.so.5\nkvm_api=12\nkvm=ok\nboot=ok\nboot_ms=321\n");
	ASSERT_STR(facts.libkrun, "/usr/lib/libkrun.so.1");
	ASSERT_STR(facts.libkrun_version, "1.19.7");
	ASSERT(facts.booted);
	ASSERT_INT(facts.boot_ms, 321);
	facts = probe("libkrun=\nlibrary_error=no libkrun.so.1: not found\n");
	ASSERT_STR(facts.libkrun_error, "no libkrun.so.1: not found");
	ASSERT(!facts.booted);
	facts = probe("library_error=no libkrunfw.so.5: not found");
	ASSERT_STR(facts.libkrun_error, "");
	ASSERT_STR(facts.libkrunfw_error, "no libkrunfw.so.5: not found");
	facts = probe(
		"boot=timeout\nboot_ms=60000\nboot_error=late\nboot_console=a\nboot_console=b\n");
	ASSERT(!facts.booted);
	ASSERT_STR(facts.boot_error, "late");
	ASSERT_STR(facts.boot_console, "b");
}

TEST(nonsense_is_passed_over)
{
	char text[4096];
	memset(text, 'x', sizeof(text));
	/* NOLINTNEXTLINE(bugprone-not-null-terminated-result): it goes on behind it */
	memcpy(text, "boot_error=", 11);
	text[20] = '\x1b';
	struct box_microvm_facts facts = {DEVICE};
	box_microvm_facts_add_probe(text, sizeof(text), &facts);
	ASSERT_INT(strlen(facts.boot_error), BOX_MICROVM_FACTS_WORD_MAX - 1);
	ASSERT(strchr(facts.boot_error, '?') != NULL);
	facts = probe("");
	ASSERT(!facts.booted);
	facts = probe("=\n\nboot\nboot=okay\nboo=ok\nboot_ms=-\n=ok");
	ASSERT(!facts.booted);
	ASSERT_STR(facts.boot_error, "");
}

TEST(of_this_host)
{
	struct box_microvm_facts facts;
	box_microvm_facts_collect("", &facts);
	ASSERT(!facts.has_vmm);
#if defined(__x86_64__) || defined(__aarch64__)
	ASSERT(facts.known_processor);
#endif
	ASSERT(!box_microvm_facts_may_work(&facts));
}
