/* Commands of the fake backend:
 *   echo TEXT       prints TEXT            exit N       ends with N
 *   print N         prints N bytes         raw N        prints N control characters
 *   sleep MS        takes that long        signal N     ends by signal N
 *   fail NAME TEXT  fails with that error
 * Live output ends with a newline. Anything else prints nothing and ends with 0. Making a
 * box takes as many milliseconds as the image says ("make-MS"); the image "broken" cannot be made.
 * A spec's timeout holds.
 *
 * Its files: reading gives the path below its root, a list has the names a and b, everything is a
 * file of 3 bytes. "missing" does not exist, "slow-MS" takes that long, and a watch reports a file "new" and
 * goes on, except that of "short".
 */
#include "runtime/backend/fake_backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/macros.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/backend_file.h"

struct fake {
	struct box_backend base;
	uv_loop_t *loop;
};

struct fake_box {
	struct fake *fake;
};

enum kind {
	MAKE,
	EXEC,
	WORK, /* on files */
	DESTROY,
};

/* Everything happens in a timer, so that nothing is done inside the caller's call. */
struct fake_op {
	uv_timer_t timer;
	enum kind kind;
	struct fake *fake;
	struct fake_box *box;
	struct box_str cmd; /* the spec's, which lives as long as the op */
	bool timed_out;
	bool broken;
	int64_t max_output_bytes;
	const struct box_backend_stream_events *live;
	uint64_t started_ms;
	box_backend_make_done *made;
	box_backend_exec_done *ran;
	const struct box_backend_file_request *ask;
	const struct box_file_events *events;
	box_backend_file_done *filed;
	box_backend_destroy_done *gone;
	void *arg;
};

static struct fake_box *box_of(struct box_backend_box *handle)
{
	return (struct fake_box *)(void *)handle;
}

static struct box_backend_op *handle_of(struct fake_op *op)
{
	return (struct box_backend_op *)(void *)op;
}

static void closed(uv_handle_t *handle)
{
	struct fake_op *op = handle->data;
	free(op);
}

static void op_free(struct fake_op *op)
{
	(void)uv_timer_stop(&op->timer);
	uv_close((uv_handle_t *)&op->timer, closed);
}

/* Whether the command is `name`, and its argument. */
static bool word(struct box_str cmd, const char *name, struct box_str *ret_rest)
{
	size_t len = strlen(name);
	if (cmd.len < len || memcmp(cmd.bytes, name, len) != 0 ||
		(cmd.len > len && cmd.bytes[len] != ' ')) {
		return false;
	}
	size_t skip = cmd.len > len ? len + 1 : len;
	*ret_rest = (struct box_str){cmd.bytes + skip, cmd.len - skip};
	return true;
}

/* The number after `name`, 0 if the command is another one. */
static unsigned long number_after(struct box_str cmd, const char *name)
{
	struct box_str rest;
	unsigned long number = 0;
	if (word(cmd, name, &rest)) {
		for (size_t i = 0; i < rest.len && rest.bytes[i] >= '0' && rest.bytes[i] <= '9';
			i++) {
			number = number * 10 + (unsigned long)(rest.bytes[i] - '0');
		}
	}
	return number;
}

static void finish_failed(struct fake_op *op, struct box_str rest)
{
	struct box_err err;
	char name[64] = "";
	size_t len = 0;
	while (len < rest.len && len + 1 < sizeof(name) && rest.bytes[len] != ' ') {
		name[len] = rest.bytes[len];
		len++;
	}
	size_t skip = len < rest.len ? len + 1 : len;
	(void)box_err_set(&err, box_code_from_name(name), EIO, "%.*s", (int)(rest.len - skip),
		rest.bytes + skip);
	op->ran(op->arg, NULL, &err);
}

static void finish_exec(struct fake_op *op)
{
	struct box_backend_exec_outcome outcome = {.duration_ms = box_clock_ms() - op->started_ms};
	struct box_str rest;
	char *made = NULL;
	if (op->timed_out) {
		outcome.reason = BOX_BACKEND_END_TIMEOUT;
	} else if (word(op->cmd, "echo", &rest)) {
		outcome.out = rest;
	} else if (word(op->cmd, "print", &rest) || word(op->cmd, "raw", &rest)) {
		bool raw = op->cmd.bytes[0] == 'r';
		size_t wanted = number_after(op->cmd, raw ? "raw" : "print");
		size_t max = (size_t)op->max_output_bytes;
		size_t held = BOX_MIN(wanted, max);
		made = box_alloc(held);
		memset(made, raw ? 1 : 'x', held);
		outcome.out = (struct box_str){made, held};
		outcome.out_discarded = wanted - held;
	} else if (word(op->cmd, "exit", &rest)) {
		outcome.exit_code = (int)number_after(op->cmd, "exit");
	} else if (word(op->cmd, "signal", &rest)) {
		outcome.reason = BOX_BACKEND_END_SIGNAL;
		outcome.signal = (int)number_after(op->cmd, "signal");
		outcome.exit_code = 128 + outcome.signal;
	}
	if (op->live) {
		op->live->started(op->arg);
		if (outcome.out.len > 0) {
			op->live->output(op->arg, false, outcome.out);
			op->live->output(op->arg, false, box_str("\n"));
		}
		outcome.out.len = 0;
	}
	op->ran(op->arg, &outcome, NULL);
	free(made);
}

static void report_watch(const struct fake_op *op)
{
	const struct box_file_event event = {.change = BOX_FILE_CREATED,
		.path = box_str("new"),
		.from = box_str(""),
		.cost = 19};
	op->events->started(op->arg);
	op->events->event(op->arg, &event);
}

/* Whether the operation is finished. */
static bool finish_work(struct fake_op *op)
{
	const struct box_backend_file_request *ask = op->ask;
	const struct box_file_facts entries[] = {
		{.name = box_str("a"), .type = BOX_FILE_TYPE_FILE, .mode = 0644, .size = 3},
		{.name = box_str("b"), .type = BOX_FILE_TYPE_LINK, .target = box_str("a")},
	};
	struct box_file_outcome outcome = {
		.facts = {.type = BOX_FILE_TYPE_FILE, .mode = 0644, .size = 3, .mtime_ms = 7},
		.written = ask->data.len,
		.entries = entries,
		.entry_count = ask->kind == BOX_FILE_LIST ? 2 : 0,
		.data = box_str(ask->path.below),
	};
	if (strcmp(ask->path.below, "missing") == 0) {
		outcome = (struct box_file_outcome){.errnum = ENOENT};
	} else if (ask->kind == BOX_FILE_WATCH) {
		report_watch(op);
		if (strcmp(ask->path.below, "short") != 0) {
			return false;
		}
	}
	op->filed(op->arg, &outcome, NULL);
	return true;
}

static void timer_cb(uv_timer_t *timer)
{
	struct fake_op *op = timer->data;
	struct box_str rest;
	struct box_err err;
	switch (op->kind) {
	case MAKE:
		if (op->broken) {
			free(op->box);
			(void)box_err_set(&err, BOX_ERR_BOX, EIO, "the fake box is broken");
			op->made(op->arg, NULL, &err);
		} else {
			op->made(op->arg, (struct box_backend_box *)(void *)op->box, NULL);
		}
		break;
	case EXEC:
		if (word(op->cmd, "fail", &rest)) {
			finish_failed(op, rest);
		} else {
			finish_exec(op);
		}
		break;
	case WORK:
		if (!finish_work(op)) {
			return; /* until it is cancelled */
		}
		break;
	case DESTROY:
		free(op->box);
		if (op->gone) {
			op->gone(op->arg);
		}
		break;
	}
	op_free(op);
}

static struct fake_op *op_new(
	struct fake *fake, enum kind kind, struct fake_box *box, uint64_t after_ms, void *arg)
{
	struct fake_op *op = box_alloc(sizeof(*op));
	op->kind = kind;
	op->fake = fake;
	op->box = box;
	op->arg = arg;
	/* The timer counts from the loop's time, which may be old. Both count from the same moment, or
	 * a command that ran out of time could have taken less than that. */
	uv_update_time(fake->loop);
	op->started_ms = uv_now(fake->loop);
	(void)uv_timer_init(fake->loop, &op->timer);
	op->timer.data = op;
	(void)uv_timer_start(&op->timer, timer_cb, after_ms, 0);
	return op;
}

static bool available(struct box_backend *backend)
{
	(void)backend;
	return true;
}

static struct box_backend_op *make(struct box_backend *backend, const char *physical_id,
	const struct box_spec *spec, box_backend_make_done *done, void *arg)
{
	struct fake *fake = (struct fake *)(void *)backend;
	struct fake_box *box = box_alloc(sizeof(*box));
	unsigned long after_ms = 0;
	(void)physical_id;
	(void)sscanf(spec->image, "make-%lu", &after_ms);
	box->fake = fake;
	struct fake_op *op = op_new(fake, MAKE, box, after_ms, arg);
	op->broken = strcmp(spec->image, "broken") == 0;
	op->made = done;
	return handle_of(op);
}

static struct box_backend_op *exec(struct box_backend_box *box, const struct box_spec *spec,
	int64_t max_output_bytes, const struct box_backend_stream *live,
	box_backend_exec_done *done, void *arg)
{
	uint64_t after_ms = number_after(spec->cmd, "sleep");
	uint64_t max_ms = (uint64_t)spec->timeout_sec * 1000;
	struct fake_op *op = op_new(
		box_of(box)->fake, EXEC, box_of(box), BOX_MIN(after_ms, max_ms), arg);
	op->cmd = spec->cmd;
	op->timed_out = after_ms > max_ms;
	op->max_output_bytes = max_output_bytes;
	op->live = live ? live->events : NULL;
	op->ran = done;
	return handle_of(op);
}

static struct box_backend_op *file(struct box_backend_box *box,
	const struct box_backend_file_request *ask, const struct box_file_events *events,
	box_backend_file_done *done, void *arg)
{
	unsigned long after_ms = 0;
	(void)sscanf(ask->path.below, "slow-%lu", &after_ms);
	struct fake_op *op = op_new(box_of(box)->fake, WORK, box_of(box), after_ms, arg);
	op->ask = ask;
	op->events = events;
	op->filed = done;
	return handle_of(op);
}

/* A live fake command reports its start, output and end in one go, so nothing can be requested of it in
 * between. */
static void credit(struct box_backend_op *op, uint64_t bytes)
{
	(void)op;
	(void)bytes;
}

static void input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg)
{
	(void)op;
	(void)bytes;
	(void)eof;
	(void)taken;
	(void)arg;
}

static void forget_input(struct box_backend_op *op, void *arg)
{
	(void)op;
	(void)arg;
}

/* It has no terminals. */
static void resize(struct box_backend_op *op, uint16_t rows, uint16_t columns)
{
	(void)op;
	(void)rows;
	(void)columns;
}

static void send_signal(struct box_backend_op *op, int number)
{
	(void)op;
	(void)number;
}

/* Fake boxes never end by themselves, and none outlives its process. */
static void watch(struct box_backend_box *box, box_backend_lost *lost, void *arg)
{
	(void)box;
	(void)lost;
	(void)arg;
}

static uint64_t mark(const struct box_backend_box *box)
{
	(void)box;
	return 0;
}

static struct box_backend_box *adopt(struct box_backend *backend, uint64_t number)
{
	(void)backend;
	(void)number;
	return NULL;
}

static void cancel(struct box_backend_op *handle)
{
	struct fake_op *op = (struct fake_op *)(void *)handle;
	if (op->kind == MAKE) {
		op->broken = true;
		(void)uv_timer_start(&op->timer, timer_cb, 0, 0);
		return;
	}
	op_free(op);
}

static void destroy(struct box_backend_box *box, box_backend_destroy_done *done, void *arg)
{
	struct fake_op *op = op_new(box_of(box)->fake, DESTROY, box_of(box), 0, arg);
	op->gone = done;
}

static void fake_free(struct box_backend *backend)
{
	free(backend);
}

static const struct box_backend_ops ops = {
	.name = "fake",
	.available = available,
	.make = make,
	.exec = exec,
	.file = file,
	.credit = credit,
	.input = input,
	.forget_input = forget_input,
	.signal = send_signal,
	.resize = resize,
	.watch = watch,
	.mark = mark,
	.adopt = adopt,
	.cancel = cancel,
	.destroy = destroy,
	.free = fake_free,
};

struct box_backend *box_fake_backend_new(struct uv_loop_s *loop)
{
	struct fake *fake = box_alloc(sizeof(*fake));
	fake->base.ops = &ops;
	fake->loop = loop;
	return &fake->base;
}
