/* Names in archives: which of them stay below a folder. */
#include <limits.h>
#include <string.h>

#include "base/limits.h"
#include "cli/copy/tar.h"

bool box_tar_next_part(struct box_str *path, struct box_str *ret_part)
{
	while (path->len > 0) {
		const char *slash = memchr(path->bytes, '/', path->len);
		size_t len = slash ? (size_t)(slash - path->bytes) : path->len;
		struct box_str part = {path->bytes, len};
		size_t used = slash ? len + 1 : len;
		path->bytes += used;
		path->len -= used;
		if (len > 0 && !box_str_eq(part, ".")) {
			*ret_part = part;
			return true;
		}
	}
	return false;
}

const char *box_tar_check_name(struct box_str path)
{
	struct box_str part;
	size_t depth = 0;
	if (path.len == 0) {
		return "has no name";
	}
	if (path.len >= PATH_MAX) {
		return "has too long a name";
	}
	if (memchr(path.bytes, '\0', path.len)) {
		return "has a NUL in its name";
	}
	if (path.bytes[0] == '/') {
		return "has an absolute name";
	}
	while (box_tar_next_part(&path, &part)) {
		if (box_str_eq(part, "..")) {
			return "has \"..\" in its name";
		}
		if (part.len > NAME_MAX) {
			return "has too long a name";
		}
		if (++depth > BOX_COPY_DEPTH_MAX) {
			return "is in too many folders";
		}
	}
	return NULL;
}
