/* File operations in boxes: box-rpc's side. */
#pragma once

#include "runtime/backend/backend.h"
#include "runtime/backend/backend_file.h"

struct box_backend_op *box_local_file(struct box_backend_box *box,
	const struct box_backend_file_request *ask, const struct box_file_events *events,
	box_backend_file_done *done, void *arg);
