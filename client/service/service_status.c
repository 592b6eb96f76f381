/* Judges the state of the service, and builds its status as LangBot's own service has it. */
#include "client/service/service_status.h"

#include "base/arena.h"
#include "runtime/spec/fields.h"

#define DISABLED "Box runtime is disabled in config (box.enabled = false)"

static const struct box_value *find_backend(const struct box_service_status_facts *facts)
{
	return facts->runtime ? box_map_get(facts->runtime, "backend") : NULL;
}

enum box_service_status_kind box_service_status_judge(const struct box_service_status_facts *facts)
{
	const struct box_value *available = NULL;
	if (!facts->enabled) {
		return BOX_SERVICE_DISABLED;
	}
	if (!facts->runtime) {
		return BOX_SERVICE_UNREACHABLE;
	}
	if (find_backend(facts)) {
		available = box_map_get(find_backend(facts), "available");
	}
	return available && available->type == BOX_BOOL && available->boolean
		? BOX_SERVICE_HEALTHY
		: BOX_SERVICE_NO_BACKEND;
}

const char *box_service_status_name(enum box_service_status_kind state)
{
	static const char *const names[] = {
		[BOX_SERVICE_DISABLED] = "disabled",
		[BOX_SERVICE_UNREACHABLE] = "unreachable",
		[BOX_SERVICE_NO_BACKEND] = "no_backend",
		[BOX_SERVICE_HEALTHY] = "well", /* clients know it by this name */
	};
	return names[state];
}

static const char *explain(struct box_arena *arena, const struct box_service_status_facts *facts,
	enum box_service_status_kind state)
{
	const struct box_value *backend = find_backend(facts);
	const struct box_value *name = backend ? box_map_get(backend, "name") : NULL;
	const struct box_value *error = backend ? box_map_get(backend, "error") : NULL;
	switch (state) {
	case BOX_SERVICE_DISABLED:
		return DISABLED;
	case BOX_SERVICE_UNREACHABLE:
		return facts->why && facts->why[0] ? facts->why : "Box runtime is not connected";
	case BOX_SERVICE_NO_BACKEND:
		if (error && error->type == BOX_STR) {
			return box_arena_printf(
				arena, "%.*s", (int)error->str.len, error->str.bytes);
		}
		return name && name->type == BOX_STR
			? box_arena_printf(arena,
				  "Configured sandbox backend \"%s\" is unavailable",
				  box_fields_echo(arena, name->str))
			: "No supported sandbox backend is available";
	case BOX_SERVICE_HEALTHY:
		break;
	}
	return NULL;
}

struct box_value box_service_status_value(
	struct box_arena *arena, const struct box_service_status_facts *facts)
{
	enum box_service_status_kind state = box_service_status_judge(facts);
	const char *why = explain(arena, facts, state);
	struct box_value map = facts->runtime && state != BOX_SERVICE_DISABLED &&
			facts->runtime->type == BOX_MAP
		? box_value_copy(arena, facts->runtime)
		: box_map_value();
	box_map_set(arena, &map, box_str("state"), box_cstr(box_service_status_name(state)));
	box_map_set(arena, &map, box_str("available"), box_bool(state == BOX_SERVICE_HEALTHY));
	box_map_set(arena, &map, box_str("enabled"), box_bool(facts->enabled));
	box_map_set(arena, &map, box_str("profile"),
		facts->profile ? box_text(box_str(box_arena_strndup(
					 arena, facts->profile, strlen(facts->profile))))
			       : box_null());
	box_map_set(
		arena, &map, box_str("recent_error_count"), box_int((int64_t)facts->recent_errors));
	if (why) {
		box_map_set(arena, &map, box_str("connector_error"),
			box_cstr(box_arena_strndup(arena, why, strlen(why))));
	}
	return map;
}
