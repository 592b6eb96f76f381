/* The boxes of box-rpc: the object that owns all of them, and one box. For the files local*.c of this folder:
 * local.c (the object), local_box.c (the life of a box), local_control.c (its socket), local_run.c, local_exec.c
 * and local_file.c (what runs in it), local_process*.c (managed processes). */
#pragma once

#include <uv.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/packet_queue.h"
#include "base/table.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/local.h"

/* One for each kind of box; everything else is the same for both kinds. */
struct box_local_backend {
	struct box_backend base;
	struct box_local *local;
	enum box_plan_kind kind;
};

static inline struct box_local_backend *box_local_backend_of(struct box_backend *backend)
{
	return (struct box_local_backend *)(void *)backend;
}

/* Whether microVMs are possible on this host, as far as boxd has reported. */
enum box_local_microvm_state {
	BOX_LOCAL_MICROVM_UNPROBED,
	BOX_LOCAL_MICROVM_PROBING,
	BOX_LOCAL_MICROVM_WORKS,
	BOX_LOCAL_MICROVM_MISSING,
};

struct box_local {
	struct box_local_backend native;
	struct box_local_backend microvm;
	enum box_local_microvm_state microvm_state;
	char microvm_missing[BOX_ERROR_TEXT_MAX]; /* why there can be none */
	bool microvm_probing_again;
	uv_loop_t *loop;
	struct box_local_support support;
	bool degraded;       /* boxes may run without limits */
	char unlimited[768]; /* why limits cannot be set, and what to do */
	const struct box_local_boxd *boxd;
	void *boxd_arg;
	struct box_table by_number;
	/* Held for all running commands, as far as it counts against the limit. */
	uint64_t output_bytes;
};

/* One box. */
struct box_backend_box {
	struct box_local *local;
	uint64_t number;
	bool is_microvm;       /* fds cannot be sent into it */
	uint32_t host_address; /* on the host's loopback, or 0 */

	/* Its life: freed once boxd has reported that it is gone, destroy was called, and nothing refers to it any
	 * more. */
	bool inherited; /* from the previous box-rpc, and not adopted yet */
	bool closed;    /* its init is gone, or sent something invalid */
	bool gone;      /* reported by boxd */
	bool destroying;
	/* Running commands, pending requests to boxd, and callers on the stack. */
	unsigned references;
	box_backend_lost *lost;
	void *lost_arg;
	box_backend_destroy_done *destroyed; /* set once destroy was called */
	void *destroyed_arg;
	uv_timer_t later; /* for work that must not be done inside a call */

	/* Its control socket (local_control.c). */
	int control;
	uv_poll_t poll;
	bool resetting; /* from the previous box-rpc: packets are ignored up to RESET_DONE */
	struct box_packet_queue queue;

	/* What runs in it. */
	struct box_list runs; /* struct box_local_run */
	struct box_table runs_by_id;
	uint32_t last_run_id;
	struct box_table processes; /* struct box_local_process, by their numbers */

	/* OOM kills. */
	int oom_fd; /* the file that counts OOM kills; -1: memory is not limited */
	int oom_rest_fd; /* counts those outside the cgroups of processes, once such cgroups exist; or -1 */
	uint64_t oom_kills; /* already attributed to a command */
};

/* --- local.c --- */

/* The answer to a request for a microVM: boxd can make one, or err says why not. */
void box_local_microvm_probed(struct box_local *local, const struct box_err *err);

/* Fds get the lowest free number. The upper numbers are reserved for what needs an fd in any case: sockets of boxes
 * and clients, and what boxd sends. Pipes are used only below the first mark, since their bytes can take another
 * way; mounts below the second, since they can be requested later. */
#define BOX_LOCAL_PIPE_QUARTERS 2
#define BOX_LOCAL_MOUNT_QUARTERS 3
bool box_local_fd_is_beyond(int fd, unsigned quarters);
/* Whether there are too many open files for this mount, with the error. */
bool box_local_refuse_mount(int mount, struct box_err *err);

/* --- local_box.c --- */

/* NULL if the box is gone. */
struct box_backend_box *box_local_find(const struct box_local *local, uint64_t number);
struct box_backend_op *box_local_make(struct box_backend *backend, const char *physical_id,
	const struct box_spec *spec, box_backend_make_done *done, void *arg);
void box_local_cancel_make(struct box_backend_op *op);
struct box_backend_box *box_local_adopt(struct box_backend *backend, uint64_t number);
void box_local_destroy(struct box_backend_box *box, box_backend_destroy_done *done, void *arg);
/* Closes a box whose init is gone, or cannot be trusted any more. */
void box_local_lost(struct box_backend_box *box, const char *why);
/* Keep the box in memory between these two. */
void box_local_hold(struct box_backend_box *box);
void box_local_release(struct box_backend_box *box);
/* How many processes of the box the OOM killer has killed, outside cgroups of their own. */
uint64_t box_local_oom_kills(const struct box_backend_box *box);
/* The count in such a file; 0 for -1. */
uint64_t box_local_read_oom_kills(int fd);

/* The first member of every operation. */
struct box_backend_op {
	bool is_make; /* otherwise it is a struct box_local_run */
};

/* In runs_by_id and processes. */
static inline struct box_str box_local_key(const uint32_t *id)
{
	return (struct box_str){(const char *)id, sizeof(*id)};
}
