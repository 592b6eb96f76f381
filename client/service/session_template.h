/* Makes the session id of a query, which decides which box the query uses, from a template over the query's
 * attributes. Pure. For service_spec.c.
 *
 * "{launcher_type}_{launcher_id}" gives every conversation its own box, "{sender_id}" every person,
 * "{query_id}" every query, "global" one box for all. `{{` and `}}` stand for braces.
 */
#pragma once

#include "base/err.h"
#include "base/value.h"

struct box_arena;

#define BOX_SESSION_TEMPLATE_DEFAULT "{launcher_type}_{launcher_id}"

/* The first one that is set is used; NULL or "": not set. */
struct box_session_template_rules {
	const char *forced;     /* the operator's, which overrides all others */
	struct box_str given;   /* a session id from the caller, used as it is */
	const char *wanted;     /* the caller's template */
	const char *configured; /* the operator's default */
};

/* Whether a template is valid: 0, or -EINVAL with BOX_ERR_VALIDATION and the reason. Which attributes exist is
 * only known with a query. */
int box_session_template_check(const char *template, struct box_err *err);

/* The session id for a query, a map of attributes (texts and whole numbers). launcher_type, launcher_id,
 * sender_id and query_id are known even if the query does not have them; {global} is "global". If an attribute
 * that the template uses has no value, the query's own id becomes the session id: a box of its own, never one
 * that strangers share. -EINVAL with BOX_ERR_VALIDATION for an unknown attribute, or if there is no query id
 * either. */
int box_session_template_make_id(struct box_arena *arena,
	const struct box_session_template_rules *rules, const struct box_value *query,
	const char **ret_id, struct box_err *err);

/* The id without anything that the runtime would change: letters, digits, "_", "." and "-" stay; a run of
 * other characters becomes one "-", except at the ends. An id that was changed or cut gets a hash of the
 * original appended, so that different names stay different. */
int box_session_template_clean_id(
	struct box_arena *arena, struct box_str id, const char **ret_id, struct box_err *err);
