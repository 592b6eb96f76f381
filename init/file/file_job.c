/* Owns the process of a file operation: how it is started, its rights, and its answer. PID 1 never accesses
 * a file for a client itself, because a slow disk must not block it. Called by run.c and the mounter. */
#include "init/file/file_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/write.h"
#include "init/run/launch.h"

#define NOREPLACE 1U /* RENAME_NOREPLACE, which some headers do not have */

static struct box_file_job the_job; /* of the forked process */

/* --- for all operations --- */

int box_file_job_put_data(struct box_file_job *job, const void *bytes, size_t size)
{
	job->answer.data_size += size;
	return box_write_all(job->out, bytes, size);
}

static int note_walk(struct box_file_job *job, const struct box_path_walk *walk, int r)
{
	if (r < 0) {
		job->answer.of_to = walk == &job->to;
	}
	return r;
}

int box_file_job_walk(struct box_file_job *job, unsigned flags)
{
	int r = box_path_walk(&job->walk, job->root, job->texts[0], job->texts[1], flags);
	return note_walk(job, &job->walk, r);
}

int box_file_job_walk_target(struct box_file_job *job)
{
	int r = box_path_walk(&job->to, job->root, job->texts[2], job->texts[3], 0);
	return note_walk(job, &job->to, r);
}

struct box_init_file_facts box_file_job_facts(const struct stat *st)
{
	return (struct box_init_file_facts){
		.type = box_path_walk_file_type(st->st_mode),
		.mode = st->st_mode & 07777,
		.size = st->st_size > 0 ? (uint64_t)st->st_size : 0,
		.mtime_sec = st->st_mtim.tv_sec,
		.mtime_nsec = (uint32_t)st->st_mtim.tv_nsec,
	};
}

int box_file_job_temporary_name(char name[24])
{
	static const char digits[] = "0123456789abcdef";
	unsigned char random[8];
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
		return -EIO;
	}
	box_path_walk_copy(name, ".box-");
	for (size_t i = 0; i < sizeof(random); i++) {
		name[5 + 2 * i] = digits[random[i] >> 4];
		name[6 + 2 * i] = digits[random[i] & 15];
	}
	name[5 + 2 * sizeof(random)] = '\0';
	return 0;
}

int box_file_job_rename(int from, const char *from_name, int to, const char *to_name, bool replace)
{
	unsigned flags = replace ? 0 : NOREPLACE;
	long r = syscall(SYS_renameat2, from, from_name, to, to_name, flags);
	return r < 0 ? -errno : 0;
}

void box_file_job_serve(struct box_file_job *job, int err)
{
	static int (*const kinds[BOX_INIT_FILE_KINDS_])(struct box_file_job *) = {
		[BOX_INIT_FILE_READ] = box_file_job_read,
		[BOX_INIT_FILE_WRITE] = box_file_job_write,
		[BOX_INIT_FILE_LIST] = box_file_job_list,
		[BOX_INIT_FILE_STAT] = box_file_job_stat,
		[BOX_INIT_FILE_MKDIR] = box_file_job_mkdir,
		[BOX_INIT_FILE_REMOVE] = box_file_job_remove,
		[BOX_INIT_FILE_MOVE] = box_file_job_move,
		[BOX_INIT_FILE_WATCH] = box_file_job_watch,
		[BOX_INIT_FILE_MEASURE] = box_file_job_measure,
	};
	job->walk.base = -1;
	job->walk.folder = -1;
	job->to.base = -1;
	job->to.folder = -1;
	int r = kinds[job->request.kind](job);
	if (r < 0) {
		const struct box_path_walk *walk = job->answer.of_to ? &job->to : &job->walk;
		job->answer.errnum = -r;
		job->answer.data_size = 0;
		job->answer.more = 0;
		job->answer.facts = (struct box_init_file_facts){.type = walk->type};
		if (job->answer.why == BOX_INIT_FILE_WHY_NONE) {
			job->answer.why = walk->why;
		}
	}
	box_path_walk_close(&job->walk);
	box_path_walk_close(&job->to);
	if (job->request.kind != BOX_INIT_FILE_WATCH || r < 0) {
		(void)box_write_all(err, &job->answer, sizeof(job->answer));
	}
}

/* --- the process --- */

/* Closes all fds of PID 1, takes the rights of a command, and forbids tracing, because this process has a
 * copy of PID 1's memory. */
static int become_command(const struct box_launch *launch)
{
	if ((launch->stdin_fd >= 0 && dup2(launch->stdin_fd, STDIN_FILENO) < 0) ||
		dup2(launch->stdout_fd, STDOUT_FILENO) < 0 ||
		dup2(launch->stderr_fd, STDERR_FILENO) < 0 ||
		syscall(SYS_close_range, 3, ~0U, 0) < 0) {
		return -errno;
	}
	int r = box_launch_change_ids();
	if (r < 0) {
		return r;
	}
	return prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* For a process with mounts: the mounter waits until this is done. */
static void prepare(struct box_launch *launch, int ready)
{
	if (launch->pid_to) {
		*launch->pid_to = getpid();
	}
	int r = launch->prepare ? launch->prepare(launch) : 0;
	if (r < 0) {
		launch->failure->errnum = -r;
		_exit(127);
	}
	if (ready >= 0) {
		(void)close(ready);
	}
}

static void child_main(struct box_file_job *job, struct box_launch *launch, int ready)
{
	sigset_t none;
	(void)sigemptyset(&none);
	/* Exceeding the file size limit must be an error, not kill us. */
	(void)signal(SIGXFSZ, SIG_IGN);
	(void)prctl(PR_SET_NAME, "box-file", 0L, 0L, 0L);
	(void)setpgid(0, 0);
	prepare(launch, ready);
	int r = become_command(launch);
	if (r < 0) {
		_exit(127);
	}
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)setpriority(PRIO_PROCESS, 0, 0);
	(void)umask(0);
	job->in = STDIN_FILENO;
	job->out = STDOUT_FILENO;
	job->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	box_file_job_serve(job, STDERR_FILENO);
	_exit(0);
}

/* Waits until the new process has closed the other end, alive or dead. */
static void await_ready(int fd)
{
	char byte;
	while (fd >= 0 && read(fd, &byte, 1) < 0 && errno == EINTR) {
	}
	box_close_p(&fd);
}

pid_t box_file_job_launch(struct box_launch *launch)
{
	const struct box_init_run *run = launch->run;
	struct box_file_job *job = &the_job;
	launch->failure->step = BOX_INIT_STEP_REQUEST;
	launch->failure->errnum = 0;
	*job = (struct box_file_job){0};
	int r = box_init_file_check(launch->body + run->env_size + run->workdir_size,
		run->command_size, &job->request, job->texts);
	if (r < 0) {
		launch->failure->errnum = -r;
		return r;
	}
	int ready[2] = {-1, -1};
	if (launch->prepare && pipe2(ready, O_CLOEXEC) < 0) {
		launch->failure->step = BOX_INIT_STEP_PIPES;
		launch->failure->errnum = errno;
		return -errno;
	}
	box_launch_raise_oom_score(true);
	/* Like fork, but with CLONE_PARENT for the mounter. */
	pid_t pid = (pid_t)syscall(SYS_clone, launch->clone_flags | SIGCHLD, 0UL, 0UL, 0UL, 0UL);
	if (pid == 0) {
		box_close_p(&ready[0]);
		child_main(job, launch, ready[1]);
	}
	r = pid < 0 ? -errno : 0;
	box_launch_raise_oom_score(false);
	box_close_p(&ready[1]);
	await_ready(ready[0]);
	if (r < 0) {
		launch->failure->step = BOX_INIT_STEP_CLONE;
		launch->failure->errnum = -r;
		return r;
	}
	/* Here too: its group may be killed before the child has called setpgid itself. */
	(void)setpgid(pid, pid);
	if (launch->failure->errnum == 0) {
		launch->failure->step = BOX_INIT_STEP_NONE;
	}
	return pid;
}
