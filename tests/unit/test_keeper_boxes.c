/* The table of boxes alone: what makes, feeds and buries a box is played here, and so is the time.
 * A box is a child that sleeps until it is killed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/limits.h"
#include "runtime/guest/wire.h"
#include "runtime/keeper/ahead.h"
#include "runtime/keeper/birth.h"
#include "runtime/keeper/boxes.h"
#include "runtime/keeper/cgroup.h"
#include "runtime/keeper/child.h"
#include "tests/unit/test.h"

/* --- what is played --- */

static struct {
	uint64_t now_us;
	int epoll;
	void (*let_go)(void *arg, struct box_blank *blank);
	void *arg;
	/* what fails */
	int open_result;
	int begin_result;
	uint64_t begin_takes_ms;
	bool immortal; /* a kill does nothing */
	unsigned busy; /* so often something of it is not dead yet */
	/* what was done */
	unsigned taken;
	unsigned begun;
	unsigned kills;
	unsigned reaps;
	unsigned buried;
	unsigned ahead_failed;
	bool ahead_freed;
	int report; /* of the last one: our end to write */
	pid_t pid;  /* of the last one */
} play;

uint64_t box_clock_us(void)
{
	return play.now_us;
}

static int fail(struct box_err *err, int r, const char *text)
{
	return r < 0 ? box_err_set(err, BOX_ERR_BOX, -r, "%s", text) : 0;
}

struct box_ahead *box_ahead_new(struct box_ground *ground, int epoll,
	void (*let_go)(void *arg, struct box_blank *blank), void *arg)
{
	(void)ground;
	play.epoll = epoll;
	play.let_go = let_go;
	play.arg = arg;
	return (struct box_ahead *)&play;
}

void box_ahead_free(struct box_ahead *ahead)
{
	(void)ahead;
	play.ahead_freed = true;
}

void box_ahead_failed(struct box_ahead *ahead)
{
	ASSERT(ahead);
	play.ahead_failed++;
}

static void start_child(struct box_living *living)
{
	int ends[2];
	ASSERT_INT(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	living->report = ends[0];
	play.report = ends[1];
	living->pid = fork();
	if (living->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)pause();
		_exit(0);
	}
	play.pid = living->pid;
	living->pidfd = pidfd_open(living->pid, 0);
	ASSERT(living->pidfd >= 0);
}

int box_ahead_take(struct box_ahead *ahead, const struct box_plan *plan, struct box_blank *blank,
	struct box_err *err)
{
	(void)ahead;
	(void)plan;
	(void)err;
	*blank = (struct box_blank){.living = BOX_LIVING_NONE, .orders = -1, .netns = -1};
	play.taken++;
	start_child(&blank->living);
	return 0;
}

void box_blank_close(struct box_blank *blank)
{
	(void)blank;
}

int box_birth_open(const struct box_ground *ground, const struct box_ask *ask, int *ret_source,
	struct box_err *err)
{
	(void)ground;
	(void)ask;
	*ret_source = -1;
	return fail(err, play.open_result, "open");
}

int box_birth_begin(struct box_ground *ground, const struct box_plan *plan, int source,
	struct box_blank *blank, struct box_err *err)
{
	(void)ground;
	(void)plan;
	(void)source;
	(void)blank;
	play.begun++;
	play.now_us += play.begin_takes_ms * 1000;
	return fail(err, play.begin_result, "begin");
}

int box_birth_mount(struct box_ground *ground, const struct box_living *living, const char *path,
	bool read_only, int *ret_mount, struct box_err *err)
{
	(void)ground;
	(void)living;
	(void)path;
	(void)read_only;
	(void)ret_mount;
	return fail(err, -ENOTSUP, "mount");
}

int box_plan_make(const struct box_ask *ask, const struct box_policy *policy,
	const struct box_host_can *host, struct box_plan *ret_plan, struct box_err *err)
{
	(void)policy;
	(void)host;
	(void)err;
	ret_plan->ask = ask;
	return 0;
}

int box_child_hear(int report, const struct box_plan *plan, struct box_err *err)
{
	char byte;
	(void)plan;
	return read(report, &byte, 1) == 1 ? 1 : fail(err, -EIO, "report");
}

int box_cgroup_events(const struct box_cgroup *cgroup)
{
	(void)cgroup;
	return -1;
}

void box_living_kill(const struct box_living *living)
{
	play.kills++;
	if (!play.immortal) {
		(void)pidfd_send_signal(living->pidfd, SIGKILL, NULL, 0);
	}
}

bool box_living_reap(const struct box_living *living)
{
	siginfo_t end = {0};
	play.reaps++;
	ASSERT_INT(waitid(P_PIDFD, (id_t)living->pidfd, &end, WEXITED | WNOHANG), 0);
	return end.si_pid != 0;
}

int box_living_bury(struct box_ground *ground, struct box_living *living)
{
	(void)ground;
	ASSERT_INT(living->pidfd, -1);
	if (play.busy > 0) {
		play.busy--;
		return -EBUSY;
	}
	play.buried++;
	(void)close(living->report);
	return 0;
}

/* --- the caller --- */

static struct {
	unsigned made;
	unsigned failed;
	unsigned gone;
	uint64_t box;
	enum box_code code;
	char text[256];
} told;

static void made(void *arg, uint32_t request, uint64_t box, int control, int memory,
	const struct box_err *err)
{
	(void)arg;
	(void)request;
	(void)control;
	(void)memory;
	told.box = box;
	told.made += err == NULL;
	told.failed += err != NULL;
	if (err) {
		told.code = err->code;
		(void)snprintf(told.text, sizeof(told.text), "%.255s", err->text);
	}
}

static void gone(void *arg, uint64_t box)
{
	(void)arg;
	(void)box;
	told.gone++;
}

static const struct box_boxes_events events = {.made = made, .gone = gone};
static struct box_ground ground;
static const struct box_ask ask = {.mount_path = "/workspace"};

static struct box_boxes *begin(void)
{
	play.now_us = 1000000;
	ground.possible = true;
	return box_boxes_new(&ground, &events, NULL);
}

/* Until the pidfd shows the death of a child, at most a second. */
static void await_event(const struct box_boxes *boxes)
{
	struct pollfd polled = {.fd = box_boxes_fd(boxes), .events = POLLIN};
	ASSERT_INT(poll(&polled, 1, 1000), 1);
}

static void step_later(struct box_boxes *boxes, uint64_t ms)
{
	play.now_us += ms * 1000;
	box_boxes_step(boxes);
}

static uint64_t make_one(struct box_boxes *boxes)
{
	box_boxes_make(boxes, 1, &ask);
	ASSERT_INT(write(play.report, "r", 1), 1);
	box_boxes_step(boxes);
	ASSERT_INT(told.made, 1);
	return told.box;
}

/* --- tests --- */

TEST(from_the_request_to_the_end)
{
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	box_boxes_end(boxes, box);
	await_event(boxes);
	box_boxes_step(boxes);
	ASSERT_INT(told.gone, 1);
	ASSERT_INT(play.buried, 1);
	box_boxes_free(boxes);
	ASSERT(play.ahead_freed);
}

TEST(a_wrong_host_path_costs_no_blank)
{
	struct box_boxes *boxes = begin();
	play.open_result = -ENOENT;
	box_boxes_make(boxes, 1, &ask);
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "open");
	ASSERT_INT(play.taken, 0);
	ASSERT_INT(box_boxes_timeout_ms(boxes), -1);
	box_boxes_free(boxes);
}

TEST(a_birth_that_fails_ends_as_boxes_do)
{
	struct box_boxes *boxes = begin();
	play.begin_result = -EIO;
	play.immortal = true;
	box_boxes_make(boxes, 1, &ask);
	/* Answered at once, although its child lives on. */
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "begin");
	ASSERT_INT(play.kills, 1);
	ASSERT_INT(play.buried, 0);
	play.immortal = false;
	step_later(boxes, 5000);
	ASSERT_INT(play.buried, 0);
	/* Its end shows at once when it comes, and what there was of it is given back. */
	ASSERT_INT(kill(play.pid, SIGKILL), 0);
	await_event(boxes);
	box_boxes_step(boxes);
	ASSERT_INT(play.buried, 1);
	ASSERT_INT(told.gone, 0);
	ASSERT_INT(box_boxes_timeout_ms(boxes), -1);
	box_boxes_free(boxes);
}

TEST(what_boxd_needs_does_not_count_as_the_box_s_time)
{
	struct box_boxes *boxes = begin();
	play.begin_takes_ms = 60000;
	box_boxes_make(boxes, 1, &ask);
	box_boxes_step(boxes);
	ASSERT_INT(told.failed, 0);
	step_later(boxes, 9999);
	ASSERT_INT(told.failed, 0);
	step_later(boxes, 1);
	ASSERT_INT(told.failed, 1);
	ASSERT_STR(told.text, "the box cannot be made: it was not ready after 10 s");
	await_event(boxes);
	box_boxes_step(boxes);
	box_boxes_free(boxes);
}

TEST(the_pause_between_tries_doubles)
{
	static const int pauses_ms[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000};
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	play.busy = COUNT(pauses_ms);
	box_boxes_end(boxes, box);
	await_event(boxes);
	box_boxes_step(boxes);
	for (size_t i = 0; i < COUNT(pauses_ms); i++) {
		ASSERT_INT(told.gone, 0);
		ASSERT_INT(box_boxes_timeout_ms(boxes), pauses_ms[i]);
		step_later(boxes, (uint64_t)pauses_ms[i]);
	}
	ASSERT_INT(told.gone, 1);
	box_boxes_free(boxes);
}

TEST(a_process_that_does_not_die_is_watched_until_it_does)
{
	struct box_boxes *boxes = begin();
	uint64_t box = make_one(boxes);
	play.immortal = true;
	box_boxes_end(boxes, box);
	for (int i = 0; i < 20; i++) {
		step_later(boxes, 1000);
	}
	/* Not once a millisecond. */
	ASSERT(play.reaps >= 10 && play.reaps <= 20);
	play.reaps = 0;
	ASSERT_INT(kill(play.pid, SIGKILL), 0);
	/* No time passes: only the pidfd can tell. */
	await_event(boxes);
	box_boxes_step(boxes);
	ASSERT_INT(told.gone, 1);
	play.immortal = false;
	box_boxes_free(boxes);
}

/* Half of a blank: nothing was cloned yet. */
TEST(a_blank_without_a_process_is_given_back)
{
	struct box_boxes *boxes = begin();
	struct box_blank blank = {.living = BOX_LIVING_NONE, .orders = -1, .netns = -1};
	play.let_go(play.arg, &blank);
	box_boxes_step(boxes);
	ASSERT_INT(play.buried, 1);
	ASSERT_INT(play.reaps, 0);
	box_boxes_free(boxes);
}

TEST(no_more_than_there_may_be)
{
	struct box_boxes *boxes = begin();
	struct box_blank blank = {.living = BOX_LIVING_NONE, .orders = -1, .netns = -1};
	for (int i = 0; i < BOX_BOXES_MAX; i++) {
		play.let_go(play.arg, &blank);
	}
	box_boxes_make(boxes, 1, &ask);
	ASSERT_INT(told.failed, 1);
	ASSERT_INT(told.code, BOX_ERR_CAPACITY);
	ASSERT_STR(told.text, "no more than 5120 boxes can there be at once");
	ASSERT_INT(play.taken, 0);
	box_boxes_step(boxes);
	ASSERT_INT(play.buried, BOX_BOXES_MAX);
	(void)make_one(boxes);
	box_boxes_end(boxes, told.box);
	await_event(boxes);
	box_boxes_free(boxes);
}

/* While boxd ends there are no blanks any more, whatever the set of fds still tells. */
TEST(an_event_of_blanks_after_their_end)
{
	struct box_boxes *boxes = begin();
	int ends[2];
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = BOX_AHEAD_EVENT};
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	ASSERT_INT(write(ends[1], "x", 1), 1);
	ASSERT_INT(epoll_ctl(play.epoll, EPOLL_CTL_ADD, ends[0], &event), 0);
	(void)make_one(boxes);
	ASSERT(play.ahead_failed > 0);
	play.ahead_failed = 0;
	box_boxes_free(boxes);
	ASSERT(play.ahead_freed);
	ASSERT_INT(play.ahead_failed, 0);
}
