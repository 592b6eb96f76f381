/* Looks at the one group that we are in and touches nothing that was there before us. */
#include "cli/aside.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"

#define ROUNDS 8 /* whoever is moved may just have forked */
#define LIST_BYTES (256 * BOX_KIB)

static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};

static ssize_t read_at(int folder, const char *name, char *text, size_t size)
{
	_cleanup_(box_close_p) int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	size_t len = 0;
	ssize_t got = fd < 0 ? -1 : 1;
	while (got > 0 && len + 1 < size) {
		got = read(fd, text + len, size - len - 1);
		len += got > 0 ? (size_t)got : 0;
	}
	text[len] = '\0';
	return fd < 0 ? -errno : (ssize_t)len;
}

static int write_at(int folder, const char *name, const char *text)
{
	_cleanup_(box_close_p) int fd = openat(folder, name, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

/* The path of our group of version 2, from "0::/path". */
static bool find_group(char path[BOX_PATH_MAX])
{
	FILE *file = fopen("/proc/self/cgroup", "re");
	bool found = false;
	while (file && !found && fgets(path, BOX_PATH_MAX, file)) {
		size_t len = strcspn(path, "\n");
		found = strncmp(path, "0::/", 4) == 0 && path[len] == '\n';
		if (found) {
			memmove(path, path + 3, len - 3);
			path[len - 3] = '\0';
		}
	}
	if (file) {
		(void)fclose(file);
	}
	return found;
}

static int open_group(const char *group)
{
	char path[BOX_PATH_MAX + 64];
	struct statfs system;
	for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s%s", mounts[i], group);
		int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd >= 0 && fstatfs(fd, &system) == 0 && system.f_type == CGROUP2_SUPER_MAGIC) {
			return fd;
		}
		box_close_p(&fd);
	}
	return -1;
}

void box_aside_begin(struct box_aside *aside)
{
	char group[BOX_PATH_MAX];
	*aside = (struct box_aside){.own = -1};
	_cleanup_(box_close_p) int own = find_group(group) ? open_group(group) : -1;
	if (own < 0) {
		return;
	}
	const char *slash = strrchr(group, '/');
	/* In a leaf already, or beside one: it is someone's who lives in it. */
	if (strcmp(slash + 1, BOX_ASIDE_LEAF) == 0 ||
		faccessat(own, BOX_ASIDE_LEAF, F_OK, 0) == 0 ||
		read_at(own, "cgroup.subtree_control", aside->controls, sizeof(aside->controls)) <
			0) {
		return;
	}
	aside->own = TAKE_FD(own);
}

/* A group that gives controllers to others takes no process back: first what it did not give. */
static void take_controllers_back(const struct box_aside *aside)
{
	static const char *const names[] = {"pids", "memory", "cpu"};
	char word[16];
	char text[sizeof(aside->controls) + 2];
	(void)snprintf(text, sizeof(text), " %s", aside->controls);
	text[strcspn(text, "\n")] = ' ';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		(void)snprintf(word, sizeof(word), " %s ", names[i]);
		if (!strstr(text, word)) {
			(void)snprintf(word, sizeof(word), "-%s", names[i]);
			(void)write_at(aside->own, "cgroup.subtree_control", word);
		}
	}
}

static void move_back(const struct box_aside *aside)
{
	static char list[LIST_BYTES];
	char *rest = NULL;
	if (read_at(aside->own, BOX_ASIDE_LEAF "/cgroup.procs", list, sizeof(list)) <= 0) {
		return;
	}
	for (char *pid = strtok_r(list, "\n", &rest); pid; pid = strtok_r(NULL, "\n", &rest)) {
		(void)write_at(aside->own, "cgroup.procs", pid);
	}
}

void box_aside_end(struct box_aside *aside)
{
	if (aside->own >= 0 && faccessat(aside->own, BOX_ASIDE_LEAF, F_OK, 0) == 0) {
		take_controllers_back(aside);
		for (int round = 0; round < ROUNDS; round++) {
			move_back(aside);
			if (unlinkat(aside->own, BOX_ASIDE_LEAF, AT_REMOVEDIR) == 0 ||
				errno != EBUSY) {
				break;
			}
		}
	}
	box_close_p(&aside->own);
	aside->own = -1;
}
