/* What a session is made of: shared by session.c, which changes it, and session_view.c, which reads
 * it. Nobody else includes this. */
#pragma once

#include "base/list.h"
#include "base/table.h"
#include "runtime/session.h"

enum box_session_state {
	BOX_SESSION_MAKING,
	BOX_SESSION_LIVE,
	BOX_SESSION_REMOVING,
};

struct box_session {
	struct box_sessions *sessions;
	struct box_list links; /* all sessions, oldest first */
	struct box_list ops;
	enum box_session_state state;
	struct box_arena *arena;
	const char *physical_id;
	const char *logical_id;
	char workspace[BOX_NAMESPACE_SIZE];
	int64_t generation;
	struct box_spec spec;
	const struct box_backend_ops *backend;
	const char *backend_name;
	struct box_backend_op *making;
	struct box_backend_box *box;
	unsigned running; /* commands under way */
	int64_t created_utc_us;
	int64_t used_utc_us;
	uint64_t used_ms;
};

struct box_sessions {
	const struct box_session_rules *rules;
	struct box_table by_id;
	struct box_list all;
};
