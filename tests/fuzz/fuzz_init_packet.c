/* Any bytes as a packet of box-init or to it: properties of those that are accepted. The users of a
 * packet rely on these properties only. */
#include "protocol/init.h"
#include "protocol/init_process.h"
#include "tests/fuzz/common.h"

static void check_header(const struct box_init_header *header, size_t size)
{
	MUST(size >= sizeof(*header) && size <= BOX_INIT_PACKET_MAX);
	MUST(header->size == size && header->reserved == 0);
	bool whole = header->kind == BOX_INIT_RESET || header->kind == BOX_INIT_RESET_DONE ||
		header->kind == BOX_INIT_BOX_ENDS;
	MUST((header->id == 0) == whole);
}

static void check_run(const uint8_t *bytes, size_t size)
{
	struct box_init_run run;
	MUST(size >= sizeof(run));
	memcpy(&run, bytes, sizeof(run));
	uint64_t total = (uint64_t)run.env_size + run.workdir_size + run.command_size;
	MUST(total <= BOX_INIT_BODY_MAX);
	MUST(size - sizeof(run) <= total);
	MUST(run.env_count <= BOX_INIT_ENV_MAX && run.mount_count <= BOX_INIT_MOUNTS_MAX);
	MUST((run.env_count == 0) == (run.env_size == 0));
	MUST(run.workdir_size >= 2 && run.workdir_size <= BOX_INIT_PATH_MAX);
	bool pipes = run.flags & BOX_INIT_RUN_PIPES;
	MUST(run.command_size >= 1 && run.flags < 32);
	MUST(!pipes || (run.flags & ~(BOX_INIT_RUN_PIPES | BOX_INIT_RUN_ARGV)) == 0);
	bool tty = run.flags & BOX_INIT_RUN_TTY;
	MUST(tty == (run.size.rows > 0) && tty == (run.size.columns > 0));
	MUST(!(run.flags & BOX_INIT_RUN_FILE) || run.flags < 10);
}

/* About managed processes. */
static void check_kept_request(uint32_t kind, const uint8_t *bytes, size_t size)
{
	struct box_init_start_process keep;
	struct box_init_follow_output follow;
	uint32_t grace_ms;
	switch (kind) {
	case BOX_INIT_START_PROCESS:
	case BOX_INIT_START_PROCESS_IN:
		MUST(size >= sizeof(keep));
		memcpy(&keep, bytes, sizeof(keep));
		MUST((uint64_t)keep.env_size + keep.workdir_size + keep.command_size ==
			size - sizeof(keep));
		MUST(keep.env_count <= BOX_INIT_ENV_MAX);
		MUST((keep.env_count == 0) == (keep.env_size == 0));
		MUST(keep.workdir_size >= 2 && keep.workdir_size <= BOX_INIT_PATH_MAX);
		MUST(keep.command_size >= 2);
		MUST(keep.log_bytes == 0 || keep.log_bytes >= BOX_INIT_OUTPUT_HELD_MIN);
		break;
	case BOX_INIT_FOLLOW_OUTPUT:
		MUST(size == sizeof(follow));
		memcpy(&follow, bytes, sizeof(follow));
		MUST(follow.hold >= BOX_INIT_OUTPUT_HELD_MIN &&
			follow.hold <= BOX_INIT_OUTPUT_HELD_MAX);
		break;
	case BOX_INIT_WRITE_STDIN:
		MUST(size >= sizeof(uint64_t));
		break;
	case BOX_INIT_STOP_PROCESS:
		MUST(size == sizeof(grace_ms));
		memcpy(&grace_ms, bytes, sizeof(grace_ms));
		MUST(grace_ms <= BOX_INIT_GRACE_MS_MAX);
		break;
	default:
		MUST(size == 0);
	}
}

static void check_state(const uint8_t *bytes, size_t size)
{
	struct box_init_process_state state;
	MUST(size >= sizeof(state) && size <= sizeof(state) + BOX_INIT_STDERR_TAIL_MAX);
	memcpy(&state, bytes, sizeof(state));
	MUST(state.phase <= BOX_INIT_PROCESS_UNKNOWN && state.out_ended <= 1);
	MUST(state.freed <= state.out_end && state.in_taken <= state.in_have);
	MUST(state.in_ended <= 1 && state.blocked <= 1);
	MUST(state.out_end - state.freed <= BOX_INIT_OUTPUT_HELD_MAX);
	MUST((state.phase == BOX_INIT_PROCESS_RUNNING) <= (state.pid > 0));
	MUST(state.value >= 0 && state.value <= (state.step ? 4095 : 255));
	MUST((state.end == BOX_INIT_END_FAILED) == (state.step != 0));
	MUST(state.end != BOX_INIT_END_SIGNAL || (state.value >= 1 && state.value <= 64));
}

static void check_kept_answer(uint32_t kind, const uint8_t *bytes, size_t size)
{
	if (kind == BOX_INIT_PROCESS_STATE) {
		check_state(bytes, size);
	} else if (kind == BOX_INIT_PROCESS_OUTPUT) {
		MUST(size > sizeof(uint64_t));
	} else if (kind == BOX_INIT_OUTPUT_SKIPPED) {
		MUST(size == sizeof(struct box_init_output_skipped));
	} else if (kind == BOX_INIT_PEEK_ANSWER) {
		MUST(size >= sizeof(struct box_init_peek_answer));
	} else {
		MUST(size == sizeof(uint64_t));
	}
}

static void check_request(const struct box_init_header *header, const uint8_t *bytes, size_t size)
{
	if (box_init_process_is_request(header->kind)) {
		check_kept_request(header->kind, bytes, size);
		return;
	}
	MUST(header->kind >= BOX_INIT_RESET && header->kind <= BOX_INIT_DRAIN);
	uint32_t number = 0;
	switch (header->kind) {
	case BOX_INIT_RESET:
	case BOX_INIT_KILL:
	case BOX_INIT_DRAIN:
		MUST(size == 0);
		break;
	case BOX_INIT_MOUNT:
		MUST(size >= 2 && size <= BOX_INIT_PATH_MAX && bytes[0] == '/');
		MUST(strnlen((const char *)bytes, size) == size - 1);
		break;
	case BOX_INIT_RUN:
		check_run(bytes, size);
		break;
	case BOX_INIT_CREDIT:
		MUST(size == sizeof(uint64_t));
		break;
	case BOX_INIT_PIPE:
		MUST(size == sizeof(number));
		memcpy(&number, bytes, sizeof(number));
		MUST(number <= 2);
		break;
	case BOX_INIT_SIGNAL:
		MUST(size == sizeof(number));
		memcpy(&number, bytes, sizeof(number));
		MUST(number >= 1 && number <= 64);
		break;
	default:
		MUST(size > 0 || header->kind == BOX_INIT_INPUT);
	}
}

static void check_exit(const uint8_t *bytes, size_t size)
{
	struct box_init_exit end;
	MUST(size == sizeof(end));
	memcpy(&end, bytes, sizeof(end));
	MUST(end.end <= BOX_INIT_END_MEMORY && end.step < BOX_INIT_STEPS_);
	MUST((end.end == BOX_INIT_END_FAILED) == (end.step != 0));
	MUST(end.value >= 0 && end.value <= (end.step ? 4095 : 255));
	MUST(end.mount < BOX_INIT_MOUNTS_MAX);
	MUST(end.mount == 0 || end.step == BOX_INIT_STEP_MOUNT);
}

static void check_answer(const struct box_init_header *header, const uint8_t *bytes, size_t size)
{
	if (box_init_process_is_answer(header->kind)) {
		check_kept_answer(header->kind, bytes, size);
		return;
	}
	MUST(header->kind >= BOX_INIT_RESET_DONE && header->kind <= BOX_INIT_BOX_ENDS);
	if (header->kind == BOX_INIT_BOX_ENDS) {
		MUST(size > 0 && size <= BOX_INIT_BOX_ENDS_MAX);
	} else if (header->kind == BOX_INIT_EXIT) {
		check_exit(bytes, size);
	} else if (header->kind == BOX_INIT_INPUT_TAKEN) {
		MUST(size == sizeof(uint64_t));
	} else {
		bool output = header->kind == BOX_INIT_STDOUT || header->kind == BOX_INIT_STDERR;
		MUST(output == (size > 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct box_init_header header = {0};
	int request = box_init_check_request(data, size);
	int answer = box_init_check_answer(data, size);
	/* No packet is both a request and an answer. */
	MUST(request < 0 || answer < 0);
	if (request < 0 && answer < 0) {
		return 0;
	}
	memcpy(&header, data, sizeof(header));
	check_header(&header, size);
	const uint8_t *bytes = data + sizeof(header);
	if (request == 0) {
		check_request(&header, bytes, size - sizeof(header));
	} else {
		check_answer(&header, bytes, size - sizeof(header));
	}
	/* A truncated packet is invalid. */
	MUST(box_init_check_request(data, size - 1) < 0);
	MUST(box_init_check_answer(data, size - 1) < 0);
	return 0;
}
