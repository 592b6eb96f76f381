/* Managed processes of native boxes: their packets, and what is known of each, so that whatever
 * box-init says is taken only where it can be true. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_internal.h"

#define BODY_MAX (BOX_INIT_BYTES_MAX - sizeof(struct box_init_start_process))

struct box_local_process *box_local_process_find(const struct box_backend_box *box, uint32_t number)
{
	return box_table_get(&box->processes, box_local_run_key(&number));
}

static struct box_local_process *kept_new(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_events *events, void *arg)
{
	struct box_local_process *kept = box_alloc(sizeof(*kept));
	kept->number = number;
	kept->events = events;
	kept->arg = arg;
	kept->oom_kills = box_local_oom_kills(box);
	kept->kills = -1;
	kept->door = -1;
	box_list_init(&kept->packets);
	box_local_process_free(
		box_table_put(&box->processes, box_local_run_key(&kept->number), kept));
	return kept;
}

/* --- out --- */

static void append(struct box_buf *body, const char *text)
{
	(void)box_buf_append(body, text, strlen(text) + 1);
}

static int fill_body(const struct box_process_spec *spec, struct box_init_start_process *keep,
	struct box_buf *body, struct box_err *err)
{
	uint32_t env_count = box_local_exec_append_env(body, spec->env, spec->env_count);
	keep->env_size = (uint32_t)body->len;
	append(body, spec->cwd);
	keep->workdir_size = (uint32_t)body->len - keep->env_size;
	append(body, spec->command);
	for (size_t i = 0; i < spec->arg_count; i++) {
		append(body, spec->args[i]);
	}
	keep->command_size = (uint32_t)body->len - keep->env_size - keep->workdir_size;
	keep->env_count = (uint16_t)env_count;
	keep->mount_count = (uint16_t)spec->mount_count;
	keep->log_bytes = (uint32_t)spec->log_bytes;
	if (!body->overflowed && env_count <= BOX_INIT_ENV_MAX &&
		spec->arg_count < BOX_INIT_ARGS_MAX) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
		"command, args, env and cwd are longer than %zu bytes together, or too many",
		(size_t)BODY_MAX);
}

static int check(
	const struct box_backend_box *box, const struct box_process_spec *spec, struct box_err *err)
{
	struct box_init_start_process wanted = {0};
	struct box_buf body = box_buf(BODY_MAX);
	(void)box;
	int r = fill_body(spec, &wanted, &body, err);
	box_buf_free(&body);
	return r;
}

static int keep(struct box_backend_box *box, uint32_t number, const struct box_process_spec *spec,
	const struct box_backend_process_events *events, void *arg, struct box_err *err)
{
	/* Where nothing can be limited, boxes run without limits, by the operator's word. */
	bool limited = spec->memory_mb > 0 && box->native->means.limits;
	struct box_init_start_process wanted = {0};
	struct box_buf body = box_buf(BODY_MAX);
	if (box->deaf) {
		return box_err_set(err, BOX_ERR_BOX, EPIPE, "the box has ended");
	}
	if (box->processes.count >= BOX_INIT_PROCESSES_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many managed processes in one session (%u)", BOX_INIT_PROCESSES_MAX);
	}
	int r = fill_body(spec, &wanted, &body, err);
	r = r < 0 ? r : box_local_exec_check_mounts(spec->mounts, spec->mount_count, err);
	if (r == 0) {
		struct box_local_process *kept = kept_new(box, number, events, arg);
		kept->has_log = spec->log_bytes > 0;
		if (limited) {
			box_local_process_open_cgroup(box, kept, spec->memory_mb);
		}
		if (spec->mount_count > 0) {
			box_local_process_open_volumes(box, kept, spec->mounts, spec->mount_count);
		}
		box_local_process_send(box, kept,
			limited ? BOX_INIT_START_PROCESS_IN : BOX_INIT_START_PROCESS, &wanted,
			sizeof(wanted), (struct box_str){body.bytes, body.len});
	}
	box_buf_free(&body);
	return r;
}

static void find(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_record *past,
	const struct box_backend_process_events *events, void *arg)
{
	struct box_local_process *kept = kept_new(box, number, events, arg);
	/* Whatever the predecessor let come still comes, and is nobody's. */
	kept->most = UINT64_MAX;
	kept->found = true;
	kept->has_log = past->has_log;
	kept->oom_kills = past->oom_kills;
	kept->limited = past->memory_mb > 0 && box->native->means.limits;
	if (kept->limited && past->ended) {
		box_local_process_close_cgroup(box, kept);
	} else if (kept->limited) {
		box_local_process_open_cgroup(box, kept, past->memory_mb);
	}
	box_local_process_send(box, kept, BOX_INIT_QUERY_PROCESS, NULL, 0, box_str(""));
}

static uint64_t bounded(uint64_t hold)
{
	if (hold < BOX_INIT_OUTPUT_HELD_MIN) {
		return BOX_INIT_OUTPUT_HELD_MIN;
	}
	return BOX_MIN(hold, BOX_INIT_OUTPUT_HELD_MAX);
}

static void follow(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_follow *wanted)
{
	struct box_local_process *kept = box_local_process_find(box, number);
	if (!kept) {
		return;
	}
	/* What was asked before a log skipped something counts from behind that. */
	bool keeps = kept->has_log && wanted->from == BOX_BACKEND_PROCESS_CONTINUE &&
		kept->until > wanted->until;
	uint64_t until = keeps ? kept->until : wanted->until;
	const struct box_init_follow_output packet = {
		.freed = wanted->freed,
		.from = wanted->from,
		.until = until,
		.hold = bounded(wanted->hold),
	};
	kept->until = until;
	kept->most = BOX_MAX(until, kept->most);
	if (wanted->from != BOX_BACKEND_PROCESS_CONTINUE) {
		kept->next = wanted->from;
	}
	box_local_process_send(
		box, kept, BOX_INIT_FOLLOW_OUTPUT, &packet, sizeof(packet), box_str(""));
}

static void feed(
	struct box_backend_box *box, uint32_t number, uint64_t offset, struct box_str bytes)
{
	struct box_local_process *kept = box_local_process_find(box, number);
	if (!kept) {
		return;
	}
	if (offset + bytes.len > kept->fed) {
		kept->fed = offset + bytes.len;
	}
	box_local_process_send(box, kept, BOX_INIT_WRITE_STDIN, &offset, sizeof(offset), bytes);
}

static void peek(
	struct box_backend_box *box, uint32_t number, const struct box_backend_process_peek *wanted)
{
	const struct box_init_peek packet = {
		.token = wanted->token,
		.offset = wanted->offset,
		.max_bytes = wanted->most,
		.stream = wanted->is_stderr ? BOX_INIT_PEEK_STDERR : BOX_INIT_PEEK_STDOUT,
		.wait = wanted->wait,
	};
	struct box_local_process *kept = box_local_process_find(box, number);
	if (kept) {
		box_local_process_send(
			box, kept, BOX_INIT_PEEK, &packet, sizeof(packet), box_str(""));
	}
}

static void halt(struct box_backend_box *box, uint32_t number, uint32_t grace_ms)
{
	struct box_local_process *kept = box_local_process_find(box, number);
	if (kept) {
		/* From now on it ends because of that, unless more are killed. */
		kept->oom_kills = box_local_oom_kills(box);
		kept->excused = box_local_read_oom_kills(kept->kills);
		box_local_process_send(
			box, kept, BOX_INIT_STOP_PROCESS, &grace_ms, sizeof(grace_ms), box_str(""));
	}
}

static void drop(struct box_backend_box *box, uint32_t number)
{
	struct box_local_process *kept = box_table_remove(
		&box->processes, box_local_run_key(&number));
	if (!kept) {
		return;
	}
	box_local_control_send(box, BOX_INIT_FORGET_PROCESS, number, NULL, 0, NULL, 0, -1);
	box_local_process_close_cgroup(box, kept);
	box_local_process_free(kept);
}

const struct box_backend_process_ops box_local_process_ops = {
	.oom_kills = box_local_oom_kills,
	.check = check,
	.start = keep,
	.adopt = find,
	.follow = follow,
	.feed = feed,
	.peek = peek,
	.stop = halt,
	.forget = drop,
};

/* --- in --- */

static bool was_killed(const struct box_init_process_state *state)
{
	return (state->end == BOX_INIT_END_SIGNAL && state->value == 9) ||
		(state->end == BOX_INIT_END_EXIT && state->value == 128 + 9);
}

/* Itself, or a process of its shell that says 137. In a group of its own each kill is its own: also
 * one that lost a child (in version 1 they do not die together) and did not end well. */
static bool was_out_of_memory(const struct box_backend_box *box,
	const struct box_local_process *kept, const struct box_init_process_state *state)
{
	bool failed = state->end == BOX_INIT_END_EXIT && state->value != 0;
	if (state->end == BOX_INIT_END_MEMORY) {
		return true; /* a microVM says so itself */
	}
	if (kept->limited) {
		return (was_killed(state) || failed) &&
			box_local_read_oom_kills(kept->kills) > kept->excused;
	}
	return was_killed(state) && box_local_oom_kills(box) > kept->oom_kills;
}

/* What the errno is about, when it is not the command itself. */
static const char *failed_step(uint32_t step)
{
	return step == BOX_INIT_STEP_CGROUP ? "its memory limit cannot be set: "
		: step == BOX_INIT_STEP_MOUNT || step == BOX_INIT_STEP_MOUNTER
		? "its volumes cannot be mounted: "
		: step == BOX_INIT_STEP_WORKDIR ? "its cwd cannot be used: "
						: "";
}

static void fill_end(const struct box_backend_box *box, const struct box_local_process *kept,
	const struct box_init_process_state *state, struct box_backend_process_state *told)
{
	static char failure[256];
	if (state->end == BOX_INIT_END_FAILED) {
		told->exit_code = 127;
		(void)snprintf(failure, sizeof(failure), "%s%s", failed_step(state->step),
			box_local_exec_error_text(state->value));
		told->failure = failure;
	} else if (was_out_of_memory(box, kept, state)) {
		told->reason = BOX_BACKEND_END_MEMORY;
		told->signal = 9;
		told->exit_code = was_killed(state) ? 128 + 9 : state->value;
	} else if (state->end == BOX_INIT_END_EXIT) {
		told->exit_code = state->value;
	} else {
		told->reason = BOX_BACKEND_END_SIGNAL;
		told->signal = state->value;
		told->exit_code = 128 + state->value;
	}
}

static void take_state(
	struct box_backend_box *box, struct box_local_process *kept, const char *bytes, size_t size)
{
	struct box_init_process_state state;
	memcpy(&state, bytes, sizeof(state));
	struct box_backend_process_state told = {
		.known = state.phase != BOX_INIT_PROCESS_UNKNOWN,
		.running = state.phase == BOX_INIT_PROCESS_RUNNING,
		.out_ended = state.out_ended != 0,
		.freed = state.freed,
		.out_end = state.out_end,
		.in_have = state.in_have,
		.in_taken = state.in_taken,
		.in_ended = state.in_ended != 0,
		.blocked = state.blocked != 0,
		.tail = {bytes + sizeof(state), size - sizeof(state)},
	};
	if (kept->ended && told.running) {
		box_local_lost(box, "a process of it came back to life");
		return;
	}
	if (!kept->told) {
		kept->fed = BOX_MAX(state.in_have, kept->fed);
		kept->taken = state.in_taken;
	}
	kept->told = true;
	kept->ended = !told.running;
	if (state.phase == BOX_INIT_PROCESS_ENDED) {
		fill_end(box, kept, &state, &told);
	}
	uint32_t number = kept->number;
	kept->events->state(kept->arg, &told);
	/* Only now: whoever comes after us must know how it ended, or find the group. */
	kept = told.running ? NULL : box_local_process_find(box, number);
	if (kept) {
		box_local_process_close_cgroup(box, kept);
	}
}

static void take_out(
	struct box_backend_box *box, struct box_local_process *kept, const char *bytes, size_t size)
{
	uint64_t offset;
	memcpy(&offset, bytes, sizeof(offset));
	bytes += sizeof(offset);
	size -= sizeof(offset);
	if (kept->most < offset || kept->most - offset < size) {
		box_local_lost(box, "it sent more output than it may");
		return;
	}
	/* What was on its way when it was told to begin elsewhere. It comes again, cut anew: of
	 * what overlaps, the part behind counts. */
	if (offset > kept->next || offset + size <= kept->next || offset + size > kept->until) {
		return;
	}
	size_t known = (size_t)(kept->next - offset);
	offset = kept->next;
	kept->next += size - known;
	kept->events->output(kept->arg, offset, (struct box_str){bytes + known, size - known});
}

static uint64_t later(uint64_t offset, uint64_t by)
{
	return offset > UINT64_MAX - by ? UINT64_MAX : offset + by;
}

/* Only a log may leave something out, and only of what comes next: else it was on its way when it was
 * told to begin elsewhere. */
static void take_skipped(
	struct box_backend_box *box, struct box_local_process *kept, const char *bytes)
{
	struct box_init_output_skipped skipped;
	memcpy(&skipped, bytes, sizeof(skipped));
	if (!kept->has_log) {
		box_local_lost(box, "it left out output that it has to keep");
		return;
	}
	if (skipped.from != kept->next || skipped.from >= kept->until) {
		return;
	}
	uint64_t by = skipped.to - skipped.from;
	kept->next = skipped.to;
	kept->until = later(kept->until, by);
	kept->most = later(kept->most, by);
	kept->events->skipped(kept->arg, skipped.to);
}

static void take_fed(struct box_backend_box *box, struct box_local_process *kept, const char *bytes)
{
	uint64_t taken;
	memcpy(&taken, bytes, sizeof(taken));
	if (kept->found && !kept->told) {
		return; /* of what the predecessor sent: its state will tell */
	}
	if (taken < kept->taken || taken > kept->fed) {
		box_local_lost(box, "it took input that it never got");
		return;
	}
	kept->taken = taken;
	kept->events->fed(kept->arg, taken);
}

static void take_peeked(const struct box_local_process *kept, const char *bytes, size_t size)
{
	struct box_init_peek_answer peeked;
	memcpy(&peeked, bytes, sizeof(peeked));
	const struct box_backend_process_peeked told = {
		.token = peeked.token,
		.offset = peeked.offset,
		.end = peeked.end,
		.ended = peeked.ended != 0,
		.bytes = {bytes + sizeof(peeked), size - sizeof(peeked)},
	};
	kept->events->peeked(kept->arg, &told);
}

void box_local_process_take_packet(struct box_backend_box *box,
	const struct box_init_header *header, const char *bytes, size_t size)
{
	struct box_local_process *kept = box_local_process_find(box, header->id);
	if (!kept || kept->waits > 0) {
		return; /* dropped meanwhile, or not asked about yet */
	}
	if (header->kind == BOX_INIT_PROCESS_STATE) {
		take_state(box, kept, bytes, size);
	} else if (header->kind == BOX_INIT_PROCESS_OUTPUT) {
		take_out(box, kept, bytes, size);
	} else if (header->kind == BOX_INIT_OUTPUT_SKIPPED) {
		take_skipped(box, kept, bytes);
	} else if (header->kind == BOX_INIT_PEEK_ANSWER) {
		take_peeked(kept, bytes, size);
	} else {
		take_fed(box, kept, bytes);
	}
}

/* Those who asked know it by the box itself. */
void box_local_process_forget_all(struct box_backend_box *box)
{
	uint64_t position = 0;
	struct box_local_process *kept;
	while ((kept = box_table_next(&box->processes, &position, NULL))) {
		box_local_process_free(kept);
	}
	box_table_free(&box->processes);
}
