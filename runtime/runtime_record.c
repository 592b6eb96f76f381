/* What the runtime remembers beyond this process: the pinned instance, the fence, what clients
 * configured, sessions. Each is recorded as a change when it happens, dumped whole for a new record,
 * and taken in again by a successor, who believes none of it. */
#include "runtime/runtime_record.h"

#include <stdint.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "runtime/runtime.h"

/* How the changes of a layer are called in the record; NULL: it is not recorded. */
static const char *const layer_changes[BOX_RUNTIME_LAYERS_] = {
	[BOX_RUNTIME_LAYER_INIT] = "init",
	[BOX_RUNTIME_LAYER_REFUSED] = "refused",
};

void box_runtime_emit_layers(const struct box_runtime *runtime,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	for (int i = 0; i < BOX_RUNTIME_LAYERS_; i++) {
		if (layer_changes[i] && runtime->layers[i].arena) {
			struct box_value change = box_map_value();
			box_map_add(arena, &change, layer_changes[i], runtime->layers[i].map);
			emit(arg, &change);
		}
	}
}

/* --- instance and fence --- */

static struct box_value pin_change(struct box_arena *arena, const char *instance)
{
	struct box_value change = box_map_value();
	box_map_add(arena, &change, "pin", box_cstr(instance));
	return change;
}

static struct box_value fence_change(struct box_arena *arena, const struct box_context *context)
{
	struct box_value change = box_map_value();
	struct box_value place = box_list_value();
	box_list_add(arena, &place, box_text(context->instance));
	box_list_add(arena, &place, box_text(context->workspace));
	box_list_add(arena, &place, box_int(context->generation));
	box_map_add(arena, &change, "fence", place);
	return change;
}

void box_runtime_pin_instance(struct box_runtime *runtime, struct box_str instance)
{
	if (runtime->instance) {
		return;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	runtime->instance = box_strdup(box_arena_strndup(arena, instance.bytes, instance.len));
	BOX_LOG(BOX_LOG_INFO, "instance.claimed", box_log_str("instance", runtime->instance));
	struct box_value change = pin_change(arena, runtime->instance);
	runtime->host->record(runtime->host_arg, &change);
}

int box_runtime_enter_generation(struct box_runtime *runtime, const struct box_context *context,
	bool *ret_advanced, struct box_err *err)
{
	int r = box_generations_observe(runtime->fence, context,
		(size_t)runtime->config->limits.max_admission_records, ret_advanced, err);
	if (r < 0 || !*ret_advanced) {
		return r;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change = fence_change(arena, context);
	runtime->host->record(runtime->host_arg, &change);
	return 0;
}

/* --- the record for a successor --- */

void box_runtime_dump(const struct box_runtime *runtime,
	void (*emit)(void *arg, const struct box_value *change), void *arg)
{
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	struct box_value change;
	if (runtime->instance) {
		change = pin_change(arena, runtime->instance);
		emit(arg, &change);
	}
	box_runtime_emit_layers(runtime, emit, arg);
	uint64_t position = 0;
	struct box_context context;
	while (box_generations_next(runtime->fence, &position, &context)) {
		change = fence_change(arena, &context);
		emit(arg, &change);
	}
	box_sessions_dump(runtime->sessions, emit, arg);
}

static void replay_fence(struct box_runtime *runtime, const struct box_value *place)
{
	if (place->type != BOX_LIST || place->count != 3 || place->items[0].type != BOX_STR ||
		place->items[1].type != BOX_STR || place->items[2].type != BOX_INT ||
		box_str_has_nul(place->items[0].str)) {
		return;
	}
	struct box_context context = {
		place->items[0].str, place->items[1].str, place->items[2].integer};
	bool advanced;
	/* What was remembered once is not forgotten because the limit is lower now. */
	(void)box_generations_observe(runtime->fence, &context, SIZE_MAX, &advanced, NULL);
}

static void replay_layer(
	struct box_runtime *runtime, enum box_runtime_layer_kind layer, const struct box_value *map)
{
	struct box_err err;
	if (map && map->type == BOX_MAP && box_runtime_configure(runtime, layer, map, &err) < 0) {
		BOX_LOG(BOX_LOG_WARNING, "state.config_refused", box_log_str("why", err.text));
	}
}

void box_runtime_replay(struct box_runtime *runtime, const struct box_value *change)
{
	const struct box_value *pin = box_map_get(change, "pin");
	const struct box_value *fence = box_map_get(change, "fence");
	if (pin && pin->type == BOX_STR && !runtime->instance && !box_str_has_nul(pin->str)) {
		_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
		runtime->instance = box_strdup(
			box_arena_strndup(arena, pin->str.bytes, pin->str.len));
	}
	for (int i = 0; i < BOX_RUNTIME_LAYERS_; i++) {
		if (layer_changes[i]) {
			replay_layer(runtime, (enum box_runtime_layer_kind)i,
				box_map_get(change, layer_changes[i]));
		}
	}
	if (fence) {
		replay_fence(runtime, fence);
	}
	box_sessions_replay(runtime->sessions, change);
}
