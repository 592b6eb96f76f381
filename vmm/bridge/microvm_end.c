/* Owns the messages for each way in which a microVM can end. The guest's kernel prints on its console why it
 * stopped, which is what people need to see. Called by bridge.c. */
#include "vmm/bridge/microvm_end.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/macros.h"

#define CONSOLE_MAX 400 /* of its end */

static const char *find_kernel_message(const char *console)
{
	/* The first match counts. A guest could print these lines itself: the message is not trusted. */
	static const struct {
		const char *mark;
		const char *words;
	} table[] = {
		{"Kernel panic", "its kernel panicked"},
		{"System halted", "its kernel was halted"},
		{"reboot: Power down", "it was powered down"},
		{"reboot: Restarting system", "it was rebooted from inside"},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(table); i++) {
		if (strstr(console, table[i].mark)) {
			return table[i].words;
		}
	}
	return NULL;
}

static void format_ended(
	const struct box_microvm_end *end, const char *console, char *text, size_t size)
{
	static const char *const names[] = {
		[BOX_MICROVM_END_MICROVM] = "its virtual machine",
		[BOX_MICROVM_END_MOUNT_HELPER] = "the process that mounts for it",
		[BOX_MICROVM_END_PASST] = "its network, passt,",
	};
	const char *kernel = end->ended == BOX_MICROVM_END_MICROVM ? find_kernel_message(console)
								   : NULL;
	if (WIFSIGNALED(end->status)) {
		(void)snprintf(text, size, "%s was killed by signal %d", names[end->ended],
			WTERMSIG(end->status));
	} else if (end->ended == BOX_MICROVM_END_MOUNT_HELPER) {
		(void)snprintf(text, size, "%s is gone", names[end->ended]);
	} else if (kernel) {
		(void)snprintf(text, size, "%s", kernel);
	} else if (end->ended == BOX_MICROVM_END_MICROVM && WEXITSTATUS(end->status) == 0) {
		(void)snprintf(text, size, "its guest rebooted, or its kernel panicked");
	} else {
		(void)snprintf(text, size, "%s ended with exit code %d", names[end->ended],
			WEXITSTATUS(end->status));
	}
}

/* Lines become one. */
static void join_lines(char *text)
{
	for (char *at = text; (at = strchr(at, '\n'));) {
		*at = '|';
	}
}

void box_microvm_end_format(const struct box_microvm_end *end, const struct box_console *console,
	char *text, size_t size)
{
	char lines[CONSOLE_MAX];
	box_console_text(console, lines, sizeof(lines));
	if (end->ended != BOX_MICROVM_END_NOBODY) {
		format_ended(end, lines, text, size);
	} else if (end->errnum == EBADMSG) {
		(void)snprintf(text, size, "its guest broke the protocol");
	} else {
		(void)snprintf(text, size, "its guest hung up");
	}
	size_t len = strlen(text);
	if (lines[0] != '\0' && len + 1 < size) {
		join_lines(lines);
		(void)snprintf(text + len, size - len, "; its console: %s", lines);
	}
}
