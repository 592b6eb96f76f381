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
#include "base/macros.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_internal.h"

#define BACKSTOP_MS 5000 /* how long box-init may be late with the end of a command */

static void timer_closed(uv_handle_t *handle)
{
	struct box_local_run *run = handle->data;
	box_arena_free(run->arena);
}

/* Nobody finds it any more. */
static void detach(struct box_local_run *run)
{
	for (size_t i = 0; i < run->next_mount; i++) {
		box_close_p(&run->mounts[i]);
		run->mounts[i] = -1;
	}
	box_table_remove(&run->box->runs_by_id, box_local_run_key(&run->id));
	box_list_drop(&run->links);
	(void)uv_timer_stop(&run->backstop);
}

/* The outcome points into the run, which is therefore freed after it was told; the box may be gone
 * by then. */
void box_local_exec_finish(struct box_local_run *run,
	const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct box_local *native = run->box->native;
	struct box_backend_box *box = run->box;
	detach(run);
	box_local_stdio_drop_input(run);
	box_local_stdio_close_pipes(run);
	if (!run->cancelled) {
		run->done(run->arg, outcome, err);
	}
	native->output_bytes -= box_local_counted_output(run->out.len) +
		box_local_counted_output(run->err.len);
	box_buf_free(&run->out);
	box_buf_free(&run->err);
	uv_close((uv_handle_t *)&run->backstop, timer_closed);
	box_local_run_ended(box);
}

/* --- out to box-init --- */

static void append(struct box_buf *body, const void *bytes, size_t size)
{
	/* check_size has seen that it fits. */
	(void)box_buf_append(body, bytes, size);
}

static bool is_overridden(const struct box_env *env, size_t count, const char *pair)
{
	size_t len = strcspn(pair, "=");
	for (size_t i = 0; i < count; i++) {
		if (strlen(env[i].name) == len && memcmp(env[i].name, pair, len) == 0) {
			return true;
		}
	}
	return false;
}

uint32_t box_local_exec_append_env(
	struct box_buf *body, const struct box_env *env, size_t env_count)
{
	uint32_t count = 0;
	for (const char *const *pair = box_plan_environment; *pair; pair++) {
		if (!is_overridden(env, env_count, *pair)) {
			append(body, *pair, strlen(*pair) + 1);
			count++;
		}
	}
	for (size_t i = 0; i < env_count; i++, count++) {
		append(body, env[i].name, strlen(env[i].name));
		append(body, "=", 1);
		append(body, env[i].value, strlen(env[i].value) + 1);
	}
	return count;
}

static uint64_t timeout_ms_of(const struct box_spec *spec)
{
	/* Nobody waits for a century. */
	const int64_t most_sec = 100LL * 366 * 86400;
	return (uint64_t)(spec->timeout_sec < most_sec ? spec->timeout_sec : most_sec) * 1000;
}

static void send_mounts(struct box_local_run *run)
{
	for (size_t i = 0; i < run->wanted_count; i++) {
		const char *target = run->wanted[i].mount_path;
		box_local_control_send(run->box, BOX_INIT_MOUNT, run->id, target,
			strlen(target) + 1, NULL, 0, TAKE_FD(run->mounts[i]));
	}
}

/* How its bytes come and go. */
static uint32_t send_pipes(struct box_local_run *run)
{
	int fds[3];
	if (!box_local_stdio_open_pipes(run, fds)) {
		/* Only with stdin comes STARTED; one without gets an empty one. */
		return (run->live ? BOX_INIT_RUN_STDIN : 0U) |
			(run->size.rows > 0 ? BOX_INIT_RUN_TTY : 0U);
	}
	for (uint32_t i = 0; i < 3; i++) {
		box_local_control_send(
			run->box, BOX_INIT_PIPE, run->id, &i, sizeof(i), NULL, 0, fds[i]);
	}
	box_local_stdio_update_reading(run);
	return BOX_INIT_RUN_PIPES;
}

static void send_run(struct box_local_run *run)
{
	const struct box_spec *spec = run->spec;
	struct box_buf body = box_buf(BOX_INIT_BODY_MAX);
	struct box_init_run wanted = {
		.mount_count = (uint32_t)spec->mount_count,
		.size = run->size,
		.grace_ms = run->grace_ms,
		.timeout_ms = timeout_ms_of(spec),
		.output_limit = run->live ? UINT64_MAX : (uint64_t)run->max_output_bytes,
		.credit = run->live ? run->credit : UINT64_MAX / 2,
		.command_size = (uint32_t)spec->cmd.len,
	};
	wanted.env_count = box_local_exec_append_env(&body, spec->env, spec->env_count);
	wanted.env_size = (uint32_t)body.len;
	append(&body, spec->workdir, strlen(spec->workdir) + 1);
	wanted.workdir_size = (uint32_t)body.len - wanted.env_size;
	append(&body, spec->cmd.bytes, spec->cmd.len);
	wanted.flags = send_pipes(run);
	size_t room = BOX_INIT_BYTES_MAX - sizeof(wanted);
	size_t piece = BOX_MIN(body.len, room);
	run->sent = true;
	/* Not before: how long boxd takes for its mounts is not box-init's fault. */
	box_local_exec_set_deadline(run, wanted.timeout_ms + wanted.grace_ms);
	box_local_control_send(
		run->box, BOX_INIT_RUN, run->id, &wanted, sizeof(wanted), body.bytes, piece, -1);
	for (size_t at = piece; at < body.len; at += piece) {
		size_t left = body.len - at;
		piece = BOX_MIN(left, BOX_INIT_BYTES_MAX);
		box_local_control_send(
			run->box, BOX_INIT_MORE, run->id, body.bytes + at, piece, NULL, 0, -1);
	}
	box_buf_free(&body);
	if (run->live && !run->has_stdin && run->size.rows == 0) {
		box_local_stdio_end_input(run);
	}
	box_local_stdio_send_input(run);
}

static void open_next_mount(struct box_local_run *run);

static void mounted(void *arg, int mount, const struct box_err *err)
{
	struct box_local_run *run = arg;
	struct box_err own;
	if (!err && run->box->deaf) {
		(void)box_err_set(&own, BOX_ERR_BOX, EPIPE, "the box has ended");
		err = &own;
	}
	if (!err && box_local_refuse_mount(mount, &own)) {
		err = &own;
	}
	if (!err && !run->cancelled) {
		run->mounts[run->next_mount++] = mount;
		open_next_mount(run);
		return;
	}
	box_close_p(&mount);
	box_local_exec_finish(run, NULL, err);
}

static void open_next_mount(struct box_local_run *run)
{
	if (run->next_mount == run->wanted_count) {
		send_mounts(run);
		if (run->file) {
			box_local_file_send(run);
		} else {
			send_run(run);
		}
		return;
	}
	const struct box_mount *wanted = &run->wanted[run->next_mount];
	struct box_local *native = run->box->native;
	native->keeper->mount(native->keeper_arg, run->box->number, wanted, mounted, run);
}

void box_local_exec_begin(
	struct box_local_run *run, const struct box_mount *mounts, size_t mount_count)
{
	run->wanted = mounts;
	run->wanted_count = mount_count;
	run->mounts = box_arena_alloc(run->arena, (mount_count + 1) * sizeof(int));
	open_next_mount(run);
}

/* box-init is late with the end of a command: it cannot be believed any more. */
static void backstop_cb(uv_timer_t *timer)
{
	struct box_local_run *run = timer->data;
	run->late = true;
	/* Timers come before sockets: what it said in time may lie there. */
	box_local_control_read(run->box);
	if (uv_is_closing((const uv_handle_t *)timer)) {
		return;
	}
	if (run->exited || (run->live && run->credit == 0 && !run->cancelled)) {
		/* The rest of the output waits for who reads it, and the end for that. */
		box_local_exec_reset_deadline(run);
		return;
	}
	if (run->file) {
		/* It may hang in a file system, where nothing ends it, and box-init is well. */
		struct box_err err;
		(void)box_err_set(&err, BOX_ERR_OS, ETIMEDOUT, "the files do not answer");
		box_local_exec_finish(run, NULL, &err);
		return;
	}
	box_local_lost(run->box, "it did not end a command in time");
}

void box_local_exec_reset_deadline(struct box_local_run *run)
{
	(void)uv_timer_start(&run->backstop, backstop_cb, BACKSTOP_MS, 0);
}

static void refuse_cb(uv_timer_t *timer);

int box_local_exec_check_mounts(const struct box_mount *mounts, size_t count, struct box_err *err)
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

/* What box_local_exec_append_env, the workdir and the command will make. */
static int check_size(const struct box_spec *spec, struct box_err *err)
{
	size_t count = spec->env_count;
	size_t size = strlen(spec->workdir) + 1 + spec->cmd.len;
	for (const char *const *pair = box_plan_environment; *pair; pair++, count++) {
		size += strlen(*pair) + 1;
	}
	for (size_t i = 0; i < spec->env_count; i++) {
		size += strlen(spec->env[i].name) + strlen(spec->env[i].value) + 2;
	}
	if (size <= BOX_INIT_BODY_MAX && count <= BOX_INIT_ENV_MAX) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
		"cmd and env are too long together, or env has too many members");
}

int box_local_exec_check_capacity(struct box_local_run *run)
{
	struct box_err *err = &run->refusal;
	if (run->box->deaf) {
		return box_err_set(err, BOX_ERR_BOX, EPIPE, "the box has ended");
	}
	if (run->box->runs_by_id.count > BOX_INIT_RUNS_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many commands at once in one session (%u)", BOX_INIT_RUNS_MAX);
	}
	if (run->box->queue.size_bytes > BOX_INIT_QUEUE_RUNS_BYTES_MAX) {
		return box_err_set(
			err, BOX_ERR_CAPACITY, EAGAIN, "too much waits for the box to take it");
	}
	return 0;
}

/* Why a command is not even sent, in run->refusal. */
static int check_wish(struct box_local_run *run)
{
	struct box_err *err = &run->refusal;
	int r = box_local_exec_check_capacity(run);
	if (r < 0) {
		return r;
	}
	r = check_size(run->spec, err);
	return r < 0 ? r
		     : box_local_exec_check_mounts(run->spec->mounts, run->spec->mount_count, err);
}

struct box_local_run *box_local_exec_new_run(struct box_backend_box *box, int64_t max_output_bytes,
	box_backend_exec_done *done, void *arg)
{
	struct box_arena *arena = box_arena_new();
	struct box_local_run *run = box_arena_alloc(arena, sizeof(*run));
	run->arena = arena;
	run->box = box;
	run->max_output_bytes = max_output_bytes;
	run->done = done;
	run->arg = arg;
	run->out = box_buf((size_t)max_output_bytes);
	run->err = box_buf((size_t)max_output_bytes);
	box_list_init(&run->inputs);
	do {
		run->id = ++box->next_id;
	} while (run->id == 0 || (run->id & BOX_INIT_MOUNT_OF_PROCESS) ||
		box_table_get(&box->runs_by_id, box_local_run_key(&run->id)));
	box_list_init(&run->links);
	box_list_push(&box->runs, &run->links);
	box->run_count++;
	box_table_put(&box->runs_by_id, box_local_run_key(&run->id), run);
	(void)uv_timer_init(box->native->loop, &run->backstop);
	run->backstop.data = run;
	run->oom_kills = box_local_oom_kills(box);
	return run;
}

/* The backstop also carries what must not be told from inside the call. */
void box_local_exec_refuse(struct box_local_run *run)
{
	run->refused = true;
	(void)uv_timer_start(&run->backstop, refuse_cb, 0, 0);
}

void box_local_exec_set_deadline(struct box_local_run *run, uint64_t timeout_ms)
{
	(void)uv_timer_start(&run->backstop, backstop_cb, timeout_ms + BACKSTOP_MS, 0);
}

struct box_backend_op *box_local_exec(struct box_backend_box *box, const struct box_spec *spec,
	int64_t max_output_bytes, const struct box_backend_stream *live,
	box_backend_exec_done *done, void *arg)
{
	struct box_local_run *run = box_local_exec_new_run(box, max_output_bytes, done, arg);
	run->spec = spec;
	if (live) {
		run->live = live->events;
		run->has_stdin = live->has_stdin;
		run->size = (struct box_init_size){live->rows, live->columns};
		run->credit = live->credit;
		run->grace_ms = live->grace_ms;
	}
	if (check_wish(run) < 0) {
		box_local_exec_refuse(run);
		return &run->op;
	}
	box_local_exec_begin(run, spec->mounts, spec->mount_count);
	return &run->op;
}

static void refuse_cb(uv_timer_t *timer)
{
	struct box_local_run *run = timer->data;
	box_local_exec_finish(run, NULL, &run->refusal);
}

static void conclude_cb(uv_timer_t *timer)
{
	box_local_exec_conclude(timer->data);
}

void box_local_exec_cancel(struct box_backend_op *op)
{
	struct box_local_run *run = box_local_run_of(op);
	run->cancelled = true;
	run->spec = NULL;
	run->wanted = NULL;
	if (run->file) {
		box_local_file_forget(run);
	}
	if (run->pipes) {
		box_local_stdio_update_reading(run);
	}
	if (run->exited) {
		/* It waits for its pipes alone; the timer ends it outside of this call. */
		(void)uv_timer_start(&run->backstop, conclude_cb, 0, 0);
		return;
	}
	if (run->sent) {
		box_local_control_send(run->box, BOX_INIT_KILL, run->id, NULL, 0, NULL, 0, -1);
		box_local_exec_reset_deadline(run);
		return;
	}
	/* Else it waits for boxd, whose answer ends it. */
	if (run->refused) {
		box_local_exec_finish(run, NULL, NULL);
	}
}
