/* A microVM box until its guest has reported, and what is watched of it from then on, too. */
#pragma once

#include <stdbool.h>

#include "protocol/microvm.h"
#include "vmm/bridge/bridge.h"
#include "vmm/bridge/console.h"
#include "vmm/bridge/microvm_end.h"

struct box_bridge_startup {
	const struct box_bridge *bridge;
	int listener; /* -1: the guest has come */
	int stream;   /* -1: not yet */
	int console_fd;
	struct box_init_report report; /* as far as it has come */
	size_t report_size;
	struct box_microvm_end words; /* who has ended, and how */
	struct box_console console;
};

/* Waits for the report, and tells boxd what came of it. 0 when the guest is ready, or -errno. */
int box_bridge_await_report(struct box_bridge_startup *early);

/* 1 when there may be more. */
int box_bridge_read_console(struct box_bridge_startup *early);
/* All that is there; a guest that never stops does not hold us. */
void box_bridge_drain_console(struct box_bridge_startup *early);
/* Reaps. Whether one of those without whom there is no box has ended: early->words says which. */
bool box_bridge_child_ended(struct box_bridge_startup *early);
