/* The state of the service: disabled, unreachable, no backend, healthy. Pure. */
#pragma once

#include "base/value.h"

struct box_arena;

enum box_service_status_kind {
	BOX_SERVICE_DISABLED,    /* by configuration: nothing is started or dialled */
	BOX_SERVICE_UNREACHABLE, /* no runtime answers */
	BOX_SERVICE_NO_BACKEND,  /* a runtime answers, but cannot create boxes */
	BOX_SERVICE_HEALTHY,
};

struct box_service_status_facts {
	bool enabled;
	const struct box_value *runtime; /* its answer to box_status; NULL: it has not answered */
	const char *why;                 /* then the reason */
	const char *profile;
	size_t recent_errors;
};

enum box_service_status_kind box_service_status_judge(const struct box_service_status_facts *facts);

/* "disabled", "unreachable", "no_backend", "well" */
const char *box_service_status_name(enum box_service_status_kind state);

/* What LangBot's own service answers (available, enabled, profile, recent_error_count, connector_error unless it
 * is healthy), with `state`, and all members of the runtime's answer. */
struct box_value box_service_status_value(
	struct box_arena *arena, const struct box_service_status_facts *facts);
