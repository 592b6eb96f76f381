/* The check of microVMs: the same facts that boxd collects, and a guest that box-vmm boots. A success that was
 * cached since the host was started is used; a failure is tried again. The result is cached for boxd. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "boxd/microvm/microvm_facts.h"
#include "boxd/microvm/microvm_probe.h"
#include "boxd/program.h"
#include "cli/doctor/check.h"

#define PROBE_TEXT_MAX 16384

/* Gives the length of its output; 0 when it cannot be started. */
static size_t run_probe(const char *vmm, const struct box_microvm_facts *facts, char *text)
{
	struct box_identity ids;
	struct box_program_process child;
	struct box_err err;
	int ends[2];
	size_t len = 0;
	ssize_t got = 1;
	if (box_identity_choose_for_rpc(&ids, &err) < 0 || pipe2(ends, O_CLOEXEC) < 0) {
		return 0;
	}
	const struct box_program wanted = {
		.path = vmm,
		.name = "box-vmm",
		.task = "--probe=boot",
		.ids = box_microvm_probe_identity(facts, &ids),
		.output = ends[1],
	};
	int r = box_program_start(&wanted, &child, &err);
	(void)close(ends[1]);
	while (r == 0 && got > 0 && len < PROBE_TEXT_MAX) {
		got = read(ends[0], text + len, PROBE_TEXT_MAX - len);
		len += got > 0 ? (size_t)got : 0;
	}
	(void)close(ends[0]);
	return len;
}

static void take_probe(const char *vmm, struct box_microvm_facts *facts)
{
	static char text[PROBE_TEXT_MAX];
	bool root = geteuid() == 0;
	int cached = box_microvm_probe_cache_read(root, vmm, text, sizeof(text));
	if (cached > 0) {
		struct box_microvm_facts before = *facts;
		box_microvm_facts_add_probe(text, (size_t)cached, facts);
		if (facts->booted) {
			return;
		}
		*facts = before; /* it may have been fixed since */
	}
	size_t len = run_probe(vmm, facts, text);
	if (len > 0) {
		box_microvm_facts_add_probe(text, len, facts);
	}
	if (facts->booted || facts->boot_error[0]) {
		box_microvm_probe_cache_write(root, vmm, text, len);
	}
}

void box_check_microvms(const struct box_check_setup *setup, struct box_check *check)
{
	static struct box_microvm_facts facts;
	struct box_microvm_facts_verdict verdict;
	struct box_err ignored;
	char vmm[BOX_PATH_MAX];
	(void)setup;
	if (box_program_find("box-vmm", vmm, &ignored) < 0) {
		vmm[0] = '\0';
	}
	box_microvm_facts_collect(vmm, &facts);
	if (box_microvm_facts_may_work(&facts)) {
		take_probe(vmm, &facts);
	}
	box_microvm_facts_judge(&facts, &verdict);
	box_check_report(check, verdict.works ? BOX_CHECK_OK : BOX_CHECK_LIMITED, verdict.fix, "%s",
		verdict.why);
}
