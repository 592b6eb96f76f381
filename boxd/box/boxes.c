/* MAKING -> LIVE -> ENDING -> gone. A box is MAKING until its init has reported, ENDING from the
 * kill until nothing of it is left; only then is its number told to be gone. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/box/boxes_state.h"
#include "boxd/box/first_process.h"
#include "boxd/box/make_from_warm.h"
#include "boxd/box/warm_pool.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/image/images.h"
#include "protocol/init.h"

#define MAKE_MS 10000          /* a box must be there by then */
#define BURY_PAUSE_MAX_MS 1000 /* between tries to remove what is dying; from 1 ms it doubles */
#define END_MS 100
#define EVENTS_AT_ONCE 64
#define FREE_WAIT_MS 3000 /* at the end of boxd */

static void move_to(struct box_boxes_entry *entry, struct box_list *list)
{
	box_list_drop(&entry->links);
	box_list_push(list, &entry->links);
}

static int watch(struct box_boxes *boxes, int fd, uint64_t number)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};
	return epoll_ctl(boxes->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Before an fd is closed: a clone that still holds a copy would keep it in the set. */
static void unwatch(struct box_boxes *boxes, int fd)
{
	if (fd >= 0) {
		(void)epoll_ctl(boxes->epoll, EPOLL_CTL_DEL, fd, NULL);
	}
}

/* --- the end of a box --- */

static void entry_free(struct box_boxes *boxes, struct box_boxes_entry *entry)
{
	box_table_remove(&boxes->by_number, box_boxes_key(&entry->number));
	box_list_drop(&entry->links);
	free(entry->making);
	free(entry->workspace);
	free(entry);
}

static void end_entry(struct box_boxes *boxes, struct box_boxes_entry *entry)
{
	if (entry->state == BOX_BOXES_ENDING) {
		return;
	}
	entry->state = BOX_BOXES_ENDING;
	box_process_cgroups_free(entry->groups);
	entry->groups = NULL;
	unwatch(boxes, entry->living.report);
	/* Its end shows at the pidfd; the look at the clock is for the case that it does not. */
	entry->deadline_ms = box_clock_ms() + (entry->living.pidfd >= 0 ? END_MS : 0);
	move_to(entry, &boxes->restless);
	box_resources_kill(&entry->living);
}

/* The pidfd is watched until it has told the end. */
static int bury(struct box_boxes *boxes, struct box_resources *living)
{
	if (living->pidfd >= 0) {
		if (!box_resources_reap(living)) {
			return -EBUSY;
		}
		unwatch(boxes, living->pidfd);
		box_close_p(&living->pidfd);
	}
	return box_resources_release(boxes->ground, living);
}

static void try_bury(struct box_boxes *boxes, struct box_boxes_entry *entry)
{
	if (bury(boxes, &entry->living) == -EBUSY) {
		uint64_t pause_ms = entry->pause_ms > 0 ? 2 * entry->pause_ms : 1;
		entry->pause_ms = BOX_MIN(pause_ms, BURY_PAUSE_MAX_MS);
		entry->deadline_ms = box_clock_ms() + entry->pause_ms;
		return;
	}
	uint64_t number = entry->number;
	bool told = entry->told;
	entry_free(boxes, entry);
	if (told) {
		boxes->events->gone(boxes->arg, number);
	}
}

static struct box_boxes_entry *entry_new(struct box_boxes *boxes)
{
	struct box_boxes_entry *entry = box_alloc(sizeof(*entry));
	entry->number = boxes->next_number++;
	entry->living = BOX_RESOURCES_NONE;
	box_list_init(&entry->links);
	box_list_push(&boxes->restless, &entry->links);
	box_table_put(&boxes->by_number, box_boxes_key(&entry->number), entry);
	return entry;
}

/* A blank that nobody wants, or a part of one: it ends as boxes do, while others are made. */
static void let_go(void *arg, struct box_warm_box *blank)
{
	struct box_boxes *boxes = arg;
	struct box_boxes_entry *entry = entry_new(boxes);
	box_make_warm_close(blank);
	entry->living = blank->living;
	(void)watch(boxes, entry->living.pidfd, entry->number);
	end_entry(boxes, entry);
}

/* --- the beginning --- */

static void tell_failed(
	struct box_boxes *boxes, struct box_boxes_entry *entry, const struct box_err *err)
{
	uint32_t request = entry->making->request;
	end_entry(boxes, entry);
	if (request != 0) {
		boxes->events->made(boxes->arg, request, 0, NULL, err);
	}
}

static void tell_box(struct box_boxes *boxes, const struct box_boxes_entry *entry, uint32_t request)
{
	const struct box_cgroup *cgroup = entry->living.cgroup;
	const struct box_boxes_fds fds = {
		.control = entry->living.control,
		.memory = cgroup ? box_cgroup_events(cgroup) : -1,
		.rest = cgroup ? box_cgroup_leaf_events(cgroup) : -1,
		.host_address = entry->living.host_address,
	};
	boxes->events->made(boxes->arg, request, entry->number, &fds, NULL);
}

static void tell_made(struct box_boxes *boxes, struct box_boxes_entry *entry)
{
	uint32_t request = entry->making->request;
	unwatch(boxes, entry->living.report);
	(void)close(TAKE_FD(entry->living.report));
	free(entry->making);
	entry->making = NULL;
	entry->state = BOX_BOXES_LIVE;
	entry->told = true;
	entry->looked_ms = box_clock_ms();
	if (box_boxes_has_socket_check(entry) && boxes->look_ms == UINT64_MAX) {
		boxes->look_ms = entry->looked_ms + BOX_SOCKETS_CHECK_MS;
	}
	move_to(entry, &boxes->live);
	tell_box(boxes, entry, request);
}

/* What the box's first process has to say: it is there, or the step that failed. */
static void take_report(struct box_boxes *boxes, struct box_boxes_entry *entry)
{
	struct box_err err;
	int r = box_first_process_read_report(entry->living.report, &entry->making->plan, &err);
	if (r > 0) {
		tell_made(boxes, entry);
	} else if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "box.failed", box_log_str("why", err.text));
		tell_failed(boxes, entry, &err);
	}
}

/* A blank becomes this box, or ends as this entry does. */
static int use_blank(struct box_boxes *boxes, struct box_boxes_entry *entry,
	struct box_warm_box *blank, int source, struct box_err *err)
{
	struct box_boxes_making *making = entry->making;
	int r = box_make_from_warm(boxes->ground, &making->plan, source, blank, err);
	box_make_warm_close(blank);
	entry->living = blank->living;
	int watched = watch(boxes, entry->living.pidfd, entry->number);
	if (r < 0) {
		return r;
	}
	entry->memory_bytes = making->plan.memory_bytes;
	entry->workspace = box_strdup(making->ask.mount_path);
	entry->own_workspace = making->ask.host_mode == BOX_PLAN_MOUNT_NONE;
	r = watched < 0 ? watched : watch(boxes, entry->living.report, entry->number);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "epoll: %s", box_err_strerror(-r)) : 0;
}

/* A label says nothing: boxes that differ in it alone are alike. */
static int find_root(struct box_host_state *ground, struct box_plan_request *ask,
	struct box_plan_host *host, struct box_root **ret_root, struct box_err *err)
{
	if (!memchr(ask->image, '\0', sizeof(ask->image))) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "image is too long");
	}
	int r = box_images_find(ground->images, ask->image, host, ret_root, err);
	if (r == 0 && !*ret_root) {
		ask->image[0] = '\0';
	}
	return r;
}

/* Takes `given`. */
static int begin(struct box_boxes *boxes, struct box_boxes_entry *entry, struct box_root *given,
	struct box_err *err)
{
	struct box_host_state *ground = boxes->ground;
	struct box_boxes_making *making = entry->making;
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_images_release_p) struct box_root *root = given;
	struct box_warm_box blank;
	if (!ground->possible) {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "%s", ground->missing);
	}
	making->host = ground->host;
	int r = 0;
	if (given) {
		box_root_describe(given, making->ask.image, &making->host);
	} else {
		r = find_root(ground, &making->ask, &making->host, &root, err);
	}
	r = r < 0 ? r
		  : box_plan_make(&making->ask, &ground->policy, &making->host, &making->plan, err);
	r = r < 0 ? r : box_boxes_check_memory(boxes, &making->plan, err);
	r = r < 0 ? r : box_make_open_folder(ground, &making->ask, &source, err);
	r = r < 0 ? r : box_make_check_quota(ground, &making->ask, source, err);
	r = r < 0 ? r : box_warm_pool_take(boxes->ahead, &making->plan, root, &blank, err);
	if (r == 0 && making->ask.kind == BOX_PLAN_KIND_MICROVM) {
		entry->promised_bytes = making->plan.limit_bytes;
		making->limit_ms = making->plan.machine.start_ms + BOX_MICROVM_REPORT_MS;
	}
	r = r < 0 ? r : use_blank(boxes, entry, &blank, source, err);
	struct stat status;
	if (r == 0 && source >= 0 && fstat(source, &status) == 0) {
		entry->source_device = status.st_dev;
		entry->source_inode = status.st_ino;
	}
	return r;
}

void box_boxes_make(struct box_boxes *boxes, uint32_t request, const struct box_plan_request *ask,
	struct box_root *root)
{
	struct box_err err;
	if (boxes->by_number.count >= BOX_BOXES_MAX) {
		(void)box_err_set(&err, BOX_ERR_CAPACITY, EUSERS,
			"no more than %d boxes can there be at once", BOX_BOXES_MAX);
		box_images_release(root);
		boxes->events->made(boxes->arg, request, 0, NULL, &err);
		return;
	}
	struct box_boxes_entry *entry = entry_new(boxes);
	memcpy(entry->tenant, ask->tenant, strnlen(ask->tenant, sizeof(entry->tenant) - 1));
	entry->making = box_alloc(sizeof(*entry->making));
	entry->making->request = request;
	entry->making->ask = *ask;
	entry->making->limit_ms = MAKE_MS;
	int r = begin(boxes, entry, root, &err);
	if (r == 0) {
		/* Only now: what boxd itself needed for it, a router above all, is not its fault. */
		entry->deadline_ms = box_clock_ms() + entry->making->limit_ms;
		return;
	}
	if (entry->living.pidfd >= 0) {
		tell_failed(boxes, entry, &err);
		return;
	}
	entry_free(boxes, entry);
	boxes->events->made(boxes->arg, request, 0, NULL, &err);
}

/* --- what callers ask for --- */

struct box_boxes *box_boxes_new(
	struct box_host_state *ground, const struct box_boxes_events *events, void *arg)
{
	struct box_boxes *boxes = box_alloc(sizeof(*boxes));
	boxes->ground = ground;
	boxes->events = events;
	boxes->arg = arg;
	boxes->epoll = epoll_create1(EPOLL_CLOEXEC);
	boxes->next_number = 1;
	boxes->look_ms = UINT64_MAX;
	boxes->ahead = box_warm_pool_new(ground, boxes->epoll, let_go, boxes);
	box_list_init(&boxes->live);
	box_list_init(&boxes->restless);
	box_list_init(&boxes->groups);
	return boxes;
}

void box_boxes_end(struct box_boxes *boxes, uint64_t box)
{
	struct box_boxes_entry *entry = box_boxes_find(boxes, box);
	if (entry) {
		end_entry(boxes, entry);
	}
}

void box_boxes_drop_requests(struct box_boxes *boxes)
{
	struct box_list *next;
	for (struct box_list *at = boxes->restless.next; at != &boxes->restless; at = next) {
		struct box_boxes_entry *entry = box_boxes_entry_of(at);
		next = at->next;
		entry->told = false;
		if (entry->state == BOX_BOXES_MAKING) {
			entry->making->request = 0;
			end_entry(boxes, entry);
		}
	}
}

struct box_warm_pool *box_boxes_warm_pool(struct box_boxes *boxes)
{
	return boxes->ahead;
}

void box_boxes_list(struct box_boxes *boxes)
{
	for (struct box_list *at = boxes->live.next; at != &boxes->live; at = at->next) {
		tell_box(boxes, box_boxes_entry_of(at), 0);
	}
}

/* --- the loop --- */

int box_boxes_fd(const struct box_boxes *boxes)
{
	return boxes->epoll;
}

int box_boxes_timeout_ms(const struct box_boxes *boxes)
{
	uint64_t now_ms = box_clock_ms();
	uint64_t next_ms = box_process_cgroups_due_ms(&boxes->groups);
	next_ms = BOX_MIN(boxes->look_ms, next_ms);
	for (struct box_list *at = boxes->restless.next; at != &boxes->restless; at = at->next) {
		const struct box_boxes_entry *entry = box_boxes_entry_of(at);
		next_ms = BOX_MIN(entry->deadline_ms, next_ms);
	}
	if (next_ms == UINT64_MAX) {
		return -1;
	}
	return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

static void serve_entry(struct box_boxes *boxes, struct box_boxes_entry *entry)
{
	if (entry->state == BOX_BOXES_MAKING) {
		take_report(boxes, entry);
		return;
	}
	if (entry->state == BOX_BOXES_LIVE) {
		if (!box_boxes_has_ended(entry)) {
			return;
		}
		BOX_LOG(BOX_LOG_WARNING, "box.died", box_log_int("box", (int64_t)entry->number));
		end_entry(boxes, entry);
	}
	try_bury(boxes, entry);
}

static void serve_late(struct box_boxes *boxes)
{
	uint64_t now_ms = box_clock_ms();
	struct box_err err;
	struct box_list *next;
	for (struct box_list *at = boxes->restless.next; at != &boxes->restless; at = next) {
		struct box_boxes_entry *entry = box_boxes_entry_of(at);
		next = at->next;
		if (now_ms < entry->deadline_ms) {
			continue;
		}
		if (entry->state == BOX_BOXES_ENDING) {
			try_bury(boxes, entry);
			continue;
		}
		(void)box_err_set(&err, BOX_ERR_BOX, ETIMEDOUT,
			"the box cannot be made: it was not ready after %d s",
			(int)(entry->making->limit_ms / 1000));
		tell_failed(boxes, entry, &err);
	}
}

/* Who waits for something in it hears why before its end shows. */
static void end_greedy(struct box_boxes *boxes)
{
	struct box_boxes_entry *entry;
	while ((entry = box_boxes_find_over_socket_memory(boxes)) != NULL) {
		BOX_LOG(BOX_LOG_WARNING, "box.ended", box_log_int("box", (int64_t)entry->number),
			box_log_str("why", box_boxd_end_reason(BOX_BOXD_END_SOCKETS)));
		if (entry->told) {
			boxes->events->ends(boxes->arg, entry->number, BOX_BOXD_END_SOCKETS);
		}
		end_entry(boxes, entry);
	}
}

void box_boxes_step(struct box_boxes *boxes)
{
	for (int i = 0; i < EVENTS_AT_ONCE; i++) {
		struct epoll_event event;
		if (epoll_wait(boxes->epoll, &event, 1, 0) != 1) {
			break;
		}
		uint64_t number = event.data.u64; /* the struct is packed */
		if (number == BOX_WARM_POOL_EVENT) {
			if (boxes->ahead) {
				box_warm_pool_on_failure(boxes->ahead);
			}
			continue;
		}
		struct box_boxes_entry *entry = box_table_get(
			&boxes->by_number, box_boxes_key(&number));
		if (entry) {
			serve_entry(boxes, entry);
		}
	}
	serve_late(boxes);
	end_greedy(boxes);
	box_process_cgroups_try_removals(&boxes->groups);
}

void box_boxes_free(struct box_boxes *boxes)
{
	uint64_t until_ms = box_clock_ms() + FREE_WAIT_MS;
	box_warm_pool_free(boxes->ahead);
	boxes->ahead = NULL;
	while (!box_list_empty(&boxes->live)) {
		end_entry(boxes, box_boxes_entry_of(boxes->live.next));
	}
	box_boxes_drop_requests(boxes);
	while (!box_list_empty(&boxes->restless) && box_clock_ms() < until_ms) {
		struct pollfd polled = {.fd = boxes->epoll, .events = POLLIN};
		(void)poll(&polled, 1, box_boxes_timeout_ms(boxes));
		box_boxes_step(boxes);
	}
	(void)close(boxes->epoll);
	box_table_free(&boxes->by_number);
	free(boxes);
}
