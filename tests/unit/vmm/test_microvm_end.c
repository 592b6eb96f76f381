/* The text for a microVM that ended: which of its processes, how, and what its kernel printed. */
#include <errno.h>
#include <signal.h>

#include "tests/unit/lib/test.h"
#include "vmm/bridge/microvm_end.h"

#define EXITED(code) ((code) << 8)

static struct box_console console;
static char text[512];

static const char *make(enum box_microvm_end_cause ended, int status, int errnum, const char *said)
{
	console = (struct box_console){0};
	box_console_add(&console, said, strlen(said));
	const struct box_microvm_end words = {ended, status, errnum};
	box_microvm_end_format(&words, &console, text, sizeof(text));
	return text;
}

TEST(each_end_has_its_words)
{
	static const struct {
		enum box_microvm_end_cause ended;
		int status;
		int errnum;
		const char *said;
		const char *text;
	} table[] = {
		{BOX_MICROVM_END_NOBODY, 0, EPIPE, "", "its guest hung up"},
		{BOX_MICROVM_END_NOBODY, 0, EBADMSG, "", "its guest broke the protocol"},
		{BOX_MICROVM_END_MICROVM, EXITED(0), 0, "",
			"its guest rebooted, or its kernel panicked"},
		{BOX_MICROVM_END_MICROVM, EXITED(125), 0, "",
			"its virtual machine ended with exit code 125"},
		{BOX_MICROVM_END_MICROVM, SIGKILL, 0, "",
			"its virtual machine was killed by signal 9"},
		{BOX_MICROVM_END_MOUNT_HELPER, EXITED(1), 0, "",
			"the process that mounts for it is gone"},
		{BOX_MICROVM_END_PASST, SIGTERM, 0, "",
			"its network, passt, was killed by signal 15"},
		{BOX_MICROVM_END_MICROVM, EXITED(0), 0,
			"[1] Kernel panic - not syncing: x\n[2] end\n",
			"its kernel panicked; its console: [1] Kernel panic - not syncing: x|[2] "
			"end"},
		{BOX_MICROVM_END_MICROVM, EXITED(0), 0, "reboot: Restarting system",
			"it was rebooted from inside; its console: reboot: Restarting system"},
		{BOX_MICROVM_END_MICROVM, EXITED(0), 0, "reboot: Power down",
			"it was powered down; its console: reboot: Power down"},
		/* A panic reboots: the reboot is its consequence. */
		{BOX_MICROVM_END_MICROVM, EXITED(0), 0, "Kernel panic\nreboot: Restarting system",
			"its kernel panicked; its console: Kernel panic|reboot: Restarting system"},
		/* A guest that had an out-of-memory kill long ago. */
		{BOX_MICROVM_END_MICROVM, EXITED(0), 0, "Out of memory: Killed process 7",
			"its guest rebooted, or its kernel panicked; its console: Out of memory: Killed "
			"process 7"},
		/* Killed from outside is reported as killed, whatever was printed. */
		{BOX_MICROVM_END_MICROVM, SIGKILL, 0, "Kernel panic",
			"its virtual machine was killed by signal 9; its console: Kernel panic"},
		{BOX_MICROVM_END_PASST, EXITED(1), 0, "no tap",
			"its network, passt, ended with exit code 1; its console: no tap"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		ASSERT_STR(make(table[i].ended, table[i].status, table[i].errnum, table[i].said),
			table[i].text);
	}
}

/* Whatever a guest prints, the result is one short line of printable ASCII. */
TEST(a_console_is_tamed)
{
	char said[4096];
	for (size_t i = 0; i < sizeof(said) - 1; i++) {
		said[i] = (char)(i * 7 % 255 + 1);
	}
	said[sizeof(said) - 1] = '\0';
	(void)make(BOX_MICROVM_END_MICROVM, EXITED(1), 0, said);
	ASSERT(strlen(text) > 100 && strlen(text) < sizeof(text) - 1);
	for (const char *at = text; *at; at++) {
		ASSERT(*at >= ' ' && *at <= '~');
	}
}
