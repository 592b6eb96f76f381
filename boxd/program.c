/* Finds Box's other programs and starts them: what the child does between fork and exec is the list
 * `steps`, in that order. A step that fails ends the child and is reported by its name through a pipe
 * that exec closes. */
#include "boxd/program.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "base/macros.h"

#define OPEN_FILES_MAX 65536

/* Where the child moves its fds: those of the program, then two that exec closes. */
enum {
	CHILD_GIVEN_FD = STDERR_FILENO + 1,
	CHILD_REPORT_FD = CHILD_GIVEN_FD + BOX_PROGRAM_FDS_MAX,
	CHILD_PROGRAM_FD,
	CHILD_FDS_END,
};

struct child {
	const struct box_program *wanted;
	pid_t parent;
	int given[BOX_PROGRAM_FDS_MAX];
	int report;
	int program;
};

struct report {
	uint32_t step;
	int32_t errnum;
};

/* --- where it is --- */

/* Beside boxd's own program, even if an upgrade has replaced that file since. */
static int path_beside(const char *name, char ret_path[BOX_PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", ret_path, BOX_PATH_MAX);
	if (len <= 0) {
		return len < 0 ? -errno : -ENOENT;
	}
	const char *slash = memrchr(ret_path, '/', (size_t)len);
	size_t folder = slash ? (size_t)(slash - ret_path) + 1 : 0;
	if (!slash || folder + strlen(name) >= BOX_PATH_MAX) {
		return -ENAMETOOLONG;
	}
	memcpy(ret_path + folder, name, strlen(name) + 1);
	return 0;
}

static bool is_program(const char *path)
{
	struct stat status;
	return stat(path, &status) == 0 && S_ISREG(status.st_mode) && (status.st_mode & 0111) != 0;
}

int box_program_find(const char *name, char ret_path[BOX_PATH_MAX], struct box_err *err)
{
	int r = path_beside(name, ret_path);
	if (r == 0 && is_program(ret_path)) {
		return 0;
	}
#ifdef BOX_LIBEXECDIR
	int len = snprintf(ret_path, BOX_PATH_MAX, "%s/%s", BOX_LIBEXECDIR, name);
	if (len < BOX_PATH_MAX && is_program(ret_path)) {
		return 0;
	}
#endif
	return box_err_set(
		err, BOX_ERR_OS, ENOENT, "%s is neither beside boxd nor installed", name);
}

/* --- the child. Each step returns 0 or -errno. --- */

/* Away from boxd's terminal: Ctrl-C reaches boxd only, which decides what to do. */
static int leave_session(const struct child *child)
{
	(void)child;
	return setsid() < 0 ? -errno : 0;
}

static int reset_signals(const struct child *child)
{
	(void)child;
	struct sigaction action = {.sa_handler = SIG_DFL};
	for (int number = 1; number < NSIG; number++) {
		/* The C library reserves two signals, and SIGKILL and SIGSTOP have no action. */
		(void)sigaction(number, &action, NULL);
	}
	sigset_t none;
	(void)sigemptyset(&none);
	return sigprocmask(SIG_SETMASK, &none, NULL) < 0 ? -errno : 0;
}

static int arrange_stdio(const struct child *child)
{
	if (child->wanted->stdio) {
		return 0;
	}
	_cleanup_(box_close_p) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	int output = child->wanted->output > 0 ? child->wanted->output : STDERR_FILENO;
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0) {
		return -errno;
	}
	return 0;
}

/* All of them are above the numbers that they are moved to. */
static int arrange_fds(const struct child *child)
{
	size_t count = child->wanted->fd_count;
	for (size_t i = 0; i < count; i++) {
		if (dup2(child->given[i], CHILD_GIVEN_FD + (int)i) < 0) {
			return -errno;
		}
	}
	if ((count < BOX_PROGRAM_FDS_MAX &&
		    close_range((unsigned)(CHILD_GIVEN_FD + count), CHILD_REPORT_FD - 1, 0) < 0) ||
		dup3(child->report, CHILD_REPORT_FD, O_CLOEXEC) < 0 ||
		dup3(child->program, CHILD_PROGRAM_FD, O_CLOEXEC) < 0 ||
		close_range(CHILD_FDS_END, ~0U, 0) < 0) {
		return -errno;
	}
	return 0;
}

static int leave_folder(const struct child *child)
{
	(void)child;
	(void)umask(077);
	return chdir("/") < 0 ? -errno : 0;
}

static int limit_core(const struct child *child)
{
	(void)child;
	struct rlimit none = {0};
	return setrlimit(RLIMIT_CORE, &none) < 0 ? -errno : 0;
}

static int raise_open_files(const struct child *child)
{
	(void)child;
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
		return -errno;
	}
	rlim_t wanted = BOX_MIN(limit.rlim_max, OPEN_FILES_MAX);
	if (limit.rlim_cur >= wanted) {
		return 0;
	}
	limit.rlim_cur = wanted;
	return setrlimit(RLIMIT_NOFILE, &limit) < 0 ? -errno : 0;
}

/* Before the change of ids, which drops the capability that this needs. */
static int drop_bounding_set(const struct child *child)
{
	(void)child;
	for (unsigned long capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; capability++) {
		if (prctl(PR_CAPBSET_DROP, capability) < 0 && errno != EPERM) {
			return -errno;
		}
	}
	return 0;
}

static int drop_ambient_set(const struct child *child)
{
	(void)child;
	return prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0L, 0L, 0L) < 0 ? -errno : 0;
}

static int drop_groups(const struct child *child)
{
	return child->wanted->ids.change && setgroups(0, NULL) < 0 ? -errno : 0;
}

static int change_gid(const struct child *child)
{
	gid_t gid = child->wanted->ids.gid;
	return child->wanted->ids.change && setresgid(gid, gid, gid) < 0 ? -errno : 0;
}

static int change_uid(const struct child *child)
{
	uid_t uid = child->wanted->ids.uid;
	return child->wanted->ids.change && setresuid(uid, uid, uid) < 0 ? -errno : 0;
}

static int drop_capabilities(const struct child *child)
{
	(void)child;
	return box_caps_keep(0);
}

/* This also keeps uid 0 from getting capabilities back by exec. */
static int forbid_new_privileges(const struct child *child)
{
	(void)child;
	return prctl(PR_SET_NO_NEW_PRIVS, 1L, 0L, 0L, 0L) < 0 ? -errno : 0;
}

/* After the change of ids, which clears it. boxd may have died before it was set. */
static int die_with_parent(const struct child *child)
{
	if (prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
		return -errno;
	}
	return getppid() == child->parent ? 0 : -EOWNERDEAD;
}

/* By its path, which gives the process its name; by its fd if the new uid cannot reach the folder. */
static int execute(const struct child *child)
{
	const struct box_program *wanted = child->wanted;
	char *const arguments[] = {
		(char *)(uintptr_t)wanted->name, (char *)(uintptr_t)wanted->task, NULL};
	char *const environment[] = {NULL};
	(void)execve(wanted->path, arguments, environment);
	if (errno == EACCES) {
		(void)syscall(
			SYS_execveat, CHILD_PROGRAM_FD, "", arguments, environment, AT_EMPTY_PATH);
	}
	return -errno;
}

static const struct {
	const char *name;
	int (*run)(const struct child *child);
} steps[] = {
	{"leave the session", leave_session},
	{"reset signals", reset_signals},
	{"set up stdin and stdout", arrange_stdio},
	{"set up file descriptors", arrange_fds},
	{"leave the working folder", leave_folder},
	{"set RLIMIT_CORE", limit_core},
	{"set RLIMIT_NOFILE", raise_open_files},
	{"drop the bounding set", drop_bounding_set},
	{"drop ambient capabilities", drop_ambient_set},
	{"drop groups", drop_groups},
	{"change the group id", change_gid},
	{"change the user id", change_uid},
	{"drop capabilities", drop_capabilities},
	{"set no_new_privs", forbid_new_privileges},
	{"set the parent-death signal", die_with_parent},
	{"exec", execute},
};
#define STEP_COUNT (BOX_COUNT_OF(steps))

_Noreturn static void run_child(const struct child *child)
{
	/* Before the fds are arranged the pipe has its original number. */
	int report_fd = child->report;
	for (uint32_t step = 0; step < STEP_COUNT; step++) {
		int r = steps[step].run(child);
		if (r < 0) {
			struct report report = {.step = step, .errnum = -r};
			ssize_t ignored = write(report_fd, &report, sizeof(report));
			(void)ignored;
			_exit(1);
		}
		if (steps[step].run == arrange_fds) {
			report_fd = CHILD_REPORT_FD;
		}
	}
	_exit(1);
}

/* Returns when the child has become the program, or has failed. */
static int await_exec(const char *name, int report_fd, struct box_err *err)
{
	struct report report;
	ssize_t got;
	do {
		got = read(report_fd, &report, sizeof(report));
	} while (got < 0 && errno == EINTR);
	if (got == 0) {
		return 0;
	}
	if (got != sizeof(report) || report.step >= STEP_COUNT) {
		return box_err_set(err, BOX_ERR_OS, EPROTO, "%s cannot start: no report", name);
	}
	return box_err_set(err, BOX_ERR_OS, report.errnum, "%s cannot start: %s: %s", name,
		steps[report.step].name, box_err_strerror(report.errnum));
}

/* Duplicates to a number above those that the child uses. */
static int move_away(int *fd)
{
	int moved = fcntl(*fd, F_DUPFD_CLOEXEC, CHILD_FDS_END);
	if (moved < 0) {
		return -errno;
	}
	box_close_p(fd);
	*fd = moved;
	return 0;
}

/* Everything the child needs, opened by boxd before the fork. */
struct opened {
	int given[BOX_PROGRAM_FDS_MAX];
	int report[2]; /* read, write */
	int program;
};

static void opened_close(struct opened *opened)
{
	for (size_t i = 0; i < BOX_PROGRAM_FDS_MAX; i++) {
		box_close_p(&opened->given[i]);
	}
	box_close_p(&opened->report[0]);
	box_close_p(&opened->report[1]);
	box_close_p(&opened->program);
}

static int copy_given(const struct box_program *wanted, struct opened *opened)
{
	for (size_t i = 0; i < wanted->fd_count; i++) {
		opened->given[i] = fcntl(wanted->fds[i], F_DUPFD_CLOEXEC, CHILD_FDS_END);
		if (opened->given[i] < 0) {
			return -errno;
		}
	}
	return 0;
}

static int open_fds(const struct box_program *wanted, struct opened *opened)
{
	if (pipe2(opened->report, O_CLOEXEC) < 0) {
		return -errno;
	}
	int r = copy_given(wanted, opened);
	if (r < 0) {
		return r;
	}
	r = move_away(&opened->report[1]);
	if (r < 0) {
		return r;
	}
	return move_away(&opened->program);
}

static int open_for_child(
	const struct box_program *wanted, struct opened *opened, struct box_err *err)
{
	opened->program = open(wanted->path, O_PATH | O_CLOEXEC);
	if (opened->program < 0) {
		return box_err_set(
			err, BOX_ERR_OS, errno, "%s: %s", wanted->path, box_err_strerror(errno));
	}
	int r = open_fds(wanted, opened);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_OS, -r, "%s cannot start: fds: %s", wanted->name,
			box_err_strerror(-r));
	}
	return 0;
}

/* A child that failed before exec, or that cannot be watched. */
static void discard_child(pid_t pid)
{
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
	}
}

int box_program_start(const struct box_program *wanted, struct box_program_process *ret_child,
	struct box_err *err)
{
	_cleanup_(opened_close) struct opened opened = {{-1, -1, -1, -1}, {-1, -1}, -1};
	int r = open_for_child(wanted, &opened, err);
	if (r < 0) {
		return r;
	}
	struct child child = {
		.wanted = wanted,
		.parent = getpid(),
		.report = opened.report[1],
		.program = opened.program,
	};
	memcpy(child.given, opened.given, sizeof(child.given));
	pid_t pid = fork();
	if (pid == 0) {
		run_child(&child);
	}
	if (pid < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "%s cannot start: fork: %s",
			wanted->name, box_err_strerror(errno));
	}
	/* Our copy, so that EOF comes when the child's is closed. */
	box_close_p(&opened.report[1]);
	_cleanup_(box_close_p) int pidfd = pidfd_open(pid, 0);
	if (pidfd < 0) {
		r = box_err_set(err, BOX_ERR_OS, errno, "%s cannot start: pidfd_open: %s",
			wanted->name, box_err_strerror(errno));
	} else {
		r = await_exec(wanted->name, opened.report[0], err);
	}
	if (r < 0) {
		discard_child(pid);
		return r;
	}
	*ret_child = (struct box_program_process){.pid = pid, .pidfd = TAKE_FD(pidfd)};
	return 0;
}
