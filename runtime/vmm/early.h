/* A microVM box until its guest has reported, and what is watched of it from then on, too. */
#pragma once

#include <stdbool.h>

#include "runtime/guest/machine.h"
#include "runtime/vmm/bridge.h"
#include "runtime/vmm/console.h"
#include "runtime/vmm/last_words.h"

struct box_early {
	const struct box_bridge *bridge;
	int listener; /* -1: the guest has come */
	int stream;   /* -1: not yet */
	int console_fd;
	struct box_guest_report report; /* as far as it has come */
	size_t report_size;
	struct box_words words; /* who has ended, and how */
	struct box_console console;
};

/* Waits for the report, and tells boxd what came of it. 0 when the guest is ready, or -errno. */
int box_early_await_report(struct box_early *early);

/* 1 when there may be more. */
int box_early_read_console(struct box_early *early);
/* All that is there; a guest that never stops does not hold us. */
void box_early_drain_console(struct box_early *early);
/* Reaps. Whether one of those without whom there is no box has ended: early->words says which. */
bool box_early_child_ended(struct box_early *early);
