/* Native boxes, as box-rpc sees them: which there are, their end, those of a predecessor, and what
 * they offer as a backend.
 *
 * A box is freed when boxd has said that it is gone, its destruction was asked for, and its last
 * command has been told. */
#include "runtime/backend/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "protocol/oom.h"
#include "runtime/backend/local_internal.h"

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

static struct box_str key_of(const uint64_t *number)
{
	return (struct box_str){(const char *)number, sizeof(*number)};
}

uint64_t box_local_read_oom_kills(int events)
{
	char text[1024];
	ssize_t got = events < 0 ? -1 : pread(events, text, sizeof(text), 0);
	return got > 0 ? box_oom_parse_kills(text, (size_t)got) : 0;
}

uint64_t box_local_oom_kills(const struct box_backend_box *box)
{
	return box_local_read_oom_kills(box->memory) + box_local_read_oom_kills(box->rest);
}

struct box_backend_box *box_local_find(const struct box_local *native, uint64_t number)
{
	return box_table_get(&native->by_number, key_of(&number));
}

struct box_backend_box *box_local_add(
	struct box_local *native, uint64_t number, int control, int memory)
{
	struct box_backend_box *box = box_alloc(sizeof(*box));
	box->native = native;
	box->number = number;
	box->control = control;
	box->memory = memory;
	box->rest = -1;
	box_list_init(&box->runs);
	box_packet_queue_init(&box->queue, SIZE_MAX, BOX_INIT_QUEUE_BYTES_MAX);
	if (box_local_control_listen(box) < 0) {
		native->keeper->end(native->keeper_arg, number);
		(void)close(control);
		box_close_p(&memory);
		free(box);
		return NULL;
	}
	(void)uv_timer_init(native->loop, &box->later);
	box->later.data = box;
	box_table_put(&native->by_number, key_of(&box->number), box);
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

static void tell_destroyed_cb(uv_timer_t *timer)
{
	struct box_backend_box *box = timer->data;
	box_backend_destroy_done *done = box->destroyed;
	void *arg = box->destroyed_arg;
	box_packet_queue_clear(&box->queue);
	box_close_p(&box->memory);
	box_close_p(&box->rest);
	uv_close((uv_handle_t *)&box->poll, poll_closed);
	if (done) {
		done(arg);
	}
}

static void free_if_over(struct box_backend_box *box)
{
	if (box->gone && box->destroying && box->run_count == 0 &&
		!uv_is_active((const uv_handle_t *)&box->later)) {
		box_table_remove(&box->native->by_number, key_of(&box->number));
		(void)uv_timer_start(&box->later, tell_destroyed_cb, 0, 0);
	}
}

void box_local_run_ended(struct box_backend_box *box)
{
	box->run_count--;
	free_if_over(box);
}

void box_local_lost(struct box_backend_box *box, const char *why)
{
	struct box_err err;
	if (box->deaf) {
		return;
	}
	box->deaf = true;
	(void)uv_poll_stop(&box->poll);
	box_packet_queue_clear(&box->queue);
	if (!box->destroying) {
		BOX_LOG(BOX_LOG_WARNING, "box.lost", box_log_int("box", (int64_t)box->number),
			box_log_str("why", why));
	}
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the box ended while the command ran: %s", why);
	box->run_count++; /* so that it is not freed below */
	box_local_exec_fail_all(box, &err);
	if (box->lost && !box->destroying) {
		box->lost(box->lost_arg, why);
	}
	box_local_run_ended(box);
}

void box_local_ending(struct box_local *native, uint64_t number, const char *why)
{
	struct box_backend_box *box = box_local_find(native, number);
	if (box) {
		box_local_lost(box, why);
	}
}

void box_local_gone(struct box_local *native, uint64_t number)
{
	struct box_backend_box *box = box_local_find(native, number);
	if (!box) {
		return;
	}
	box->run_count++;
	box->gone = true;
	/* boxd's word may be quicker than the last of the box's own. */
	box_local_control_read(box);
	box_local_lost(box, "its first process has ended");
	box->destroying = box->destroying || box->kept;
	box_local_run_ended(box);
}

void box_local_destroy(struct box_backend_box *box, box_backend_destroy_done *done, void *arg)
{
	box->destroying = true;
	box->destroyed = done;
	box->destroyed_arg = arg;
	if (!box->gone) {
		box->native->keeper->end(box->native->keeper_arg, box->number);
	}
	free_if_over(box);
}

/* --- successors --- */

static uint64_t mark(const struct box_backend_box *box)
{
	return box->number;
}

static uint32_t host_address_of(const struct box_backend_box *box)
{
	return box->host_address;
}

static struct box_backend_box *adopt(struct box_backend *backend, uint64_t number)
{
	const struct box_local_kind *kind = box_local_kind_of(backend);
	struct box_backend_box *box = box_local_find(kind->native, number);
	if (!box || !box->kept || box->deaf) {
		return NULL;
	}
	box->kept = false;
	box->is_machine = kind->kind == BOX_PLAN_KIND_MICROVM;
	return box;
}

void box_local_inherited(struct box_local *native, uint64_t number, int control, int memory,
	int rest, uint32_t host_address)
{
	struct box_backend_box *box = box_local_add(native, number, control, memory);
	if (!box) {
		box_close_p(&rest);
		return;
	}
	box->rest = rest;
	box->host_address = host_address;
	box->kept = true;
	box->resetting = true;
	box->oom_kills = box_local_oom_kills(box);
	box_local_control_send(box, BOX_INIT_RESET, 0, NULL, 0, NULL, 0, -1);
}

void box_local_end_inherited(struct box_local *native)
{
	uint64_t position = 0;
	struct box_backend_box *box;
	while ((box = box_table_next(&native->by_number, &position, NULL))) {
		if (box->kept && !box->destroying) {
			BOX_LOG(BOX_LOG_INFO, "box.unknown",
				box_log_int("box", (int64_t)box->number));
			box_local_destroy(box, NULL, NULL);
		}
	}
}

/* --- the object --- */

/* Why there can be no boxes of this kind; NULL: there can. */
static const char *missing(struct box_backend *backend)
{
	const struct box_local_kind *kind = box_local_kind_of(backend);
	const char *why = box_local_missing(kind->native);
	if (why || kind->kind != BOX_PLAN_KIND_MICROVM) {
		return why;
	}
	switch (kind->native->machines_state) {
	case BOX_LOCAL_MICROVM_WORKS:
		return NULL;
	case BOX_LOCAL_MICROVM_MISSING:
		return kind->native->machines_missing;
	default:
		return "it is being tried whether a microVM can run here";
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
		box_local_exec_cancel(op);
	}
}

static void watch(struct box_backend_box *box, box_backend_lost *lost, void *arg)
{
	box->lost = lost;
	box->lost_arg = arg;
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
	.credit = box_local_exec_credit,
	.input = box_local_stdio_input,
	.forget_input = box_local_stdio_forget_input,
	.signal = box_local_exec_signal,
	.resize = box_local_exec_resize,
	.file = box_local_file,
	.processes = &box_local_process_ops,
	.watch = watch,
	.mark = mark,
	.host_address = host_address_of,
	.adopt = adopt,
	.cancel = cancel,
	.destroy = box_local_destroy,
	.free = backend_free,
};

struct box_local *box_local_new(struct uv_loop_s *loop, const struct box_local_support *means,
	const struct box_local_boxd *keeper, void *keeper_arg)
{
	struct box_local *native = box_alloc(sizeof(*native));
	native->boxes = (struct box_local_kind){{&ops}, native, BOX_PLAN_KIND_NATIVE};
	native->machines = (struct box_local_kind){{&ops}, native, BOX_PLAN_KIND_MICROVM};
	native->loop = loop;
	native->keeper = keeper;
	native->keeper_arg = keeper_arg;
	box_local_set_support(native, means);
	return native;
}

void box_local_set_support(struct box_local *native, const struct box_local_support *means)
{
	native->means = *means;
	(void)snprintf(native->unlimited, sizeof(native->unlimited),
		"limits cannot be set: %s; local.degraded: true in --config lets boxes run without",
		means->limits_missing);
}

void box_local_free(struct box_local *native)
{
	if (native) {
		box_table_free(&native->by_number);
		free(native);
	}
}

struct box_backend *box_local_native_backend(struct box_local *native)
{
	return &native->boxes.base;
}

void box_local_allow_degraded(struct box_local *native, bool allowed)
{
	native->degraded = allowed;
}

const char *box_local_quota_missing(const struct box_local *native)
{
	return native->means.possible && !native->means.quota && !native->degraded
		? native->means.quota_missing
		: NULL;
}

const char *box_local_image_missing(const struct box_local *native)
{
	const char *missing = native->means.images_missing;
	return native->means.possible && missing && missing[0] ? missing : NULL;
}

const char *box_local_missing(const struct box_local *native)
{
	if (!native->means.possible) {
		return native->means.missing;
	}
	return native->means.limits || native->degraded ? NULL : native->unlimited;
}

const char *box_local_degraded_reason(const struct box_local *native)
{
	return native->means.possible && !native->means.limits && native->degraded
		? native->means.limits_missing
		: NULL;
}

const char *box_local_unheld_quota_reason(const struct box_local *native)
{
	return native->means.possible && !native->means.quota && native->degraded
		? native->means.quota_missing
		: NULL;
}

const struct box_bounds_facts *box_local_held(const struct box_local *native)
{
	return &native->means.held;
}
