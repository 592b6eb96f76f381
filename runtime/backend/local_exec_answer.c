/* What comes back of a command: output, gathered or passed on, and its end. All of it may be lies:
 * it has the right form, and that is all that is known of it. */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "runtime/backend/local_internal.h"

static void gather(struct box_local_run *run, struct box_buf *buf, uint64_t *discarded,
	const char *bytes, size_t size)
{
	struct box_local *native = run->box->native;
	if (size > buf->limit - buf->len - *discarded) {
		box_local_lost(run->box, "it sent more output than it may");
		return;
	}
	size_t room = native->output_bytes < BOX_OUTPUTS_BYTES_MAX
		? BOX_OUTPUTS_BYTES_MAX - native->output_bytes
		: 0;
	room += buf->len < BOX_OUTPUT_BYTES_MIN ? BOX_OUTPUT_BYTES_MIN - buf->len : 0;
	size_t kept = BOX_MIN(size, room);
	/* What was dropped once leaves no gap in what is kept. */
	if (*discarded > 0 || run->cancelled) {
		kept = 0;
	}
	if (kept > 0) {
		native->output_bytes -= box_local_counted_output(buf->len);
		(void)box_buf_append(buf, bytes, kept);
		native->output_bytes += box_local_counted_output(buf->len);
	}
	*discarded += size - kept;
}

static uint64_t read_u64(const char *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Before anything else of it, whatever came first. */
static void tell_started(struct box_local_run *run)
{
	if (run->live && !run->told_started && !run->cancelled) {
		run->told_started = true;
		run->live->started(run->arg);
	}
}

static void take_started(struct box_local_run *run)
{
	if (run->started) {
		box_local_lost(run->box, "it started a command twice");
		return;
	}
	run->started = true;
	tell_started(run);
}

void box_local_exec_take_output(
	struct box_local_run *run, bool is_stderr, const char *bytes, size_t size)
{
	if (!run->live) {
		gather(run, is_stderr ? &run->err : &run->out,
			is_stderr ? &run->err_discarded : &run->out_discarded, bytes, size);
		return;
	}
	if (size > run->credit) {
		box_local_lost(run->box, "it sent more output than it may");
		return;
	}
	run->credit -= size;
	tell_started(run);
	if (!run->cancelled) {
		run->live->output(run->arg, is_stderr, (struct box_str){bytes, size});
	}
}

void box_local_exec_credit(struct box_backend_op *op, uint64_t bytes)
{
	struct box_local_run *run = box_local_run_of(op);
	run->credit += bytes;
	if (run->late) {
		box_local_exec_reset_deadline(run);
	}
	if (run->pipes) {
		box_local_stdio_update_reading(run);
	} else if (run->sent) {
		box_local_control_send(
			run->box, BOX_INIT_CREDIT, run->id, &bytes, sizeof(bytes), NULL, 0, -1);
	}
}

void box_local_exec_resize(struct box_backend_op *op, uint16_t rows, uint16_t columns)
{
	struct box_local_run *run = box_local_run_of(op);
	const struct box_init_size size = {rows, columns};
	if (run->sent && run->size.rows > 0) {
		box_local_control_send(
			run->box, BOX_INIT_RESIZE, run->id, &size, sizeof(size), NULL, 0, -1);
	}
}

void box_local_exec_signal(struct box_backend_op *op, int number)
{
	struct box_local_run *run = box_local_run_of(op);
	uint32_t wanted = (uint32_t)number;
	if (run->sent) {
		box_local_control_send(
			run->box, BOX_INIT_SIGNAL, run->id, &wanted, sizeof(wanted), NULL, 0, -1);
	}
}

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
		[BOX_INIT_STEP_CONFINE] = "the fence",
		[BOX_INIT_STEP_EXEC] = "/bin/sh",
		[BOX_INIT_STEP_CGROUP] = "its memory limit",
	};
	return step < BOX_INIT_STEPS_ && texts[step] ? texts[step] : "unknown step";
}

/* The number is the box's own word. */
const char *box_local_exec_error_text(int errnum)
{
	const char *text = box_err_strerror(errnum);
	return text ? text : "unknown error";
}

static void finish_unstarted(struct box_local_run *run, const struct box_init_exit *end)
{
	struct box_err err;
	int errnum = end->value > 0 && end->value < 4096 ? end->value : EPROTO;
	const struct box_spec *spec = run->spec;
	if (end->step == BOX_INIT_STEP_WORKDIR && spec) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, errnum, "workdir %s cannot be used: %s",
			spec->workdir, box_local_exec_error_text(errnum));
	} else if (end->step == BOX_INIT_STEP_MOUNT && run->wanted &&
		end->mount < run->wanted_count) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, errnum,
			"extra_mounts.mount_path %s cannot be mounted: %s",
			run->wanted[end->mount].mount_path, box_local_exec_error_text(errnum));
	} else if (end->step == BOX_INIT_STEP_PIPES && run->size.rows > 0 && errnum == ENOSPC) {
		(void)box_err_set(&err, BOX_ERR_CAPACITY, errnum,
			"too many terminals at once in one session (%d)", BOX_TERMINALS_MAX);
	} else if (end->step == BOX_INIT_STEP_MOUNTER) {
		(void)box_err_set(&err, BOX_ERR_BOX, errnum,
			"the box can mount nothing more: delete the session and make it anew");
	} else {
		(void)box_err_set(&err, BOX_ERR_BOX, errnum, "%s cannot be started: %s: %s",
			run->file ? "the work on files" : "the command", step_text(end->step),
			box_local_exec_error_text(errnum));
	}
	box_local_exec_finish(run, NULL, &err);
}

/* Killed by the kernel for lack of memory: itself, or a process of the shell that says 137. Each
 * kill is accounted for once, to the first command that ends like that. */
static bool was_out_of_memory(struct box_local_run *run, const struct box_init_exit *end)
{
	struct box_backend_box *box = run->box;
	bool killed = (end->end == BOX_INIT_END_SIGNAL && end->value == 9) ||
		(end->end == BOX_INIT_END_EXIT && end->value == 128 + 9);
	uint64_t kills = killed ? box_local_oom_kills(box) : 0;
	if (!killed || kills <= run->oom_kills || kills <= box->oom_kills) {
		return false;
	}
	box->oom_kills = 1 + (box->oom_kills > run->oom_kills ? box->oom_kills : run->oom_kills);
	return true;
}

static void finish_exited(struct box_local_run *run)
{
	const struct box_init_exit *end = &run->end;
	struct box_backend_exec_outcome outcome = {
		.reason = end->end == BOX_INIT_END_TIMEOUT ? BOX_BACKEND_END_TIMEOUT
			: end->end == BOX_INIT_END_SIGNAL  ? BOX_BACKEND_END_SIGNAL
							   : BOX_BACKEND_END_EXIT,
		.out = {run->out.bytes, run->out.len},
		.err = {run->err.bytes, run->err.len},
		.out_discarded = run->out_discarded + end->stdout_dropped,
		.err_discarded = run->err_discarded + end->stderr_dropped,
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
		outcome.signal = 9;
		outcome.exit_code = 128 + 9;
	}
	box_local_exec_finish(run, &outcome, NULL);
}

void box_local_exec_conclude(struct box_local_run *run)
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
	/* One that ran out of time while it waited was never started. */
	tell_started(run);
	run->exited = true;
	run->end = *end;
	box_local_exec_conclude(run);
}

void box_local_exec_take_packet(struct box_backend_box *box, const struct box_init_header *header,
	const char *bytes, size_t size)
{
	struct box_local_run *run = box_table_get(&box->runs_by_id, box_local_run_key(&header->id));
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
		box_local_exec_take_output(run, header->kind == BOX_INIT_STDERR, bytes, size);
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

void box_local_exec_fail_all(struct box_backend_box *box, const struct box_err *err)
{
	struct box_list runs;
	struct box_list *item;
	box_list_init(&runs);
	box_list_splice(&runs, &box->runs);
	while ((item = box_list_pop(&runs))) {
		struct box_local_run *run = BOX_CONTAINER_OF(item, struct box_local_run, links);
		/* One that waits for boxd is ended by boxd's answer, one refused by its timer. */
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
		box_local_exec_finish(run, NULL, err);
	}
}
