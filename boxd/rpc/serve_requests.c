/* What box-rpc asks for, packet by packet: folders, boxes, mounts, groups, skills, measures. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "boxd/box/boxes.h"
#include "boxd/files/artifacts.h"
#include "boxd/files/host_folder.h"
#include "boxd/files/host_mount.h"
#include "boxd/files/measures.h"
#include "boxd/files/skill_folder.h"
#include "boxd/microvm/microvm_probe.h"
#include "boxd/quota/quota_queue.h"
#include "boxd/rpc/serve_state.h"

static bool has_end(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

const char *box_serve_make_folder(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_make_folder *wanted = &packet->make_folder;
	if (!has_end(wanted->path, sizeof(wanted->path))) {
		return "a path without an end";
	}
	int r = box_host_folder_make(
		wanted->path, wanted->look_only != 0, serve->ground->mount_roots);
	struct box_boxd_folder answer = {
		.kind = BOX_BOXD_FOLDER,
		.id = wanted->id,
		/* To box-rpc one that is not allowed in itself is one like the other. */
		.result = r == BOX_MOUNT_ROOTS_DENIED_OWN || r == BOX_MOUNT_ROOTS_DENIED_STORE
			? -EPERM
			: r,
	};
	BOX_LOG(BOX_LOG_DEBUG, "folder", box_log_str("path", wanted->path),
		box_log_int("result", answer.result));
	return box_serve_check_sent(box_serve_send(serve, &answer, sizeof(answer), NULL, 0));
}

const char *box_serve_make_box(struct box_serve *serve, struct box_packet *packet)
{
	if (!serve->ready || packet->make_box.id == 0) {
		return "a MAKE_BOX before READY or without an id";
	}
	/* The rest is judged when its turn comes: queues go by this. */
	if (!has_end(packet->make_box.ask.tenant, sizeof(packet->make_box.ask.tenant))) {
		return "a tenant without an end";
	}
	serve->ever_asked = true;
	box_quota_queue_request(serve->quotas, packet->make_box.id, &packet->make_box.ask);
	return NULL;
}

const char *box_serve_end_box(struct box_serve *serve, struct box_packet *packet)
{
	box_boxes_end(serve->boxes, packet->box.box);
	return NULL;
}

const char *box_serve_open_mount(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_mount *wanted = &packet->open_mount;
	struct box_boxd_mounted answer = {.kind = BOX_BOXD_MOUNTED, .id = wanted->id};
	struct box_err err;
	_cleanup_(box_close_p) int mount = -1;
	if (!has_end(wanted->path, sizeof(wanted->path)) ||
		!has_end(wanted->namespace, sizeof(wanted->namespace))) {
		return "a path without an end";
	}
	_cleanup_(box_close_p) int source = -1;
	const struct box_host_mount_request ask = {.path = wanted->path,
		.what = "extra_mounts.host_path",
		.files = true,
		.writable = !wanted->read_only,
		.asker = {.namespace = wanted->namespace}};
	int r = wanted->in_store
		? box_skill_folder_open_package(serve->store, wanted->path, &source, &err)
		: box_host_mount_open(&ask, serve->ground->mount_roots, &source, &err);
	r = r < 0 ? r
		  : box_boxes_mount(serve->boxes, wanted->box, source,
			    wanted->in_store || wanted->read_only, &mount, &err);
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	return box_serve_check_sent(
		box_serve_send(serve, &answer, sizeof(answer), &mount, r < 0 ? 0 : 1));
}

static bool is_digest(const char digest[BOX_DIGEST_HEX_SIZE])
{
	return strnlen(digest, BOX_DIGEST_HEX_SIZE) == BOX_DIGEST_HEX_SIZE - 1 &&
		strspn(digest, "0123456789abcdef") == BOX_DIGEST_HEX_SIZE - 1;
}

const char *box_serve_open_artifact(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_artifact *wanted = &packet->open_artifact;
	if (!is_digest(wanted->digest) || !has_end(wanted->path, sizeof(wanted->path)) ||
		!has_end(wanted->namespace, sizeof(wanted->namespace)) ||
		!has_end(wanted->manifest, sizeof(wanted->manifest))) {
		return "a malformed OPEN_ARTIFACT";
	}
	const char *tenant = box_boxes_tenant(serve->boxes, wanted->box);
	if (!tenant) {
		struct box_err err;
		(void)box_err_set(&err, BOX_ERR_BOX, ENOENT, "the box has ended");
		box_serve_artifact_done(serve, wanted->id, -1, &err);
		return NULL;
	}
	box_artifacts_open(serve->artifacts, tenant, wanted);
	return NULL;
}

void box_serve_artifact_done(void *arg, uint32_t id, int mount, const struct box_err *err)
{
	struct box_serve *serve = arg;
	struct box_boxd_mounted answer = {.kind = BOX_BOXD_MOUNTED, .id = id};
	box_serve_fill_failure(&answer.failure, err);
	box_serve_notify(serve, &answer, sizeof(answer), &mount, mount < 0 ? 0 : 1);
	box_close_p(&mount);
	box_serve_notify_artifact_bytes(serve);
}

const char *box_serve_open_store(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_store *wanted = &packet->open_store;
	struct box_boxd_store answer = {.kind = BOX_BOXD_STORE, .id = wanted->id};
	_cleanup_(box_close_p) int socket = -1;
	struct box_err err;
	if (!has_end(wanted->path, sizeof(wanted->path))) {
		return "a path without an end";
	}
	serve->ever_asked = true;
	int r = box_skill_folder_open(
		serve->store, wanted->path, serve->ground->mount_roots, &socket, &err);
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	if (r == 0) {
		box_skill_folder_path(serve->store, answer.path, sizeof(answer.path));
	}
	return box_serve_check_sent(
		box_serve_send(serve, &answer, sizeof(answer), &socket, r < 0 ? 0 : 1));
}

const char *box_serve_open_process_cgroup(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_open_process_cgroup *wanted = &packet->open_group;
	struct box_boxd_process_cgroup answer = {.kind = BOX_BOXD_PROCESS_CGROUP, .id = wanted->id};
	struct box_process_cgroups_fds opened = {-1, -1, -1};
	struct box_err err;
	if (wanted->process == 0 || wanted->mebibytes == 0) {
		return "a group of nobody or of nothing";
	}
	if (box_boxes_is_microvm(serve->boxes, wanted->box)) {
		/* No door: its own kernel holds the limit, and box-init is told the number. */
		return box_serve_check_sent(
			box_serve_send(serve, &answer, sizeof(answer), NULL, 0));
	}
	struct box_process_cgroups *groups = box_boxes_process_cgroups(
		serve->boxes, wanted->box, &err);
	int r = groups ? box_process_cgroups_open(groups, wanted->process,
				 wanted->mebibytes * (uint64_t)BOX_MIB, &opened, &err)
		       : -1;
	const int fds[] = {opened.door, opened.events, opened.rest};
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	const char *wrong = box_serve_check_sent(
		box_serve_send(serve, &answer, sizeof(answer), fds, box_serve_count_fds(fds, 3)));
	box_close_p(&opened.door);
	box_close_p(&opened.events);
	return wrong;
}

const char *box_serve_close_process_cgroup(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_close_process_cgroup *wanted = &packet->close_group;
	struct box_err ignored;
	struct box_process_cgroups *groups = box_boxes_is_microvm(serve->boxes, wanted->box)
		? NULL
		: box_boxes_process_cgroups(serve->boxes, wanted->box, &ignored);
	if (groups) {
		box_process_cgroups_close(groups, wanted->process);
	}
	return NULL;
}

const char *box_serve_measure_folder(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_boxd_measure_folder *wanted = &packet->measure_folder;
	if (!has_end(wanted->path, sizeof(wanted->path)) ||
		!has_end(wanted->below, sizeof(wanted->below)) ||
		!has_end(wanted->tenant, sizeof(wanted->tenant))) {
		return "a path without an end";
	}
	box_measures_folder(
		serve->measures, wanted->id, wanted->tenant, wanted->path, wanted->below);
	return NULL;
}

const char *box_serve_measure_box(struct box_serve *serve, struct box_packet *packet)
{
	box_measures_box(serve->measures, packet->measure_box.id, packet->measure_box.box);
	return NULL;
}

const char *box_serve_try_microvms(struct box_serve *serve, struct box_packet *packet)
{
	if (packet->try_machines.id == 0) {
		return "a TRY_MACHINES without an id";
	}
	box_microvm_probe_request(serve->machines, packet->try_machines.id, NULL);
	return NULL;
}
