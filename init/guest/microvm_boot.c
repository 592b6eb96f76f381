/* Owns the order in which a microVM becomes a box: the list `steps`. Once connected, it reports failures to the
 * host. */
#include "init/guest/microvm_boot.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/vm_sockets.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fds.h"
#include "base/fsmount.h"
#include "base/landlock.h"
#include "base/macros.h"
#include "base/number.h"
#include "init/guest/guest_cgroups.h"
#include "init/guest/guest_clock.h"
#include "init/guest/guest_net.h"
#include "init/guest/memory_kills.h"
#include "init/guest/priv_helper.h"
#include "init/guest/root_build.h"
#include "protocol/microvm.h"

#define FD_FLOOR 16 /* fds are first moved above their final numbers */
#define BOOT_SIZE_MAX (16U * 1024 * 1024)
#define HEARD_MS 5000
#define CONNECT_TIMEOUT \
	6 /* SO_VM_SOCKETS_CONNECT_TIMEOUT, whose name depends on the size of time_t */

static struct box_microvm_parts parts;
static struct box_init_boot facts;
static char *boot_bytes; /* in our own copy */
static size_t boot_size;
static int boot_fd = -1;
static int stream = -1;
static int root = -1;
static int writable = -1;
static uint32_t failed_step;

bool box_microvm_boot_is_due(void)
{
	return getpid() == 1 && fcntl(BOX_INIT_BOOT_FD, F_GETFD) < 0 &&
		fcntl(BOX_INIT_CONTROL_FD, F_GETFD) < 0 && access(BOX_MICROVM_BOOT, R_OK) == 0;
}

/* Takes over the fd. Returns the moved fd, or -errno. */
static int move_up(int fd)
{
	int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_FLOOR);
	int r = moved < 0 ? -errno : moved;
	box_close_p(&fd);
	return r;
}

/* A kernel without a console starts us without standard fds, and other fds would get their numbers. The
 * common boot steps later put the right files there. */
static int fill_standard_fds(void)
{
	int fd;
	do {
		/* NOLINTNEXTLINE(android-cloexec-open): one of the three stays */
		fd = open("/", O_PATH | O_DIRECTORY);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	int r = fd < 0 ? -errno : 0;
	box_close_p(&fd);
	return r;
}

static int copy_boot_file(int from)
{
	size_t have = 0;
	while (have < boot_size) {
		ssize_t got = read(from, boot_bytes + have, boot_size - have);
		if (got == 0 || (got < 0 && errno != EINTR)) {
			return got < 0 ? -errno : -EBADMSG;
		}
		have += got < 0 ? 0 : (size_t)got;
	}
	return 0;
}

/* Copies the file into memory, because it disappears with its root. */
static int read_boot_file(void)
{
	int r = fill_standard_fds();
	_cleanup_(box_close_p) int from = open(BOX_MICROVM_BOOT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;
	if (r < 0 || from < 0 || fstat(from, &st) < 0) {
		return r < 0 ? r : -errno;
	}
	if (st.st_size <= 0 || st.st_size > BOOT_SIZE_MAX) {
		return -EBADMSG;
	}
	boot_size = (size_t)st.st_size;
	boot_fd = move_up(memfd_create("boot", MFD_CLOEXEC));
	if (boot_fd < 0 || ftruncate(boot_fd, st.st_size) < 0) {
		return boot_fd < 0 ? boot_fd : -errno;
	}
	boot_bytes = mmap(NULL, boot_size, PROT_READ | PROT_WRITE, MAP_SHARED, boot_fd, 0);
	if (boot_bytes == MAP_FAILED) {
		return -errno;
	}
	r = copy_boot_file(from);
	if (r < 0) {
		return r;
	}
	r = box_microvm_find_parts(boot_bytes, boot_size, &parts);
	if (r == 0) {
		memcpy(&facts, boot_bytes, sizeof(facts));
		facts.workspace_path[sizeof(facts.workspace_path) - 1] = '\0';
	}
	return r;
}

static int put_at(int fd, int place)
{
	return dup2(fd, place) < 0 ? -errno : 0;
}

/* The only connection to the host; nothing listens in the guest. */
static int connect_host(void)
{
	struct sockaddr_vm host = {
		.svm_family = AF_VSOCK,
		.svm_cid = VMADDR_CID_HOST,
		.svm_port = BOX_MICROVM_PORT,
	};
	/* The kernel's default timeout is too short for a busy host. */
	const struct timeval patience = {.tv_sec = parts.boot.deadline_ms / 1000 + 1};
	stream = move_up(socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (stream < 0) {
		return stream;
	}
	if (setsockopt(stream, AF_VSOCK, CONNECT_TIMEOUT, &patience, sizeof(patience)) < 0 ||
		connect(stream, (const struct sockaddr *)&host, sizeof(host)) < 0) {
		return -errno;
	}
	int r = put_at(stream, BOX_INIT_CONTROL_FD);
	return r < 0 ? r : put_at(stream, BOX_INIT_REPORT_FD);
}

/* The clock must not be earlier than the order, which was made before the guest started. */
static int set_clock(void)
{
	uint64_t least = parts.order.realtime_ns;
	return box_guest_clock_now() < least ? box_guest_clock_set(least) : 0;
}

static int limit(int resource, rlim_t most)
{
	struct rlimit bound = {most, most};
	return setrlimit(resource, &bound) < 0 ? -errno : 0;
}

static int set_limits(void)
{
	int r = limit(RLIMIT_CORE, 0);
	return r < 0 || !parts.boot.open_files ? r : limit(RLIMIT_NOFILE, parts.boot.open_files);
}

static int start_helper(void)
{
	return box_priv_helper_start(&box_priv_helper_of_microvm);
}

/* Without cgroups, RLIMIT_NPROC limits the payload's processes instead. With cgroups it is lifted, because its
 * default, which the kernel derives from the guest's memory, may be lower than the limit of the box. */
static int make_groups(void)
{
	int events = -1;
	_cleanup_(box_close_p) int box = box_guest_cgroups_open(parts.boot.pids, &events);
	if (box == -EOPNOTSUPP) {
		return parts.boot.pids ? limit(RLIMIT_NPROC, parts.boot.pids) : 0;
	}
	/* Without them, a process killed for lack of memory is reported as killed, without a reason. */
	box_memory_kills_watch(events < 0 ? -1 : move_up(events));
	int r = box < 0 ? box : box_priv_helper_give_cgroups(box);
	return r < 0 || !parts.boot.pids ? r : limit(RLIMIT_NPROC, RLIM_INFINITY);
}

static int make_root(void)
{
	const struct box_root_build build = {
		.steps = parts.root_steps,
		.count = parts.boot.root_step_count,
		.uid = facts.payload_uid,
		.gid = facts.payload_gid,
		.open_tree = box_priv_helper_open_tree,
	};
	int r = box_root_build(&build, &root, &writable, &failed_step);
	if (r == 0) {
		root = move_up(root);
		writable = move_up(writable);
	}
	return r < 0 ? r : root < 0 ? root : writable < 0 ? writable : 0;
}

static int move_in(void)
{
	int r = box_fsmount_enter_root(root);
	box_close_p(&root);
	return r;
}

static int set_name(void)
{
	const char *name = parts.boot.hostname;
	return sethostname(name, strlen(name)) < 0 ? -errno : 0;
}

static int set_network(void)
{
	return box_guest_net_set_up(&parts.boot);
}

/* --- handing over --- */

/* Sends the order as boxd would, on a socket that carries nothing else. */
static int send_order(int to)
{
	char order = (char)parts.order.order;
	_cleanup_(box_close_p) int workspace = -1;
	if (facts.workspace) {
		workspace = box_priv_helper_open_workspace();
		if (workspace < 0) {
			return workspace;
		}
	}
	return box_fds_send_one(to, &order, sizeof(order), workspace, 0);
}

static int put_order(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	_cleanup_(box_close_p) int ours = move_up(pair[0]);
	_cleanup_(box_close_p) int theirs = move_up(pair[1]);
	int r = ours < 0 ? ours : theirs < 0 ? theirs : send_order(ours);
	return r < 0 ? r : put_at(theirs, BOX_INIT_ORDER_FD);
}

static int put_place(void)
{
	if (!facts.workspace) {
		return 0;
	}
	_cleanup_(box_close_p) int place = move_up(
		open(facts.workspace_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	return place < 0 ? place : put_at(place, BOX_INIT_WORKSPACE_FD);
}

/* Adapts Landlock to this kernel: the boot file was written for the host's. */
static void fit_landlock(void)
{
	uint32_t own = box_landlock_abi();
	if (own < facts.landlock_abi) {
		memcpy(boot_bytes + offsetof(struct box_init_boot, landlock_abi), &own,
			sizeof(own));
	}
}

static int hand_over(void)
{
	fit_landlock();
	int r = put_order();
	if (r == 0) {
		r = put_place();
	}
	if (r == 0) {
		r = put_at(boot_fd, BOX_INIT_BOOT_FD);
	}
	if (r == 0) {
		r = put_at(writable, BOX_INIT_ROOT_FD);
	}
	box_close_p(&boot_fd);
	box_close_p(&writable);
	box_close_p(&stream);
	(void)munmap(boot_bytes, boot_size);
	return r;
}

/* In the order of enum box_microvm_step. */
static int (*const steps[])(void) = {
	read_boot_file,
	connect_host,
	set_clock,
	set_limits,
	start_helper,
	make_groups,
	make_root,
	move_in,
	set_name,
	set_network,
	hand_over,
};
_Static_assert(BOX_COUNT_OF(steps) == BOX_MICROVM_STEP_END_ - BOX_MICROVM_STEP_READ,
	"every step has a number");

/* Writes to the console, whose last lines the host keeps, because the report may be unsendable. */
static void say(uint32_t step, int errnum)
{
	static const char before[] = "box-init: cannot ";
	static const char between[] = ": error ";
	char number[BOX_NUMBER_SIZE];
	const char *name = box_microvm_step_name(step);
	box_number_put(number, (uint64_t)errnum, 10);
	const struct iovec text[] = {
		{(void *)(uintptr_t)before, sizeof(before) - 1},
		{(void *)(uintptr_t)name, strlen(name)},
		{(void *)(uintptr_t)between, sizeof(between) - 1},
		{number, strlen(number)},
		{(void *)(uintptr_t) "\n", 1},
	};
	ssize_t ignored = writev(STDERR_FILENO, text, BOX_COUNT_OF(text));
	(void)ignored;
}

int box_microvm_boot_run(uint32_t *ret_step)
{
	for (uint32_t i = 0; i < BOX_COUNT_OF(steps); i++) {
		int r = steps[i]();
		if (r < 0) {
			*ret_step = steps[i] == make_root ? BOX_MICROVM_STEP_ROOT_STEP + failed_step
							  : BOX_MICROVM_STEP_READ + i;
			say(*ret_step, -r);
			return r;
		}
		if (steps[i] == connect_host && parts.boot.root_step_count == 0) {
			return 1;
		}
	}
	return 0;
}

/* --- the end --- */

/* Waits until the host has closed its side and thus has everything that we sent: otherwise the machine may end
 * before that has arrived. */
static void wait_for_host(void)
{
	char ignored[256];
	struct pollfd host = {.fd = BOX_INIT_CONTROL_FD, .events = POLLIN};
	while (poll(&host, 1, HEARD_MS) > 0 &&
		recv(BOX_INIT_CONTROL_FD, ignored, sizeof(ignored), MSG_DONTWAIT) > 0) {
	}
}

_Noreturn void box_microvm_boot_end(bool heard)
{
	if (heard) {
		wait_for_host();
	}
	/* Before the boot we can do it ourselves; afterwards only the privileged helper can. */
	box_priv_helper_of_microvm.end();
	box_priv_helper_end_microvm();
	/* The kernel panics when its PID 1 ends, which also ends the guest. */
	_exit(1);
}
