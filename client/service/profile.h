/* Profiles: what a box is like where a caller says nothing, what a caller cannot change, and the
 * longest time. The built-in ones are LangBot's. Pure.
 */
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
	int network; /* these two by their place in the words that they may be */
	int host_path_mode;
	unsigned locked; /* one bit for each member of a spec that a profile has */
	bool read_only_rootfs;
	bool built_in;
};

struct box_profile_set {
	struct box_profile *items; /* by name */
	size_t count;
};

/* The built-in ones and the operator's own: `own` is a map of name to members, or NULL. An own one
 * may have the name of a built-in one, and stands in its place then. Members are those above, and
 * `base`: the built-in profile that it starts from ("offline" unless given). -EINVAL with
 * BOX_ERR_VALIDATION names the profile and the member. */
int box_profile_read_all(struct box_arena *arena, const struct box_value *own,
	struct box_profile_set *ret_profiles, struct box_err *err);

/* The profile of that name (none: "default"); NULL with the known ones in err. */
const struct box_profile *box_profile_find(
	const struct box_profile_set *profiles, const char *name, struct box_err *err);

/* Fills a caller's spec in place. A locked member has the profile's value whatever the caller said,
 * and the list `notes` says so; a member that the caller left out or null has the value of `usual`, a
 * map of the operator's, else the profile's. timeout_sec is cut to max_timeout_sec in whatever form
 * it came; one that is no number stays, for the runtime to refuse. With host_path_mode locked the
 * caller's other mounts cannot be more than that either. */
void box_profile_apply(struct box_arena *arena, const struct box_profile *profile,
	const struct box_value *usual, struct box_value *spec, struct box_value *notes);

/* A map of all that it says, for people. */
struct box_value box_profile_value(struct box_arena *arena, const struct box_profile *profile);
