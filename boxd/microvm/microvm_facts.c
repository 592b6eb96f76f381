/* Examines this host for what microVMs need, which opens files and starts nothing; then turns the facts
 * into advice for a person. Only the first obstacle is reported, since it hides any others. */
#include "boxd/microvm/microvm_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"

#define TEXT_MAX 65536
#define SLOW_MS 2000 /* if the first guest takes longer, KVM is emulated */

#define CONTAINER_FIX                                                                        \
	"give the container the device: docker run --device /dev/kvm; Kubernetes: a device " \
	"plugin for KVM, or a privileged pod that mounts it"

/* --- the facts --- */

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

static size_t read_text(const char *path, char text[TEXT_MAX])
{
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got = fd < 0 ? 0 : 1;
	while (got > 0 && len < TEXT_MAX - 1) {
		got = read(fd, text + len, TEXT_MAX - 1 - len);
		len += got > 0 ? (size_t)got : 0;
	}
	text[len] = '\0';
	return len;
}

/* In the flags of the first processor, as a whole word. */
static bool has_flag(const char *flags, const char *flag)
{
	size_t len = strlen(flag);
	const char *end = strchrnul(flags, '\n');
	for (const char *at = strstr(flags, flag); at && at < end; at = strstr(at + len, flag)) {
		if (at > flags && at[-1] == ' ' && (at[len] == ' ' || at[len] == '\n')) {
			return true;
		}
	}
	return false;
}

static void collect_processor(struct box_microvm_facts *facts, char *text)
{
#if defined(__x86_64__) || defined(__aarch64__)
	facts->known_processor = true;
#endif
	if (read_text("/proc/cpuinfo", text) == 0) {
		return;
	}
	const char *flags = strstr(text, "\nflags\t");
	if (!flags) {
		return; /* aarch64 has no such line */
	}
	flags++;
	facts->has_cpu_flags = true;
	facts->cpu_virtualises = has_flag(flags, "vmx") || has_flag(flags, "svm");
	facts->cpu_is_virtual = has_flag(flags, "hypervisor");
}

static void collect_device(struct box_microvm_facts *facts)
{
	struct stat status;
	_cleanup_(box_close_p) int fd = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	facts->kvm_errnum = fd < 0 ? errno : 0;
	if (stat("/dev/kvm", &status) < 0) {
		return;
	}
	if (!S_ISCHR(status.st_mode)) {
		facts->kvm_errnum = ENODEV;
	}
	facts->kvm_mode = status.st_mode;
	facts->kvm_uid = status.st_uid;
	facts->kvm_gid = status.st_gid;
	const struct group *group = facts->kvm_errnum == EACCES ? getgrgid(status.st_gid) : NULL;
	(void)snprintf(facts->kvm_group, sizeof(facts->kvm_group), "%u", (unsigned)status.st_gid);
	if (group) {
		(void)snprintf(facts->kvm_group, sizeof(facts->kvm_group), "%s", group->gr_name);
	}
}

/* A guess; only the wording depends on it. */
static bool is_container(char *text)
{
	return is_there("/.dockerenv") || is_there("/run/.containerenv") ||
		is_there("/run/systemd/container") ||
		(read_text("/proc/1/environ", text) > 0 &&
			memmem(text, TEXT_MAX, "container=", strlen("container=")) != NULL) ||
		is_there("/var/run/secrets/kubernetes.io");
}

void box_microvm_facts_collect(const char *vmm_path, struct box_microvm_facts *ret_facts)
{
	static char text[TEXT_MAX];
	struct box_microvm_facts *facts = ret_facts;
	*facts = (struct box_microvm_facts){.has_vmm = vmm_path[0] != '\0'};
	collect_processor(facts, text);
	collect_device(facts);
	if (facts->kvm_errnum == 0) {
		return;
	}
	facts->kvm_in_kernel = is_there("/sys/class/misc/kvm") ||
		(read_text("/proc/misc", text) > 0 && strstr(text, " kvm\n") != NULL);
	facts->kvm_module = is_there("/sys/module/kvm");
	memset(text, 0, sizeof(text));
	facts->in_container = is_container(text);
}

/* --- the verdict: /dev/kvm is missing --- */

static void say(struct box_microvm_facts_verdict *verdict, const char *fix, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(struct box_microvm_facts_verdict *verdict, const char *fix, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	(void)vsnprintf(verdict->why, sizeof(verdict->why), format, arguments);
	va_end(arguments);
	(void)snprintf(verdict->fix, sizeof(verdict->fix), "%s", fix);
}

static void say_no_device(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *verdict)
{
	if (facts->kvm_in_kernel && facts->in_container) {
		say(verdict, CONTAINER_FIX,
			"/dev/kvm is not in this container, though the kernel has KVM");
	} else if (facts->kvm_in_kernel) {
		say(verdict, "udevadm trigger /dev/kvm, or mknod /dev/kvm c 10 232",
			"/dev/kvm is missing, though the kernel has KVM");
	} else if (facts->has_cpu_flags && !facts->cpu_virtualises && facts->cpu_is_virtual) {
		say(verdict,
			"turn nesting on at the host of this machine (kvm_intel or kvm_amd with "
			"nested=1 and the processor passed through; in a cloud: an instance that "
			"allows nested virtualisation)",
			"/dev/kvm is missing: this is itself a virtual machine, and it has no "
			"nested virtualisation");
	} else if (facts->has_cpu_flags && !facts->cpu_virtualises) {
		say(verdict, "turn on VT-x or AMD-V (SVM) in the BIOS or UEFI set-up",
			"/dev/kvm is missing: virtualisation is turned off in the firmware, or the "
			"processor has none");
	} else if (facts->in_container) {
		say(verdict,
			"modprobe kvm_intel or kvm_amd at the container's host; then " CONTAINER_FIX,
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

/* --- the verdict: /dev/kvm is there --- */

static void say_not_allowed(
	const struct box_microvm_facts *facts, struct box_microvm_facts_verdict *verdict)
{
	char fix[512];
	if (facts->kvm_errnum == EPERM) {
		say(verdict, CONTAINER_FIX,
			"/dev/kvm is there, but a cgroup or a security module forbids it");
		return;
	}
	(void)snprintf(fix, sizeof(fix),
		"usermod -aG %s USER for the user that runs boxd, log in again and restart boxd",
		facts->kvm_group);
	if ((facts->kvm_mode & 0060) != 0060) {
		(void)snprintf(fix, sizeof(fix),
			"chgrp kvm /dev/kvm && chmod 0660 /dev/kvm, then usermod -aG kvm USER for "
			"the user that runs boxd");
	}
	say(verdict, fix,
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
		say(verdict, "boxd's log says why", "box-vmm --probe could not be run");
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
			facts->boot_console[0] ? "; its last output: " : "", facts->boot_console);
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

/* --- the output of box-vmm --- */

/* Printable ASCII, cut: used in errors and logs. */
static void copy_word(char to[BOX_MICROVM_FACTS_WORD_MAX], const char *value, size_t len)
{
	len = len < BOX_MICROVM_FACTS_WORD_MAX - 1 ? len : BOX_MICROVM_FACTS_WORD_MAX - 1;
	for (size_t i = 0; i < len; i++) {
		to[i] = value[i] >= ' ' && value[i] < 0x7f ? value[i] : '?';
	}
	to[len] = '\0';
}

/* The value of `key`, or NULL when the line has another key. */
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
	/* box-vmm names the library that it could not load. */
	bool firmware = strstr(library, "libkrunfw") != NULL;
	memcpy(firmware ? facts->libkrunfw_error : facts->libkrun_error, library, sizeof(library));
	facts->probed = true;
	facts->booted = strcmp(boot, "ok") == 0;
}
