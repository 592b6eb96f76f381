/* What boxd_client.c (packets, and who waits for which answer) and boxd_client_requests.c (what is asked) share. */
#pragma once

#include "base/list.h"
#include "protocol/boxd_client.h"

/* A request to boxd that has no answer yet. One of the callbacks is set. */
struct box_boxd_client_request {
	struct box_list links;
	uint32_t id;
	int failed; /* why it could not be asked: told from the loop all the same */
	box_runtime_folder_done *folder;
	box_local_make_done *made;
	box_local_mount_done *mounted;
	box_local_process_cgroup_done *grouped;
	box_local_probe_done *tried;
	box_boxd_client_skills_started *stored;
	box_storage_measure_done *measured;
	void *arg;
};

/* One with an id that nobody has; its callback is the caller's to set. */
struct box_boxd_client_request *box_boxd_client_request_new(
	struct box_boxd_client *link, void *arg);
/* `r` is what came of sending it; what failed is told from the loop all the same. */
void box_boxd_client_request_sent(
	struct box_boxd_client *link, struct box_boxd_client_request *asked, int r);

/* Sends a packet, now or when the socket takes it; the fd (NULL: none) stays the caller's. 0 or
 * -errno. */
int box_boxd_client_post(
	struct box_boxd_client *link, const void *body, size_t size, const int *fd);
