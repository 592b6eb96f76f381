/* A client in steps that never wait, for line.c, which keeps it alive. */
#pragma once

#include "client/box.h"
#include "client/connection/boxd_child.h"

/* Starts a child, or begins to dial. Request numbers begin after `after_seq_id`. Nothing can be submitted
 * until the connection is up; box_client_fd, box_client_events and box_client_step also serve the dialling. A
 * child that does not end at once when the connection is lost is left to the caller:
 * box_client_take_child. */
int box_client_start(const struct box_client_options *options, int64_t after_seq_id,
	struct box_client **ret_client, struct box_err *err);
/* The same, from now on, for a client of box_client_open: its child is not waited for when the connection is
 * lost. */
void box_client_keep_child_on_loss(struct box_client *client);
bool box_client_is_connected(const struct box_client *client);
int box_client_timeout_ms(const struct box_client *client); /* -1: any time */

/* Ends the connection: every request is answered with `why`. */
void box_client_disconnect(struct box_client *client, const struct box_err *why);
/* The child that has not ended, if any; its stdin is closed. pid 0: none. */
struct box_boxd_child box_client_take_child(struct box_client *client);

int64_t box_client_last_seq_id(const struct box_client *client);
/* How many answers have arrived. */
uint64_t box_client_answer_count(const struct box_client *client);
