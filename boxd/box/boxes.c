/* The life of a box, as one state machine:
 *
 *   state    entered                        left
 *   MAKING   box_boxes_make                 LIVE when its box-init reports that it is ready;
 *                                           ENDING when a step fails, or after limit_ms
 *   LIVE     its report has come            ENDING when it is ended, when its first process dies, or
 *                                           when its sockets hold too much memory
 *   ENDING   its first process was killed   gone when that is reaped and all that the box held is
 *                                           given back, which is tried again until it succeeds
 *
 * A warm box that is discarded enters at ENDING. How a box is put together is in make.c; the numbers
 * of boxes are never used again.
 */
#include "boxd/box/boxes.h"

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
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/table.h"
#include "boxd/box/first_process.h"
#include "boxd/box/host_memory.h"
#include "boxd/box/make.h"
#include "boxd/box/resources.h"
#include "boxd/box/socket_checks.h"
#include "boxd/box/warm_pool.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/image/images.h"
#include "protocol/init.h"

#define PLENTY_BYTES (1024 * BOX_MIB) /* so much above the reserve */
#define PLENTY_MS 100                 /* is taken for granted this long: reading takes 30 us */
#define MAKE_MS 10000                 /* a native box must be ready by then */
#define RELEASE_PAUSE_MAX_MS 1000     /* between attempts to free a dying box; doubles from 1 ms */
#define END_MS 100 /* after a kill: check even if the pidfd has not shown the end */
#define EVENTS_AT_ONCE 64
#define FREE_WAIT_MS 3000 /* for all boxes when boxd ends */

enum state {
	MAKING,
	LIVE,
	ENDING,
};

/* Needed only while the box is made. */
struct unfinished {
	uint32_t request;  /* 0: nobody waits for the answer any more */
	uint64_t limit_ms; /* in which it must be ready */
	struct box_plan_request ask;
	struct box_plan_host host; /* with the root of its image */
	struct box_plan plan;
};

struct entry {
	struct box_list links; /* in `live`, or in `changing` */
	uint64_t number;
	enum state state;
	bool announced;       /* box-rpc knows of it, and must hear of its end */
	uint64_t deadline_ms; /* MAKING: then it has failed; ENDING: the next try to release it */
	uint64_t pause_ms;    /* ENDING: before the last try */
	struct unfinished *unfinished; /* NULL once the box is live */
	struct box_resources resources;
	bool is_microvm;
	uint64_t promised_bytes;              /* memory promised to a microVM and box-vmm; else 0 */
	uint64_t memory_bytes;                /* its limit */
	struct box_socket_check socket_check; /* LIVE */
	struct box_process_cgroups *groups;   /* LIVE: NULL until the first one is opened */
	char tenant[BOX_TENANT_SIZE];
	char *workspace;     /* its path inside the box */
	bool own_workspace;  /* it is not a folder of the host */
	dev_t source_device; /* else the device of that folder */
	ino_t source_inode;
};

struct box_boxes {
	struct box_host_state *host_state;
	const struct box_boxes_events *events;
	void *arg;
	int epoll;
	uint64_t next_number;
	struct box_warm_pool *pool;
	struct box_table by_number;
	struct box_list live;
	struct box_list changing; /* MAKING and ENDING */
	struct box_list groups;   /* process cgroups that are closed but not removed yet */
	struct box_socket_checks socket_checks;
	uint64_t plenty_until_ms; /* until then the host has enough memory for native boxes */
};

static struct box_str key_of(const uint64_t *number)
{
	return (struct box_str){(const char *)number, sizeof(*number)};
}

static struct entry *entry_of(struct box_list *at)
{
	return BOX_CONTAINER_OF(at, struct entry, links);
}

/* The live box of a number, or NULL. */
static struct entry *find_live(struct box_boxes *boxes, uint64_t box)
{
	struct entry *entry = box_table_get(&boxes->by_number, key_of(&box));
	return entry && entry->state == LIVE ? entry : NULL;
}

static void move_to(struct entry *entry, struct box_list *list)
{
	box_list_drop(&entry->links);
	box_list_push(list, &entry->links);
}

static int watch(struct box_boxes *boxes, int fd, uint64_t number)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u64 = number};
	return epoll_ctl(boxes->epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

/* Removed explicitly before the fd is closed: a clone that still holds a copy would keep it in the
 * epoll set. */
static void unwatch(struct box_boxes *boxes, int fd)
{
	if (fd >= 0) {
		(void)epoll_ctl(boxes->epoll, EPOLL_CTL_DEL, fd, NULL);
	}
}

static struct entry *entry_new(struct box_boxes *boxes)
{
	struct entry *entry = box_alloc(sizeof(*entry));
	entry->number = boxes->next_number++;
	entry->resources = BOX_RESOURCES_NONE;
	box_socket_checks_prepare(&entry->socket_check);
	box_list_init(&entry->links);
	box_list_push(&boxes->changing, &entry->links);
	box_table_put(&boxes->by_number, key_of(&entry->number), entry);
	return entry;
}

static void entry_free(struct box_boxes *boxes, struct entry *entry)
{
	box_table_remove(&boxes->by_number, key_of(&entry->number));
	box_list_drop(&entry->links);
	free(entry->unfinished);
	free(entry->workspace);
	free(entry);
}

/* --- ENDING --- */

static void end_entry(struct box_boxes *boxes, struct entry *entry)
{
	if (entry->state == ENDING) {
		return;
	}
	entry->state = ENDING;
	box_process_cgroups_free(entry->groups);
	entry->groups = NULL;
	box_socket_checks_remove(&entry->socket_check);
	unwatch(boxes, entry->resources.report);
	/* The end shows at the pidfd; the deadline covers the case that it does not. */
	entry->deadline_ms = box_clock_ms() + (entry->resources.pidfd >= 0 ? END_MS : 0);
	move_to(entry, &boxes->changing);
	box_resources_kill(&entry->resources);
}

/* The pidfd is watched until it has shown the end. 0, or -EBUSY: try again. */
static int reap_and_release(struct box_boxes *boxes, struct box_resources *resources)
{
	if (resources->pidfd >= 0) {
		if (!box_resources_reap(resources)) {
			return -EBUSY;
		}
		unwatch(boxes, resources->pidfd);
		box_close_p(&resources->pidfd);
	}
	return box_resources_release(boxes->host_state, resources);
}

static void try_release(struct box_boxes *boxes, struct entry *entry)
{
	if (reap_and_release(boxes, &entry->resources) == -EBUSY) {
		uint64_t pause_ms = entry->pause_ms > 0 ? 2 * entry->pause_ms : 1;
		entry->pause_ms = BOX_MIN(pause_ms, RELEASE_PAUSE_MAX_MS);
		entry->deadline_ms = box_clock_ms() + entry->pause_ms;
		return;
	}
	uint64_t number = entry->number;
	bool announced = entry->announced;
	entry_free(boxes, entry);
	if (announced) {
		boxes->events->gone(boxes->arg, number);
	}
}

/* Takes over an unwanted warm box, or a half-made one: it ends as other boxes do, in the background. */
static void discard_warm(void *arg, struct box_warm_box *warm)
{
	struct box_boxes *boxes = arg;
	struct entry *entry = entry_new(boxes);
	box_make_warm_close(warm);
	entry->resources = warm->resources;
	(void)watch(boxes, entry->resources.pidfd, entry->number);
	end_entry(boxes, entry);
}

/* --- MAKING --- */

static void fail_unfinished(struct box_boxes *boxes, struct entry *entry, const struct box_err *err)
{
	uint32_t request = entry->unfinished->request;
	end_entry(boxes, entry);
	if (request != 0) {
		boxes->events->made(boxes->arg, request, 0, NULL, err);
	}
}

/* Adds the memory that microVMs were promised and have not taken yet. */
static void add_promises(struct box_list *list, struct box_host_memory *memory)
{
	for (struct box_list *at = list->next; at != list; at = at->next) {
		const struct entry *entry = entry_of(at);
		const struct box_cgroup *cgroup = entry->resources.cgroup;
		if (!entry->is_microvm) {
			continue;
		}
		uint64_t taken = cgroup ? box_cgroup_memory(cgroup) : 0;
		memory->microvms++;
		memory->promised_bytes += entry->promised_bytes;
		memory->taken_bytes += BOX_MIN(taken, entry->promised_bytes);
	}
}

/* Whether the host has memory for the box of this plan beside the others. */
static int check_memory(struct box_boxes *boxes, const struct box_plan *plan, struct box_err *err)
{
	struct box_host_memory memory;
	uint64_t reserve_bytes = boxes->host_state->policy.reserve_bytes;
	bool is_microvm = plan->ask->kind == BOX_PLAN_KIND_MICROVM;
	uint64_t now_ms = box_clock_ms();
	if (!is_microvm && (reserve_bytes == 0 || now_ms < boxes->plenty_until_ms)) {
		return 0;
	}
	int r = box_host_memory_read(boxes->host_state->cgroups, &memory, err);
	if (r < 0) {
		return r;
	}
	bool plenty = BOX_MIN(memory.free_bytes, memory.group_free_bytes) >
		reserve_bytes + PLENTY_BYTES;
	boxes->plenty_until_ms = plenty ? now_ms + PLENTY_MS : 0;
	r = box_host_memory_check_reserve(&memory, reserve_bytes, err);
	if (r < 0 || !is_microvm) {
		return r;
	}
	add_promises(&boxes->live, &memory);
	add_promises(&boxes->changing, &memory);
	return box_host_memory_check_promises(&memory, plan->limit_bytes, err);
}

/* The root of the image that is asked for; NULL for the default one. */
static int find_root(struct box_host_state *host_state, struct box_plan_request *ask,
	struct box_plan_host *host, struct box_root **ret_root, struct box_err *err)
{
	if (!memchr(ask->image, '\0', sizeof(ask->image))) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "image is too long");
	}
	int r = box_images_find(host_state->images, ask->image, host, ret_root, err);
	if (r < 0) {
		return r;
	}
	if (!*ret_root) {
		/* The image name is only a label here: boxes that differ in nothing else can use the
		 * same warm box. */
		ask->image[0] = '\0';
	}
	return 0;
}

/* The plan of the box; *root is the caller's prepared root, or becomes that of the image. */
static int make_plan(struct box_boxes *boxes, struct unfinished *unfinished, struct box_root **root,
	struct box_err *err)
{
	struct box_host_state *host_state = boxes->host_state;
	if (!host_state->possible) {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "%s", host_state->missing);
	}
	unfinished->host = host_state->host;
	if (*root) {
		box_root_describe(*root, unfinished->ask.image, &unfinished->host);
	} else {
		int r = find_root(host_state, &unfinished->ask, &unfinished->host, root, err);
		if (r < 0) {
			return r;
		}
	}
	return box_plan_make(
		&unfinished->ask, &host_state->policy, &unfinished->host, &unfinished->plan, err);
}

/* The warm box becomes this box, or is ended with this entry. */
static int use_warm(struct box_boxes *boxes, struct entry *entry, struct box_warm_box *warm,
	int source, struct box_err *err)
{
	struct unfinished *unfinished = entry->unfinished;
	int r = box_make_from_warm(boxes->host_state, &unfinished->plan, source, warm, err);
	box_make_warm_close(warm);
	entry->resources = warm->resources;
	int watched = watch(boxes, entry->resources.pidfd, entry->number);
	if (r < 0) {
		return r;
	}
	entry->memory_bytes = unfinished->plan.memory_bytes;
	entry->workspace = box_strdup(unfinished->ask.mount_path);
	entry->own_workspace = unfinished->ask.host_mode == BOX_PLAN_MOUNT_NONE;
	if (watched == 0) {
		watched = watch(boxes, entry->resources.report, entry->number);
	}
	if (watched < 0) {
		return box_err_set(
			err, BOX_ERR_OS, -watched, "epoll: %s", box_err_strerror(-watched));
	}
	return 0;
}

static void note_source(struct entry *entry, int source)
{
	struct stat status;
	if (source >= 0 && fstat(source, &status) == 0) {
		entry->source_device = status.st_dev;
		entry->source_inode = status.st_ino;
	}
}

/* Takes `given`. Everything that can be refused is refused before a warm box is used up. */
static int begin(
	struct box_boxes *boxes, struct entry *entry, struct box_root *given, struct box_err *err)
{
	struct box_host_state *host_state = boxes->host_state;
	struct unfinished *unfinished = entry->unfinished;
	_cleanup_(box_close_p) int source = -1;
	_cleanup_(box_images_release_p) struct box_root *root = given;
	struct box_warm_box warm;
	int r = make_plan(boxes, unfinished, &root, err);
	if (r < 0) {
		return r;
	}
	r = check_memory(boxes, &unfinished->plan, err);
	if (r < 0) {
		return r;
	}
	r = box_make_open_folder(host_state, &unfinished->ask, &source, err);
	if (r < 0) {
		return r;
	}
	r = box_make_check_quota(host_state, &unfinished->ask, source, err);
	if (r < 0) {
		return r;
	}
	r = box_warm_pool_take(boxes->pool, &unfinished->plan, root, &warm, err);
	if (r < 0) {
		return r;
	}
	if (unfinished->ask.kind == BOX_PLAN_KIND_MICROVM) {
		entry->is_microvm = true;
		entry->promised_bytes = unfinished->plan.limit_bytes;
		unfinished->limit_ms = unfinished->plan.microvm.start_ms + BOX_MICROVM_REPORT_MS;
	}
	r = use_warm(boxes, entry, &warm, source, err);
	if (r < 0) {
		return r;
	}
	note_source(entry, source);
	return 0;
}

void box_boxes_make(struct box_boxes *boxes, uint32_t request, const struct box_plan_request *ask,
	struct box_root *root)
{
	struct box_err err;
	if (boxes->by_number.count >= BOX_BOXES_MAX) {
		(void)box_err_set(
			&err, BOX_ERR_CAPACITY, EUSERS, "too many boxes (limit %d)", BOX_BOXES_MAX);
		box_images_release(root);
		boxes->events->made(boxes->arg, request, 0, NULL, &err);
		return;
	}
	struct entry *entry = entry_new(boxes);
	memcpy(entry->tenant, ask->tenant, strnlen(ask->tenant, sizeof(entry->tenant) - 1));
	entry->unfinished = box_alloc(sizeof(*entry->unfinished));
	entry->unfinished->request = request;
	entry->unfinished->ask = *ask;
	entry->unfinished->limit_ms = MAKE_MS;
	int r = begin(boxes, entry, root, &err);
	if (r == 0) {
		/* The time limit starts now: it does not include time that boxd itself took, above all
		 * for a router. */
		entry->deadline_ms = box_clock_ms() + entry->unfinished->limit_ms;
		return;
	}
	if (entry->resources.pidfd >= 0) {
		fail_unfinished(boxes, entry, &err);
		return;
	}
	entry_free(boxes, entry);
	boxes->events->made(boxes->arg, request, 0, NULL, &err);
}

/* --- LIVE --- */

static void announce(struct box_boxes *boxes, const struct entry *entry, uint32_t request)
{
	const struct box_cgroup *cgroup = entry->resources.cgroup;
	const struct box_boxes_fds fds = {
		.control = entry->resources.control,
		.memory_events = cgroup ? box_cgroup_events(cgroup) : -1,
		.leaf_events = cgroup ? box_cgroup_leaf_events(cgroup) : -1,
		.host_address = entry->resources.host_address,
	};
	boxes->events->made(boxes->arg, request, entry->number, &fds, NULL);
}

static void become_live(struct box_boxes *boxes, struct entry *entry)
{
	uint32_t request = entry->unfinished->request;
	unwatch(boxes, entry->resources.report);
	(void)close(TAKE_FD(entry->resources.report));
	free(TAKE_PTR(entry->unfinished));
	entry->state = LIVE;
	entry->announced = true;
	/* The sockets of a microVM are in its own kernel. */
	if (!entry->is_microvm && entry->memory_bytes > 0) {
		box_socket_checks_add(&boxes->socket_checks, &entry->socket_check,
			&entry->resources, entry->memory_bytes);
	}
	move_to(entry, &boxes->live);
	announce(boxes, entry, request);
}

/* The box's first process says that it is ready, or which step has failed. */
static void take_report(struct box_boxes *boxes, struct entry *entry)
{
	struct box_err err;
	int r = box_first_process_read_report(
		entry->resources.report, &entry->unfinished->plan, &err);
	if (r > 0) {
		become_live(boxes, entry);
	} else if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "box.failed", box_log_str("why", err.text));
		fail_unfinished(boxes, entry, &err);
	}
}

static bool has_died(const struct entry *entry)
{
	struct pollfd polled = {.fd = entry->resources.pidfd, .events = POLLIN};
	return poll(&polled, 1, 0) == 1;
}

/* Tells clients that wait for something in the box the reason before its end shows. */
static void end_over_socket_memory(struct box_boxes *boxes)
{
	struct box_socket_check *check;
	while ((check = box_socket_checks_find_over(&boxes->socket_checks)) != NULL) {
		struct entry *entry = BOX_CONTAINER_OF(check, struct entry, socket_check);
		BOX_LOG(BOX_LOG_WARNING, "box.ended", box_log_int("box", (int64_t)entry->number),
			box_log_str("why", box_boxd_end_reason(BOX_BOXD_END_SOCKETS)));
		if (entry->announced) {
			boxes->events->ending(boxes->arg, entry->number, BOX_BOXD_END_SOCKETS);
		}
		end_entry(boxes, entry);
	}
}

/* --- requests --- */

void box_boxes_end(struct box_boxes *boxes, uint64_t box)
{
	struct entry *entry = find_live(boxes, box);
	if (entry) {
		end_entry(boxes, entry);
	}
}

void box_boxes_drop_requests(struct box_boxes *boxes)
{
	struct box_list *next;
	for (struct box_list *at = boxes->changing.next; at != &boxes->changing; at = next) {
		struct entry *entry = entry_of(at);
		next = at->next;
		entry->announced = false;
		if (entry->state == MAKING) {
			entry->unfinished->request = 0;
			end_entry(boxes, entry);
		}
	}
}

void box_boxes_list(struct box_boxes *boxes)
{
	for (struct box_list *at = boxes->live.next; at != &boxes->live; at = at->next) {
		announce(boxes, entry_of(at), 0);
	}
}

static int refuse_ended(struct box_err *err)
{
	return box_err_set(err, BOX_ERR_BOX, ENOENT, "the box has ended");
}

int box_boxes_mount(struct box_boxes *boxes, uint64_t box, int source, bool read_only,
	int *ret_mount, struct box_err *err)
{
	const struct entry *entry = find_live(boxes, box);
	if (!entry) {
		return refuse_ended(err);
	}
	return box_make_mount(
		boxes->host_state, &entry->resources, source, read_only, ret_mount, err);
}

static bool uses(struct box_list *list, const struct stat *status)
{
	for (struct box_list *at = list->next; at != list; at = at->next) {
		const struct entry *entry = entry_of(at);
		if (entry->source_inode == status->st_ino &&
			entry->source_device == status->st_dev) {
			return true;
		}
	}
	return false;
}

bool box_boxes_uses_folder(struct box_boxes *boxes, int source)
{
	struct stat status;
	return fstat(source, &status) < 0 || uses(&boxes->live, &status) ||
		uses(&boxes->changing, &status);
}

struct box_process_cgroups *box_boxes_process_cgroups(
	struct box_boxes *boxes, uint64_t box, struct box_err *err)
{
	struct entry *entry = find_live(boxes, box);
	if (!entry) {
		(void)refuse_ended(err);
		return NULL;
	}
	if (!entry->groups && entry->resources.cgroup) {
		entry->groups = box_process_cgroups_new(entry->resources.cgroup, &boxes->groups);
	} else if (!entry->groups) {
		(void)box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"no limits can be set in this box");
	}
	return entry->groups;
}

const char *box_boxes_tenant(struct box_boxes *boxes, uint64_t box)
{
	const struct entry *entry = find_live(boxes, box);
	return entry ? entry->tenant : NULL;
}

bool box_boxes_is_microvm(struct box_boxes *boxes, uint64_t box)
{
	const struct entry *entry = find_live(boxes, box);
	return entry && entry->is_microvm;
}

/* The pid cannot be another process's before it is reaped. */
int box_boxes_root(struct box_boxes *boxes, uint64_t box, int *ret_root, const char **ret_workspace,
	bool *ret_own)
{
	const struct entry *entry = find_live(boxes, box);
	char path[64];
	if (!entry || has_died(entry)) {
		return -ESRCH;
	}
	if (entry->is_microvm) {
		return -EOPNOTSUPP; /* its files are in the guest's memory */
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/root", entry->resources.pid);
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0) {
		return -errno;
	}
	*ret_root = root;
	*ret_workspace = entry->workspace;
	*ret_own = entry->own_workspace;
	return 0;
}

struct box_warm_pool *box_boxes_warm_pool(struct box_boxes *boxes)
{
	return boxes->pool;
}

/* --- the loop --- */

static int get_fd(const void *arg)
{
	const struct box_boxes *boxes = arg;
	return boxes->epoll;
}

static int get_timeout_ms(const void *arg)
{
	const struct box_boxes *boxes = arg;
	uint64_t now_ms = box_clock_ms();
	uint64_t next_ms = box_process_cgroups_due_ms(&boxes->groups);
	next_ms = BOX_MIN(boxes->socket_checks.next_ms, next_ms);
	const struct box_list *changing = &boxes->changing;
	for (struct box_list *at = changing->next; at != changing; at = at->next) {
		next_ms = BOX_MIN(entry_of(at)->deadline_ms, next_ms);
	}
	if (next_ms == UINT64_MAX) {
		return -1;
	}
	return next_ms > now_ms ? (int)(next_ms - now_ms) : 0;
}

/* Its report or its pidfd can be read. */
static void on_entry_event(struct box_boxes *boxes, struct entry *entry)
{
	switch (entry->state) {
	case MAKING:
		take_report(boxes, entry);
		return;
	case LIVE:
		if (!has_died(entry)) {
			return;
		}
		BOX_LOG(BOX_LOG_WARNING, "box.died", box_log_int("box", (int64_t)entry->number));
		end_entry(boxes, entry);
		try_release(boxes, entry);
		return;
	case ENDING:
		try_release(boxes, entry);
		return;
	}
}

static void take_events(struct box_boxes *boxes)
{
	for (int i = 0; i < EVENTS_AT_ONCE; i++) {
		struct epoll_event event;
		if (epoll_wait(boxes->epoll, &event, 1, 0) != 1) {
			return;
		}
		uint64_t number = event.data.u64; /* the struct is packed */
		if (number == BOX_WARM_POOL_EVENT) {
			if (boxes->pool) {
				box_warm_pool_on_failure(boxes->pool);
			}
			continue;
		}
		struct entry *entry = box_table_get(&boxes->by_number, key_of(&number));
		if (entry) {
			on_entry_event(boxes, entry);
		}
	}
}

static void check_deadlines(struct box_boxes *boxes)
{
	uint64_t now_ms = box_clock_ms();
	struct box_err err;
	struct box_list *next;
	for (struct box_list *at = boxes->changing.next; at != &boxes->changing; at = next) {
		struct entry *entry = entry_of(at);
		next = at->next;
		if (now_ms < entry->deadline_ms) {
			continue;
		}
		if (entry->state == ENDING) {
			try_release(boxes, entry);
			continue;
		}
		(void)box_err_set(&err, BOX_ERR_BOX, ETIMEDOUT,
			"the box cannot be made: it was not ready after %d s",
			(int)(entry->unfinished->limit_ms / 1000));
		fail_unfinished(boxes, entry, &err);
	}
}

static void step(void *arg, short revents)
{
	struct box_boxes *boxes = arg;
	(void)revents;
	take_events(boxes);
	check_deadlines(boxes);
	end_over_socket_memory(boxes);
	box_process_cgroups_try_removals(&boxes->groups);
}

struct box_event_source box_boxes_event_source(struct box_boxes *boxes)
{
	return (struct box_event_source){
		.arg = boxes, .fd = get_fd, .timeout_ms = get_timeout_ms, .step = step};
}

struct box_boxes *box_boxes_new(
	struct box_host_state *host_state, const struct box_boxes_events *events, void *arg)
{
	struct box_boxes *boxes = box_alloc(sizeof(*boxes));
	boxes->host_state = host_state;
	boxes->events = events;
	boxes->arg = arg;
	boxes->epoll = epoll_create1(EPOLL_CLOEXEC);
	boxes->next_number = BOX_WARM_POOL_EVENT + 1;
	boxes->pool = box_warm_pool_new(host_state, boxes->epoll, discard_warm, boxes);
	box_list_init(&boxes->live);
	box_list_init(&boxes->changing);
	box_list_init(&boxes->groups);
	box_socket_checks_init(&boxes->socket_checks);
	return boxes;
}

void box_boxes_free(struct box_boxes *boxes)
{
	uint64_t until_ms = box_clock_ms() + FREE_WAIT_MS;
	box_warm_pool_free(TAKE_PTR(boxes->pool));
	while (!box_list_empty(&boxes->live)) {
		end_entry(boxes, entry_of(boxes->live.next));
	}
	box_boxes_drop_requests(boxes);
	while (!box_list_empty(&boxes->changing) && box_clock_ms() < until_ms) {
		struct pollfd polled = {.fd = boxes->epoll, .events = POLLIN};
		(void)poll(&polled, 1, get_timeout_ms(boxes));
		step(boxes, 0);
	}
	(void)close(boxes->epoll);
	box_table_free(&boxes->by_number);
	free(boxes);
}
