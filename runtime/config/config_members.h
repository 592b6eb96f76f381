/* Which members the configuration has, and findings about unknown ones. Pure.
 *
 * The table in config_members.c is the only list of names. A member has a row there and a reader in
 * config.c, config_paths.c, policy.c, admission_policy.c or the service of libbox; limits are rows of
 * BOX_CONFIG_LIMITS in config.h instead, and get into the table automatically.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"
#include "base/value.h"

struct box_arena;

enum box_config_member_flag {
	BOX_CONFIG_MEMBER_OPERATOR = 1 << 0, /* read from the operator's own file only */
	BOX_CONFIG_MEMBER_RESTART = 1 << 1,  /* a change takes effect at the next start of boxd */
	BOX_CONFIG_MEMBER_OPEN = 1 << 2,     /* any names are allowed inside */
	BOX_CONFIG_MEMBER_LANGBOT = 1 << 3,  /* LangBot's: known, but not read here */
	BOX_CONFIG_MEMBER_FORMER = 1 << 4,   /* of LangBot before 4.10: the same, with a warning */
};

struct box_config_member {
	const char *path; /* "local.rootfs" */
	unsigned flags;   /* enum box_config_member_flag */
};

/* The row of a dotted name, or NULL. */
const struct box_config_member *box_config_members_find(const char *section, struct box_str name);

/* What an unknown member means depends on whose map it is in. */
enum box_config_member_rules {
	BOX_CONFIG_MEMBERS_OWN, /* a file for boxd only: an error */
	BOX_CONFIG_MEMBERS_LANGBOT, /* LangBot's `box` section: an error when it resembles one of ours, else
			      * a warning, so that an upgrade of LangBot does not stop boxd */
	BOX_CONFIG_MEMBERS_CLIENT, /* a warning */
};

struct box_config_finding {
	const char *path; /* "local.rootf" */
	const char *text; /* "unknown member; did you mean rootfs?" */
	bool wrong;       /* otherwise it is a warning */
};

struct box_config_findings {
	size_t count;
	size_t errors; /* including those without room in the list */
	struct box_config_finding items[BOX_CONFIG_FINDINGS_MAX];
};

/* Adds findings about the names in `map`, and about sections that are not maps. `operators`: the map is the
 * operator's own file, which may set members that no client can. Texts are in `arena` or static. */
void box_config_members_check(struct box_arena *arena, const struct box_value *map,
	enum box_config_member_rules rules, bool operators, struct box_config_findings *found);

/* Adds one finding. */
void box_config_members_add_finding(
	struct box_config_findings *found, const char *path, const char *text, bool wrong);

/* A suggestion for `name` in `section` ("" at the top): "did you mean rootfs?" or "it belongs under local"; NULL if
 * it resembles nothing. *ret_member is the suggested row. */
const char *box_config_members_suggest(struct box_arena *arena, const char *section,
	struct box_str name, const struct box_config_member **ret_member);

/* The paths, separated by ", ", of members that differ between two maps and need a restart to take effect; "" if
 * there are none. */
const char *box_config_members_need_restart(
	struct box_arena *arena, const struct box_value *before, const struct box_value *after);
