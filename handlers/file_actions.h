/* Handlers for files in boxes: what file_actions.c (the actions with one answer) offers to file_watch.c (the
 * one that streams). */
#pragma once

#include "handlers/request.h"
#include "runtime/session/session.h"

struct box_file_action {
	struct box_session_file file; /* its `ask` is complete once there is a session */
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	struct box_session_op *op; /* the operation that serves it */
	struct box_str path;       /* as the client wrote them */
	struct box_str to;
	const char *path_field;
};

/* Reads the session and the paths, which all kinds have, and begins; the rest of `ask` is filled in by the
 * caller, with mode -1 for "none given". request->work must be the struct that `asked` is the first member
 * of. 0, or negative: the request has failed. */
int box_file_action_begin(
	struct box_request *request, struct box_file_action *asked, box_session_file_done *done);

/* Adds a path as text, or, when it is not valid UTF-8, as base64 under a key of its own. */
void box_file_action_add_text(struct box_arena *arena, struct box_value *map, const char *key,
	const char *base64_key, struct box_str text);
