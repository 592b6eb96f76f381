/* Mounts of managed processes: boxd opens them one after the other before the box hears of the process,
 * which sees them for as long as it lives. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "protocol/init_process.h"
#include "runtime/backend/local_internal.h"

struct box_local_process_volumes {
	struct box_arena *arena;
	struct box_mount *wanted; /* copies: whoever asked need not wait */
	size_t count;
	size_t next;
	int *fds; /* opened so far */
};

/* A question to boxd; its box stays until it is answered. */
struct opening {
	struct box_backend_box *box;
	uint32_t number;
};

void box_local_process_free_volumes(struct box_local_process_volumes *volumes)
{
	if (!volumes) {
		return;
	}
	for (size_t i = 0; i < volumes->next; i++) {
		box_close_p(&volumes->fds[i]);
	}
	box_arena_free(volumes->arena);
}

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

static void open_next(struct opening *opening, struct box_local_process *kept);

static void opened(void *arg, int mount, const struct box_err *err)
{
	struct opening *opening = arg;
	struct box_backend_box *box = opening->box;
	struct box_local_process *kept = box_local_process_find(box, opening->number);
	struct box_err own;
	if (!err && box_local_refuse_mount(mount, &own)) {
		err = &own;
	}
	if (kept && !err && !box->deaf) {
		kept->volumes->fds[kept->volumes->next++] = mount;
		open_next(opening, kept);
		return;
	}
	/* Dropped meanwhile, or not to be had. */
	box_close_p(&mount);
	free(opening);
	if (kept && err) {
		box_local_process_resource_ready(box, kept, err);
	}
	box_local_run_ended(box);
}

static void open_next(struct opening *opening, struct box_local_process *kept)
{
	struct box_backend_box *box = opening->box;
	struct box_local_process_volumes *volumes = kept->volumes;
	if (volumes->next < volumes->count) {
		box->native->keeper->mount(box->native->keeper_arg, box->number,
			&volumes->wanted[volumes->next], opened, opening);
		return;
	}
	free(opening);
	box_local_process_resource_ready(box, kept, NULL);
	box_local_run_ended(box);
}

void box_local_process_open_volumes(struct box_backend_box *box, struct box_local_process *kept,
	const struct box_mount *mounts, size_t count)
{
	struct opening *opening = box_alloc(sizeof(*opening));
	*opening = (struct opening){.box = box, .number = kept->number};
	kept->volumes = copy(mounts, count);
	kept->waits++;
	box->run_count++;
	open_next(opening, kept);
}

void box_local_process_send_volumes(struct box_backend_box *box, struct box_local_process *kept)
{
	struct box_local_process_volumes *volumes = kept->volumes;
	for (size_t i = 0; volumes && i < volumes->count; i++) {
		const char *target = volumes->wanted[i].mount_path;
		box_local_control_send(box, BOX_INIT_MOUNT,
			kept->number | BOX_INIT_MOUNT_OF_PROCESS, target, strlen(target) + 1, NULL,
			0, TAKE_FD(volumes->fds[i]));
	}
	box_local_process_free_volumes(volumes);
	kept->volumes = NULL;
}
