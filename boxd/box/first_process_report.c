/* The report of a box's first process, as text. It comes out of the box, so it is untrusted: numbers
 * are looked up and texts are sanitized. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "boxd/box/first_process.h"
#include "protocol/microvm.h"

#define ERRNO_END 4096
#define CONSOLE_SHOWN_MAX 320 /* bytes of its end: a client's error has no room for more */

static const char *vmm_step_name(uint32_t step)
{
	static const char *const names[] = {
		[0] = "read the boot file", /* BOX_VMM_READ */
		[BOX_VMM_LIBRARY - BOX_VMM_READ] = "load libkrun and libkrunfw",
		[BOX_VMM_ORDER - BOX_VMM_READ] = "wait for the order",
		[BOX_VMM_WORKSPACE - BOX_VMM_READ] = "attach the workspace",
		[BOX_VMM_NETWORK - BOX_VMM_READ] = "start passt for its network",
		[BOX_VMM_ROOT - BOX_VMM_READ] = "leave the host's files",
		[BOX_VMM_HELPERS - BOX_VMM_READ] = "start its processes",
		[BOX_VMM_CONFINE - BOX_VMM_READ] = "install its filter",
		[BOX_VMM_START - BOX_VMM_READ] = "the microVM ended before it was ready",
		[BOX_VMM_DEADLINE - BOX_VMM_READ] = "the microVM was not ready in time",
		[BOX_VMM_ANSWER -
			BOX_VMM_READ] = "the first message of the microVM was not a report",
	};
	return step >= BOX_VMM_READ && step < BOX_VMM_END_ ? names[step - BOX_VMM_READ] : NULL;
}

static void describe(uint32_t number, const struct box_plan *plan, char *text, size_t size)
{
	const char *name = box_first_process_step_name(number);
	const char *vmm = vmm_step_name(number);
	if (name) {
		(void)snprintf(text, size, "%s", name);
	} else if (vmm) {
		(void)snprintf(text, size, "box-vmm: %s", vmm);
	} else if (number > BOX_FIRST_PROCESS_MOUNT_STEP &&
		number - BOX_FIRST_PROCESS_MOUNT_STEP < plan->step_count) {
		(void)snprintf(text, size, "mount %s",
			plan->steps[number - BOX_FIRST_PROCESS_MOUNT_STEP].target);
	} else if (box_microvm_step_name(number)) {
		(void)snprintf(text, size, "box-init: %s", box_microvm_step_name(number));
	} else {
		name = box_init_boot_step_name(number);
		(void)snprintf(text, size, "box-init: %s", name ? name : "an unknown step");
	}
}

/* The end of a guest's console as one line; "" when it is empty. */
static void quote_console(const char text[BOX_MICROVM_TEXT_MAX], char *out, size_t room)
{
	static const char before[] = "; its console: ";
	size_t len = strnlen(text, BOX_MICROVM_TEXT_MAX);
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == ' ')) {
		len--;
	}
	size_t from = len > CONSOLE_SHOWN_MAX ? len - CONSOLE_SHOWN_MAX : 0;
	size_t at = 0;
	for (size_t i = from; i < len && at + sizeof(before) + 1 < room; i++) {
		char byte = text[i];
		if (at == 0) {
			at = (size_t)snprintf(out, room, "%s", before);
		}
		out[at++] = byte == '\n' ? '|' : byte >= ' ' && byte < 0x7f ? byte : '?';
	}
	out[at] = '\0';
}

/* Reports of native boxes and of boxd's own child have no text; those of box-vmm always have one. */
static bool is_report(ssize_t got, const struct box_microvm_report *said, bool machine)
{
	bool plain = got == (ssize_t)sizeof(said->report);
	bool whole = got == (ssize_t)sizeof(*said);
	return machine ? whole || (plain && said->report.step != 0) : plain;
}

int box_first_process_read_report(int report, const struct box_plan *plan, struct box_err *err)
{
	struct box_microvm_report said = {0};
	bool machine = plan->ask->kind == BOX_PLAN_KIND_MICROVM;
	char step[128] = "it ended before it was ready";
	char console[CONSOLE_SHOWN_MAX + 64] = "";
	int errnum = ECHILD;
	ssize_t got = read(report, &said, machine ? sizeof(said) : sizeof(said.report));
	if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
		return 0;
	}
	bool right = is_report(got, &said, machine);
	if (right && said.report.step == 0) {
		return 1;
	}
	if (right) {
		describe(said.report.step, plan, step, sizeof(step));
		quote_console(said.text, console, sizeof(console));
		errnum = said.report.errnum;
		errnum = errnum > 0 && errnum < ERRNO_END ? errnum : EPROTO;
	}
	return box_err_set(err, BOX_ERR_BOX, errnum, "the box cannot be made: %s: %s%s", step,
		box_err_strerror(errnum), console);
}
