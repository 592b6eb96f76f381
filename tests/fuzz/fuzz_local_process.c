/* A hostile box-init against managed processes of the local backend. The bytes are a script:
 * packets of box-init, right or wrong, mixed with actions of readers. In every case output arrives
 * within its window and, except for what a log skips, without a gap; nothing is reported about
 * dropped processes, and what is sent is well-formed. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "base/log.h"
#include "protocol/init_process.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/backend_process.h"
#include "runtime/backend/local.h"
#include "tests/fuzz/common.h"

#define PROCESSES 4
#define GROUPINGS 64
#define TURNS_MAX 1000

struct process {
	bool there;
	bool over;
	bool has_log;
	uint64_t next; /* expected next output offset, once it was followed */
	uint64_t until;
	uint64_t fed;
	uint64_t taken;
	bool told;
};

struct grouping {
	box_local_process_cgroup_done *done;
	void *arg;
};

static struct {
	uv_loop_t loop;
	struct box_local *local;
	struct box_backend_box *box;
	int init;
	box_local_make_done *made;
	void *make;
	int destroyed;
	struct process processes[PROCESSES];
	struct grouping groupings[GROUPINGS]; /* requests to boxd without an answer */
	unsigned groups;
	unsigned answered;
} play;

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

/* A number of any size, mostly small. */
static uint64_t number(struct script *script)
{
	uint64_t base = next(script);
	uint8_t shift = next(script);
	return base << (shift & 0x80 ? shift % 64 : shift % 16);
}

/* --- boxd and who asked --- */

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
	(void)box;
}

static void boxd_open_cgroup(void *owner, uint64_t box, uint32_t process, uint32_t memory_mib,
	box_local_process_cgroup_done *done, void *arg)
{
	(void)owner;
	struct grouping *grouping = &play.groupings[play.groups++ % GROUPINGS];
	MUST(box == 7 && process >= 1 && process <= PROCESSES && memory_mib > 0 && !grouping->done);
	*grouping = (struct grouping){done, arg};
}

static void boxd_close_cgroup(void *owner, uint64_t box, uint32_t process)
{
	(void)owner;
	MUST(box == 7 && process >= 1 && process <= PROCESSES);
}

static const struct box_local_boxd boxd = {
	.make = boxd_make,
	.end = boxd_end,
	.open_cgroup = boxd_open_cgroup,
	.close_cgroup = boxd_close_cgroup,
};

/* boxd answers the oldest request. */
static void answer_cgroup(uint8_t how)
{
	struct grouping *grouping = &play.groupings[play.answered % GROUPINGS];
	struct box_local_process_cgroup group = {-1, -1, -1};
	struct box_err err;
	if (!grouping->done) {
		return;
	}
	struct grouping last = *grouping;
	grouping->done = NULL;
	play.answered++;
	if (how & 1) {
		(void)box_err_set(&err, BOX_ERR_BOX, ENOSPC, "no group");
		last.done(last.arg, &group, &err);
		return;
	}
	group.procs_fd = memfd_create("fuzz-procs", MFD_CLOEXEC);
	group.oom_fd = memfd_create("fuzz-events", MFD_CLOEXEC);
	MUST(group.procs_fd >= 0 && group.oom_fd >= 0);
	if (how & 2) {
		MUST(write(group.oom_fd, "oom_kill 1\n", 11) == 11);
	}
	if (how & 4) {
		group.oom_rest_fd = memfd_create("fuzz-rest", MFD_CLOEXEC);
	}
	last.done(last.arg, &group, NULL);
}

static void on_made(void *arg, struct box_backend_box *box, const struct box_err *err)
{
	(void)arg;
	(void)err;
	play.box = box;
}

static void on_lost(void *arg, const char *why)
{
	(void)arg;
	MUST(why);
}

static void on_destroyed(void *arg)
{
	(void)arg;
	play.destroyed++;
}

static void on_state(void *arg, const struct box_backend_process_state *state)
{
	struct process *process = arg;
	MUST(process->there && (!process->over || !state->running));
	MUST(state->known || !state->running);
	MUST(state->freed <= state->out_end && state->in_taken <= state->in_have);
	MUST(state->exit_code >= 0 && state->exit_code <= 255);
	MUST(state->tail.len <= BOX_INIT_STDERR_TAIL_MAX);
	if (!process->told) {
		process->fed = state->in_have > process->fed ? state->in_have : process->fed;
		process->taken = state->in_taken;
	}
	process->told = true;
	process->over = !state->running;
}

static void on_output(void *arg, uint64_t offset, struct box_str bytes)
{
	struct process *process = arg;
	MUST(process->there && bytes.len > 0 && offset == process->next);
	MUST(bytes.len <= process->until && offset <= process->until - bytes.len);
	process->next += bytes.len;
}

static void on_skipped(void *arg, uint64_t offset)
{
	struct process *process = arg;
	MUST(process->there && process->has_log);
	MUST(offset > process->next && process->next < process->until);
	uint64_t by = offset - process->next;
	process->until = process->until > UINT64_MAX - by ? UINT64_MAX : process->until + by;
	process->next = offset;
}

static void on_fed(void *arg, uint64_t taken)
{
	struct process *process = arg;
	MUST(process->there && taken >= process->taken && taken <= process->fed);
	process->taken = taken;
}

static const struct box_backend_process_events events = {
	.state = on_state, .output = on_output, .skipped = on_skipped, .fed = on_fed};

static const struct box_backend_ops *ops(void)
{
	return box_local_native_backend(play.local)->ops;
}

static void ask(struct script *script)
{
	struct box_process_spec spec = {.process_id = "p", .command = "c", .cwd = "/"};
	uint8_t what = next(script);
	uint32_t id = 1 + next(script) % PROCESSES;
	struct process *process = &play.processes[id - 1];
	const struct box_backend_process_ops *kept = ops()->processes;
	struct box_err err;
	if (!process->there) {
		const struct box_backend_process_record past = {.memory_mb = what >> 6,
			.oom_kills = what >> 4 & 1,
			.ended = what & 8,
			.has_log = what & 0x20};
		bool full = play.groups - play.answered == GROUPINGS;
		if (full) {
			return;
		}
		*process = (struct process){.there = true, .has_log = what & 0x20};
		spec.memory_mb = what >> 6;
		spec.log_bytes = what & 0x20 ? BOX_INIT_OUTPUT_HELD_MIN : 0;
		if (what & 1) {
			kept->adopt(play.box, id, &past, &events, process);
		} else if (kept->start(play.box, id, &spec, &events, process, &err) < 0) {
			process->there = false;
		}
		return;
	}
	switch (what % 4) {
	case 0: {
		struct box_backend_process_follow follow = {
			0, number(script), number(script), 1 << 20};
		follow.from = what & 0x10 ? BOX_BACKEND_PROCESS_CONTINUE : follow.from;
		process->next = what & 0x10 ? process->next : follow.from;
		/* A skip of the log is not undone by a reader that continues. */
		bool keeps = process->has_log && what & 0x10 && process->until > follow.until;
		process->until = keeps ? process->until : follow.until;
		kept->follow(play.box, id, &follow);
		break;
	}
	case 1: {
		static const char bytes[256];
		size_t size = next(script);
		kept->feed(play.box, id, process->fed, (struct box_str){bytes, size});
		process->fed += size;
		break;
	}
	case 2:
		kept->stop(play.box, id, next(script));
		break;
	default:
		process->there = false;
		kept->forget(play.box, id);
	}
}

/* --- init --- */

static void send_packet(struct script *script)
{
	static struct {
		struct box_init_header header;
		uint8_t bytes[BOX_INIT_BYTES_MAX];
	} packet;
	uint32_t kind = BOX_INIT_PROCESS_STATE + next(script) % 5;
	uint32_t id = next(script) % (PROCESSES + 2);
	uint64_t first = number(script);
	size_t size = sizeof(first);
	memset(&packet, 0, sizeof(packet.header) + sizeof(struct box_init_process_state));
	memcpy(packet.bytes, &first, sizeof(first));
	if (kind == BOX_INIT_PROCESS_OUTPUT) {
		size += next(script);
	} else if (kind == BOX_INIT_OUTPUT_SKIPPED) {
		struct box_init_output_skipped skipped = {
			.from = first, .to = first + number(script)};
		memcpy(packet.bytes, &skipped, sizeof(skipped));
		size = sizeof(skipped);
	} else if (kind == BOX_INIT_PROCESS_STATE) {
		struct box_init_process_state state = {
			.phase = next(script) % 4,
			.end = next(script) % 5,
			.step = next(script) % 4,
			.value = next(script),
			.pid = next(script),
			.out_ended = next(script) % 3,
			.freed = number(script),
			.out_end = first,
			.in_have = number(script),
		};
		state.in_taken = state.in_have - next(script);
		memcpy(packet.bytes, &state, sizeof(state));
		size = sizeof(state) + next(script);
	}
	packet.header = (struct box_init_header){
		.size = (uint32_t)(sizeof(packet.header) + size), .kind = kind, .id = id};
	(void)send(play.init, &packet, packet.header.size, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void read_requests(void)
{
	static _Alignas(8) char packet[BOX_INIT_PACKET_MAX];
	ssize_t got;
	while ((got = recv(play.init, packet, sizeof(packet), MSG_DONTWAIT | MSG_TRUNC)) > 0) {
		MUST((size_t)got <= sizeof(packet));
		MUST(box_init_check_request(packet, (size_t)got) == 0);
	}
}

static void set_up(void)
{
	static const struct box_local_support support = {.possible = true, .limits = true};
	static const struct box_spec spec = {
		.mount_path = "/w", .cpus = 1, .memory_mb = 1, .pids_limit = 1};
	int ends[2];
	memset(&play, 0, sizeof(play));
	MUST(uv_loop_init(&play.loop) == 0);
	MUST(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	int memory = memfd_create("fuzz-memory", MFD_CLOEXEC);
	MUST(memory >= 0 && write(memory, "oom_kill 0\n", 11) == 11);
	play.init = ends[1];
	play.local = box_local_new(&play.loop, &support, &boxd, NULL);
	(void)ops()->make(box_local_native_backend(play.local), "b", &spec, on_made, NULL);
	play.made(play.make, 7, ends[0], memory, 0, NULL);
	MUST(play.box);
	ops()->watch(play.box, on_lost, NULL);
}

static void tear_down(void)
{
	while (play.answered != play.groups) {
		answer_cgroup((uint8_t)play.answered);
	}
	ops()->destroy(play.box, on_destroyed, NULL);
	box_local_gone(play.local, 7);
	for (int i = 0; i < TURNS_MAX && uv_loop_alive(&play.loop); i++) {
		(void)uv_run(&play.loop, UV_RUN_NOWAIT);
	}
	MUST(play.destroyed == 1 && uv_loop_close(&play.loop) == 0);
	box_local_free(play.local);
	(void)close(play.init);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script script = {data, size};
	box_log_setup("fuzz", (enum box_log_level)(BOX_LOG_ERROR + 1), BOX_LOG_TEXT);
	set_up();
	while (script.left > 0) {
		uint8_t step = next(&script);
		switch (step % 4) {
		case 0:
			if (step & 0x80) {
				answer_cgroup(step >> 2);
			} else {
				ask(&script);
			}
			break;
		case 1:
		case 2:
			send_packet(&script);
			break;
		default:
			read_requests();
			(void)uv_run(&play.loop, UV_RUN_NOWAIT);
		}
	}
	(void)uv_run(&play.loop, UV_RUN_NOWAIT);
	tear_down();
	return 0;
}
