/* The member `egress` of a box spec: parsed and printed. */
#pragma once

#include "runtime/spec/fields.h"
#include "runtime/spec/spec.h"

/* Reads into a struct box_egress *, in the arena and normalised; a row of kind BOX_FIELD_OTHER. */
int box_spec_egress_read(
	const struct box_fields *fields, const struct box_value *value, void *member);

/* In its wire form: reading it gives the same. */
struct box_value box_spec_egress_value(struct box_arena *arena, const struct box_egress *egress);
/* In one line, for an error; "None" for NULL. */
const char *box_spec_egress_text(struct box_arena *arena, const struct box_egress *egress);
