/* What a client stands on: the wire, who we are on it, and the child if it is ours. */
#pragma once

#include <stdint.h>

#include "client/connection/boxd_child.h"
#include "client/connection/wire.h"
#include "client/connection/ws_connect.h"

struct box_client_options;

struct box_client_link {
	struct box_wire wire;
	struct box_ws_connect *reach; /* while it is dialled; then the wire is not there yet */
	struct box_boxd_child child;
	bool private; /* the runtime is a child of ours */
	char *instance;
	char *token;    /* NULL: none */
	char *endpoint; /* that was dialled; NULL: a child */
	char *workspace;
	int64_t generation;
	void (*log_line)(void *arg, const char *line);
	void *log_arg;
};

/* Chooses, and starts a child or to dial: nothing waits. The link needs box_client_link_close also
 * after an error. */
int box_client_link_start(const struct box_client_options *options, struct box_client_link *link,
	struct box_err *err);
void box_client_link_close(struct box_client_link *link);

/* A step of the dialling. 1: the wire is there. */
int box_client_link_step(struct box_client_link *link, struct box_err *err);

/* Who we are and where the runtime is, without dialling it. -ENOTSUP where a child would be
 * started. */
int box_client_link_address(const struct box_client_options *options, struct box_client_link *link,
	struct box_endpoint *ret_endpoint, struct box_err *err);

/* Which carrier and address the options mean. */
struct box_connector_choice box_client_link_choose(
	const struct box_client_options *options, enum box_connector_shares shares);
