/* A backend that does nothing by itself: makes, commands and destroys stay pending until the test
 * completes them. It checks what the interface promises to backends: no command in a box that is
 * being destroyed, no operation ended twice, every box destroyed. */
#pragma once

#include <arpa/inet.h>
#include <errno.h>

#include "base/arena.h"
#include "runtime/backend/backend.h"
#include "runtime/backend/backend_file.h"
#include "tests/unit/lib/test.h"

enum headless_kind {
	HEADLESS_MAKE,
	HEADLESS_EXEC,
	HEADLESS_FILE, /* its name is the path below its place */
	HEADLESS_DESTROY,
	HEADLESS_KINDS_
};

struct box_backend_box {
	bool destroyed;
	uint64_t mark;
	box_backend_lost *lost;
	void *lost_arg;
};

struct box_backend_op {
	struct box_backend_op *next;
	enum headless_kind kind;
	struct box_backend_box *box;
	const struct box_spec *spec;
	char name[256];
	int64_t max_output_bytes;
	const struct box_backend_stream *live;
	const struct box_backend_file_request *ask;
	const struct box_file_events *events;
	box_backend_file_done *filed;
	box_backend_make_done *made;
	box_backend_exec_done *ran;
	box_backend_destroy_done *gone;
	void *arg;
};

#define HEADLESS_INPUTS_MAX 16

/* Bytes for a live command. */
struct headless_input {
	struct box_backend_op *op;
	struct box_str bytes; /* the caller's, until reported or forgotten */
	bool eof;
	bool forgotten;
	box_backend_input_done *taken; /* NULL: nobody waits, or it was called */
	void *arg;
};

static struct {
	struct box_backend_op *pending; /* oldest first */
	bool unavailable;
	int begun[HEADLESS_KINDS_];
	int cancelled[HEADLESS_KINDS_];
	int boxes;     /* existing ones, also half-made */
	uint64_t mark; /* of the boxes made from now on; 0: a successor cannot find them */
	struct box_backend_box *kept; /* what a predecessor left */
	uint64_t credit;              /* given to live commands after their first credit */
	struct headless_input inputs[HEADLESS_INPUTS_MAX];
	int input_count;
	int signal_count;
	int last_signal;
} headless;

static struct box_backend_op *headless_begin(enum headless_kind kind, struct box_backend_box *box,
	const struct box_spec *spec, void *arg)
{
	struct box_backend_op *op = box_alloc(sizeof(*op));
	struct box_backend_op **tail = &headless.pending;
	while (*tail) {
		tail = &(*tail)->next;
	}
	*tail = op;
	op->kind = kind;
	op->box = box;
	op->spec = spec;
	op->arg = arg;
	headless.begun[kind]++;
	return op;
}

static bool headless_available(struct box_backend *backend)
{
	(void)backend;
	return !headless.unavailable;
}

static struct box_backend_op *headless_make(struct box_backend *backend, const char *physical_id,
	const struct box_spec *spec, box_backend_make_done *done, void *arg)
{
	(void)backend;
	struct box_backend_box *box = box_alloc(sizeof(*box));
	headless.boxes++;
	box->mark = headless.mark;
	struct box_backend_op *op = headless_begin(HEADLESS_MAKE, box, spec, arg);
	(void)snprintf(op->name, sizeof(op->name), "%s", physical_id);
	op->made = done;
	return op;
}

static struct box_backend_op *headless_exec(struct box_backend_box *box,
	const struct box_spec *spec, int64_t max_output_bytes,
	const struct box_backend_stream *live, box_backend_exec_done *done, void *arg)
{
	if (box->destroyed) {
		TEST_FAIL("a command was begun in a box that is being destroyed");
	}
	struct box_backend_op *op = headless_begin(HEADLESS_EXEC, box, spec, arg);
	(void)snprintf(op->name, sizeof(op->name), "%.*s", (int)spec->cmd.len, spec->cmd.bytes);
	op->max_output_bytes = max_output_bytes;
	op->live = live;
	op->ran = done;
	return op;
}

static struct box_backend_op *headless_file(struct box_backend_box *box,
	const struct box_backend_file_request *ask, const struct box_file_events *events,
	box_backend_file_done *done, void *arg)
{
	if (box->destroyed) {
		TEST_FAIL("work on files was begun in a box that is being destroyed");
	}
	struct box_backend_op *op = headless_begin(HEADLESS_FILE, box, NULL, arg);
	(void)snprintf(op->name, sizeof(op->name), "%s", ask->path.below);
	op->ask = ask;
	op->events = events;
	op->filed = done;
	return op;
}

static void headless_drop(struct box_backend_op *op)
{
	struct box_backend_op **at = &headless.pending;
	while (*at && *at != op) {
		at = &(*at)->next;
	}
	if (!*at) {
		TEST_FAIL("an operation was ended twice");
	}
	*at = op->next;
}

static void headless_box_free(struct box_backend_box *box)
{
	free(box);
	headless.boxes--;
}

static void headless_cancel(struct box_backend_op *op)
{
	ASSERT(op->kind != HEADLESS_DESTROY);
	headless.cancelled[op->kind]++;
	if (op->kind == HEADLESS_MAKE) {
		op->kind = HEADLESS_DESTROY; /* of a box that nobody waits for */
		return;
	}
	headless_drop(op);
	free(op);
}

static void headless_destroy(struct box_backend_box *box, box_backend_destroy_done *done, void *arg)
{
	ASSERT(!box->destroyed);
	box->destroyed = true;
	struct box_backend_op *op = headless_begin(HEADLESS_DESTROY, box, NULL, arg);
	op->gone = done;
}

/* Only a pending operation may be used. */
static void headless_check_live(struct box_backend_op *op)
{
	for (struct box_backend_op *at = headless.pending; at; at = at->next) {
		if (at == op && (op->live || op->events)) {
			return;
		}
	}
	TEST_FAIL("something was asked of a command that is over, or not live");
}

static void headless_credit(struct box_backend_op *op, uint64_t bytes)
{
	headless_check_live(op);
	headless.credit += bytes;
}

static void headless_input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg)
{
	headless_check_live(op);
	ASSERT(op->live->has_stdin && headless.input_count < HEADLESS_INPUTS_MAX);
	ASSERT((taken != NULL) == (bytes.len > 0));
	headless.inputs[headless.input_count++] = (struct headless_input){
		.op = op, .bytes = bytes, .eof = eof, .taken = taken, .arg = arg};
}

static void headless_forget_input(struct box_backend_op *op, void *arg)
{
	/* The command may have been cancelled: its input still waits. */
	for (int i = 0; i < headless.input_count; i++) {
		struct headless_input *input = &headless.inputs[i];
		if (input->op == op && input->taken && input->arg == arg) {
			input->forgotten = true;
			input->taken = NULL;
			return;
		}
	}
	TEST_FAIL("an input was forgotten that was not given");
}

static void headless_signal(struct box_backend_op *op, int number)
{
	headless_check_live(op);
	headless.signal_count++;
	headless.last_signal = number;
}

static void headless_watch(struct box_backend_box *box, box_backend_lost *lost, void *arg)
{
	box->lost = lost;
	box->lost_arg = arg;
}

static uint64_t headless_mark(const struct box_backend_box *box)
{
	return box->mark;
}

static uint32_t headless_host_address(const struct box_backend_box *box)
{
	return box->mark != 0 ? htonl(0x7f420000U + (uint32_t)box->mark) : 0;
}

static struct box_backend_box *headless_adopt(struct box_backend *backend, uint64_t mark)
{
	(void)backend;
	struct box_backend_box *box = headless.kept;
	if (!box || box->mark != mark) {
		return NULL;
	}
	headless.kept = NULL;
	return box;
}

static void headless_free(struct box_backend *backend)
{
	(void)backend;
}

static const struct box_backend_ops headless_ops = {
	.name = "headless",
	.available = headless_available,
	.make = headless_make,
	.exec = headless_exec,
	.file = headless_file,
	.credit = headless_credit,
	.input = headless_input,
	.forget_input = headless_forget_input,
	.signal = headless_signal,
	.watch = headless_watch,
	.mark = headless_mark,
	.host_address = headless_host_address,
	.adopt = headless_adopt,
	.cancel = headless_cancel,
	.destroy = headless_destroy,
	.free = headless_free,
};

static struct box_backend headless_backend = {&headless_ops};

/* --- what a test says --- */

/* The physical name of a session of the workspace "ws" of the instance "inst" at generation 1. */
#define ID(id) "ws-108378aeed2d7cca4480d35e-g1-" id

static inline int headless_count(enum headless_kind kind)
{
	int count = 0;
	for (struct box_backend_op *op = headless.pending; op; op = op->next) {
		count += op->kind == kind;
	}
	return count;
}

/* The oldest operation of that kind; with a name, the oldest with that name. */
static inline struct box_backend_op *headless_find(enum headless_kind kind, const char *name)
{
	for (struct box_backend_op *op = headless.pending; op; op = op->next) {
		if (op->kind == kind && (!name || strcmp(op->name, name) == 0)) {
			return op;
		}
	}
	TEST_FAIL("no operation %d of name %s is under way", (int)kind, name ? name : "(any)");
}

/* Ends the oldest operation of that kind and name: it is no longer pending. */
static inline struct box_backend_op headless_take(enum headless_kind kind, const char *name)
{
	struct box_backend_op *own = headless_find(kind, name);
	struct box_backend_op op = *own;
	headless_drop(own);
	free(own);
	return op;
}

static inline void headless_made(void)
{
	struct box_backend_op op = headless_take(HEADLESS_MAKE, NULL);
	op.made(op.arg, op.box, NULL);
}

static inline void headless_make_failed(enum box_code code, const char *text)
{
	struct box_err err;
	struct box_backend_op op = headless_take(HEADLESS_MAKE, NULL);
	headless_box_free(op.box);
	(void)box_err_set(&err, code, EIO, "%s", text);
	op.made(op.arg, NULL, &err);
}

static inline void headless_ran(const char *name, const struct box_backend_exec_outcome *outcome)
{
	struct box_backend_op op = headless_take(HEADLESS_EXEC, name);
	op.ran(op.arg, outcome, NULL);
}

static inline void headless_run_failed(const char *name, enum box_code code, const char *text)
{
	struct box_err err;
	struct box_backend_op op = headless_take(HEADLESS_EXEC, name);
	(void)box_err_set(&err, code, EIO, "%s", text);
	op.ran(op.arg, NULL, &err);
}

static inline void headless_filed(const char *name, const struct box_file_outcome *outcome)
{
	struct box_backend_op op = headless_take(HEADLESS_FILE, name);
	op.filed(op.arg, outcome, NULL);
}

static inline void headless_gone(void)
{
	struct box_err err;
	struct box_backend_op op = headless_take(HEADLESS_DESTROY, NULL);
	headless_box_free(op.box);
	if (op.made) {
		(void)box_err_set(&err, BOX_ERR_BOX, ECANCELED, "cancelled");
		op.made(op.arg, NULL, &err);
	} else if (op.gone) {
		op.gone(op.arg);
	}
}

/* --- live commands --- */

static inline void headless_started(const char *name)
{
	struct box_backend_op *op = headless_find(HEADLESS_EXEC, name);
	ASSERT(op->live != NULL);
	op->live->events->started(op->arg);
}

static inline void headless_output(const char *name, bool is_stderr, const void *bytes, size_t size)
{
	struct box_backend_op *op = headless_find(HEADLESS_EXEC, name);
	ASSERT(op->live != NULL);
	op->live->events->output(op->arg, is_stderr, (struct box_str){bytes, size});
}

/* Reports input number `at`, from 0, as taken; with a text it fails. */
static inline void headless_taken(int at, const char *why)
{
	struct box_err err;
	struct headless_input *input = &headless.inputs[at];
	ASSERT(at < headless.input_count && input->taken != NULL);
	box_backend_input_done *taken = input->taken;
	input->taken = NULL;
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "%s", why ? why : "");
	taken(input->arg, why ? &err : NULL);
}

/* A box ends by itself. */
static inline void headless_lose(struct box_backend_box *box, const char *why)
{
	ASSERT(box->lost != NULL);
	box->lost(box->lost_arg, why);
}
