/* The one table of actions: names, who may ask, which fields, who answers. */
#pragma once

#include <stddef.h>

#include "base/value.h"

struct box_request;

enum box_action_scope {
	BOX_SCOPE_HOST,   /* needs no context; one that is given must name the trusted instance */
	BOX_SCOPE_TENANT, /* acts for a workspace, passes the fence */
};

/* Which of a connection's allowances a request counts against. */
enum box_action_lane {
	BOX_LANE_REQUEST,
	BOX_LANE_CANCEL,
	BOX_LANE_ACK,
	BOX_LANES_
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
	void (*handle)(struct box_request *request);
	struct box_action_field fields[BOX_ACTION_FIELDS_MAX + 1]; /* name NULL ends them */
	bool claims; /* changes something: the first one makes its instance the trusted one */
};

extern const struct box_action box_actions[];
extern const size_t box_actions_count;

const struct box_action *box_action_find(struct box_str name);

/* handlers/control.c */
void box_handle_ping(struct box_request *request);
void box_handle_health(struct box_request *request);
void box_handle_backend_info(struct box_request *request);
void box_handle_init(struct box_request *request);
void box_handle_status(struct box_request *request);
void box_handle_shutdown(struct box_request *request);
void box_handle_cancel(struct box_request *request);

/* handlers/files.c */
void box_handle_file_chunk(struct box_request *request);

/* handlers/sessions.c */
void box_handle_exec(struct box_request *request);
void box_handle_create_session(struct box_request *request);
void box_handle_get_session(struct box_request *request);
void box_handle_get_sessions(struct box_request *request);
void box_handle_delete_session(struct box_request *request);
void box_handle_stop_session(struct box_request *request);

/* handlers/streams.c */
void box_handle_exec_stream(struct box_request *request);
void box_handle_exec_input(struct box_request *request);
void box_handle_exec_resize(struct box_request *request);
void box_handle_exec_signal(struct box_request *request);

/* handlers/parts.c */
void box_handle_stream_ack(struct box_request *request);

/* handlers/box_files.c */
void box_handle_file_read(struct box_request *request);
void box_handle_file_write(struct box_request *request);
void box_handle_file_list(struct box_request *request);
void box_handle_file_stat(struct box_request *request);
void box_handle_file_mkdir(struct box_request *request);
void box_handle_file_remove(struct box_request *request);
void box_handle_file_move(struct box_request *request);

/* handlers/box_watch.c */
void box_handle_file_watch(struct box_request *request);

/* handlers/storage.c */
void box_handle_storage_analysis(struct box_request *request);

/* handlers/processes.c */
void box_handle_start_process(struct box_request *request);
void box_handle_get_process(struct box_request *request);
void box_handle_process_output(struct box_request *request);
void box_handle_stop_process(struct box_request *request);

/* handlers/admission.c */
void box_handle_upsert_grant(struct box_request *request);
void box_handle_revoke_grant(struct box_request *request);
void box_handle_verify_workspace(struct box_request *request);

/* handlers/skills.c */
void box_handle_skill(struct box_request *request);
void box_handle_skill_archive(struct box_request *request);
