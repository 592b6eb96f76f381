/* Validates single packets of the protocol between box-rpc and box-init. Each end calls it on every
 * packet from the other end before any other code reads the bytes. Pure: no allocation, no system
 * calls. */
#include "protocol/init.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "protocol/init_process.h"

#define SIGNAL_MAX 64
#define EXIT_CODE_MAX 255
#define ERRNO_MAX 4095

/* The bytes after the header. */
struct body {
	uint32_t kind;
	const char *bytes;
	size_t size;
};

static bool exit_well_formed(const struct body *body)
{
	struct box_init_exit end;
	if (body->size != sizeof(end)) {
		return false;
	}
	memcpy(&end, body->bytes, sizeof(end));
	bool failed = end.end == BOX_INIT_END_FAILED;
	if (end.step >= BOX_INIT_STEPS_ || failed != (end.step != BOX_INIT_STEP_NONE)) {
		return false;
	}
	if (end.mount >= BOX_INIT_MOUNTS_MAX ||
		(end.mount != 0 && end.step != BOX_INIT_STEP_MOUNT)) {
		return false;
	}
	if (end.used_bytes > end.room_bytes || end.full > 1 || end.reserved != 0 ||
		(end.full && end.room_bytes == 0)) {
		return false;
	}
	switch (end.end) {
	case BOX_INIT_END_EXIT:
	case BOX_INIT_END_MEMORY:
		return end.value >= 0 && end.value <= EXIT_CODE_MAX;
	case BOX_INIT_END_SIGNAL:
		return end.value >= 1 && end.value <= SIGNAL_MAX;
	case BOX_INIT_END_TIMEOUT:
		return end.value == 0;
	case BOX_INIT_END_FAILED:
		return end.value >= 1 && end.value <= ERRNO_MAX;
	default:
		return false;
	}
}

static bool text_well_formed(const struct body *body)
{
	for (size_t i = 0; i < body->size; i++) {
		if (body->bytes[i] < ' ' || body->bytes[i] > '~') {
			return false;
		}
	}
	return body->size > 0 && body->size <= BOX_INIT_BOX_ENDS_MAX;
}

static bool answer_well_formed(const struct body *body)
{
	switch (body->kind) {
	case BOX_INIT_RESET_DONE:
	case BOX_INIT_STARTED:
		return body->size == 0;
	case BOX_INIT_STDOUT:
	case BOX_INIT_STDERR:
		return body->size > 0;
	case BOX_INIT_INPUT_TAKEN:
		return body->size == sizeof(uint64_t);
	case BOX_INIT_EXIT:
		return exit_well_formed(body);
	case BOX_INIT_BOX_ENDS:
		return text_well_formed(body);
	default:
		return box_init_process_answer_is_valid(body->kind, body->bytes, body->size);
	}
}

/* An absolute path whose only NUL is its last byte. */
static bool target_well_formed(const struct body *body)
{
	return body->size >= 2 && body->size <= BOX_INIT_PATH_MAX && body->bytes[0] == '/' &&
		memchr(body->bytes, '\0', body->size) == body->bytes + body->size - 1;
}

static bool size_is_set(struct box_init_size size)
{
	return size.rows > 0 && size.columns > 0;
}

static bool resize_well_formed(const struct body *body)
{
	struct box_init_size size;
	if (body->size != sizeof(size)) {
		return false;
	}
	memcpy(&size, body->bytes, sizeof(size));
	return size_is_set(size);
}

static bool run_well_formed(const struct body *body)
{
	struct box_init_run run;
	if (body->size < sizeof(run)) {
		return false;
	}
	memcpy(&run, body->bytes, sizeof(run));
	const uint32_t flags = BOX_INIT_RUN_STDIN | BOX_INIT_RUN_ARGV | BOX_INIT_RUN_TTY |
		BOX_INIT_RUN_FILE | BOX_INIT_RUN_PIPES;
	bool tty = run.flags & BOX_INIT_RUN_TTY;
	bool sized = run.size.rows != 0 || run.size.columns != 0;
	if (tty != size_is_set(run.size) || tty != sized || run.grace_ms > BOX_INIT_GRACE_MS_MAX ||
		(tty && !(run.flags & BOX_INIT_RUN_STDIN))) {
		return false;
	}
	if ((run.flags & BOX_INIT_RUN_FILE) &&
		(run.flags & ~BOX_INIT_RUN_STDIN) != BOX_INIT_RUN_FILE) {
		return false;
	}
	if ((run.flags & BOX_INIT_RUN_PIPES) &&
		(run.flags & ~BOX_INIT_RUN_ARGV) != BOX_INIT_RUN_PIPES) {
		return false;
	}
	/* The shortest variable is "A=" and the shortest workdir "/", each with its NUL. */
	if ((run.flags & ~flags) != 0 || run.env_count > BOX_INIT_ENV_MAX ||
		run.env_size < run.env_count * 3 || (run.env_count == 0 && run.env_size != 0) ||
		run.workdir_size < 2 || run.workdir_size > BOX_INIT_PATH_MAX ||
		run.command_size == 0 || run.mount_count > BOX_INIT_MOUNTS_MAX) {
		return false;
	}
	uint64_t total = (uint64_t)run.env_size + run.workdir_size + run.command_size;
	return total <= BOX_INIT_BODY_MAX && body->size - sizeof(run) <= total;
}

static bool number_well_formed(const struct body *body, uint32_t min, uint32_t max)
{
	uint32_t number;
	if (body->size != sizeof(number)) {
		return false;
	}
	memcpy(&number, body->bytes, sizeof(number));
	return number >= min && number <= max;
}

static bool request_well_formed(const struct body *body)
{
	switch (body->kind) {
	case BOX_INIT_RESET:
	case BOX_INIT_KILL:
	case BOX_INIT_DRAIN:
		return body->size == 0;
	case BOX_INIT_PIPE:
		return number_well_formed(body, STDIN_FILENO, STDERR_FILENO);
	case BOX_INIT_MOUNT:
		return target_well_formed(body);
	case BOX_INIT_RUN:
		return run_well_formed(body);
	case BOX_INIT_MORE:
		return body->size > 0;
	case BOX_INIT_INPUT:
		return true;
	case BOX_INIT_CREDIT:
		return body->size == sizeof(uint64_t);
	case BOX_INIT_SIGNAL:
		return number_well_formed(body, 1, SIGNAL_MAX);
	case BOX_INIT_RESIZE:
		return resize_well_formed(body);
	default:
		return box_init_process_request_is_valid(body->kind, body->bytes, body->size);
	}
}

/* Checks what holds for every packet. */
static bool open_packet(const void *packet, size_t size, struct body *ret_body)
{
	struct box_init_header header;
	if (size < sizeof(header) || size > BOX_INIT_PACKET_MAX) {
		return false;
	}
	memcpy(&header, packet, sizeof(header));
	bool without_id = header.kind == BOX_INIT_RESET || header.kind == BOX_INIT_RESET_DONE ||
		header.kind == BOX_INIT_BOX_ENDS;
	if (header.size != size || header.reserved != 0 || (header.id == 0) != without_id) {
		return false;
	}
	*ret_body = (struct body){
		.kind = header.kind,
		.bytes = (const char *)packet + sizeof(header),
		.size = size - sizeof(header),
	};
	return true;
}

int box_init_check_answer(const void *packet, size_t size)
{
	struct body body;
	return open_packet(packet, size, &body) && answer_well_formed(&body) ? 0 : -EBADMSG;
}

int box_init_check_request(const void *packet, size_t size)
{
	struct body body;
	return open_packet(packet, size, &body) && request_well_formed(&body) ? 0 : -EBADMSG;
}

int box_init_frame_missing(const void *packet, size_t have)
{
	struct box_init_header header;
	if (have < sizeof(header)) {
		return (int)(sizeof(header) - have);
	}
	memcpy(&header, packet, sizeof(header));
	if (header.size < sizeof(header) || header.size > BOX_INIT_PACKET_MAX ||
		have > header.size) {
		return -EBADMSG;
	}
	return (int)(header.size - have);
}

const char *box_init_boot_step_name(uint32_t step)
{
	static const char *const names[] = {
		"read the boot file",
		"open /dev/null",
		"find the OOM score",
		"become untraceable",
		"set up signals",
		"set up the loop",
		"drop the bounding set",
		"lock the secure bits",
		"set no_new_privs",
		"start the mounter",
		"wait for an order",
		"attach the workspace",
		"enter Landlock",
		"drop capabilities",
		"install the filter",
	};
	_Static_assert(BOX_COUNT_OF(names) == BOX_INIT_BOOT_END_ - BOX_INIT_BOOT_READ,
		"a name for each step");
	if (step < BOX_INIT_BOOT_READ || step >= BOX_INIT_BOOT_END_) {
		return NULL;
	}
	return names[step - BOX_INIT_BOOT_READ];
}
