/* A path of the host cannot have a colon in it: there is no way to say so. */
#include "cli/mount_text.h"

#include <string.h>

#include "base/arena.h"

bool box_path_argument_split_mount(
	struct box_arena *arena, const char *text, struct box_path_argument_mount *ret_mount)
{
	char *host = box_arena_strndup(arena, text, strlen(text));
	char *box = strchr(host, ':');
	const char *mode = "rw";
	if (box) {
		*box++ = '\0';
		char *colon = strchr(box, ':');
		if (colon) {
			*colon = '\0';
			mode = colon + 1;
		}
	}
	if (!box || host[0] == '\0' || box[0] != '/' ||
		(strcmp(mode, "ro") != 0 && strcmp(mode, "rw") != 0)) {
		return false;
	}
	*ret_mount = (struct box_path_argument_mount){.host = host, .box = box, .mode = mode};
	return true;
}
