/* box-vmm: the only program of a microVM box. boxd's child executes it in the box; boxd's preflight and people run it
 * with --probe to check the host. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "protocol/init.h"
#include "vmm/vmm_probe.h"
#include "vmm/vmm_run.h"

static int usage(FILE *to, int code)
{
	(void)fprintf(to,
		"usage: box-vmm --probe[=boot]   checks whether this host can run microVMs\n"
		"       box-vmm --version\n"
		"boxd runs it without arguments in a box.\n");
	return code;
}

int main(int argc, char **argv)
{
	if (argc == 1) {
		_exit(box_vmm_run());
	}
	if (argc != 2) {
		return usage(stderr, BOX_VMM_PROBE_USAGE);
	}
	if (strcmp(argv[1], "--probe") == 0 || strcmp(argv[1], "--probe=boot") == 0) {
		int end = (int)box_vmm_probe_run(strcmp(argv[1], "--probe") != 0);
		return fflush(stdout) == 0 ? end : BOX_VMM_PROBE_USAGE;
	}
	if (strcmp(argv[1], "--version") == 0) {
		printf("box-vmm " BOX_VERSION "\n");
		return 0;
	}
	bool asked = strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0;
	return usage(asked ? stdout : stderr, asked ? 0 : BOX_VMM_PROBE_USAGE);
}
