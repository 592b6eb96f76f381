/* The table of members, and the search for the member that a misspelt name probably means. */
#include "runtime/config/config_members.h"

#include <ctype.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "runtime/config/config.h"
#include "runtime/spec/fields.h"

#define NAME_MAX_COMPARED 64 /* a longer name resembles nothing */

#define OPERATOR BOX_CONFIG_MEMBER_OPERATOR
#define RESTART BOX_CONFIG_MEMBER_RESTART
#define OPEN BOX_CONFIG_MEMBER_OPEN
#define LANGBOT BOX_CONFIG_MEMBER_LANGBOT
#define FORMER (BOX_CONFIG_MEMBER_LANGBOT | BOX_CONFIG_MEMBER_FORMER)

/* A section precedes its members. If a name occurs in several sections, its first row is the one that is
 * suggested. */
static const struct box_config_member members[] = {
	{"enabled", 0}, /* the service's */
	{"backend", 0},
	{"session_ttl_sec", 0},
	{"require_context", OPERATOR},
	{"unauthenticated", OPERATOR},
	{"metrics_open", OPERATOR},
	{"allowed_origins", OPERATOR},
	{"images", OPERATOR | RESTART | OPEN}, /* read by policy.c */
	{"limits", 0},
#define LIMIT(name, min, max, default_value, operators) \
	{"limits." #name,                               \
		((operators) ? OPERATOR : 0) | ((operators) == BOX_CONFIG_SEALED ? RESTART : 0)},
	BOX_CONFIG_LIMITS(LIMIT)
#undef LIMIT
		{"limits.max_workspace_entries", 0}, /* the service's */
	{"local", 0},
	/* boxd opens the folders of three of these at its start. */
	{"local.host_root", RESTART},
	{"local.default_workspace", 0},
	{"local.skills_root", RESTART},
	{"local.allowed_mount_roots", RESTART},
	{"local.rootfs", OPERATOR | RESTART}, /* this and the next two: policy.c */
	{"local.seccomp", OPERATOR | RESTART},
	{"local.degraded", OPERATOR | RESTART},
	/* These belong to libbox's service: one file can configure both. */
	{"local.profile", 0},
	{"local.profiles", OPEN},
	{"local.image", 0},
	{"local.workspace_quota_mb", 0},
	{"local.session_template", 0},
	{"local.forced_session_template", 0},
	{"local.output_chars", 0},
	{"admission", 0},
	{"admission.required", 0},
	{"admission.logical_session_id", 0},
	{"admission.required_backend", 0},
	{"admission.max_sessions", 0},
	{"admission.max_managed_processes", 0},
	{"admission.max_grant_ttl_sec", 0},
	{"admission.max_timeout_sec", 0},
	{"admission.cpus", 0},
	{"admission.memory_mb", 0},
	{"admission.pids_limit", 0},
	{"admission.read_only_rootfs", 0},
	{"admission.workspace_quota_mb", 0},
	{"admission.readiness_cache_sec", 0},
	/* Other members of LangBot's own configuration. */
	{"runtime", LANGBOT | OPEN},
	{"default_memory_mb", LANGBOT},
	{"docker", LANGBOT | OPEN},
	{"e2b", LANGBOT | OPEN},
	{"runtime_url", FORMER},
	{"profile", FORMER},
	{"shared_host_root", FORMER},
	{"default_host_workspace", FORMER},
	{"allowed_host_mount_roots", FORMER},
};

/* The last part of a dotted name, and the length of the section before it. */
static const char *name_of(const struct box_config_member *member, size_t *ret_section)
{
	const char *dot = strchr(member->path, '.');
	*ret_section = dot ? (size_t)(dot - member->path) : 0;
	return dot ? dot + 1 : member->path;
}

static bool is_in(const struct box_config_member *member, const char *section)
{
	size_t len;
	(void)name_of(member, &len);
	return strlen(section) == len && memcmp(member->path, section, len) == 0;
}

const struct box_config_member *box_config_members_find(const char *section, struct box_str name)
{
	for (size_t i = 0; i < BOX_COUNT_OF(members); i++) {
		size_t len;
		if (box_str_eq(name, name_of(&members[i], &len)) && is_in(&members[i], section)) {
			return &members[i];
		}
	}
	return NULL;
}

static bool is_section(const struct box_config_member *member)
{
	size_t at = (size_t)(member - members) + 1;
	return at < BOX_COUNT_OF(members) && is_in(&members[at], member->path);
}

/* --- suggestions --- */

/* hostRoot, host-root and host_root count as the same spelling. Returns the length. */
static size_t fold_name(struct box_str name, char out[NAME_MAX_COMPARED])
{
	size_t len = 0;
	for (size_t i = 0; i < name.len && len < NAME_MAX_COMPARED; i++) {
		unsigned char byte = (unsigned char)name.bytes[i];
		if (byte != '_' && byte != '-' && byte != ' ') {
			out[len++] = (char)tolower(byte);
		}
	}
	return len;
}

static size_t least_of(size_t a, size_t b)
{
	return BOX_MIN(a, b);
}

/* Inserted, left out, replaced or swapped neighbours: the optimal string alignment distance. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	size_t rows[3][NAME_MAX_COMPARED + 1];
	size_t *before = rows[0];
	size_t *above = rows[1];
	size_t *row = rows[2];
	for (size_t j = 0; j <= b_len; j++) {
		above[j] = j;
	}
	for (size_t i = 1; i <= a_len; i++) {
		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t same = a[i - 1] == b[j - 1] ? 0 : 1;
			row[j] = least_of(least_of(above[j], row[j - 1]) + 1, above[j - 1] + same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
				row[j] = least_of(row[j], before[j - 2] + 1);
			}
		}
		size_t *oldest = before;
		before = above;
		above = row;
		row = oldest;
	}
	return above[b_len];
}

/* How many typing errors are forgiven in a name of this length. */
static size_t slips_max(size_t len)
{
	return len < 6 ? 1 : (len + 2) / 4;
}

/* 0: the same except for spelling; SIZE_MAX: not similar. */
static size_t difference(const char *folded, size_t len, const struct box_config_member *member)
{
	char other[NAME_MAX_COMPARED];
	size_t section;
	size_t other_len = fold_name(box_str(name_of(member, &section)), other);
	size_t slips = distance(folded, len, other, other_len);
	return slips <= slips_max(least_of(len, other_len)) ? slips : SIZE_MAX;
}

/* The most similar row. The same section is preferred unless another section has exactly this name. */
static const struct box_config_member *find_nearest(
	const char *section, const char *folded, size_t len, bool *ret_exact)
{
	const struct box_config_member *nearest = NULL;
	size_t least = SIZE_MAX;
	for (size_t i = 0; i < BOX_COUNT_OF(members); i++) {
		size_t slips = difference(folded, len, &members[i]);
		if (slips == SIZE_MAX || (members[i].flags & BOX_CONFIG_MEMBER_FORMER)) {
			continue;
		}
		bool here = is_in(&members[i], section);
		size_t weight = slips == 0 ? !here : 2 * slips + !here;
		if (weight < least) {
			least = weight;
			nearest = &members[i];
			*ret_exact = slips == 0;
		}
	}
	return nearest;
}

const char *box_config_members_suggest(struct box_arena *arena, const char *section,
	struct box_str name, const struct box_config_member **ret_member)
{
	char folded[NAME_MAX_COMPARED];
	bool exact = false;
	size_t section_len;
	size_t len = name.len <= NAME_MAX_COMPARED ? fold_name(name, folded) : 0;
	const struct box_config_member *nearest = len > 0
		? find_nearest(section, folded, len, &exact)
		: NULL;
	*ret_member = nearest;
	if (!nearest) {
		return NULL;
	}
	const char *meant = name_of(nearest, &section_len);
	if (is_in(nearest, section)) {
		return box_arena_printf(arena, "did you mean %s?", meant);
	}
	if (!exact || !box_str_eq(name, meant)) {
		return box_arena_printf(arena, "did you mean %s%s?", nearest->path,
			section_len == 0 ? ", at the top" : "");
	}
	return section_len == 0
		? "it belongs at the top, beside the sections"
		: box_arena_printf(arena, "it belongs under %.*s", (int)section_len, nearest->path);
}

/* --- checking a map --- */

struct check {
	struct box_arena *arena;
	enum box_config_member_rules rules;
	bool operators;
	struct box_config_findings *found;
};

void box_config_members_add_finding(
	struct box_config_findings *found, const char *path, const char *text, bool wrong)
{
	struct box_config_finding *room = found->count < BOX_CONFIG_FINDINGS_MAX
		? &found->items[found->count++]
		: NULL;
	found->errors += wrong;
	/* Warnings must not prevent an error from being reported. */
	for (size_t i = 0; !room && wrong && i < found->count; i++) {
		room = found->items[i].wrong ? NULL : &found->items[i];
	}
	if (room) {
		*room = (struct box_config_finding){path, text, wrong};
	}
}

static void add_unknown(const struct check *check, const char *section, struct box_str name)
{
	const struct box_config_member *meant = NULL;
	const char *why = box_config_members_suggest(check->arena, section, name, &meant);
	bool ours = meant && !(meant->flags & BOX_CONFIG_MEMBER_LANGBOT);
	bool wrong = check->rules == BOX_CONFIG_MEMBERS_OWN ||
		(check->rules == BOX_CONFIG_MEMBERS_LANGBOT && ours);
	box_config_members_add_finding(check->found,
		box_arena_printf(check->arena, "%s%s%s", section, section[0] ? "." : "",
			box_fields_echo(check->arena, name)),
		why ? box_arena_printf(check->arena, "unknown member; %s", why) : "unknown member",
		wrong);
}

/* A member that has a row may still have no effect in this map. */
static void check_known(const struct check *check, const struct box_config_member *member,
	const struct box_value *value)
{
	bool strict = check->rules != BOX_CONFIG_MEMBERS_CLIENT;
	if (strict && is_section(member) && value->type != BOX_MAP && value->type != BOX_NULL) {
		box_config_members_add_finding(
			check->found, member->path, "must be a map of members", true);
	} else if ((member->flags & BOX_CONFIG_MEMBER_OPERATOR) && !check->operators) {
		box_config_members_add_finding(check->found, member->path,
			"not read from here: only the --config file may set it", false);
	} else if (member->flags & BOX_CONFIG_MEMBER_FORMER) {
		box_config_members_add_finding(check->found, member->path,
			"a member of an older LangBot, which Box does not read", false);
	}
}

/* In a file for boxd alone LangBot's former names are as wrong as any other. */
static const struct box_config_member *find_allowed(
	const struct check *check, const char *section, struct box_str name)
{
	const struct box_config_member *member = box_config_members_find(section, name);
	bool former = member && (member->flags & BOX_CONFIG_MEMBER_FORMER);
	return former && check->rules == BOX_CONFIG_MEMBERS_OWN ? NULL : member;
}

static void check_section(
	const struct check *check, const char *section, const struct box_value *map)
{
	for (uint32_t i = 0; i < map->count; i++) {
		const struct box_pair *pair = &map->pairs[i];
		const struct box_config_member *member = find_allowed(check, section, pair->key);
		if (!member) {
			add_unknown(check, section, pair->key);
			continue;
		}
		check_known(check, member, &pair->value);
		if (section[0] == '\0' && is_section(member) && pair->value.type == BOX_MAP) {
			check_section(check, member->path, &pair->value);
		}
	}
}

void box_config_members_check(struct box_arena *arena, const struct box_value *map,
	enum box_config_member_rules rules, bool operators, struct box_config_findings *found)
{
	const struct check check = {arena, rules, operators, found};
	if (map->type == BOX_MAP) {
		check_section(&check, "", map);
	}
}

/* --- what needs a restart --- */

static bool same(const struct box_value *a, const struct box_value *b)
{
	if (a->type != b->type) {
		return false;
	}
	switch (a->type) {
	case BOX_NULL:
		return true;
	case BOX_BOOL:
		return a->boolean == b->boolean;
	case BOX_INT:
		return a->integer == b->integer;
	case BOX_REAL:
		return a->real == b->real;
	case BOX_STR:
	case BOX_BIN:
		return box_str_same(a->str, b->str);
	default:
		break;
	}
	bool equal = a->count == b->count;
	for (uint32_t i = 0; equal && i < a->count; i++) {
		equal = a->type == BOX_LIST ? same(&a->items[i], &b->items[i])
					    : box_str_same(a->pairs[i].key, b->pairs[i].key) &&
				same(&a->pairs[i].value, &b->pairs[i].value);
	}
	return equal;
}

/* The value at a dotted name; null if there is none. */
static struct box_value value_at(
	const struct box_value *map, const struct box_config_member *member)
{
	size_t len;
	const char *name = name_of(member, &len);
	const struct box_value *at = map;
	if (len > 0) {
		char section[NAME_MAX_COMPARED] = "";
		memcpy(section, member->path, least_of(len, sizeof(section) - 1));
		at = box_map_get(map, section);
	}
	at = at ? box_map_get(at, name) : NULL;
	return at ? *at : box_null();
}

const char *box_config_members_need_restart(
	struct box_arena *arena, const struct box_value *before, const struct box_value *after)
{
	const char *names = "";
	for (size_t i = 0; i < BOX_COUNT_OF(members); i++) {
		struct box_value old = value_at(before, &members[i]);
		struct box_value fresh = value_at(after, &members[i]);
		if ((members[i].flags & BOX_CONFIG_MEMBER_RESTART) && !same(&old, &fresh)) {
			names = box_arena_printf(
				arena, "%s%s%s", names, names[0] ? ", " : "", members[i].path);
		}
	}
	return names;
}
