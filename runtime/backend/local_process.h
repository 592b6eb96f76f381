/* Managed processes in boxes: what box-rpc knows of each, so that a packet about it is accepted only where it
 * can be true. */
#pragma once

#include "base/err.h"
#include "base/list.h"
#include "protocol/init.h"
#include "runtime/backend/backend_process.h"
#include "runtime/backend/local_box.h"

struct box_local_process_volumes;

struct box_local_process {
	uint32_t number;
	const struct box_backend_process_events *events;
	void *arg;
	bool inherited;     /* started by the previous box-rpc */
	bool state_known;   /* a state has been reported */
	bool has_log;       /* it may skip output */
	bool ended;         /* and reported that */
	uint64_t next;      /* offset of the next output */
	uint64_t until;     /* output may arrive up to here */
	uint64_t until_max; /* and up to here, if it was sent before the limit was lower */
	uint64_t input_sent;
	uint64_t input_taken;
	uint64_t oom_kills; /* of the box, when it began */

	/* What is needed before its packets can be sent (local_process_resources.c). */
	unsigned pending; /* how many are missing; until then packets wait in: */
	struct box_list packets;
	bool failed; /* one of them failed: */
	struct box_err failure;
	bool limited;            /* boxd has a cgroup for it, or was requested to make one */
	uint32_t memory_mib;     /* its limit */
	int procs_fd;            /* cgroup.procs of its cgroup, until it is sent, or -1 */
	int oom_fd;              /* counts OOM kills in its cgroup, or -1 */
	uint64_t oom_kills_then; /* count in its cgroup when it was requested to stop */
	struct box_local_process_volumes *volumes; /* until they are sent, or NULL */
};

/* --- local_process.c --- */

extern const struct box_backend_process_ops box_local_process_ops;
struct box_local_process *box_local_process_find(
	const struct box_backend_box *box, uint32_t number);
/* Handles a well-formed packet about a managed process. */
void box_local_process_take_packet(struct box_backend_box *box,
	const struct box_init_header *header, const char *bytes, size_t size);
/* The box is being freed. */
void box_local_process_forget_all(struct box_backend_box *box);

/* --- local_process_resources.c --- */

/* Sends a packet about a process, now or once everything that it needs is there. */
void box_local_process_send(struct box_backend_box *box, struct box_local_process *process,
	uint32_t kind, const void *first, size_t first_size, struct box_str rest);
/* Requests the cgroup of a process from boxd, when it is started or adopted. */
void box_local_process_open_cgroup(
	struct box_backend_box *box, struct box_local_process *process, int64_t memory_mb);
/* Its cgroup is not needed any more. */
void box_local_process_close_cgroup(struct box_backend_box *box, struct box_local_process *process);
/* Lets boxd open the mounts of a process that is started. */
void box_local_process_open_volumes(struct box_backend_box *box, struct box_local_process *process,
	const struct box_mount *mounts, size_t count);
/* Takes NULL. */
void box_local_process_free(struct box_local_process *process);
