/* What is asked of boxd: folders, measures, the store of the skills, boxes and their mounts and groups.
 * Each question is a packet with an id; boxd_client.c sends it and tells what came of it. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "protocol/boxd_client_private.h"
#include "runtime/storage.h"

void box_boxd_client_prepare_folder(struct box_boxd_client *link, const char *path,
	enum box_runtime_folder_mode wish, box_runtime_folder_done *done, void *arg)
{
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	struct box_boxd_make_folder packet = {.kind = BOX_BOXD_MAKE_FOLDER,
		.id = asked->id,
		.look_only = wish == BOX_RUNTIME_FOLDER_CHECK};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->folder = done;
	box_boxd_client_request_sent(link, asked,
		strlen(path) < sizeof(packet.path)
			? box_boxd_client_post(link, &packet, sizeof(packet), NULL)
			: -ENAMETOOLONG);
}

_Static_assert(BOX_STORAGE_FOLDER_PARTS_ == BOX_BOXD_PARTS &&
		(int)BOX_STORAGE_OUTBOX == (int)BOX_BOXD_FOLDER_OUTBOX &&
		(int)BOX_STORAGE_TEMP == (int)BOX_BOXD_BOX_TEMP,
	"the parts are the same here and in the packet");

static int send_measure(
	struct box_boxd_client *link, const struct box_storage_measure *what, uint32_t id)
{
	if (what->box != 0) {
		const struct box_boxd_measure_box packet = {
			.kind = BOX_BOXD_MEASURE_BOX, .id = id, .box = what->box};
		return box_boxd_client_post(link, &packet, sizeof(packet), NULL);
	}
	struct box_boxd_measure_folder packet = {.kind = BOX_BOXD_MEASURE_FOLDER, .id = id};
	if (strlen(what->path) >= sizeof(packet.path) ||
		strlen(what->below) >= sizeof(packet.below)) {
		return -ENAMETOOLONG;
	}
	(void)snprintf(packet.path, sizeof(packet.path), "%s", what->path);
	(void)snprintf(packet.below, sizeof(packet.below), "%s", what->below);
	(void)snprintf(packet.tenant, sizeof(packet.tenant), "%s", what->tenant);
	return box_boxd_client_post(link, &packet, sizeof(packet), NULL);
}

void box_boxd_client_measure(struct box_boxd_client *link, const struct box_storage_measure *what,
	box_storage_measure_done *done, void *arg)
{
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	asked->measured = done;
	box_boxd_client_request_sent(link, asked, send_measure(link, what, asked->id));
}

void box_boxd_client_start_skills(struct box_boxd_client *link, const char *path,
	box_boxd_client_skills_started *done, void *arg)
{
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	struct box_boxd_open_store packet = {.kind = BOX_BOXD_OPEN_STORE, .id = asked->id};
	(void)snprintf(packet.path, sizeof(packet.path), "%s", path);
	asked->stored = done;
	box_boxd_client_request_sent(
		link, asked, box_boxd_client_post(link, &packet, sizeof(packet), NULL));
}

/* --- boxes --- */

static void make_box(
	void *keeper, const struct box_plan_request *ask, box_local_make_done *done, void *arg)
{
	struct box_boxd_client *link = keeper;
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	struct box_boxd_make_box packet = {.kind = BOX_BOXD_MAKE_BOX, .id = asked->id, .ask = *ask};
	asked->made = done;
	box_boxd_client_request_sent(
		link, asked, box_boxd_client_post(link, &packet, sizeof(packet), NULL));
}

/* What cannot be sent ends with us. */
static void tell(struct box_boxd_client *link, const void *packet, size_t size)
{
	int r = box_boxd_client_post(link, packet, size, NULL);
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, "keeper.unreachable", box_log_errno("why", r));
	}
}

static void end_box(void *keeper, uint64_t box)
{
	const struct box_boxd_box packet = {.kind = BOX_BOXD_END_BOX, .box = box};
	tell(keeper, &packet, sizeof(packet));
}

static void open_cgroup(void *keeper, uint64_t box, uint32_t process, uint32_t mebibytes,
	box_local_process_cgroup_done *done, void *arg)
{
	struct box_boxd_client *link = keeper;
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	const struct box_boxd_open_process_cgroup packet = {.kind = BOX_BOXD_OPEN_PROCESS_CGROUP,
		.id = asked->id,
		.box = box,
		.process = process,
		.mebibytes = mebibytes};
	asked->grouped = done;
	box_boxd_client_request_sent(
		link, asked, box_boxd_client_post(link, &packet, sizeof(packet), NULL));
}

static void close_cgroup(void *keeper, uint64_t box, uint32_t process)
{
	const struct box_boxd_close_process_cgroup packet = {
		.kind = BOX_BOXD_CLOSE_PROCESS_CGROUP, .process = process, .box = box};
	tell(keeper, &packet, sizeof(packet));
}

static void probe_microvm(void *keeper, box_local_probe_done *done, void *arg)
{
	struct box_boxd_client *link = keeper;
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	const struct box_boxd_probe_microvms packet = {
		.kind = BOX_BOXD_PROBE_MICROVMS, .id = asked->id};
	asked->tried = done;
	box_boxd_client_request_sent(
		link, asked, box_boxd_client_post(link, &packet, sizeof(packet), NULL));
}

static int post_artifact(
	struct box_boxd_client *link, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_boxd_open_artifact packet = {
		.kind = BOX_BOXD_OPEN_ARTIFACT, .id = id, .box = box};
	const char *digest = strchr(wanted->content_digest, ':') + 1;
	(void)snprintf(packet.digest, sizeof(packet.digest), "%s", digest);
	(void)snprintf(packet.namespace, sizeof(packet.namespace), "%s", wanted->namespace);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	(void)snprintf(packet.manifest, sizeof(packet.manifest), "%s", wanted->manifest_path);
	return box_boxd_client_post(link, &packet, sizeof(packet), NULL);
}

static int post_mount(
	struct box_boxd_client *link, uint32_t id, uint64_t box, const struct box_mount *wanted)
{
	struct box_boxd_open_mount packet = {
		.kind = BOX_BOXD_OPEN_MOUNT,
		.id = id,
		.box = box,
		.read_only = wanted->mode == BOX_MOUNT_RO,
		.in_store = wanted->in_store,
	};
	(void)snprintf(packet.namespace, sizeof(packet.namespace), "%s", wanted->namespace);
	(void)snprintf(packet.path, sizeof(packet.path), "%s", wanted->host_path);
	return box_boxd_client_post(link, &packet, sizeof(packet), NULL);
}

static void open_mount(void *keeper, uint64_t box, const struct box_mount *wanted,
	box_local_mount_done *done, void *arg)
{
	struct box_boxd_client *link = keeper;
	struct box_boxd_client_request *asked = box_boxd_client_request_new(link, arg);
	asked->mounted = done;
	box_boxd_client_request_sent(link, asked,
		box_spec_mount_is_artifact(wanted) ? post_artifact(link, asked->id, box, wanted)
						   : post_mount(link, asked->id, box, wanted));
}

const struct box_local_boxd box_boxd_client_local_ops = {
	.make = make_box,
	.end = end_box,
	.mount = open_mount,
	.open_cgroup = open_cgroup,
	.close_cgroup = close_cgroup,
	.probe_microvm = probe_microvm,
};
