/* The four states of the service are told apart. */
#include "base/arena.h"
#include "base/buf.h"
#include "client/service/service_status.h"
#include "tests/unit/lib/json_tree.h"

static void expect(const char *runtime, bool enabled, const char *why, const char *json)
{
	struct box_arena *arena = box_arena_new();
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	struct box_value value = tree(arena, runtime ? runtime : "null");
	const struct box_service_status_facts facts = {
		.enabled = enabled,
		.runtime = runtime ? &value : NULL,
		.why = why,
		.profile = "offline",
		.recent_errors = 3,
	};
	struct box_value status = box_service_status_value(arena, &facts);
	ASSERT_INT(box_json_encode(&out, &status), 0);
	ASSERT_BYTES(out.bytes, out.len, json, strlen(json));
	box_buf_free(&out);
	box_arena_free(arena);
}

TEST(disabled)
{
	expect(NULL, false, "whatever",
		"{\"state\":\"disabled\",\"available\":false,\"enabled\":false,"
		"\"profile\":\"offline\",\"recent_error_count\":3,\"connector_error\":"
		"\"Box runtime is disabled in config (box.enabled = false)\"}");
}

TEST(not_reachable)
{
	expect(NULL, true, "nobody listens",
		"{\"state\":\"unreachable\",\"available\":false,\"enabled\":true,"
		"\"profile\":\"offline\",\"recent_error_count\":3,"
		"\"connector_error\":\"nobody listens\"}");
	expect(NULL, true, NULL,
		"{\"state\":\"unreachable\",\"available\":false,\"enabled\":true,"
		"\"profile\":\"offline\",\"recent_error_count\":3,"
		"\"connector_error\":\"Box runtime is not connected\"}");
}

TEST(backend_dead)
{
	expect("{\"backend\":{\"name\":\"local\",\"available\":false},\"available\":true}", true,
		NULL,
		"{\"backend\":{\"name\":\"local\",\"available\":false},\"available\":false,"
		"\"state\":\"no_backend\",\"enabled\":true,\"profile\":\"offline\","
		"\"recent_error_count\":3,\"connector_error\":"
		"\"Configured sandbox backend \\\"local\\\" is unavailable\"}");
	expect("{\"backend\":{\"name\":null,\"available\":false}}", true, NULL,
		"{\"backend\":{\"name\":null,\"available\":false},\"state\":\"no_backend\","
		"\"available\":false,\"enabled\":true,\"profile\":\"offline\","
		"\"recent_error_count\":3,\"connector_error\":"
		"\"No supported sandbox backend is available\"}");
	/* A runtime that does not report one has none. */
	expect("{}", true, NULL,
		"{\"state\":\"no_backend\",\"available\":false,\"enabled\":true,"
		"\"profile\":\"offline\",\"recent_error_count\":3,\"connector_error\":"
		"\"No supported sandbox backend is available\"}");
}

TEST(well)
{
	expect("{\"backend\":{\"name\":\"local\",\"available\":true},\"active_sessions\":2}", true,
		NULL,
		"{\"backend\":{\"name\":\"local\",\"available\":true},\"active_sessions\":2,"
		"\"state\":\"well\",\"available\":true,\"enabled\":true,\"profile\":\"offline\","
		"\"recent_error_count\":3}");
}
