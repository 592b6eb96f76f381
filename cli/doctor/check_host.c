/* Checks of what the host has to offer: cgroups, resources, quotas, network, the port, and our programs. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "boxd/cgroup/cgroup.h"
#include "boxd/host_state.h"
#include "boxd/identity.h"
#include "boxd/image/common_mounts.h"
#include "boxd/net/network.h"
#include "boxd/program.h"
#include "boxd/quota/quota_image.h"
#include "cli/doctor/check.h"
#include "cli/doctor/diagnose.h"
#include "plan/bounds.h"

/* --- cgroups --- */

/* Creates, limits, reads back and removes a cgroup like that of a box. */
static int try_group(struct box_cgroups *cgroups, struct box_err *err)
{
	static const struct box_cgroup_limits limits = {
		.memory_bytes = 64 * BOX_MIB, .pids = 32, .cpu_milli = 500};
	struct box_cgroup *cgroup = NULL;
	int r = box_cgroup_make(cgroups, "doctor", &limits, &cgroup, err);
	return r < 0 ? r : box_cgroup_remove(cgroup);
}

void box_check_cgroups(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	static const char cure[] =
		"run boxd as root or as a service with Delegate=yes (systemd-run --user --scope "
		"-p Delegate=yes box ...; in a container, with /sys/fs/cgroup writable); or boxd "
		"--config with local.degraded: true, for boxes without limits";
	struct box_err err = {0};
	struct box_cgroups *cgroups = box_cgroups_open();
	enum box_cgroup_mode mode = box_cgroups_mode(cgroups);
	if (mode == BOX_CGROUP_NONE) {
		box_check_report(check, BOX_CHECK_MISSING, cure, "limits cannot be set: %s",
			box_cgroups_why(cgroups));
	} else if (try_group(cgroups, &err) < 0) {
		box_check_report(check, BOX_CHECK_MISSING, cure, "a test cgroup failed: %s",
			err.text[0] ? err.text : "it could not be removed");
	} else {
		box_check_report(check, BOX_CHECK_OK, "",
			"version %d: limits on memory, processes and CPU work",
			mode == BOX_CGROUP_V2 ? 2 : 1);
	}
	box_cgroups_close(cgroups);
}

/* --- resources --- */

/* Resources of which each box has a share, because all boxes run as one user. */
static void report_shared(const struct box_bounds_facts *facts, struct box_check *check)
{
	char shared[BOX_CHECK_TEXT_SIZE / 2];
	box_bounds_name(facts, BOX_BOUND_SHARED, shared, sizeof(shared));
	if (!shared[0]) {
		box_check_report(check, BOX_CHECK_OK, "",
			"what a box can use of the host is limited for each box");
		return;
	}
	box_check_report(check, BOX_CHECK_LIMITED,
		"run boxd as root, where each box has its own ids; raise fs.file-max, "
		"user.max_inotify_instances and the user's RLIMIT_SIGPENDING",
		"limited for all boxes together, so each gets a share: %s", shared);
}

void box_check_resources(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	char missing[BOX_CHECK_TEXT_SIZE / 2];
	struct box_cgroups *cgroups = box_cgroups_open();
	const struct box_bounds_facts facts = {
		.limits = box_cgroups_mode(cgroups) != BOX_CGROUP_NONE,
		.sockets = box_cgroups_hold_sockets(cgroups),
		.id_ranges = geteuid() == 0 && box_host_state_has_id_ranges(),
		.files = box_bounds_has_files(box_host_state_files_max()),
	};
	box_cgroups_close(cgroups);
	box_bounds_name(&facts, BOX_BOUND_NONE, missing, sizeof(missing));
	if (missing[0]) {
		box_check_report(check, BOX_CHECK_LIMITED,
			facts.limits
				? "use a kernel with memory.kmem.tcp.limit_in_bytes, or cgroup "
				  "version 2"
				: "see cgroups above",
			"a box could use without limit: %s", missing);
	} else {
		report_shared(&facts, check);
	}
}

/* --- quotas --- */

/* Only for host folders: a box's own workspace is limited by tmpfs. */
void box_check_quotas(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	struct box_quota_support support;
	struct box_err err = {0};
	box_quota_support_find(&support);
	if (box_quota_image_probe(&support, &err) == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"workspace_quota_mb also works for host folders (images on loop devices)");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED,
			"run boxd as root, with loop devices and e2fsprogs; or boxd --config with "
			"local.degraded: true, for folders without a quota",
			"workspace_quota_mb does not work for host folders: %s", err.text);
	}
	box_quota_support_close(&support);
}

/* --- network --- */

static const char *network_fix(const char *why)
{
	if (strstr(why, "install passt")) {
		return "apt install passt nftables (dnf and apk have the same names)";
	}
	if (strstr(why, "/dev/net/tun")) {
		return "modprobe tun; chmod 666 /dev/net/tun where boxd is a plain user; "
		       "docker run --device /dev/net/tun";
	}
	return "see what boxd logs with --network on; boxes without a network work";
}

/* As boxd does it: the router, its rules and the way out, for one slot. */
static int try_network(struct box_err *err)
{
	struct box_identity ids = {0};
	struct box_network_slot slot;
	int r = box_identity_choose_for_rpc(&ids, err);
	if (r == 0) {
		r = box_common_mounts_enter_namespace(err);
	}
	if (r < 0) {
		return r;
	}
	struct box_network *network = box_network_new(ids.uid, ids.gid);
	if (!network) {
		return box_err_set(err, BOX_ERR_OS, EIO, "the host's network cannot be watched");
	}
	r = box_network_is_possible(network, err) ? box_network_take_slot(network, &slot, err)
						  : -ENOENT;
	if (r == 0) {
		box_network_release_slot(network, &slot);
	}
	box_network_free(network);
	return r;
}

void box_check_network(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	struct box_err err = {0};
	if (try_network(&err) == 0) {
		box_check_report(check, BOX_CHECK_OK, "",
			"pasta, nft and tun work: boxes can have a network");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED, network_fix(err.text), "%s", err.text);
	}
}

/* --- the port --- */

#define PORT 5410
#define ANSWER_MAX (64 * BOX_KIB)
#define ANSWER_MS 2000

static const struct sockaddr_in address = {
	.sin_family = AF_INET,
	.sin_port = __builtin_bswap16(PORT),
	.sin_addr.s_addr = __builtin_bswap32(INADDR_LOOPBACK),
};

static int try_bind(void)
{
	int on = 1;
	_cleanup_(box_close_p) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
			bind(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
			listen(fd, 1) < 0
		? -errno
		: 0;
}

static enum box_diagnose_port_owner ask_owner(void)
{
	static const char request[] =
		"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:5410\r\nConnection: close\r\n\r\n";
	static char answer[ANSWER_MAX];
	size_t len = 0;
	_cleanup_(box_close_p) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	const struct timeval wait = {.tv_sec = ANSWER_MS / 1000};
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait)) < 0 ||
		connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0 ||
		send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) < 0) {
		return BOX_DIAGNOSE_PORT_SILENT;
	}
	for (ssize_t got = 1; got > 0 && len<sizeof(answer); len += got> 0 ? (size_t)got : 0) {
		got = recv(fd, answer + len, sizeof(answer) - len, 0);
	}
	return box_diagnose_port(answer, len);
}

void box_check_port(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	static const char cure[] =
		"stop what listens there (ss -ltnp 'sport = :5410' shows it), or start boxd with "
		"another --ws-control-port";
	int r = try_bind();
	enum box_diagnose_port_owner owner = r == -EADDRINUSE ? ask_owner()
							      : BOX_DIAGNOSE_PORT_OTHER;
	if (r == 0) {
		box_check_report(check, BOX_CHECK_OK, "", "free on 127.0.0.1");
	} else if (r != -EADDRINUSE) {
		box_check_report(check, BOX_CHECK_LIMITED, cure, "cannot be opened: %s",
			box_err_strerror(-r));
	} else if (owner == BOX_DIAGNOSE_PORT_BOXD) {
		box_check_report(check, BOX_CHECK_OK, "", "boxd answers there");
	} else {
		box_check_report(check, BOX_CHECK_LIMITED, cure, "in use by %s",
			owner == BOX_DIAGNOSE_PORT_OTHER ? "a program that is not boxd"
							 : "a program that does not answer");
	}
}

/* --- our programs --- */

void box_check_programs(const struct box_check_setup *setup, struct box_check *check)
{
	(void)setup;
	static const char *const names[] = {"box-init", "box-rpc"};
	char paths[2][BOX_PATH_MAX];
	char skills[BOX_PATH_MAX];
	struct box_err err;
	for (size_t i = 0; i < BOX_COUNT_OF(names); i++) {
		if (box_program_find(names[i], paths[i], &err) < 0) {
			box_check_report(check, BOX_CHECK_MISSING,
				"install all of Box's programs, or keep boxd, box-rpc and box-init "
				"in one folder",
				"%s", err.text);
			return;
		}
	}
	if (box_program_find("box-skills", skills, &err) < 0) {
		box_check_report(check, BOX_CHECK_LIMITED,
			"install all of Box's programs, or keep box-skills beside boxd",
			"%s: boxes work, skills do not", err.text);
		return;
	}
	box_check_report(
		check, BOX_CHECK_OK, "", "%.300s, %.300s, %.300s", paths[0], paths[1], skills);
}
