/* What boxes need of this host: everything that is found out, opened or prepared once.
 *
 * Found out by trying, when boxd starts; what is missing is kept as text for status and errors. The
 * operator's policy comes later, once, and completes it. Owned by main.c; used by everything that makes
 * boxes.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "boxd/files/mount_roots.h"
#include "boxd/identity.h"
#include "boxd/image/common_mounts.h"
#include "boxd/quota/quota.h"
#include "boxd/watcher.h"
#include "protocol/boxd.h"

struct box_cgroups;
struct box_id_ranges;
struct box_images;
struct box_netns;
struct box_network;

/* The seccomp filters of one kind of box. */
struct box_host_state_filters {
	struct box_filter commands;
	struct box_filter mounter;
};

struct box_host_state {
	bool possible; /* boxes can be made; else `missing` is the reason */
	char missing[BOX_BOXD_TEXT_MAX];
	bool sealed; /* the policy has been set */
	struct box_policy policy;
	struct box_mount_roots *mount_roots; /* from the policy; never NULL */
	struct box_plan_host host;
	struct box_common_mounts common;
	struct box_images *images; /* NULL before the policy */
	struct box_cgroups *cgroups;
	struct box_watcher watcher;
	struct box_network *network;
	struct box_netns *netns;
	struct box_id_ranges *ids;                              /* NULL: boxd has only one id */
	struct box_host_state_filters filters[BOX_FILTERS_][2]; /* without and with a network */
	struct box_quota_support quota;
	struct box_mount_roots_own_paths own_paths; /* set by the caller */
	bool alone; /* no other mount namespace uses the host's folders: set by the caller */
	int init;   /* the program of PID 1, in a sealed memfd */
	int vmm;    /* box-vmm, to be executed; or -1 */
	char vmm_path[BOX_PATH_MAX];
};

/* Initialises zeroed memory: nothing is available, and no box is possible. */
void box_host_state_init(struct box_host_state *host_state);

/* Never fails: `missing` describes what is not available. Enters new namespaces: call it when the
 * listening sockets are open and before PR_SET_DUMPABLE. */
void box_host_state_open(struct box_host_state *host_state, const struct box_identity *ids);
void box_host_state_close(struct box_host_state *host_state);

/* Whether this user namespace has the ids that boxes get as root. */
bool box_host_state_has_id_ranges(void);
/* fs.file-max; 0 when it is not known. */
uint64_t box_host_state_files_max(void);

/* Whether every text of a policy is terminated and every count within its limits: a policy comes from
 * box-rpc. */
bool box_host_state_is_well_formed(const struct box_policy *policy);

/* Takes the policy, opens the mount roots and prepares the root of boxes. A second policy is
 * ignored. -EINVAL with BOX_ERR_VALUE when something of Box's own is where boxes may mount: boxd
 * must not go on. */
int box_host_state_set_policy(
	struct box_host_state *host_state, const struct box_policy *policy, struct box_err *err);

/* Whether its paths may be used together, as box_host_state_set_policy requires; changes nothing. */
int box_host_state_check_policy_paths(const struct box_host_state *host_state,
	const struct box_policy *policy, struct box_err *err);

/* Takes from a later policy only what narrows the first one. With `roots` also its roots and its skill
 * store, unless boxes could then mount something of Box's own, which is logged. */
void box_host_state_narrow_policy(
	struct box_host_state *host_state, const struct box_policy *policy, bool roots);

/* What a box would get now, as far as that is visible: box_host_state_report_at_start with the present
 * roots. */
void box_host_state_report_now(
	const struct box_host_state *host_state, struct box_boxd_host *ret_host);

/* Whether a path of the configuration can be used (--check-config): 0, or negative with err. */
int box_host_state_check_config_path(
	enum box_boxd_check_kind what, const char *path, struct box_err *err);

/* The facts about this host for START. */
void box_host_state_report_at_start(
	const struct box_host_state *host_state, struct box_boxd_host *ret_host);
