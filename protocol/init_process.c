/* Validates single packets about managed processes, for init.c. Pure. */
#include "protocol/init_process.h"

#include <string.h>

#define SIGNAL_MAX 64
#define EXIT_CODE_MAX 255
#define ERRNO_MAX 4095

static bool end_well_formed(const struct box_init_process_state *state)
{
	bool failed = state->end == BOX_INIT_END_FAILED;
	if (state->step >= BOX_INIT_STEPS_ || failed != (state->step != BOX_INIT_STEP_NONE)) {
		return false;
	}
	switch (state->end) {
	case BOX_INIT_END_EXIT:
	case BOX_INIT_END_MEMORY:
		return state->value >= 0 && state->value <= EXIT_CODE_MAX;
	case BOX_INIT_END_SIGNAL:
		return state->value >= 1 && state->value <= SIGNAL_MAX;
	case BOX_INIT_END_FAILED:
		return state->value >= 1 && state->value <= ERRNO_MAX;
	default:
		return false;
	}
}

static bool state_well_formed(const char *bytes, size_t size)
{
	static const struct box_init_process_state none = {.phase = BOX_INIT_PROCESS_UNKNOWN};
	struct box_init_process_state state;
	if (size < sizeof(state) || size - sizeof(state) > BOX_INIT_STDERR_TAIL_MAX) {
		return false;
	}
	memcpy(&state, bytes, sizeof(state));
	if (state.phase == BOX_INIT_PROCESS_UNKNOWN) {
		return size == sizeof(state) && memcmp(&state, &none, sizeof(none)) == 0;
	}
	if (state.phase > BOX_INIT_PROCESS_UNKNOWN || state.out_ended > 1 || state.pid < 0 ||
		state.freed > state.out_end ||
		state.out_end - state.freed > BOX_INIT_OUTPUT_HELD_MAX ||
		state.in_taken > state.in_have || state.in_ended > 1 || state.blocked > 1) {
		return false;
	}
	if (state.phase == BOX_INIT_PROCESS_RUNNING) {
		return state.pid > 0 && state.end == 0 && state.step == 0 && state.value == 0;
	}
	return end_well_formed(&state);
}

static bool peek_answer_well_formed(const char *bytes, size_t size)
{
	struct box_init_peek_answer answer;
	if (size < sizeof(answer)) {
		return false;
	}
	memcpy(&answer, bytes, sizeof(answer));
	return answer.ended <= 1 && answer.reserved == 0 && answer.offset <= answer.end &&
		size - sizeof(answer) <= answer.end - answer.offset;
}

static bool skipped_well_formed(const char *bytes, size_t size)
{
	struct box_init_output_skipped skipped;
	if (size != sizeof(skipped)) {
		return false;
	}
	memcpy(&skipped, bytes, sizeof(skipped));
	return skipped.from < skipped.to;
}

bool box_init_process_answer_is_valid(uint32_t kind, const char *bytes, size_t size)
{
	switch (kind) {
	case BOX_INIT_PROCESS_STATE:
		return state_well_formed(bytes, size);
	case BOX_INIT_PROCESS_OUTPUT:
		return size > sizeof(uint64_t);
	case BOX_INIT_STDIN_TAKEN:
		return size == sizeof(uint64_t);
	case BOX_INIT_PEEK_ANSWER:
		return peek_answer_well_formed(bytes, size);
	case BOX_INIT_OUTPUT_SKIPPED:
		return skipped_well_formed(bytes, size);
	default:
		return false;
	}
}

static bool start_well_formed(const char *bytes, size_t size)
{
	struct box_init_start_process start;
	if (size < sizeof(start)) {
		return false;
	}
	memcpy(&start, bytes, sizeof(start));
	/* The shortest variable is "A=" and the shortest workdir "/", each with its NUL. */
	if (start.env_count > BOX_INIT_ENV_MAX || start.env_size < start.env_count * 3 ||
		(start.env_count == 0 && start.env_size != 0) || start.workdir_size < 2 ||
		start.workdir_size > BOX_INIT_PATH_MAX || start.command_size < 2 ||
		start.mount_count > BOX_INIT_MOUNTS_MAX) {
		return false;
	}
	if (start.log_bytes != 0 &&
		(start.log_bytes < BOX_INIT_OUTPUT_HELD_MIN ||
			start.log_bytes > BOX_INIT_OUTPUT_HELD_MAX)) {
		return false;
	}
	return size - sizeof(start) ==
		(uint64_t)start.env_size + start.workdir_size + start.command_size;
}

static bool follow_well_formed(const char *bytes, size_t size)
{
	struct box_init_follow_output follow;
	if (size != sizeof(follow)) {
		return false;
	}
	memcpy(&follow, bytes, sizeof(follow));
	return follow.hold >= BOX_INIT_OUTPUT_HELD_MIN && follow.hold <= BOX_INIT_OUTPUT_HELD_MAX;
}

static bool peek_well_formed(const char *bytes, size_t size)
{
	struct box_init_peek peek;
	if (size != sizeof(peek)) {
		return false;
	}
	memcpy(&peek, bytes, sizeof(peek));
	return peek.stream <= BOX_INIT_PEEK_STDERR && peek.wait <= 1 &&
		peek.max_bytes <= BOX_INIT_PEEK_BYTES_MAX;
}

static bool stop_well_formed(const char *bytes, size_t size)
{
	uint32_t grace_ms;
	if (size != sizeof(grace_ms)) {
		return false;
	}
	memcpy(&grace_ms, bytes, sizeof(grace_ms));
	return grace_ms <= BOX_INIT_GRACE_MS_MAX;
}

bool box_init_process_request_is_valid(uint32_t kind, const char *bytes, size_t size)
{
	switch (kind) {
	case BOX_INIT_START_PROCESS:
	case BOX_INIT_START_PROCESS_IN:
		return start_well_formed(bytes, size);
	case BOX_INIT_FOLLOW_OUTPUT:
		return follow_well_formed(bytes, size);
	case BOX_INIT_WRITE_STDIN:
		return size >= sizeof(uint64_t);
	case BOX_INIT_STOP_PROCESS:
		return stop_well_formed(bytes, size);
	case BOX_INIT_PEEK:
		return peek_well_formed(bytes, size);
	case BOX_INIT_FORGET_PROCESS:
	case BOX_INIT_QUERY_PROCESS:
		return size == 0;
	default:
		return false;
	}
}
