/* What is recorded about sessions and how a successor replays it; also boxes that end by
 * themselves. */
#include "base/log.h"
#include "tests/unit/lib/session_fixture.h"

#define CHANGES_MAX 32
#define WORKSPACE "ws-108378aeed2d7cca4480d35e"
#define OWNER "\"instance_uuid\":\"inst\",\"workspace_uuid\":\"ws\"" /* of WORKSPACE */

static char *changes[CHANGES_MAX];
static int change_count;

static void on_change(void *arg, const struct box_value *change)
{
	ASSERT(arg == &changes && change_count < CHANGES_MAX);
	struct box_arena *arena = box_arena_new();
	changes[change_count++] = box_strdup(json(arena, change));
	box_arena_free(arena);
}

static void forget_changes(void)
{
	while (change_count > 0) {
		free(changes[--change_count]);
	}
}

static void start_recording(void)
{
	box_log_setup("test", BOX_LOG_ERROR, BOX_LOG_TEXT);
	start();
	rules.changed = on_change;
	rules.changed_arg = &changes;
}

static void finish_recording(void)
{
	finish();
	forget_changes();
}

/* A running session whose box can be found again by `mark`. */
static struct box_backend_box *make_marked(const char *id, uint64_t mark)
{
	struct note note = {0};
	headless.mark = mark;
	(void)open_in(&first, id, &note);
	struct box_backend_box *box = headless_find(HEADLESS_MAKE, NULL)->box;
	headless_made();
	ASSERT_INT(note.calls, 1);
	return box;
}

/* The box of a predecessor's session, as the backend offers it to the successor. */
static void leave_box(uint64_t mark)
{
	headless.kept = box_alloc(sizeof(*headless.kept));
	headless.kept->mark = mark;
	headless.boxes++;
}

static void replay(const char *change)
{
	struct box_arena *arena = box_arena_new();
	struct box_value value = tree(arena, change);
	box_sessions_replay(sessions, &value);
	box_arena_free(arena); /* nothing in it may still be used */
}

static const char *info_of(struct box_arena *arena, const char *physical_id)
{
	struct box_err err;
	struct box_session *session = box_sessions_find(sessions, physical_id, &err);
	ASSERT(session != NULL);
	struct box_value info = box_session_info(session, arena);
	box_map_set(arena, &info, box_str("last_used_at"), box_null());
	return json(arena, &info);
}

/* --- writing --- */

#define SPEC                                                                                \
	"{\"session_id\":\"s\",\"image\":\"image\",\"network\":\"off\",\"host_path\":null," \
	"\"host_path_mode\":\"rw\",\"mount_path\":\"/workspace\",\"persistent\":false,"     \
	"\"cpus\":1.0,\"memory_mb\":512,\"pids_limit\":128,\"read_only_rootfs\":true,"      \
	"\"workspace_quota_mb\":0}"

TEST(a_session_is_recorded_when_it_lives_and_when_it_is_gone)
{
	struct note note = {0};
	char wanted[1024];
	start_recording();
	headless.mark = 42;
	(void)open_in(&first, "s", &note);
	ASSERT_INT(change_count, 0);
	headless_made();
	ASSERT_INT(change_count, 1);
	const char *created = strstr(changes[0], "\"created\":");
	ASSERT(created != NULL);
	(void)snprintf(wanted, sizeof(wanted),
		"{\"session\":{\"id\":\"" ID(
			"s") "\",\"logical\":\"s\",\"workspace\":\"" WORKSPACE
			     "\",\"generation\":1," OWNER
			     ",\"backend\":\"headless\",\"created\":%lld,\"mark\":42,"
			     "\"spec\":" SPEC "}}",
		strtoll(created + strlen("\"created\":"), NULL, 10));
	ASSERT_STR(changes[0], wanted);
	struct note removed = {0};
	(void)remove_id(ID("s"), &removed);
	ASSERT_INT(change_count, 2);
	ASSERT_STR(changes[1], "{\"removing\":\"" ID("s") "\"}");
	headless_gone();
	ASSERT_INT(change_count, 3);
	ASSERT_STR(changes[2], "{\"removed\":\"" ID("s") "\"}");
	finish_recording();
}

/* A full dump, as the file sometimes is. */
static void write_anew(void *arg, const struct box_value *change)
{
	(void)change;
	forget_changes();
	box_sessions_dump(sessions, on_change, arg);
}

TEST(a_session_that_is_gone_is_not_written_anew)
{
	struct note removed = {0};
	start_recording();
	rules.changed = write_anew;
	(void)make_marked("s", 42);
	ASSERT_INT(change_count, 1);
	(void)remove_id(ID("s"), &removed);
	headless_gone();
	ASSERT_INT(change_count, 0);
	finish_recording();
}

TEST(what_cannot_be_found_again_is_not_recorded)
{
	struct note note = {0};
	start_recording();
	make_live("unmarked");
	headless.mark = 42;
	(void)open_in(&first, "failing", &note);
	headless_make_failed(BOX_ERR_BOX, "no");
	struct note cancelled = {0};
	box_session_op_cancel(open_in(&first, "cancelled", &cancelled));
	(void)open_in(&first, "making", &note);
	box_sessions_dump(sessions, on_change, &changes);
	ASSERT_INT(change_count, 0);
	box_sessions_remove_all(sessions);
	headless_gone();
	ASSERT_INT(change_count, 0);
	finish_recording();
}

TEST(without_a_recorder_sessions_live_all_the_same)
{
	start();
	headless.mark = 42;
	make_live("s");
	box_sessions_dump(sessions, on_change, &changes);
	ASSERT_INT(change_count, 1);
	finish_recording();
}

/* --- reading --- */

TEST(a_successor_has_the_same_sessions)
{
	struct box_arena *arena = box_arena_new();
	start_recording();
	(void)make_marked("s", 42);
	(void)make_marked("t", 0);
	const char *before = info_of(arena, ID("s"));
	forget_changes();
	box_sessions_dump(sessions, on_change, &changes);
	ASSERT_INT(change_count, 1);
	const char *dumped = box_arena_strndup(arena, changes[0], strlen(changes[0]));

	struct box_sessions *predecessor = sessions;
	sessions = box_sessions_new(&rules);
	replay(dumped);
	ASSERT_INT(box_sessions_count(sessions), 1);
	leave_box(42);
	forget_changes();
	box_sessions_adopt(sessions);
	ASSERT(headless.kept == NULL);
	ASSERT_STR(info_of(arena, ID("s")), before);
	/* The successor records it again for its own successor. */
	ASSERT_INT(change_count, 1);
	ASSERT_STR(changes[0], dumped);
	box_sessions_dump(sessions, on_change, &changes);
	ASSERT_INT(change_count, 2);
	ASSERT_STR(changes[1], dumped);
	/* It can be used and listed, and its spec is still in force. */
	struct note note = {0};
	(void)exec("s", "true", &note);
	headless_ran("true", &good);
	expect_ran(&note, "fine");
	struct box_value list = box_sessions_list(sessions, &first, arena);
	ASSERT_INT(list.count, 1);
	ASSERT_INT(box_sessions_count_workspace(sessions, &first), 1);
	ASSERT_INT(box_sessions_count_workspace(sessions, &elsewhere), 0);
	struct box_err err;
	struct box_spec other = spec_of("true");
	other.memory_mb = 1024;
	ASSERT(box_sessions_exec(sessions, ID("s"), &first, &other, NULL, on_ran, &note, &err) ==
		NULL);
	ASSERT_STR(err.text, "Box session " ID("s") " already exists with memory_mb=512");
	box_sessions_remove_all(predecessor);
	box_sessions_remove_all(sessions);
	while (headless.pending) {
		headless_gone();
	}
	box_sessions_free(predecessor);
	box_arena_free(arena);
	finish_recording();
}

/* The network allowlist is part of a session. */
TEST(a_successor_has_the_same_egress)
{
	struct box_arena *arena = box_arena_new();
	struct box_egress egress = {.limited = 1,
		.allow_count = 1,
		.allow = {{.address = 0x0a000000, .prefix = 8, .port = 53}},
		.host_port_count = 1,
		.host_ports = {8080}};
	struct box_session *session = NULL;
	struct box_session_op *op = NULL;
	struct box_err err;
	struct note note = {0};
	struct box_spec spec = spec_of("");
	spec.network_on = true;
	spec.egress = &egress;
	start_recording();
	headless.mark = 42;
	ASSERT_INT(box_sessions_open(
			   sessions, ID("s"), &first, &spec, on_opened, &note, &session, &op, &err),
		1);
	headless_made();
	const char *before = info_of(arena, ID("s"));
	const char *shown = "\"egress\":{\"allow\":[\"10.0.0.0/8:53\"],\"host_ports\":[8080]},"
			    "\"host_address\":\"127.66.0.42\","
			    "\"host_address_inside\":\"198.18.0.3\",";
	ASSERT(strstr(before, shown) != NULL);
	const char *dumped = box_arena_strndup(arena, changes[0], strlen(changes[0]));

	struct box_sessions *predecessor = sessions;
	sessions = box_sessions_new(&rules);
	replay(dumped);
	leave_box(42);
	box_sessions_adopt(sessions);
	ASSERT_STR(info_of(arena, ID("s")), before);
	struct box_spec other = spec_of("true");
	other.network_on = true;
	ASSERT(box_sessions_exec(sessions, ID("s"), &first, &other, NULL, on_ran, &note, &err) ==
		NULL);
	ASSERT_STR(err.text,
		"Box session " ID("s") " already exists with egress=allow "
				       "10.0.0.0/8:53, host_ports 8080");
	box_sessions_remove_all(predecessor);
	box_sessions_remove_all(sessions);
	while (headless.pending) {
		headless_gone();
	}
	box_sessions_free(predecessor);
	box_arena_free(arena);
	finish_recording();
}

TEST(a_session_whose_box_is_no_more_is_forgotten)
{
	start_recording();
	(void)make_marked("s", 42);
	char *dumped = box_strdup(changes[0]);
	struct note removed = {0};
	(void)remove_id(ID("s"), &removed);
	headless_gone();
	forget_changes();
	replay(dumped);
	ASSERT_INT(box_sessions_count(sessions), 1);
	leave_box(43); /* another box */
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(change_count, 1);
	ASSERT_STR(changes[0], "{\"removed\":\"" ID("s") "\"}");
	ASSERT(headless.kept != NULL);
	headless_box_free(headless.kept);
	/* Its name is free. */
	headless.mark = 0;
	make_live("s");
	free(dumped);
	finish_recording();
}

/* Its client was told that it is gone, then this process ended: a successor does not restore it,
 * and requests for its id wait for the end of its box. */
TEST(a_successor_goes_on_removing)
{
	struct note running = {0};
	struct note next = {0};
	start_recording();
	(void)make_marked("s", 42);
	(void)exec("s", "slow", &running);
	headless_ran("slow", &(struct box_backend_exec_outcome){.reason = BOX_BACKEND_END_TIMEOUT});
	ASSERT_INT(running.calls, 1);
	ASSERT_INT(running.shown_then, 0);
	ASSERT_INT(change_count, 2);
	char *dumped[2] = {box_strdup(changes[0]), box_strdup(changes[1])};
	box_sessions_dump(sessions, on_change, &changes);
	ASSERT_INT(change_count, 4);
	ASSERT_STR(changes[2], dumped[0]);
	ASSERT_STR(changes[3], "{\"removing\":\"" ID("s") "\"}");
	finish_recording();

	start_recording();
	replay(dumped[0]);
	replay(dumped[1]);
	expect_not_shown(ID("s"), 0);
	leave_box(42);
	box_sessions_adopt(sessions);
	ASSERT(headless.kept == NULL);
	expect_not_shown(ID("s"), 0);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless.mark = 43;
	(void)exec("s", "next", &next);
	ASSERT_INT(headless_count(HEADLESS_MAKE), 0);
	headless_gone();
	headless_made();
	headless_ran("next", &good);
	expect_ran(&next, "fine");
	finish_recording();

	/* Its box does not exist, or the record is wrong. */
	start_recording();
	replay(dumped[1]);
	ASSERT_INT(box_sessions_count(sessions), 0);
	replay(dumped[0]);
	replay(dumped[1]);
	replay(dumped[1]);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(box_sessions_count_shown(sessions), 0);
	headless.mark = 0;
	make_live("s");
	free(dumped[0]);
	free(dumped[1]);
	finish_recording();
}

/* The box ends before boxd has reported which boxes there are. */
TEST(sessions_that_are_not_adopted_yet_are_removed)
{
	start_recording();
	(void)make_marked("s", 42);
	char *dumped = box_strdup(changes[0]);
	struct note removed = {0};
	(void)remove_id(ID("s"), &removed);
	headless_gone();
	replay(dumped);
	box_sessions_remove_all(sessions);
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(headless.begun[HEADLESS_DESTROY], 1); /* of the first box */
	free(dumped);
	finish_recording();
}

TEST(adopting_leaves_other_sessions_alone)
{
	struct note making = {0};
	start_recording();
	(void)make_marked("live", 1);
	(void)open_in(&first, "making", &making);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 2);
	headless_made();
	ASSERT_INT(making.calls, 1);
	finish_recording();
}

static struct box_value good_record(struct box_arena *arena)
{
	return tree(arena,
		"{\"id\":\"" ID("s") "\",\"logical\":\"s\",\"workspace\":\"" WORKSPACE
				     "\",\"generation\":1," OWNER
				     ",\"backend\":\"headless\",\"created\":1700000000000000,"
				     "\"mark\":42,\"spec\":" SPEC "}");
}

static size_t replay_record(struct box_arena *arena, struct box_value record)
{
	struct box_value change = box_map_value();
	box_map_add(arena, &change, "session", record);
	box_sessions_replay(sessions, &change);
	return box_sessions_count(sessions);
}

TEST(records_that_do_not_fit_are_ignored)
{
	static const struct {
		const char *member;
		const char *value;
	} rows[] = {
		{"id", "null"},
		{"id", "5"},
		{"id", "\"\""},
		{"id", "\"a\\u0000b\""},
		{"id", "[]"},
		{"logical", "null"},
		{"logical", "{}"},
		{"logical", "\"\""},
		{"logical", "\"\\u0000\""},
		{"workspace", "null"},
		{"workspace", "1"},
		{"workspace", "\"\""},
		{"workspace", "\"" HEX64 HEX64 "\""},
		{"instance_uuid", "null"},
		{"instance_uuid", "\"other\""},
		{"workspace_uuid", "1"},
		{"workspace_uuid", "\"other\""},
		{"backend", "null"},
		{"backend", "true"},
		{"backend", "\"\""},
		{"mark", "0"},
		{"mark", "null"},
		{"mark", "\"42\""},
		{"mark", "42.0"},
		{"mark", "[42]"},
		{"spec", "null"},
		{"spec", "[]"},
		{"spec", "\"s\""},
		{"spec", "{}"},
		{"spec", "{\"session_id\":\"s\",\"memory_mb\":-1}"},
		{"spec", "{\"session_id\":\"s\",\"cpus\":\"many\"}"},
		{"spec", "{\"session_id\":\"s\",\"mount_path\":\"relative\"}"},
		{"spec", "{\"session_id\":\"s\",\"network\":\"maybe\"}"},
		{"spec", "{\"session_id\":\"s\",\"unknown\":1}"},
	};
	struct box_arena *arena = box_arena_new();
	start_recording();
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_value record = good_record(arena);
		box_map_set(arena, &record, box_str(rows[i].member), tree(arena, rows[i].value));
		if (replay_record(arena, record) != 0) {
			TEST_FAIL("%s = %s was taken", rows[i].member, rows[i].value);
		}
	}
	/* Exactly these members were wrong. */
	ASSERT_INT(replay_record(arena, good_record(arena)), 1);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 0);
	box_arena_free(arena);
	finish_recording();
}

TEST(changes_that_are_none_are_ignored)
{
	static const char *const rows[] = {
		"{}",
		"[]",
		"5",
		"null",
		"{\"session\":5}",
		"{\"session\":null}",
		"{\"session\":[]}",
		"{\"session\":{}}",
		"{\"removed\":5}",
		"{\"removed\":null}",
		"{\"removed\":\"\"}",
		"{\"removed\":\"nobody\"}",
		"{\"other\":{}}",
	};
	struct box_arena *arena = box_arena_new();
	start_recording();
	ASSERT_INT(replay_record(arena, good_record(arena)), 1);
	for (size_t i = 0; i < COUNT(rows); i++) {
		replay(rows[i]);
		ASSERT_INT(box_sessions_count(sessions), 1);
	}
	replay("{\"removed\":\"" ID("s") "\"}");
	ASSERT_INT(box_sessions_count(sessions), 0);
	ASSERT_INT(change_count, 0); /* a replay records nothing */
	box_arena_free(arena);
	finish_recording();
}

TEST(of_two_sessions_of_one_name_the_first_counts)
{
	struct box_arena *arena = box_arena_new();
	start_recording();
	(void)replay_record(arena, good_record(arena));
	struct box_value other = good_record(arena);
	box_map_set(arena, &other, box_str("mark"), box_int(43));
	ASSERT_INT(replay_record(arena, other), 1);
	leave_box(42);
	box_sessions_adopt(sessions);
	ASSERT(headless.kept == NULL);
	ASSERT_INT(box_sessions_count(sessions), 1);
	/* Once removed, the next session of that name counts. */
	struct note removed = {0};
	(void)remove_id(ID("s"), &removed);
	headless_gone();
	ASSERT_INT(replay_record(arena, other), 1);
	leave_box(43);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 1);
	box_arena_free(arena);
	finish_recording();
}

TEST(two_sessions_cannot_have_one_box)
{
	struct box_arena *arena = box_arena_new();
	struct box_err err;
	start_recording();
	(void)replay_record(arena, good_record(arena));
	struct box_value other = good_record(arena);
	box_map_set(arena, &other, box_str("id"), box_cstr(ID("t")));
	box_map_set(arena, &other, box_str("logical"), box_cstr("t"));
	ASSERT_INT(replay_record(arena, other), 2);
	leave_box(42);
	box_sessions_adopt(sessions);
	ASSERT_INT(box_sessions_count(sessions), 1);
	ASSERT(box_sessions_find(sessions, ID("s"), &err) != NULL);
	ASSERT(box_sessions_find(sessions, ID("t"), &err) == NULL);
	box_arena_free(arena);
	finish_recording();
}

TEST(a_session_answers_to_the_backend_it_was_recorded_with)
{
	struct box_arena *arena = box_arena_new();
	start_recording();
	struct box_value record = good_record(arena);
	box_map_set(arena, &record, box_str("backend"), box_cstr("nsjail"));
	(void)replay_record(arena, record);
	leave_box(42);
	box_sessions_adopt(sessions);
	ASSERT_STR(info_text(arena, ID("s"), "backend_name"), "nsjail");
	ASSERT_STR(info_text(arena, ID("s"), "created_at"), "2023-11-14T22:13:20.000000Z");
	box_arena_free(arena);
	finish_recording();
}

TEST(without_a_backend_nothing_is_read)
{
	struct box_arena *arena = box_arena_new();
	start_recording();
	rules.backend = NULL;
	ASSERT_INT(replay_record(arena, good_record(arena)), 0);
	box_sessions_adopt(sessions);
	box_arena_free(arena);
	finish_recording();
}

/* --- boxes that end by themselves --- */

TEST(a_session_goes_with_its_box)
{
	struct note running[2] = {{0}};
	struct note next = {0};
	start_recording();
	struct box_backend_box *box = make_marked("s", 42);
	(void)exec("s", "one", &running[0]);
	(void)exec("s", "two", &running[1]);
	headless_lose(box, "it ended");
	ASSERT_INT(headless.cancelled[HEADLESS_EXEC], 2);
	for (int i = 0; i < 2; i++) {
		expect_error(&running[i], BOX_ERR_SESSION_NOT_FOUND, REMOVED("s"));
	}
	expect_not_shown(ID("s"), 0);
	/* The next use waits for the end and recreates it. */
	(void)exec("s", "next", &next);
	ASSERT_INT(headless_count(HEADLESS_MAKE), 0);
	headless.mark = 43;
	headless_gone();
	ASSERT_STR(changes[2], "{\"removed\":\"" ID("s") "\"}");
	headless_made();
	ASSERT(strstr(changes[3], "\"mark\":43,") != NULL);
	headless_ran("next", &good);
	expect_ran(&next, "fine");
	finish_recording();
}

TEST(a_command_whose_box_ended_says_which)
{
	struct note note = {0};
	start_recording();
	(void)make_marked("s", 42);
	(void)exec("s", "one", &note);
	struct box_backend_op op = headless_take(HEADLESS_EXEC, "one");
	struct box_err err;
	(void)box_err_set(&err, BOX_ERR_BOX, EPIPE, "the box has ended");
	op.ran(op.arg, NULL, &err);
	expect_error(&note, BOX_ERR_BOX, "session s: the box has ended");
	finish_recording();
}

TEST(an_adopted_box_is_watched_too)
{
	struct box_arena *arena = box_arena_new();
	start_recording();
	(void)replay_record(arena, good_record(arena));
	leave_box(42);
	struct box_backend_box *box = headless.kept;
	box_sessions_adopt(sessions);
	headless_lose(box, "it ended");
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 1);
	headless_gone();
	ASSERT_INT(box_sessions_count(sessions), 0);
	box_arena_free(arena);
	finish_recording();
}
