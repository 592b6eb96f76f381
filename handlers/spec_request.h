/* A request with a box spec: what it asks for, read and checked. */
#pragma once

#include "base/err.h"
#include "runtime/session/session.h"
#include "runtime/skill_store.h"
#include "runtime/spec/spec.h"
#include "runtime/tenant.h"

struct box_request;
struct box_session_op;

struct box_spec_request {
	struct box_spec spec;
	struct box_skill_store_request skill; /* while the spec's skill_name is looked up */
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	struct box_request *request;
	void (*go)(struct box_request *request, struct box_spec_request *asked);
	void *work;                /* of the request, while the skill is looked up */
	struct box_session_op *op; /* the operation that serves it */
};

/* Reads the spec in `data`, and checks everything that can be checked without a box. */
int box_spec_request_read(struct box_request *request, const struct box_value *data,
	struct box_spec_request *ret_asked, struct box_err *err);
/* The same, and the spec must have a command. */
int box_spec_request_read_command(struct box_request *request, const struct box_value *data,
	struct box_spec_request *ret_asked, struct box_err *err);

/* Calls `go` once the skill that the spec names is among its mounts: at once if it names none. Until then the
 * request can be cancelled. A skill that does not exist fails the request. */
void box_spec_request_find_skill(struct box_request *request, struct box_spec_request *asked,
	void (*go)(struct box_request *request, struct box_spec_request *asked));

/* Add the members of a result that say how a command ended: status and exit_code; duration_ms and
 * end. */
void box_spec_request_add_status(struct box_arena *arena, struct box_value *map,
	const struct box_backend_exec_outcome *outcome);
void box_spec_request_add_end(struct box_arena *arena, struct box_value *map,
	const struct box_backend_exec_outcome *outcome);
/* Adds `workspace`, if it has a quota. */
void box_spec_request_add_workspace(struct box_arena *arena, struct box_value *map,
	const struct box_spec *spec, const struct box_backend_exec_outcome *outcome);
