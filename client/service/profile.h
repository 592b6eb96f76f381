/* Profiles: defaults for the spec of a box, members that a caller cannot change ("locked"), and the limit of
 * the timeout. The built-in ones are LangBot's. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

struct box_profile {
	const char *name;
	const char *image;
	int64_t timeout_sec;
	int64_t max_timeout_sec;
	double cpus;
	int64_t memory_mb;
	int64_t pids_limit;
	int64_t workspace_quota_mb;
	int network; /* this and the next as an index of their possible words */
	int host_path_mode;
	unsigned locked; /* one bit for each member of a spec that a profile has */
	bool read_only_rootfs;
	bool built_in;
};

struct box_profile_set {
	struct box_profile *items; /* by name */
	size_t count;
};

/* The built-in profiles and the operator's: `own` is a map of name to members, or NULL. A profile of the
 * operator may replace a built-in one of the same name. Its members are those above, and `base`: the
 * built-in profile that it starts from ("offline" by default). -EINVAL with BOX_ERR_VALIDATION names the
 * profile and the member. */
int box_profile_read_all(struct box_arena *arena, const struct box_value *own,
	struct box_profile_set *ret_profiles, struct box_err *err);

/* The profile of that name (NULL or empty: "default"); NULL, with the known names in err, when there is none. */
const struct box_profile *box_profile_find(
	const struct box_profile_set *profiles, const char *name, struct box_err *err);

/* Fills a caller's spec in place. A locked member gets the profile's value, and a text is added to `notes` when
 * the caller asked for another; a member that the caller left out or set to null gets its value from
 * `defaults`, a map of the operator's, else from the profile. timeout_sec is reduced to max_timeout_sec;
 * one that is not a number is left for the runtime to refuse. Where host_path_mode is locked, the caller's
 * other mounts are limited to it too. */
void box_profile_apply(struct box_arena *arena, const struct box_profile *profile,
	const struct box_value *defaults, struct box_value *spec, struct box_value *notes);

/* All members as a map, for people. */
struct box_value box_profile_value(struct box_arena *arena, const struct box_profile *profile);
