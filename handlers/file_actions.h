/* Work on files in boxes, as the handlers of its actions share it: file_actions.c (those with one
 * answer), file_watch.c (the one that streams) and file_actions_begin.c (what is asked). */
#pragma once

#include "handlers/request.h"
#include "runtime/session/session.h"

struct box_file_action {
	struct box_session_file file; /* its ask is whole when there is a session */
	char physical_id[BOX_PHYSICAL_ID_SIZE];
	struct box_session_op *op; /* what serves it */
	struct box_str path;       /* as the client wrote them */
	struct box_str to;
	const char *path_field;
};

/* Reads what all kinds have and begins; `ask` has what is special to this one, with -1 for no mode.
 * request->work must be what `asked` is the first member of. 0, or negative: the request has failed. */
int box_file_action_begin(
	struct box_request *request, struct box_file_action *asked, box_session_file_done *done);

/* As text, or as base64 under a key of its own where it is no UTF-8. */
void box_file_action_add_text(struct box_arena *arena, struct box_value *map, const char *key,
	const char *base64_key, struct box_str text);
