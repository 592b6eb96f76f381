/* Beside the program first: what was installed or built with it. */
#include "vmm/libkrun_folders.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

void box_libkrun_folders_of(
	const char *program, const char *libdir, struct box_libkrun_folders *ret_folders)
{
	/* PREFIX/bin, PREFIX/libexec/box, a build folder. */
	static const char *const beside[] = {"/../lib/box", "/../../lib/box", "/libkrun"};
	size_t count = 0;
	const char *slash = strrchr(program, '/');
	for (size_t i = 0; slash && i < BOX_COUNT_OF(beside); i++) {
		char *path = ret_folders->paths[count];
		int len = snprintf(
			path, BOX_PATH_MAX, "%.*s%s", (int)(slash - program), program, beside[i]);
		if (len > 0 && (size_t)len < BOX_PATH_MAX) {
			ret_folders->list[count++] = path;
		}
	}
	if (libdir[0] == '/') {
		(void)snprintf(ret_folders->paths[count], BOX_PATH_MAX, "%s", libdir);
		ret_folders->list[count] = ret_folders->paths[count];
		count++;
	}
	ret_folders->list[count] = NULL;
}

void box_libkrun_find_folders(struct box_libkrun_folders *ret_folders)
{
	char program[BOX_PATH_MAX] = "";
	ssize_t len = readlink("/proc/self/exe", program, sizeof(program) - 1);
	program[len > 0 ? len : 0] = '\0';
	box_libkrun_folders_of(program, BOX_LIBDIR, ret_folders);
}
