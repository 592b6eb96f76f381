/* Managed processes in the record for the next box-rpc: {process: {...}} when a process is started, {leaving: number}
 * when it is being ended, {ended: {...}} when it has ended, {forgotten: number} when it is no longer listed. A record
 * that is read back is not trusted. */
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/macros.h"
#include "runtime/session/process_internal.h"

#define SIGNAL_MAX 64
#define EXIT_CODE_MAX 255

/* The spec in its wire form; of the environment only the names. */
static struct box_value spec_value(const struct box_process *process, struct box_arena *arena)
{
	static const char *const members[] = {"process_id", "command", "args", "cwd"};
	struct box_value info = box_process_info(process, arena);
	struct box_value spec = box_map_value();
	struct box_value env = box_map_value();
	for (size_t i = 0; i < BOX_COUNT_OF(members); i++) {
		box_map_add(arena, &spec, members[i], *box_map_get(&info, members[i]));
	}
	for (size_t i = 0; i < process->env_count; i++) {
		box_map_set(arena, &env, box_str(process->env_keys[i]), box_cstr(""));
	}
	box_map_add(arena, &spec, "env", env);
	box_map_add(arena, &spec, "memory_mb", box_int(process->memory_mb));
	box_map_add(arena, &spec, "log_bytes", box_int(process->log_bytes));
	return spec;
}

static struct box_value process_change(const struct box_process *process, struct box_arena *arena)
{
	struct box_value record = box_map_value();
	struct box_value change = box_map_value();
	box_map_add(arena, &record, "session", box_cstr(process->session->physical_id));
	box_map_add(arena, &record, "number", box_int(process->number));
	box_map_add(arena, &record, "started", box_int(process->started_utc_us));
	box_map_add(arena, &record, "kills", box_int((int64_t)process->oom_kills));
	box_map_add(arena, &record, "spec", spec_value(process, arena));
	box_map_add(arena, &change, "process", record);
	return change;
}

void box_process_record(struct box_process *process)
{
	const struct box_session_rules *rules = process->session->sessions->rules;
	if (process->session->mark == 0 || !rules->changed) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = process_change(process, arena);
	rules->changed(rules->changed_arg, &change);
	process->recorded = true;
}

static struct box_value exit_change(const struct box_process *process, struct box_arena *arena)
{
	struct box_value record = box_map_value();
	struct box_value change = box_map_value();
	box_map_add(arena, &record, "number", box_int(process->number));
	box_map_add(arena, &record, "at", box_int(process->exited_utc_us));
	box_map_add(arena, &record, "reason", box_int(process->reason));
	box_map_add(arena, &record, "code", box_int(process->exit_code));
	box_map_add(arena, &record, "signal", box_int(process->signal));
	box_map_add(arena, &change, "ended", record);
	return change;
}

static struct box_value number_change(
	const struct box_process *process, const char *what, struct box_arena *arena)
{
	struct box_value change = box_map_value();
	box_map_add(arena, &change, what, box_int(process->number));
	return change;
}

/* For a process whose start was recorded. */
static bool is_recorded(const struct box_process *process)
{
	return process->recorded && process->session->mark != 0 &&
		process->session->sessions->rules->changed;
}

static void emit_change(const struct box_process *process, const struct box_value *change)
{
	const struct box_session_rules *rules = process->session->sessions->rules;
	rules->changed(rules->changed_arg, change);
}

void box_process_record_exit(const struct box_process *process)
{
	if (is_recorded(process)) {
		_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
		struct box_value change = exit_change(process, arena);
		emit_change(process, &change);
	}
}

static void record_number(const struct box_process *process, const char *what)
{
	if (is_recorded(process)) {
		_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
		struct box_value change = number_change(process, what, arena);
		emit_change(process, &change);
	}
}

void box_process_record_leaving(const struct box_process *process)
{
	record_number(process, "leaving");
}

void box_process_record_end(const struct box_process *process)
{
	record_number(process, "forgotten");
}

void box_process_dump_all(const struct box_session *session, struct box_arena *arena,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	const struct box_list *list = &session->processes;
	for (const struct box_list *at = list->next; at != list; at = at->next) {
		const struct box_process *process = box_process_at(at);
		struct box_value change = process_change(process, arena);
		emit(arg, &change);
		if (!process->running) {
			change = exit_change(process, arena);
			emit(arg, &change);
		} else if (process->leaving) {
			change = number_change(process, "leaving", arena);
			emit(arg, &change);
		}
	}
}

/* --- reading --- */

static int64_t number_of(const struct box_value *record, const char *name)
{
	const struct box_value *value = box_map_get(record, name);
	return value && value->type == BOX_INT ? value->integer : 0;
}

static struct box_process *find_number(struct box_sessions *sessions, int64_t number)
{
	for (struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		struct box_session *session = BOX_CONTAINER_OF(at, struct box_session, links);
		for (struct box_list *one = session->processes.next; one != &session->processes;
			one = one->next) {
			if (box_process_at(one)->number == number) {
				return box_process_at(one);
			}
		}
	}
	return NULL;
}

static void replay_process(struct box_sessions *sessions, const struct box_value *record)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	const struct box_value *session_id = box_map_get(record, "session");
	const struct box_value *spec = box_map_get(record, "spec");
	int64_t number = number_of(record, "number");
	struct box_process_spec parsed;
	struct box_err err;
	if (!session_id || session_id->type != BOX_STR || !spec || number < 1 ||
		number > UINT32_MAX || box_spec_parse_process(arena, spec, &parsed, &err) < 0) {
		return;
	}
	struct box_session *session = box_table_get(&sessions->by_id, session_id->str);
	if (!session || !session->backend->processes || find_number(sessions, number)) {
		return;
	}
	struct box_process *process = box_process_new(session, (uint32_t)number, &parsed);
	process->started_utc_us = number_of(record, "started");
	process->oom_kills = (uint64_t)number_of(record, "kills");
	process->recorded = true;
	session->processes_running++;
	if (sessions->processes_begun < process->number) {
		sessions->processes_begun = process->number;
	}
}

static struct box_process *find_named(
	struct box_sessions *sessions, const struct box_value *change, const char *name)
{
	const struct box_value *number = box_map_get(change, name);
	return number && number->type == BOX_INT ? find_number(sessions, number->integer) : NULL;
}

/* When it ended, by the monotonic clock, as far as this process's clocks allow. */
static uint64_t ended_ms(int64_t utc_us)
{
	uint64_t now_ms = box_clock_ms();
	int64_t now_us = box_clock_utc_us();
	uint64_t ago_ms = utc_us < now_us ? ((uint64_t)now_us - (uint64_t)utc_us) / 1000 : 0;
	return ago_ms < now_ms ? now_ms - ago_ms : 0;
}

static void replay_exit(struct box_sessions *sessions, const struct box_value *record)
{
	struct box_process *process = find_named(sessions, record, "number");
	int64_t reason = number_of(record, "reason");
	int64_t code = number_of(record, "code");
	int64_t signal = number_of(record, "signal");
	if (!process || !process->running || reason < 0 || reason > BOX_BACKEND_END_TIMEOUT ||
		code < 0 || code > EXIT_CODE_MAX || signal < 0 || signal > SIGNAL_MAX) {
		return;
	}
	process->running = false;
	process->session->processes_running--;
	process->exited_utc_us = number_of(record, "at");
	process->exited_ms = ended_ms(process->exited_utc_us);
	process->reason = (enum box_backend_end_reason)reason;
	process->exit_code = (int)code;
	process->signal = (int)signal;
}

static void replay_forgotten(struct box_process *process)
{
	process->recorded = false;
	process->session->processes_running -= process->running;
	box_process_free(process);
}

void box_process_replay(struct box_sessions *sessions, const struct box_value *change)
{
	const struct box_value *record = box_map_get(change, "process");
	const struct box_value *ended = box_map_get(change, "ended");
	struct box_process *leaving = find_named(sessions, change, "leaving");
	struct box_process *forgotten = find_named(sessions, change, "forgotten");
	int64_t begun = number_of(change, "begun");
	if (begun > sessions->processes_begun && begun <= UINT32_MAX) {
		sessions->processes_begun = (uint32_t)begun;
	}
	if (record && record->type == BOX_MAP) {
		replay_process(sessions, record);
	}
	if (ended && ended->type == BOX_MAP) {
		replay_exit(sessions, ended);
	}
	if (leaving) {
		leaving->leaving = true;
	}
	if (forgotten) {
		replay_forgotten(forgotten);
	}
}

void box_process_adopt_all(struct box_session *session)
{
	for (struct box_list *at = session->processes.next; at != &session->processes;
		at = at->next) {
		struct box_process *process = box_process_at(at);
		const struct box_backend_process_record past = {
			.memory_mb = box_process_limit_mb(process),
			.oom_kills = process->oom_kills,
			.ended = !process->running,
			.has_log = process->log_bytes > 0,
		};
		session->backend->processes->adopt(
			session->box, process->number, &past, &box_process_events, process);
		if (process->leaving) {
			process->left_ms = box_clock_ms();
			session->backend->processes->stop(
				session->box, process->number, BOX_PROCESS_GRACE_MS);
		}
	}
}
