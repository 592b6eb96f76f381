/* File work in a box through the local backend: the packets it sends, which answers it accepts, and
 * that a false answer fails only its own request. */
#include "base/macros.h"
#include "protocol/init_file.h"
#include "runtime/backend/backend_file.h"
#include "tests/unit/lib/local_fixture.h"

#define NONSENSE "malformed answer from the box about its files"

/* What `done` and the events reported. */
struct filed {
	struct box_backend_op *op;
	int calls;
	bool failed;
	struct box_err err;
	struct box_file_outcome outcome;
	char data[RAN_BYTES];
	char events[RAN_BYTES];
	uint64_t cost;
};

static void on_filed(void *arg, const struct box_file_outcome *outcome, const struct box_err *err)
{
	struct filed *filed = arg;
	ASSERT((outcome != NULL) == (err == NULL));
	ASSERT(filed->op != NULL);
	filed->calls++;
	filed->failed = err != NULL;
	if (err) {
		filed->err = *err;
		return;
	}
	filed->outcome = *outcome;
	copy_output(filed->data, outcome->data);
	for (size_t i = 0; i < outcome->entry_count; i++) {
		(void)snprintf(filed->data + strlen(filed->data), 64, "%.*s>%.*s ",
			(int)outcome->entries[i].name.len, outcome->entries[i].name.bytes,
			(int)outcome->entries[i].target.len, outcome->entries[i].target.bytes);
	}
}

static void on_started(void *arg)
{
	struct filed *filed = arg;
	(void)snprintf(filed->events + strlen(filed->events), 16, "started ");
}

static void on_event(void *arg, const struct box_file_event *event)
{
	struct filed *filed = arg;
	filed->cost += event->cost;
	(void)snprintf(filed->events + strlen(filed->events), 128, "%d:%.*s<%.*s ",
		(int)event->change, (int)event->path.len, event->path.bytes, (int)event->from.len,
		event->from.bytes);
}

static const struct box_file_events events = {.started = on_started, .event = on_event};

static struct box_backend_file_request ask_of(enum box_file_kind kind)
{
	return (struct box_backend_file_request){
		.kind = kind,
		.path = {"/workspace", "a"},
		.after = kind == BOX_FILE_LIST ? "" : NULL,
		.limit = 2,
		.length = 100,
		.mode = -1,
		.credit = kind == BOX_FILE_WATCH ? 65536 : 0,
	};
}

static void begin_file(struct played *played, const struct box_backend_file_request *ask,
	struct filed *filed, struct box_init_file *ret_file, uint32_t *ret_flags)
{
	struct heard heard;
	struct box_init_run run;
	const char *texts[4];
	filed->op = backend->ops->file(played->box, ask, &events, on_filed, filed);
	ASSERT(filed->op != NULL);
	ASSERT_INT(filed->calls, 0);
	expect(played, BOX_INIT_RUN, 1, &heard);
	memcpy(&run, heard.bytes, sizeof(run));
	ASSERT_INT(run.workdir_size, 2);
	ASSERT_INT(run.env_size, 0);
	ASSERT_INT(box_init_file_check(heard.bytes + sizeof(run) + 2, heard.size - sizeof(run) - 2,
			   ret_file, texts),
		0);
	ASSERT_STR(texts[0], ask->path.root);
	ASSERT_STR(texts[1], ask->path.below);
	*ret_flags = run.flags;
}

struct scene {
	struct played played;
	struct filed filed;
	struct box_backend_file_request ask;
	struct box_init_file wire;
	uint32_t flags;
};

static struct scene *open_scene(struct box_backend_file_request ask)
{
	static struct scene scene;
	start();
	scene = (struct scene){.ask = ask};
	make_played(&scene.played, 7);
	begin_file(&scene.played, &scene.ask, &scene.filed, &scene.wire, &scene.flags);
	return &scene;
}

static void close_scene(struct scene *scene)
{
	end_played(&scene->played, 7);
	finish();
}

static void say_answer(struct scene *scene, struct box_init_file_answer answer)
{
	say(&scene->played, BOX_INIT_STDERR, 1, &answer, sizeof(answer));
	say_exit(&scene->played, 1, BOX_INIT_END_EXIT, 0);
}

#define ANSWER(...) ((struct box_init_file_answer){__VA_ARGS__})

TEST(a_read_is_sent_and_believed)
{
	struct scene *scene = open_scene(ask_of(BOX_FILE_READ));
	ASSERT_INT(scene->flags, BOX_INIT_RUN_FILE);
	ASSERT_INT(scene->wire.kind, BOX_INIT_FILE_READ);
	ASSERT_INT(scene->wire.size, 100);
	say_text(&scene->played, BOX_INIT_STDOUT, 1, "bytes");
	say_answer(scene, ANSWER(.data_size = 5, .facts = {.type = 1, .size = 9}));
	ASSERT_INT(scene->filed.calls, 1);
	ASSERT(!scene->filed.failed);
	ASSERT_STR(scene->filed.data, "bytes");
	ASSERT_INT(scene->filed.outcome.facts.size, 9);
	ASSERT_INT(scene->played.lost, 0);
	close_scene(scene);
}

TEST(a_failure_is_passed_on)
{
	struct scene *scene = open_scene(ask_of(BOX_FILE_STAT));
	say_answer(scene, ANSWER(.errnum = EXDEV, .why = BOX_INIT_FILE_WHY_OUTSIDE));
	ASSERT_INT(scene->filed.outcome.errnum, EXDEV);
	ASSERT_INT(scene->filed.outcome.why, BOX_FILE_REFUSAL_OUTSIDE);
	close_scene(scene);
}

TEST(a_list_is_sorted_and_within_its_limit)
{
	struct {
		struct box_init_file_entry entry;
		char name[2];
	} __attribute__((packed)) first = {{.facts = {.type = 1}, .name_size = 1}, "a"};
	struct scene *scene = open_scene(ask_of(BOX_FILE_LIST));
	size_t size = sizeof(first) - 1;
	char bytes[256];
	memcpy(bytes, &first, size);
	first.name[0] = 'b';
	memcpy(bytes + size, &first, size);
	say(&scene->played, BOX_INIT_STDOUT, 1, bytes, 2 * size);
	say_answer(scene, ANSWER(.data_size = 2 * size, .more = 1));
	ASSERT(!scene->filed.failed);
	ASSERT_STR(scene->filed.data, "a> b> ");
	ASSERT(scene->filed.outcome.more);
	close_scene(scene);

	struct box_backend_file_request one = ask_of(BOX_FILE_LIST);
	one.limit = 1;
	scene = open_scene(one);
	say(&scene->played, BOX_INIT_STDOUT, 1, bytes, 2 * size);
	say_answer(scene, ANSWER(.data_size = 2 * size));
	ASSERT(scene->filed.failed);
	ASSERT_STR(scene->filed.err.text, NONSENSE);
	close_scene(scene);
}

/* Answers that make no sense: the request fails, and the box survives. */
TEST(a_lie_fails_alone)
{
	static const struct {
		enum box_file_kind kind;
		const char *out;
		struct box_init_file_answer answer;
	} rows[] = {
		{BOX_FILE_READ, "xx", {.data_size = 1}},
		{BOX_FILE_READ, NULL, {.data_size = 1}},
		{BOX_FILE_READ, "xx", {.data_size = 2, .facts.size = UINT64_MAX}},
		{BOX_FILE_READ, NULL, {.errnum = -5}},
		{BOX_FILE_STAT, NULL, {.errnum = 0}},
		{BOX_FILE_STAT, "x", {.data_size = 1, .facts.type = BOX_INIT_FILE_TYPE_FILE}},
		{BOX_FILE_LIST, "not an entry, is it? no, it is not, by no means, never: no",
			{.data_size = 57}},
		{BOX_FILE_MKDIR, "x", {.data_size = 1}},
		{BOX_FILE_REMOVE, NULL, {.written = 1}},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct scene *scene = open_scene(ask_of(rows[i].kind));
		if (rows[i].out) {
			say_text(&scene->played, BOX_INIT_STDOUT, 1, rows[i].out);
		}
		say_answer(scene, rows[i].answer);
		ASSERT_INT(scene->filed.calls, 1);
		ASSERT(scene->filed.failed);
		ASSERT_STR(scene->filed.err.text, NONSENSE);
		ASSERT_INT(scene->filed.err.code, BOX_ERR_BOX);
		ASSERT_INT(scene->played.lost, 0);
		close_scene(scene);
	}
}

TEST(no_answer_is_an_end)
{
	struct scene *scene = open_scene(ask_of(BOX_FILE_READ));
	say_exit(&scene->played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT(scene->filed.failed);
	ASSERT_STR(
		scene->filed.err.text, "the process of the file operation ended (exit code 137)");
	close_scene(scene);
	scene = open_scene(ask_of(BOX_FILE_READ));
	say_exit(&scene->played, 1, BOX_INIT_END_TIMEOUT, 0);
	ASSERT_INT(scene->filed.outcome.errnum, ETIMEDOUT);
	close_scene(scene);
	scene = open_scene(ask_of(BOX_FILE_READ));
	say_kills(&scene->played, "oom_kill 1\n");
	say_exit(&scene->played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(scene->filed.outcome.errnum, ENOMEM);
	close_scene(scene);
	scene = open_scene(ask_of(BOX_FILE_READ));
	init_ends(&scene->played);
	ASSERT(scene->filed.failed);
	ASSERT_INT(scene->filed.err.errnum, EPIPE);
	close_scene(scene);
}

TEST(bytes_go_by_the_input)
{
	struct box_backend_file_request ask = ask_of(BOX_FILE_WRITE);
	struct heard heard;
	ask.data = box_str("hello");
	ask.append = true;
	ask.mode = 0600;
	struct scene *scene = open_scene(ask);
	ASSERT_INT(scene->flags, BOX_INIT_RUN_FILE | BOX_INIT_RUN_STDIN);
	ASSERT_INT(scene->wire.flags, BOX_INIT_FILE_APPEND | BOX_INIT_FILE_MODE);
	ASSERT_INT(scene->wire.mode, 0600);
	ASSERT_INT(scene->wire.size, 5);
	expect_packet(&scene->played, BOX_INIT_INPUT, 1, "hello", 5);
	expect(&scene->played, BOX_INIT_INPUT, 1, &heard);
	ASSERT_INT(heard.size, 0);
	say_taken(&scene->played, 1, 5);
	say_answer(scene, ANSWER(.written = 5, .facts = {.type = 1, .size = 8}));
	ASSERT_INT(scene->filed.outcome.written, 5);
	close_scene(scene);
}

TEST(bytes_of_a_cancelled_write_are_not_read_again)
{
	struct box_backend_file_request ask = ask_of(BOX_FILE_WRITE);
	size_t size = 1 << 20;
	char *bytes = box_alloc(size);
	struct heard heard;
	ask.data = (struct box_str){bytes, size};
	struct scene *scene = open_scene(ask);
	expect(&scene->played, BOX_INIT_INPUT, 1, &heard);
	backend->ops->cancel(scene->filed.op);
	free(bytes);
	turn();
	while (heard.header.kind == BOX_INIT_INPUT) {
		turn(); /* what did not fit into the socket before */
		ASSERT(hear(&scene->played, &heard));
	}
	ASSERT_INT(heard.header.kind, BOX_INIT_KILL);
	say_taken(&scene->played, 1, 32768);
	expect_silence(&scene->played);
	say_exit(&scene->played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_INT(scene->filed.calls, 0);
	close_scene(scene);
}

/* --- watches --- */

static void say_event(
	struct scene *scene, uint32_t change, const char *path, const char *from, size_t cut)
{
	char bytes[256];
	struct box_init_file_event event = {
		.change = change,
		.path_size = (uint32_t)strlen(path),
		.from_size = (uint32_t)strlen(from),
	};
	int more = snprintf(
		bytes + sizeof(event), sizeof(bytes) - sizeof(event), "%s%s", path, from);
	size_t size = sizeof(event) + (size_t)more;
	memcpy(bytes, &event, sizeof(event));
	cut = cut ? cut : size;
	say(&scene->played, BOX_INIT_STDOUT, 1, bytes, cut);
	if (cut < size) {
		say(&scene->played, BOX_INIT_STDOUT, 1, bytes + cut, size - cut);
	}
}

TEST(a_watch_tells_events_however_they_are_cut)
{
	struct heard heard;
	struct scene *scene = open_scene(ask_of(BOX_FILE_WATCH));
	ASSERT_INT(scene->filed.cost, 0);
	say_event(scene, BOX_INIT_FILE_STARTED, "", "", 3);
	expect(&scene->played, BOX_INIT_CREDIT, 1, &heard);
	for (size_t cut = 1; cut < 19; cut++) {
		say_event(scene, BOX_INIT_FILE_MOVED, "to", "f", cut);
	}
	say_event(scene, BOX_INIT_FILE_OVERFLOW, "", "", 0);
	ASSERT(strncmp(scene->filed.events, "started 3:to<f 3:to<f ", 22) == 0);
	ASSERT_STR(scene->filed.events + strlen("started ") + 18 * strlen("3:to<f "), "4:< ");
	ASSERT_INT(scene->filed.cost, 18 * 19 + 16);
	say_event(scene, BOX_INIT_FILE_REMOVED, "", "", 0);
	say_exit(&scene->played, 1, BOX_INIT_END_EXIT, 0);
	ASSERT_INT(scene->filed.calls, 1);
	ASSERT_INT(scene->filed.outcome.errnum, 0);
	close_scene(scene);
}

TEST(a_watch_that_cannot_begin_says_why)
{
	struct scene *scene = open_scene(ask_of(BOX_FILE_WATCH));
	say_answer(scene, ANSWER(.errnum = ENOSYS, .why = BOX_INIT_FILE_WHY_INOTIFY));
	ASSERT_INT(scene->filed.outcome.why, BOX_FILE_REFUSAL_INOTIFY);
	ASSERT_STR(scene->filed.events, "");
	close_scene(scene);
}

/* Such packets cost the sender nothing, so they are limited. */
TEST(a_watch_begins_first_and_once)
{
	for (int late = 0; late < 2; late++) {
		struct heard heard;
		struct scene *scene = open_scene(ask_of(BOX_FILE_WATCH));
		if (!late) {
			say_event(scene, BOX_INIT_FILE_STARTED, "", "", 0);
			expect(&scene->played, BOX_INIT_CREDIT, 1, &heard);
		}
		say_event(scene, late ? BOX_INIT_FILE_CREATED : BOX_INIT_FILE_STARTED,
			late ? "x" : "", "", 0);
		expect(&scene->played, BOX_INIT_KILL, 1, &heard);
		say_exit(&scene->played, 1, BOX_INIT_END_SIGNAL, 9);
		ASSERT_STR(scene->filed.err.text, NONSENSE);
		close_scene(scene);
	}
}

TEST(a_watch_that_lies_is_ended)
{
	struct heard heard;
	struct scene *scene = open_scene(ask_of(BOX_FILE_WATCH));
	say_event(scene, BOX_INIT_FILE_CREATED, "../up", "", 0);
	expect(&scene->played, BOX_INIT_KILL, 1, &heard);
	say_event(scene, BOX_INIT_FILE_CREATED, "late", "", 0);
	say_exit(&scene->played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_STR(scene->filed.events, "");
	ASSERT_STR(scene->filed.err.text, NONSENSE);
	ASSERT_INT(scene->played.lost, 0);
	close_scene(scene);
}

TEST(a_watch_may_not_say_more_than_its_credit)
{
	static char bytes[40000];
	struct scene *scene = open_scene(ask_of(BOX_FILE_WATCH));
	struct box_init_file_event event = {.change = BOX_INIT_FILE_OVERFLOW};
	for (size_t at = 0; at + sizeof(event) <= sizeof(bytes); at += sizeof(event)) {
		memcpy(bytes + at, &event, sizeof(event));
	}
	scene->filed.events[0] = '\0';
	say_text(&scene->played, BOX_INIT_STDERR, 1, "x");
	say(&scene->played, BOX_INIT_STDOUT, 1, bytes, 16);
	ASSERT_INT(scene->played.lost, 0);
	say(&scene->played, BOX_INIT_STDERR, 1, bytes, sizeof(bytes));
	ASSERT_INT(scene->played.lost, 0);
	say(&scene->played, BOX_INIT_STDERR, 1, bytes, sizeof(bytes));
	ASSERT_INT(scene->played.lost, 1);
	close_scene(scene);
}

TEST(a_cancelled_watch_tells_nobody)
{
	struct scene *scene = open_scene(ask_of(BOX_FILE_WATCH));
	say_event(scene, BOX_INIT_FILE_STARTED, "", "", 0);
	say_event(scene, BOX_INIT_FILE_CREATED, "new", "", 5);
	backend->ops->cancel(scene->filed.op);
	say_event(scene, BOX_INIT_FILE_CREATED, "more", "", 0);
	say_exit(&scene->played, 1, BOX_INIT_END_SIGNAL, 9);
	ASSERT_STR(scene->filed.events, "started 0:new< ");
	ASSERT_INT(scene->filed.calls, 0);
	close_scene(scene);
}
