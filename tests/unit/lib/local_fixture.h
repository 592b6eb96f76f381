/* The local backend between a fake boxd, which answers when the test says so, and a box-init that
 * is the other end of a socketpair. At the end of each test nothing may be left: no handle on the
 * loop, no open fd. */
#pragma once

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <uv.h>

#include "base/arena.h"
#include "base/log.h"
#include "protocol/init.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/local.h"
#include "tests/unit/lib/test.h"

#define ASKED_MAX 16
#define TURNS 8

struct asked_make {
	struct box_plan_request ask;
	box_local_make_done *done;
	void *arg;
};

struct asked_mount {
	uint64_t box;
	char path[BOX_PATH_MAX];
	bool read_only;
	box_local_mount_done *done;
	void *arg;
};

struct asked_cgroup {
	uint64_t box;
	uint32_t process;
	uint32_t memory_mib;
	box_local_process_cgroup_done *done;
	void *arg;
};

static uv_loop_t loop;
static struct box_local *local;
static struct box_backend *backend;
static int fds_before;

/* Requests to boxd, in order. */
static struct {
	struct asked_make makes[ASKED_MAX];
	int make_count;
	uint64_t ends[ASKED_MAX];
	int end_count;
	struct asked_mount mounts[ASKED_MAX];
	int mount_count;
	struct asked_cgroup cgroups[ASKED_MAX];
	int cgroup_count;
	struct asked_cgroup closed[ASKED_MAX];
	int closed_count;
	int try_count;
	box_local_probe_done *tried;
	void *tried_arg;
} boxd;

static inline void boxd_make(
	void *owner, const struct box_plan_request *ask, box_local_make_done *done, void *arg)
{
	ASSERT(owner == &boxd && boxd.make_count < ASKED_MAX);
	boxd.makes[boxd.make_count++] = (struct asked_make){*ask, done, arg};
}

static inline void boxd_end(void *owner, uint64_t box)
{
	ASSERT(owner == &boxd && boxd.end_count < ASKED_MAX);
	boxd.ends[boxd.end_count++] = box;
}

static inline void boxd_mount(void *owner, uint64_t box, const struct box_mount *wanted,
	box_local_mount_done *done, void *arg)
{
	ASSERT(owner == &boxd && boxd.mount_count < ASKED_MAX);
	struct asked_mount *mount = &boxd.mounts[boxd.mount_count++];
	bool read_only = wanted->mode == BOX_MOUNT_RO;
	*mount = (struct asked_mount){.box = box, .read_only = read_only, .done = done, .arg = arg};
	(void)snprintf(mount->path, sizeof(mount->path), "%s", wanted->host_path);
}

static inline void boxd_open_cgroup(void *owner, uint64_t box, uint32_t process,
	uint32_t memory_mib, box_local_process_cgroup_done *done, void *arg)
{
	ASSERT(owner == &boxd && boxd.cgroup_count < ASKED_MAX);
	boxd.cgroups[boxd.cgroup_count++] = (struct asked_cgroup){
		box, process, memory_mib, done, arg};
}

static inline void boxd_close_cgroup(void *owner, uint64_t box, uint32_t process)
{
	ASSERT(owner == &boxd && boxd.closed_count < ASKED_MAX);
	boxd.closed[boxd.closed_count++] = (struct asked_cgroup){.box = box, .process = process};
}

static inline void boxd_probe_microvm(void *owner, box_local_probe_done *done, void *arg)
{
	ASSERT(owner == &boxd);
	boxd.tried = done;
	boxd.tried_arg = arg;
	boxd.try_count++;
}

static const struct box_local_boxd boxd_ops = {
	.make = boxd_make,
	.end = boxd_end,
	.mount = boxd_mount,
	.open_cgroup = boxd_open_cgroup,
	.close_cgroup = boxd_close_cgroup,
	.probe_microvm = boxd_probe_microvm,
};

static inline int open_fds(void)
{
	int count = 0;
	DIR *folder = opendir("/proc/self/fd");
	ASSERT(folder != NULL);
	while (readdir(folder)) {
		count++;
	}
	(void)closedir(folder);
	return count;
}

static inline void turn(void)
{
	for (int i = 0; i < TURNS; i++) {
		(void)uv_run(&loop, UV_RUN_NOWAIT);
	}
}

static inline void start(void)
{
	static const struct box_local_support support = {.possible = true, .limits = true};
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	/* The first loop of a process opens fds that stay open. */
	ASSERT_INT(uv_loop_init(&loop), 0);
	ASSERT_INT(uv_loop_close(&loop), 0);
	fds_before = open_fds();
	ASSERT_INT(uv_loop_init(&loop), 0);
	local = box_local_new(&loop, &support, &boxd_ops, &boxd);
	backend = box_local_native_backend(local);
}

/* The same with microVMs, whose commands have no pipes of box-rpc's. */
static inline void start_microvms(void)
{
	start();
	backend = box_local_microvm_backend(local);
}

/* Checks that every box was destroyed and freed. */
static inline void finish(void)
{
	turn();
	ASSERT_INT(uv_loop_close(&loop), 0);
	box_local_free(local);
	ASSERT_INT(open_fds(), fds_before);
}

/* --- boxes --- */

/* One box: the backend's handle, and the end of its socket on which the test plays box-init. */
struct played {
	struct box_backend_box *box;
	int init; /* the test's end of the socket; -1: box-init has ended */
	int memory;
	int made;
	bool refused;
	struct box_err err;
	int lost;
	char why[128];
	int destroyed;
};

static inline void on_made(void *arg, struct box_backend_box *box, const struct box_err *err)
{
	struct played *played = arg;
	ASSERT((box != NULL) == (err == NULL));
	played->made++;
	played->box = box;
	played->refused = err != NULL;
	if (err) {
		played->err = *err;
	}
}

static inline void on_lost(void *arg, const char *why)
{
	struct played *played = arg;
	played->lost++;
	(void)snprintf(played->why, sizeof(played->why), "%s", why);
}

static inline void on_destroyed(void *arg)
{
	struct played *played = arg;
	played->destroyed++;
}

static inline int memory_file(const char *text)
{
	int fd = memfd_create("memory", MFD_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, text, strlen(text)), strlen(text));
	return fd;
}

/* A second fd of the same file. */
static inline int another(int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	ASSERT(copy >= 0);
	return copy;
}

static inline void say_kills(struct played *played, const char *text)
{
	ASSERT_INT(ftruncate(played->memory, 0), 0);
	ASSERT_INT(pwrite(played->memory, text, strlen(text), 0), strlen(text));
}

/* A new control socket; returns box-rpc's end. */
static inline int new_control(struct played *played)
{
	int ends[2];
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	played->init = ends[1];
	return ends[0];
}

static inline struct box_spec spec_of(const char *cmd)
{
	return (struct box_spec){
		.session_id = "s",
		.cmd = box_str(cmd),
		.workdir = "/workspace",
		.timeout_sec = 30,
		.image = "image",
		.host_path_mode = BOX_MOUNT_RW,
		.mount_path = "/workspace",
		.cpus = 1.0,
		.memory_mb = 512,
		.pids_limit = 128,
		.read_only_rootfs = true,
	};
}

/* boxd completes the latest request for a box. */
static inline void boxd_made(struct played *played, uint64_t number)
{
	struct asked_make *make = &boxd.makes[boxd.make_count - 1];
	int control = new_control(played);
	played->memory = memory_file("oom_kill 0\n");
	make->done(make->arg, number, control, another(played->memory), 0, NULL);
}

static inline void make_played(struct played *played, uint64_t number)
{
	struct box_spec spec = spec_of("");
	ASSERT(backend->ops->make(backend, "b", &spec, on_made, played) != NULL);
	boxd_made(played, number);
	ASSERT_INT(played->made, 1);
	ASSERT(played->box != NULL);
	backend->ops->watch(played->box, on_lost, played);
}

static inline void init_ends(struct played *played)
{
	ASSERT_INT(close(played->init), 0);
	played->init = -1;
	turn();
}

static inline void played_close(struct played *played)
{
	if (played->init >= 0) {
		ASSERT_INT(close(played->init), 0);
	}
	ASSERT_INT(close(played->memory), 0);
}

/* Destroys the box as a session would. */
static inline void end_played(struct played *played, uint64_t number)
{
	backend->ops->destroy(played->box, on_destroyed, played);
	box_local_gone(local, number);
	ASSERT_INT(played->destroyed, 0);
	turn();
	ASSERT_INT(played->destroyed, 1);
	played_close(played);
}

/* --- what init says and hears --- */

struct heard {
	struct box_init_header header;
	char bytes[BOX_INIT_PACKET_MAX];
	size_t size; /* of bytes */
	int fd;      /* -1: none */
};

/* False when there is no packet. Each must be well-formed. */
static inline bool hear(struct played *played, struct heard *heard)
{
	static _Alignas(8) char packet[BOX_INIT_PACKET_MAX];
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
	struct iovec part = {packet, sizeof(packet)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control)};
	ssize_t got = recvmsg(played->init, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0 && errno == EAGAIN) {
		return false;
	}
	ASSERT(got >= (ssize_t)sizeof(heard->header));
	memcpy(&heard->header, packet, sizeof(heard->header));
	/* A number goes in place of an fd: the bridge replaces it. */
	memset(packet + offsetof(struct box_init_header, reserved), 0, sizeof(uint32_t));
	ASSERT_INT(box_init_check_request(packet, (size_t)got), 0);
	heard->size = (size_t)got - sizeof(heard->header);
	memcpy(heard->bytes, packet + sizeof(heard->header), heard->size);
	heard->fd = -1;
	struct cmsghdr *beside = CMSG_FIRSTHDR(&message);
	if (beside) {
		ASSERT_INT(beside->cmsg_type, SCM_RIGHTS);
		memcpy(&heard->fd, CMSG_DATA(beside), sizeof(int));
	}
	return true;
}

static inline void expect_silence(struct played *played)
{
	struct heard heard;
	turn();
	if (hear(played, &heard)) {
		TEST_FAIL("kind %u of command %u was sent", heard.header.kind, heard.header.id);
	}
}

/* The next packet is of this kind and for this command. */
static inline void expect(
	struct played *played, uint32_t kind, uint32_t id, struct heard *ret_heard)
{
	if (!hear(played, ret_heard)) {
		turn();
		ASSERT(hear(played, ret_heard));
	}
	ASSERT_INT(ret_heard->header.kind, kind);
	ASSERT_INT(ret_heard->header.id, id);
}

/* The same, with these bytes. */
static inline void expect_packet(
	struct played *played, uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	struct heard heard;
	expect(played, kind, id, &heard);
	ASSERT_BYTES(heard.bytes, heard.size, bytes, size);
	ASSERT_INT(heard.fd, -1);
}

static inline void say_raw(struct played *played, const void *packet, size_t size)
{
	ASSERT_INT(send(played->init, packet, size, MSG_NOSIGNAL), size);
	turn();
}

static inline void say(
	struct played *played, uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	static _Alignas(8) char packet[2 * BOX_INIT_PACKET_MAX];
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size), .kind = kind, .id = id};
	memcpy(packet, &header, sizeof(header));
	if (size > 0) {
		memcpy(packet + sizeof(header), bytes, size);
	}
	say_raw(played, packet, header.size);
}

static inline void say_text(struct played *played, uint32_t kind, uint32_t id, const char *text)
{
	say(played, kind, id, text, strlen(text));
}

static inline void say_taken(struct played *played, uint32_t id, uint64_t bytes)
{
	say(played, BOX_INIT_INPUT_TAKEN, id, &bytes, sizeof(bytes));
}

static inline void say_exit(struct played *played, uint32_t id, uint32_t end, int32_t value)
{
	const struct box_init_exit said = {.end = end, .value = value};
	say(played, BOX_INIT_EXIT, id, &said, sizeof(said));
}

/* --- commands --- */

#define RAN_BYTES 4096

struct ran {
	struct box_backend_op *op;
	int calls;
	bool failed;
	struct box_err err;
	struct box_backend_exec_outcome outcome;
	char out[RAN_BYTES];
	char errors[RAN_BYTES];
	int started; /* of a live command */
	char live[RAN_BYTES];
};

static inline void copy_output(char to[RAN_BYTES], struct box_str bytes)
{
	ASSERT(bytes.len < RAN_BYTES);
	if (bytes.len > 0) {
		memcpy(to, bytes.bytes, bytes.len);
	}
	to[bytes.len] = '\0';
}

static inline void on_ran(
	void *arg, const struct box_backend_exec_outcome *outcome, const struct box_err *err)
{
	struct ran *ran = arg;
	ASSERT((outcome != NULL) == (err == NULL));
	ASSERT(ran->op != NULL); /* not from inside the call */
	ran->calls++;
	if (err) {
		ran->failed = true;
		ran->err = *err;
		return;
	}
	ran->outcome = *outcome;
	copy_output(ran->out, outcome->out);
	copy_output(ran->errors, outcome->err);
}

static inline void begin(
	struct played *played, const struct box_spec *spec, int64_t limit, struct ran *ran)
{
	ran->op = backend->ops->exec(played->box, spec, limit, NULL, on_ran, ran);
	ASSERT(ran->op != NULL);
	ASSERT_INT(ran->calls, 0);
}

/* A plain command whose RUN has arrived at box-init. */
static inline void begin_plain(
	struct played *played, const struct box_spec *spec, uint32_t id, struct ran *ran)
{
	struct heard heard;
	begin(played, spec, 1000, ran);
	expect(played, BOX_INIT_RUN, id, &heard);
}

static inline void expect_failed(
	const struct ran *ran, enum box_code code, int errnum, const char *text)
{
	ASSERT_INT(ran->calls, 1);
	ASSERT(ran->failed);
	ASSERT_STR(ran->err.text, text);
	ASSERT_INT(ran->err.code, code);
	ASSERT_INT(ran->err.errnum, errnum);
}

static inline void expect_ended(
	const struct ran *ran, enum box_backend_end_reason reason, int exit_code, int number)
{
	ASSERT_INT(ran->calls, 1);
	ASSERT(!ran->failed);
	ASSERT_INT(ran->outcome.reason, reason);
	ASSERT_INT(ran->outcome.exit_code, exit_code);
	ASSERT_INT(ran->outcome.signal, number);
}
