/* Managed processes of sessions: starting, stopping, their end, and what clients see of them.
 *
 * A process is running, then exited, then forgotten; one that was stopped or replaced is leaving until it has ended.
 * Operations that wait for the end of a process are in its list. Readers and peeks are in process_reader.c, the record
 * for the next box-rpc in process_record.c.
 */
#include "runtime/session/process.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/macros.h"
#include "runtime/session/output.h"
#include "runtime/session/process_internal.h"

#define PREVIEW_CHARACTERS 4000 /* (wire) */

static const struct box_backend_process_state killed = {.known = true,
	.reason = BOX_BACKEND_END_SIGNAL,
	.signal = 9,
	.exit_code = 128 + 9,
	.out_ended = true};

static const struct box_backend_process_ops *ops_of(const struct box_process *process)
{
	return process->session->backend->processes;
}

/* --- making and forgetting --- */

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *copy(struct box_arena *arena, const char *text)
{
	return box_arena_strndup(arena, text, strlen(text));
}

struct box_process *box_process_new(
	struct box_session *session, uint32_t number, const struct box_process_spec *spec)
{
	struct box_arena *arena = box_arena_new();
	struct box_process *process = box_arena_alloc(arena, sizeof(*process));
	process->arena = arena;
	process->session = session;
	process->number = number;
	process->id = copy(arena, spec->process_id);
	process->command = copy(arena, spec->command);
	process->cwd = copy(arena, spec->cwd);
	process->memory_mb = spec->memory_mb;
	process->log_bytes = spec->log_bytes;
	process->arg_count = spec->arg_count;
	process->args = box_arena_alloc(arena, (spec->arg_count + 1) * sizeof(char *));
	for (size_t i = 0; i < spec->arg_count; i++) {
		process->args[i] = copy(arena, spec->args[i]);
	}
	process->env_count = spec->env_count;
	process->env_keys = box_arena_alloc(arena, (spec->env_count + 1) * sizeof(char *));
	for (size_t i = 0; i < spec->env_count; i++) {
		process->env_keys[i] = copy(arena, spec->env[i].name);
	}
	qsort(process->env_keys, process->env_count, sizeof(char *), compare_names);
	process->running = true;
	process->input = box_buf(BOX_PROCESS_INPUT_BYTES_MAX);
	process->started_utc_us = box_clock_utc_us();
	box_list_init(&process->readers);
	box_list_init(&process->idle_readers);
	box_list_init(&process->ops);
	box_list_init(&process->peeks);
	box_list_init(&process->links);
	box_list_push(&session->processes, &process->links);
	return process;
}

int64_t box_process_limit_mb(const struct box_process *process)
{
	return process->memory_mb < process->session->spec.memory_mb ? process->memory_mb : 0;
}

/* Forgets a process; its box is gone, or forgets it too. */
void box_process_free(struct box_process *process)
{
	box_process_dismiss_readers(process);
	box_process_end_peeks(process);
	/* Out of the list first: the whole record may be written again, with all processes in the list. */
	box_list_drop(&process->links);
	box_process_record_end(process);
	box_process_free_input(process);
	free(process->tail);
	box_arena_free(process->arena);
}

static void forget(struct box_process *process)
{
	ops_of(process)->forget(process->session->box, process->number);
	box_process_free(process);
}

/* --- information --- */

static struct box_value text_value(struct box_arena *arena, const char *text)
{
	return box_cstr(box_arena_strndup(arena, text, strlen(text)));
}

static struct box_value time_value(struct box_arena *arena, int64_t utc_us)
{
	char text[BOX_CLOCK_TEXT_SIZE];
	box_clock_format(utc_us, text);
	return text_value(arena, text);
}

static struct box_value list_value(struct box_arena *arena, const char *const *texts, size_t count)
{
	struct box_value list = box_list_value();
	for (size_t i = 0; i < count; i++) {
		box_list_add(arena, &list, text_value(arena, texts[i]));
	}
	return list;
}

struct box_value box_process_info(const struct box_process *process, struct box_arena *arena)
{
	struct box_value info = box_map_value();
	bool exited = !process->running;
	box_map_add(arena, &info, "session_id", text_value(arena, process->session->logical_id));
	box_map_add(arena, &info, "process_id", text_value(arena, process->id));
	box_map_add(arena, &info, "status", box_cstr(exited ? "exited" : "running"));
	box_map_add(arena, &info, "command", text_value(arena, process->command));
	box_map_add(arena, &info, "args", list_value(arena, process->args, process->arg_count));
	box_map_add(arena, &info, "cwd", text_value(arena, process->cwd));
	box_map_add(
		arena, &info, "env_keys", list_value(arena, process->env_keys, process->env_count));
	box_map_add(arena, &info, "attached", box_bool(!box_list_empty(&process->readers)));
	box_map_add(arena, &info, "started_at", time_value(arena, process->started_utc_us));
	box_map_add(arena, &info, "exited_at",
		exited ? time_value(arena, process->exited_utc_us) : box_null());
	box_map_add(arena, &info, "exit_code", exited ? box_int(process->exit_code) : box_null());
	const char *tail = process->tail ? process->tail : "";
	box_map_add(arena, &info, "stderr_preview",
		box_text((struct box_str){
			box_arena_strndup(arena, tail, process->tail_len), process->tail_len}));
	if (process->log_bytes > 0) {
		box_map_add(arena, &info, "log_bytes", box_int(process->log_bytes));
	}
	if (!exited && process->blocked) {
		struct box_value waiting = box_map_value();
		box_map_add(arena, &waiting, "unread_bytes", box_int((int64_t)process->unread));
		box_map_add(arena, &info, "waiting", waiting);
	}
	if (exited) {
		box_map_add(arena, &info, "end",
			box_output_end(arena, process->reason, process->signal));
	}
	return info;
}

void box_process_add_session_info(
	const struct box_session *session, struct box_arena *arena, struct box_value *info)
{
	struct box_value all = box_map_value();
	const struct box_list *list = &session->processes;
	for (const struct box_list *at = list->next; at != list; at = at->next) {
		const struct box_process *process = box_process_at(at);
		if (!process->leaving) {
			const char *id = box_arena_strndup(arena, process->id, strlen(process->id));
			box_map_set(arena, &all, box_str(id), box_process_info(process, arena));
		}
	}
	if (all.count == 0) {
		return;
	}
	const struct box_value *default_one = box_map_get(&all, "default");
	box_map_add(arena, info, "managed_processes", all);
	if (default_one) {
		box_map_add(arena, info, "managed_process", *default_one);
	}
}

bool box_process_runs(const struct box_process *process)
{
	return process->running;
}

int box_process_exit_code(const struct box_process *process)
{
	return process->exit_code;
}

struct box_process_counts box_process_count_workspace(
	const struct box_sessions *sessions, const char *workspace)
{
	struct box_process_counts counts = {0};
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = box_session_at(at);
		if (workspace && strcmp(session->workspace, workspace) != 0) {
			continue;
		}
		const struct box_list *list = &session->processes;
		for (const struct box_list *one = list->next; one != list; one = one->next) {
			const struct box_process *process = box_process_at(one);
			counts.running += process->running;
			counts.completed += !process->running && !process->leaving;
		}
	}
	return counts;
}

struct box_process_counts box_process_count(
	const struct box_sessions *sessions, const struct box_context *context)
{
	char workspace[BOX_NAMESPACE_SIZE];
	if (context) {
		box_tenant_namespace(context, workspace);
	}
	return box_process_count_workspace(sessions, context ? workspace : NULL);
}

bool box_process_all_known(const struct box_sessions *sessions)
{
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_list *list = &box_session_at(at)->processes;
		for (const struct box_list *one = list->next; one != list; one = one->next) {
			if (!box_process_at(one)->known) {
				return false;
			}
		}
	}
	return true;
}

/* --- operations --- */

static struct box_process_op *op_new(struct box_session *session,
	const struct box_process_spec *spec, box_process_done *done, void *arg)
{
	struct box_process_op *op = box_alloc(sizeof(*op));
	op->session = session;
	op->spec = spec;
	op->done = done;
	op->arg = arg;
	box_list_init(&op->links);
	return op;
}

void box_process_op_cancel(struct box_process_op *op)
{
	box_list_drop(&op->links);
	free(op);
}

static void op_finish(
	struct box_process_op *op, const struct box_process *process, const struct box_err *err)
{
	struct box_process_op last = *op;
	box_process_op_cancel(op);
	last.done(last.arg, process, err);
}

/* From now on it cannot be found by its id, and it is being ended. */
static void leave(struct box_process *process)
{
	if (process->leaving) {
		return;
	}
	process->leaving = true;
	process->left_ms = box_clock_ms();
	box_process_dismiss_readers(process);
	if (process->running) {
		box_process_record_leaving(process);
		ops_of(process)->stop(process->session->box, process->number, BOX_PROCESS_GRACE_MS);
	}
}

/* A process with this id that is not over yet, or NULL. */
static struct box_process *find_present(struct box_session *session, const char *id)
{
	for (struct box_list *at = session->processes.next; at != &session->processes;
		at = at->next) {
		struct box_process *process = box_process_at(at);
		if (process->running && strcmp(process->id, id) == 0) {
			return process;
		}
	}
	return NULL;
}

static struct box_process *find_named(struct box_session *session, const char *id)
{
	for (struct box_list *at = session->processes.next; at != &session->processes;
		at = at->next) {
		struct box_process *process = box_process_at(at);
		if (!process->leaving && strcmp(process->id, id) == 0) {
			return process;
		}
	}
	return NULL;
}

static int begin(struct box_session *session, const struct box_process_spec *spec,
	struct box_process **ret_process, struct box_err *err)
{
	struct box_process *former = find_named(session, spec->process_id);
	uint32_t number = ++session->sessions->processes_begun;
	struct box_process *process = box_process_new(session, number, spec);
	struct box_process_spec limited = *spec;
	limited.memory_mb = box_process_limit_mb(process);
	limited.mounts = session->spec.volumes;
	limited.mount_count = session->spec.volume_count;
	process->oom_kills = session->backend->processes->oom_kills(session->box);
	/* The record comes first: if the next box-rpc looks for a process that was never started, it finds none. */
	box_process_record(process);
	int r = session->backend->processes->start(
		session->box, number, &limited, &box_process_events, process, err);
	if (r < 0) {
		box_process_free(process);
		return r;
	}
	process->known = true;
	session->processes_running++;
	if (former) {
		forget(former);
	}
	BOX_LOG(BOX_LOG_INFO, "process.started", box_log_str("session", session->physical_id),
		box_log_str("process", process->id));
	*ret_process = process;
	return 0;
}

static int check_live(const struct box_session *session, struct box_err *err)
{
	if (session->state == BOX_SESSION_STOPPED) {
		return box_session_refuse_stopped(session, err);
	}
	if (session->state != BOX_SESSION_LIVE) {
		return box_err_set(err, BOX_ERR_SESSION_NOT_FOUND, ENOENT, "session %s is being %s",
			session->physical_id,
			session->state == BOX_SESSION_MAKING ? "made" : "deleted");
	}
	if (!session->backend->processes) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP,
			"the backend of session %s runs no managed processes",
			session->physical_id);
	}
	return 0;
}

/* Continues the operations that waited for an end: a start begins, or waits for another one that began since. */
static void op_go_on(struct box_process_op *op)
{
	struct box_process *process = NULL;
	struct box_err err;
	if (!op->spec) {
		op_finish(op, NULL, NULL);
		return;
	}
	int r = check_live(op->session, &err);
	struct box_process *present = r < 0 ? NULL
					    : find_present(op->session, op->spec->process_id);
	if (present) {
		leave(present);
		box_list_push(&present->ops, &op->links);
		return;
	}
	if (r == 0) {
		r = begin(op->session, op->spec, &process, &err);
	}
	op_finish(op, r < 0 ? NULL : process, r < 0 ? &err : NULL);
}

/* It has left: frees it, then continues the operations that waited for that. */
static void finish_leaving(struct box_process *process)
{
	struct box_list ops;
	box_list_init(&ops);
	while (!box_list_empty(&process->ops)) {
		struct box_list *first = process->ops.next;
		box_list_drop(first);
		box_list_push(&ops, first);
	}
	box_process_free(process);
	while (!box_list_empty(&ops)) {
		struct box_list *first = ops.next;
		box_list_drop(first);
		box_list_init(first);
		op_go_on(BOX_CONTAINER_OF(first, struct box_process_op, links));
	}
}

static int check_capacity(
	const struct box_session *session, const struct box_process *replaced, struct box_err *err)
{
	const struct box_session_rules *rules = session->sessions->rules;
	struct box_process_counts counts = box_process_count(session->sessions, NULL);
	int64_t others = (int64_t)counts.running - (replaced != NULL);
	if (others >= rules->max_processes) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"Box managed process capacity reached (%lld)",
			(long long)rules->max_processes);
	}
	counts = box_process_count_workspace(session->sessions, session->workspace);
	return box_ceilings_check_processes(
		&rules->ceilings, (int64_t)counts.running - (replaced != NULL), err);
}

int box_process_start(struct box_session *session, const struct box_process_spec *spec,
	box_process_done *done, void *arg, struct box_process **ret_process,
	struct box_process_op **ret_op, struct box_err *err)
{
	int r = check_live(session, err);
	if (r < 0) {
		return r;
	}
	r = box_ceilings_check_process(&session->sessions->rules->ceilings, spec, err);
	if (r < 0) {
		return r;
	}
	struct box_process *present = find_present(session, spec->process_id);
	r = check_capacity(session, present, err);
	if (r < 0) {
		return r;
	}
	/* A process that cannot be started does not replace another one. */
	if (present) {
		r = session->backend->processes->check(session->box, spec, err);
		if (r < 0) {
			return r;
		}
	}
	box_session_mark_used(session);
	if (!present) {
		return begin(session, spec, ret_process, err);
	}
	leave(present);
	struct box_process_op *op = op_new(session, spec, done, arg);
	box_list_push(&present->ops, &op->links);
	*ret_op = op;
	return 1;
}

struct box_process *box_process_find(
	struct box_session *session, const char *process_id, struct box_err *err)
{
	struct box_process *process = find_named(session, process_id);
	if (!process) {
		(void)box_err_set(err, BOX_ERR_PROCESS_NOT_FOUND, ENOENT,
			"session %s has no managed process with process_id=%s",
			session->physical_id, process_id);
	}
	return process;
}

int box_process_stop(struct box_process *process, box_process_done *done, void *arg,
	struct box_process_op **ret_op)
{
	struct box_session *session = process->session;
	box_session_mark_used(session);
	leave(process);
	if (!process->running) {
		forget(process);
		return 0;
	}
	struct box_process_op *op = op_new(session, NULL, done, arg);
	box_list_push(&process->ops, &op->links);
	*ret_op = op;
	return 1;
}

/* --- events of the backend --- */

static void set_ended(struct box_process *process, const struct box_backend_process_state *state)
{
	process->running = false;
	box_process_free_input(process);
	process->session->processes_running--;
	box_session_mark_used(process->session);
	process->exited_utc_us = box_clock_utc_us();
	process->exited_ms = box_clock_ms();
	process->reason = state->reason;
	process->exit_code = state->exit_code;
	process->signal = state->signal;
	if (!process->leaving) {
		box_process_record_exit(process);
	}
	BOX_LOG(BOX_LOG_INFO, "process.exited",
		box_log_str("session", process->session->physical_id),
		box_log_str("process", process->id), box_log_int("code", state->exit_code));
}

/* The start of the last characters of a text. */
static size_t last_characters(struct box_str text, size_t characters)
{
	size_t at = text.len;
	while (at > 0 && characters > 0) {
		at--;
		characters -= ((unsigned char)text.bytes[at] & 0xc0) != 0x80;
	}
	return at;
}

static void set_tail(struct box_process *process, const struct box_backend_process_state *state)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_str raw = state->tail;
	char said[1024];
	if (state->failure) {
		(void)snprintf(
			said, sizeof(said), "%.300s: %.500s", process->command, state->failure);
		raw = box_str(said);
	}
	struct box_str text = raw.len == 0 ? box_str("") : box_output_repair(arena, raw);
	size_t at = last_characters(text, PREVIEW_CHARACTERS);
	size_t len = text.len - at;
	free(process->tail);
	process->tail = box_alloc(len + 1);
	process->tail_len = len;
	memcpy(process->tail, text.bytes + at, len);
}

static void on_state(void *arg, const struct box_backend_process_state *state)
{
	struct box_process *process = arg;
	state = state->known ? state : &killed;
	process->freed = BOX_MAX(state->freed, process->freed);
	process->out_end = BOX_MAX(state->out_end, process->out_end);
	process->out_ended = state->out_ended;
	process->blocked = state->blocked;
	process->unread = state->out_end - state->freed;
	if (!process->known) {
		process->known = true;
		process->in_sent = state->in_have;
		process->in_taken = state->in_taken;
		process->in_ended = state->in_ended;
	}
	set_tail(process, state);
	if (process->running && !state->running) {
		set_ended(process, state);
	}
	if (process->leaving && !process->running) {
		ops_of(process)->forget(process->session->box, process->number);
		finish_leaving(process);
		return;
	}
	box_process_serve_readers(process);
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	box_process_deliver_output(arg, offset, bytes);
}

static void on_skipped(void *arg, uint64_t offset)
{
	box_process_skip_output(arg, offset);
}

static void on_fed(void *arg, uint64_t taken)
{
	box_process_set_input_taken(arg, taken);
}

static void on_peeked(void *arg, const struct box_backend_process_peeked *peeked)
{
	box_process_take_peeked(arg, peeked);
}

const struct box_backend_process_events box_process_events = {
	.state = on_state,
	.output = on_output,
	.skipped = on_skipped,
	.fed = on_fed,
	.peeked = on_peeked,
};

/* --- all processes of a session, or of all sessions --- */

void box_process_end_all(struct box_session *session)
{
	while (!box_list_empty(&session->processes)) {
		struct box_process *process = box_process_at(session->processes.next);
		process->leaving = true;
		if (session->box) {
			ops_of(process)->forget(session->box, process->number);
		}
		if (process->running) {
			set_ended(process, &killed);
		}
		finish_leaving(process);
	}
}

/* Only at the second check: if we were delayed ourselves, its end may be unread at the first. */
static bool is_late(struct box_process *process, uint64_t now_ms)
{
	bool before = process->late;
	process->late = process->leaving && process->running &&
		now_ms >= process->left_ms + BOX_PROCESS_GRACE_MS + BOX_PROCESS_LATE_MS;
	return before && process->late;
}

bool box_process_any_late(struct box_session *session, uint64_t now_ms)
{
	bool late = false;
	struct box_list *list = &session->processes;
	for (struct box_list *at = list->next; at != list; at = at->next) {
		late = is_late(box_process_at(at), now_ms) || late;
	}
	return late;
}

static struct box_process *oldest_completed(const struct box_sessions *sessions)
{
	struct box_process *oldest = NULL;
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_list *list = &box_session_at(at)->processes;
		/* While a session of the previous box-rpc has no box yet, nothing of it can be forgotten. */
		for (const struct box_list *one = list->next;
			box_session_at(at)->box && one != list; one = one->next) {
			struct box_process *process = box_process_at(one);
			/* Its readers get the rest of its output first. */
			if (!process->running && !process->leaving &&
				box_list_empty(&process->readers) &&
				(!oldest || process->exited_ms < oldest->exited_ms)) {
				oldest = process;
			}
		}
	}
	return oldest;
}

void box_process_tick_all(struct box_sessions *sessions, uint64_t now_ms)
{
	const struct box_session_rules *rules = sessions->rules;
	uint64_t kept_ms = (uint64_t)rules->retention_sec * 1000;
	int64_t completed = (int64_t)box_process_count(sessions, NULL).completed;
	struct box_process *oldest;
	while ((oldest = oldest_completed(sessions)) &&
		(completed > rules->max_completed || now_ms - oldest->exited_ms >= kept_ms)) {
		forget(oldest);
		completed--;
	}
	box_process_tick_peeks(sessions, now_ms);
}
