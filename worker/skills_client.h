/* box-rpc's end of the socket to box-skills; requests wait here for their turn. Called by the runtime. */
#pragma once

#include <uv.h>

struct box_boxd_client;
struct box_skill_store_request;
struct box_skills_client;

/* boxd starts box-skills when it is first needed, and again after it has ended. */
struct box_skills_client *box_skills_client_new(uv_loop_t *loop, struct box_boxd_client *boxd);

/* As struct box_runtime_host.ask_skills and cancel_skills. */
void box_skills_client_request(
	struct box_skills_client *client, struct box_skill_store_request *ask);
void box_skills_client_cancel(
	struct box_skills_client *client, struct box_skill_store_request *ask);
