/* The local backends: boxes on this host, native ones and microVMs, made by boxd and served by their box-init.
 *
 * Owns the object that both backends share: what boxes can have on this host, whether microVMs are possible, and
 * the table of operations. boxd tests once whether a microVM can run, and again with every microVM that it makes
 * or refuses, because a missing part may be there by then.
 */
#include "runtime/backend/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/arena.h"
#include "runtime/backend/local_box.h"
#include "runtime/backend/local_exec.h"
#include "runtime/backend/local_file.h"
#include "runtime/backend/local_process.h"
#include "runtime/backend/local_run.h"
#include "runtime/backend/local_stdio.h"

bool box_local_fd_is_beyond(int fd, unsigned quarters)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd > limit.rlim_cur / 4 * quarters;
}

bool box_local_refuse_mount(int mount, struct box_err *err)
{
	if (!box_local_fd_is_beyond(mount, BOX_LOCAL_MOUNT_QUARTERS)) {
		return false;
	}
	(void)box_err_set(err, BOX_ERR_CAPACITY, EMFILE,
		"too many files are open for mounts of other commands; try again later");
	return true;
}

/* --- microVMs --- */

void box_local_microvm_probed(struct box_local *local, const struct box_err *err)
{
	if (!err) {
		local->microvm_state = BOX_LOCAL_MICROVM_WORKS;
	} else if (err->code == BOX_ERR_BACKEND_UNAVAILABLE) {
		local->microvm_state = BOX_LOCAL_MICROVM_MISSING;
		(void)snprintf(local->microvm_missing, sizeof(local->microvm_missing), "%.*s",
			(int)sizeof(local->microvm_missing) - 1, err->text);
	}
}

static void probed(void *arg, const struct box_err *err)
{
	struct box_local *local = arg;
	if (local->microvm_state == BOX_LOCAL_MICROVM_PROBING) {
		local->microvm_state = BOX_LOCAL_MICROVM_UNPROBED;
	}
	box_local_microvm_probed(local, err);
}

void box_local_probe_microvm(struct box_local *local)
{
	if (local->microvm_state == BOX_LOCAL_MICROVM_UNPROBED) {
		local->microvm_state = BOX_LOCAL_MICROVM_PROBING;
		local->boxd->probe_microvm(local->boxd_arg, probed, local);
	}
}

static void probed_again(void *arg, const struct box_err *err)
{
	struct box_local *local = arg;
	local->microvm_probing_again = false;
	box_local_microvm_probed(local, err);
}

void box_local_probe_microvm_again(struct box_local *local)
{
	bool known = local->microvm_state == BOX_LOCAL_MICROVM_WORKS ||
		local->microvm_state == BOX_LOCAL_MICROVM_MISSING;
	if (known && !local->microvm_probing_again) {
		local->microvm_probing_again = true;
		local->boxd->probe_microvm(local->boxd_arg, probed_again, local);
	}
}

/* --- the backends --- */

/* Why no boxes of this kind can be made; NULL: they can. */
static const char *missing(struct box_backend *backend)
{
	const struct box_local_backend *kind = box_local_backend_of(backend);
	const char *why = box_local_missing(kind->local);
	if (why || kind->kind != BOX_PLAN_KIND_MICROVM) {
		return why;
	}
	switch (kind->local->microvm_state) {
	case BOX_LOCAL_MICROVM_WORKS:
		return NULL;
	case BOX_LOCAL_MICROVM_MISSING:
		return kind->local->microvm_missing;
	default:
		return "it is not known yet whether microVMs can run here";
	}
}

static bool available(struct box_backend *backend)
{
	return missing(backend) == NULL;
}

static void cancel(struct box_backend_op *op)
{
	if (op->is_make) {
		box_local_cancel_make(op);
	} else {
		box_local_run_cancel(op);
	}
}

static void watch(struct box_backend_box *box, box_backend_lost *lost, void *arg)
{
	box->lost = lost;
	box->lost_arg = arg;
}

static uint64_t mark(const struct box_backend_box *box)
{
	return box->number;
}

static uint32_t host_address_of(const struct box_backend_box *box)
{
	return box->host_address;
}

static void backend_free(struct box_backend *backend)
{
	(void)backend;
}

static const struct box_backend_ops ops = {
	.name = "native",
	.available = available,
	.missing = missing,
	.make = box_local_make,
	.exec = box_local_exec,
	.credit = box_local_run_credit,
	.input = box_local_stdio_input,
	.forget_input = box_local_stdio_forget_input,
	.signal = box_local_run_signal,
	.resize = box_local_exec_resize,
	.file = box_local_file,
	.processes = &box_local_process_ops,
	.watch = watch,
	.mark = mark,
	.host_address = host_address_of,
	.adopt = box_local_adopt,
	.cancel = cancel,
	.destroy = box_local_destroy,
	.free = backend_free,
};

struct box_local *box_local_new(struct uv_loop_s *loop, const struct box_local_support *support,
	const struct box_local_boxd *boxd, void *boxd_arg)
{
	struct box_local *local = box_alloc(sizeof(*local));
	local->native = (struct box_local_backend){{&ops}, local, BOX_PLAN_KIND_NATIVE};
	local->microvm = (struct box_local_backend){{&ops}, local, BOX_PLAN_KIND_MICROVM};
	local->loop = loop;
	local->boxd = boxd;
	local->boxd_arg = boxd_arg;
	box_local_set_support(local, support);
	return local;
}

void box_local_set_support(struct box_local *local, const struct box_local_support *support)
{
	local->support = *support;
	(void)snprintf(local->unlimited, sizeof(local->unlimited),
		"limits cannot be set: %s; local.degraded: true in --config lets boxes run without",
		support->limits_missing);
}

void box_local_free(struct box_local *local)
{
	if (local) {
		box_table_free(&local->by_number);
		free(local);
	}
}

struct box_backend *box_local_native_backend(struct box_local *local)
{
	return &local->native.base;
}

struct box_backend *box_local_microvm_backend(struct box_local *local)
{
	return &local->microvm.base;
}

void box_local_allow_degraded(struct box_local *local, bool allowed)
{
	local->degraded = allowed;
}

const char *box_local_quota_missing(const struct box_local *local)
{
	return local->support.possible && !local->support.quota && !local->degraded
		? local->support.quota_missing
		: NULL;
}

const char *box_local_image_missing(const struct box_local *local)
{
	const char *missing = local->support.images_missing;
	return local->support.possible && missing && missing[0] ? missing : NULL;
}

const char *box_local_missing(const struct box_local *local)
{
	if (!local->support.possible) {
		return local->support.missing;
	}
	return local->support.limits || local->degraded ? NULL : local->unlimited;
}

const char *box_local_degraded_reason(const struct box_local *local)
{
	return local->support.possible && !local->support.limits && local->degraded
		? local->support.limits_missing
		: NULL;
}

const char *box_local_unheld_quota_reason(const struct box_local *local)
{
	return local->support.possible && !local->support.quota && local->degraded
		? local->support.quota_missing
		: NULL;
}

const struct box_bounds_facts *box_local_held(const struct box_local *local)
{
	return &local->support.held;
}
