/* How a native box is made: what boxd is asked for it, and what comes of that. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "runtime/backend/local_internal.h"

struct make {
	struct box_backend_op op;
	struct box_local *native;
	enum box_plan_kind kind;
	bool cancelled;
	uv_timer_t refusal;
	struct box_err err;
	box_backend_make_done *done;
	void *arg;
};

/* --- what boxd is asked --- */

/* A path as boxd wants it: absolute, without dots and doubled or trailing slashes. */
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

static uint64_t mebibytes(int64_t count)
{
	return (uint64_t)count < UINT64_MAX / BOX_MIB ? (uint64_t)count * BOX_MIB : UINT64_MAX;
}

static uint64_t thousandths(double cpus)
{
	const double most = 1e15;
	double milli = ceil(cpus * 1000);
	return milli < most ? (uint64_t)milli : (uint64_t)most;
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
	/* boxd takes the stricter of this and the operator's. */
	ask->profile = BOX_FILTER_DEFAULT;
	ask->memory_bytes = mebibytes(spec->memory_mb);
	ask->pids = (uint64_t)spec->pids_limit;
	ask->cpu_milli = thousandths(spec->cpus);
	ask->quota_bytes = mebibytes(spec->workspace_quota_mb);
	if (spec->egress) {
		ask->egress = *spec->egress;
	}
	int r = copy_path(ask->mount_path, spec->mount_path, "mount_path", err);
	/* What is no path is a name, and stays as it is. */
	if (r == 0 && spec->image && spec->image[0] == '/') {
		r = copy_path(ask->image, spec->image, "image", err);
	}
	return r < 0 || !folder ? r : copy_path(ask->host_path, spec->host_path, "host_path", err);
}

/* --- what comes of it --- */

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

/* A box that was made for nobody is gone. */
static void abandoned(void *arg)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, ECANCELED, "the box was not wanted any more");
	finish_make(arg, NULL, &err);
}

static void made(void *arg, uint64_t number, int control, int memory, uint32_t host_address,
	const struct box_err *err)
{
	struct make *make = arg;
	struct box_local *native = make->native;
	struct box_err deaf;
	struct box_backend_box *box = err ? NULL : box_local_add(native, number, control, memory);
	if (box) {
		box->host_address = host_address;
		box->is_machine = make->kind == BOX_PLAN_KIND_MICROVM;
	}
	if (make->kind == BOX_PLAN_KIND_MICROVM) {
		box_local_microvm_probed(native, err);
	}
	if (!err && !box) {
		(void)box_err_set(&deaf, BOX_ERR_BOX, EMFILE, "the box cannot be listened to");
		err = &deaf;
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
	made(make, 0, -1, -1, 0, &make->err);
}

struct box_backend_op *box_local_make(struct box_backend *backend, const char *physical_id,
	const struct box_spec *spec, box_backend_make_done *done, void *arg)
{
	const struct box_local_kind *wanted = box_local_kind_of(backend);
	struct box_local *native = wanted->native;
	struct make *make = box_alloc(sizeof(*make));
	struct box_plan_request ask;
	make->op.is_make = true;
	make->native = native;
	make->kind = wanted->kind;
	make->done = done;
	make->arg = arg;
	(void)uv_timer_init(native->loop, &make->refusal);
	make->refusal.data = make;
	if (fill_ask(physical_id, spec, &ask, &make->err) < 0) {
		(void)uv_timer_start(&make->refusal, refusal_cb, 0, 0);
	} else {
		ask.kind = (uint32_t)make->kind;
		native->keeper->make(native->keeper_arg, &ask, made, make);
	}
	return &make->op;
}

void box_local_cancel_make(struct box_backend_op *op)
{
	/* The answer comes all the same, and with it what must be ended. */
	struct make *make = (struct make *)(void *)op;
	make->cancelled = true;
}
