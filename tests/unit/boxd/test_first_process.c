/* Texts for the reports of a box's first process: its own steps, those of box-vmm and of a guest,
 * and the last output of a guest's console, which may be anything. */
#include <errno.h>
#include <fcntl.h>

#include "boxd/box/first_process.h"
#include "protocol/microvm.h"
#include "tests/unit/lib/test.h"

static struct box_plan_request ask;
static struct box_plan plan = {.ask = &ask};
static struct box_err err;
static int ends[2];

static void set_up(uint32_t kind)
{
	ask.kind = kind;
	plan.steps[1] = (struct box_plan_step){.kind = BOX_PLAN_STEP_TMPFS, .target = "/tmp"};
	plan.step_count = 2;
	ASSERT_INT(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
}

static int hear(const void *bytes, size_t size)
{
	if (size > 0) {
		ASSERT_INT(write(ends[1], bytes, size), size);
	}
	return box_first_process_read_report(ends[0], &plan, &err);
}

static int hear_machine(uint32_t step, int32_t errnum, const char *text)
{
	struct box_microvm_report report = {.report = {step, errnum}};
	memcpy(report.text, text, strlen(text) + 1);
	return hear(&report, sizeof(report));
}

TEST(a_native_box)
{
	set_up(BOX_PLAN_KIND_NATIVE);
	ASSERT_INT(hear(NULL, 0), 0);
	ASSERT_INT(hear(&(struct box_init_report){0, 0}, sizeof(struct box_init_report)), 1);
	struct box_init_report mount = {BOX_FIRST_PROCESS_MOUNT_STEP + 1, ENOSPC};
	ASSERT_INT(hear(&mount, sizeof(mount)), -ENOSPC);
	ASSERT_STR(err.text, "the box cannot be made: mount /tmp: No space left on device");
	struct box_init_report first = {1, EPERM};
	ASSERT_INT(hear(&first, sizeof(first)), -EPERM);
	ASSERT_STR(err.text, "the box cannot be made: take a name: Operation not permitted");
	struct box_init_report strange = {77777, -5};
	ASSERT_INT(hear(&strange, sizeof(strange)), -EPROTO);
	ASSERT_STR(err.text, "the box cannot be made: box-init: an unknown step: Protocol error");
	ASSERT_INT(hear("abc", 3), -ECHILD);
	ASSERT_INT(close(ends[1]), 0);
	ASSERT_INT(box_first_process_read_report(ends[0], &plan, &err), -ECHILD);
	ASSERT_STR(err.text,
		"the box cannot be made: it ended before it was ready: No child processes");
}

TEST(a_microvm)
{
	set_up(BOX_PLAN_KIND_MICROVM);
	ASSERT_INT(hear_machine(0, 0, "noise of a guest that is there"), 1);
	ASSERT_INT(hear_machine(BOX_VMM_LIBRARY, ENOENT, "no libkrun.so.1"), -ENOENT);
	ASSERT_STR(err.text,
		"the box cannot be made: box-vmm: load libkrun and libkrunfw: No such file or "
		"directory; its console: no libkrun.so.1");
	ASSERT_INT(hear_machine(BOX_VMM_DEADLINE, ETIMEDOUT, ""), -ETIMEDOUT);
	ASSERT_STR(err.text,
		"the box cannot be made: box-vmm: the microVM was not ready in time: Connection "
		"timed out");
	/* boxd's own child sends no text. */
	struct box_init_report own = {BOX_FIRST_PROCESS_MOUNT_STEP + 1, EIO};
	ASSERT_INT(hear(&own, sizeof(own)), -EIO);
	ASSERT_STR(err.text, "the box cannot be made: mount /tmp: Input/output error");
	/* But box-init is never ready. */
	ASSERT_INT(hear(&(struct box_init_report){0, 0}, sizeof(struct box_init_report)), -ECHILD);
}

TEST(every_step_of_box_vmm_has_words)
{
	set_up(BOX_PLAN_KIND_MICROVM);
	for (uint32_t step = BOX_VMM_READ; step < BOX_VMM_END_; step++) {
		ASSERT_INT(hear_machine(step, EIO, ""), -EIO);
		ASSERT(strstr(err.text, "box-vmm: ") != NULL);
		ASSERT(strstr(err.text, "(null)") == NULL);
	}
	ASSERT_INT(hear_machine(BOX_VMM_END_, EIO, ""), -EIO);
	ASSERT(strstr(err.text, "an unknown step") != NULL);
}

/* A guest may print anything; the end of it is shown, as one line of ASCII. */
TEST(a_console_steers_nothing)
{
	struct box_microvm_report report = {.report = {BOX_VMM_START, ECHILD}};
	set_up(BOX_PLAN_KIND_MICROVM);
	ASSERT_INT(
		hear_machine(BOX_VMM_START, ECHILD, "one\n\033[31mtwo\tthree\xff\n \n"), -ECHILD);
	ASSERT_STR(err.text,
		"the box cannot be made: box-vmm: the microVM ended before it was ready: No child "
		"processes; its console: one|?[31mtwo?three?");
	memset(report.text, 'x', sizeof(report.text)); /* not terminated */
	ASSERT_INT(hear(&report, sizeof(report)), -ECHILD);
	ASSERT(strlen(err.text) < 512);
	const char *shown = strstr(err.text, "; its console: ");
	ASSERT(shown != NULL);
	ASSERT_INT(strspn(shown + strlen("; its console: "), "x"), 320);
}
