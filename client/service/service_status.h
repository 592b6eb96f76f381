/* How the service is, told apart: disabled, not reachable, no backend, well. Pure. */
#pragma once

#include "base/value.h"

struct box_arena;

enum box_service_status_kind {
	BOX_SERVICE_DISABLED,    /* by configuration: nothing is started or dialled */
	BOX_SERVICE_UNREACHABLE, /* no runtime answers */
	BOX_SERVICE_NO_BACKEND,  /* one does, but can make no boxes */
	BOX_SERVICE_WELL,
};

struct box_service_status_facts {
	bool enabled;
	const struct box_value *runtime; /* its answer to box_status; NULL: it has not answered */
	const char *why;                 /* then: why not */
	const char *profile;
	size_t recent_errors;
};

enum box_service_status_kind box_service_status_judge(const struct box_service_status_facts *facts);

/* "disabled", "unreachable", "no_backend", "well" */
const char *box_service_status_name(enum box_service_status_kind state);

/* What LangBot's own service answers, and `state`: available, enabled, profile, recent_error_count,
 * connector_error where it is not well, and all that the runtime said of itself. */
struct box_value box_service_status_value(
	struct box_arena *arena, const struct box_service_status_facts *facts);
