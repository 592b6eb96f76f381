/* The table of protocol/actions.def in the form that the dispatcher reads. */
#include "handlers/actions.h"

#include <string.h>

#include "base/macros.h"
#include "runtime/metrics.h"

#define NEEDS_SANDBOX true
#define NEEDS_NOTHING false
#define EFFECT_CLAIMS true
#define EFFECT_READS false
#define NEED_REQUIRED true
#define NEED_OPTIONAL false

#define CHECK_STR(KEY, REQUIRED) {#KEY, BOX_STR, REQUIRED},
#define CHECK_INT(KEY, REQUIRED) {#KEY, BOX_INT, REQUIRED},
#define CHECK_BOOL(KEY, REQUIRED) {#KEY, BOX_BOOL, REQUIRED},
#define CHECK_MAP(KEY, REQUIRED) {#KEY, BOX_MAP, REQUIRED},
#define CHECK_BIN(KEY, REQUIRED) {#KEY, BOX_BIN, REQUIRED},
#define CHECK_ANY(KEY, REQUIRED)
#define FIELD(KEY, TYPE, NEED, SENT) CHECK_##TYPE(KEY, NEED_##NEED)

/* clang-format off */
/* NOLINTBEGIN(bugprone-macro-parentheses): FIELDS are initialisers, each with its comma */
const struct box_action box_actions[] = {
#define ACTION(NAME, SCOPE, LANE, NEEDS, EFFECT, SINCE, HANDLER, ARGS, WAIT, EXTRA, ANSWERS, FIELDS) \
	{#NAME, BOX_SCOPE_##SCOPE, BOX_LANE_##LANE, NEEDS_##NEEDS, EFFECT_##EFFECT, box_action_##HANDLER, \
		{FIELDS {0}}},
#include "protocol/actions.def"
};
/* NOLINTEND(bugprone-macro-parentheses) */

/* Every feature that a row names must exist. */
enum feature {
	SINCE_REFERENCE,
#define FEATURE(NAME) SINCE_##NAME,
#include "protocol/actions.def"
};
#define ACTION(NAME, SCOPE, LANE, NEEDS, EFFECT, SINCE, ...) \
	_Static_assert(SINCE_##SINCE >= SINCE_REFERENCE, #NAME " has a feature");
#include "protocol/actions.def"
/* clang-format on */

_Static_assert(BOX_COUNT_OF(box_actions) <= BOX_METRICS_ACTIONS_MAX, "metrics count every action");

const size_t box_actions_count = BOX_COUNT_OF(box_actions);

const struct box_action *box_action_find(struct box_str name)
{
	for (size_t i = 0; i < box_actions_count; i++) {
		if (box_str_eq(name, box_actions[i].name)) {
			return &box_actions[i];
		}
	}
	return NULL;
}
