/* Live commands: what they tell goes up, what is asked of them goes down. An op has a running
 * command from its `started` to its `done`, and only then is anything asked of it. */
#include "runtime/session/session_internal.h"

static void live_started(void *arg)
{
	struct box_session_op *op = arg;
	op->live->events->started(op->arg);
}

static void live_output(void *arg, bool is_stderr, struct box_str bytes)
{
	struct box_session_op *op = arg;
	op->live->events->output(op->arg, is_stderr, bytes);
}

const struct box_backend_stream_events box_session_stream_events = {
	.started = live_started,
	.output = live_output,
};

void box_session_op_credit(struct box_session_op *op, uint64_t bytes)
{
	op->session->backend->credit(op->running, bytes);
}

struct box_session_input box_session_op_input(struct box_session_op *op, struct box_str bytes,
	bool eof, box_backend_input_done *taken, void *arg)
{
	struct box_session_input input = {op->session->backend, op->running};
	input.backend->input(input.running, bytes, eof, taken, arg);
	return input;
}

void box_session_forget_input(const struct box_session_input *input, void *arg)
{
	input->backend->forget_input(input->running, arg);
}

void box_session_op_resize(struct box_session_op *op, uint16_t rows, uint16_t columns)
{
	op->session->backend->resize(op->running, rows, columns);
}

void box_session_op_signal(struct box_session_op *op, int number)
{
	op->session->backend->signal(op->running, number);
}
