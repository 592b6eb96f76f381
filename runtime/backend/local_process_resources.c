/* Gets from boxd what a managed process needs before it can be started: a cgroup for its memory limit, and its
 * mounts. Packets about the process wait here, in order, until everything is there. If one thing fails, the process
 * is not started.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_process.h"

/* Waiting packets about a process: there are few, and only input is large, which has a limit of its own. */
struct packet {
	struct box_list links;
	uint32_t kind;
	size_t size;
	char bytes[];
};

struct box_local_process_volumes {
	struct box_arena *arena;
	struct box_mount *wanted; /* copies: the caller's need not outlive the call */
	size_t count;
	size_t next;
	int *fds; /* opened so far */
};

/* A request to boxd; it keeps the box until it is answered. */
struct request {
	struct box_backend_box *box;
	uint32_t number;
};

/* Takes NULL. */
static void volumes_free(struct box_local_process_volumes *volumes)
{
	if (!volumes) {
		return;
	}
	for (size_t i = 0; i < volumes->next; i++) {
		box_close_p(&volumes->fds[i]);
	}
	box_arena_free(volumes->arena);
}

static struct packet *pop_packet(struct box_local_process *process)
{
	struct box_list *item = box_list_pop(&process->packets);
	return item ? BOX_CONTAINER_OF(item, struct packet, links) : NULL;
}

static void drop_packets(struct box_local_process *process)
{
	struct packet *packet;
	while ((packet = pop_packet(process))) {
		free(packet);
	}
}

void box_local_process_free(struct box_local_process *process)
{
	if (process) {
		drop_packets(process);
		box_close_p(&process->oom_fd);
		box_close_p(&process->procs_fd);
		volumes_free(process->volumes);
		free(process);
	}
}

void box_local_process_close_cgroup(struct box_backend_box *box, struct box_local_process *process)
{
	if (process->limited) {
		process->limited = false;
		box_close_p(&process->oom_fd);
		box->local->boxd->close_cgroup(box->local->boxd_arg, box->number, process->number);
	}
}

/* --- packets --- */

void box_local_process_send(struct box_backend_box *box, struct box_local_process *process,
	uint32_t kind, const void *first, size_t first_size, struct box_str rest)
{
	if (process->pending == 0) {
		box_local_control_send(
			box, kind, process->number, first, first_size, rest.bytes, rest.len, -1);
		return;
	}
	struct packet *packet = box_alloc(sizeof(*packet) + first_size + rest.len);
	packet->kind = kind;
	packet->size = first_size + rest.len;
	if (first_size > 0) {
		memcpy(packet->bytes, first, first_size);
	}
	if (rest.len > 0) {
		memcpy(packet->bytes + first_size, rest.bytes, rest.len);
	}
	box_list_push(&process->packets, &packet->links);
}

/* Inserts it before the packet that starts the process. */
static void send_volumes(struct box_backend_box *box, struct box_local_process *process)
{
	struct box_local_process_volumes *volumes = process->volumes;
	for (size_t i = 0; volumes && i < volumes->count; i++) {
		const char *target = volumes->wanted[i].mount_path;
		box_local_control_send(box, BOX_INIT_MOUNT,
			process->number | BOX_INIT_MOUNT_OF_PROCESS, target, strlen(target) + 1,
			NULL, 0, TAKE_FD(volumes->fds[i]));
	}
	volumes_free(volumes);
	process->volumes = NULL;
}

/* The fd of cgroup.procs is sent with the packet that starts the process, and not needed afterwards. Without a
 * cgroup (in a microVM), the limit is sent as a number. */
static void send_packets(struct box_backend_box *box, struct box_local_process *process)
{
	int procs_fd = TAKE_FD(process->procs_fd);
	struct packet *packet;
	while ((packet = pop_packet(process))) {
		bool first = packet->kind == BOX_INIT_START_PROCESS_IN;
		if (first || packet->kind == BOX_INIT_START_PROCESS) {
			send_volumes(box, process);
		}
		if (first && procs_fd < 0) {
			box_local_control_send_number(box, packet->kind, process->number,
				packet->bytes, packet->size, process->memory_mib);
		} else {
			box_local_control_send(box, packet->kind, process->number, packet->bytes,
				packet->size, NULL, 0, first ? TAKE_FD(procs_fd) : -1);
		}
		free(packet);
	}
	box_close_p(&procs_fd);
}

static bool starts(const struct box_local_process *process)
{
	if (box_list_empty(&process->packets)) {
		return false;
	}
	uint32_t kind = BOX_CONTAINER_OF(process->packets.next, struct packet, links)->kind;
	return kind == BOX_INIT_START_PROCESS_IN || kind == BOX_INIT_START_PROCESS;
}

/* Frees everything it has now, because it may stay listed for long. */
static void report_failed(struct box_backend_box *box, struct box_local_process *process)
{
	char why[512];
	(void)snprintf(why, sizeof(why), "%.500s", process->failure.text);
	const struct box_backend_process_state failed = {
		.known = true,
		.exit_code = 127,
		.failure = why,
		.out_ended = true,
	};
	process->state_known = true;
	process->ended = true;
	drop_packets(process);
	volumes_free(TAKE_PTR(process->volumes));
	box_close_p(&process->procs_fd);
	box_local_process_close_cgroup(box, process);
	process->events->state(process->arg, &failed);
}

static void resource_ready(
	struct box_backend_box *box, struct box_local_process *process, const struct box_err *err)
{
	process->pending--;
	if (err && !process->failed) {
		process->failed = true;
		process->failure = *err;
	}
	if (process->pending > 0) {
		return;
	}
	if (process->failed && starts(process)) {
		report_failed(box, process);
		return;
	}
	/* The state of an adopted process is queried nevertheless. */
	send_packets(box, process);
}

/* --- cgroups --- */

static void take_cgroup(struct box_backend_box *box, uint32_t number,
	const struct box_local_process_cgroup *cgroup, const struct box_err *err)
{
	struct box_local_process *process = box_local_process_find(box, number);
	int procs_fd = cgroup->procs_fd;
	int oom_fd = cgroup->oom_fd;
	if (!process) {
		/* It was forgotten meanwhile, and its cgroup closed. */
		box_close_p(&procs_fd);
		box_close_p(&oom_fd);
		return;
	}
	struct box_err why;
	if (err) {
		(void)box_err_set(&why, err->code, err->errnum,
			"its memory limit cannot be set: %.400s", err->text);
	}
	/* Those of a process with the same number that was forgotten, if any. */
	box_close_p(&process->oom_fd);
	box_close_p(&process->procs_fd);
	process->oom_fd = oom_fd;
	process->procs_fd = procs_fd;
	resource_ready(box, process, err ? &why : NULL);
}

static void cgroup_opened(
	void *arg, const struct box_local_process_cgroup *cgroup, const struct box_err *err)
{
	struct request request = *(struct request *)arg;
	struct box_backend_box *box = request.box;
	int oom_rest_fd = cgroup->oom_rest_fd;
	free(arg);
	if (box->oom_rest_fd < 0) {
		box->oom_rest_fd = TAKE_FD(oom_rest_fd);
	}
	box_close_p(&oom_rest_fd);
	take_cgroup(box, request.number, cgroup, err);
	box_local_release(box);
}

void box_local_process_open_cgroup(
	struct box_backend_box *box, struct box_local_process *process, int64_t memory_mb)
{
	const struct box_local *local = box->local;
	struct request *request = box_alloc(sizeof(*request));
	*request = (struct request){.box = box, .number = process->number};
	process->limited = true;
	process->pending++;
	process->memory_mib = memory_mb < UINT32_MAX ? (uint32_t)memory_mb : UINT32_MAX;
	box_local_hold(box);
	local->boxd->open_cgroup(local->boxd_arg, box->number, process->number, process->memory_mib,
		cgroup_opened, request);
}

/* --- mounts --- */

static struct box_local_process_volumes *copy(const struct box_mount *mounts, size_t count)
{
	struct box_arena *arena = box_arena_new();
	struct box_local_process_volumes *volumes = box_arena_alloc(arena, sizeof(*volumes));
	volumes->arena = arena;
	volumes->count = count;
	volumes->wanted = box_arena_alloc(arena, count * sizeof(*volumes->wanted));
	volumes->fds = box_arena_alloc(arena, count * sizeof(*volumes->fds));
	for (size_t i = 0; i < count; i++) {
		volumes->wanted[i] = mounts[i];
		volumes->wanted[i].content_digest = volumes->wanted[i].manifest_path = NULL;
		volumes->wanted[i].host_path = box_arena_strndup(
			arena, mounts[i].host_path, strlen(mounts[i].host_path));
		volumes->wanted[i].mount_path = box_arena_strndup(
			arena, mounts[i].mount_path, strlen(mounts[i].mount_path));
	}
	return volumes;
}

static void open_next_mount(struct request *request, struct box_local_process *process);

static void mount_opened(void *arg, int mount, const struct box_err *err)
{
	struct request *request = arg;
	struct box_backend_box *box = request->box;
	struct box_local_process *process = box_local_process_find(box, request->number);
	struct box_err own;
	if (!err && box_local_refuse_mount(mount, &own)) {
		err = &own;
	}
	if (process && !err && !box->closed) {
		process->volumes->fds[process->volumes->next++] = mount;
		open_next_mount(request, process);
		return;
	}
	/* The process was forgotten meanwhile, or the mount failed. */
	box_close_p(&mount);
	free(request);
	if (process && err) {
		resource_ready(box, process, err);
	}
	box_local_release(box);
}

static void open_next_mount(struct request *request, struct box_local_process *process)
{
	struct box_backend_box *box = request->box;
	struct box_local_process_volumes *volumes = process->volumes;
	if (volumes->next < volumes->count) {
		box->local->boxd->mount(box->local->boxd_arg, box->number,
			&volumes->wanted[volumes->next], mount_opened, request);
		return;
	}
	free(request);
	resource_ready(box, process, NULL);
	box_local_release(box);
}

void box_local_process_open_volumes(struct box_backend_box *box, struct box_local_process *process,
	const struct box_mount *mounts, size_t count)
{
	struct request *request = box_alloc(sizeof(*request));
	*request = (struct request){.box = box, .number = process->number};
	process->volumes = copy(mounts, count);
	process->pending++;
	box_local_hold(box);
	open_next_mount(request, process);
}
