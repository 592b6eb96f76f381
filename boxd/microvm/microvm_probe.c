/* A queue of requests, and at most one box-vmm that boots a guest as a test. The facts that are cheap
 * to collect (microvm_facts.c) are collected again for each request, so that missing parts can be
 * installed; that a guest boots is remembered, also for the next boxd. */
#include "boxd/microvm/microvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "boxd/jobs.h"
#include "boxd/microvm/microvm_facts.h"
#include "boxd/program.h"

#define OUTPUT_MAX 16384 /* fits into a pipe: boxd does not read while box-vmm writes */

#define CACHE_FOLDER "box"
#define CACHE_NAME "machine"
#define CACHE_NEW_NAME "machine.new"
#define SUBJECT_MAX 256

/* A request that waits for the end of box-vmm. */
struct waiter {
	struct box_list links;
	struct box_making *making; /* NULL: a query without a box */
	uint32_t request;
};

struct box_microvm_probe {
	struct box_host_state *host_state;
	struct box_jobs *jobs;
	struct box_identity ids;
	box_making_done *done;
	box_microvm_probe_answered *answered;
	void *arg;
	struct box_list waiting;
	size_t waiting_count;
	int pipe;    /* of the box-vmm that runs, or -1 */
	bool probed; /* `output` is what box-vmm printed */
	size_t output_len;
	char output[OUTPUT_MAX];
};

struct box_microvm_probe *box_microvm_probe_new(struct box_host_state *host_state,
	struct box_jobs *jobs, const struct box_identity *ids, box_making_done *done,
	box_microvm_probe_answered *answered, void *arg)
{
	struct box_microvm_probe *probe = box_alloc(sizeof(*probe));
	probe->host_state = host_state;
	probe->jobs = jobs;
	probe->ids = *ids;
	probe->done = done;
	probe->answered = answered;
	probe->arg = arg;
	probe->pipe = -1;
	box_list_init(&probe->waiting);
	return probe;
}

void box_microvm_probe_drop_requests(struct box_microvm_probe *probe)
{
	struct box_list *item;
	while ((item = box_list_pop(&probe->waiting))) {
		struct waiter *waiter = BOX_CONTAINER_OF(item, struct waiter, links);
		box_making_free(waiter->making);
		free(waiter);
	}
	probe->waiting_count = 0;
}

void box_microvm_probe_free(struct box_microvm_probe *probe)
{
	box_microvm_probe_drop_requests(probe);
	box_close_p(&probe->pipe);
	free(probe);
}

/* --- the result of the last probe, stored in a file ---
 *
 * The first line describes what was probed; then follows the output of box-vmm. The file counts only if
 * we own it and nobody else could have written it. */

/* The boot of the host and the file of box-vmm: with another of either, the result is worthless. */
static int describe_subject(const char *vmm_path, char subject[SUBJECT_MAX])
{
	char boot[64] = "";
	struct stat status;
	_cleanup_(box_close_p) int fd = open(
		"/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, boot, sizeof(boot) - 1);
	if (got <= 0 || stat(vmm_path, &status) < 0) {
		return -ENOENT;
	}
	boot[strcspn(boot, "\n")] = '\0';
	(void)snprintf(subject, SUBJECT_MAX, "boot %s program %llx:%llx:%lld.%09ld\n", boot,
		(unsigned long long)status.st_dev, (unsigned long long)status.st_ino,
		(long long)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
	return 0;
}

/* -1: there is no such folder, or others could write to it. */
static int open_folder(bool root, bool make)
{
	const char *session = getenv("XDG_RUNTIME_DIR");
	struct stat status;
	const char *above = root ? "/run" : session && session[0] == '/' ? session : "";
	_cleanup_(box_close_p) int parent = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (parent >= 0 && make) {
		/* With the same mode as operator_socket.c uses, whichever of the two makes it. */
		(void)mkdirat(parent, CACHE_FOLDER, root ? 0711 : 0700);
	}
	_cleanup_(box_close_p) int fd = parent < 0
		? -1
		: openat(parent, CACHE_FOLDER, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &status) < 0 || status.st_uid != geteuid() ||
		(status.st_mode & 0022) != 0) {
		return -1;
	}
	return TAKE_FD(fd);
}

int box_microvm_probe_cache_read(bool root, const char *vmm_path, char *text, size_t size)
{
	char subject[SUBJECT_MAX];
	char cached[SUBJECT_MAX] = "";
	_cleanup_(box_close_p) int folder = open_folder(root, false);
	_cleanup_(box_close_p) int fd = folder < 0
		? -1
		: openat(folder, CACHE_NAME, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || describe_subject(vmm_path, subject) < 0) {
		return -ENOENT;
	}
	size_t len = strlen(subject);
	if (read(fd, cached, len) != (ssize_t)len || memcmp(cached, subject, len) != 0) {
		return -ESTALE;
	}
	ssize_t got = read(fd, text, size);
	return got < 0 ? -errno : (int)got;
}

void box_microvm_probe_cache_write(bool root, const char *vmm_path, const char *text, size_t len)
{
	char subject[SUBJECT_MAX];
	_cleanup_(box_close_p) int folder = open_folder(root, true);
	if (folder < 0 || describe_subject(vmm_path, subject) < 0) {
		return;
	}
	(void)unlinkat(folder, CACHE_NEW_NAME, 0);
	_cleanup_(box_close_p) int fd = openat(
		folder, CACHE_NEW_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	const struct iovec parts[] = {{subject, strlen(subject)}, {(void *)(uintptr_t)text, len}};
	ssize_t size = (ssize_t)(strlen(subject) + len);
	if (fd < 0 || writev(fd, parts, 2) != size ||
		renameat(folder, CACHE_NEW_NAME, folder, CACHE_NAME) < 0) {
		(void)unlinkat(folder, CACHE_NEW_NAME, 0);
	}
}

/* --- what is known --- */

/* 0: microVMs work; -EAGAIN: box-vmm must be run; else err says why they do not. */
static int check_verdict(
	struct box_microvm_probe *probe, struct box_microvm_facts *facts, struct box_err *err)
{
	struct box_host_state *host_state = probe->host_state;
	struct box_microvm_facts_verdict verdict;
	if (!host_state->possible) {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "%s", host_state->missing);
	}
	box_microvm_facts_collect(host_state->vmm_path, facts);
	if (box_microvm_facts_may_work(facts) && !probe->probed) {
		int len = box_microvm_probe_cache_read(host_state->host.root, host_state->vmm_path,
			probe->output, sizeof(probe->output));
		if (len <= 0) {
			return -EAGAIN;
		}
		probe->output_len = (size_t)len;
		probe->probed = true;
	}
	if (probe->probed) {
		box_microvm_facts_add_probe(probe->output, probe->output_len, facts);
	}
	box_microvm_facts_judge(facts, &verdict);
	if (!verdict.works) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"no microVM can be made here: %s; %s", verdict.why, verdict.fix);
	}
	host_state->host.microvm_ms = box_microvm_facts_start_ms(facts);
	return 0;
}

/* `err` NULL: microVMs work. `making` NULL: a query without a box. */
static void answer(struct box_microvm_probe *probe, struct box_making *making, uint32_t request,
	const struct box_err *err)
{
	struct box_err why;
	if (!making) {
		probe->answered(probe->arg, request, err);
		return;
	}
	if (!err && box_common_mounts_make_kvm(&probe->host_state->common, &why) < 0) {
		err = &why;
	}
	probe->done(probe->arg, making, err);
}

/* --- the probe --- */

struct box_identity box_microvm_probe_identity(
	const struct box_microvm_facts *facts, const struct box_identity *ids)
{
	struct box_identity wanted = *ids;
	if ((facts->kvm_mode & 0006) == 0006) {
		return wanted;
	}
	if ((facts->kvm_mode & 0060) == 0060) {
		wanted.gid = facts->kvm_gid;
	} else {
		wanted.change = false;
	}
	return wanted;
}

static void answer_all(struct box_microvm_probe *probe, const struct box_err *err)
{
	struct box_list *item;
	while ((item = box_list_pop(&probe->waiting))) {
		struct waiter *waiter = BOX_CONTAINER_OF(item, struct waiter, links);
		struct box_making *making = waiter->making;
		uint32_t request = waiter->request;
		probe->waiting_count--;
		free(waiter);
		answer(probe, making, request, err);
	}
}

static void on_probe_end(void *arg)
{
	struct box_microvm_probe *probe = arg;
	const struct box_host_state *host_state = probe->host_state;
	struct box_microvm_facts facts = {0};
	struct box_err err = {0};
	ssize_t got = read(probe->pipe, probe->output, sizeof(probe->output));
	box_close_p(&probe->pipe);
	probe->output_len = got > 0 ? (size_t)got : 0;
	probe->probed = true;
	int r = check_verdict(probe, &facts, &err);
	BOX_LOG(r < 0 ? BOX_LOG_WARNING : BOX_LOG_INFO, "microvms.probed",
		box_log_str("result", r < 0 ? err.text : "they work"),
		box_log_int("boot_ms", facts.boot_ms));
	/* A missing library may be installed later: the result is remembered only if a guest was
	 * booted, or could not be. */
	probe->probed = facts.booted || facts.boot_error[0] != '\0';
	if (probe->probed) {
		box_microvm_probe_cache_write(host_state->host.root, host_state->vmm_path,
			probe->output, probe->output_len);
	}
	answer_all(probe, r < 0 ? &err : NULL);
}

/* Does nothing if box-vmm runs already. */
static int start_probe(
	struct box_microvm_probe *probe, const struct box_microvm_facts *facts, struct box_err *err)
{
	int ends[2];
	if (probe->pipe >= 0) {
		return 0;
	}
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "pipe: %s", box_err_strerror(errno));
	}
	_cleanup_(box_close_p) int ours = ends[0];
	_cleanup_(box_close_p) int output = ends[1];
	const struct box_program wanted = {
		.path = probe->host_state->vmm_path,
		.name = "box-vmm",
		.task = "--probe=boot",
		.ids = box_microvm_probe_identity(facts, &probe->ids),
		.output = output,
	};
	int r = box_jobs_start(
		probe->jobs, &wanted, BOX_MICROVM_PROBE_MS, on_probe_end, probe, err);
	if (r < 0) {
		return r;
	}
	probe->pipe = TAKE_FD(ours);
	BOX_LOG(BOX_LOG_INFO, "microvms.probing");
	return 0;
}

/* --- requests --- */

static int start_and_wait(struct box_microvm_probe *probe, const struct box_microvm_facts *facts,
	struct box_making *making, uint32_t request, struct box_err *err)
{
	int r = start_probe(probe, facts, err);
	if (r < 0) {
		return r;
	}
	if (probe->waiting_count >= BOX_MICROVMS_WAITING_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EBUSY,
			"too many requests wait until it is known whether microVMs can run here");
	}
	struct waiter *waiter = box_alloc(sizeof(*waiter));
	waiter->making = making;
	waiter->request = request;
	box_list_init(&waiter->links);
	box_list_push(&probe->waiting, &waiter->links);
	probe->waiting_count++;
	return 0;
}

/* `making` NULL: a query without a box. */
static void answer_or_wait(
	struct box_microvm_probe *probe, struct box_making *making, uint32_t request)
{
	static struct box_microvm_facts facts;
	struct box_err err;
	int r = check_verdict(probe, &facts, &err);
	if (r == -EAGAIN) {
		r = start_and_wait(probe, &facts, making, request, &err);
		if (r == 0) {
			return;
		}
	}
	answer(probe, making, request, r < 0 ? &err : NULL);
}

void box_microvm_probe_request(struct box_microvm_probe *probe, struct box_making *making)
{
	if (making->ask.kind != BOX_PLAN_KIND_MICROVM) {
		probe->done(probe->arg, making, NULL);
		return;
	}
	answer_or_wait(probe, making, making->request);
}

void box_microvm_probe_ask(struct box_microvm_probe *probe, uint32_t request)
{
	answer_or_wait(probe, NULL, request);
}
