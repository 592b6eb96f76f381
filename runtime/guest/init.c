/* box-init: PID 1 of a box. Boots, then serves the control socket until its end, with which it ends
 * itself; the kernel then ends whatever runs in the box. In a microVM it makes the box first, and
 * ends the machine. */
#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "runtime/guest/boot.h"
#include "runtime/guest/control.h"
#include "runtime/guest/kept.h"
#include "runtime/guest/loop.h"
#include "runtime/guest/preamble.h"
#include "runtime/guest/run.h"
#include "runtime/guest/stream.h"
#include "runtime/guest/wire_kept.h"

static bool ended;

static void on_control(uint32_t events)
{
	bool was_blocked = box_control_blocked();
	if (box_control_flush() < 0) {
		ended = true;
		return;
	}
	if (was_blocked && !box_control_blocked()) {
		box_runs_resume();
		box_kept_resume();
	}
	/* With no place left, what comes may have to be refused, and there is no room for it. */
	if (!(events & ~(uint32_t)EPOLLOUT) || (box_control_blocked() && box_runs_full())) {
		return;
	}
	struct box_control_request request;
	int r = box_control_receive(&request);
	if ((r == 0 || r == -EBADMSG) && box_guest_is_kept_request(request.header.kind)) {
		box_kept_request(&request, r);
	} else if (r == 0 || r == -EBADMSG) {
		box_runs_request(&request, r);
	} else if (r == -EPIPE) {
		ended = true;
	}
}

static void on_event(struct box_watch watch, uint32_t events)
{
	switch (watch.kind) {
	case BOX_WATCH_CONTROL:
		on_control(events);
		break;
	case BOX_WATCH_CHILDREN:
		box_loop_take_children();
		box_runs_reap();
		break;
	case BOX_WATCH_ORPHAN:
		box_orphan_pump(watch);
		break;
	case BOX_WATCH_KEPT_OUT:
	case BOX_WATCH_KEPT_ERR:
	case BOX_WATCH_KEPT_IN:
		box_kept_event(watch);
		break;
	default:
		box_runs_event(watch);
		break;
	}
}

static uint64_t next_deadline(void)
{
	uint64_t runs = box_runs_deadline();
	uint64_t kept = box_kept_deadline();
	return runs < kept ? runs : kept;
}

static void serve(void)
{
	while (!ended) {
		bool blocked = box_control_blocked();
		box_loop_turn(next_deadline(), blocked, blocked && box_runs_full(), on_event);
		box_runs_tick();
		box_kept_tick();
	}
}

int main(void)
{
	uint32_t step = 0;
	bool machine = box_preamble_is_due();
	int r = machine ? box_preamble_run(&step) : 0;
	if (r == 0) {
		box_control_open();
		r = box_boot_run(&step);
	}
	box_boot_report(step, r < 0 ? -r : 0);
	if (r == 0) {
		serve();
	}
	if (machine) {
		box_preamble_end(r != 0);
	}
	return r < 0;
}
