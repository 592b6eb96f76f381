/* Managed processes of boxes: requests to box-init about them, and box-init's reports, which are accepted only if
 * they can be true.
 */
#include "runtime/backend/local_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/macros.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_exec.h"
#include "runtime/backend/local_run.h"

#define BODY_MAX (BOX_INIT_BYTES_MAX - sizeof(struct box_init_start_process))

struct box_local_process *box_local_process_find(const struct box_backend_box *box, uint32_t number)
{
	return box_table_get(&box->processes, box_local_key(&number));
}

static struct box_local_process *process_new(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_events *events, void *arg)
{
	struct box_local_process *process = box_alloc(sizeof(*process));
	process->number = number;
	process->events = events;
	process->arg = arg;
	process->oom_kills = box_local_oom_kills(box);
	process->oom_fd = -1;
	process->procs_fd = -1;
	box_list_init(&process->packets);
	box_local_process_free(
		box_table_put(&box->processes, box_local_key(&process->number), process));
	return process;
}

/* --- requests to box-init --- */

static void append(struct box_buf *body, const char *text)
{
	(void)box_buf_append(body, text, strlen(text) + 1);
}

static int fill_body(const struct box_process_spec *spec, struct box_init_start_process *packet,
	struct box_buf *body, struct box_err *err)
{
	uint32_t env_count = box_local_exec_append_env(body, spec->env, spec->env_count);
	packet->env_size = (uint32_t)body->len;
	append(body, spec->cwd);
	packet->workdir_size = (uint32_t)body->len - packet->env_size;
	append(body, spec->command);
	for (size_t i = 0; i < spec->arg_count; i++) {
		append(body, spec->args[i]);
	}
	packet->command_size = (uint32_t)body->len - packet->env_size - packet->workdir_size;
	packet->env_count = (uint16_t)env_count;
	packet->mount_count = (uint16_t)spec->mount_count;
	packet->log_bytes = (uint32_t)spec->log_bytes;
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

static int start(struct box_backend_box *box, uint32_t number, const struct box_process_spec *spec,
	const struct box_backend_process_events *events, void *arg, struct box_err *err)
{
	/* If limits are impossible here, boxes run without them if the operator allows that. */
	bool limited = spec->memory_mb > 0 && box->local->support.limits;
	struct box_init_start_process wanted = {0};
	struct box_buf body = box_buf(BODY_MAX);
	if (box->closed) {
		return box_err_set(err, BOX_ERR_BOX, EPIPE, "the box has ended");
	}
	if (box->processes.count >= BOX_INIT_PROCESSES_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many managed processes in one session (%u)", BOX_INIT_PROCESSES_MAX);
	}
	int r = fill_body(spec, &wanted, &body, err);
	if (r == 0) {
		r = box_local_run_check_mounts(spec->mounts, spec->mount_count, err);
	}
	if (r == 0) {
		struct box_local_process *process = process_new(box, number, events, arg);
		process->has_log = spec->log_bytes > 0;
		if (limited) {
			box_local_process_open_cgroup(box, process, spec->memory_mb);
		}
		if (spec->mount_count > 0) {
			box_local_process_open_volumes(
				box, process, spec->mounts, spec->mount_count);
		}
		box_local_process_send(box, process,
			limited ? BOX_INIT_START_PROCESS_IN : BOX_INIT_START_PROCESS, &wanted,
			sizeof(wanted), (struct box_str){body.bytes, body.len});
	}
	box_buf_free(&body);
	return r;
}

static void adopt(struct box_backend_box *box, uint32_t number,
	const struct box_backend_process_record *past,
	const struct box_backend_process_events *events, void *arg)
{
	struct box_local_process *process = process_new(box, number, events, arg);
	/* Output that the previous box-rpc requested still arrives, and is ignored. */
	process->until_max = UINT64_MAX;
	process->inherited = true;
	process->has_log = past->has_log;
	process->oom_kills = past->oom_kills;
	process->limited = past->memory_mb > 0 && box->local->support.limits;
	if (process->limited && past->ended) {
		box_local_process_close_cgroup(box, process);
	} else if (process->limited) {
		box_local_process_open_cgroup(box, process, past->memory_mb);
	}
	box_local_process_send(box, process, BOX_INIT_QUERY_PROCESS, NULL, 0, box_str(""));
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
	struct box_local_process *process = box_local_process_find(box, number);
	if (!process) {
		return;
	}
	/* A limit that was set before a log skipped output counts from after the gap. */
	bool later_limit = process->has_log && wanted->from == BOX_BACKEND_PROCESS_CONTINUE &&
		process->until > wanted->until;
	uint64_t until = later_limit ? process->until : wanted->until;
	const struct box_init_follow_output packet = {
		.freed = wanted->freed,
		.from = wanted->from,
		.until = until,
		.hold = bounded(wanted->hold),
	};
	process->until = until;
	process->until_max = BOX_MAX(until, process->until_max);
	if (wanted->from != BOX_BACKEND_PROCESS_CONTINUE) {
		process->next = wanted->from;
	}
	box_local_process_send(
		box, process, BOX_INIT_FOLLOW_OUTPUT, &packet, sizeof(packet), box_str(""));
}

static void feed(
	struct box_backend_box *box, uint32_t number, uint64_t offset, struct box_str bytes)
{
	struct box_local_process *process = box_local_process_find(box, number);
	if (!process) {
		return;
	}
	if (offset + bytes.len > process->input_sent) {
		process->input_sent = offset + bytes.len;
	}
	box_local_process_send(box, process, BOX_INIT_WRITE_STDIN, &offset, sizeof(offset), bytes);
}

static void peek(
	struct box_backend_box *box, uint32_t number, const struct box_backend_process_peek *wanted)
{
	const struct box_init_peek packet = {
		.token = wanted->token,
		.offset = wanted->offset,
		.max_bytes = wanted->max,
		.stream = wanted->is_stderr ? BOX_INIT_PEEK_STDERR : BOX_INIT_PEEK_STDOUT,
		.wait = wanted->wait,
	};
	struct box_local_process *process = box_local_process_find(box, number);
	if (process) {
		box_local_process_send(
			box, process, BOX_INIT_PEEK, &packet, sizeof(packet), box_str(""));
	}
}

static void stop(struct box_backend_box *box, uint32_t number, uint32_t grace_ms)
{
	struct box_local_process *process = box_local_process_find(box, number);
	if (process) {
		/* From now on it ends because of the stop, unless there are more OOM kills. */
		process->oom_kills = box_local_oom_kills(box);
		process->oom_kills_then = box_local_read_oom_kills(process->oom_fd);
		box_local_process_send(box, process, BOX_INIT_STOP_PROCESS, &grace_ms,
			sizeof(grace_ms), box_str(""));
	}
}

static void forget(struct box_backend_box *box, uint32_t number)
{
	struct box_local_process *process = box_table_remove(
		&box->processes, box_local_key(&number));
	if (!process) {
		return;
	}
	box_local_control_send(box, BOX_INIT_FORGET_PROCESS, number, NULL, 0, NULL, 0, -1);
	box_local_process_close_cgroup(box, process);
	box_local_process_free(process);
}

const struct box_backend_process_ops box_local_process_ops = {
	.oom_kills = box_local_oom_kills,
	.check = check,
	.start = start,
	.adopt = adopt,
	.follow = follow,
	.feed = feed,
	.peek = peek,
	.stop = stop,
	.forget = forget,
};

/* --- reports of box-init --- */

static bool was_killed(const struct box_init_process_state *state)
{
	return (state->end == BOX_INIT_END_SIGNAL && state->value == SIGKILL) ||
		(state->end == BOX_INIT_END_EXIT && state->value == 128 + SIGKILL);
}

/* Whether it ran out of memory: it was killed itself, or it is a shell that ended with 137. In a cgroup of its own,
 * where (in cgroup v1) processes are not killed together, a process that lost a child and failed counts too, because
 * every kill there concerns it. */
static bool was_out_of_memory(const struct box_backend_box *box,
	const struct box_local_process *process, const struct box_init_process_state *state)
{
	bool failed = state->end == BOX_INIT_END_EXIT && state->value != 0;
	if (state->end == BOX_INIT_END_MEMORY) {
		return true; /* a microVM reports it itself */
	}
	if (process->limited) {
		return (was_killed(state) || failed) &&
			box_local_read_oom_kills(process->oom_fd) > process->oom_kills_then;
	}
	return was_killed(state) && box_local_oom_kills(box) > process->oom_kills;
}

/* What the errno is about, if not the command itself. */
static const char *failed_step(uint32_t step)
{
	return step == BOX_INIT_STEP_CGROUP ? "its memory limit cannot be set: "
		: step == BOX_INIT_STEP_MOUNT || step == BOX_INIT_STEP_MOUNTER
		? "its volumes cannot be mounted: "
		: step == BOX_INIT_STEP_WORKDIR ? "its cwd cannot be used: "
						: "";
}

static void fill_end(const struct box_backend_box *box, const struct box_local_process *process,
	const struct box_init_process_state *state, struct box_backend_process_state *reported)
{
	static char failure[256];
	if (state->end == BOX_INIT_END_FAILED) {
		reported->exit_code = 127;
		(void)snprintf(failure, sizeof(failure), "%s%s", failed_step(state->step),
			box_local_run_error_text(state->value));
		reported->failure = failure;
	} else if (was_out_of_memory(box, process, state)) {
		reported->reason = BOX_BACKEND_END_MEMORY;
		reported->signal = SIGKILL;
		reported->exit_code = was_killed(state) ? 128 + SIGKILL : state->value;
	} else if (state->end == BOX_INIT_END_EXIT) {
		reported->exit_code = state->value;
	} else {
		reported->reason = BOX_BACKEND_END_SIGNAL;
		reported->signal = state->value;
		reported->exit_code = 128 + state->value;
	}
}

static void take_state(struct box_backend_box *box, struct box_local_process *process,
	const char *bytes, size_t size)
{
	struct box_init_process_state state;
	memcpy(&state, bytes, sizeof(state));
	struct box_backend_process_state reported = {
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
	if (process->ended && reported.running) {
		box_local_lost(box, "an ended process of it is running again");
		return;
	}
	if (!process->state_known) {
		process->input_sent = BOX_MAX(state.in_have, process->input_sent);
		process->input_taken = state.in_taken;
	}
	process->state_known = true;
	process->ended = !reported.running;
	if (state.phase == BOX_INIT_PROCESS_ENDED) {
		fill_end(box, process, &state, &reported);
	}
	uint32_t number = process->number;
	process->events->state(process->arg, &reported);
	/* Only now: the next box-rpc must know how it ended, or find the cgroup. */
	process = reported.running ? NULL : box_local_process_find(box, number);
	if (process) {
		box_local_process_close_cgroup(box, process);
	}
}

static void take_out(struct box_backend_box *box, struct box_local_process *process,
	const char *bytes, size_t size)
{
	uint64_t offset;
	memcpy(&offset, bytes, sizeof(offset));
	bytes += sizeof(offset);
	size -= sizeof(offset);
	if (process->until_max < offset || process->until_max - offset < size) {
		box_local_lost(box, "it sent more output than allowed");
		return;
	}
	/* Output that was on its way when box-init was told to begin elsewhere. It comes again, in other
	 * pieces: of a piece that overlaps, the part behind counts. */
	if (offset > process->next || offset + size <= process->next ||
		offset + size > process->until) {
		return;
	}
	size_t known = (size_t)(process->next - offset);
	offset = process->next;
	process->next += size - known;
	process->events->output(
		process->arg, offset, (struct box_str){bytes + known, size - known});
}

static uint64_t later(uint64_t offset, uint64_t by)
{
	return offset > UINT64_MAX - by ? UINT64_MAX : offset + by;
}

/* Only a log may leave output out, and only of what comes next; any other packet was on its way when box-init
 * was told to begin elsewhere. */
static void take_skipped(
	struct box_backend_box *box, struct box_local_process *process, const char *bytes)
{
	struct box_init_output_skipped skipped;
	memcpy(&skipped, bytes, sizeof(skipped));
	if (!process->has_log) {
		box_local_lost(box, "it skipped output of a process without a log");
		return;
	}
	if (skipped.from != process->next || skipped.from >= process->until) {
		return;
	}
	uint64_t by = skipped.to - skipped.from;
	process->next = skipped.to;
	process->until = later(process->until, by);
	process->until_max = later(process->until_max, by);
	process->events->skipped(process->arg, skipped.to);
}

static void take_fed(
	struct box_backend_box *box, struct box_local_process *process, const char *bytes)
{
	uint64_t taken;
	memcpy(&taken, bytes, sizeof(taken));
	if (process->inherited && !process->state_known) {
		return; /* for input that the previous box-rpc sent: its state says how much that was */
	}
	if (taken < process->input_taken || taken > process->input_sent) {
		box_local_lost(box, "it took input that was never sent");
		return;
	}
	process->input_taken = taken;
	process->events->fed(process->arg, taken);
}

static void take_peeked(const struct box_local_process *process, const char *bytes, size_t size)
{
	struct box_init_peek_answer peeked;
	memcpy(&peeked, bytes, sizeof(peeked));
	const struct box_backend_process_peeked answer = {
		.token = peeked.token,
		.offset = peeked.offset,
		.end = peeked.end,
		.ended = peeked.ended != 0,
		.bytes = {bytes + sizeof(peeked), size - sizeof(peeked)},
	};
	process->events->peeked(process->arg, &answer);
}

void box_local_process_take_packet(struct box_backend_box *box,
	const struct box_init_header *header, const char *bytes, size_t size)
{
	struct box_local_process *process = box_local_process_find(box, header->id);
	if (!process || process->pending > 0) {
		return; /* dropped meanwhile, or not queried yet */
	}
	if (header->kind == BOX_INIT_PROCESS_STATE) {
		take_state(box, process, bytes, size);
	} else if (header->kind == BOX_INIT_PROCESS_OUTPUT) {
		take_out(box, process, bytes, size);
	} else if (header->kind == BOX_INIT_OUTPUT_SKIPPED) {
		take_skipped(box, process, bytes);
	} else if (header->kind == BOX_INIT_PEEK_ANSWER) {
		take_peeked(process, bytes, size);
	} else {
		take_fed(box, process, bytes);
	}
}

void box_local_process_forget_all(struct box_backend_box *box)
{
	uint64_t position = 0;
	struct box_local_process *process;
	while ((process = box_table_next(&box->processes, &position, NULL))) {
		box_local_process_free(process);
	}
	box_table_free(&box->processes);
}
