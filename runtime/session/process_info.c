/* What can be seen of managed processes: their info on the wire, and counts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "runtime/session/output.h"
#include "runtime/session/process_internal.h"

#define PREVIEW_CHARACTERS 4000 /* (wire) */

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
	const struct box_value *usual = box_map_get(&all, "default");
	box_map_add(arena, info, "managed_processes", all);
	if (usual) {
		box_map_add(arena, info, "managed_process", *usual);
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

/* --- counts --- */

static const struct box_session *session_at(const struct box_list *at)
{
	return (const struct box_session *)(const void *)((const char *)at -
		offsetof(struct box_session, links));
}

struct box_process_counts box_process_count_workspace(
	const struct box_sessions *sessions, const char *workspace)
{
	struct box_process_counts counts = {0};
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_session *session = session_at(at);
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
		const struct box_list *list = &session_at(at)->processes;
		for (const struct box_list *one = list->next; one != list; one = one->next) {
			if (!box_process_at(one)->known) {
				return false;
			}
		}
	}
	return true;
}

struct box_process *box_process_oldest_completed(const struct box_sessions *sessions)
{
	struct box_process *oldest = NULL;
	for (const struct box_list *at = sessions->all.next; at != &sessions->all; at = at->next) {
		const struct box_list *list = &session_at(at)->processes;
		/* Of a predecessor's session that has no box yet, nothing can be forgotten. */
		for (const struct box_list *one = list->next; session_at(at)->box && one != list;
			one = one->next) {
			struct box_process *process = box_process_at(one);
			/* Whoever reads it gets its last words first. */
			if (!process->running && !process->leaving &&
				box_list_empty(&process->readers) &&
				(!oldest || process->exited_ms < oldest->exited_ms)) {
				oldest = process;
			}
		}
	}
	return oldest;
}

/* --- stderr --- */

/* Where the last characters of a text begin. */
static size_t last_characters(struct box_str text, size_t characters)
{
	size_t at = text.len;
	while (at > 0 && characters > 0) {
		at--;
		characters -= ((unsigned char)text.bytes[at] & 0xc0) != 0x80;
	}
	return at;
}

void box_process_set_tail(
	struct box_process *process, const struct box_backend_process_state *state)
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
