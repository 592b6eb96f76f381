/* A queue of requests, and one box-vmm that boots a guest of its own. What is cheap to look at is
 * looked at anew each time, so that what was missing may come; that a guest boots is remembered. */
#include "boxd/microvm/microvm_probe.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "boxd/jobs.h"
#include "boxd/microvm/microvm_facts.h"
#include "boxd/microvm/microvm_probe_cache.h"
#include "boxd/program.h"

#define PROBE_TEXT_MAX 16384 /* what a pipe holds in any case: nobody reads while it writes */

struct job {
	struct box_list links;
	uint32_t request;
	bool has_ask;
	struct box_plan_request ask;
};

struct box_microvm_probe {
	struct box_host_state *ground;
	struct box_jobs *errands;
	struct box_identity ids;
	box_microvm_probe_done *done;
	void *arg;
	struct box_list waiting;
	size_t waiting_count;
	int output;  /* of the probe that runs, or -1 */
	bool probed; /* `said` is what it said */
	size_t said_len;
	char said[PROBE_TEXT_MAX];
};

struct box_microvm_probe *box_microvm_probe_new(struct box_host_state *ground,
	struct box_jobs *errands, const struct box_identity *ids, box_microvm_probe_done *done,
	void *arg)
{
	struct box_microvm_probe *machines = box_alloc(sizeof(*machines));
	machines->ground = ground;
	machines->errands = errands;
	machines->ids = *ids;
	machines->done = done;
	machines->arg = arg;
	machines->output = -1;
	box_list_init(&machines->waiting);
	return machines;
}

void box_microvm_probe_drop_requests(struct box_microvm_probe *machines)
{
	struct box_list *item;
	while ((item = box_list_pop(&machines->waiting))) {
		free(BOX_CONTAINER_OF(item, struct job, links));
	}
	machines->waiting_count = 0;
}

void box_microvm_probe_free(struct box_microvm_probe *machines)
{
	box_microvm_probe_drop_requests(machines);
	box_close_p(&machines->output);
	free(machines);
}

/* --- what is known --- */

/* 0: there can be some; -EAGAIN: it must be tried; else err says why not. */
static int judge(
	struct box_microvm_probe *machines, struct box_microvm_facts *facts, struct box_err *err)
{
	struct box_host_state *ground = machines->ground;
	struct box_microvm_facts_verdict verdict;
	if (!ground->possible) {
		return box_err_set(
			err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "%s", ground->missing);
	}
	box_microvm_facts_collect(ground->vmm_path, facts);
	if (box_microvm_facts_may_work(facts) && !machines->probed) {
		int got = box_microvm_probe_cache_read(ground->host.root, ground->vmm_path,
			machines->said, sizeof(machines->said));
		if (got <= 0) {
			return -EAGAIN;
		}
		machines->said_len = (size_t)got;
		machines->probed = true;
	}
	if (machines->probed) {
		box_microvm_facts_add_probe(machines->said, machines->said_len, facts);
	}
	box_microvm_facts_judge(facts, &verdict);
	if (!verdict.works) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"no microVM can be made here: %s; %s", verdict.why, verdict.cure);
	}
	ground->host.machine_ms = box_microvm_facts_start_ms(facts);
	return 0;
}

static void answer(struct box_microvm_probe *machines, const struct job *job, int known,
	const struct box_err *err)
{
	struct box_err why;
	const struct box_err *told = known < 0 ? err : NULL;
	if (!told && job->has_ask &&
		box_common_mounts_make_kvm(&machines->ground->common, &why) < 0) {
		told = &why;
	}
	machines->done(machines->arg, job->request, job->has_ask ? &job->ask : NULL, told);
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

static void answer_all(struct box_microvm_probe *machines, int known, const struct box_err *err)
{
	struct box_list *item;
	while ((item = box_list_pop(&machines->waiting))) {
		struct job *job = BOX_CONTAINER_OF(item, struct job, links);
		machines->waiting_count--;
		answer(machines, job, known, err);
		free(job);
	}
}

static void probe_ended(void *arg)
{
	struct box_microvm_probe *machines = arg;
	const struct box_host_state *ground = machines->ground;
	struct box_microvm_facts facts = {0};
	struct box_err err = {0};
	ssize_t got = read(machines->output, machines->said, sizeof(machines->said));
	box_close_p(&machines->output);
	machines->said_len = got > 0 ? (size_t)got : 0;
	machines->probed = true;
	int known = judge(machines, &facts, &err);
	BOX_LOG(known < 0 ? BOX_LOG_WARNING : BOX_LOG_INFO, "machines.tried",
		box_log_str("result", known < 0 ? err.text : "they work"),
		box_log_int("boot_ms", facts.boot_ms));
	/* A library that was missing may be installed: only a guest that was tried is remembered. */
	machines->probed = facts.booted || facts.boot_error[0] != '\0';
	if (machines->probed) {
		box_microvm_probe_cache_write(
			ground->host.root, ground->vmm_path, machines->said, machines->said_len);
	}
	answer_all(machines, known, &err);
}

static int start_probe(struct box_microvm_probe *machines, const struct box_microvm_facts *facts,
	struct box_err *err)
{
	int ends[2];
	if (machines->output >= 0) {
		return 0;
	}
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "pipe: %s", box_err_strerror(errno));
	}
	const struct box_program wanted = {
		.path = machines->ground->vmm_path,
		.name = "box-vmm",
		.task = "--probe=boot",
		.ids = box_microvm_probe_identity(facts, &machines->ids),
		.output = ends[1],
	};
	int r = box_jobs_start(
		machines->errands, &wanted, BOX_MICROVM_PROBE_MS, probe_ended, machines, err);
	(void)close(ends[1]);
	if (r < 0) {
		(void)close(ends[0]);
		return r;
	}
	machines->output = ends[0];
	BOX_LOG(BOX_LOG_INFO, "machines.trying");
	return 0;
}

/* --- requests --- */

static int wait_for_probe(
	struct box_microvm_probe *machines, const struct job *job, struct box_err *err)
{
	if (machines->waiting_count >= BOX_MICROVMS_WAITING_MAX) {
		return box_err_set(err, BOX_ERR_CAPACITY, EBUSY,
			"too many wait until it is known whether a microVM can run here");
	}
	struct job *copy = box_alloc(sizeof(*copy));
	*copy = *job;
	box_list_init(&copy->links);
	box_list_push(&machines->waiting, &copy->links);
	machines->waiting_count++;
	return 0;
}

void box_microvm_probe_request(
	struct box_microvm_probe *machines, uint32_t request, const struct box_plan_request *ask)
{
	static struct box_microvm_facts facts;
	struct job job = {.request = request, .has_ask = ask != NULL};
	struct box_err err;
	if (ask && ask->kind != BOX_PLAN_KIND_MICROVM) {
		machines->done(machines->arg, request, ask, NULL);
		return;
	}
	if (ask) {
		job.ask = *ask;
	}
	int r = judge(machines, &facts, &err);
	if (r == -EAGAIN) {
		r = start_probe(machines, &facts, &err);
		r = r < 0 ? r : wait_for_probe(machines, &job, &err);
		if (r == 0) {
			return;
		}
	}
	answer(machines, &job, r, &err);
}
