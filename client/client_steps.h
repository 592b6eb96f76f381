/* A client in steps, for who keeps it alive (line.c): nothing here waits. */
#pragma once

#include "client/box.h"
#include "client/connection/boxd_child.h"

/* Starts a child or to dial. Numbers of requests begin behind `after_seq_id`. Until it is
 * dialled nothing can be submitted; box_client_fd, box_client_events and box_client_step do that
 * too. A child that does not end at once when the connection is lost is left to the caller:
 * box_client_take_child. */
int box_client_start(const struct box_client_options *options, int64_t after_seq_id,
	struct box_client **ret_client, struct box_err *err);
/* The same from now on for one that box_client_open made: its child is not waited for when it is
 * lost. */
void box_client_keep_child_on_loss(struct box_client *client);
bool box_client_is_connected(const struct box_client *client);
int box_client_timeout_ms(const struct box_client *client); /* -1: any time */

/* Ends the connection: every request is answered with `why`. */
void box_client_disconnect(struct box_client *client, const struct box_err *why);
/* The child that has not ended, if any; its stdin is closed. pid 0: none. */
struct box_boxd_child box_client_take_child(struct box_client *client);

int64_t box_client_last_seq_id(const struct box_client *client);
/* How many answers have come. */
uint64_t box_client_answer_count(const struct box_client *client);
