/* Commands in boxes: box-rpc's side. */
#pragma once

#include <stdint.h>

#include "runtime/backend/backend.h"

struct box_buf;

struct box_backend_op *box_local_exec(struct box_backend_box *box, const struct box_spec *spec,
	int64_t max_output_bytes, const struct box_backend_stream *live,
	box_backend_exec_done *done, void *arg);
void box_local_exec_resize(struct box_backend_op *op, uint16_t rows, uint16_t columns);
/* Appends the variables that the environment of every command begins with, then `env`, which overrides them.
 * Returns how many there are. */
uint32_t box_local_exec_append_env(struct box_buf *body, const struct box_env *env, size_t count);
