/* File operations in a box, and measuring a microVM, which only its own init can look into.
 *
 * A request becomes a run, and the answer of that process is checked to the last byte before it is passed on. An
 * invalid answer fails only the request, not the box: the payload may have taken over that process.
 */
#include "runtime/backend/local_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"
#include "plan/plan.h"
#include "protocol/init_file.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_run.h"
#include "runtime/backend/local_stdio.h"

#define TEXTS 4

struct box_local_file {
	struct box_local_run run;
	const struct box_backend_file_request *ask; /* the caller's, until done */
	struct box_init_file wire;
	const struct box_file_events *events; /* of a watch */
	struct box_buf pending;               /* an incomplete event */
	struct box_buf answer;                /* of a watch that ended badly */
	bool broken;                          /* it sent something invalid */
	bool watching;                        /* the watch has reported that it started */
	box_backend_file_done *done;
	void *arg;
};

static struct box_local_file *file_of(struct box_local_run *run)
{
	return (struct box_local_file *)(void *)run;
}

static void file_free(struct box_local_file *file)
{
	box_buf_free(&file->pending);
	box_buf_free(&file->answer);
}

static void forget(struct box_local_run *run)
{
	file_of(run)->ask = NULL;
	/* It is being ended: nobody reads the events any more. */
	box_local_stdio_drop_input(run);
	file_free(file_of(run));
}

/* It may hang in a file system, where nothing can end it, while box-init itself works. */
static void late(struct box_local_run *run)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_OS, ETIMEDOUT, "the file system does not answer");
	box_local_run_finish(run, NULL, &err);
}

/* --- building the request --- */

static uint32_t flags_of(const struct box_backend_file_request *ask)
{
	return (ask->at ? BOX_INIT_FILE_AT_OFFSET : 0U) |
		(ask->append ? BOX_INIT_FILE_APPEND : 0U) |
		(ask->parents ? BOX_INIT_FILE_PARENTS : 0U) |
		(ask->recursive ? BOX_INIT_FILE_RECURSIVE : 0U) |
		(ask->replace ? BOX_INIT_FILE_REPLACE : 0U) |
		(ask->mode >= 0 ? BOX_INIT_FILE_MODE : 0U);
}

static uint64_t size_of(const struct box_backend_file_request *ask)
{
	switch (ask->kind) {
	case BOX_FILE_READ:
		return ask->length;
	case BOX_FILE_WRITE:
		return ask->data.len;
	case BOX_FILE_LIST:
		return BOX_FILE_OP_LIST_BYTES_MAX;
	case BOX_FILE_MEASURE:
		return sizeof(struct box_init_file_measured);
	default:
		return 0;
	}
}

/* How much may arrive on stdout or stderr. */
static int64_t max_output(const struct box_backend_file_request *ask)
{
	uint64_t size = ask->kind == BOX_FILE_WRITE ? 0 : size_of(ask);
	return (int64_t)BOX_MAX(size, (uint64_t)BOX_INIT_FILE_TEXT_MAX);
}

/* How long it may take; 0: for ever. */
static uint64_t time_ms(const struct box_backend_file_request *ask)
{
	return ask->kind == BOX_FILE_WATCH      ? 0
		: ask->kind == BOX_FILE_MEASURE ? BOX_MEASURE_MS
						: BOX_FILE_OP_MS;
}

/* The command of the RUN. */
static struct box_buf encode(struct box_local_file *file)
{
	static const uint32_t kinds[] = {
		[BOX_FILE_READ] = BOX_INIT_FILE_READ,
		[BOX_FILE_WRITE] = BOX_INIT_FILE_WRITE,
		[BOX_FILE_LIST] = BOX_INIT_FILE_LIST,
		[BOX_FILE_STAT] = BOX_INIT_FILE_STAT,
		[BOX_FILE_MKDIR] = BOX_INIT_FILE_MKDIR,
		[BOX_FILE_REMOVE] = BOX_INIT_FILE_REMOVE,
		[BOX_FILE_MOVE] = BOX_INIT_FILE_MOVE,
		[BOX_FILE_WATCH] = BOX_INIT_FILE_WATCH,
		[BOX_FILE_MEASURE] = BOX_INIT_FILE_MEASURE,
	};
	const struct box_backend_file_request *ask = file->ask;
	const char *second = ask->kind == BOX_FILE_LIST ? ask->after : ask->to.below;
	const char *texts[TEXTS] = {ask->path.root, ask->path.below, ask->to.root, second};
	struct box_buf body = box_buf(sizeof(file->wire) + TEXTS * BOX_INIT_FILE_TEXT_MAX);
	file->wire = (struct box_init_file){
		.kind = kinds[ask->kind],
		.flags = flags_of(ask),
		.mode = ask->mode >= 0 ? (uint32_t)ask->mode : 0,
		.limit = ask->limit,
		.offset = ask->offset,
		.size = size_of(ask),
	};
	for (int i = 0; i < TEXTS; i++) {
		texts[i] = texts[i] ? texts[i] : "";
		file->wire.sizes[i] = (uint32_t)strlen(texts[i]) + 1;
	}
	(void)box_buf_append(&body, &file->wire, sizeof(file->wire));
	for (int i = 0; i < TEXTS; i++) {
		(void)box_buf_append(&body, texts[i], file->wire.sizes[i]);
	}
	return body;
}

static void data_taken(void *arg, const struct box_err *err)
{
	(void)arg;
	(void)err;
}

static void send_run(struct box_local_run *run)
{
	struct box_local_file *file = file_of(run);
	const struct box_backend_file_request *ask = file->ask;
	struct box_buf body = encode(file);
	bool watches = ask->kind == BOX_FILE_WATCH;
	bool writes = ask->kind == BOX_FILE_WRITE && ask->data.len > 0;
	struct {
		struct box_init_run run;
		char workdir[2];
	} first = {
		.run =
			{
				.flags = BOX_INIT_RUN_FILE |
					(writes ? (uint32_t)BOX_INIT_RUN_STDIN : 0U),
				.workdir_size = sizeof(first.workdir),
				.command_size = (uint32_t)body.len,
				.mount_count = (uint32_t)run->mounts.count,
				.timeout_ms = time_ms(ask),
				.output_limit = watches ? UINT64_MAX : (uint64_t)max_output(ask),
				.credit = watches ? run->output.credit : UINT64_MAX / 2,
			},
		.workdir = "/",
	};
	run->sent = true;
	if (!watches) {
		/* Only now: while boxd opens the mounts, its answer must find the run. */
		box_local_run_set_deadline(run, time_ms(ask));
	}
	box_local_control_send(run->box, BOX_INIT_RUN, run->id, &first,
		offsetof(__typeof__(first), workdir) + sizeof(first.workdir), body.bytes, body.len,
		-1);
	box_buf_free(&body);
	if (writes) {
		box_local_stdio_input(&run->op, ask->data, true, data_taken, file);
	}
}

/* --- events of a watch --- */

static void give_up(struct box_local_file *file)
{
	file->broken = true;
	box_local_control_send(file->run.box, BOX_INIT_KILL, file->run.id, NULL, 0, NULL, 0, -1);
	box_local_run_reset_deadline(&file->run);
}

static void pass_on(struct box_local_file *file, const struct box_init_file_event_read *changed)
{
	static const enum box_file_change changes[BOX_INIT_FILE_CHANGES_] = {
		[BOX_INIT_FILE_CREATED] = BOX_FILE_CREATED,
		[BOX_INIT_FILE_CHANGED] = BOX_FILE_CHANGED,
		[BOX_INIT_FILE_REMOVED] = BOX_FILE_REMOVED,
		[BOX_INIT_FILE_MOVED] = BOX_FILE_MOVED,
		[BOX_INIT_FILE_OVERFLOW] = BOX_FILE_OVERFLOW,
	};
	uint64_t cost = sizeof(struct box_init_file_event) + changed->path.len + changed->from.len;
	/* STARTED must come first, and only once, because it costs no credit. */
	if (file->watching == (changed->change == BOX_INIT_FILE_STARTED)) {
		give_up(file);
		return;
	}
	if (!file->watching) {
		file->watching = true;
		box_local_run_credit(&file->run.op, cost);
		file->events->started(file->arg);
		return;
	}
	struct box_file_event event = {
		.change = changes[changed->change],
		.is_folder = changed->is_folder,
		.path = changed->path,
		.from = changed->from,
		.cost = cost,
	};
	file->events->event(file->arg, &event);
}

static void take_events(struct box_local_file *file, struct box_str bytes)
{
	if (box_buf_append(&file->pending, bytes.bytes, bytes.len) < 0) {
		give_up(file);
		return;
	}
	/* Moved out of the file: a callback may end the watch. */
	struct box_buf whole = file->pending;
	struct box_str left = {whole.bytes, whole.len};
	struct box_init_file_event_read changed;
	int r = 0;
	file->pending = box_buf(whole.limit);
	while (!file->run.cancelled && !file->broken &&
		(r = box_init_file_next_event(&left, &changed)) == 1) {
		pass_on(file, &changed);
	}
	if (!file->run.cancelled && !file->broken && r < 0) {
		give_up(file);
	} else if (!file->run.cancelled && !file->broken) {
		(void)box_buf_append(&file->pending, left.bytes, left.len);
	}
	box_buf_free(&whole);
}

static void watch_started(void *arg)
{
	(void)arg; /* the watch's first event reports the start */
}

static void watch_output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct box_local_file *file = arg;
	if (file->broken) {
		return;
	}
	if (!is_stderr) {
		take_events(file, bytes);
	} else if (box_buf_append(&file->answer, bytes.bytes, bytes.len) < 0) {
		give_up(file);
	}
}

static const struct box_backend_stream_events watch_events = {
	.started = watch_started, .output = watch_output};

/* --- the end --- */

static struct box_file_facts facts_of(const struct box_init_file_facts *facts)
{
	const int64_t max_sec = INT64_MAX / 2000;
	bool sane = facts->mtime_sec > -max_sec && facts->mtime_sec < max_sec;
	return (struct box_file_facts){
		.type = (enum box_file_type)facts->type,
		.mode = facts->mode,
		.size = facts->size,
		.mtime_ms = sane ? facts->mtime_sec * 1000 + facts->mtime_nsec / 1000000 : 0,
	};
}

static int take_entries(
	struct box_local_file *file, struct box_str left, struct box_file_outcome *outcome)
{
	struct box_init_file_entry_read named;
	struct box_str after = box_str(file->ask->after);
	size_t max = left.len / sizeof(struct box_init_file_entry);
	struct box_file_facts *entries = box_arena_alloc(
		file->run.arena, (max + 1) * sizeof(*entries));
	int r;
	while ((r = box_init_file_next_entry(&left, after, &named)) == 1) {
		if (outcome->entry_count == file->ask->limit) {
			return -EBADMSG;
		}
		struct box_file_facts *entry = &entries[outcome->entry_count++];
		*entry = facts_of(&named.facts);
		entry->name = named.name;
		entry->target = named.target;
		after = named.name;
	}
	outcome->entries = entries;
	return r;
}

static int take_answer(struct box_local_file *file, struct box_str err, struct box_str data,
	struct box_file_outcome *outcome)
{
	struct box_init_file_answer answer;
	int r = box_init_file_read_answer(&file->wire, err, data.len, &answer);
	if (r < 0) {
		return r;
	}
	*outcome = (struct box_file_outcome){
		.errnum = answer.errnum,
		.why = (enum box_file_refusal)answer.why,
		.of_to = answer.of_to != 0,
		.written = answer.written,
		.facts = facts_of(&answer.facts),
		.more = answer.more != 0,
	};
	if (answer.errnum != 0) {
		return 0;
	}
	switch (file->ask->kind) {
	case BOX_FILE_READ:
	case BOX_FILE_MEASURE:
		outcome->data = data;
		return 0;
	case BOX_FILE_STAT:
		outcome->facts.target = data;
		return box_str_has_nul(data) ? -EBADMSG : 0;
	case BOX_FILE_LIST:
		return take_entries(file, data, outcome);
	default:
		return 0;
	}
}

/* How the process ended, if it did not answer: 1, or negative with err. 0: there must be an answer. */
static int check_end(const struct box_backend_exec_outcome *ran, struct box_file_outcome *outcome,
	struct box_err *err)
{
	if (ran->reason == BOX_BACKEND_END_TIMEOUT || ran->reason == BOX_BACKEND_END_MEMORY) {
		outcome->errnum = ran->reason == BOX_BACKEND_END_TIMEOUT ? ETIMEDOUT : ENOMEM;
		return 1;
	}
	if (ran->reason != BOX_BACKEND_END_EXIT || ran->exit_code != 0) {
		return box_err_set(err, BOX_ERR_BOX, EIO,
			"the process of the file operation ended (exit code %d)", ran->exit_code);
	}
	if (ran->out_discarded > 0 || ran->err_discarded > 0) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too much output is held for all clients together");
	}
	return 0;
}

static void file_ran(
	void *arg, const struct box_backend_exec_outcome *ran, const struct box_err *err)
{
	struct box_local_file *file = arg;
	struct box_file_outcome outcome = {0};
	struct box_err own;
	bool watches = file->ask->kind == BOX_FILE_WATCH;
	int r = 0;
	if (!err && !file->broken) {
		r = check_end(ran, &outcome, &own);
		err = r < 0 ? &own : NULL;
	}
	if (!err && r == 0 && !file->broken && !(watches && file->answer.len == 0)) {
		struct box_str answer = {file->answer.bytes, file->answer.len};
		file->broken = take_answer(file, watches ? answer : ran->err,
				       watches ? (struct box_str){"", 0} : ran->out, &outcome) < 0;
	}
	if (!err && file->broken) {
		(void)box_err_set(
			&own, BOX_ERR_BOX, EPROTO, "malformed answer from the box about its files");
		err = &own;
	}
	file->done(file->arg, err ? NULL : &outcome, err);
	file_free(file);
}

static const struct box_local_run_ops file_ops = {
	.what = "the file operation",
	.send = send_run,
	.forget = forget,
	.late = late,
};

struct box_backend_op *box_local_file(struct box_backend_box *box,
	const struct box_backend_file_request *ask, const struct box_file_events *events,
	box_backend_file_done *done, void *arg)
{
	struct box_local_file *file = box_local_run_new(
		box, sizeof(*file), &file_ops, max_output(ask), file_ran, NULL);
	struct box_local_run *run = &file->run;
	run->arg = file;
	file->ask = ask;
	file->events = events;
	file->pending = box_buf(ask->credit);
	file->answer = box_buf(sizeof(struct box_init_file_answer));
	file->done = done;
	file->arg = arg;
	if (box_local_run_check_capacity(run) < 0 ||
		box_local_run_check_mounts(ask->mounts, ask->mount_count, &run->refusal) < 0) {
		box_local_run_refuse(run);
		return &run->op;
	}
	if (ask->kind == BOX_FILE_WATCH) {
		run->output.live = &watch_events;
		run->output.credit = ask->credit;
	}
	box_local_run_begin(run, ask->mounts, ask->mount_count);
	return &run->op;
}

/* --- measuring a microVM --- */

struct measuring {
	struct box_backend_file_request ask;
	box_local_measure_done *done;
	void *arg;
};

static struct box_local_measured_part part_of(const struct box_init_file_part *part)
{
	return (struct box_local_measured_part){
		part->exists != 0, part->size_bytes, part->file_count};
}

static void measured_done(
	void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct measuring measuring = *(struct measuring *)arg;
	struct box_init_file_measured measured;
	struct box_local_measured_parts parts = {0};
	free(arg);
	int r = err ? -ESRCH : -outcome->errnum;
	if (r == 0) {
		r = box_init_file_read_measured(outcome->data, &measured);
	}
	if (r == 0) {
		parts.workspace = part_of(&measured.workspace);
		parts.cache = part_of(&measured.cache);
		parts.temp = part_of(&measured.temp);
	}
	measuring.done(measuring.arg, &parts, r);
}

void box_local_measure(
	struct box_local *local, uint64_t number, box_local_measure_done *done, void *arg)
{
	struct box_backend_box *box = box_local_find(local, number);
	struct box_local_measured_parts nothing = {0};
	if (!box) {
		done(arg, &nothing, -ESRCH);
		return;
	}
	struct measuring *measuring = box_alloc(sizeof(*measuring));
	*measuring = (struct measuring){
		.ask = {.kind = BOX_FILE_MEASURE,
			.path = {.root = BOX_PLAN_HOME "/.cache", .below = ""},
			.mode = -1},
		.done = done,
		.arg = arg,
	};
	(void)box_local_file(box, &measuring->ask, NULL, measured_done, measuring);
}
