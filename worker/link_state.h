/* What link.c (packets, and who waits for which answer) and link_ask.c (what is asked) share. */
#pragma once

#include "base/list.h"
#include "worker/link.h"

/* A request to boxd that has no answer yet. One of the callbacks is set. */
struct box_link_asked {
	struct box_list links;
	uint32_t id;
	int failed; /* why it could not be asked: told from the loop all the same */
	box_folder_done *folder;
	box_native_made *made;
	box_native_mounted *mounted;
	box_native_grouped *grouped;
	box_native_tried *tried;
	box_link_stored *stored;
	box_measured_done *measured;
	void *arg;
};

/* One with an id that nobody has; its callback is the caller's to set. */
struct box_link_asked *box_link_asked_new(struct box_link *link, void *arg);
/* `r` is what came of sending it; what failed is told from the loop all the same. */
void box_link_asked_sent(struct box_link *link, struct box_link_asked *asked, int r);

/* Sends a packet, now or when the socket takes it; the fd (NULL: none) stays the caller's. 0 or
 * -errno. */
int box_link_post(struct box_link *link, const void *body, size_t size, const int *fd);
