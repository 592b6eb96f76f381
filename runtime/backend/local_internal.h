/* What a native box is made of in box-rpc: shared by local.c (which there are, and their end),
 * local_make.c (their beginning), local_control.c (packets), local_exec.c, local_exec_answer.c,
 * local_stdio.c and local_pipes.c (commands), local_file.c (files), local_measure.c (storage),
 * local_process.c, local_process_cgroup.c and local_process_volumes.c (managed processes), local_microvm.c (whether
 * there can be microVMs). Nobody else includes this. */
#pragma once

#include <uv.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/packet_queue.h"
#include "base/table.h"
#include "protocol/init.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/backend_process.h"
#include "runtime/backend/local.h"

/* One for each kind of box; all else is the same for both. */
struct box_local_kind {
	struct box_backend base;
	struct box_local *native;
	enum box_plan_kind kind;
};

static inline struct box_local_kind *box_local_kind_of(struct box_backend *backend)
{
	return (struct box_local_kind *)(void *)backend;
}

/* Whether microVMs can be had here, as far as boxd has said. */
enum box_local_microvm_support {
	BOX_LOCAL_MICROVM_UNPROBED,
	BOX_LOCAL_MICROVM_PROBING,
	BOX_LOCAL_MICROVM_WORKS,
	BOX_LOCAL_MICROVM_MISSING,
};

struct box_local {
	struct box_local_kind boxes;
	struct box_local_kind machines;
	enum box_local_microvm_support machines_state;
	char machines_missing[BOX_ERROR_TEXT_MAX];
	bool machines_looking; /* it was asked again */
	uv_loop_t *loop;
	struct box_local_support means;
	bool degraded;       /* allowed */
	char unlimited[768]; /* why there are no limits, and what to do */
	const struct box_local_boxd *keeper;
	void *keeper_arg;
	struct box_table by_number;
	uint64_t output_bytes; /* of all commands under way, as far as it counts */
};

struct box_backend_box {
	struct box_local *native;
	uint64_t number;
	uv_poll_t poll; /* of the control socket */
	int control;
	int memory;            /* kills for memory; -1: not limited */
	int rest;              /* and those since processes have groups of their own, or -1 */
	uint32_t host_address; /* on the host's loopback, or 0 */
	bool is_machine;       /* a microVM: fds do not get there */
	bool resetting;        /* of a predecessor: nothing counts before RESET_DONE */
	bool kept;             /* nobody has adopted it */
	bool deaf;             /* its init is gone, or spoke nonsense */
	bool gone;             /* boxd says so */
	struct box_list runs;
	struct box_table runs_by_id;
	unsigned run_count;
	struct box_table processes; /* by their numbers */
	uint32_t next_id;
	struct box_packet_queue queue; /* packets that wait for the socket */
	uint64_t oom_kills;            /* accounted for already */
	box_backend_lost *lost;
	void *lost_arg;
	box_backend_destroy_done *destroyed; /* set once destroy was asked */
	void *destroyed_arg;
	bool destroying;
	uv_timer_t later; /* for what must not be told or done at once */
};

/* --- local.c --- */

/* Fds are given out from the lowest on. The upper ones are for what cannot do without: sockets of boxes
 * and clients, and what boxd sends. Pipes can, and leave some for mounts, which cannot but may wait. */
#define BOX_LOCAL_PIPE_QUARTERS 2
#define BOX_LOCAL_MOUNT_QUARTERS 3
bool box_local_fd_is_beyond(int fd, unsigned quarters);
/* Whether a mount is not kept for that, and why. */
bool box_local_refuse_mount(int mount, struct box_err *err);
/* NULL when it is gone. */
struct box_backend_box *box_local_find(const struct box_local *native, uint64_t number);
/* One that boxd has, with its fds. NULL when it cannot be listened to: then it is ended. */
struct box_backend_box *box_local_add(
	struct box_local *native, uint64_t number, int control, int memory);
void box_local_destroy(struct box_backend_box *box, box_backend_destroy_done *done, void *arg);

/* --- local_make.c --- */

struct box_backend_op *box_local_make(struct box_backend *backend, const char *physical_id,
	const struct box_spec *spec, box_backend_make_done *done, void *arg);
void box_local_cancel_make(struct box_backend_op *op);

/* --- local_control.c --- */

/* Begins to listen to the box. */
int box_local_control_listen(struct box_backend_box *box);
/* Sends a packet, now or when the socket takes it. `fd` (-1: none) is taken. */
void box_local_control_send(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *first, size_t first_size, const void *rest, size_t rest_size, int fd);
/* The same with a number in place of an fd. */
void box_local_control_send_number(struct box_backend_box *box, uint32_t kind, uint32_t id,
	const void *bytes, size_t size, uint32_t number);
/* Takes what lies in the socket, now. */
void box_local_control_read(struct box_backend_box *box);

struct box_local_run;

/* --- local_exec.c --- */

struct box_backend_op *box_local_exec(struct box_backend_box *box, const struct box_spec *spec,
	int64_t max_output_bytes, const struct box_backend_stream *live,
	box_backend_exec_done *done, void *arg);
void box_local_exec_cancel(struct box_backend_op *op);
/* One that is listed, with an id, and not sent. */
struct box_local_run *box_local_exec_new_run(struct box_backend_box *box, int64_t max_output_bytes,
	box_backend_exec_done *done, void *arg);
/* Whether the box can take one more: 0, or negative with run->refusal. */
int box_local_exec_check_capacity(struct box_local_run *run);
/* Has boxd open its mounts, one after the other, then sends it. */
void box_local_exec_begin(
	struct box_local_run *run, const struct box_mount *mounts, size_t mount_count);
/* Whether a process of a box can have these: 0, or negative with err. */
int box_local_exec_check_mounts(const struct box_mount *mounts, size_t count, struct box_err *err);
/* Will be told run->refusal. */
void box_local_exec_refuse(struct box_local_run *run);
/* box-init must have ended it by then, and a little more. */
void box_local_exec_set_deadline(struct box_local_run *run, uint64_t timeout_ms);
/* From now on it has the time again that box-init may be late with its end. */
void box_local_exec_reset_deadline(struct box_local_run *run);
/* Tells whoever asked, unless it was cancelled, and frees the run. */
void box_local_exec_finish(struct box_local_run *run,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err);

/* What every command begins with, and `env` over it; how many variables. */
uint32_t box_local_exec_append_env(struct box_buf *body, const struct box_env *env, size_t count);

/* --- local_file.c --- */

struct box_local_file;
struct box_backend_op *box_local_file(struct box_backend_box *box,
	const struct box_backend_file_request *ask, const struct box_file_events *events,
	box_backend_file_done *done, void *arg);
/* Its mounts are open. */
void box_local_file_send(struct box_local_run *run);
/* It was cancelled: what was asked is its asker's no more. */
void box_local_file_forget(struct box_local_run *run);

/* --- local_process.c --- */

/* One managed process. */
struct box_local_process {
	uint32_t number;
	const struct box_backend_process_events *events;
	void *arg;
	bool found;     /* a predecessor began it */
	bool told;      /* a state has come */
	bool has_log;   /* it may skip output */
	bool ended;     /* and said so */
	uint64_t next;  /* offset of the output that comes next */
	uint64_t until; /* it may come up to here */
	uint64_t most;  /* and what it sent before it knew that, up to here */
	uint64_t fed;   /* input that was sent */
	uint64_t taken;
	uint64_t oom_kills; /* of the box, when it began */
	bool limited;       /* boxd has a group for it, or is asked for one */
	uint32_t mebibytes; /* of it */
	unsigned waits;     /* for so many things; until all are there, packets wait in: */
	struct box_list packets;
	int door;                                  /* of its group, until it is sent, or -1 */
	struct box_local_process_volumes *volumes; /* until they are sent, or NULL */
	bool failed;                               /* one of them is not to be had: */
	struct box_err failure;
	int kills;        /* the file that tells kills in its group, or -1 */
	uint64_t excused; /* kills in its group before it was asked to stop */
};

struct box_local_process *box_local_process_find(
	const struct box_backend_box *box, uint32_t number);
extern const struct box_backend_process_ops box_local_process_ops;
/* A packet about a managed process; well-formed. */
void box_local_process_take_packet(struct box_backend_box *box,
	const struct box_init_header *header, const char *bytes, size_t size);
void box_local_process_forget_all(struct box_backend_box *box);

/* --- local_process_cgroup.c --- */

/* Sends a packet about a process, now or when its group is there. */
void box_local_process_send(struct box_backend_box *box, struct box_local_process *kept,
	uint32_t kind, const void *first, size_t first_size, struct box_str rest);
/* One of what it waits for is there, or err says why not. */
void box_local_process_resource_ready(
	struct box_backend_box *box, struct box_local_process *kept, const struct box_err *err);
/* Asks boxd for the group of a process that is begun or found. What is sent from now on waits. */
void box_local_process_open_cgroup(
	struct box_backend_box *box, struct box_local_process *kept, int64_t memory_mb);
/* Nobody needs its group any more. */
void box_local_process_close_cgroup(struct box_backend_box *box, struct box_local_process *kept);
/* Takes NULL. */
void box_local_process_free(struct box_local_process *kept);

/* --- local_process_volumes.c --- */

struct box_local_process_volumes;
/* Has boxd open the mounts of a process that is begun. What is sent from now on waits. */
void box_local_process_open_volumes(struct box_backend_box *box, struct box_local_process *kept,
	const struct box_mount *mounts, size_t count);
/* Sends them, in front of the packet that begins it. */
void box_local_process_send_volumes(struct box_backend_box *box, struct box_local_process *kept);
/* Takes NULL. */
void box_local_process_free_volumes(struct box_local_process_volumes *volumes);

/* --- local_exec_answer.c --- */

/* What an errno that came from a box means. */
const char *box_local_exec_error_text(int errnum);

void box_local_exec_credit(struct box_backend_op *op, uint64_t bytes);
void box_local_exec_signal(struct box_backend_op *op, int number);
void box_local_exec_resize(struct box_backend_op *op, uint16_t rows, uint16_t columns);
/* Bytes of a command, wherever they came from. */
void box_local_exec_take_output(
	struct box_local_run *run, bool is_stderr, const char *bytes, size_t size);
/* It has ended: whoever asked is told, when what it left in its pipes has gone out. */
void box_local_exec_conclude(struct box_local_run *run);
/* A packet about a command; well-formed. */
void box_local_exec_take_packet(struct box_backend_box *box, const struct box_init_header *header,
	const char *bytes, size_t size);
/* The box is no more: every command is told so. */
void box_local_exec_fail_all(struct box_backend_box *box, const struct box_err *err);

/* --- local_microvm.c --- */

/* What came of asking boxd for a microVM: it can, or err says why not. */
void box_local_microvm_probed(struct box_local *native, const struct box_err *err);

/* --- local.c --- */

/* Its init is gone or cannot be believed. */
void box_local_lost(struct box_backend_box *box, const char *why);
/* How many of it the kernel has killed for memory, outside of groups of their own. */
uint64_t box_local_oom_kills(const struct box_backend_box *box);
/* What such a file tells; 0 for -1. */
uint64_t box_local_read_oom_kills(int events);
/* A command of the box is over: the box may have waited for that with its own end. */
void box_local_run_ended(struct box_backend_box *box);

/* The first member of every operation. */
struct box_backend_op {
	bool is_make;
};

/* One command. */
struct box_local_run {
	struct box_backend_op op;
	struct box_list links;
	struct box_backend_box *box;
	uint32_t id;
	bool cancelled; /* its EXIT is waited for, and nobody is told */
	bool sent;
	bool started;      /* box-init says so */
	bool told_started; /* and whoever asked knows */
	bool late;         /* its end was due */
	bool refused;      /* will be told so by its timer, with: */
	struct box_err refusal;
	uv_timer_t backstop;
	const struct box_spec *spec; /* the caller's, until done */
	struct box_arena *arena;
	const struct box_mount *wanted; /* the caller's, until done; none when it was cancelled */
	size_t wanted_count;
	size_t next_mount;
	int *mounts; /* opened so far */
	int64_t max_output_bytes;
	struct box_buf out;
	struct box_buf err;
	uint64_t out_discarded;
	uint64_t err_discarded;
	uint64_t oom_kills; /* when it began */
	box_backend_exec_done *done;
	void *arg;
	const struct box_backend_stream_events *live; /* NULL: output is gathered */
	bool has_stdin;
	struct box_init_size size; /* of its terminal, or zeros */
	uint32_t grace_ms;         /* of a live one */
	uint64_t credit;           /* of a live one, at first; then what output may still come */
	struct box_list inputs;
	uint64_t input_sent;  /* to box-init */
	uint64_t input_taken; /* by the command */
	bool input_ended;
	struct box_local_file *file;         /* what it works on, when it is no command */
	struct box_local_stdio_pipes *pipes; /* NULL: its bytes come and go by packets */
	bool exited;                         /* its EXIT is here: */
	struct box_init_exit end;
};

static inline struct box_local_run *box_local_run_of(struct box_backend_op *op)
{
	return (struct box_local_run *)(void *)op;
}

/* In runs_by_id. */
static inline struct box_str box_local_run_key(const uint32_t *id)
{
	return (struct box_str){(const char *)id, sizeof(*id)};
}

/* How much of so many bytes of one stream counts for all commands together. */
static inline size_t box_local_counted_output(size_t len)
{
	return len > BOX_OUTPUT_BYTES_MIN ? len - BOX_OUTPUT_BYTES_MIN : 0;
}

/* --- local_stdio.c --- */

void box_local_stdio_input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg);
void box_local_stdio_forget_input(struct box_backend_op *op, void *arg);
/* Sends as much as may be under way. */
void box_local_stdio_send_input(struct box_local_run *run);
void box_local_stdio_input_taken(struct box_local_run *run, uint64_t bytes);
/* After the last of it. */
void box_local_stdio_end_input(struct box_local_run *run);
/* The command is over: what is not in will never be. */
void box_local_stdio_drop_input(struct box_local_run *run);
/* Of one with pipes: they take what they take, and whoever gave it is told. */
void box_local_stdio_feed_pipe(struct box_local_run *run);

/* --- local_pipes.c --- */

/* Makes the pipes of a live command, if it can have some; the command's ends are for box-init. */
bool box_local_stdio_open_pipes(struct box_local_run *run, int ret_fds[3]);
/* Reads or does not, according to the credit there is. */
void box_local_stdio_update_reading(struct box_local_run *run);
/* After the end of the command: reads what it left. False: there is more than there is credit. */
bool box_local_stdio_drain_pipes(struct box_local_run *run);
/* Has box_local_stdio_feed_pipe called when its stdin takes something. */
void box_local_stdio_want_write(struct box_local_run *run);
/* How much of it was taken; all of it when nobody will ever read it. */
size_t box_local_stdio_write_pipe(struct box_local_run *run, struct box_str bytes);
void box_local_stdio_close_stdin(struct box_local_run *run);
/* Takes one without. What others may still write to goes to box-init. */
void box_local_stdio_close_pipes(struct box_local_run *run);
