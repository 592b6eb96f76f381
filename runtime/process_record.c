/* Managed processes for a successor of this program: {process: {...}} when one is begun, {forgotten:
 * number} when it is no more. What is read back may be anyone's. */
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "runtime/process_state.h"

/* The spec as the wire has it; of the environment the names alone. */
static struct box_value spec_value(const struct box_process *process, struct box_arena *arena)
{
	static const char *const members[] = {"process_id", "command", "args", "cwd"};
	struct box_value info = box_process_info(process, arena);
	struct box_value spec = box_map_value();
	struct box_value env = box_map_value();
	for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
		box_map_add(arena, &spec, members[i], *box_map_get(&info, members[i]));
	}
	for (size_t i = 0; i < process->env_count; i++) {
		box_map_set(arena, &env, box_str(process->env_keys[i]), box_cstr(""));
	}
	box_map_add(arena, &spec, "env", env);
	box_map_add(arena, &spec, "memory_mb", box_int(process->memory_mb));
	return spec;
}

static struct box_value process_change(const struct box_process *process, struct box_arena *arena)
{
	struct box_value record = box_map_value();
	struct box_value change = box_map_value();
	box_map_add(arena, &record, "session", box_cstr(process->session->physical_id));
	box_map_add(arena, &record, "number", box_int(process->number));
	box_map_add(arena, &record, "started", box_int(process->started_utc_us));
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

void box_process_record_end(const struct box_process *process)
{
	const struct box_session_rules *rules = process->session->sessions->rules;
	if (!process->recorded || process->session->mark == 0 || !rules->changed) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = box_map_value();
	box_map_add(arena, &change, "forgotten", box_int(process->number));
	rules->changed(rules->changed_arg, &change);
}

void box_processes_dump(const struct box_session *session, struct box_arena *arena,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	const struct box_list *list = &session->processes;
	for (const struct box_list *at = list->next; at != list; at = at->next) {
		struct box_value change = process_change(box_process_at(at), arena);
		emit(arg, &change);
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
		struct box_session *session = BOX_LIST_ITEM(at, struct box_session, links);
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
		number > UINT32_MAX || box_process_spec_parse(arena, spec, &parsed, &err) < 0) {
		return;
	}
	struct box_session *session = box_table_get(&sessions->by_id, session_id->str);
	if (!session || !session->backend->kept || find_number(sessions, number)) {
		return;
	}
	struct box_process *process = box_process_new(session, (uint32_t)number, &parsed);
	process->started_utc_us = number_of(record, "started");
	process->recorded = true;
	session->kept++;
	if (sessions->processes_begun < process->number) {
		sessions->processes_begun = process->number;
	}
}

void box_processes_replay(struct box_sessions *sessions, const struct box_value *change)
{
	const struct box_value *record = box_map_get(change, "process");
	const struct box_value *forgotten = box_map_get(change, "forgotten");
	if (record && record->type == BOX_MAP) {
		replay_process(sessions, record);
	}
	struct box_process *process = forgotten && forgotten->type == BOX_INT
		? find_number(sessions, forgotten->integer)
		: NULL;
	if (process) {
		process->recorded = false;
		process->session->kept--;
		box_process_free(process);
	}
}

void box_processes_adopt(struct box_session *session)
{
	for (struct box_list *at = session->processes.next; at != &session->processes;
		at = at->next) {
		struct box_process *process = box_process_at(at);
		session->backend->kept->find(
			session->box, process->number, &box_process_events, process);
	}
}
