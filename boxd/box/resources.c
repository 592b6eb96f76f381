/* The end of a box: each thing that it had is given back once. */
#include "boxd/box/resources.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "boxd/box/id_ranges.h"
#include "boxd/cgroup/cgroup.h"

void box_resources_kill(const struct box_resources *living)
{
	/* It is our child and not yet waited for: this fails only when it has died already, or was
	 * never there. */
	(void)pidfd_send_signal(living->pidfd, SIGKILL, NULL, 0);
}

bool box_resources_reap(const struct box_resources *living)
{
	siginfo_t end = {0};
	return waitid(P_PIDFD, (id_t)living->pidfd, &end, WEXITED | WNOHANG) < 0 || end.si_pid != 0;
}

int box_resources_release(struct box_host_state *ground, struct box_resources *living)
{
	if (living->cgroup) {
		if (box_cgroup_remove(living->cgroup) < 0) {
			return -EBUSY;
		}
		living->cgroup = NULL;
	}
	box_close_p(&living->control);
	box_close_p(&living->report);
	box_close_p(&living->netns);
	if (living->has_seat) {
		box_network_release_slot(ground->network, &living->seat);
	}
	if (living->has_ids) {
		box_id_ranges_release(ground->ids, living->first_id);
	}
	*living = BOX_RESOURCES_NONE;
	return 0;
}
