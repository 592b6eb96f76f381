/* Native boxes, as box-rpc sees them: which there are, their end, those of a predecessor, and what
 * they offer as a backend.
 *
 * A box is freed when boxd has said that it is gone, its destruction was asked for, and its last
 * command has been told. */
#include "runtime/backend/native.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/backend/native_box.h"
#include "runtime/guest/oom.h"

bool box_native_is_beyond(int fd, unsigned quarters)
{
	struct rlimit limit;
	return getrlimit(RLIMIT_NOFILE, &limit) == 0 && (rlim_t)fd > limit.rlim_cur / 4 * quarters;
}

bool box_native_refuses_mount(int mount, struct box_err *err)
{
	if (!box_native_is_beyond(mount, BOX_NATIVE_MOUNT_QUARTERS)) {
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

uint64_t box_native_read_kills(int events)
{
	char text[1024];
	ssize_t got = events < 0 ? -1 : pread(events, text, sizeof(text), 0);
	return got > 0 ? box_oom_kills(text, (size_t)got) : 0;
}

uint64_t box_native_oom_kills(const struct box_backend_box *box)
{
	return box_native_read_kills(box->memory) + box_native_read_kills(box->rest);
}

struct box_backend_box *box_native_find(const struct box_native *native, uint64_t number)
{
	return box_table_get(&native->by_number, key_of(&number));
}

struct box_backend_box *box_native_add(
	struct box_native *native, uint64_t number, int control, int memory)
{
	struct box_backend_box *box = box_alloc(sizeof(*box));
	box->native = native;
	box->number = number;
	box->control = control;
	box->memory = memory;
	box->rest = -1;
	box_list_init(&box->runs);
	box_list_init(&box->queue);
	if (box_native_listen(box) < 0) {
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
	box_native_forget_kept(box);
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
	box_backend_gone *done = box->destroyed;
	void *arg = box->destroyed_arg;
	box_native_drop_queue(box);
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

void box_native_run_ended(struct box_backend_box *box)
{
	box->run_count--;
	free_if_over(box);
}

void box_native_lost(struct box_backend_box *box, const char *why)
{
	struct box_err err;
	if (box->deaf) {
		return;
	}
	box->deaf = true;
	(void)uv_poll_stop(&box->poll);
	box_native_drop_queue(box);
	if (!box->destroying) {
		BOX_LOG(BOX_LOG_WARNING, "box.lost", box_kv_int("box", (int64_t)box->number),
			box_kv_str("why", why));
	}
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the box ended while the command ran: %s", why);
	box->run_count++; /* so that it is not freed below */
	box_native_fail_runs(box, &err);
	if (box->lost && !box->destroying) {
		box->lost(box->lost_arg, why);
	}
	box_native_run_ended(box);
}

void box_native_ends(struct box_native *native, uint64_t number, const char *why)
{
	struct box_backend_box *box = box_native_find(native, number);
	if (box) {
		box_native_lost(box, why);
	}
}

void box_native_gone(struct box_native *native, uint64_t number)
{
	struct box_backend_box *box = box_native_find(native, number);
	if (!box) {
		return;
	}
	box->run_count++;
	box->gone = true;
	/* boxd's word may be quicker than the last of the box's own. */
	box_native_read(box);
	box_native_lost(box, "its first process has ended");
	box->destroying = box->destroying || box->kept;
	box_native_run_ended(box);
}

void box_native_destroy(struct box_backend_box *box, box_backend_gone *done, void *arg)
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
	const struct box_native_kind *kind = box_native_kind_of(backend);
	struct box_backend_box *box = box_native_find(kind->native, number);
	if (!box || !box->kept || box->deaf) {
		return NULL;
	}
	box->kept = false;
	box->is_machine = kind->kind == BOX_ASK_KRUN;
	return box;
}

void box_native_kept(struct box_native *native, uint64_t number, int control, int memory, int rest,
	uint32_t host_address)
{
	struct box_backend_box *box = box_native_add(native, number, control, memory);
	if (!box) {
		box_close_p(&rest);
		return;
	}
	box->rest = rest;
	box->host_address = host_address;
	box->kept = true;
	box->resetting = true;
	box->oom_kills = box_native_oom_kills(box);
	box_native_send(box, BOX_GUEST_RESET, 0, NULL, 0, NULL, 0, -1);
}

void box_native_drop_kept(struct box_native *native)
{
	uint64_t position = 0;
	struct box_backend_box *box;
	while ((box = box_table_next(&native->by_number, &position, NULL))) {
		if (box->kept && !box->destroying) {
			BOX_LOG(BOX_LOG_INFO, "box.unknown",
				box_kv_int("box", (int64_t)box->number));
			box_native_destroy(box, NULL, NULL);
		}
	}
}

/* --- the object --- */

/* Why there can be no boxes of this kind; NULL: there can. */
static const char *missing(struct box_backend *backend)
{
	const struct box_native_kind *kind = box_native_kind_of(backend);
	const char *why = box_native_missing(kind->native);
	if (why || kind->kind != BOX_ASK_KRUN) {
		return why;
	}
	switch (kind->native->machines_state) {
	case BOX_NATIVE_MACHINES_WORK:
		return NULL;
	case BOX_NATIVE_MACHINES_MISSING:
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
		box_native_cancel_make(op);
	} else {
		box_native_cancel_exec(op);
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
	.make = box_native_make,
	.exec = box_native_exec,
	.credit = box_native_credit,
	.input = box_native_input,
	.forget_input = box_native_forget_input,
	.signal = box_native_signal,
	.resize = box_native_resize,
	.file = box_native_file,
	.kept = &box_native_kept_ops,
	.watch = watch,
	.mark = mark,
	.host_address = host_address_of,
	.adopt = adopt,
	.cancel = cancel,
	.destroy = box_native_destroy,
	.free = backend_free,
};

struct box_native *box_native_new(struct uv_loop_s *loop, const struct box_native_means *means,
	const struct box_native_keeper *keeper, void *keeper_arg)
{
	struct box_native *native = box_alloc(sizeof(*native));
	native->boxes = (struct box_native_kind){{&ops}, native, BOX_ASK_NATIVE};
	native->machines = (struct box_native_kind){{&ops}, native, BOX_ASK_KRUN};
	native->loop = loop;
	native->keeper = keeper;
	native->keeper_arg = keeper_arg;
	box_native_set_means(native, means);
	return native;
}

void box_native_set_means(struct box_native *native, const struct box_native_means *means)
{
	native->means = *means;
	(void)snprintf(native->unlimited, sizeof(native->unlimited),
		"limits cannot be set: %s; local.degraded: true in --config lets boxes run without",
		means->limits_missing);
}

void box_native_free(struct box_native *native)
{
	if (native) {
		box_table_free(&native->by_number);
		free(native);
	}
}

struct box_backend *box_native_backend(struct box_native *native)
{
	return &native->boxes.base;
}

void box_native_allow_degraded(struct box_native *native, bool allowed)
{
	native->degraded = allowed;
}

const char *box_native_no_quota(const struct box_native *native)
{
	return native->means.possible && !native->means.quota && !native->degraded
		? native->means.quota_missing
		: NULL;
}

const char *box_native_no_image(const struct box_native *native)
{
	const char *missing = native->means.images_missing;
	return native->means.possible && missing && missing[0] ? missing : NULL;
}

const char *box_native_missing(const struct box_native *native)
{
	if (!native->means.possible) {
		return native->means.missing;
	}
	return native->means.limits || native->degraded ? NULL : native->unlimited;
}

const char *box_native_shortcoming(const struct box_native *native)
{
	return native->means.possible && !native->means.limits && native->degraded
		? native->means.limits_missing
		: NULL;
}

const char *box_native_unheld(const struct box_native *native)
{
	return native->means.possible && !native->means.quota && native->degraded
		? native->means.quota_missing
		: NULL;
}

const struct box_held_facts *box_native_held(const struct box_native *native)
{
	return &native->means.held;
}
