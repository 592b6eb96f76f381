/* The probe that boots one guest: requests wait for it, its result is remembered, and it runs again
 * when the host may have changed. box-vmm is a script here. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "boxd/jobs.h"
#include "boxd/microvm/microvm_facts.h"
#include "boxd/microvm/microvm_probe.h"
#include "tests/unit/lib/test.h"

#define WORKS "boot=ok\nboot_ms=77\n"

static struct box_host_state host_state;
static struct box_jobs *jobs;
static struct box_microvm_probe *probe;
static char folder[] = "/tmp/box-probe-XXXXXX";

static struct {
	unsigned calls;
	unsigned failed;
	uint32_t last;
	bool had_ask;
	struct box_err err;
} told;

static void answered(void *arg, uint32_t request, const struct box_err *err)
{
	ASSERT(arg == &told);
	told.calls++;
	told.failed += err != NULL;
	told.last = request;
	told.had_ask = false;
	if (err) {
		told.err = *err;
	}
}

static void done(void *arg, struct box_making *making, const struct box_err *err)
{
	answered(arg, making->request, err);
	told.had_ask = true;
	box_making_free(making);
}

static void request(uint32_t number, const struct box_plan_request *ask)
{
	struct box_making *making = box_alloc(sizeof(*making));
	making->request = number;
	making->ask = *ask;
	box_microvm_probe_request(probe, making);
}

/* A box-vmm that prints this and counts how often it was started. */
static void write_vmm(const char *prints)
{
	(void)snprintf(host_state.vmm_path, sizeof(host_state.vmm_path), "%s/box-vmm", folder);
	FILE *file = fopen(host_state.vmm_path, "we");
	ASSERT(file != NULL);
	(void)fprintf(file,
		"#!/bin/sh\n[ \"$1\" = --probe=boot ] || exit 9\n"
		"echo x >> %s/count\ncat <<'E'\n%sE\n",
		folder, prints);
	ASSERT_INT(fchmod(fileno(file), 0755), 0);
	ASSERT_INT(fclose(file), 0);
}

static int started(void)
{
	char path[64];
	struct stat status;
	(void)snprintf(path, sizeof(path), "%s/count", folder);
	return stat(path, &status) < 0 ? 0 : (int)status.st_size / 2;
}

static void start(void)
{
	static const struct box_identity ids;
	jobs = box_jobs_new();
	probe = box_microvm_probe_new(&host_state, jobs, &ids, done, answered, &told);
	memset(&told, 0, sizeof(told));
}

static void finish(void)
{
	box_jobs_free(jobs);
	box_microvm_probe_free(probe);
}

static void set_up(const char *prints)
{
	struct box_microvm_facts facts;
	box_microvm_facts_collect("x", &facts);
	if (!box_microvm_facts_may_work(&facts)) {
		SKIP("no /dev/kvm here that can be opened");
	}
	ASSERT(mkdtemp(folder) != NULL);
	ASSERT_INT(setenv("XDG_RUNTIME_DIR", folder, 1), 0);
	box_host_state_init(&host_state);
	host_state.possible = true;
	host_state.common.kvm = open("/dev/null", O_PATH | O_CLOEXEC); /* it exists */
	write_vmm(prints);
	start();
}

static void clean_up(void)
{
	char command[128];
	finish();
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	ASSERT_INT(system(command), 0);
}

/* Waits for the end of a box-vmm, and lets the probe handle it. */
static void await_job(void)
{
	struct box_event_source source = box_jobs_event_source(jobs);
	struct pollfd polled = {.fd = source.fd(source.arg), .events = POLLIN};
	ASSERT_INT(poll(&polled, 1, 20000), 1);
	source.step(source.arg, POLLIN);
}

static void await(unsigned calls)
{
	while (told.calls < calls) {
		await_job();
	}
	ASSERT_INT(told.calls, calls);
}

static const struct box_plan_request machine = {.kind = BOX_PLAN_KIND_MICROVM};
static const struct box_plan_request native = {.kind = BOX_PLAN_KIND_NATIVE};

TEST(native_boxes_wait_for_nothing)
{
	set_up(WORKS);
	request(1, &native);
	ASSERT_INT(told.calls, 1);
	ASSERT_INT(told.failed, 0);
	ASSERT_INT(started(), 0);
	clean_up();
}

TEST(all_wait_for_one_guest)
{
	set_up(WORKS);
	box_microvm_probe_ask(probe, 1);
	request(2, &machine);
	request(3, &machine);
	request(4, &native);
	ASSERT_INT(told.calls, 1);
	ASSERT_INT(told.last, 4);
	await(4);
	ASSERT_INT(told.failed, 0);
	ASSERT_INT(told.last, 3);
	ASSERT(told.had_ask);
	ASSERT_INT(started(), 1);
	ASSERT_INT(host_state.host.microvm_ms, 10000);
	/* From now on it is known. */
	request(5, &machine);
	ASSERT_INT(told.calls, 5);
	ASSERT_INT(started(), 1);
	clean_up();
}

TEST(it_is_remembered_for_the_next_boxd)
{
	set_up("boot=failed\nboot_ms=9\nboot_error=it is broken\n");
	request(1, &machine);
	await(1);
	ASSERT_INT(told.failed, 1);
	ASSERT_INT(told.err.code, BOX_ERR_BACKEND_UNAVAILABLE);
	ASSERT(strstr(told.err.text,
		       "no microVM can be made here: this KVM cannot run a guest: it is broken; ") ==
		told.err.text);
	finish();
	start();
	request(1, &machine);
	ASSERT_INT(told.failed, 1);
	ASSERT(strstr(told.err.text, "it is broken") != NULL);
	ASSERT_INT(started(), 1);
	/* The result does not hold for another box-vmm. */
	finish();
	write_vmm(WORKS "# another\n");
	start();
	request(1, &machine);
	await(1);
	ASSERT_INT(told.failed, 0);
	ASSERT_INT(started(), 2);
	clean_up();
}

/* A library can be installed while boxd runs. */
TEST(what_can_come_is_looked_at_again)
{
	set_up("library_error=no libkrun.so.1\n");
	request(1, &machine);
	await(1);
	ASSERT(strstr(told.err.text, "libkrun: no libkrun.so.1") != NULL);
	write_vmm(WORKS);
	request(2, &machine);
	await(2);
	ASSERT_INT(told.failed, 1);
	ASSERT_INT(started(), 2);
	clean_up();
}

TEST(nobody_waits_any_more)
{
	set_up(WORKS);
	request(1, &machine);
	box_microvm_probe_drop_requests(probe);
	await_job();
	ASSERT_INT(told.calls, 0);
	request(2, &machine);
	ASSERT_INT(told.calls, 1);
	ASSERT_INT(started(), 1);
	clean_up();
}

/* A file that others could have written is ignored. */
TEST(notes_of_others)
{
	char text[256];
	char path[64];
	set_up(WORKS);
	box_microvm_probe_cache_write(false, host_state.vmm_path, WORKS, strlen(WORKS));
	ASSERT_INT(box_microvm_probe_cache_read(false, host_state.vmm_path, text, sizeof(text)),
		strlen(WORKS));
	(void)snprintf(path, sizeof(path), "%s/box", folder);
	ASSERT_INT(chmod(path, 0777), 0);
	ASSERT(box_microvm_probe_cache_read(false, host_state.vmm_path, text, sizeof(text)) < 0);
	ASSERT_INT(chmod(path, 0700), 0);
	ASSERT(box_microvm_probe_cache_read(false, host_state.vmm_path, text, sizeof(text)) > 0);
	(void)snprintf(path, sizeof(path), "%s/box/machine", folder);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ASSERT(pwrite(fd, "boot -", 6, 0) == 6); /* from another boot of the host */
	(void)close(fd);
	ASSERT(box_microvm_probe_cache_read(false, host_state.vmm_path, text, sizeof(text)) < 0);
	clean_up();
}

TEST(box_vmm_is_tried_as_who_may_use_the_device)
{
	static const struct {
		mode_t mode;
		struct box_identity wanted;
	} rows[] = {
		{0666, {true, 500, 501}},
		{0660, {true, 500, 36}},
		{0600, {false, 500, 501}},
	};
	const struct box_identity ids = {true, 500, 501};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct box_microvm_facts facts = {.kvm_mode = rows[i].mode, .kvm_gid = 36};
		struct box_identity got = box_microvm_probe_identity(&facts, &ids);
		ASSERT_INT(got.change, rows[i].wanted.change);
		ASSERT_INT(got.uid, rows[i].wanted.uid);
		ASSERT_INT(got.gid, rows[i].wanted.gid);
	}
}
