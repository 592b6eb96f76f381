/* Looks at this host for what microVMs need. Opens files and starts nothing. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxd/microvm/microvm_facts.h"

#define TEXT_MAX 65536

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

/* The flags of the first processor: ` vmx ` among words. */
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

static void look_at_processor(struct box_microvm_facts *facts, char *text)
{
#if defined(__x86_64__) || defined(__aarch64__)
	facts->known_processor = true;
#endif
	if (read_text("/proc/cpuinfo", text) == 0) {
		return;
	}
	const char *flags = strstr(text, "\nflags\t");
	if (!flags) {
		return; /* aarch64 does not tell */
	}
	flags++;
	facts->has_cpu_flags = true;
	facts->cpu_virtualises = has_flag(flags, "vmx") || has_flag(flags, "svm");
	facts->cpu_is_virtual = has_flag(flags, "hypervisor");
}

static void look_at_device(struct box_microvm_facts *facts)
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

/* Heuristic, for words only. */
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
	look_at_processor(facts, text);
	look_at_device(facts);
	if (facts->kvm_errnum == 0) {
		return;
	}
	facts->kvm_in_kernel = is_there("/sys/class/misc/kvm") ||
		(read_text("/proc/misc", text) > 0 && strstr(text, " kvm\n") != NULL);
	facts->kvm_module = is_there("/sys/module/kvm");
	memset(text, 0, sizeof(text));
	facts->in_container = is_container(text);
}
