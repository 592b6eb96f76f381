/* Requests on a line, and waiting for them. A request goes out when the line is up; else it is
 * refused at once, with the reason. */
#include <errno.h>
#include <limits.h>
#include <poll.h>

#include "base/clock.h"
#include "client/answer_wait.h"
#include "client/line.h"

static int refuse(const struct box_line *line, struct box_err *err)
{
	const struct box_err *why = box_line_why(line);
	return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ENOTCONN, "%s%s",
		why ? "the runtime is not reachable: " : "the runtime is not connected yet",
		why ? why->text : "");
}

int box_line_submit(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	struct box_client *client = box_line_client(line);
	return client ? box_client_submit(client, action, data, answered, arg, ret_seq_id, err)
		      : refuse(line, err);
}

int box_line_submit_stream(struct box_line *line, const char *action, const struct box_value *data,
	box_client_answered *answered, void *arg, int64_t *ret_seq_id, struct box_err *err)
{
	struct box_client *client = box_line_client(line);
	return client
		? box_client_submit_stream(client, action, data, answered, arg, ret_seq_id, err)
		: refuse(line, err);
}

void box_line_taken(struct box_line *line, int64_t seq_id)
{
	struct box_client *client = box_line_client(line);
	if (client) {
		box_client_taken(client, seq_id);
	}
}

void box_line_cancel(struct box_line *line, int64_t seq_id)
{
	struct box_client *client = box_line_client(line);
	if (client) {
		box_client_cancel(client, seq_id);
	}
}

/* --- waiting --- */

int box_line_wait(struct box_line *line, int timeout_ms)
{
	struct pollfd ready = {.fd = box_line_fd(line), .events = box_line_poll_events(line)};
	int own_ms = box_line_timeout_ms(line);
	bool own = own_ms >= 0 && (timeout_ms < 0 || own_ms < timeout_ms);
	if (poll(&ready, 1, own ? own_ms : timeout_ms) < 0) {
		return -errno;
	}
	box_line_step(line);
	return 0;
}

/* A time below 0 never comes. */
static uint64_t time_after(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : box_clock_ms() + (uint64_t)timeout_ms;
}

/* One turn; false when the time has come. */
static bool turn_before(struct box_line *line, uint64_t until_ms)
{
	uint64_t now = box_clock_ms();
	if (now >= until_ms) {
		return false;
	}
	(void)box_line_wait(line, until_ms - now > INT_MAX ? -1 : (int)(until_ms - now));
	return true;
}

int box_line_wait_for(struct box_line *line, const bool *done, int timeout_ms)
{
	uint64_t until_ms = time_after(timeout_ms);
	while (!*done) {
		if (!turn_before(line, until_ms)) {
			return -ETIMEDOUT;
		}
	}
	return 0;
}

int box_line_wait_up(struct box_line *line, int timeout_ms, struct box_err *err)
{
	uint64_t until_ms = time_after(timeout_ms);
	while (!box_line_is_up(line)) {
		if (!turn_before(line, until_ms)) {
			(void)refuse(line, err);
			return -ETIMEDOUT;
		}
	}
	return 0;
}

int box_line_call(struct box_line *line, const char *action, const struct box_value *data,
	int timeout_ms, struct box_arena *arena, struct box_value *ret_data, struct box_err *err)
{
	struct box_answer_wait call = {.arena = arena, .err = err};
	int64_t seq_id = 0;
	int r = box_line_submit(line, action, data, box_answer_wait_take, &call, &seq_id, err);
	if (r < 0) {
		return r;
	}
	if (box_line_wait_for(line, &call.done, timeout_ms) < 0) {
		box_line_cancel(line, seq_id);
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
			"%s: no answer within %d ms", action, timeout_ms);
	}
	if (call.result == 0) {
		*ret_data = call.data;
	}
	return call.result;
}
