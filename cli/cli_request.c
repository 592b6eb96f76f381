/* Requests that several verbs send, and how texts of the runtime are printed. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "cli/cli.h"
#include "cli/cli_signals.h"
#include "codec/json.h"

struct question {
	struct box_arena *arena;
	struct box_value data;
	bool done;
	bool failed; /* with err */
	struct box_err err;
};

static void answered(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct question *question = arg;
	(void)last;
	question->done = true;
	question->failed = err != NULL;
	if (err) {
		question->err = *err;
	} else {
		question->data = box_value_copy(question->arena, data);
	}
}

/* Waits for the answer, a signal, or the timeout. */
static int await(struct box_client *client, const struct question *question, struct box_err *err)
{
	uint64_t until_ms = box_clock_ms() + BOX_CLI_CALL_MS;
	while (!question->done) {
		struct pollfd polls[] = {
			{.fd = box_cli_signals_fd(), .events = POLLIN},
			{.fd = box_client_fd(client), .events = box_client_events(client)},
		};
		uint64_t now = box_clock_ms();
		if (box_cli_signals_which()) {
			return -EINTR;
		}
		if (now >= until_ms) {
			return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ETIMEDOUT,
				"no answer within %d s", BOX_CLI_CALL_MS / 1000);
		}
		if (poll(polls, 2, (int)(until_ms - now)) > 0 && polls[1].revents) {
			/* A lost connection is reported to `answered`. */
			(void)box_client_step(client, NULL);
		}
	}
	return 0;
}

int box_cli_try_request(const struct cli *cli, struct box_client *client, const char *action,
	const struct box_value *data, struct box_value *ret_answer, struct box_err *err)
{
	struct question question = {.arena = cli->arena};
	int64_t seq_id;
	int r = box_client_submit(
		client, action, data, answered, &question, &seq_id, &question.err);
	if (r == 0) {
		r = await(client, &question, &question.err);
		if (!question.done) {
			box_client_cancel(client, seq_id);
		}
	}
	r = question.failed ? -EIO : r;
	if (r == 0) {
		*ret_answer = question.data;
	} else {
		*err = question.err;
	}
	return r;
}

int box_cli_request(const struct cli *cli, struct box_client *client, const char *action,
	const struct box_value *data, struct box_value *ret_answer)
{
	struct box_err err = {0};
	int r = box_cli_try_request(cli, client, action, data, ret_answer, &err);
	if (r < 0 && r != -EINTR) {
		(void)box_cli_fail(&err);
	}
	return r;
}

struct box_value box_cli_name_only(const struct cli *cli, const char *name)
{
	struct box_value data = box_map_value();
	box_map_add(cli->arena, &data, "session_id", box_cstr(name));
	return data;
}

/* A command must name its box with the members that it was created with, or it is refused. */
struct box_value box_cli_identity(const struct cli *cli, const struct box_value *info)
{
	struct box_value spec = box_map_value();
	static const char *const members[] = {"session_id", "network", "image", "host_path",
		"host_path_mode", "mount_path", "persistent", "cpus", "memory_mb", "pids_limit",
		"read_only_rootfs", "workspace_quota_mb", "egress", "volumes"};
	for (size_t i = 0; i < BOX_COUNT_OF(members); i++) {
		const struct box_value *value = box_map_get(info, members[i]);
		if (value) {
			box_map_add(cli->arena, &spec, members[i], *value);
		}
	}
	return spec;
}

int box_cli_session_spec(const struct cli *cli, struct box_client *client, const char *name,
	struct box_value *ret_spec)
{
	struct box_value data = box_cli_name_only(cli, name);
	struct box_value info;
	int r = box_cli_request(cli, client, "box_get_session", &data, &info);
	if (r == 0) {
		*ret_spec = box_cli_identity(cli, &info);
	}
	return r;
}

bool box_cli_is_c1(const char *bytes, size_t len)
{
	const unsigned char *at = (const unsigned char *)bytes;
	return len >= 2 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f;
}

void box_cli_print_text(const struct box_value *value, int width)
{
	int printed = 0;
	struct box_str text = value && value->type == BOX_STR ? value->str : box_str("-");
	for (size_t i = 0; i < text.len; i++) {
		char c = text.bytes[i];
		bool wide = box_cli_is_c1(text.bytes + i, text.len - i);
		bool control = (unsigned char)c < ' ' || c == 0x7f || wide;
		i += wide;
		(void)putchar(control ? '?' : c);
		printed += ((unsigned char)c & 0xc0) != 0x80; /* code points */
	}
	(void)printf("%*s", printed < width ? width - printed : 0, "");
}

/* JSON allows some control characters unescaped in strings; terminals obey them. */
static void print_escaped(const char *bytes, size_t len)
{
	size_t from = 0;
	for (size_t i = 0; i < len; i++) {
		bool wide = box_cli_is_c1(bytes + i, len - i);
		if (wide || bytes[i] == 0x7f) {
			(void)fwrite(bytes + from, 1, i - from, stdout);
			i += wide;
			(void)printf("\\u00%02x", (unsigned char)bytes[i]);
			from = i + 1;
		}
	}
	(void)fwrite(bytes + from, 1, len - from, stdout);
}

int box_cli_print_json(const struct box_value *value)
{
	struct box_buf text = box_buf(8 * BOX_MESSAGE_BYTES_MAX);
	if (box_json_encode(&text, value) == 0) {
		/* The line end is written separately: when a long text fails, something is left to flush, and
		 * its error is reported. */
		print_escaped(text.bytes, text.len);
		(void)putchar('\n');
	}
	box_buf_free(&text);
	return box_cli_flush();
}
