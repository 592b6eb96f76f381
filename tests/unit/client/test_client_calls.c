/* What each call sends, and that every action of the runtime has a call. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "client/calls.h"
#include "codec/json.h"
#include "handlers/actions.h"
#include "tests/unit/lib/fake_runtime_child.h"

#define ASSERT_SENT(action, args, expected)                                           \
	do {                                                                          \
		struct box_arena *arena_ = box_arena_new();                           \
		struct box_buf text_ = box_buf(BOX_MIB);                              \
		struct box_value data_;                                               \
		ASSERT_INT(box_call_data((action), (args), arena_, &data_, NULL), 0); \
		ASSERT_INT(box_json_encode(&text_, &data_), 0);                       \
		ASSERT_BYTES(text_.bytes, text_.len, (expected), strlen(expected));   \
		box_buf_free(&text_);                                                 \
		box_arena_free(arena_);                                               \
	} while (0)

TEST(there_is_a_call_for_every_action)
{
	/* These act on other requests, and belong to box_line_* and box_exec_*. */
	static const char *const elsewhere[] = {"__file_chunk", "__cancel_action", "__stream_ack",
		"box_exec_stream", "box_exec_input", "box_exec_resize", "box_exec_signal"};
	struct box_arena *arena = box_arena_new();
	for (size_t i = 0; i < box_actions_count; i++) {
		const char *name = box_actions[i].name;
		struct box_value data;
		bool left_out = false;
		for (size_t k = 0; k < COUNT(elsewhere); k++) {
			left_out = left_out || strcmp(elsewhere[k], name) == 0;
		}
		if (box_call_data(name, NULL, arena, &data, NULL) != (left_out ? -ENOENT : 0)) {
			TEST_FAIL("%s", name);
		}
	}
	box_arena_free(arena);
}

TEST(an_action_that_nobody_knows_is_refused)
{
	struct box_err err;
	struct box_value data = box_null();
	struct box_arena *arena = box_arena_new();
	ASSERT_INT(box_call_data("box_fly", NULL, arena, &data, &err), -ENOENT);
	ASSERT_STR(err.text, "no such action: box_fly");
	ASSERT_INT(data.type, BOX_NULL);
	box_arena_free(arena);
}

TEST(what_is_not_given_is_not_sent)
{
	const struct box_spec_args spec = {0};
	const struct box_file_read_args read_args = {.session_id = "s"};
	ASSERT_SENT("box_exec", &spec, "{}");
	ASSERT_SENT("box_status", NULL, "{}");
	ASSERT_SENT("box_file_read", &read_args, "{\"session_id\":\"s\"}");
}

TEST(a_whole_spec)
{
	struct box_arena *arena = box_arena_new();
	struct box_value env = box_map_value();
	struct box_value mounts = box_list_value();
	box_map_add(arena, &env, "A", box_cstr("b"));
	box_list_add(arena, &mounts, box_map_value());
	struct box_value ports = box_list_value();
	struct box_value egress = box_map_value();
	box_list_add(arena, &ports, box_int(8080));
	box_map_add(arena, &egress, "host_ports", ports);
	const struct box_spec_args spec = {
		.session_id = "s",
		.cmd = "id",
		.workdir = "/w",
		.timeout_sec = 5,
		.network = "on",
		.env = &env,
		.image = "i",
		.host_path = "/h",
		.host_path_mode = "ro",
		.mount_path = "/w",
		.extra_mounts = &mounts,
		.skill_name = "k",
		.persistent = true,
		.cpus = 0.5,
		.memory_mb = 64,
		.pids_limit = 9,
		.writable_rootfs = true,
		.workspace_quota_mb = 7,
		.volumes = &mounts,
		.idle_timeout_sec = 60,
		.max_duration_sec = 600,
		.egress = &egress,
	};
	ASSERT_SENT("box_exec", &spec,
		"{\"session_id\":\"s\",\"cmd\":\"id\",\"workdir\":\"/w\",\"timeout_sec\":5,"
		"\"network\":\"on\",\"env\":{\"A\":\"b\"},\"image\":\"i\",\"host_path\":\"/h\","
		"\"host_path_mode\":\"ro\",\"mount_path\":\"/w\",\"extra_mounts\":[{}],"
		"\"skill_name\":\"k\",\"persistent\":true,\"cpus\":0.5,\"memory_mb\":64,"
		"\"pids_limit\":9,\"read_only_rootfs\":false,\"workspace_quota_mb\":7,"
		"\"volumes\":[{}],\"idle_timeout_sec\":60,\"max_duration_sec\":600,"
		"\"egress\":{\"host_ports\":[8080]}}");
	box_arena_free(arena);
}

TEST(a_process_has_its_spec_inside)
{
	const struct box_start_process_args args = {
		.session_id = "s", .process_id = "p", .command = "cat", .memory_mb = 64};
	const struct box_start_process_args least = {.session_id = "s"};
	ASSERT_SENT("box_start_managed_process", &args,
		"{\"session_id\":\"s\",\"spec\":{\"process_id\":\"p\",\"command\":\"cat\","
		"\"memory_mb\":64}}");
	ASSERT_SENT("box_start_managed_process", &least, "{\"session_id\":\"s\",\"spec\":{}}");
}

TEST(a_map_goes_as_it_is)
{
	struct box_arena *arena = box_arena_new();
	struct box_value config = box_map_value();
	box_map_add(arena, &config, "backend", box_cstr("fake"));
	const struct box_map_args args = {&config};
	ASSERT_SENT("box_init", &args, "{\"backend\":\"fake\"}");
	box_arena_free(arena);
}

TEST(files_bytes_and_names)
{
	const int64_t start = 0;
	struct box_file_write_args args = {
		.session_id = "s", .path = "a", .data = {"\xff", 1}, .parents = true};
	struct box_arena *arena = box_arena_new();
	struct box_value data;
	ASSERT_INT(box_call_data("box_file_write", &args, arena, &data, NULL), 0);
	ASSERT_INT(data.count, 4);
	ASSERT_INT(box_map_get(&data, "data")->type, BOX_BIN);
	ASSERT(!box_map_get(&data, "offset"));
	/* Offset 0 is sent, and a name may contain any bytes. */
	args = (struct box_file_write_args){.path = "\xff", .offset = &start};
	ASSERT_INT(box_call_data("box_file_write", &args, arena, &data, NULL), 0);
	ASSERT_INT(number(&data, "offset"), 0);
	ASSERT_INT(box_map_get(&data, "path")->type, BOX_BIN);
	ASSERT_INT(box_map_get(&data, "data")->str.len, 0);
	box_arena_free(arena);
}

TEST(skills)
{
	const struct box_skill_write_args write_args = {"n", "p", {"c", 1}};
	const struct box_skill_zip_args zip = {.file_key = "k", .filename = "f.zip"};
	const struct box_skill_files_args files = {
		.name = "n", .include_hidden = true, .max_entries = 5};
	ASSERT_SENT("box_write_skill_file", &write_args,
		"{\"name\":\"n\",\"path\":\"p\",\"content\":\"c\"}");
	ASSERT_SENT("box_install_skill_zip", &zip, "{\"file_key\":\"k\",\"filename\":\"f.zip\"}");
	ASSERT_SENT("box_list_skill_files", &files,
		"{\"name\":\"n\",\"include_hidden\":true,\"max_entries\":5}");
}

TEST(members_of_answers)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	box_map_add(arena, &map, "n", box_int(3));
	box_map_add(arena, &map, "b", box_bool(true));
	box_map_add(arena, &map, "s", box_cstr("x"));
	ASSERT_INT(box_get_int(&map, "n", -1), 3);
	ASSERT_INT(box_get_int(&map, "s", -1), -1);
	ASSERT(box_get_bool(&map, "b", false));
	ASSERT(box_get_bool(&map, "n", true));
	ASSERT(box_str_eq(box_get_str(&map, "s"), "x"));
	ASSERT_INT(box_get_str(&map, "none").len, 0);
	box_arena_free(arena);
}

/* --- uploads: the runtime accepts pieces in order, and reports them --- */

static struct box_line *adopt_double(void)
{
	char self[4096] = "";
	struct box_client *client;
	ASSERT(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
	ASSERT_INT(setenv(DOUBLE, "serves", 1), 0);
	const struct box_client_options options = {.spawn = true, .boxd = self};
	ASSERT_INT(box_client_open(&options, &client, NULL), 0);
	ASSERT_INT(unsetenv(DOUBLE), 0);
	return box_line_adopt(client);
}

static void assert_pieces(size_t len, const char *expected)
{
	struct box_line *line = adopt_double();
	struct box_arena *arena = box_arena_new();
	char key[BOX_UPLOAD_KEY_SIZE] = "";
	char *bytes = box_alloc(len + 1);
	struct box_value seen;
	ASSERT_INT(box_upload(line, bytes, len, key, NULL), 0);
	ASSERT_INT(strlen(key), 36);
	ASSERT_INT(box_line_call(line, "seen", NULL, 20000, arena, &seen, NULL), 0);
	struct box_str text = box_get_str(&seen, "seen");
	ASSERT_BYTES(text.bytes, text.len, expected, strlen(expected));
	free(bytes);
	box_arena_free(arena);
	box_line_close(line);
}

TEST(uploads_go_in_pieces)
{
	assert_pieces(0, "0/1:0 ");
	assert_pieces(1, "0/1:1 ");
	assert_pieces(16384, "0/1:16384 ");
	assert_pieces(16385, "0/2:16384 1/2:1 ");
	assert_pieces(10 * 16384,
		"0/10:16384 1/10:16384 2/10:16384 3/10:16384 4/10:16384 5/10:16384 6/10:16384 "
		"7/10:16384 8/10:16384 9/10:16384 ");
}

TEST(an_upload_that_is_refused_ends_once)
{
	struct box_line *line = adopt_double();
	struct box_err err;
	char key[BOX_UPLOAD_KEY_SIZE] = "as before";
	char *bytes = box_alloc(40 * 16384);
	/* The runtime has no room for the 20th piece. */
	ASSERT_INT(box_upload(line, bytes, 40 * 16384, key, &err), -EINVAL);
	ASSERT_STR(err.text, "too large");
	ASSERT_STR(key, "as before");
	free(bytes);
	box_line_close(line);
}
