/* The words, for each way in which a machine can end. The guest's kernel says by itself why it gave up:
 * its console has that, and is what a person needs to see. */
#include "vmm/bridge/microvm_end.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/macros.h"

#define CONSOLE_MAX 400 /* of its end */

static const char *said_by_kernel(const char *console)
{
	/* The first that is there counts; what a guest prints is its own word, and so is this. */
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

static void say_ended(
	const struct box_microvm_end *words, const char *console, char *text, size_t size)
{
	static const char *const names[] = {
		[BOX_MICROVM_END_MICROVM] = "its virtual machine",
		[BOX_MICROVM_END_MOUNT_HELPER] = "the process that mounts for it",
		[BOX_MICROVM_END_PASST] = "its network, passt,",
	};
	const char *kernel = words->ended == BOX_MICROVM_END_MICROVM ? said_by_kernel(console)
								     : NULL;
	if (WIFSIGNALED(words->status)) {
		(void)snprintf(text, size, "%s was killed by signal %d", names[words->ended],
			WTERMSIG(words->status));
	} else if (words->ended == BOX_MICROVM_END_MOUNT_HELPER) {
		(void)snprintf(text, size, "%s is gone", names[words->ended]);
	} else if (kernel) {
		(void)snprintf(text, size, "%s", kernel);
	} else if (words->ended == BOX_MICROVM_END_MICROVM && WEXITSTATUS(words->status) == 0) {
		(void)snprintf(text, size, "its guest rebooted, or its kernel panicked");
	} else {
		(void)snprintf(text, size, "%s ended with exit code %d", names[words->ended],
			WEXITSTATUS(words->status));
	}
}

/* Lines become one. */
static void join_lines(char *text)
{
	for (char *at = text; (at = strchr(at, '\n'));) {
		*at = '|';
	}
}

void box_microvm_end_format(const struct box_microvm_end *words, const struct box_console *console,
	char *text, size_t size)
{
	char said[CONSOLE_MAX];
	box_console_text(console, said, sizeof(said));
	if (words->ended != BOX_MICROVM_END_NOBODY) {
		say_ended(words, said, text, size);
	} else if (words->errnum == EBADMSG) {
		(void)snprintf(text, size, "its guest broke the protocol");
	} else {
		(void)snprintf(text, size, "its guest hung up");
	}
	size_t len = strlen(text);
	if (said[0] != '\0' && len + 1 < size) {
		join_lines(said);
		(void)snprintf(text + len, size - len, "; its console: %s", said);
	}
}
