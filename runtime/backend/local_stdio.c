/* The stdin of live commands: bytes go into their pipe, or to box-init piece by piece, so many as it
 * may hold at once, and whoever gave them is told when the command has taken them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "runtime/backend/local_internal.h"

#define UNDER_WAY_MAX (BOX_INIT_INPUT_MAX / 2)
#define PIECE_MAX ((size_t)BOX_INIT_BYTES_MAX)

struct input {
	struct box_list links;
	struct box_str left; /* not sent yet; the caller's, until told */
	bool eof;
	uint64_t ends_at;              /* when so many bytes are taken, it is in */
	box_backend_input_done *taken; /* NULL: nobody is told, and the bytes are ours */
	char *own;
	void *arg;
};

static struct input *input_at(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct input, links);
}

static void finish(struct input *input, const struct box_err *err)
{
	struct input last = *input;
	box_list_drop(&input->links);
	free(input);
	if (last.taken) {
		last.taken(last.arg, err);
	}
	free(last.own);
}

static void send_pieces(struct box_local_run *run, struct input *input)
{
	while (input->left.len > 0 && run->input_sent - run->input_taken < UNDER_WAY_MAX) {
		size_t piece = BOX_MIN(input->left.len, PIECE_MAX);
		box_local_control_send(
			run->box, BOX_INIT_INPUT, run->id, input->left.bytes, piece, NULL, 0, -1);
		run->input_sent += piece;
		input->left.bytes += piece;
		input->left.len -= piece;
	}
	if (input->left.len == 0 && input->eof && !run->input_ended) {
		box_local_stdio_end_input(run);
	}
}

void box_local_stdio_end_input(struct box_local_run *run)
{
	run->input_ended = true;
	if (run->pipes) {
		box_local_stdio_close_stdin(run);
	} else {
		box_local_control_send(run->box, BOX_INIT_INPUT, run->id, NULL, 0, NULL, 0, -1);
	}
}

void box_local_stdio_feed_pipe(struct box_local_run *run)
{
	while (!box_list_empty(&run->inputs)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		struct input *first = input_at(run->inputs.next);
		size_t written = box_local_stdio_write_pipe(run, first->left);
		first->left.bytes += written;
		first->left.len -= written;
		if (first->left.len > 0) {
			box_local_stdio_want_write(run);
			return;
		}
		if (first->eof) {
			box_local_stdio_end_input(run);
		}
		finish(first, NULL);
	}
}

void box_local_stdio_send_input(struct box_local_run *run)
{
	if (!run->sent) {
		return;
	}
	if (run->pipes) {
		box_local_stdio_want_write(run);
		return;
	}
	for (struct box_list *at = run->inputs.next; at != &run->inputs; at = at->next) {
		struct input *input = input_at(at);
		send_pieces(run, input);
		if (input->left.len > 0) {
			return;
		}
	}
}

void box_local_stdio_input_taken(struct box_local_run *run, uint64_t bytes)
{
	/* What box-init says may be anything: it never takes more than it got, nor less than
	 * before. */
	if (bytes < run->input_taken || bytes > run->input_sent) {
		box_local_lost(run->box, "it took more input than it got");
		return;
	}
	run->input_taken = bytes;
	box_local_stdio_send_input(run);
	while (!box_list_empty(&run->inputs)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		struct input *first = input_at(run->inputs.next);
		if (first->left.len > 0 || first->ends_at > run->input_taken) {
			return;
		}
		finish(first, NULL);
	}
}

static uint64_t end_of_inputs(const struct box_local_run *run)
{
	uint64_t end = run->input_sent;
	for (const struct box_list *at = run->inputs.next; at != &run->inputs; at = at->next) {
		const struct input *input = (const struct input *)(const void *)((const char *)at -
			offsetof(struct input, links));
		end += input->left.len;
	}
	return end;
}

void box_local_stdio_input(struct box_backend_op *op, struct box_str bytes, bool eof,
	box_backend_input_done *taken, void *arg)
{
	struct box_local_run *run = box_local_run_of(op);
	struct input *input = box_alloc(sizeof(*input));
	input->left = bytes;
	input->eof = eof;
	input->ends_at = end_of_inputs(run) + bytes.len;
	input->taken = taken;
	input->arg = arg;
	box_list_push(&run->inputs, &input->links);
	box_local_stdio_send_input(run);
	/* A mere end is in as soon as it is sent; there is nobody to tell. */
	if (!taken && input->left.len == 0 && input->ends_at <= run->input_taken &&
		run->inputs.next == &input->links && run->sent && !run->pipes) {
		finish(input, NULL);
	}
}

void box_local_stdio_forget_input(struct box_backend_op *op, void *arg)
{
	struct box_local_run *run = box_local_run_of(op);
	for (struct box_list *at = run->inputs.next; at != &run->inputs; at = at->next) {
		struct input *input = input_at(at);
		if (input->taken && input->arg == arg) {
			input->own = box_alloc(input->left.len + 1);
			memcpy(input->own, input->left.bytes, input->left.len);
			input->left.bytes = input->own;
			input->taken = NULL;
			return;
		}
	}
}

void box_local_stdio_drop_input(struct box_local_run *run)
{
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the command has ended");
	while (!box_list_empty(&run->inputs)) {
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the one before has left the list */
		finish(input_at(run->inputs.next), &err);
	}
}
