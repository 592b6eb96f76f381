/* What is asked of boxd: folders, measures, the store of the skills, boxes and their mounts and groups.
 * Each question is a packet with an id; link.c sends it and tells what came of it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/storage.h"
#include "worker/link_state.h"

void box_link_folder(struct box_link *link, const char *path, enum box_folder_wish wish,
	box_folder_done *done, void *arg)
{
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	struct box_keeper_make_folder packet = {.kind = BOX_KEEPER_MAKE_FOLDER,
		.id = asked->id,
		.look_only = wish == BOX_FOLDER_LOOK};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->folder = done;
	box_link_asked_sent(link, asked,
		strlen(path) < sizeof(packet.path)
			? box_link_post(link, &packet, sizeof(packet), NULL)
			: -ENAMETOOLONG);
}

_Static_assert(BOX_MEASURED_FOLDER_PARTS_ == BOX_KEEPER_PARTS &&
		(int)BOX_MEASURED_OUTBOX == (int)BOX_FOLDER_OUTBOX &&
		(int)BOX_MEASURED_TEMP == (int)BOX_BOX_TEMP,
	"the parts are the same here and in the packet");

static int send_measure(struct box_link *link, const struct box_measure *what, uint32_t id)
{
	if (what->box != 0) {
		const struct box_keeper_measure_box packet = {
			.kind = BOX_KEEPER_MEASURE_BOX, .id = id, .box = what->box};
		return box_link_post(link, &packet, sizeof(packet), NULL);
	}
	struct box_keeper_measure_folder packet = {.kind = BOX_KEEPER_MEASURE_FOLDER, .id = id};
	if (strlen(what->path) >= sizeof(packet.path) ||
		strlen(what->below) >= sizeof(packet.below)) {
		return -ENAMETOOLONG;
	}
	(void)snprintf(packet.path, sizeof(packet.path), "%s", what->path);
	(void)snprintf(packet.below, sizeof(packet.below), "%s", what->below);
	(void)snprintf(packet.tenant, sizeof(packet.tenant), "%s", what->tenant);
	return box_link_post(link, &packet, sizeof(packet), NULL);
}

void box_link_measure(
	struct box_link *link, const struct box_measure *what, box_measured_done *done, void *arg)
{
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	asked->measured = done;
	box_link_asked_sent(link, asked, send_measure(link, what, asked->id));
}

void box_link_store(struct box_link *link, const char *path, box_link_stored *done, void *arg)
{
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	struct box_keeper_open_store packet = {.kind = BOX_KEEPER_OPEN_STORE, .id = asked->id};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->stored = done;
	box_link_asked_sent(link, asked, box_link_post(link, &packet, sizeof(packet), NULL));
}

/* --- boxes --- */

static void make_box(void *keeper, const struct box_ask *ask, box_native_made *done, void *arg)
{
	struct box_link *link = keeper;
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	struct box_keeper_make_box packet = {
		.kind = BOX_KEEPER_MAKE_BOX, .id = asked->id, .ask = *ask};
	asked->made = done;
	box_link_asked_sent(link, asked, box_link_post(link, &packet, sizeof(packet), NULL));
}

/* What cannot be sent ends with us. */
static void tell(struct box_link *link, const void *packet, size_t size)
{
	int r = box_link_post(link, packet, size, NULL);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "keeper.unreachable", box_kv_errno("why", r));
	}
}

static void end_box(void *keeper, uint64_t box)
{
	const struct box_keeper_box packet = {.kind = BOX_KEEPER_END_BOX, .box = box};
	tell(keeper, &packet, sizeof(packet));
}

static void open_group(void *keeper, uint64_t box, uint32_t process, uint32_t mebibytes,
	box_native_grouped *done, void *arg)
{
	struct box_link *link = keeper;
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	const struct box_keeper_open_group packet = {.kind = BOX_KEEPER_OPEN_GROUP,
		.id = asked->id,
		.box = box,
		.process = process,
		.mebibytes = mebibytes};
	asked->grouped = done;
	box_link_asked_sent(link, asked, box_link_post(link, &packet, sizeof(packet), NULL));
}

static void close_group(void *keeper, uint64_t box, uint32_t process)
{
	const struct box_keeper_close_group packet = {
		.kind = BOX_KEEPER_CLOSE_GROUP, .process = process, .box = box};
	tell(keeper, &packet, sizeof(packet));
}

static void try_machines(void *keeper, box_native_tried *done, void *arg)
{
	struct box_link *link = keeper;
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	const struct box_keeper_try packet = {.kind = BOX_KEEPER_TRY_MACHINES, .id = asked->id};
	asked->tried = done;
	box_link_asked_sent(link, asked, box_link_post(link, &packet, sizeof(packet), NULL));
}

static int post_artifact(
	struct box_link *link, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_keeper_open_artifact packet = {
		.kind = BOX_KEEPER_OPEN_ARTIFACT, .id = id, .box = box};
	const char *digest = strchr(wanted->content_digest, ':') + 1;
	(void)snprintf(packet.digest, sizeof(packet.digest), "%s", digest);
	(void)snprintf(packet.namespace, sizeof(packet.namespace), "%s", wanted->namespace);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	(void)snprintf(packet.manifest, sizeof(packet.manifest), "%s", wanted->manifest_path);
	return box_link_post(link, &packet, sizeof(packet), NULL);
}

static int post_mount(
	struct box_link *link, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_keeper_open_mount packet = {
		.kind = BOX_KEEPER_OPEN_MOUNT,
		.id = id,
		.box = box,
		.read_only = wanted->mode == BOX_MOUNT_RO,
		.in_store = wanted->in_store,
	};
	(void)snprintf(packet.namespace, sizeof(packet.namespace), "%s", wanted->namespace);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	return box_link_post(link, &packet, sizeof(packet), NULL);
}

static void open_mount(void *keeper, uint64_t box, const struct box_mount *wanted,
	box_native_mounted *done, void *arg)
{
	struct box_link *link = keeper;
	struct box_link_asked *asked = box_link_asked_new(link, arg);
	asked->mounted = done;
	box_link_asked_sent(link, asked,
		box_mount_is_artifact(wanted) ? post_artifact(link, asked->id, box, wanted)
					      : post_mount(link, asked->id, box, wanted));
}

const struct box_native_keeper box_link_keeper = {
	.make = make_box,
	.end = end_box,
	.mount = open_mount,
	.open_group = open_group,
	.close_group = close_group,
	.try_machines = try_machines,
};
