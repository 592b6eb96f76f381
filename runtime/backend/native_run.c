/* One command in a native box: its mounts are opened by boxd one after the other, then box-init
 * gets it, and what comes back is gathered up to the limits of one command and of all together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "runtime/backend/native_box.h"

#define BACKSTOP_MS 5000 /* how long box-init may be late with the end of a command */

static struct box_native_run *run_of(struct box_backend_op *op)
{
	return (struct box_native_run *)(void *)op;
}

static struct box_str key_of(const uint32_t *id)
{
	return (struct box_str){(const char *)id, sizeof(*id)};
}

static void timer_closed(uv_handle_t *handle)
{
	struct box_native_run *run = handle->data;
	box_arena_free(run->arena);
}

/* Nobody finds it any more. */
static void detach(struct box_native_run *run)
{
	for (size_t i = 0; i < run->next_mount; i++) {
		box_close_p(&run->mounts[i]);
		run->mounts[i] = -1;
	}
	box_table_remove(&run->box->runs_by_id, key_of(&run->id));
	box_list_drop(&run->links);
	(void)uv_timer_stop(&run->backstop);
}

/* The outcome points into the run, which is therefore freed after it was told; the box may be gone
 * by then. */
static void finish(struct box_native_run *run, const struct box_exec_outcome *outcome,
	const struct box_err *err)
{
	struct box_native *native = run->box->native;
	struct box_backend_box *box = run->box;
	detach(run);
	box_native_drop_input(run);
	if (!run->cancelled) {
		run->done(run->arg, outcome, err);
	}
	native->output_bytes -= run->out.len + run->err.len;
	box_buf_free(&run->out);
	box_buf_free(&run->err);
	uv_close((uv_handle_t *)&run->backstop, timer_closed);
	box_native_run_ended(native, box);
}

static void finish_failed(struct box_native_run *run, const struct box_err *err)
{
	finish(run, NULL, err);
}

/* --- out to box-init --- */

static void append(struct box_buf *body, const void *bytes, size_t size)
{
	/* The parser of specs bounds what can get here far below the limit. */
	(void)box_buf_append(body, bytes, size);
}

static bool is_overridden(const struct box_spec *spec, const char *pair)
{
	size_t len = strcspn(pair, "=");
	for (size_t i = 0; i < spec->env_count; i++) {
		if (strlen(spec->env[i].name) == len && memcmp(spec->env[i].name, pair, len) == 0) {
			return true;
		}
	}
	return false;
}

static uint32_t append_env(struct box_buf *body, const struct box_spec *spec)
{
	uint32_t count = 0;
	for (const char *const *pair = box_plan_environment; *pair; pair++) {
		if (!is_overridden(spec, *pair)) {
			append(body, *pair, strlen(*pair) + 1);
			count++;
		}
	}
	for (size_t i = 0; i < spec->env_count; i++, count++) {
		append(body, spec->env[i].name, strlen(spec->env[i].name));
		append(body, "=", 1);
		append(body, spec->env[i].value, strlen(spec->env[i].value) + 1);
	}
	return count;
}

static uint64_t timeout_ms_of(const struct box_spec *spec)
{
	/* Nobody waits for a century. */
	const int64_t most_sec = 100LL * 366 * 86400;
	return (uint64_t)(spec->timeout_sec < most_sec ? spec->timeout_sec : most_sec) * 1000;
}

static void send_mounts(struct box_native_run *run)
{
	for (size_t i = 0; i < run->spec->mount_count; i++) {
		const char *target = run->spec->mounts[i].mount_path;
		box_native_send(run->box, BOX_GUEST_MOUNT, run->id, target, strlen(target) + 1,
			NULL, 0, TAKE_FD(run->mounts[i]));
	}
}

static void send_run(struct box_native_run *run)
{
	const struct box_spec *spec = run->spec;
	struct box_buf body = box_buf(BOX_GUEST_BODY_MAX);
	struct box_guest_run wanted = {
		.mount_count = (uint32_t)spec->mount_count,
		/* Only with it comes STARTED; one without stdin gets an empty one. */
		.flags = run->live ? BOX_GUEST_RUN_STDIN : 0,
		.timeout_ms = timeout_ms_of(spec),
		.output_limit = run->live ? UINT64_MAX : (uint64_t)run->max_output_bytes,
		.credit = run->live ? run->credit : UINT64_MAX / 2,
		.command_size = (uint32_t)spec->cmd.len,
	};
	wanted.env_count = append_env(&body, spec);
	wanted.env_size = (uint32_t)body.len;
	append(&body, spec->workdir, strlen(spec->workdir) + 1);
	wanted.workdir_size = (uint32_t)body.len - wanted.env_size;
	append(&body, spec->cmd.bytes, spec->cmd.len);
	if (body.overflowed || wanted.env_count > BOX_GUEST_ENV_MAX) {
		struct box_err err;
		box_buf_free(&body);
		(void)box_err_set(&err, BOX_ERR_VALIDATION, E2BIG,
			"cmd and env are too long together, or env has too many members");
		finish_failed(run, &err);
		return;
	}
	send_mounts(run);
	size_t room = BOX_GUEST_BYTES_MAX - sizeof(wanted);
	size_t piece = body.len < room ? body.len : room;
	run->sent = true;
	box_native_send(
		run->box, BOX_GUEST_RUN, run->id, &wanted, sizeof(wanted), body.bytes, piece, -1);
	for (size_t at = piece; at < body.len; at += piece) {
		size_t left = body.len - at;
		piece = left < BOX_GUEST_BYTES_MAX ? left : BOX_GUEST_BYTES_MAX;
		box_native_send(
			run->box, BOX_GUEST_MORE, run->id, body.bytes + at, piece, NULL, 0, -1);
	}
	box_buf_free(&body);
	if (run->live && !run->has_stdin) {
		run->input_ended = true;
		box_native_send(run->box, BOX_GUEST_INPUT, run->id, NULL, 0, NULL, 0, -1);
	}
	box_native_pump_input(run);
}

static void open_next_mount(struct box_native_run *run);

static void mounted(void *arg, int mount, const struct box_err *err)
{
	struct box_native_run *run = arg;
	struct box_err ended;
	if (!err && run->box->deaf) {
		(void)box_err_set(&ended, BOX_ERR_BOX, EPIPE, "the box has ended");
		err = &ended;
	}
	if (!err && !run->cancelled) {
		run->mounts[run->next_mount++] = mount;
		open_next_mount(run);
		return;
	}
	box_close_p(&mount);
	finish_failed(run, err);
}

static void open_next_mount(struct box_native_run *run)
{
	const struct box_spec *spec = run->spec;
	if (run->next_mount == spec->mount_count) {
		send_run(run);
		return;
	}
	const struct box_mount *wanted = &spec->mounts[run->next_mount];
	struct box_native *native = run->box->native;
	native->keeper->mount(native->keeper_arg, run->box->number, wanted->host_path,
		wanted->mode == BOX_MOUNT_RO, mounted, run);
}

/* box-init is late with the end of a command: it cannot be believed any more. */
static void backstop_cb(uv_timer_t *timer)
{
	struct box_native_run *run = timer->data;
	box_native_lost(run->box, "it did not end a command in time");
}

static void refuse_cb(uv_timer_t *timer);

/* The backstop also carries what must not be told from inside the call. */
struct box_backend_op *box_native_exec(struct box_backend_box *box, const struct box_spec *spec,
	int64_t max_output_bytes, const struct box_live *live, box_backend_ran *done, void *arg)
{
	struct box_arena *arena = box_arena_new();
	struct box_native_run *run = box_arena_alloc(arena, sizeof(*run));
	run->arena = arena;
	run->box = box;
	run->spec = spec;
	run->max_output_bytes = max_output_bytes;
	run->done = done;
	run->arg = arg;
	run->out = box_buf((size_t)max_output_bytes);
	run->err = box_buf((size_t)max_output_bytes);
	if (live) {
		run->live = live->events;
		run->has_stdin = live->has_stdin;
		run->credit = live->credit;
	}
	box_list_init(&run->inputs);
	run->mounts = box_arena_alloc(arena, (spec->mount_count + 1) * sizeof(int));
	do {
		run->id = ++box->next_id;
	} while (run->id == 0 || box_table_get(&box->runs_by_id, key_of(&run->id)));
	box_list_init(&run->links);
	box_list_push(&box->runs, &run->links);
	box->run_count++;
	box_table_put(&box->runs_by_id, key_of(&run->id), run);
	(void)uv_timer_init(box->native->loop, &run->backstop);
	run->backstop.data = run;
	run->oom_kills = box_native_oom_kills(box);
	bool full = box->runs_by_id.count > BOX_GUEST_RUNS_MAX;
	if (box->deaf || full || spec->mount_count > BOX_GUEST_MOUNTS_MAX) {
		run->refused = true;
		(void)uv_timer_start(&run->backstop, refuse_cb, 0, 0);
		return &run->op;
	}
	(void)uv_timer_start(&run->backstop, backstop_cb, timeout_ms_of(spec) + BACKSTOP_MS, 0);
	open_next_mount(run);
	return &run->op;
}

static void refuse_cb(uv_timer_t *timer)
{
	struct box_native_run *run = timer->data;
	struct box_err err;
	if (run->spec->mount_count > BOX_GUEST_MOUNTS_MAX) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, E2BIG,
			"extra_mounts has more than %u members", BOX_GUEST_MOUNTS_MAX);
	} else if (run->box->deaf) {
		(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the box has ended");
	} else {
		(void)box_err_set(&err, BOX_ERR_CAPACITY, EAGAIN,
			"too many commands at once in one session (%u)", BOX_GUEST_RUNS_MAX);
	}
	finish_failed(run, &err);
}

void box_native_cancel_exec(struct box_backend_op *op)
{
	struct box_native_run *run = run_of(op);
	run->cancelled = true;
	run->spec = NULL;
	if (run->sent) {
		box_native_send(run->box, BOX_GUEST_KILL, run->id, NULL, 0, NULL, 0, -1);
		return;
	}
	/* Else it waits for boxd, whose answer ends it. */
	if (run->refused) {
		finish_failed(run, NULL);
	}
}

/* --- back from box-init --- */

static void gather(struct box_native_run *run, struct box_buf *buf, uint64_t *discarded,
	const char *bytes, size_t size)
{
	struct box_native *native = run->box->native;
	size_t room = buf->limit - buf->len;
	size_t left = native->output_bytes < BOX_OUTPUTS_BYTES_MAX
		? BOX_OUTPUTS_BYTES_MAX - native->output_bytes
		: 0;
	size_t kept = size < room ? size : room;
	kept = kept < left ? kept : left;
	/* What was dropped once leaves no gap in what is kept. */
	if (*discarded > 0 || run->cancelled) {
		kept = 0;
	}
	if (kept > 0) {
		(void)box_buf_append(buf, bytes, kept);
		native->output_bytes += kept;
	}
	*discarded += size - kept;
}

static uint64_t read_u64(const char *bytes)
{
	uint64_t value;
	memcpy(&value, bytes, sizeof(value));
	return value;
}

static void take_output(struct box_native_run *run, bool is_stderr, const char *bytes, size_t size)
{
	if (!run->live) {
		gather(run, is_stderr ? &run->err : &run->out,
			is_stderr ? &run->err_discarded : &run->out_discarded, bytes, size);
		return;
	}
	if (size > run->credit) {
		box_native_lost(run->box, "it sent more output than it may");
		return;
	}
	run->credit -= size;
	if (!run->cancelled) {
		run->live->output(run->arg, is_stderr, (struct box_str){bytes, size});
	}
}

void box_native_credit(struct box_backend_op *op, uint64_t bytes)
{
	struct box_native_run *run = run_of(op);
	run->credit += bytes;
	if (run->sent) {
		box_native_send(
			run->box, BOX_GUEST_CREDIT, run->id, &bytes, sizeof(bytes), NULL, 0, -1);
	}
}

void box_native_signal(struct box_backend_op *op, int number)
{
	struct box_native_run *run = run_of(op);
	uint32_t wanted = (uint32_t)number;
	if (run->sent) {
		box_native_send(
			run->box, BOX_GUEST_SIGNAL, run->id, &wanted, sizeof(wanted), NULL, 0, -1);
	}
}

static const char *step_text(uint32_t step)
{
	static const char *const texts[BOX_GUEST_STEPS_] = {
		[BOX_GUEST_STEP_NONE] = "unknown step",
		[BOX_GUEST_STEP_REQUEST] = "the request was refused",
		[BOX_GUEST_STEP_MEMORY] = "memory for the command",
		[BOX_GUEST_STEP_PIPES] = "pipes",
		[BOX_GUEST_STEP_CLONE] = "a new process",
		[BOX_GUEST_STEP_MOUNT] = "mounts",
		[BOX_GUEST_STEP_IDS] = "user ids",
		[BOX_GUEST_STEP_FENCE] = "the fence",
		[BOX_GUEST_STEP_EXEC] = "/bin/sh",
	};
	return step < BOX_GUEST_STEPS_ && texts[step] ? texts[step] : "unknown step";
}

static void finish_unstarted(struct box_native_run *run, const struct box_guest_exit *end)
{
	struct box_err err;
	int errnum = end->value > 0 && end->value < 4096 ? end->value : EPROTO;
	const struct box_spec *spec = run->spec;
	if (end->step == BOX_GUEST_STEP_WORKDIR && spec) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, errnum, "workdir %s cannot be used: %s",
			spec->workdir, strerrordesc_np(errnum));
	} else if (end->step == BOX_GUEST_STEP_MOUNT && spec && end->mount < spec->mount_count) {
		(void)box_err_set(&err, BOX_ERR_VALIDATION, errnum,
			"extra_mounts.mount_path %s cannot be mounted: %s",
			spec->mounts[end->mount].mount_path, strerrordesc_np(errnum));
	} else {
		(void)box_err_set(&err, BOX_ERR_BOX, errnum,
			"the command cannot be started: %s: %s", step_text(end->step),
			strerrordesc_np(errnum));
	}
	finish_failed(run, &err);
}

/* Killed by the kernel for lack of memory: itself, or a process of the shell that says 137. Each
 * kill is accounted for once, to the first command that ends like that. */
static bool was_out_of_memory(struct box_native_run *run, const struct box_guest_exit *end)
{
	struct box_backend_box *box = run->box;
	bool killed = (end->end == BOX_GUEST_END_SIGNAL && end->value == 9) ||
		(end->end == BOX_GUEST_END_EXIT && end->value == 128 + 9);
	uint64_t kills = killed ? box_native_oom_kills(box) : 0;
	if (!killed || kills <= run->oom_kills || kills <= box->oom_kills) {
		return false;
	}
	box->oom_kills++;
	return true;
}

static void take_exit(struct box_native_run *run, const struct box_guest_exit *end)
{
	if (end->end == BOX_GUEST_END_FAILED) {
		finish_unstarted(run, end);
		return;
	}
	struct box_exec_outcome outcome = {
		.reason = end->end == BOX_GUEST_END_TIMEOUT ? BOX_END_TIMEOUT
			: end->end == BOX_GUEST_END_SIGNAL  ? BOX_END_SIGNAL
							    : BOX_END_EXIT,
		.out = {run->out.bytes, run->out.len},
		.err = {run->err.bytes, run->err.len},
		.out_discarded = run->out_discarded + end->stdout_dropped,
		.err_discarded = run->err_discarded + end->stderr_dropped,
		.duration_ms = end->duration_us / 1000,
	};
	if (outcome.reason == BOX_END_SIGNAL) {
		outcome.signal = end->value;
		outcome.exit_code = 128 + end->value;
	} else {
		outcome.exit_code = end->value;
	}
	if (was_out_of_memory(run, end)) {
		outcome.reason = BOX_END_MEMORY;
		outcome.signal = 9;
		outcome.exit_code = 128 + 9;
	}
	finish(run, &outcome, NULL);
}

void box_native_take(struct box_backend_box *box, const struct box_guest_header *header,
	const char *bytes, size_t size)
{
	struct box_native_run *run = box_table_get(&box->runs_by_id, key_of(&header->id));
	struct box_guest_exit end;
	if (!run || !run->sent) {
		return;
	}
	switch (header->kind) {
	case BOX_GUEST_STARTED:
		if (run->live && !run->cancelled) {
			run->live->started(run->arg);
		}
		break;
	case BOX_GUEST_STDOUT:
	case BOX_GUEST_STDERR:
		take_output(run, header->kind == BOX_GUEST_STDERR, bytes, size);
		break;
	case BOX_GUEST_TAKEN:
		box_native_input_taken(run, read_u64(bytes));
		break;
	case BOX_GUEST_EXIT:
		memcpy(&end, bytes, sizeof(end));
		take_exit(run, &end);
		break;
	default:
		break;
	}
}

void box_native_fail_runs(struct box_backend_box *box, const struct box_err *err)
{
	struct box_list runs;
	struct box_list *item;
	box_list_init(&runs);
	box_list_splice(&runs, &box->runs);
	while ((item = box_list_pop(&runs))) {
		struct box_native_run *run = BOX_LIST_ITEM(item, struct box_native_run, links);
		/* One that waits for boxd is ended by boxd's answer, one refused by its timer. */
		if (!run->sent) {
			box_list_push(&box->runs, &run->links);
			continue;
		}
		finish_failed(run, err);
	}
}
