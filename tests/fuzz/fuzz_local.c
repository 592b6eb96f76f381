/* A hostile box-init against the local backend, with commands of all kinds under way. The bytes are
 * a script: packets of box-init, right or wrong, mixed with actions of a client and of boxd. In
 * every case each command and each input ends once, output keeps to its credit, what is sent is
 * well-formed, and in the end nothing is left. */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "protocol/init.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/local.h"
#include "tests/fuzz/common.h"

#define COMMANDS_MAX 12
#define INPUTS_MAX 32
#define MOUNTS_MAX (2 * COMMANDS_MAX)
#define CREDIT_BYTES 4096
#define OUTPUT_BYTES_MAX 1000
#define TURNS_MAX 1000

struct command {
	struct box_backend_op *op; /* NULL: ended, or cancelled */
	bool live;
	bool cancelled;
	int told;
	uint64_t credit;
};

struct given {
	char *bytes; /* ours until reported or forgotten */
	struct command *command;
	int told;
	bool forgotten;
};

struct pending {
	box_local_mount_done *done;
	void *arg;
};

static struct {
	uv_loop_t loop;
	struct box_local *local;
	struct box_backend_box *box;
	int init; /* -1: init is gone */
	int memory;
	box_local_make_done *made;
	void *make;
	bool ended; /* boxd was asked to end it */
	int lost;
	int destroyed;
	struct pending mounts[MOUNTS_MAX];
	size_t mount_count;
	struct command commands[COMMANDS_MAX];
	size_t command_count;
	struct given inputs[INPUTS_MAX];
	size_t input_count;
} play;

/* --- the script --- */

struct script {
	const uint8_t *at;
	size_t left;
};

static uint8_t next(struct script *script)
{
	if (script->left == 0) {
		return 0;
	}
	script->left--;
	return *script->at++;
}

static size_t next_bytes(struct script *script, void *to, size_t count)
{
	count = count < script->left ? count : script->left;
	memcpy(to, script->at, count);
	script->at += count;
	script->left -= count;
	return count;
}

/* --- boxd --- */

static int another_memory(void)
{
	int fd = fcntl(play.memory, F_DUPFD_CLOEXEC, 0);
	MUST(fd >= 0);
	return fd;
}

static void boxd_make(
	void *owner, const struct box_plan_request *ask, box_local_make_done *done, void *arg)
{
	(void)owner;
	(void)ask;
	play.made = done;
	play.make = arg;
}

static void boxd_end(void *owner, uint64_t box)
{
	(void)owner;
	MUST(box == 7 && !play.ended);
	play.ended = true;
}

static void boxd_mount(void *owner, uint64_t box, const struct box_mount *wanted,
	box_local_mount_done *done, void *arg)
{
	(void)owner;
	MUST(box == 7 && strcmp(wanted->host_path, "/host") == 0 && play.mount_count < MOUNTS_MAX);
	play.mounts[play.mount_count++] = (struct pending){done, arg};
}

static const struct box_local_boxd boxd = {.make = boxd_make, .end = boxd_end, .mount = boxd_mount};

static void answer_mount(bool refuse)
{
	struct box_err err;
	if (play.mount_count == 0) {
		return;
	}
	struct pending first = play.mounts[0];
	play.mount_count--;
	memmove(play.mounts, play.mounts + 1, play.mount_count * sizeof(first));
	(void)box_err_set(&err, BOX_ERR_VALIDATION, 1, "refused");
	first.done(first.arg, refuse ? -1 : another_memory(), refuse ? &err : NULL);
}

/* --- who asked --- */

static void on_made(void *arg, struct box_backend_box *box, const struct box_err *err)
{
	(void)arg;
	MUST(box && !err && !play.box);
	play.box = box;
}

static void on_lost(void *arg, const char *why)
{
	(void)arg;
	MUST(why && ++play.lost == 1);
}

static void on_destroyed(void *arg)
{
	(void)arg;
	play.destroyed++;
}

static void on_ran(
	void *arg, const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct command *command = arg;
	MUST(command->op && !command->cancelled && ++command->told == 1);
	MUST(!outcome == (err != NULL));
	if (outcome) {
		MUST(outcome->out.len <= OUTPUT_BYTES_MAX && outcome->err.len <= OUTPUT_BYTES_MAX);
		MUST(!command->live || (outcome->out.len == 0 && outcome->err.len == 0));
		MUST(outcome->reason <= BOX_BACKEND_END_TIMEOUT);
		MUST(outcome->exit_code >= 0 && outcome->exit_code <= 255);
	} else {
		MUST(err->code != BOX_ERR_NONE && err->text[0] != '\0');
	}
	command->op = NULL;
}

static void on_started(void *arg)
{
	struct command *command = arg;
	MUST(command->live && command->op);
}

static void on_output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct command *command = arg;
	(void)is_stderr;
	MUST(command->live && command->op && bytes.len > 0 && bytes.len <= command->credit);
	command->credit -= bytes.len;
}

static const struct box_backend_stream_events live_events = {
	.started = on_started, .output = on_output};

static void on_taken(void *arg, const struct box_err *err)
{
	struct given *given = arg;
	(void)err;
	MUST(!given->forgotten && ++given->told == 1);
	free(given->bytes);
	given->bytes = NULL;
}

static const struct box_backend_ops *ops(void)
{
	return box_local_native_backend(play.local)->ops;
}

static void begin(uint8_t how)
{
	static struct box_mount mounts[2] = {
		{.host_path = "/host", .mount_path = "/a", .mode = BOX_MOUNT_RO},
		{.host_path = "/host", .mount_path = "/b", .mode = BOX_MOUNT_RW},
	};
	static struct box_spec plain = {.workdir = "/w", .timeout_sec = 60};
	static struct box_spec mounting = {
		.workdir = "/w", .timeout_sec = 60, .mounts = mounts, .mount_count = 2};
	static const struct box_backend_stream live[2] = {
		{.events = &live_events, .has_stdin = false, .credit = CREDIT_BYTES},
		{.events = &live_events, .has_stdin = true, .credit = CREDIT_BYTES},
	};
	struct box_spec *spec = how & 1 ? &mounting : &plain;
	if (play.command_count == COMMANDS_MAX || play.destroyed || play.ended) {
		return;
	}
	spec->cmd = box_str("true");
	struct command *command = &play.commands[play.command_count++];
	command->live = (how & 2) != 0;
	command->credit = CREDIT_BYTES;
	command->op = ops()->exec(play.box, spec, OUTPUT_BYTES_MAX,
		command->live ? &live[(how >> 2) & 1] : NULL, on_ran, command);
}

static struct command *chosen(struct script *script)
{
	struct command *command = &play.commands[next(script) % COMMANDS_MAX];
	return command->op ? command : NULL;
}

static void give_input(struct script *script)
{
	struct command *command = chosen(script);
	size_t size = (size_t)next(script) << (next(script) % 12);
	bool eof = next(script) & 1;
	if (!command || !command->live || play.input_count == INPUTS_MAX) {
		return;
	}
	if (size == 0) {
		ops()->input(command->op, (struct box_str){"", 0}, eof, NULL, NULL);
		return;
	}
	struct given *given = &play.inputs[play.input_count++];
	given->bytes = box_alloc(size);
	given->command = command;
	ops()->input(command->op, (struct box_str){given->bytes, size}, eof, on_taken, given);
}

static void forget_input(struct script *script)
{
	struct given *given = &play.inputs[next(script) % INPUTS_MAX];
	if (given->bytes && given->command->op) {
		ops()->forget_input(given->command->op, given);
		given->forgotten = true;
		free(given->bytes);
		given->bytes = NULL;
	}
}

static void ask_of(struct script *script, uint8_t what)
{
	struct command *command = chosen(script);
	uint8_t number = next(script);
	if (!command) {
		return;
	}
	if (what == 0) {
		command->cancelled = true;
		struct box_backend_op *op = command->op;
		command->op = NULL;
		ops()->cancel(op);
	} else if (what == 1 && command->live) {
		command->credit += number;
		ops()->credit(command->op, number);
	} else if (what == 2) {
		ops()->signal(command->op, 1 + number % 64);
	}
}

/* --- init --- */

static void send_packet(const void *packet, size_t size)
{
	if (play.init >= 0) {
		(void)send(play.init, packet, size, MSG_DONTWAIT | MSG_NOSIGNAL);
	}
}

/* Well-formed in its size. */
static void send_formed(struct script *script)
{
	static struct {
		struct box_init_header header;
		uint8_t bytes[BOX_INIT_BYTES_MAX];
	} packet;
	uint8_t kind = next(script);
	uint8_t id = next(script);
	size_t size = next_bytes(script, packet.bytes, next(script));
	if (kind & 0x80) { /* a long one */
		size = 256 + (size_t)next(script) * 255;
		memset(packet.bytes, 'x', size);
	}
	packet.header = (struct box_init_header){
		.size = (uint32_t)(sizeof(packet.header) + size),
		.kind = BOX_INIT_RESET_DONE + (kind & 0x7f) % 7,
		.id = id % (COMMANDS_MAX + 2),
	};
	send_packet(&packet, packet.header.size);
}

static void send_number(struct script *script)
{
	struct {
		struct box_init_header header;
		uint64_t number;
	} packet = {.header = {sizeof(packet), BOX_INIT_INPUT_TAKEN,
			    1 + next(script) % COMMANDS_MAX, 0}};
	packet.number = (uint64_t)next(script) << (next(script) % 64);
	send_packet(&packet, sizeof(packet));
}

static void send_exit(struct script *script)
{
	struct {
		struct box_init_header header;
		struct box_init_exit end;
	} packet = {.header = {sizeof(packet), BOX_INIT_EXIT, 1 + next(script) % COMMANDS_MAX, 0}};
	packet.end.end = next(script) % 5;
	packet.end.step = next(script) % (BOX_INIT_STEPS_ + 1);
	packet.end.value = next(script);
	packet.end.mount = next(script);
	(void)next_bytes(script, &packet.end.stdout_dropped, next(script) % 25);
	send_packet(&packet, sizeof(packet));
}

static void send_raw(struct script *script)
{
	uint8_t packet[255];
	size_t size = next_bytes(script, packet, next(script));
	if (size > 0) { /* an empty packet looks like the end of the connection */
		send_packet(packet, size);
	}
}

/* What box-rpc sent must always be valid. */
static void read_requests(void)
{
	static _Alignas(8) char packet[BOX_INIT_PACKET_MAX];
	ssize_t got;
	while (play.init >= 0 &&
		(got = recv(play.init, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC)) > 0) {
		MUST((size_t)got <= sizeof(packet));
		MUST(box_init_check_request(packet, (size_t)got) == 0);
	}
}

static void turn(void)
{
	(void)uv_run(&play.loop, UV_RUN_NOWAIT);
}

static void hang_up(void)
{
	if (play.init >= 0) {
		(void)close(play.init);
		play.init = -1;
	}
}

/* --- the whole --- */

static void set_up(bool adopted)
{
	static const struct box_local_support support = {.possible = true, .limits = true};
	static const struct box_spec spec = {
		.mount_path = "/w", .cpus = 1, .memory_mb = 1, .pids_limit = 1};
	int ends[2];
	memset(&play, 0, sizeof(play));
	MUST(uv_loop_init(&play.loop) == 0);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	play.memory = memfd_create("fuzz-memory", MFD_CLOEXEC);
	MUST(play.memory >= 0 && write(play.memory, "oom_kill 0\n", 11) == 11);
	play.init = ends[1];
	play.local = box_local_new(&play.loop, &support, &boxd, NULL);
	int memory = another_memory();
	if (adopted) {
		box_local_inherited(play.local, 7, ends[0], memory, -1, 0);
		play.box = ops()->adopt(box_local_native_backend(play.local), 7);
	} else {
		(void)ops()->make(box_local_native_backend(play.local), "b", &spec, on_made, NULL);
		play.made(play.make, 7, ends[0], memory, 0, NULL);
	}
	MUST(play.box);
	ops()->watch(play.box, on_lost, NULL);
}

static void tear_down(void)
{
	while (play.mount_count > 0) {
		answer_mount(false);
	}
	if (!play.destroyed) {
		ops()->destroy(play.box, on_destroyed, NULL);
		box_local_gone(play.local, 7);
	}
	while (play.mount_count > 0) {
		answer_mount(false);
	}
	for (int i = 0; i < TURNS_MAX && uv_loop_alive(&play.loop); i++) {
		turn();
	}
	MUST(play.destroyed == 1 && uv_loop_close(&play.loop) == 0);
	for (size_t i = 0; i < play.command_count; i++) {
		MUST(play.commands[i].told == !play.commands[i].cancelled);
	}
	for (size_t i = 0; i < play.input_count; i++) {
		MUST(play.inputs[i].told == !play.inputs[i].forgotten);
	}
	box_local_free(play.local);
	hang_up();
	(void)close(play.memory);
}

static void step(struct script *script)
{
	switch (next(script) % 16) {
	case 0:
	case 1:
		send_formed(script);
		break;
	case 2:
		send_exit(script);
		break;
	case 3:
		send_number(script);
		break;
	case 4:
		send_raw(script);
		break;
	case 5:
	case 6:
		begin(next(script));
		break;
	case 7:
		answer_mount(next(script) & 1);
		break;
	case 8:
		give_input(script);
		break;
	case 9:
		forget_input(script);
		break;
	case 10:
		ask_of(script, next(script) % 3);
		break;
	case 11:
		read_requests();
		break;
	case 12:
		MUST(pwrite(play.memory, (char[]){(char)('0' + next(script) % 10)}, 1, 9) == 1);
		break;
	case 13:
		if (next(script) == 1) {
			hang_up();
		}
		break;
	default:
		turn();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script script = {data, size};
	box_log_setup("fuzz", (enum box_log_level)(BOX_LOG_ERROR + 1), BOX_LOG_TEXT);
	(void)signal(SIGPIPE, SIG_IGN); /* as box-rpc does */
	set_up(next(&script) & 1);
	for (int i = 0; i < 4; i++) {
		begin((uint8_t)(2 * i));
	}
	while (script.left > 0) {
		step(&script);
	}
	turn();
	tear_down();
	return 0;
}
