/* The life of a box in box-rpc: the request to boxd, adoption from the previous box-rpc, loss, and the
 * end. */
#include "runtime/backend/local_box.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "protocol/init.h"
#include "protocol/oom.h"
#include "runtime/backend/local_control.h"
#include "runtime/backend/local_process.h"
#include "runtime/backend/local_run.h"

static struct box_str key_of(const uint64_t *number)
{
	return (struct box_str){(const char *)number, sizeof(*number)};
}

uint64_t box_local_read_oom_kills(int fd)
{
	char text[1024];
	ssize_t got = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);
	return got > 0 ? box_oom_parse_kills(text, (size_t)got) : 0;
}

uint64_t box_local_oom_kills(const struct box_backend_box *box)
{
	return box_local_read_oom_kills(box->oom_fd) + box_local_read_oom_kills(box->oom_rest_fd);
}

struct box_backend_box *box_local_find(const struct box_local *local, uint64_t number)
{
	return box_table_get(&local->by_number, key_of(&number));
}

/* A box that boxd has made, with its fds. NULL if its socket cannot be read: then the box is ended. */
static struct box_backend_box *box_new(
	struct box_local *local, uint64_t number, int control, int oom_fd)
{
	struct box_backend_box *box = box_alloc(sizeof(*box));
	box->local = local;
	box->number = number;
	box->control = control;
	box->oom_fd = oom_fd;
	box->oom_rest_fd = -1;
	box_list_init(&box->runs);
	box_packet_queue_init(&box->queue, SIZE_MAX, BOX_INIT_QUEUE_BYTES_MAX);
	if (box_local_control_listen(box) < 0) {
		local->boxd->end(local->boxd_arg, number);
		(void)close(control);
		box_close_p(&oom_fd);
		free(box);
		return NULL;
	}
	(void)uv_timer_init(local->loop, &box->later);
	box->later.data = box;
	box_table_put(&local->by_number, key_of(&box->number), box);
	return box;
}

/* --- the end --- */

static void later_closed(uv_handle_t *handle)
{
	struct box_backend_box *box = handle->data;
	box_table_free(&box->runs_by_id);
	box_local_process_forget_all(box);
	free(box);
}

static void poll_closed(uv_handle_t *handle)
{
	struct box_backend_box *box = handle->data;
	(void)close(box->control);
	uv_close((uv_handle_t *)&box->later, later_closed);
}

static void report_destroyed_cb(uv_timer_t *timer)
{
	struct box_backend_box *box = timer->data;
	box_backend_destroy_done *done = box->destroyed;
	void *arg = box->destroyed_arg;
	box_packet_queue_clear(&box->queue);
	box_close_p(&box->oom_fd);
	box_close_p(&box->oom_rest_fd);
	uv_close((uv_handle_t *)&box->poll, poll_closed);
	if (done) {
		done(arg);
	}
}

static void free_if_unused(struct box_backend_box *box)
{
	if (box->gone && box->destroying && box->references == 0 &&
		!uv_is_active((const uv_handle_t *)&box->later)) {
		box_table_remove(&box->local->by_number, key_of(&box->number));
		(void)uv_timer_start(&box->later, report_destroyed_cb, 0, 0);
	}
}

void box_local_hold(struct box_backend_box *box)
{
	box->references++;
}

void box_local_release(struct box_backend_box *box)
{
	box->references--;
	free_if_unused(box);
}

void box_local_lost(struct box_backend_box *box, const char *why)
{
	struct box_err err;
	if (box->closed) {
		return;
	}
	box->closed = true;
	(void)uv_poll_stop(&box->poll);
	box_packet_queue_clear(&box->queue);
	if (!box->destroying) {
		BOX_LOG(BOX_LOG_WARNING, "box.lost", box_log_int("box", (int64_t)box->number),
			box_log_str("why", why));
	}
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the box ended while the command ran: %s", why);
	box_local_hold(box); /* keeps it from being freed below */
	box_local_run_fail_all(box, &err);
	if (box->lost && !box->destroying) {
		box->lost(box->lost_arg, why);
	}
	box_local_release(box);
}

void box_local_ending(struct box_local *local, uint64_t number, const char *why)
{
	struct box_backend_box *box = box_local_find(local, number);
	if (box) {
		box_local_lost(box, why);
	}
}

void box_local_gone(struct box_local *local, uint64_t number)
{
	struct box_backend_box *box = box_local_find(local, number);
	if (!box) {
		return;
	}
	box_local_hold(box);
	box->gone = true;
	/* This may arrive before the last packets of the box were read. */
	box_local_control_read(box);
	box_local_lost(box, "its first process has ended");
	box->destroying = box->destroying || box->inherited;
	box_local_release(box);
}

void box_local_destroy(struct box_backend_box *box, box_backend_destroy_done *done, void *arg)
{
	box->destroying = true;
	box->destroyed = done;
	box->destroyed_arg = arg;
	if (!box->gone) {
		box->local->boxd->end(box->local->boxd_arg, box->number);
	}
	free_if_unused(box);
}

/* --- boxes of the previous box-rpc --- */

struct box_backend_box *box_local_adopt(struct box_backend *backend, uint64_t number)
{
	const struct box_local_backend *kind = box_local_backend_of(backend);
	struct box_backend_box *box = box_local_find(kind->local, number);
	if (!box || !box->inherited || box->closed) {
		return NULL;
	}
	box->inherited = false;
	box->is_microvm = kind->kind == BOX_PLAN_KIND_MICROVM;
	return box;
}

void box_local_inherited(struct box_local *local, uint64_t number, int control, int oom_fd,
	int oom_rest_fd, uint32_t host_address)
{
	struct box_backend_box *box = box_new(local, number, control, oom_fd);
	if (!box) {
		box_close_p(&oom_rest_fd);
		return;
	}
	box->oom_rest_fd = oom_rest_fd;
	box->host_address = host_address;
	box->inherited = true;
	box->resetting = true;
	box->oom_kills = box_local_oom_kills(box);
	box_local_control_send(box, BOX_INIT_RESET, 0, NULL, 0, NULL, 0, -1);
}

void box_local_end_inherited(struct box_local *local)
{
	uint64_t position = 0;
	struct box_backend_box *box;
	while ((box = box_table_next(&local->by_number, &position, NULL))) {
		if (box->inherited && !box->destroying) {
			BOX_LOG(BOX_LOG_INFO, "box.unknown",
				box_log_int("box", (int64_t)box->number));
			box_local_destroy(box, NULL, NULL);
		}
	}
}

/* --- making --- */

struct make {
	struct box_backend_op op;
	struct box_local *local;
	enum box_plan_kind kind;
	bool cancelled;
	uv_timer_t refusal;
	struct box_err err;
	box_backend_make_done *done;
	void *arg;
};

/* Copies a path as boxd expects it: absolute, without `.` and `..`, without doubled or trailing slashes. */
static int copy_path(char to[BOX_PATH_MAX], const char *path, const char *what, struct box_err *err)
{
	size_t len = 0;
	for (const char *at = path; *at;) {
		at += strspn(at, "/");
		size_t part = strcspn(at, "/");
		if (part == 2 && at[0] == '.' && at[1] == '.') {
			while (len > 0 && to[--len] != '/') {
			}
		} else if (part > 0 && !(part == 1 && at[0] == '.')) {
			if (len + part + 2 > BOX_PATH_MAX) {
				return box_err_set(err, BOX_ERR_VALIDATION, ENAMETOOLONG,
					"%s is too long", what);
			}
			to[len++] = '/';
			memcpy(to + len, at, part);
			len += part;
		}
		at += part;
	}
	if (len == 0) {
		to[len++] = '/';
	}
	to[len] = '\0';
	return 0;
}

static uint64_t mib_to_bytes(int64_t count)
{
	return (uint64_t)count < UINT64_MAX / BOX_MIB ? (uint64_t)count * BOX_MIB : UINT64_MAX;
}

static uint64_t to_milli(double cpus)
{
	const double max = 1e15;
	double milli = ceil(cpus * 1000);
	return milli < max ? (uint64_t)milli : (uint64_t)max;
}

static int fill_ask(const char *physical_id, const struct box_spec *spec,
	struct box_plan_request *ask, struct box_err *err)
{
	static const uint32_t modes[] = {
		[BOX_MOUNT_NONE] = BOX_PLAN_MOUNT_NONE,
		[BOX_MOUNT_RO] = BOX_PLAN_MOUNT_RO,
		[BOX_MOUNT_RW] = BOX_PLAN_MOUNT_RW,
	};
	bool folder = spec->host_path && spec->host_path_mode != BOX_MOUNT_NONE;
	memset(ask, 0, sizeof(*ask));
	(void)snprintf(ask->name, sizeof(ask->name), "%s", physical_id);
	/* Every physical id begins with the namespace of its workspace, which has a fixed length. */
	memcpy(ask->tenant, physical_id, strnlen(physical_id, sizeof(ask->tenant) - 1));
	ask->host_mode = folder ? modes[spec->host_path_mode] : BOX_PLAN_MOUNT_NONE;
	(void)snprintf(ask->image, sizeof(ask->image), "%s", spec->image ? spec->image : "");
	ask->network = spec->network_on;
	ask->writable_root = !spec->read_only_rootfs;
	/* boxd applies the stricter of this and the operator's. */
	ask->profile = BOX_FILTER_DEFAULT;
	ask->memory_bytes = mib_to_bytes(spec->memory_mb);
	ask->pids = (uint64_t)spec->pids_limit;
	ask->cpu_milli = to_milli(spec->cpus);
	ask->quota_bytes = mib_to_bytes(spec->workspace_quota_mb);
	if (spec->egress) {
		ask->egress = *spec->egress;
	}
	int r = copy_path(ask->mount_path, spec->mount_path, "mount_path", err);
	if (r < 0) {
		return r;
	}
	/* An image that is not a path is a name, and stays as it is. */
	if (spec->image && spec->image[0] == '/') {
		r = copy_path(ask->image, spec->image, "image", err);
		if (r < 0) {
			return r;
		}
	}
	return folder ? copy_path(ask->host_path, spec->host_path, "host_path", err) : 0;
}

static void make_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void finish_make(struct make *make, struct box_backend_box *box, const struct box_err *err)
{
	box_backend_make_done *done = make->done;
	void *arg = make->arg;
	uv_close((uv_handle_t *)&make->refusal, make_closed);
	done(arg, box, err);
}

/* The box was made after its request was cancelled, and is gone again. */
static void abandoned(void *arg)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, ECANCELED, "the request for the box was cancelled");
	finish_make(arg, NULL, &err);
}

static void made(void *arg, uint64_t number, int control, int oom_fd, uint32_t host_address,
	const struct box_err *err)
{
	struct make *make = arg;
	struct box_local *local = make->local;
	struct box_err own;
	struct box_backend_box *box = err ? NULL : box_new(local, number, control, oom_fd);
	if (box) {
		box->host_address = host_address;
		box->is_microvm = make->kind == BOX_PLAN_KIND_MICROVM;
	}
	if (make->kind == BOX_PLAN_KIND_MICROVM) {
		box_local_microvm_probed(local, err);
	}
	if (!err && !box) {
		(void)box_err_set(&own, BOX_ERR_BOX, EMFILE, "the socket of the box is unusable");
		err = &own;
	}
	if (make->cancelled && box) {
		box_local_destroy(box, abandoned, make);
		return;
	}
	finish_make(make, box, err);
}

static void refusal_cb(uv_timer_t *timer)
{
	struct make *make = timer->data;
	finish_make(make, NULL, &make->err);
}

struct box_backend_op *box_local_make(struct box_backend *backend, const char *physical_id,
	const struct box_spec *spec, box_backend_make_done *done, void *arg)
{
	const struct box_local_backend *chosen = box_local_backend_of(backend);
	struct box_local *local = chosen->local;
	struct make *make = box_alloc(sizeof(*make));
	struct box_plan_request ask;
	make->op.is_make = true;
	make->local = local;
	make->kind = chosen->kind;
	make->done = done;
	make->arg = arg;
	(void)uv_timer_init(local->loop, &make->refusal);
	make->refusal.data = make;
	if (fill_ask(physical_id, spec, &ask, &make->err) < 0) {
		(void)uv_timer_start(&make->refusal, refusal_cb, 0, 0);
	} else {
		ask.kind = (uint32_t)make->kind;
		local->boxd->make(local->boxd_arg, &ask, made, make);
	}
	return &make->op;
}

void box_local_cancel_make(struct box_backend_op *op)
{
	/* The answer arrives nevertheless, and a box that it brings is ended then. */
	struct make *make = (struct make *)(void *)op;
	make->cancelled = true;
}
