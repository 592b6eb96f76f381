/* Frees the resources of a box: each once, the cgroup first because it can be busy. */
#include "boxd/box/resources.h"

#include <errno.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "boxd/box/id_ranges.h"
#include "boxd/cgroup/cgroup.h"

void box_resources_kill(const struct box_resources *resources)
{
	/* It is our child and not reaped yet: this fails only when it has died already, or when nothing
	 * was cloned. */
	(void)pidfd_send_signal(resources->pidfd, SIGKILL, NULL, 0);
}

bool box_resources_reap(const struct box_resources *resources)
{
	siginfo_t end = {0};
	return waitid(P_PIDFD, (id_t)resources->pidfd, &end, WEXITED | WNOHANG) < 0 ||
		end.si_pid != 0;
}

int box_resources_release(struct box_host_state *host_state, struct box_resources *resources)
{
	if (resources->cgroup) {
		if (box_cgroup_remove(resources->cgroup) < 0) {
			return -EBUSY;
		}
		resources->cgroup = NULL;
	}
	box_close_p(&resources->control);
	box_close_p(&resources->report);
	box_close_p(&resources->netns);
	if (resources->has_slot) {
		box_network_release_slot(host_state->network, &resources->slot);
	}
	if (resources->has_ids) {
		box_id_ranges_release(host_state->ids, resources->first_id);
	}
	*resources = BOX_RESOURCES_NONE;
	return 0;
}
