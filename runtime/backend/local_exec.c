/* Commands in boxes: which ones can be sent at all, and the RUN packet of a command. local_run.c handles output and
 * end, as for every run.
 */
#include "runtime/backend/local_exec.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "plan/plan.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_run.h"
#include "runtime/backend/local_stdio.h"

struct box_local_exec {
	struct box_local_run run;
	const struct box_spec *spec; /* the caller's, until done; NULL if it was cancelled */
	int64_t max_output_bytes;
	bool has_stdin;
	struct box_init_size size; /* of its terminal, or zeros */
	uint32_t grace_ms;         /* live: from SIGTERM to SIGKILL after its timeout */
};

static struct box_local_exec *exec_of(struct box_local_run *run)
{
	return (struct box_local_exec *)(void *)run;
}

/* --- building the RUN packet --- */

static void append(struct box_buf *body, const void *bytes, size_t size)
{
	/* check_size has checked that it fits. */
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
	/* A century at most, so that milliseconds cannot overflow. */
	const int64_t max_sec = 100LL * 366 * 86400;
	return (uint64_t)BOX_MIN(spec->timeout_sec, max_sec) * 1000;
}

/* Sends the pipes of a live command. Returns the flags that say how its streams are connected. */
static uint32_t send_pipes(struct box_local_exec *exec)
{
	struct box_local_run *run = &exec->run;
	int fds[3];
	/* A terminal has no pipes. */
	if (exec->size.rows > 0 || !box_local_stdio_open_pipes(run, fds)) {
		/* Only a run with stdin is answered by STARTED; a command without gets an empty one. */
		return (run->output.live ? BOX_INIT_RUN_STDIN : 0U) |
			(exec->size.rows > 0 ? BOX_INIT_RUN_TTY : 0U);
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
	struct box_local_exec *exec = exec_of(run);
	const struct box_spec *spec = exec->spec;
	struct box_buf body = box_buf(BOX_INIT_BODY_MAX);
	struct box_init_run wanted = {
		.mount_count = (uint32_t)spec->mount_count,
		.size = exec->size,
		.grace_ms = exec->grace_ms,
		.timeout_ms = timeout_ms_of(spec),
		.output_limit = run->output.live ? UINT64_MAX : (uint64_t)exec->max_output_bytes,
		.credit = run->output.live ? run->output.credit : UINT64_MAX / 2,
		.command_size = (uint32_t)spec->cmd.len,
	};
	wanted.env_count = box_local_exec_append_env(&body, spec->env, spec->env_count);
	wanted.env_size = (uint32_t)body.len;
	append(&body, spec->workdir, strlen(spec->workdir) + 1);
	wanted.workdir_size = (uint32_t)body.len - wanted.env_size;
	append(&body, spec->cmd.bytes, spec->cmd.len);
	wanted.flags = send_pipes(exec);
	size_t room = BOX_INIT_BYTES_MAX - sizeof(wanted);
	size_t piece = BOX_MIN(body.len, room);
	run->sent = true;
	/* The timeout starts here: the time that boxd takes to open the mounts does not count. */
	box_local_run_set_deadline(run, wanted.timeout_ms + wanted.grace_ms);
	box_local_control_send(
		run->box, BOX_INIT_RUN, run->id, &wanted, sizeof(wanted), body.bytes, piece, -1);
	for (size_t at = piece; at < body.len; at += piece) {
		size_t left = body.len - at;
		piece = BOX_MIN(left, BOX_INIT_BYTES_MAX);
		box_local_control_send(
			run->box, BOX_INIT_MORE, run->id, body.bytes + at, piece, NULL, 0, -1);
	}
	box_buf_free(&body);
	if (run->output.live && !exec->has_stdin && exec->size.rows == 0) {
		box_local_stdio_end_input(run);
	}
	box_local_stdio_send_input(run);
}

/* The size of what box_local_exec_append_env, the workdir and the command will append. */
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

/* Refuses what cannot be sent at all: negative with run->refusal. */
static int validate(struct box_local_exec *exec)
{
	struct box_local_run *run = &exec->run;
	int r = box_local_run_check_capacity(run);
	if (r < 0) {
		return r;
	}
	r = check_size(exec->spec, &run->refusal);
	if (r < 0) {
		return r;
	}
	return box_local_run_check_mounts(
		exec->spec->mounts, exec->spec->mount_count, &run->refusal);
}

/* --- the parts that differ between runs --- */

static void forget(struct box_local_run *run)
{
	exec_of(run)->spec = NULL;
}

/* box-init no longer ends commands, so it cannot be trusted. */
static void late(struct box_local_run *run)
{
	box_local_lost(run->box, "it did not end a command in time");
}

static bool explain(const struct box_local_run *run, const struct box_init_exit *end, int errnum,
	struct box_err *err)
{
	const struct box_local_exec *exec = (const struct box_local_exec *)(const void *)run;
	if (end->step == BOX_INIT_STEP_WORKDIR && exec->spec) {
		(void)box_err_set(err, BOX_ERR_VALIDATION, errnum, "workdir %s cannot be used: %s",
			exec->spec->workdir, box_local_run_error_text(errnum));
		return true;
	}
	if (end->step == BOX_INIT_STEP_PIPES && exec->size.rows > 0 && errnum == ENOSPC) {
		(void)box_err_set(err, BOX_ERR_CAPACITY, errnum,
			"too many terminals at once in one session (%d)", BOX_TERMINALS_MAX);
		return true;
	}
	return false;
}

static const struct box_local_run_ops exec_ops = {
	.what = "the command",
	.send = send_run,
	.forget = forget,
	.late = late,
	.explain = explain,
};

/* --- backend operations --- */

void box_local_exec_resize(struct box_backend_op *op, uint16_t rows, uint16_t columns)
{
	struct box_local_run *run = box_local_run_of(op);
	const struct box_init_size size = {rows, columns};
	if (run->sent && exec_of(run)->size.rows > 0) {
		box_local_control_send(
			run->box, BOX_INIT_RESIZE, run->id, &size, sizeof(size), NULL, 0, -1);
	}
}

struct box_backend_op *box_local_exec(struct box_backend_box *box, const struct box_spec *spec,
	int64_t max_output_bytes, const struct box_backend_stream *live,
	box_backend_exec_done *done, void *arg)
{
	struct box_local_exec *exec = box_local_run_new(
		box, sizeof(*exec), &exec_ops, max_output_bytes, done, arg);
	struct box_local_run *run = &exec->run;
	exec->spec = spec;
	exec->max_output_bytes = max_output_bytes;
	if (live) {
		run->output.live = live->events;
		run->output.credit = live->credit;
		exec->has_stdin = live->has_stdin;
		exec->size = (struct box_init_size){live->rows, live->columns};
		exec->grace_ms = live->grace_ms;
	}
	if (validate(exec) < 0) {
		box_local_run_refuse(run);
		return &run->op;
	}
	box_local_run_begin(run, spec->mounts, spec->mount_count);
	return &run->op;
}
