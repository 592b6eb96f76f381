/* The table of boxes without its surroundings: makers, helpers and the clock are fakes. A box is a
 * child that sleeps until it is killed. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/limits.h"
#include "boxd/box/boxes.h"
#include "boxd/box/first_process.h"
#include "boxd/box/host_memory.h"
#include "boxd/box/make.h"
#include "boxd/box/warm_pool.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/image/images.h"
#include "protocol/init.h"
#include "tests/unit/lib/test.h"

/* --- what is played --- */

static struct {
	uint64_t now_us;
	int epoll;
	void (*discard)(void *arg, struct box_warm_box *warm);
	void *arg;
	/* what fails */
	int open_result;
	int begin_result;
	uint64_t begin_takes_ms;
	bool immortal; /* a kill does nothing */
	unsigned busy; /* so often something of it is not dead yet */
	int part_result;
	uint32_t busy_part; /* something is in it */
	/* what was done */
	unsigned taken;
	unsigned begun;
	unsigned kills;
	unsigned reaps;
	unsigned buried;
	unsigned pool_failures;
	bool pool_freed;
	unsigned parts;       /* there are */
	unsigned removes;     /* tried */
	bool unlimited;       /* boxes have no cgroup */
	uint64_t taken_bytes; /* by every microVM */
	uint64_t free_bytes;  /* of the host */
	int report;           /* of the last one: our end to write */
	pid_t pid;            /* of the last one */
} play;

uint64_t box_clock_us(void)
{
	return play.now_us;
}

static inline int fail(struct box_err *err, int r, const char *text)
{
	return r < 0 ? box_err_set(err, BOX_ERR_BOX, -r, "%s", text) : 0;
}

struct box_warm_pool *box_warm_pool_new(struct box_host_state *host_state, int epoll,
	void (*discard)(void *arg, struct box_warm_box *warm), void *arg)
{
	(void)host_state;
	play.epoll = epoll;
	play.discard = discard;
	play.arg = arg;
	return (struct box_warm_pool *)&play;
}

void box_warm_pool_free(struct box_warm_pool *pool)
{
	(void)pool;
	play.pool_freed = true;
}

void box_warm_pool_on_failure(struct box_warm_pool *pool)
{
	ASSERT(pool);
	play.pool_failures++;
}

static inline void start_child(struct box_resources *resources)
{
	int ends[2];
	ASSERT_INT(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
	resources->report = ends[0];
	play.report = ends[1];
	resources->pid = fork();
	if (resources->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)pause();
		_exit(0);
	}
	play.pid = resources->pid;
	resources->pidfd = pidfd_open(resources->pid, 0);
	ASSERT(resources->pidfd >= 0);
}

int box_images_find(struct box_images *images, const char *image, struct box_plan_host *host,
	struct box_root **ret_root, struct box_err *err)
{
	(void)images;
	(void)image;
	(void)host;
	(void)err;
	*ret_root = NULL;
	return 0;
}

void box_root_describe(const struct box_root *root, const char *path, struct box_plan_host *host)
{
	(void)root;
	(void)path;
	(void)host;
}

void box_images_release(struct box_root *root)
{
	ASSERT(!root);
}

int box_warm_pool_take(struct box_warm_pool *pool, const struct box_plan *plan,
	const struct box_root *root, struct box_warm_box *warm, struct box_err *err)
{
	(void)pool;
	(void)root;
	(void)plan;
	(void)err;
	*warm = (struct box_warm_box){.resources = BOX_RESOURCES_NONE, .orders = -1};
	play.taken++;
	warm->resources.cgroup = play.unlimited ? NULL : (struct box_cgroup *)&play;
	start_child(&warm->resources);
	return 0;
}

void box_make_warm_close(struct box_warm_box *warm)
{
	(void)warm;
}

int box_make_open_folder(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int *ret_source, struct box_err *err)
{
	(void)host_state;
	(void)ask;
	*ret_source = -1;
	return fail(err, play.open_result, "open");
}

int box_make_check_quota(const struct box_host_state *host_state,
	const struct box_plan_request *ask, int source, struct box_err *err)
{
	(void)host_state;
	(void)ask;
	(void)source;
	(void)err;
	return 0;
}

int box_make_from_warm(struct box_host_state *host_state, const struct box_plan *plan, int source,
	struct box_warm_box *warm, struct box_err *err)
{
	(void)host_state;
	(void)plan;
	(void)source;
	(void)warm;
	play.begun++;
	play.now_us += play.begin_takes_ms * 1000;
	return fail(err, play.begin_result, "begin");
}

int box_make_mount(struct box_host_state *host_state, const struct box_resources *resources,
	int source, bool read_only, int *ret_mount, struct box_err *err)
{
	(void)host_state;
	(void)resources;
	(void)source;
	(void)read_only;
	(void)ret_mount;
	return fail(err, -ENOTSUP, "mount");
}

int box_plan_make(const struct box_plan_request *ask, const struct box_policy *policy,
	const struct box_plan_host *host, struct box_plan *ret_plan, struct box_err *err)
{
	(void)policy;
	(void)host;
	(void)err;
	ret_plan->ask = ask;
	ret_plan->memory_bytes = ask->memory_bytes;
	ret_plan->limit_bytes = ask->memory_bytes + BOX_MICROVM_OVERHEAD_BYTES;
	ret_plan->machine.start_ms = BOX_MICROVM_START_MS;
	return 0;
}

int box_first_process_read_report(int report, const struct box_plan *plan, struct box_err *err)
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

int box_cgroup_leaf_events(const struct box_cgroup *cgroup)
{
	(void)cgroup;
	return play.parts > 0 ? 77 : -1;
}

void box_cgroups_memory(
	const struct box_cgroups *cgroups, uint64_t *ret_limit_bytes, uint64_t *ret_free_bytes)
{
	(void)cgroups;
	(void)ret_limit_bytes;
	(void)ret_free_bytes;
	TEST_FAIL("the memory of the host is played");
}

uint64_t box_cgroup_memory(const struct box_cgroup *cgroup)
{
	ASSERT(cgroup == (const struct box_cgroup *)&play);
	return play.taken_bytes;
}

int __wrap_box_host_memory_read(
	const struct box_cgroups *cgroups, struct box_host_memory *ret_memory, struct box_err *err);
int __wrap_box_host_memory_read(
	const struct box_cgroups *cgroups, struct box_host_memory *ret_memory, struct box_err *err)
{
	(void)cgroups;
	(void)err;
	*ret_memory = (struct box_host_memory){.total_bytes = 4096 * BOX_MIB,
		.free_bytes = play.free_bytes,
		.group_bytes = BOX_HOST_MEMORY_NO_LIMIT,
		.group_free_bytes = BOX_HOST_MEMORY_NO_LIMIT};
	return 0;
}

int box_process_cgroups_make_group(
	struct box_cgroup *cgroup, uint32_t number, uint64_t memory_bytes, struct box_err *err)
{
	(void)number;
	(void)memory_bytes;
	ASSERT(cgroup == (struct box_cgroup *)&play);
	play.parts += play.part_result == 0;
	return fail(err, play.part_result, "part");
}

int box_process_cgroups_open_group(const struct box_cgroup *cgroup, uint32_t number,
	int *ret_procs_fd, int *ret_events, struct box_err *err)
{
	(void)cgroup;
	(void)err;
	*ret_procs_fd = (int)(1000 + number);
	*ret_events = (int)(2000 + number);
	return 0;
}

int box_process_cgroups_remove_group(const struct box_cgroup *cgroup, uint32_t number)
{
	ASSERT(cgroup == (const struct box_cgroup *)&play);
	play.removes++;
	if (number == play.busy_part) {
		return -EBUSY;
	}
	play.parts--;
	return 0;
}

void box_resources_kill(const struct box_resources *resources)
{
	play.kills++;
	if (!play.immortal) {
		(void)pidfd_send_signal(resources->pidfd, SIGKILL, NULL, 0);
	}
}

bool box_resources_reap(const struct box_resources *resources)
{
	siginfo_t end = {0};
	play.reaps++;
	ASSERT_INT(waitid(P_PIDFD, (id_t)resources->pidfd, &end, WEXITED | WNOHANG), 0);
	return end.si_pid != 0;
}

int box_resources_release(struct box_host_state *host_state, struct box_resources *resources)
{
	(void)host_state;
	ASSERT_INT(resources->pidfd, -1);
	if (play.busy > 0) {
		play.busy--;
		return -EBUSY;
	}
	play.buried++;
	(void)close(resources->report);
	return 0;
}

/* --- the caller --- */

static struct {
	unsigned made;
	unsigned failed;
	unsigned gone;
	unsigned ending;
	uint64_t box;
	enum box_code code;
	char text[256];
} told;

static inline void made(void *arg, uint32_t request, uint64_t box, const struct box_boxes_fds *fds,
	const struct box_err *err)
{
	(void)arg;
	(void)request;
	ASSERT((fds == NULL) == (err != NULL));
	told.box = box;
	told.made += err == NULL;
	told.failed += err != NULL;
	if (err) {
		told.code = err->code;
		(void)snprintf(told.text, sizeof(told.text), "%.255s", err->text);
	}
}

static inline void gone(void *arg, uint64_t box)
{
	(void)arg;
	(void)box;
	told.gone++;
}

static inline void ending(void *arg, uint64_t box, enum box_boxd_end_reason why)
{
	(void)arg;
	(void)box;
	ASSERT_INT(why, BOX_BOXD_END_SOCKETS);
	told.ending++;
}

static const struct box_boxes_events events = {.made = made, .gone = gone, .ending = ending};
static struct box_host_state host_state;
static struct box_plan_request ask = {.mount_path = "/workspace"};

static inline struct box_boxes *begin(void)
{
	play.now_us = 1000000;
	host_state.possible = true;
	return box_boxes_new(&host_state, &events, NULL);
}

static inline int timeout_ms(struct box_boxes *boxes)
{
	struct box_event_source source = box_boxes_event_source(boxes);
	return source.timeout_ms(source.arg);
}

static inline void step(struct box_boxes *boxes)
{
	struct box_event_source source = box_boxes_event_source(boxes);
	source.step(source.arg, 0);
}

/* Until the pidfd shows the death of a child, at most a second. */
static inline void await_event(struct box_boxes *boxes)
{
	struct box_event_source source = box_boxes_event_source(boxes);
	struct pollfd polled = {.fd = source.fd(source.arg), .events = POLLIN};
	ASSERT_INT(poll(&polled, 1, 1000), 1);
}

static inline void step_later(struct box_boxes *boxes, uint64_t ms)
{
	play.now_us += ms * 1000;
	step(boxes);
}

static inline uint64_t make_one(struct box_boxes *boxes)
{
	box_boxes_make(boxes, 1, &ask, NULL);
	ASSERT_INT(write(play.report, "r", 1), 1);
	step(boxes);
	ASSERT_INT(told.made, 1);
	return told.box;
}
