/* From facts to words that a person can act on. The first thing in the way is told: what is behind it
 * cannot be seen yet. */
#include "boxd/microvm/microvm_facts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"

#define SLOW_MS 2000 /* a first guest that took longer: this KVM is emulated, or the host is */

#define CONTAINER_CURE                                                                       \
	"give the container the device: docker run --device /dev/kvm; Kubernetes: a device " \
	"plugin for KVM, or a privileged pod that mounts it"

static void say(struct box_microvm_facts_verdict *verdict, const char *cure, const char *format,
	...) __attribute__((format(printf, 3, 4)));

static void say(
	struct box_microvm_facts_verdict *verdict, const char *cure, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(verdict->why, sizeof(verdict->why), format, arguments);
	va_end(arguments);
	(void)snprintf(verdict->cure, sizeof(verdict->cure), "%s", cure);
}

/* --- /dev/kvm is not there --- */

static void say_no_device(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *verdict)
{
	if (facts->kvm_in_kernel && facts->in_container) {
		say(verdict, CONTAINER_CURE,
			"/dev/kvm is not in this container, though the kernel has KVM");
	} else if (facts->kvm_in_kernel) {
		say(verdict, "udevadm trigger /dev/kvm, or mknod /dev/kvm c 10 232",
			"/dev/kvm is missing, though the kernel has KVM");
	} else if (facts->has_cpu_flags && !facts->cpu_virtualises && facts->cpu_is_virtual) {
		say(verdict,
			"turn nesting on at the host of this machine (kvm_intel or kvm_amd with "
			"nested=1 and the processor passed through; at a cloud: an instance that "
			"allows nested virtualisation)",
			"/dev/kvm is missing: this is itself a virtual machine, and it has no "
			"nested virtualisation");
	} else if (facts->has_cpu_flags && !facts->cpu_virtualises) {
		say(verdict, "turn on VT-x or AMD-V (SVM) in the BIOS or UEFI set-up",
			"/dev/kvm is missing: virtualisation is turned off in the firmware, or the "
			"processor has none");
	} else if (facts->in_container) {
		say(verdict,
			"modprobe kvm_intel or kvm_amd at the container's host; then " CONTAINER_CURE,
			"/dev/kvm is missing: the kernel of this container's host has no KVM loaded");
	} else if (!facts->kvm_module) {
		say(verdict,
			"modprobe kvm_intel or kvm_amd (a kernel without them needs CONFIG_KVM)",
			"/dev/kvm is missing: no module of KVM is loaded");
	} else {
		say(verdict, "dmesg | grep -i kvm says why; often it is the BIOS or UEFI set-up",
			"/dev/kvm is missing: KVM is loaded, but found no virtualisation it can use");
	}
}

/* --- it is there --- */

static void say_not_allowed(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *verdict)
{
	char cure[512];
	if (facts->kvm_errnum == EPERM) {
		say(verdict, CONTAINER_CURE,
			"/dev/kvm is there, but a cgroup or a security module forbids it");
		return;
	}
	(void)snprintf(cure, sizeof(cure),
		"usermod -aG %s USER for the user that runs boxd, log in anew and start boxd again",
		facts->kvm_group);
	if ((facts->kvm_mode & 0060) != 0060) {
		(void)snprintf(cure, sizeof(cure),
			"chgrp kvm /dev/kvm && chmod 0660 /dev/kvm, then usermod -aG kvm USER for "
			"the user that runs boxd");
	}
	say(verdict, cure,
		"/dev/kvm is there, but not for this user: it is for group %s (mode %04o)",
		facts->kvm_group, (unsigned)facts->kvm_mode & 07777);
}

static void say_device(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *verdict)
{
	switch (facts->kvm_errnum) {
	case ENOENT:
		say_no_device(facts, verdict);
		return;
	case EACCES:
	case EPERM:
		say_not_allowed(facts, verdict);
		return;
	case ENODEV:
	case ENXIO:
		say(verdict, "modprobe kvm_intel or kvm_amd; dmesg | grep -i kvm says why it fails",
			"/dev/kvm is there, but no driver is behind it");
		return;
	default:
		say(verdict, "dmesg | grep -i kvm may say why", "/dev/kvm cannot be opened: %s",
			box_err_strerror(facts->kvm_errnum));
	}
}

static void say_probe(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *verdict)
{
	if (!facts->probed) {
		say(verdict, "boxd's log says why", "box-vmm could not be asked whether it works");
	} else if (facts->libkrun_error[0]) {
		say(verdict,
			"install libkrun (Fedora, Arch, openSUSE have a package), or make libkrun in "
			"Box's sources",
			"libkrun: %s", facts->libkrun_error);
	} else if (facts->libkrunfw_error[0]) {
		say(verdict,
			"install libkrunfw, the kernel of guests, beside libkrun, or make libkrun in "
			"Box's sources",
			"libkrunfw: %s", facts->libkrunfw_error);
	} else if (facts->kvm_error[0]) {
		say(verdict, "dmesg | grep -i kvm may say why",
			"/dev/kvm opens, but no virtual machine can be made: %s", facts->kvm_error);
	} else {
		say(verdict,
			"dmesg | grep -i kvm may say why; in a virtual machine its host's KVM may be "
			"unable to nest (box doctor tries again)",
			"this KVM cannot run a guest: %s%s%s",
			facts->boot_error[0] ? facts->boot_error
					     : "box-vmm ended before it could tell why",
			facts->boot_console[0] ? "; its last words: " : "", facts->boot_console);
	}
}

bool box_microvm_facts_may_work(const struct box_microvm_facts *facts)
{
	return facts->known_processor && facts->has_vmm && facts->kvm_errnum == 0;
}

void box_microvm_facts_judge(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *ret_verdict)
{
	*ret_verdict = (struct box_microvm_facts_verdict){0};
	if (!facts->known_processor) {
		say(ret_verdict, "set box.backend to \"native\"",
			"microVMs need an x86-64 or aarch64 processor");
	} else if (!facts->has_vmm) {
		say(ret_verdict, "install all of Box's programs, or keep box-vmm beside boxd",
			"box-vmm is neither beside boxd nor installed");
	} else if (facts->kvm_errnum != 0) {
		say_device(facts, ret_verdict);
	} else if (!facts->probed || facts->libkrun_error[0] || facts->libkrunfw_error[0] ||
		facts->kvm_error[0] || !facts->booted) {
		say_probe(facts, ret_verdict);
	} else {
		say(ret_verdict, "", "a guest was up after %u ms (%s%s%s, %s)", facts->boot_ms,
			facts->libkrun, facts->libkrun_version[0] ? " " : "",
			facts->libkrun_version, facts->libkrunfw);
		ret_verdict->works = true;
	}
}

uint32_t box_microvm_facts_start_ms(const struct box_microvm_facts *facts)
{
	return facts->boot_ms > SLOW_MS ? BOX_MICROVM_START_SLOW_MS : BOX_MICROVM_START_MS;
}

/* --- the probe's words --- */

/* Printable ASCII, cut: it goes into errors and logs. */
static void copy_word(char to[BOX_MICROVM_FACTS_WORD_MAX], const char *value, size_t len)
{
	len = len < BOX_MICROVM_FACTS_WORD_MAX - 1 ? len : BOX_MICROVM_FACTS_WORD_MAX - 1;
	for (size_t i = 0; i < len; i++) {
		to[i] = value[i] >= ' ' && value[i] < 0x7f ? value[i] : '?';
	}
	to[len] = '\0';
}

/* What a line says about `key`, or NULL. */
static const char *value_of(const char *line, size_t len, const char *key, size_t *ret_len)
{
	size_t key_len = strlen(key);
	if (len <= key_len || line[key_len] != '=' || memcmp(line, key, key_len) != 0) {
		return NULL;
	}
	*ret_len = len - key_len - 1;
	return line + key_len + 1;
}

static void take_line(
	const char *line, size_t len, struct box_microvm_facts *facts, char *library, char *boot)
{
	char number[BOX_MICROVM_FACTS_WORD_MAX] = "";
	const struct {
		const char *key;
		char *word;
	} words[] = {
		{"libkrun", facts->libkrun},
		{"libkrun_version", facts->libkrun_version},
		{"libkrunfw", facts->libkrunfw},
		{"library_error", library},
		{"kvm_error", facts->kvm_error},
		{"boot", boot},
		{"boot_ms", number},
		{"boot_error", facts->boot_error},
		{"boot_console", facts->boot_console},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(words); i++) {
		size_t value_len = 0;
		const char *value = value_of(line, len, words[i].key, &value_len);
		if (value) {
			copy_word(words[i].word, value, value_len);
		}
	}
	facts->boot_ms = number[0] ? (uint32_t)strtoul(number, NULL, 10) : facts->boot_ms;
}

void box_microvm_facts_add_probe(const char *text, size_t len, struct box_microvm_facts *facts)
{
	char library[BOX_MICROVM_FACTS_WORD_MAX] = "";
	char boot[BOX_MICROVM_FACTS_WORD_MAX] = "";
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t line_len = end ? (size_t)(end - text) : len;
		take_line(text, line_len, facts, library, boot);
		size_t used = line_len + (end != NULL);
		text += used;
		len -= used;
	}
	/* It loads the kernel of guests first, and names what it could not load. */
	bool firmware = strstr(library, "libkrunfw") != NULL;
	memcpy(firmware ? facts->libkrunfw_error : facts->libkrun_error, library, sizeof(library));
	facts->probed = true;
	facts->booted = strcmp(boot, "ok") == 0;
}
