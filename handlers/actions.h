/* The table of actions, with the rows of protocol/actions.def, and the handlers that it names. */
#pragma once

#include <stddef.h>

#include "base/value.h"

struct box_request;

enum box_action_scope {
	BOX_SCOPE_HOST,   /* needs no context; one that is given must name the trusted instance */
	BOX_SCOPE_TENANT, /* acts for a workspace, of which it must know the generation */
};

/* Which of a connection's limits a request counts against. */
enum box_action_lane {
	BOX_LANE_REQUEST,
	BOX_LANE_CANCEL,
	BOX_LANE_ACK,
	BOX_LANE_COUNT
};

/* A member of data that the dispatcher checks: its presence and its type. */
struct box_action_field {
	const char *name;
	enum box_type type;
	bool required;
};

#define BOX_ACTION_FIELDS_MAX 8

struct box_action {
	const char *name;
	enum box_action_scope scope;
	enum box_action_lane lane;
	bool sandbox; /* refused under admission while isolation is not ready */
	bool claims;  /* changes state: the first such request makes its instance the trusted one */
	void (*handle)(struct box_request *request);
	struct box_action_field fields[BOX_ACTION_FIELDS_MAX + 1]; /* name NULL ends them */
};

extern const struct box_action box_actions[];
extern const size_t box_actions_count;

const struct box_action *box_action_find(struct box_str name);

/* handlers/runtime_actions.c */
void box_action_ping(struct box_request *request);
void box_action_health(struct box_request *request);
void box_action_backend_info(struct box_request *request);
void box_action_init(struct box_request *request);
void box_action_status(struct box_request *request);
void box_action_shutdown(struct box_request *request);
void box_action_storage_analysis(struct box_request *request);
void box_action_upsert_grant(struct box_request *request);
void box_action_revoke_grant(struct box_request *request);
void box_action_verify_workspace(struct box_request *request);
void box_action_cancel(struct box_request *request);

/* handlers/transfers.c */
void box_action_file_chunk(struct box_request *request);

/* handlers/session_actions.c */
void box_action_exec(struct box_request *request);
void box_action_create_session(struct box_request *request);
void box_action_get_session(struct box_request *request);
void box_action_get_sessions(struct box_request *request);
void box_action_delete_session(struct box_request *request);
void box_action_stop_session(struct box_request *request);

/* handlers/exec_stream.c */
void box_action_exec_stream(struct box_request *request);
void box_action_exec_input(struct box_request *request);
void box_action_exec_resize(struct box_request *request);
void box_action_exec_signal(struct box_request *request);

/* handlers/request.c */
void box_action_stream_ack(struct box_request *request);

/* handlers/file_actions.c */
void box_action_file_read(struct box_request *request);
void box_action_file_write(struct box_request *request);
void box_action_file_list(struct box_request *request);
void box_action_file_stat(struct box_request *request);
void box_action_file_mkdir(struct box_request *request);
void box_action_file_remove(struct box_request *request);
void box_action_file_move(struct box_request *request);

/* handlers/file_watch.c */
void box_action_file_watch(struct box_request *request);

/* handlers/process_actions.c */
void box_action_start_process(struct box_request *request);
void box_action_get_process(struct box_request *request);
void box_action_process_output(struct box_request *request);
void box_action_stop_process(struct box_request *request);

/* handlers/skill_actions.c */
void box_action_skill(struct box_request *request);
void box_action_skill_archive(struct box_request *request);
