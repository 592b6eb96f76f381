/* Host paths in arguments become absolute, because the runtime has another working folder; and get rid of "."
 * and "..", because boxd opens a path part by part and refuses these. */
#include "cli/path_argument.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/utf8.h"

const char *box_path_argument_clean(struct box_arena *arena, const char *path)
{
	char *whole = box_arena_strndup(arena, path, strlen(path));
	size_t len = 0;
	for (const char *at = path; *at;) {
		at += strspn(at, "/");
		size_t part = strcspn(at, "/");
		if (part == 2 && at[0] == '.' && at[1] == '.') {
			while (len > 0 && whole[--len] != '/') {
			}
		} else if (part > 0 && !(part == 1 && at[0] == '.')) {
			/* Never longer than what was read so far. */
			whole[len++] = '/';
			memmove(whole + len, at, part);
			len += part;
		}
		at += part;
	}
	whole[len] = '\0';
	return len > 0 ? whole : "/";
}

static bool has_parent(const char *path)
{
	for (const char *at = path; *at;) {
		at += strspn(at, "/");
		size_t part = strcspn(at, "/");
		if (part == 2 && at[0] == '.' && at[1] == '.') {
			return true;
		}
		at += part;
	}
	return false;
}

int box_path_argument_resolve(
	struct box_arena *arena, const char *path, const char **ret_path, struct box_err *err)
{
	bool relative = path[0] != '/';
	_cleanup_(box_free_p) char *folder = relative ? getcwd(NULL, 0) : NULL;
	if (relative && !folder) {
		return box_err_set(err, BOX_ERR_OS, errno,
			"%.200s: cannot get the working folder (%s): use an absolute path", path,
			box_err_strerror(errno));
	}
	_cleanup_(box_free_p) char *real = relative || has_parent(path) ? realpath(path, NULL)
									: NULL;
	const char *whole = real
		? box_arena_strndup(arena, real, strlen(real))
		: box_path_argument_clean(
			  arena, relative ? box_arena_printf(arena, "%s/%s", folder, path) : path);
	/* Messages carry only UTF-8, and the folders above may have any name. */
	if (!box_utf8_valid(whole, strlen(whole))) {
		return box_err_set(err, BOX_ERR_VALUE, EILSEQ,
			"%.200s: its absolute path is not valid UTF-8", path);
	}
	*ret_path = whole;
	return 0;
}

/* A host path with a colon cannot be given. */
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
