/* box_file_watch: changes of files in a box go out as parts of one answer. Events that the client does not
 * accept yet are held here, never more than the credit of the box; then the box waits, and events that its
 * kernel cannot hold meanwhile are reported as an overflow. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/list.h"
#include "handlers/actions.h"
#include "handlers/file_actions.h"
#include "runtime/session/file_text.h"

struct held {
	struct box_list links;
	struct box_file_event event;
	char bytes[]; /* of both paths */
};

struct watch {
	struct box_file_action asked; /* first: request->work points to it */
	struct box_request *request;
	struct box_list held;
	bool flushing;
	bool ended;
};

static void drop_held(struct watch *watch)
{
	struct box_list *item;
	while ((item = box_list_pop(&watch->held))) {
		free(BOX_CONTAINER_OF(item, struct held, links));
	}
}

/* --- out --- */

static void add_path(struct watch *watch, struct box_arena *arena, struct box_value *map,
	const char *key, const char *base64_key, struct box_str below)
{
	struct box_str path = box_file_text_join_path(arena, &watch->asked.file.ask.path, below);
	box_file_action_add_text(arena, map, key, base64_key, path);
}

static void send_event(struct watch *watch, const struct box_file_event *event)
{
	static const char *const names[] = {
		[BOX_FILE_CREATED] = "created",
		[BOX_FILE_CHANGED] = "changed",
		[BOX_FILE_REMOVED] = "removed",
		[BOX_FILE_MOVED] = "moved",
		[BOX_FILE_OVERFLOW] = "overflow",
	};
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "event", box_cstr(names[event->change]));
	if (event->change != BOX_FILE_OVERFLOW) {
		add_path(watch, arena, &map, "path", "path_base64", event->path);
		box_map_add(arena, &map, "is_folder", box_bool(event->is_folder));
	}
	if (event->change == BOX_FILE_MOVED) {
		add_path(watch, arena, &map, "from", "from_base64", event->from);
	}
	box_request_send_event(watch->request, &map);
}

/* Sends what may be sent; after the last event the end, which frees the watch. */
static void flush(struct watch *watch)
{
	/* Sending may find that there is room again and call this function. */
	if (watch->flushing) {
		return;
	}
	watch->flushing = true;
	while (!box_list_empty(&watch->held)) {
		if (!box_request_may_send(watch->request)) {
			break;
		}
		struct held *held = BOX_CONTAINER_OF(
			box_list_pop(&watch->held), struct held, links);
		uint64_t cost = held->event.cost;
		send_event(watch, &held->event);
		free(held);
		if (!watch->ended) {
			box_session_op_credit(watch->asked.op, cost);
		}
	}
	if (watch->ended && box_list_empty(&watch->held) && box_request_may_send(watch->request)) {
		box_request_end_parts(watch->request);
		return;
	}
	watch->flushing = false;
}

/* --- events of the box --- */

static void started(void *arg)
{
	struct box_request *request = arg;
	struct box_value event = box_map_value();
	box_map_add(request->arena, &event, "event", box_cstr("started"));
	box_request_send_event(request, &event);
}

static void changed(void *arg, const struct box_file_event *event)
{
	struct box_request *request = arg;
	struct watch *watch = request->work;
	struct held *held = box_alloc(sizeof(*held) + event->path.len + event->from.len + 1);
	held->event = *event;
	memcpy(held->bytes, event->path.bytes, event->path.len);
	memcpy(held->bytes + event->path.len, event->from.bytes, event->from.len);
	held->event.path.bytes = held->bytes;
	held->event.from.bytes = held->bytes + event->path.len;
	box_list_push(&watch->held, &held->links);
	flush(watch);
}

static const struct box_file_events events = {.started = started, .event = changed};

static void watch_done(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct box_request *request = arg;
	struct watch *watch = request->work;
	struct box_err own;
	if (!err && outcome->errnum != 0) {
		box_file_text_explain(request->arena, &watch->asked.file.ask, outcome, &own);
		err = &own;
	}
	if (err) {
		drop_held(watch);
		box_request_fail(request, err);
		return;
	}
	watch->asked.op = NULL;
	watch->ended = true;
	flush(watch);
}

/* --- the request --- */

static void watch_cancel(struct box_request *request)
{
	struct watch *watch = request->work;
	drop_held(watch);
	if (watch->asked.op) {
		box_session_op_cancel(watch->asked.op);
	}
}

static void watch_drained(struct box_request *request)
{
	flush(request->work);
}

void box_action_file_watch(struct box_request *request)
{
	struct watch *watch = box_arena_alloc(request->arena, sizeof(*watch));
	const struct box_value *recursive = box_request_field(request, "recursive");
	watch->request = request;
	box_list_init(&watch->held);
	watch->asked.file.events = &events;
	watch->asked.file.watches = true;
	watch->asked.file.ask = (struct box_backend_file_request){
		.kind = BOX_FILE_WATCH,
		.mode = -1,
		.recursive = recursive && recursive->boolean,
		.credit = BOX_FILE_OP_EVENTS_BYTES,
	};
	request->work = watch;
	if (box_file_action_begin(request, &watch->asked, watch_done) == 0) {
		request->cancel = watch_cancel;
		request->drained = watch_drained;
	}
}
