/* File actions with a single answer, from message to message: requests to a box, waiting for a
 * session, and the answers that clients get. */
#include "base/macros.h"
#include "tests/unit/lib/dispatch_fixture.h"

static void start_live(struct connection *c)
{
	start_with(c);
	make_live(c, "s");
}

#define A "\"session_id\":\"s\",\"path\":\"a\""

static const struct box_backend_file_request *asked(const char *below)
{
	return headless_find(HEADLESS_FILE, below)->ask;
}

TEST(what_is_asked_reaches_the_box)
{
	struct connection c = {0};
	start_live(&c);
	ask(&c, 1, "box_file_read", A ",\"offset\":3,\"length\":4");
	const struct box_backend_file_request *got = asked("a");
	ASSERT_STR(got->path.root, "/workspace");
	ASSERT_INT(got->offset, 3);
	ASSERT_INT(got->length, 4);
	const struct box_file_outcome read = {.data = {"data", 4}, .facts.size = 7};
	headless_filed("a", &read);
	expect_success(&c, 0, "1", "{\"data\":\"data\",\"offset\":3,\"size\":7,\"eof\":true}");
	ask(&c, 2, "box_file_write", A ",\"data_base64\":\"eHk=\",\"append\":true,\"mode\":384");
	got = asked("a");
	ASSERT(got->append && !got->at && !got->parents);
	ASSERT_INT(got->mode, 0600);
	ASSERT_BYTES(got->data.bytes, got->data.len, "xy", 2);
	const struct box_file_outcome written = {.written = 2, .facts.size = 9};
	headless_filed("a", &written);
	expect_success(&c, 1, "2", "{\"size\":9,\"written\":2}");
	ask(&c, 3, "box_file_move",
		"\"session_id\":\"s\",\"from\":\"a\",\"to\":\"/tmp/b\",\"replace\":true");
	got = asked("a");
	ASSERT_STR(got->to.root, "/tmp");
	ASSERT_STR(got->to.below, "b");
	ASSERT(got->replace);
	const struct box_file_outcome done = {0};
	headless_filed("a", &done);
	expect_success(&c, 2, "3", "{}");
	finish_with(&c);
}

TEST(a_list_is_told)
{
	static const struct box_file_facts entries[] = {
		{.name = {"a", 1},
			.type = BOX_FILE_TYPE_FILE,
			.mode = 0644,
			.size = 3,
			.mtime_ms = 7},
		{.name = {"b\xff", 2}, .type = BOX_FILE_TYPE_LINK, .target = {"x", 1}},
	};
	const struct box_file_outcome list = {.entries = entries, .entry_count = 2, .more = true};
	struct connection c = {0};
	start_live(&c);
	ask(&c, 1, "box_file_list", A ",\"limit\":2,\"after\":\"Z\"");
	ASSERT_INT(asked("a")->limit, 2);
	ASSERT_STR(asked("a")->after, "Z");
	headless_filed("a", &list);
	expect_success(&c, 0, "1",
		"{\"entries\":[{\"name\":\"a\",\"kind\":\"file\",\"size\":3,\"mode\":420,"
		"\"mtime_ms\":7},{\"name_base64\":\"Yv8=\",\"kind\":\"link\",\"size\":0,\"mode\":0,"
		"\"mtime_ms\":0,\"target\":\"x\"}],\"more\":true}");
	finish_with(&c);
}

TEST(text_that_does_not_fit_comes_as_base64)
{
	static char zeros[600];
	const struct box_file_outcome read = {.data = {zeros, 600}, .facts.size = 600};
	struct connection c = {.most = 1200};
	start_live(&c);
	ask(&c, 1, "box_file_read", A);
	headless_filed("a", &read);
	ASSERT_INT(c.count, 1);
	ASSERT(strstr(c.answers[0], "\"data_base64\":\"AAAA") != NULL);
	finish_with(&c);
}

TEST(a_failure_is_explained)
{
	const struct box_file_outcome out = {.errnum = EXDEV, .why = BOX_FILE_REFUSAL_OUTSIDE};
	struct connection c = {0};
	start_live(&c);
	ask(&c, 1, "box_file_stat", A);
	headless_filed("a", &out);
	expect_error(&c, 0, "1", "PermissionError: [EXDEV] /workspace/a: leads out of /workspace");
	finish_with(&c);
}

TEST(nothing_is_asked_for_bad_words)
{
	static const struct {
		const char *action;
		const char *data;
		const char *error;
	} rows[] = {
		{"box_file_read", "\"path\":\"a\"", "KeyError: 'session_id'"},
		{"box_file_read", "\"session_id\":\"s\"", "KeyError: 'path'"},
		{"box_file_read", "\"session_id\":\"s\",\"path\":\"\"",
			"BoxValidationError: path must not be empty"},
		{"box_file_read", "\"session_id\":\"s\",\"path\":\"\\u0000\"",
			"BoxValidationError: path has a NUL in it"},
		{"box_file_read", "\"session_id\":\"s\",\"path\":[]",
			"BoxValidationError: path must be text or bytes"},
		{"box_file_read", A ",\"path_base64\":\"YQ==\"",
			"BoxValidationError: path and path_base64 exclude each other"},
		{"box_file_read", A ",\"length\":8388609",
			"BoxValidationError: length must be 0 to 8388608"},
		{"box_file_read", A ",\"offset\":-1",
			"BoxValidationError: offset must be 0 to 9223372036846387199"},
		{"box_file_write", A, "KeyError: 'data'"},
		{"box_file_write", A ",\"data\":\"\",\"mode\":512",
			"BoxValidationError: mode must be 0 to 511"},
		{"box_file_write", A ",\"data\":\"\",\"offset\":0,\"append\":true",
			"BoxValidationError: offset and append exclude each other"},
		{"box_file_list", A ",\"limit\":0", "BoxValidationError: limit must be 1 to 10000"},
		{"box_file_move", "\"session_id\":\"s\",\"from\":\"a\"", "KeyError: 'to'"},
		{"box_file_move", "\"session_id\":\"s\",\"from\":\"a\",\"to\":\"\"",
			"BoxValidationError: to must not be empty"},
	};
	struct connection c = {0};
	start_live(&c);
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		ask(&c, 1, rows[i].action, rows[i].data);
		expect_error(&c, (int)i, "1", rows[i].error);
	}
	ASSERT_INT(headless.begun[HEADLESS_FILE], 0);
	finish_with(&c);
}

TEST(a_session_must_be_there)
{
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "box_file_stat", A);
	expect_error(&c, 0, "1", "BoxSessionNotFoundError: session " ID("s") " not found");
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 0);
	finish_with(&c);
}

TEST(one_that_is_being_made_is_waited_for)
{
	const struct box_file_outcome done = {0};
	struct connection c = {0};
	start_with(&c);
	ask(&c, 1, "box_create_session", "\"session_id\":\"s\"");
	ask(&c, 2, "box_file_mkdir", A);
	ask(&c, 3, "box_file_mkdir", "\"session_id\":\"s\",\"path\":\"\"");
	ASSERT_INT(headless.begun[HEADLESS_FILE], 0);
	headless_made();
	ASSERT_INT(c.count, 2);
	expect_error(&c, 1, "3", "BoxValidationError: path must not be empty");
	headless_filed("a", &done);
	expect_success(&c, 2, "2", "{}");
	finish_with(&c);
}

TEST(one_that_goes_takes_the_work_with_it)
{
	struct connection c = {0};
	start_live(&c);
	ask(&c, 1, "box_file_stat", A);
	ask(&c, 2, "box_delete_session", "\"session_id\":\"s\"");
	expect_error(&c, 0, "1",
		"BoxSessionNotFoundError: session " ID("s") " was removed while it was in use");
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], 1);
	ask(&c, 3, "box_file_stat", A); /* waits for its end, and recreates nothing */
	ASSERT_INT(c.count, 1);
	headless_gone();
	ASSERT_INT(c.count, 3);
	expect_error(&c, 2, "3", "BoxSessionNotFoundError: session " ID("s") " not found");
	ASSERT_INT(headless.begun[HEADLESS_MAKE], 1);
	finish_with(&c);
}

TEST(another_workspace_finds_nothing)
{
	struct connection c = {0};
	start_live(&c);
	receive(&c,
		"{\"seq_id\":1,\"action\":\"box_file_stat\",\"data\":{" A
		"},\"context\":{\"instance_uuid\":\"inst\",\"workspace_uuid\":\"other\","
		"\"placement_generation\":1}}");
	ASSERT(strstr(c.answers[0], "BoxSessionNotFoundError") != NULL);
	ASSERT_INT(headless.begun[HEADLESS_FILE], 0);
	finish_with(&c);
}

TEST(a_cancel_ends_it)
{
	struct connection c = {0};
	start_live(&c);
	ask(&c, 1, "box_file_remove", A ",\"recursive\":true");
	ASSERT(asked("a")->recursive);
	ask(&c, 2, "__cancel_action", "\"seq_id\":1");
	expect_success(&c, 0, "2", "{\"cancelled\":true}");
	ASSERT_INT(headless.cancelled[HEADLESS_FILE], 1);
	ASSERT_INT(headless_count(HEADLESS_FILE), 0);
	finish_with(&c);
}

TEST(so_much_at_once_and_no_more)
{
	const struct box_file_outcome done = {0};
	struct connection c = {0};
	start_live(&c);
	for (int i = 0; i < BOX_FILE_OPS_MAX; i++) {
		ask(&c, i, "box_file_stat", A);
	}
	ASSERT_INT(c.count, 0);
	ask(&c, 99, "box_file_stat", A);
	expect_error(&c, 0, "99",
		"BoxCapacityExceededError: too many file operations at once in one session (64, of "
		"these 16 watches)");
	headless_filed("a", &done);
	ask(&c, 100, "box_file_stat", A);
	ASSERT_INT(c.count, 2);
	for (int i = 0; i < BOX_FILE_OPS_MAX; i++) {
		headless_filed("a", &done);
	}
	ASSERT_INT(headless_count(HEADLESS_FILE), 0);
	finish_with(&c);
}
