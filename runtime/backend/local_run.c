/* The life of a run (local_run.h): its mounts, its deadline, its output and its end. */
#include "runtime/backend/local_run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "plan/plan.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_stdio.h"

#define LATE_MS 5000 /* how late box-init may be with the end of a run */

/* How many bytes of one stream count against the limit for all commands together. */
static size_t counted_output(size_t len)
{
	return len > BOX_OUTPUT_BYTES_MIN ? len - BOX_OUTPUT_BYTES_MIN : 0;
}

static void timer_closed(uv_handle_t *handle)
{
	struct box_local_run *run = handle->data;
	box_arena_free(run->arena);
}

/* From now on packets for it are ignored. */
static void detach(struct box_local_run *run)
{
	for (size_t i = 0; i < run->mounts.opened; i++) {
		box_close_p(&run->mounts.fds[i]);
		run->mounts.fds[i] = -1;
	}
	box_table_remove(&run->box->runs_by_id, box_local_key(&run->id));
	box_list_drop(&run->links);
	(void)uv_timer_stop(&run->timer);
}

/* The outcome points into the run, which is therefore freed after the callback; the box may be gone by then. */
void box_local_run_finish(struct box_local_run *run, const struct box_backend_exec_outcome *outcome,
	const struct box_err *err)
{
	struct box_local *local = run->box->local;
	struct box_backend_box *box = run->box;
	detach(run);
	box_local_stdio_drop_input(run);
	box_local_stdio_close_pipes(run);
	if (!run->cancelled) {
		run->done(run->arg, outcome, err);
	}
	local->output_bytes -= counted_output(run->output.out.len) +
		counted_output(run->output.err.len);
	box_buf_free(&run->output.out);
	box_buf_free(&run->output.err);
	uv_close((uv_handle_t *)&run->timer, timer_closed);
	box_local_release(box);
}

/* --- start --- */

void *box_local_run_new(struct box_backend_box *box, size_t size,
	const struct box_local_run_ops *ops, int64_t max_output_bytes, box_backend_exec_done *done,
	void *arg)
{
	struct box_arena *arena = box_arena_new();
	struct box_local_run *run = box_arena_alloc(arena, size);
	run->arena = arena;
	run->box = box;
	run->ops = ops;
	run->done = done;
	run->arg = arg;
	run->output.out = box_buf((size_t)max_output_bytes);
	run->output.err = box_buf((size_t)max_output_bytes);
	box_list_init(&run->input.waiting);
	do {
		run->id = ++box->last_run_id;
	} while (run->id == 0 || (run->id & BOX_INIT_MOUNT_OF_PROCESS) ||
		box_table_get(&box->runs_by_id, box_local_key(&run->id)));
	box_list_init(&run->links);
	box_list_push(&box->runs, &run->links);
	box_local_hold(box);
	box_table_put(&box->runs_by_id, box_local_key(&run->id), run);
	(void)uv_timer_init(box->local->loop, &run->timer);
	run->timer.data = run;
	run->oom_kills = box_local_oom_kills(box);
	return run;
}

int box_local_run_check_mounts(const struct box_mount *mounts, size_t count, struct box_err *err)
{
	int r = 0;
	if (count > BOX_INIT_MOUNTS_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
			"extra_mounts has more than %u members", BOX_INIT_MOUNTS_MAX);
	}
	for (size_t i = 0; i < count && r == 0; i++) {
		r = box_plan_check_target(mounts[i].mount_path, "extra_mounts.mount_path", err);
	}
	return r;
}

int box_local_run_check_capacity(struct box_local_run *run)
{
	struct box_err *err = &run->refusal;
	if (run->box->closed) {
		return box_err_set(err, BOX_ERR_BOX, EPIPE, "the box has ended");
	}
	if (run->box->runs_by_id.count > BOX_INIT_RUNS_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many commands at once in one session (%u)", BOX_INIT_RUNS_MAX);
	}
	if (run->box->queue.size_bytes > BOX_INIT_QUEUE_RUNS_BYTES_MAX) {
		return box_err_set(
			err, BOX_ERR_CAPACITY, EAGAIN, "too much data waits to be sent to the box");
	}
	return 0;
}

static void refuse_cb(uv_timer_t *timer)
{
	struct box_local_run *run = timer->data;
	box_local_run_finish(run, NULL, &run->refusal);
}

void box_local_run_refuse(struct box_local_run *run)
{
	run->refused = true;
	(void)uv_timer_start(&run->timer, refuse_cb, 0, 0);
}

static void send_mounts(struct box_local_run *run)
{
	for (size_t i = 0; i < run->mounts.count; i++) {
		const char *target = run->mounts.wanted[i].mount_path;
		box_local_control_send(run->box, BOX_INIT_MOUNT, run->id, target,
			strlen(target) + 1, NULL, 0, TAKE_FD(run->mounts.fds[i]));
	}
}

static void open_next_mount(struct box_local_run *run);

static void mounted(void *arg, int mount, const struct box_err *err)
{
	struct box_local_run *run = arg;
	struct box_err own;
	if (!err && run->box->closed) {
		(void)box_err_set(&own, BOX_ERR_BOX, EPIPE, "the box has ended");
		err = &own;
	}
	if (!err && box_local_refuse_mount(mount, &own)) {
		err = &own;
	}
	if (!err && !run->cancelled) {
		run->mounts.fds[run->mounts.opened++] = mount;
		open_next_mount(run);
		return;
	}
	box_close_p(&mount);
	box_local_run_finish(run, NULL, err);
}

static void open_next_mount(struct box_local_run *run)
{
	if (run->mounts.opened == run->mounts.count) {
		send_mounts(run);
		run->ops->send(run);
		return;
	}
	const struct box_mount *wanted = &run->mounts.wanted[run->mounts.opened];
	struct box_local *local = run->box->local;
	local->boxd->mount(local->boxd_arg, run->box->number, wanted, mounted, run);
}

void box_local_run_begin(
	struct box_local_run *run, const struct box_mount *mounts, size_t mount_count)
{
	run->mounts.wanted = mounts;
	run->mounts.count = mount_count;
	run->mounts.fds = box_arena_alloc(run->arena, (mount_count + 1) * sizeof(int));
	open_next_mount(run);
}

/* --- the deadline --- */

static void deadline_cb(uv_timer_t *timer)
{
	struct box_local_run *run = timer->data;
	run->late = true;
	/* Timers run before sockets are read: the end may be in the socket. */
	box_local_control_read(run->box);
	if (uv_is_closing((const uv_handle_t *)timer)) {
		return;
	}
	if (run->exited || (run->output.live && run->output.credit == 0 && !run->cancelled)) {
		/* The end waits until the rest of the output is read. */
		box_local_run_reset_deadline(run);
		return;
	}
	run->ops->late(run);
}

void box_local_run_reset_deadline(struct box_local_run *run)
{
	(void)uv_timer_start(&run->timer, deadline_cb, LATE_MS, 0);
}

void box_local_run_set_deadline(struct box_local_run *run, uint64_t timeout_ms)
{
	(void)uv_timer_start(&run->timer, deadline_cb, timeout_ms + LATE_MS, 0);
}

/* --- while it runs --- */

static void gather(struct box_local_run *run, struct box_buf *buf, uint64_t *discarded,
	const char *bytes, size_t size)
{
	struct box_local *local = run->box->local;
	if (size > buf->limit - buf->len - *discarded) {
		box_local_lost(run->box, "it sent more output than allowed");
		return;
	}
	size_t room = local->output_bytes < BOX_OUTPUTS_BYTES_MAX
		? BOX_OUTPUTS_BYTES_MAX - local->output_bytes
		: 0;
	room += buf->len < BOX_OUTPUT_BYTES_MIN ? BOX_OUTPUT_BYTES_MIN - buf->len : 0;
	size_t held = BOX_MIN(size, room);
	/* After the first dropped byte nothing is kept, so that the output has no gap. */
	if (*discarded > 0 || run->cancelled) {
		held = 0;
	}
	if (held > 0) {
		local->output_bytes -= counted_output(buf->len);
		(void)box_buf_append(buf, bytes, held);
		local->output_bytes += counted_output(buf->len);
	}
	*discarded += size - held;
}

/* Called before any output of it, whichever packet arrives first. */
static void report_started(struct box_local_run *run)
{
	if (run->output.live && !run->output.has_reported && !run->cancelled) {
		run->output.has_reported = true;
		run->output.live->started(run->arg);
	}
}

static void take_started(struct box_local_run *run)
{
	if (run->output.started) {
		box_local_lost(run->box, "it started a command twice");
		return;
	}
	run->output.started = true;
	report_started(run);
}

void box_local_run_take_output(
	struct box_local_run *run, bool is_stderr, const char *bytes, size_t size)
{
	if (!run->output.live) {
		gather(run, is_stderr ? &run->output.err : &run->output.out,
			is_stderr ? &run->output.err_discarded : &run->output.out_discarded, bytes,
			size);
		return;
	}
	if (size > run->output.credit) {
		box_local_lost(run->box, "it sent more output than allowed");
		return;
	}
	run->output.credit -= size;
	report_started(run);
	if (!run->cancelled) {
		run->output.live->output(run->arg, is_stderr, (struct box_str){bytes, size});
	}
}

void box_local_run_credit(struct box_backend_op *op, uint64_t bytes)
{
	struct box_local_run *run = box_local_run_of(op);
	run->output.credit += bytes;
	if (run->late) {
		box_local_run_reset_deadline(run);
	}
	if (run->pipes) {
		box_local_stdio_update_reading(run);
	} else if (run->sent) {
		box_local_control_send(
			run->box, BOX_INIT_CREDIT, run->id, &bytes, sizeof(bytes), NULL, 0, -1);
	}
}

void box_local_run_signal(struct box_backend_op *op, int number)
{
	struct box_local_run *run = box_local_run_of(op);
	uint32_t wanted = (uint32_t)number;
	if (run->sent) {
		box_local_control_send(
			run->box, BOX_INIT_SIGNAL, run->id, &wanted, sizeof(wanted), NULL, 0, -1);
	}
}

static void conclude_cb(uv_timer_t *timer)
{
	box_local_run_conclude(timer->data);
}

void box_local_run_cancel(struct box_backend_op *op)
{
	struct box_local_run *run = box_local_run_of(op);
	run->cancelled = true;
	run->mounts.wanted = NULL;
	run->ops->forget(run);
	if (run->pipes) {
		box_local_stdio_update_reading(run);
	}
	if (run->exited) {
		/* It only waits for its pipes; the timer ends it, outside this call. */
		(void)uv_timer_start(&run->timer, conclude_cb, 0, 0);
		return;
	}
	if (run->sent) {
		box_local_control_send(run->box, BOX_INIT_KILL, run->id, NULL, 0, NULL, 0, -1);
		box_local_run_reset_deadline(run);
		return;
	}
	/* Otherwise a mount was requested from boxd, whose answer ends the run. */
	if (run->refused) {
		box_local_run_finish(run, NULL, NULL);
	}
}

/* --- the end --- */

static const char *step_text(uint32_t step)
{
	static const char *const texts[BOX_INIT_STEPS_] = {
		[BOX_INIT_STEP_NONE] = "unknown step",
		[BOX_INIT_STEP_REQUEST] = "the request was refused",
		[BOX_INIT_STEP_MEMORY] = "memory for the command",
		[BOX_INIT_STEP_PIPES] = "pipes",
		[BOX_INIT_STEP_CLONE] = "a new process",
		[BOX_INIT_STEP_MOUNT] = "mounts",
		[BOX_INIT_STEP_IDS] = "user ids",
		[BOX_INIT_STEP_CONFINE] = "its confinement",
		[BOX_INIT_STEP_EXEC] = "/bin/sh",
		[BOX_INIT_STEP_CGROUP] = "its memory limit",
	};
	return step < BOX_INIT_STEPS_ && texts[step] ? texts[step] : "unknown step";
}

const char *box_local_run_error_text(int errnum)
{
	const char *text = box_err_strerror(errnum);
	return text ? text : "unknown error";
}

static void finish_unstarted(struct box_local_run *run, const struct box_init_exit *end)
{
	struct box_err err;
	int errnum = end->value > 0 && end->value < 4096 ? end->value : EPROTO;
	if (run->ops->explain && run->ops->explain(run, end, errnum, &err)) {
		box_local_run_finish(run, NULL, &err);
		return;
	}
	if (end->step == BOX_INIT_STEP_MOUNT && run->mounts.wanted &&
		end->mount < run->mounts.count) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, errnum,
			"extra_mounts.mount_path %s cannot be mounted: %s",
			run->mounts.wanted[end->mount].mount_path,
			box_local_run_error_text(errnum));
	} else if (end->step == BOX_INIT_STEP_MOUNTER) {
		(void)box_err_set(&err, BOX_ERR_BOX, errnum,
			"the box cannot mount anything more: delete the session and create a new one");
	} else {
		(void)box_err_set(&err, BOX_ERR_BOX, errnum, "%s cannot be started: %s: %s",
			run->ops->what, step_text(end->step), box_local_run_error_text(errnum));
	}
	box_local_run_finish(run, NULL, &err);
}

/* Whether the kernel killed it for lack of memory: the command itself, or a process of the shell that then ends
 * with 137. Each kill is accounted for once, to the first command that ends like that. */
static bool was_out_of_memory(struct box_local_run *run, const struct box_init_exit *end)
{
	struct box_backend_box *box = run->box;
	bool killed = (end->end == BOX_INIT_END_SIGNAL && end->value == SIGKILL) ||
		(end->end == BOX_INIT_END_EXIT && end->value == 128 + SIGKILL);
	uint64_t kills = killed ? box_local_oom_kills(box) : 0;
	if (!killed || kills <= run->oom_kills || kills <= box->oom_kills) {
		return false;
	}
	box->oom_kills = 1 + BOX_MAX(box->oom_kills, run->oom_kills);
	return true;
}

static void finish_exited(struct box_local_run *run)
{
	const struct box_init_exit *end = &run->end;
	struct box_backend_exec_outcome outcome = {
		.reason = end->end == BOX_INIT_END_TIMEOUT ? BOX_BACKEND_END_TIMEOUT
			: end->end == BOX_INIT_END_SIGNAL  ? BOX_BACKEND_END_SIGNAL
							   : BOX_BACKEND_END_EXIT,
		.out = {run->output.out.bytes, run->output.out.len},
		.err = {run->output.err.bytes, run->output.err.len},
		.out_discarded = run->output.out_discarded + end->stdout_dropped,
		.err_discarded = run->output.err_discarded + end->stderr_dropped,
		.duration_ms = end->duration_us / 1000,
		.room_bytes = end->room_bytes,
		.used_bytes = end->used_bytes,
		.full = end->full != 0,
	};
	if (outcome.reason == BOX_BACKEND_END_SIGNAL) {
		outcome.signal = end->value;
		outcome.exit_code = 128 + end->value;
	} else {
		outcome.exit_code = end->value;
	}
	if (end->end == BOX_INIT_END_MEMORY || was_out_of_memory(run, end)) {
		outcome.reason = BOX_BACKEND_END_MEMORY;
		outcome.signal = SIGKILL;
		outcome.exit_code = 128 + SIGKILL;
	}
	box_local_run_finish(run, &outcome, NULL);
}

void box_local_run_conclude(struct box_local_run *run)
{
	if (run->pipes && !box_local_stdio_drain_pipes(run)) {
		box_local_stdio_update_reading(run);
		return;
	}
	finish_exited(run);
}

static void take_exit(struct box_local_run *run, const struct box_init_exit *end)
{
	if (run->exited) {
		box_local_lost(run->box, "it ended a command twice");
		return;
	}
	if (end->end == BOX_INIT_END_FAILED) {
		finish_unstarted(run, end);
		return;
	}
	/* A run that timed out while it waited was never started. */
	report_started(run);
	run->exited = true;
	run->end = *end;
	box_local_run_conclude(run);
}

static uint64_t read_u64(const char *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

void box_local_run_take_packet(struct box_backend_box *box, const struct box_init_header *header,
	const char *bytes, size_t size)
{
	struct box_local_run *run = box_table_get(&box->runs_by_id, box_local_key(&header->id));
	struct box_init_exit end;
	if (!run || !run->sent) {
		return;
	}
	switch (header->kind) {
	case BOX_INIT_STARTED:
		take_started(run);
		break;
	case BOX_INIT_STDOUT:
	case BOX_INIT_STDERR:
		box_local_run_take_output(run, header->kind == BOX_INIT_STDERR, bytes, size);
		break;
	case BOX_INIT_INPUT_TAKEN:
		box_local_stdio_input_taken(run, read_u64(bytes));
		break;
	case BOX_INIT_EXIT:
		memcpy(&end, bytes, sizeof(end));
		take_exit(run, &end);
		break;
	default:
		break;
	}
}

void box_local_run_fail_all(struct box_backend_box *box, const struct box_err *err)
{
	struct box_list runs;
	struct box_list *item;
	box_list_init(&runs);
	box_list_splice(&runs, &box->runs);
	while ((item = box_list_pop(&runs))) {
		struct box_local_run *run = BOX_CONTAINER_OF(item, struct box_local_run, links);
		/* A run that waits for boxd ends with boxd's answer, a refused one with its timer. */
		if (!run->sent) {
			box_list_push(&box->runs, &run->links);
			continue;
		}
		if (run->pipes) {
			(void)box_local_stdio_drain_pipes(run);
		}
		if (run->exited) {
			finish_exited(run); /* it ended before its box did */
			continue;
		}
		box_local_run_finish(run, NULL, err);
	}
}
