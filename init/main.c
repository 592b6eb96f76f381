/* box-init: PID 1 of a box. Boots, then serves the control socket until box-rpc closes it, and exits;
 * the kernel then kills everything in the box. In a microVM it sets up the guest first and shuts the
 * guest down at the end. */
#include <errno.h>
#include <stdbool.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/boot/boot.h"
#include "init/control.h"
#include "init/event_loop.h"
#include "init/guest/microvm_boot.h"
#include "init/process/mproc.h"
#include "init/run/run.h"
#include "init/run/stream.h"
#include "protocol/init_process.h"

static bool ended; /* the control socket is at its end */

static void on_control(uint32_t events)
{
	bool was_blocked = box_control_blocked();
	if (box_control_flush() < 0) {
		ended = true;
		return;
	}
	if (was_blocked && !box_control_blocked()) {
		box_run_resume();
		box_mproc_resume();
	}
	/* With a full table a request might have to be refused, which cannot be sent now. */
	if (!(events & ~(uint32_t)EPOLLOUT) || (box_control_blocked() && box_run_is_full())) {
		return;
	}
	struct box_control_request request;
	int r = box_control_receive(&request);
	if ((r == 0 || r == -EBADMSG) && box_init_process_is_request(request.header.kind)) {
		box_mproc_request(&request, r);
	} else if (r == 0 || r == -EBADMSG) {
		box_run_request(&request, r);
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
		box_event_loop_take_children();
		box_run_reap();
		break;
	case BOX_WATCH_ORPHAN:
		box_stream_pump_orphan(watch);
		break;
	case BOX_WATCH_MPROC_OUT:
	case BOX_WATCH_MPROC_ERR:
	case BOX_WATCH_MPROC_IN:
		box_mproc_event(watch);
		break;
	default:
		box_run_event(watch);
		break;
	}
}

static uint64_t next_deadline(void)
{
	uint64_t runs = box_run_deadline();
	uint64_t processes = box_mproc_deadline();
	return BOX_MIN(runs, processes);
}

static void serve(void)
{
	while (!ended) {
		bool blocked = box_control_blocked();
		box_event_loop_turn(
			next_deadline(), blocked, blocked && box_run_is_full(), on_event);
		box_run_tick();
		box_mproc_tick();
	}
}

int main(void)
{
	uint32_t step = 0;
	bool is_microvm = box_microvm_boot_is_due();
	int r = is_microvm ? box_microvm_boot_run(&step) : 0;
	if (r == 0) {
		box_control_open();
		r = box_boot_run(&step);
	}
	box_boot_report(step, r < 0 ? -r : 0);
	if (r == 0) {
		serve();
	}
	if (is_microvm) {
		box_microvm_boot_end(r != 0);
	}
	return r < 0;
}
