/* box-rpc's end of the socket to box-skills: what is asked of the store waits here for its turn. */
#pragma once

#include <uv.h>

struct box_link;
struct box_skills_ask;
struct box_skills_line;

/* `link` asks boxd for box-skills when it is first needed, and again when it has ended. */
struct box_skills_line *box_skills_line_new(uv_loop_t *loop, struct box_link *link);

/* As struct box_host.ask_skills and cancel_skills. */
void box_skills_line_ask(struct box_skills_line *line, struct box_skills_ask *ask);
void box_skills_line_cancel(struct box_skills_line *line, struct box_skills_ask *ask);
