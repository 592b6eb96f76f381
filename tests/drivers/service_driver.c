/* The service of libbox, driven by a test: one request per line on stdin, one answer per line on
 * stdout, both JSON. {"op": ...} gives {"gave": ...} or {"raised": {"type": ..., "message": ...}}.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/macros.h"
#include "client/service.h"
#include "codec/json.h"

#define RUNS_MAX 256
#define WAIT_MS 60000

static struct box_service *service;

static const char *text(struct box_arena *arena, const struct box_value *map, const char *key)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_STR
		? box_arena_strndup(arena, value->str.bytes, value->str.len)
		: NULL;
}

static int number(const struct box_value *map, const char *key, int otherwise)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_INT ? (int)value->integer : otherwise;
}

static bool flag(const struct box_value *map, const char *key)
{
	const struct box_value *value = box_map_get(map, key);
	return value && value->type == BOX_BOOL && value->boolean;
}

static struct box_value raised(struct box_arena *arena, const struct box_err *err)
{
	struct box_value answer = box_map_value();
	struct box_value why = box_map_value();
	const char *name = box_code_name(err->code);
	box_map_add(arena, &why, "type", box_cstr(name ? name : "BoxError"));
	box_map_add(arena, &why, "message",
		box_cstr(box_arena_strndup(arena, err->text, strlen(err->text))));
	box_map_add(arena, &answer, "raised", why);
	return answer;
}

static struct box_value gave(struct box_arena *arena, struct box_value value)
{
	struct box_value answer = box_map_value();
	box_map_add(arena, &answer, "gave", value);
	return answer;
}

/* --- one loop of our own --- */

/* Until `left` is 0. False after a timeout. */
static bool turn_until(const int *left)
{
	uint64_t end_ms = box_clock_ms() + WAIT_MS;
	while (*left > 0 && box_clock_ms() < end_ms) {
		struct pollfd ready = {
			.fd = box_service_fd(service), .events = box_service_poll_events(service)};
		int ms = box_service_timeout_ms(service);
		if (poll(&ready, 1, ms < 0 || ms > 1000 ? 1000 : ms) < 0 && errno != EINTR) {
			return false;
		}
		box_service_step(service);
	}
	return *left == 0;
}

struct heard {
	struct box_arena *arena;
	struct box_value answer;
	int *left;
};

static void hear(void *arg, const struct box_value *data, const struct box_err *err, bool last)
{
	struct heard *heard = arg;
	(void)last;
	heard->answer = err ? raised(heard->arena, err)
			    : gave(heard->arena, box_value_copy(heard->arena, data));
	--*heard->left;
}

/* --- orders --- */

static struct box_value open_service(struct box_arena *arena, const struct box_value *order)
{
	struct box_service_options options = {
		.config = box_map_get(order, "config"),
		.working_folder = text(arena, order, "working_folder"),
		.line =
			{
				.client =
					{
						.endpoint = text(arena, order, "endpoint"),
						.spawn = flag(order, "spawn"),
						.instance = text(arena, order, "instance"),
						.token = text(arena, order, "token"),
						.workspace = text(arena, order, "workspace"),
						.boxd = text(arena, order, "boxd"),
						.config = text(arena, order, "file"),
						.show_log = true,
					},
				.shares_filesystem = number(order, "shares", 0),
				.times = {.pause_ms = 100, .pause_max_ms = 200},
			},
	};
	struct box_client *client;
	struct box_err err;
	if (flag(order, "adopt")) {
		if (box_client_open(&options.line.client, &client, &err) < 0) {
			return raised(arena, &err);
		}
		options.given = box_line_adopt(client);
	}
	if (box_service_open(&options, &service, &err) < 0) {
		return raised(arena, &err);
	}
	struct box_value told = box_map_value();
	box_map_add(arena, &told, "enabled", box_bool(box_service_is_enabled(service)));
	box_map_add(arena, &told, "line", box_bool(box_service_line(service) != NULL));
	box_map_add(arena, &told, "default_workspace",
		box_cstr(box_service_default_workspace(service)));
	return gave(arena, told);
}

static struct box_service_run read_run(struct box_arena *arena, const struct box_value *order)
{
	return (struct box_service_run){
		.spec = box_map_get(order, "spec"),
		.query = box_map_get(order, "query"),
		.session_template = text(arena, order, "template"),
		.profile = text(arena, order, "profile"),
		.skills = box_map_get(order, "skills"),
		.create_only = flag(order, "create_only"),
	};
}

static struct box_value exec(struct box_arena *arena, const struct box_value *order)
{
	struct box_service_run run = read_run(arena, order);
	struct box_value result;
	struct box_err err;
	int r = box_service_exec(
		service, &run, number(order, "timeout_ms", WAIT_MS), arena, &result, &err);
	return r < 0 ? raised(arena, &err) : gave(arena, result);
}

/* All runs at once, with callbacks and our own loop; the answers are a list in the same order. With
 * `cancel` all but the first are cancelled. */
static struct box_value many(struct box_arena *arena, const struct box_value *order)
{
	static struct heard heard[RUNS_MAX];
	const struct box_value *runs = box_map_get(order, "runs");
	struct box_value list = box_list_value();
	int left = 0;
	for (uint32_t i = 0; i < runs->count && i < RUNS_MAX; i++) {
		struct box_service_run run = read_run(arena, &runs->items[i]);
		struct box_err err;
		int64_t id;
		heard[i] = (struct heard){arena, box_null(), &left};
		if (box_service_submit(service, &run, hear, &heard[i], &id, &err) < 0) {
			heard[i].answer = raised(arena, &err);
		} else if (i > 0 && flag(order, "cancel")) {
			box_service_cancel(service, id);
		} else {
			left++;
		}
	}
	if (!turn_until(&left)) {
		return box_null();
	}
	for (uint32_t i = 0; i < runs->count && i < RUNS_MAX; i++) {
		box_list_add(arena, &list, heard[i].answer);
	}
	return gave(arena, list);
}

static struct box_value status(struct box_arena *arena, const struct box_value *order)
{
	struct heard heard = {arena, box_null(), NULL};
	int left = 1;
	struct box_err err;
	if (!flag(order, "async")) {
		return gave(arena,
			box_service_status(service, number(order, "timeout_ms", 5000), arena));
	}
	heard.left = &left;
	if (box_service_submit_status(service, hear, &heard, NULL, &err) < 0) {
		return raised(arena, &err);
	}
	return turn_until(&left) ? heard.answer : box_null();
}

static struct box_value explain(struct box_arena *arena, const struct box_value *order)
{
	struct box_service_run run = read_run(arena, order);
	struct box_value told = box_map_value();
	struct box_value spec;
	struct box_value notes;
	struct box_err err;
	if (box_service_explain(service, &run, arena, &spec, &notes, &err) < 0) {
		return raised(arena, &err);
	}
	box_map_add(arena, &told, "spec", spec);
	box_map_add(arena, &told, "notes", notes);
	return gave(arena, told);
}

static struct box_value call(struct box_arena *arena, const struct box_value *order)
{
	struct box_value result;
	struct box_err err;
	int r = box_line_call(box_service_line(service), text(arena, order, "action"),
		box_map_get(order, "data"), WAIT_MS, arena, &result, &err);
	return r < 0 ? raised(arena, &err) : gave(arena, result);
}

static struct box_value wait_up(struct box_arena *arena, const struct box_value *order)
{
	struct box_err err;
	int r = box_service_wait_up(service, number(order, "timeout_ms", WAIT_MS), &err);
	return r < 0 ? raised(arena, &err) : gave(arena, box_bool(true));
}

static struct box_value errors(struct box_arena *arena, const struct box_value *order)
{
	(void)order;
	return gave(arena, box_service_errors(service, arena));
}

static const struct {
	const char *op;
	struct box_value (*run)(struct box_arena *arena, const struct box_value *order);
} orders[] = {
	{"open", open_service},
	{"exec", exec},
	{"many", many},
	{"status", status},
	{"explain", explain},
	{"call", call},
	{"wait_up", wait_up},
	{"errors", errors},
};

static struct box_value obey(struct box_arena *arena, const struct box_value *order)
{
	const char *op = text(arena, order, "op");
	for (size_t i = 0; op && i < BOX_COUNT_OF(orders); i++) {
		if (strcmp(op, orders[i].op) == 0 && (service || i == 0)) {
			return orders[i].run(arena, order);
		}
	}
	return box_null();
}

int main(void)
{
	char *line = NULL;
	size_t room = 0;
	ssize_t len;
	(void)signal(SIGPIPE, SIG_IGN);
	while ((len = getline(&line, &room, stdin)) > 0) {
		struct box_arena *arena = box_arena_new();
		struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
		struct box_value order;
		const char *why;
		if (box_json_decode(arena, line, (size_t)len, &order, &why) < 0) {
			(void)fprintf(stderr, "no JSON: %s\n", why);
			return 1;
		}
		struct box_value answer = obey(arena, &order);
		if (box_json_encode(&out, &answer) < 0) {
			return 1;
		}
		(void)printf("%.*s\n", (int)out.len, out.bytes);
		(void)fflush(stdout);
		box_buf_free(&out);
		box_arena_free(arena);
	}
	box_service_close(service);
	free(line);
	return 0;
}
