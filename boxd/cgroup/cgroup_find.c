/* Finds our own group in the texts of /proc/self/cgroup and /proc/self/mountinfo.
 *
 * Pure. A mount may show only a part of its hierarchy, as in a container: the group counts as found
 * when it lies in that part. Whether it can be used is tried elsewhere. */
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "boxd/cgroup/cgroup_manager.h"

struct span {
	const char *at;
	size_t len;
};

/* The fields of a mountinfo line that are needed here. */
struct mount_line {
	struct span id;
	struct span root;
	struct span point;
	struct span options;
	struct span type;
	struct span super;
};

/* A line of /proc/self/cgroup: "4:cpu,cpuacct:/path", or "0::/path" for version 2. */
struct group_line {
	bool unified;
	struct span controllers;
	struct span path;
};

static bool is_text(struct span span, const char *text)
{
	return span.len == strlen(text) && memcmp(span.at, text, span.len) == 0;
}

static bool begins_with(struct span span, const char *text)
{
	return span.len >= strlen(text) && memcmp(span.at, text, strlen(text)) == 0;
}

/* Cuts off the part before the next `separator`; false when nothing is left. */
static bool cut(struct span *rest, char separator, struct span *ret_part)
{
	if (!rest->at) {
		return false;
	}
	const char *end = memchr(rest->at, separator, rest->len);
	size_t len = end ? (size_t)(end - rest->at) : rest->len;
	*ret_part = (struct span){rest->at, len};
	*rest = end ? (struct span){end + 1, rest->len - len - 1} : (struct span){NULL, 0};
	return true;
}

static bool has_word(struct span list, const char *word)
{
	struct span part;
	while (cut(&list, ',', &part)) {
		if (is_text(part, word)) {
			return true;
		}
	}
	return false;
}

unsigned box_cgroup_controllers(const char *list, size_t len)
{
	static const struct {
		const char *name;
		unsigned bit;
	} known[] = {
		{"pids", BOX_CGROUP_PIDS}, {"memory", BOX_CGROUP_MEMORY}, {"cpu", BOX_CGROUP_CPU}};
	unsigned found = 0;
	for (size_t at = 0; at < len; at++) {
		struct span word = {list + at, 0};
		while (at < len && !strchr(", \n", list[at])) {
			at++;
			word.len++;
		}
		for (size_t i = 0; i < BOX_COUNT_OF(known); i++) {
			found |= is_text(word, known[i].name) ? known[i].bit : 0;
		}
	}
	return found;
}

static bool parse_mount(struct span line, struct mount_line *ret)
{
	struct span parent;
	struct span device;
	struct span field;
	if (!cut(&line, ' ', &ret->id) || !cut(&line, ' ', &parent) || !cut(&line, ' ', &device) ||
		!cut(&line, ' ', &ret->root) || !cut(&line, ' ', &ret->point) ||
		!cut(&line, ' ', &ret->options)) {
		return false;
	}
	do {
		if (!cut(&line, ' ', &field)) {
			return false;
		}
	} while (!is_text(field, "-"));
	return cut(&line, ' ', &ret->type) && cut(&line, ' ', &field) &&
		cut(&line, ' ', &ret->super);
}

static bool parse_group(struct span line, struct group_line *ret)
{
	struct span id;
	if (!cut(&line, ':', &id) || !cut(&line, ':', &ret->controllers) || !line.at) {
		return false;
	}
	ret->unified = is_text(id, "0") && ret->controllers.len == 0;
	ret->path = line;
	return begins_with(line, "/");
}

static bool is_escape(const char *at, size_t len)
{
	return len > 3 && at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' &&
		at[2] <= '7' && at[3] >= '0' && at[3] <= '7';
}

/* mountinfo writes space, tab, newline and backslash as three octal digits. */
static bool unescape(struct span span, char to[BOX_PATH_MAX])
{
	size_t len = 0;
	for (size_t i = 0; i < span.len; i++, len++) {
		if (len + 1 >= BOX_PATH_MAX) {
			return false;
		}
		to[len] = span.at[i];
		if (is_escape(span.at + i, span.len - i)) {
			const char *digits = span.at + i + 1;
			to[len] = (char)((digits[0] - '0') * 64 + (digits[1] - '0') * 8 +
				(digits[2] - '0'));
			i += 3;
		}
	}
	to[len] = '\0';
	return true;
}

/* The path of our group relative to the root of the mount. False when it lies outside of it, or when
 * one of them lies above the cgroup namespace, which the kernel shows as "..". */
static bool relate(struct span path, const char *root, char below[BOX_PATH_MAX])
{
	size_t skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (begins_with(path, "/..") || strncmp(root, "/..", 3) == 0 || path.len < skip ||
		memcmp(path.at, root, skip) != 0) {
		return false;
	}
	struct span rest = {path.at + skip, path.len - skip};
	if (rest.len > 0 && rest.at[0] != '/') {
		return false;
	}
	if (rest.len <= 1) {
		memcpy(below, ".", 2);
		return true;
	}
	if (rest.len > BOX_PATH_MAX) {
		return false;
	}
	memcpy(below, rest.at + 1, rest.len - 1);
	below[rest.len - 1] = '\0';
	return true;
}

static bool fill(const struct mount_line *mount, const struct group_line *group,
	struct box_cgroup_location *place)
{
	char root[BOX_PATH_MAX];
	*place = (struct box_cgroup_location){
		.unified = group->unified,
		.read_only = has_word(mount->options, "ro") || has_word(mount->super, "ro"),
		.controllers = box_cgroup_controllers(
			group->controllers.at, group->unified ? 0 : group->controllers.len),
		.mount_id = strtoull(mount->id.at, NULL, 10),
	};
	return unescape(mount->root, root) && unescape(mount->point, place->mount) &&
		relate(group->path, root, place->below);
}

/* Both must be of one hierarchy: the options of a version 1 mount name its controllers. */
static bool belong_together(const struct mount_line *mount, const struct group_line *group)
{
	if (group->unified || is_text(mount->type, "cgroup2")) {
		return group->unified && is_text(mount->type, "cgroup2");
	}
	unsigned named = box_cgroup_controllers(mount->super.at, mount->super.len);
	return named != 0 &&
		named == box_cgroup_controllers(group->controllers.at, group->controllers.len);
}

size_t box_cgroup_find(
	const char *groups, const char *mounts, struct box_cgroup_location *places, size_t room)
{
	size_t count = 0;
	struct span rest = {mounts, strlen(mounts)};
	struct span line;
	while (count < room && cut(&rest, '\n', &line)) {
		struct mount_line mount = {0};
		if (!parse_mount(line, &mount) ||
			(!is_text(mount.type, "cgroup") && !is_text(mount.type, "cgroup2"))) {
			continue;
		}
		struct span group_rest = {groups, strlen(groups)};
		while (count < room && cut(&group_rest, '\n', &line)) {
			struct group_line group = {0};
			if (parse_group(line, &group) && belong_together(&mount, &group) &&
				fill(&mount, &group, &places[count])) {
				count++;
			}
		}
	}
	return count;
}
