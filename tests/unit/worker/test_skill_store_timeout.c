/* The timeout of a request to box-skills. boxd and box-skills are fakes; the timer is linked so
 * that its time can be checked. */
#include <fcntl.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/msgpack.h"
#include "protocol/boxd_client.h"
#include "protocol/skills.h"
#include "runtime/skill_store.h"
#include "tests/unit/lib/test.h"
#include "worker/skills_client.h"

int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);

static uv_loop_t loop;
static struct box_skills_client *line;
static struct box_value nothing = {.type = BOX_MAP};
static int theirs = -1; /* box-skills' end */
static uint64_t limit_ms;
static bool has_failed;
static unsigned answers;

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat)
{
	limit_ms = timeout;
	return __real_uv_timer_start(timer, cb, timeout, repeat);
}

void box_boxd_client_start_skills(struct box_boxd_client *client, const char *path,
	box_boxd_client_skills_started *done, void *arg)
{
	int ends[2];
	(void)client;
	ASSERT_INT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	if (theirs >= 0) {
		(void)close(theirs);
	}
	theirs = ends[1];
	done(arg, ends[0], path, NULL);
}

static void done(void *arg, const struct box_value *answer, const struct box_err *err)
{
	(void)arg;
	(void)answer;
	has_failed = err != NULL;
	answers++;
}

static void answer(void)
{
	struct box_arena *arena = box_arena_new();
	struct box_value map = box_map_value();
	struct box_buf body = box_buf(1024);
	box_map_add(arena, &map, "data", box_map_value());
	ASSERT_INT(box_msgpack_encode(&body, &map), 0);
	struct box_skills_head head = {.size = (uint32_t)body.len};
	ASSERT_INT(write(theirs, &head, sizeof(head)), sizeof(head));
	ASSERT_INT(write(theirs, body.bytes, body.len), body.len);
	box_buf_free(&body);
	box_arena_free_p(&arena);
}

/* The timeout of one request, which is answered or sees box-skills end. */
static uint64_t ask(bool with_archive, bool is_answered)
{
	int archive = with_archive ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	struct box_skill_store_request asked = {
		.root = "/skills",
		.namespace = "ws-a",
		.action = "x",
		.data = &nothing,
		.archive = archive,
		.done = done,
	};
	unsigned before = answers;
	limit_ms = 0;
	box_skills_client_request(line, &asked);
	while (limit_ms == 0) {
		(void)uv_run(&loop, UV_RUN_ONCE);
	}
	uint64_t seen_ms = limit_ms;
	if (is_answered) {
		answer();
	} else {
		ASSERT_INT(shutdown(theirs, SHUT_RDWR), 0);
	}
	while (answers == before) {
		(void)uv_run(&loop, UV_RUN_ONCE);
	}
	ASSERT(has_failed == !is_answered);
	if (with_archive) {
		(void)close(archive);
	}
	return seen_ms;
}

TEST(who_may_find_it_waiting_for_the_disk_has_the_long_time)
{
	ASSERT_INT(uv_loop_init(&loop), 0);
	line = box_skills_client_new(&loop, NULL);
	ASSERT_INT(ask(false, true), BOX_SKILLS_ARCHIVE_REQUEST_MS); /* a new box-skills */
	ASSERT_INT(ask(false, true), BOX_SKILLS_REQUEST_MS);
	ASSERT_INT(ask(true, true), BOX_SKILLS_ARCHIVE_REQUEST_MS);
	ASSERT_INT(ask(false, true), BOX_SKILLS_ARCHIVE_REQUEST_MS);
	ASSERT_INT(ask(false, true), BOX_SKILLS_REQUEST_MS);
	ASSERT_INT(ask(false, false), BOX_SKILLS_REQUEST_MS);
	ASSERT_INT(ask(false, true), BOX_SKILLS_ARCHIVE_REQUEST_MS);
	ASSERT_INT(ask(false, true), BOX_SKILLS_REQUEST_MS);
	exit(0); /* it is meant to live as long as box-rpc */
}
