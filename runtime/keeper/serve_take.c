/* What box-rpc asks for, packet by packet: folders, boxes, mounts, groups, skills, measures. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/keeper/artifacts.h"
#include "runtime/keeper/boxes.h"
#include "runtime/keeper/folders.h"
#include "runtime/keeper/machines.h"
#include "runtime/keeper/measure.h"
#include "runtime/keeper/quotas.h"
#include "runtime/keeper/serve_state.h"
#include "runtime/keeper/source.h"
#include "runtime/keeper/store.h"

static bool has_end(const char *text, size_t size)
{
	return memchr(text, '\0', size) != NULL;
}

const char *box_take_make_folder(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_make_folder *wanted = &packet->make_folder;
	if (!has_end(wanted->path, sizeof(wanted->path))) {
		return "a path without an end";
	}
	int r = box_folder_make(wanted->path, wanted->look_only != 0, serve->ground->mount_roots);
	struct box_keeper_folder answer = {
		.kind = BOX_KEEPER_FOLDER,
		.id = wanted->id,
		/* To box-rpc one that is not allowed in itself is one like the other. */
		.result = r == BOX_MOUNT_OWN || r == BOX_MOUNT_STORE ? -EPERM : r,
	};
	BOX_LOG(BOX_LOG_DEBUG, "folder", box_kv_str("path", wanted->path),
		box_kv_int("result", answer.result));
	return box_serve_answered(box_serve_send(serve, &answer, sizeof(answer), NULL, 0));
}

const char *box_take_make_box(struct box_serve *serve, struct box_packet *packet)
{
	if (!serve->ready || packet->make_box.id == 0) {
		return "a MAKE_BOX before READY or without an id";
	}
	/* The rest is judged when its turn comes: queues go by this. */
	if (!has_end(packet->make_box.ask.tenant, sizeof(packet->make_box.ask.tenant))) {
		return "a tenant without an end";
	}
	serve->ever_asked = true;
	box_quotas_ask(serve->quotas, packet->make_box.id, &packet->make_box.ask);
	return NULL;
}

const char *box_take_end_box(struct box_serve *serve, struct box_packet *packet)
{
	box_boxes_end(serve->boxes, packet->box.box);
	return NULL;
}

const char *box_take_open_mount(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_open_mount *wanted = &packet->open_mount;
	struct box_keeper_mounted answer = {.kind = BOX_KEEPER_MOUNTED, .id = wanted->id};
	struct box_err err;
	_cleanup_(box_close_p) int mount = -1;
	if (!has_end(wanted->path, sizeof(wanted->path)) ||
		!has_end(wanted->namespace, sizeof(wanted->namespace))) {
		return "a path without an end";
	}
	_cleanup_(box_close_p) int source = -1;
	const struct box_source_ask ask = {.path = wanted->path,
		.what = "extra_mounts.host_path",
		.files = true,
		.writable = !wanted->read_only,
		.asker = {.namespace = wanted->namespace}};
	int r = wanted->in_store
		? box_store_keeper_package(serve->store, wanted->path, &source, &err)
		: box_source_open(&ask, serve->ground->mount_roots, &source, &err);
	r = r < 0 ? r
		  : box_boxes_mount(serve->boxes, wanted->box, source,
			    wanted->in_store || wanted->read_only, &mount, &err);
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	return box_serve_answered(
		box_serve_send(serve, &answer, sizeof(answer), &mount, r < 0 ? 0 : 1));
}

static bool is_digest(const char digest[BOX_DIGEST_HEX_SIZE])
{
	return strnlen(digest, BOX_DIGEST_HEX_SIZE) == BOX_DIGEST_HEX_SIZE - 1 &&
		strspn(digest, "0123456789abcdef") == BOX_DIGEST_HEX_SIZE - 1;
}

const char *box_take_open_artifact(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_open_artifact *wanted = &packet->open_artifact;
	if (!is_digest(wanted->digest) || !has_end(wanted->path, sizeof(wanted->path)) ||
		!has_end(wanted->namespace, sizeof(wanted->namespace)) ||
		!has_end(wanted->manifest, sizeof(wanted->manifest))) {
		return "a malformed OPEN_ARTIFACT";
	}
	const char *tenant = box_boxes_tenant(serve->boxes, wanted->box);
	if (!tenant) {
		struct box_err err;
		(void)box_err_set(&err, BOX_ERR_BOX, ENOENT, "the box has ended");
		box_take_artifact_done(serve, wanted->id, -1, &err);
		return NULL;
	}
	box_artifacts_open(serve->artifacts, tenant, wanted);
	return NULL;
}

void box_take_artifact_done(void *arg, uint32_t id, int mount, const struct box_err *err)
{
	struct box_serve *serve = arg;
	struct box_keeper_mounted answer = {.kind = BOX_KEEPER_MOUNTED, .id = id};
	box_serve_fill_failure(&answer.failure, err);
	box_serve_tell(serve, &answer, sizeof(answer), &mount, mount < 0 ? 0 : 1);
	box_close_p(&mount);
	box_serve_tell_memory(serve);
}

const char *box_take_open_store(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_open_store *wanted = &packet->open_store;
	struct box_keeper_stored answer = {.kind = BOX_KEEPER_STORED, .id = wanted->id};
	_cleanup_(box_close_p) int socket = -1;
	struct box_err err;
	if (!has_end(wanted->path, sizeof(wanted->path))) {
		return "a path without an end";
	}
	serve->ever_asked = true;
	int r = box_store_keeper_open(
		serve->store, wanted->path, serve->ground->mount_roots, &socket, &err);
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	if (r == 0) {
		box_store_keeper_path(serve->store, answer.path, sizeof(answer.path));
	}
	return box_serve_answered(
		box_serve_send(serve, &answer, sizeof(answer), &socket, r < 0 ? 0 : 1));
}

const char *box_take_open_group(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_open_group *wanted = &packet->open_group;
	struct box_keeper_grouped answer = {.kind = BOX_KEEPER_GROUPED, .id = wanted->id};
	struct box_group_fds opened = {-1, -1, -1};
	struct box_err err;
	if (wanted->process == 0 || wanted->mebibytes == 0) {
		return "a group of nobody or of nothing";
	}
	if (box_boxes_is_machine(serve->boxes, wanted->box)) {
		/* No door: its own kernel holds the limit, and box-init is told the number. */
		return box_serve_answered(box_serve_send(serve, &answer, sizeof(answer), NULL, 0));
	}
	struct box_groups *groups = box_boxes_groups(serve->boxes, wanted->box, &err);
	int r = groups ? box_groups_open(groups, wanted->process,
				 wanted->mebibytes * (uint64_t)BOX_MIB, &opened, &err)
		       : -1;
	const int fds[] = {opened.door, opened.events, opened.rest};
	box_serve_fill_failure(&answer.failure, r < 0 ? &err : NULL);
	const char *wrong = box_serve_answered(
		box_serve_send(serve, &answer, sizeof(answer), fds, box_serve_count_fds(fds, 3)));
	box_close_p(&opened.door);
	box_close_p(&opened.events);
	return wrong;
}

const char *box_take_close_group(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_close_group *wanted = &packet->close_group;
	struct box_err ignored;
	struct box_groups *groups = box_boxes_is_machine(serve->boxes, wanted->box)
		? NULL
		: box_boxes_groups(serve->boxes, wanted->box, &ignored);
	if (groups) {
		box_groups_close(groups, wanted->process);
	}
	return NULL;
}

const char *box_take_measure_folder(struct box_serve *serve, struct box_packet *packet)
{
	const struct box_keeper_measure_folder *wanted = &packet->measure_folder;
	if (!has_end(wanted->path, sizeof(wanted->path)) ||
		!has_end(wanted->below, sizeof(wanted->below)) ||
		!has_end(wanted->tenant, sizeof(wanted->tenant))) {
		return "a path without an end";
	}
	box_measures_folder(
		serve->measures, wanted->id, wanted->tenant, wanted->path, wanted->below);
	return NULL;
}

const char *box_take_measure_box(struct box_serve *serve, struct box_packet *packet)
{
	box_measures_box(serve->measures, packet->measure_box.id, packet->measure_box.box);
	return NULL;
}

const char *box_take_try_machines(struct box_serve *serve, struct box_packet *packet)
{
	if (packet->try_machines.id == 0) {
		return "a TRY_MACHINES without an id";
	}
	box_machines_ask(serve->machines, packet->try_machines.id, NULL);
	return NULL;
}
