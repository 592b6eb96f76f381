/* Owns the mounter process and the socket to it. Jobs are sent one at a time with their fds, and the
 * mounter checks them. The result is in a page that both processes share and that the new process writes
 * itself, so that its end is recognised even if SIGCHLD arrives before the answer. In PID 1 called by
 * mounter_queue.c. */
#include "init/boot/mounter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/fds.h"
#include "base/macros.h"
#include "init/boot/attach.h"
#include "init/boot/boot.h"
#include "init/boot/boot_order.h"
#include "init/event_loop.h"
#include "init/file/file_job.h"
#include "init/guest/memory_kills.h"
#include "init/guest/priv_helper.h"

#define FDS_PER_PACKET BOX_FDS_MAX
#define JOB_FDS 5U /* body, stdout, stderr, and optionally stdin and procs */

/* The page that both processes share: about the current job. */
struct shared {
	volatile pid_t pid; /* of its process; 0: not forked yet */
	volatile struct box_launch_failure failure;
};

static struct shared *shared;
static int socket_fd = -1; /* to the other process */
static pid_t mounter_pid = -1;

static int send_packet(const void *bytes, size_t size, const int *fds, size_t fd_count)
{
	const struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	ssize_t sent = box_fds_send(socket_fd, &part, 1, fds, fd_count, MSG_DONTWAIT);
	return sent < 0 ? (int)sent : 0;
}

/* The number of fds, or -errno. */
static int receive_packet(void *bytes, size_t size, int *list, size_t fd_max)
{
	struct box_fds fds = {.list = list, .max = fd_max};
	ssize_t got = box_fds_receive(socket_fd, bytes, size, &fds, 0);
	if (got != (ssize_t)size || fds.cut) {
		box_fds_close(&fds);
		return -EPIPE;
	}
	return (int)fds.count;
}

/* --- in PID 1 --- */

pid_t box_mounter_pid(void)
{
	return mounter_pid;
}

pid_t box_mounter_child(void)
{
	return shared->pid;
}

struct box_launch_failure box_mounter_failure(void)
{
	struct box_launch_failure failure = {
		.errnum = shared->failure.errnum,
		.mount = shared->failure.mount,
	};
	failure.step = failure.errnum == 0 ? BOX_INIT_STEP_NONE : shared->failure.step;
	return failure;
}

int box_mounter_send(const struct box_mounter_job *job)
{
	struct box_mounter_packet packet = {
		.run = job->run,
		.targets_size = job->targets_size,
		.has_stdin = job->stdin_fd >= 0,
		.has_procs = job->procs_fd >= 0,
		.search_path = job->search_path,
	};
	/* It is complete. The mounter refuses a memfd that could still change. */
	if (fcntl(job->body_fd, F_ADD_SEALS, BOX_MOUNTER_JOB_SEALS) < 0) {
		return -errno;
	}
	int fds[JOB_FDS] = {job->body_fd, job->stdout_fd, job->stderr_fd};
	size_t fd_count = 3;
	if (packet.has_stdin) {
		fds[fd_count++] = job->stdin_fd;
	}
	if (packet.has_procs) {
		fds[fd_count++] = job->procs_fd;
	}
	shared->pid = 0;
	shared->failure.errnum = 0;
	int r = send_packet(&packet, sizeof(packet), fds, fd_count);
	for (uint32_t at = 0; r == 0 && at < job->run.mount_count; at += FDS_PER_PACKET) {
		uint32_t left = job->run.mount_count - at;
		uint32_t count = BOX_MIN(left, FDS_PER_PACKET);
		r = send_packet(&count, sizeof(count), job->mount_fds + at, count);
	}
	return r;
}

int box_mounter_receive(void)
{
	char byte;
	ssize_t got;
	do {
		got = recv(socket_fd, &byte, sizeof(byte), MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got > 0) {
		return 0;
	}
	if (got < 0 && errno == EAGAIN) {
		return -EAGAIN;
	}
	box_event_loop_unwatch(socket_fd);
	return -EPIPE;
}

/* --- in the mounter --- */

/* What a process with mounts needs for the steps before those of every command. */
struct preparation {
	struct box_attach attach;
	int procs_fd; /* cgroup.procs, or -1 */
};

static int prepare(struct box_launch *launch)
{
	const struct preparation *preparation = launch->prepare_data;
	const struct box_attach *attach = &preparation->attach;
	launch->failure->step = BOX_INIT_STEP_CGROUP;
	if (preparation->procs_fd >= 0 && write(preparation->procs_fd, "0", 1) != 1) {
		return -errno;
	}
	launch->failure->step = BOX_INIT_STEP_MOUNT;
	uint32_t index = 0;
	int r = box_attach_all(attach, &index);
	if (r < 0) {
		launch->failure->mount = index;
		return r;
	}
	launch->failure->step = BOX_INIT_STEP_CONFINE;
	r = box_boot_enter_landlock(attach->fds, attach->count);
	if (r < 0) {
		return r;
	}
	return box_boot_install_filter();
}

/* A job as it was received, not checked yet. */
struct job {
	struct box_mounter_packet packet;
	int fds[JOB_FDS];
	int mounts[BOX_INIT_MOUNTS_MAX];
};

static int receive_job(struct job *job)
{
	memset(job, 0xff, sizeof(*job)); /* every fd is -1 */
	int r = receive_packet(&job->packet, sizeof(job->packet), job->fds, JOB_FDS);
	if (r != 3 + (job->packet.has_stdin != 0) + (job->packet.has_procs != 0) ||
		job->packet.run.mount_count > BOX_INIT_MOUNTS_MAX) {
		return -EPIPE;
	}
	for (uint32_t at = 0; at < job->packet.run.mount_count;) {
		uint32_t count;
		r = receive_packet(
			&count, sizeof(count), job->mounts + at, BOX_INIT_MOUNTS_MAX - at);
		if (r <= 0 || (uint32_t)r != count) {
			return -EPIPE;
		}
		at += count;
	}
	return 0;
}

static void fail(uint32_t step, int errnum)
{
	shared->failure.step = step;
	shared->failure.errnum = errnum;
}

int box_mounter_check_job(const struct box_mounter_packet *packet, const char *bytes, size_t size)
{
	const struct box_init_run *run = &packet->run;
	uint64_t body_size = (uint64_t)run->env_size + run->workdir_size + run->command_size;
	if (run->mount_count > BOX_INIT_MOUNTS_MAX || body_size > BOX_INIT_BODY_MAX ||
		size != packet->targets_size + body_size + 1) {
		return -EBADMSG;
	}
	const char *at = bytes;
	const char *end = bytes + packet->targets_size;
	for (uint32_t i = 0; i < run->mount_count; i++) {
		if (at == end || *at != '/' || !memchr(at, '\0', (size_t)(end - at))) {
			return -EBADMSG;
		}
		at += strlen(at) + 1;
	}
	return at == end ? 0 : -EBADMSG;
}

/* Maps and checks the bytes of a job. The mapping is private: writing to it affects only this process. */
static char *map_body(const struct job *job, size_t *ret_size)
{
	int fd = job->fds[0];
	struct stat st;
	if (fstat(fd, &st) < 0) {
		fail(BOX_INIT_STEP_MEMORY, errno);
		return NULL;
	}
	size_t size = (size_t)st.st_size;
	int seals = fcntl(fd, F_GET_SEALS);
	/* There may be more seals: vm.memfd_noexec adds F_SEAL_EXEC. */
	if (seals < 0 || (seals & BOX_MOUNTER_JOB_SEALS) != BOX_MOUNTER_JOB_SEALS || size == 0) {
		fail(BOX_INIT_STEP_REQUEST, EBADMSG);
		return NULL;
	}
	char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED) {
		fail(BOX_INIT_STEP_MEMORY, errno);
		return NULL;
	}
	int r = box_mounter_check_job(&job->packet, bytes, size);
	if (r < 0) {
		fail(BOX_INIT_STEP_REQUEST, -r);
		(void)munmap(bytes, size);
		return NULL;
	}
	*ret_size = size;
	return bytes;
}

static void run_job(struct job *job)
{
	const struct box_init_run *run = &job->packet.run;
	size_t size;
	char *bytes = map_body(job, &size);
	if (!bytes) {
		return;
	}
	struct preparation preparation = {
		.attach =
			{
				.targets = bytes,
				.fds = job->mounts,
				.count = run->mount_count,
				.root_fd = BOX_INIT_ROOT_FD,
				.uid = box_boot_facts()->facts.payload_uid,
				.gid = box_boot_facts()->facts.payload_gid,
				.same = box_boot_facts()->facts.same_uid,
			},
		.procs_fd = job->packet.has_procs ? job->fds[3 + (job->packet.has_stdin != 0)] : -1,
	};
	struct box_launch launch = {
		.run = run,
		.body = bytes + job->packet.targets_size,
		.stdout_fd = job->fds[1],
		.stderr_fd = job->fds[2],
		.stdin_fd = job->packet.has_stdin ? job->fds[3] : -1,
		.search_path = job->packet.search_path != 0,
		.prepare = prepare,
		.prepare_data = &preparation,
		.clone_flags = CLONE_PARENT,
		.failure = &shared->failure,
		.pid_to = &shared->pid,
	};
	if (run->flags & BOX_INIT_RUN_FILE) {
		(void)box_file_job_launch(&launch);
	} else {
		(void)box_launch(&launch);
	}
	(void)munmap(bytes, size);
}

static void close_job(const struct job *job)
{
	for (size_t i = 0; i < JOB_FDS; i++) {
		if (job->fds[i] >= 0) {
			(void)close(job->fds[i]);
		}
	}
	for (uint32_t i = 0; i < job->packet.run.mount_count; i++) {
		(void)close(job->mounts[i]);
	}
}

_Noreturn static void mounter_main(pid_t parent)
{
	static struct job job;
	uint64_t keep = 1ULL << CAP_SYS_ADMIN | 1ULL << CAP_SETUID | 1ULL << CAP_SETGID;
	(void)prctl(PR_SET_NAME, "box-mounter", 0L, 0L, 0L);
	if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0 || getppid() != parent ||
		box_caps_keep(keep) < 0) {
		_exit(1);
	}
	box_launch_refind_oom_score();
	if (box_boot_install_mounter_filter() < 0) {
		_exit(1);
	}
	while (receive_job(&job) == 0) {
		run_job(&job);
		close_job(&job);
		if (send(socket_fd, "", 1, MSG_NOSIGNAL) < 0) {
			break;
		}
	}
	_exit(0);
}

int box_mounter_start(void)
{
	int pair[2];
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0) {
		return -errno;
	}
	pid_t parent = getpid();
	box_launch_raise_oom_score(true);
	mounter_pid = fork();
	int r = mounter_pid < 0 ? -errno : 0;
	if (mounter_pid == 0) {
		/* It keeps the socket, the root, and the standard fds. */
		(void)close(BOX_INIT_CONTROL_FD);
		(void)close(BOX_INIT_REPORT_FD);
		box_boot_close_order();
		box_priv_helper_forget();
		box_memory_kills_forget();
		(void)close(pair[0]);
		box_event_loop_close();
		socket_fd = pair[1];
		mounter_main(parent);
	}
	box_launch_raise_oom_score(false);
	(void)close(pair[1]);
	(void)close(BOX_INIT_ROOT_FD);
	socket_fd = pair[0];
	if (r < 0) {
		return r;
	}
	return box_event_loop_watch(
		socket_fd, EPOLLIN, (struct box_watch){.kind = BOX_WATCH_MOUNTER});
}
