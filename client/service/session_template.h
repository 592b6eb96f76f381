/* Which box a query is worked on in: its session id, from a template over what is known of the
 * query. Pure.
 *
 * "{launcher_type}_{launcher_id}" gives every conversation a box of its own, "{sender_id}" every
 * person, "{query_id}" every query, "global" one for all. `{{` and `}}` stand for braces.
 */
#pragma once

#include "base/err.h"
#include "base/value.h"

struct box_arena;

#define BOX_SESSION_TEMPLATE_DEFAULT "{launcher_type}_{launcher_id}"

/* The first that is there counts; NULL or "": not there. */
struct box_session_template_rules {
	const char *forced;     /* the operator's: whatever else was said */
	struct box_str given;   /* a session id that the caller chose, taken as it is */
	const char *wanted;     /* the caller's template */
	const char *configured; /* the operator's usual one */
};

/* Whether a template can be read: 0, or -EINVAL with BOX_ERR_VALIDATION and what is wrong. Which
 * attributes there are is only known with a query. */
int box_session_template_check(const char *template, struct box_err *err);

/* The session id of a query, a map of attributes (texts and whole numbers). launcher_type,
 * launcher_id, sender_id and query_id are known even where the query has none, {global} is "global".
 * Where an attribute that the template uses has no value, the query's own id is the session id: a
 * box of its own, never one that strangers share. -EINVAL with BOX_ERR_VALIDATION for an attribute
 * that nobody knows, and where there is no query id either. */
int box_session_template_make_id(struct box_arena *arena,
	const struct box_session_template_rules *rules, const struct box_value *query,
	const char **ret_id, struct box_err *err);

/* The id with nothing in it that the runtime would change: letters, digits, "_", "." and "-"; a run of
 * others becomes one "-", and none stands at an end. What was changed or cut gets a hash of the
 * whole behind it: names that differ stay apart. */
int box_session_template_clean_id(
	struct box_arena *arena, struct box_str id, const char **ret_id, struct box_err *err);
