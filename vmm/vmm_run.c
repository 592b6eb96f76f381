/* Owns the list `steps`: how a prepared box, in which the host's files are still accessible, becomes a microVM in an
 * empty root. A step that fails is reported to boxd by its number, with a text. Called by main.c. */
#include "vmm/vmm_run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/fds.h"
#include "base/fsmount.h"
#include "base/landlock.h"
#include "base/macros.h"
#include "protocol/microvm.h"
#include "vmm/boot_image.h"
#include "vmm/bridge/bridge.h"
#include "vmm/bridge/mount_helper.h"
#include "vmm/libkrun.h"
#include "vmm/microvm_process.h"
#include "vmm/passt.h"
#include "vmm/privileges.h"
#include "vmm/syscall_rules.h"

#define SHARE_PATH "/share"
#define MOUNTS_PATH SHARE_PATH "/" BOX_MICROVM_MOUNTS
#define SOCKET_PATH "/run/box.sock"

static struct {
	struct box_boot_image image;
	struct box_libkrun *krun;
	const void *init;
	size_t init_size;
	bool same_uid;  /* only one id is mapped here; the guest has all ids */
	int workspace;  /* a detached mount that arrived with the order, or -1 */
	int net;        /* the guest's socket to passt, or -1 */
	int console[2]; /* a pipe: our end, the guest's end */
	struct box_bridge bridge;
} vmm = {.workspace = -1, .net = -1, .console = {-1, -1}};

enum child {
	CHILD_MICROVM,
	CHILD_MOUNT_HELPER,
	CHILD_PASST,
};
_Static_assert(CHILD_PASST < BOX_BRIDGE_CHILDREN_MAX, "the bridge watches all of them");

static int map_init(struct box_err *err)
{
	struct stat st;
	if (fstat(BOX_MICROVM_INIT_FD, &st) < 0 || st.st_size <= 0 ||
		(uint64_t)st.st_size > BOX_VMM_INIT_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_OS, EBADF, "box-init was not passed");
	}
	vmm.init_size = (size_t)st.st_size;
	const void *bytes = mmap(
		NULL, vmm.init_size, PROT_READ, MAP_PRIVATE, BOX_MICROVM_INIT_FD, 0);
	if (bytes == MAP_FAILED) {
		return box_err_set(err, BOX_ERR_OS, errno, "box-init cannot be mapped: %s",
			box_err_strerror(errno));
	}
	vmm.init = bytes;
	(void)close(BOX_MICROVM_INIT_FD);
	return 0;
}

static int read_boot(struct box_err *err)
{
	vmm.same_uid = geteuid() != 0;
	int r = box_boot_image_read(BOX_INIT_BOOT_FD, &vmm.image);
	(void)close(BOX_INIT_BOOT_FD);
	return r < 0 ? box_err_set(err, BOX_ERR_OS, -r, "the boot file is invalid") : map_init(err);
}

static int load_library(struct box_err *err)
{
	static struct box_libkrun_folders folders;
	box_libkrun_find_folders(&folders);
	return box_libkrun_open(folders.list, &vmm.krun, NULL, err);
}

/* Receives one byte, and the fd of the workspace if there is one. */
static int await_order(struct box_err *err)
{
	char order = 0;
	if (box_fds_receive_one(BOX_INIT_ORDER_FD, &order, 1, &vmm.workspace, 0) < 0) {
		return box_err_set(
			err, BOX_ERR_OS, EOWNERDEAD, "boxd has closed the socket of the order");
	}
	(void)close(BOX_INIT_ORDER_FD);
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
	box_boot_image_add_order(&vmm.image, (unsigned char)order, now_ns);
	return 0;
}

static int attach_workspace(struct box_err *err)
{
	bool wanted = vmm.image.guest.workspace != 0;
	if (wanted != (vmm.workspace >= 0)) {
		return box_err_set(
			err, BOX_ERR_OS, EBADMSG, "the order does not match the boot file");
	}
	if (!wanted) {
		return 0;
	}
	int r = box_fsmount_attach_at(vmm.workspace, BOX_INIT_WORKSPACE_FD);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "the workspace cannot be mounted: %s",
			box_err_strerror(-r));
	}
	(void)close(vmm.workspace);
	(void)close(BOX_INIT_WORKSPACE_FD);
	return 0;
}

/* The microVM process opens it again by its path, as another user. Only our end must not block. */
static int open_console(void)
{
	const struct box_init_boot *guest = &vmm.image.guest;
	if (pipe2(vmm.console, O_CLOEXEC) < 0 || fcntl(vmm.console[0], F_SETFL, O_NONBLOCK) < 0 ||
		(!vmm.same_uid &&
			fchown(vmm.console[1], guest->payload_uid, guest->payload_gid) < 0)) {
		return -errno;
	}
	return 0;
}

/* From here on SIGCHLD is read from the signalfd. */
static int open_signals(void)
{
	sigset_t set;
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
		return -errno;
	}
	vmm.bridge.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return vmm.bridge.signals < 0 ? -errno : 0;
}

/* passt is a program of the host, so it is started before the change of the root. */
static int start_network(struct box_err *err)
{
	int r = open_console();
	if (r == 0) {
		r = open_signals();
	}
	if (r == 0) {
		r = box_bridge_open_clock(&vmm.bridge.clock);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
	}
	if (!vmm.image.microvm.network) {
		return 0;
	}
	const struct box_passt passt = {
		.facts = &vmm.image.microvm,
		.same_uid = vmm.same_uid,
		.log_fd = vmm.console[1],
	};
	return box_passt_start(&passt, &vmm.net, &vmm.bridge.children[CHILD_PASST], err);
}

static int change_root(struct box_err *err)
{
	int r = box_fsmount_enter_root(BOX_MICROVM_JAIL_FD);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
	}
	(void)close(BOX_MICROVM_JAIL_FD);
	(void)close(BOX_INIT_ROOT_FD);
	return 0;
}

static int start_mount_helper(struct box_err *err)
{
	_cleanup_(box_close_p) int mounts = open(
		MOUNTS_PATH, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (mounts < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, MOUNTS_PATH ": %s", box_err_strerror(errno));
	}
	return box_mount_helper_start(
		mounts, &vmm.bridge.mount_helper, &vmm.bridge.children[CHILD_MOUNT_HELPER], err);
}

static int start_microvm(struct box_err *err)
{
	const struct box_init_boot *guest = &vmm.image.guest;
	const struct box_microvm_process microvm = {
		.krun = vmm.krun,
		.guest =
			{
				.cpus = vmm.image.microvm.cpus,
				.memory_mib = vmm.image.microvm.memory_mib,
				.init = vmm.init,
				.init_size = vmm.init_size,
				.boot = vmm.image.bytes,
				.boot_size = vmm.image.size,
				.share = SHARE_PATH,
				.socket_path = SOCKET_PATH,
				.net_fd = vmm.net,
				/* A locally administered address; there is no other card. */
				.mac = {0x02, 0, 0, 0, 0, 0x02},
			},
		.console_fd = vmm.console[1],
		.same_uid = vmm.same_uid,
		.uid = guest->payload_uid,
		.gid = guest->payload_gid,
		.landlock_abi = box_landlock_abi(),
	};
	int r = box_microvm_process_start(&microvm, &vmm.bridge.children[CHILD_MICROVM], err);
	(void)close(vmm.console[1]);
	box_close_p(&vmm.net);
	return r;
}

static int start_helpers(struct box_err *err)
{
	int r = box_privileges_lock(vmm.same_uid);
	if (r == 0) {
		r = box_bridge_listen(SOCKET_PATH, &vmm.bridge.listener);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
	}
	r = start_mount_helper(err);
	if (r < 0) {
		return r;
	}
	return start_microvm(err);
}

/* For this process itself, which becomes the bridge and only forwards from here on. */
static int confine_bridge(struct box_err *err)
{
	(void)prctl(PR_SET_NAME, "box-bridge", 0L, 0L, 0L);
	vmm.bridge.control = BOX_INIT_CONTROL_FD;
	vmm.bridge.report = BOX_INIT_REPORT_FD;
	vmm.bridge.socket_path = SOCKET_PATH;
	vmm.bridge.console = vmm.console[0];
	vmm.bridge.deadline_ms = vmm.image.microvm.deadline_ms;
	int r = box_caps_keep(0);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s", box_err_strerror(-r));
	}
	return box_syscall_rules_enter(BOX_SYSCALL_RULES_BRIDGE, err);
}

/* In the order of enum box_vmm_step, up to START; the bridge reports the rest. */
static int (*const steps[])(struct box_err *err) = {
	read_boot,
	load_library,
	await_order,
	attach_workspace,
	start_network,
	change_root,
	start_helpers,
	confine_bridge,
};
_Static_assert(BOX_COUNT_OF(steps) == BOX_VMM_START - BOX_VMM_READ, "every step has a number");

int box_vmm_run(void)
{
	static struct box_err err;
	for (uint32_t i = 0; i < BOX_COUNT_OF(steps); i++) {
		int r = steps[i](&err);
		if (r < 0) {
			box_bridge_report(BOX_INIT_REPORT_FD, BOX_VMM_READ + i, -r, err.text);
			return 1;
		}
	}
	return box_bridge_run(&vmm.bridge) < 0;
}
