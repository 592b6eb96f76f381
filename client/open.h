/* What a client stands on: the wire, who we are on it, and the child if it is ours. */
#pragma once

#include <stdint.h>

#include "client/child.h"
#include "client/reach.h"
#include "client/wire.h"

struct box_client_options;

struct box_link {
	struct box_wire wire;
	struct box_reach *reach; /* while it is dialled; then the wire is not there yet */
	struct box_child child;
	bool private; /* the runtime is a child of ours */
	char *instance;
	char *token;    /* NULL: none */
	char *endpoint; /* that was dialled; NULL: a child */
	char *workspace;
	int64_t generation;
	void (*log_line)(void *arg, const char *line);
	void *log_arg;
};

/* Chooses, and starts a child or to dial: nothing waits. The link needs box_link_close also
 * after an error. */
int box_link_start(
	const struct box_client_options *options, struct box_link *link, struct box_err *err);
void box_link_close(struct box_link *link);

/* A step of the dialling. 1: the wire is there. */
int box_link_step(struct box_link *link, struct box_err *err);

/* Who we are and where the runtime is, without dialling it. -ENOTSUP where a child would be
 * started. */
int box_link_address(const struct box_client_options *options, struct box_link *link,
	struct box_endpoint *ret_endpoint, struct box_err *err);

/* Which carrier and address the options mean. */
struct box_connector_choice box_link_choose(
	const struct box_client_options *options, enum box_shares shares);
