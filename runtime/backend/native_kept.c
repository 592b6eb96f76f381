/* Managed processes of native boxes: their packets, and what is known of each, so that whatever
 * box-init says is taken only where it can be true. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "runtime/backend/native_box.h"
#include "runtime/guest/wire_kept.h"

#define BODY_MAX (BOX_GUEST_BYTES_MAX - sizeof(struct box_guest_keep))

struct box_native_kept *box_native_find_kept(const struct box_backend_box *box, uint32_t number)
{
	return box_table_get(&box->processes, box_native_key(&number));
}

static struct box_native_kept *kept_new(struct box_backend_box *box, uint32_t number,
	const struct box_kept_events *events, void *arg)
{
	struct box_native_kept *kept = box_alloc(sizeof(*kept));
	kept->number = number;
	kept->events = events;
	kept->arg = arg;
	kept->oom_kills = box_native_oom_kills(box);
	kept->kills = -1;
	kept->door = -1;
	box_list_init(&kept->packets);
	box_native_free_kept(box_table_put(&box->processes, box_native_key(&kept->number), kept));
	return kept;
}

/* --- out --- */

static void append(struct box_buf *body, const char *text)
{
	(void)box_buf_append(body, text, strlen(text) + 1);
}

static int fill_body(const struct box_process_spec *spec, struct box_guest_keep *keep,
	struct box_buf *body, struct box_err *err)
{
	uint32_t env_count = box_native_append_env(body, spec->env, spec->env_count);
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
	if (!body->overflowed && env_count <= BOX_GUEST_ENV_MAX &&
		spec->arg_count < BOX_GUEST_ARGS_MAX) {
		return 0;
	}
	return box_err_set(err, BOX_ERR_VALIDATION, E2BIG,
		"command, args, env and cwd are longer than %zu bytes together, or too many",
		(size_t)BODY_MAX);
}

static int check(
	const struct box_backend_box *box, const struct box_process_spec *spec, struct box_err *err)
{
	struct box_guest_keep wanted = {0};
	struct box_buf body = box_buf(BODY_MAX);
	(void)box;
	int r = fill_body(spec, &wanted, &body, err);
	box_buf_free(&body);
	return r;
}

static int keep(struct box_backend_box *box, uint32_t number, const struct box_process_spec *spec,
	const struct box_kept_events *events, void *arg, struct box_err *err)
{
	/* Where nothing can be limited, boxes run without limits, by the operator's word. */
	bool limited = spec->memory_mb > 0 && box->native->means.limits;
	struct box_guest_keep wanted = {0};
	struct box_buf body = box_buf(BODY_MAX);
	if (box->deaf) {
		return box_err_set(err, BOX_ERR_BOX, EPIPE, "the box has ended");
	}
	if (box->processes.count >= BOX_GUEST_KEPT_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EAGAIN,
			"too many managed processes in one session (%u)", BOX_GUEST_KEPT_MAX);
	}
	int r = fill_body(spec, &wanted, &body, err);
	r = r < 0 ? r : box_native_check_mounts(spec->mounts, spec->mount_count, err);
	if (r == 0) {
		struct box_native_kept *kept = kept_new(box, number, events, arg);
		kept->has_log = spec->log_bytes > 0;
		if (limited) {
			box_native_open_group(box, kept, spec->memory_mb);
		}
		if (spec->mount_count > 0) {
			box_native_open_volumes(box, kept, spec->mounts, spec->mount_count);
		}
		box_native_send_kept(box, kept, limited ? BOX_GUEST_KEEP_IN : BOX_GUEST_KEEP,
			&wanted, sizeof(wanted), (struct box_str){body.bytes, body.len});
	}
	box_buf_free(&body);
	return r;
}

static void find(struct box_backend_box *box, uint32_t number, const struct box_kept_past *past,
	const struct box_kept_events *events, void *arg)
{
	struct box_native_kept *kept = kept_new(box, number, events, arg);
	/* Whatever the predecessor let come still comes, and is nobody's. */
	kept->most = UINT64_MAX;
	kept->found = true;
	kept->has_log = past->has_log;
	kept->oom_kills = past->oom_kills;
	kept->limited = past->memory_mb > 0 && box->native->means.limits;
	if (kept->limited && past->ended) {
		box_native_close_group(box, kept);
	} else if (kept->limited) {
		box_native_open_group(box, kept, past->memory_mb);
	}
	box_native_send_kept(box, kept, BOX_GUEST_ASK, NULL, 0, box_str(""));
}

static uint64_t bounded(uint64_t hold)
{
	if (hold < BOX_GUEST_HOLD_MIN) {
		return BOX_GUEST_HOLD_MIN;
	}
	return hold < BOX_GUEST_HOLD_MAX ? hold : BOX_GUEST_HOLD_MAX;
}

static void follow(
	struct box_backend_box *box, uint32_t number, const struct box_kept_follow *wanted)
{
	struct box_native_kept *kept = box_native_find_kept(box, number);
	if (!kept) {
		return;
	}
	/* What was asked before a log skipped something counts from behind that. */
	bool keeps = kept->has_log && wanted->from == BOX_KEPT_GO_ON && kept->until > wanted->until;
	uint64_t until = keeps ? kept->until : wanted->until;
	const struct box_guest_follow packet = {
		.freed = wanted->freed,
		.from = wanted->from,
		.until = until,
		.hold = bounded(wanted->hold),
	};
	kept->until = until;
	kept->most = until > kept->most ? until : kept->most;
	if (wanted->from != BOX_KEPT_GO_ON) {
		kept->next = wanted->from;
	}
	box_native_send_kept(box, kept, BOX_GUEST_FOLLOW, &packet, sizeof(packet), box_str(""));
}

static void feed(
	struct box_backend_box *box, uint32_t number, uint64_t offset, struct box_str bytes)
{
	struct box_native_kept *kept = box_native_find_kept(box, number);
	if (!kept) {
		return;
	}
	if (offset + bytes.len > kept->fed) {
		kept->fed = offset + bytes.len;
	}
	box_native_send_kept(box, kept, BOX_GUEST_FEED, &offset, sizeof(offset), bytes);
}

static void peek(struct box_backend_box *box, uint32_t number, const struct box_kept_peek *wanted)
{
	const struct box_guest_peek packet = {
		.token = wanted->token,
		.offset = wanted->offset,
		.most = wanted->most,
		.stream = wanted->is_stderr ? BOX_GUEST_PEEK_STDERR : BOX_GUEST_PEEK_STDOUT,
		.wait = wanted->wait,
	};
	struct box_native_kept *kept = box_native_find_kept(box, number);
	if (kept) {
		box_native_send_kept(
			box, kept, BOX_GUEST_PEEK, &packet, sizeof(packet), box_str(""));
	}
}

static void halt(struct box_backend_box *box, uint32_t number, uint32_t grace_ms)
{
	struct box_native_kept *kept = box_native_find_kept(box, number);
	if (kept) {
		/* From now on it ends because of that, unless more are killed. */
		kept->oom_kills = box_native_oom_kills(box);
		kept->excused = box_native_read_kills(kept->kills);
		box_native_send_kept(
			box, kept, BOX_GUEST_HALT, &grace_ms, sizeof(grace_ms), box_str(""));
	}
}

static void drop(struct box_backend_box *box, uint32_t number)
{
	struct box_native_kept *kept = box_table_remove(&box->processes, box_native_key(&number));
	if (!kept) {
		return;
	}
	box_native_send(box, BOX_GUEST_DROP, number, NULL, 0, NULL, 0, -1);
	box_native_close_group(box, kept);
	box_native_free_kept(kept);
}

const struct box_kept_ops box_native_kept_ops = {
	.oom_kills = box_native_oom_kills,
	.check = check,
	.keep = keep,
	.find = find,
	.follow = follow,
	.feed = feed,
	.peek = peek,
	.halt = halt,
	.drop = drop,
};

/* --- in --- */

static bool was_killed(const struct box_guest_state *state)
{
	return (state->end == BOX_GUEST_END_SIGNAL && state->value == 9) ||
		(state->end == BOX_GUEST_END_EXIT && state->value == 128 + 9);
}

/* Itself, or a process of its shell that says 137. In a group of its own each kill is its own: also
 * one that lost a child (in version 1 they do not die together) and did not end well. */
static bool was_out_of_memory(const struct box_backend_box *box, const struct box_native_kept *kept,
	const struct box_guest_state *state)
{
	bool failed = state->end == BOX_GUEST_END_EXIT && state->value != 0;
	if (state->end == BOX_GUEST_END_MEMORY) {
		return true; /* a microVM says so itself */
	}
	if (kept->limited) {
		return (was_killed(state) || failed) &&
			box_native_read_kills(kept->kills) > kept->excused;
	}
	return was_killed(state) && box_native_oom_kills(box) > kept->oom_kills;
}

/* What the errno is about, when it is not the command itself. */
static const char *failed_step(uint32_t step)
{
	return step == BOX_GUEST_STEP_GROUP ? "its memory limit cannot be set: "
		: step == BOX_GUEST_STEP_MOUNT || step == BOX_GUEST_STEP_MOUNTER
		? "its volumes cannot be mounted: "
		: step == BOX_GUEST_STEP_WORKDIR ? "its cwd cannot be used: "
						 : "";
}

static void fill_end(const struct box_backend_box *box, const struct box_native_kept *kept,
	const struct box_guest_state *state, struct box_kept_state *told)
{
	static char failure[256];
	if (state->end == BOX_GUEST_END_FAILED) {
		told->exit_code = 127;
		(void)snprintf(failure, sizeof(failure), "%s%s", failed_step(state->step),
			box_native_error_text(state->value));
		told->failure = failure;
	} else if (was_out_of_memory(box, kept, state)) {
		told->reason = BOX_END_MEMORY;
		told->signal = 9;
		told->exit_code = was_killed(state) ? 128 + 9 : state->value;
	} else if (state->end == BOX_GUEST_END_EXIT) {
		told->exit_code = state->value;
	} else {
		told->reason = BOX_END_SIGNAL;
		told->signal = state->value;
		told->exit_code = 128 + state->value;
	}
}

static void take_state(
	struct box_backend_box *box, struct box_native_kept *kept, const char *bytes, size_t size)
{
	struct box_guest_state state;
	memcpy(&state, bytes, sizeof(state));
	struct box_kept_state told = {
		.known = state.phase != BOX_GUEST_PHASE_UNKNOWN,
		.running = state.phase == BOX_GUEST_PHASE_RUNNING,
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
		box_native_lost(box, "a process of it came back to life");
		return;
	}
	if (!kept->told) {
		kept->fed = state.in_have > kept->fed ? state.in_have : kept->fed;
		kept->taken = state.in_taken;
	}
	kept->told = true;
	kept->ended = !told.running;
	if (state.phase == BOX_GUEST_PHASE_ENDED) {
		fill_end(box, kept, &state, &told);
	}
	uint32_t number = kept->number;
	kept->events->state(kept->arg, &told);
	/* Only now: whoever comes after us must know how it ended, or find the group. */
	kept = told.running ? NULL : box_native_find_kept(box, number);
	if (kept) {
		box_native_close_group(box, kept);
	}
}

static void take_out(
	struct box_backend_box *box, struct box_native_kept *kept, const char *bytes, size_t size)
{
	uint64_t offset;
	memcpy(&offset, bytes, sizeof(offset));
	bytes += sizeof(offset);
	size -= sizeof(offset);
	if (kept->most < offset || kept->most - offset < size) {
		box_native_lost(box, "it sent more output than it may");
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
	struct box_backend_box *box, struct box_native_kept *kept, const char *bytes)
{
	struct box_guest_skipped skipped;
	memcpy(&skipped, bytes, sizeof(skipped));
	if (!kept->has_log) {
		box_native_lost(box, "it left out output that it has to keep");
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

static void take_fed(struct box_backend_box *box, struct box_native_kept *kept, const char *bytes)
{
	uint64_t taken;
	memcpy(&taken, bytes, sizeof(taken));
	if (kept->found && !kept->told) {
		return; /* of what the predecessor sent: its state will tell */
	}
	if (taken < kept->taken || taken > kept->fed) {
		box_native_lost(box, "it took input that it never got");
		return;
	}
	kept->taken = taken;
	kept->events->fed(kept->arg, taken);
}

static void take_peeked(const struct box_native_kept *kept, const char *bytes, size_t size)
{
	struct box_guest_peeked peeked;
	memcpy(&peeked, bytes, sizeof(peeked));
	const struct box_kept_peeked told = {
		.token = peeked.token,
		.offset = peeked.offset,
		.end = peeked.end,
		.ended = peeked.ended != 0,
		.bytes = {bytes + sizeof(peeked), size - sizeof(peeked)},
	};
	kept->events->peeked(kept->arg, &told);
}

void box_native_take_kept(struct box_backend_box *box, const struct box_guest_header *header,
	const char *bytes, size_t size)
{
	struct box_native_kept *kept = box_native_find_kept(box, header->id);
	if (!kept || kept->waits > 0) {
		return; /* dropped meanwhile, or not asked about yet */
	}
	if (header->kind == BOX_GUEST_STATE) {
		take_state(box, kept, bytes, size);
	} else if (header->kind == BOX_GUEST_OUT) {
		take_out(box, kept, bytes, size);
	} else if (header->kind == BOX_GUEST_SKIPPED) {
		take_skipped(box, kept, bytes);
	} else if (header->kind == BOX_GUEST_PEEKED) {
		take_peeked(kept, bytes, size);
	} else {
		take_fed(box, kept, bytes);
	}
}

/* Those who asked know it by the box itself. */
void box_native_forget_kept(struct box_backend_box *box)
{
	uint64_t position = 0;
	struct box_native_kept *kept;
	while ((kept = box_table_next(&box->processes, &position, NULL))) {
		box_native_free_kept(kept);
	}
	box_table_free(&box->processes);
}
