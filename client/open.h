/* What a client stands on: the wire, who we are on it, and the child if it is ours. */
#pragma once

#include <stdint.h>

#include "client/child.h"
#include "client/wire.h"

struct box_client_options;

struct box_link {
	struct box_wire wire;
	struct box_child child;
	bool private; /* the runtime is a child of ours */
	char *instance;
	char *workspace;
	int64_t generation;
	void (*log_line)(void *arg, const char *line);
	void *log_arg;
};

/* Chooses, and dials or starts. The link needs box_link_close also after an error. */
int box_link_open(
	const struct box_client_options *options, struct box_link *link, struct box_err *err);
void box_link_close(struct box_link *link);

/* Who we are and where the runtime is, without dialling it; *ret_token is the caller's of the options
 * or the environment's, or NULL. -ENOTSUP where a child would be started. */
int box_link_address(const struct box_client_options *options, struct box_link *link,
	struct box_endpoint *ret_endpoint, const char **ret_token, struct box_err *err);
