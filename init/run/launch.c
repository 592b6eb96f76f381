/* Owns what happens between clone and exec. The new process shares our memory until its exec, and we are
 * suspended meanwhile (CLONE_VFORK): it takes no lock, allocates nothing, and writes a failure directly
 * where we read it. A long shell command is passed in a sealed memfd, because the kernel limits one
 * argument to 128 KiB. */
#include "init/run/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/caps.h"
#include "base/macros.h"
#include "base/write.h"

#define STACK_SIZE 32768
#define SCRIPT_FD 3
#define TEXT_ARGUMENT_MAX (100U * 1024)
#define OOM_SCORE_ABOVE 200 /* how much more likely than us a command is killed */
#define OOM_SCORE_MAX 1000
#define OOM_SCORE_FILE "/proc/self/oom_score_adj"

static struct box_launch_ids ids;
static _Alignas(16) char stack[STACK_SIZE];
static char *environment[BOX_INIT_ENV_MAX + 1];
static char *arguments[BOX_INIT_ARGS_MAX + 1];
static char cwd[BOX_INIT_PATH_MAX];
static const char *program;
static bool search_path;
static char candidate[BOX_INIT_PATH_MAX]; /* the program in one folder of the PATH */
static char *workdir;
static int script_fd = -1; /* the memfd of a long shell command */

/* Our OOM score and that of commands, as text, so that nothing is formatted later. */
static int oom_fd = -1;
static char oom_own[8];
static char oom_command[8];

void box_launch_set_ids(struct box_launch_ids new_ids)
{
	ids = new_ids;
}

/* --- the OOM score --- */

static void put_number(char *to, int number)
{
	char digits[8];
	size_t count = 0;
	unsigned left = (unsigned)(number < 0 ? -number : number);
	do {
		digits[count++] = (char)('0' + left % 10);
		left /= 10;
	} while (left > 0);
	if (number < 0) {
		*to++ = '-';
	}
	while (count > 0) {
		*to++ = digits[--count];
	}
	*to = '\0';
}

static int parse_number(const char *text)
{
	bool negative = *text == '-';
	int number = 0;
	for (text += negative; *text >= '0' && *text <= '9' && number <= OOM_SCORE_MAX; text++) {
		number = number * 10 + (*text - '0');
	}
	return negative ? -number : number;
}

/* Our own files in /proc belong to us only while we are dumpable. Nothing else runs in the box yet. */
static int open_score(int flags)
{
	(void)prctl(PR_SET_DUMPABLE, 1L, 0L, 0L, 0L);
	int fd = open(OOM_SCORE_FILE, flags | O_CLOEXEC);
	int errnum = errno;
	(void)prctl(PR_SET_DUMPABLE, 0L, 0L, 0L, 0L);
	errno = errnum;
	return fd;
}

int box_launch_find_oom_score(void)
{
	/* A box without /proc has no scores: the kernel goes by the size of processes alone. */
	oom_fd = open_score(O_RDWR);
	if (oom_fd < 0) {
		return errno == ENOENT || errno == EROFS ? 0 : -errno;
	}
	char text[16] = {0};
	if (pread(oom_fd, text, sizeof(text) - 1, 0) <= 0) {
		return -errno;
	}
	int own = parse_number(text);
	int command = own + OOM_SCORE_ABOVE;
	put_number(oom_own, own);
	put_number(oom_command, BOX_MIN(command, OOM_SCORE_MAX));
	return 0;
}

void box_launch_refind_oom_score(void)
{
	if (oom_fd >= 0) {
		(void)close(oom_fd);
		oom_fd = open_score(O_WRONLY);
		box_launch_raise_oom_score(false);
	}
}

/* A new process inherits our score: changing it briefly is cheaper than opening the file of each. */
void box_launch_raise_oom_score(bool raise)
{
	if (oom_fd >= 0) {
		const char *text = raise ? oom_command : oom_own;
		ssize_t ignored = pwrite(oom_fd, text, strlen(text), 0);
		(void)ignored;
	}
}

/* --- the body --- */

/* Fills `to` with pointers to the strings in `bytes`. Their number, -EINVAL or -E2BIG. */
static int split(char *bytes, size_t size, char **to, size_t max)
{
	size_t count = 0;
	if (size == 0 || bytes[size - 1] != '\0') {
		return -EINVAL;
	}
	for (char *at = bytes; at < bytes + size; at += strlen(at) + 1) {
		if (count == max) {
			return -E2BIG;
		}
		to[count++] = at;
	}
	to[count] = NULL;
	return (int)count;
}

/* The shell itself closes the fd, so that the command does not inherit it; on the first line, so that
 * line numbers in error messages are right. */
static int make_script(const char *text, size_t size)
{
	static const char close_fd[] = "exec 3<&-;";
	script_fd = memfd_create("command", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (script_fd < 0) {
		return -errno;
	}
	int r = box_write_all(script_fd, close_fd, sizeof(close_fd) - 1);
	if (r < 0) {
		return r;
	}
	r = box_write_all(script_fd, text, size);
	if (r < 0) {
		return r;
	}
	int seals = F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL;
	return fcntl(script_fd, F_ADD_SEALS, seals) < 0 ? -errno : 0;
}

static int take_shell_command(char *text, size_t size)
{
	static char shell[] = "sh";
	static char option[] = "-lc";
	static char source[] = ". /proc/self/fd/3";
	size_t len = strnlen(text, size);
	/* A NUL is allowed at the end only; what follows another would be lost. */
	if (len + 1 < size) {
		return -EINVAL;
	}
	text[len] = '\0';
	arguments[0] = shell;
	arguments[1] = option;
	arguments[2] = len <= TEXT_ARGUMENT_MAX ? text : source;
	arguments[3] = NULL;
	program = "/bin/sh";
	return len <= TEXT_ARGUMENT_MAX ? 0 : make_script(text, len);
}

static int take_body(const struct box_launch *launch)
{
	const struct box_init_run *run = launch->run;
	char *command = launch->body + run->env_size + run->workdir_size;
	environment[0] = NULL;
	if (run->env_size > 0) {
		int count = split(launch->body, run->env_size, environment, BOX_INIT_ENV_MAX);
		if (count < 0) {
			return count;
		}
		if (count != (int)run->env_count) {
			return -EINVAL;
		}
	}
	workdir = launch->body + run->env_size;
	if (workdir[0] != '/' || strnlen(workdir, run->workdir_size) + 1 != run->workdir_size) {
		return -EINVAL;
	}
	if (!(run->flags & BOX_INIT_RUN_ARGV)) {
		return take_shell_command(command, run->command_size);
	}
	int count = split(command, run->command_size, arguments, BOX_INIT_ARGS_MAX);
	program = arguments[0];
	return count < 0 ? count : 0;
}

/* --- the new process --- */

static int arrange_fds(const struct box_launch *launch)
{
	if ((launch->stdin_fd >= 0 && dup2(launch->stdin_fd, STDIN_FILENO) < 0) ||
		dup2(launch->stdout_fd, STDOUT_FILENO) < 0 ||
		dup2(launch->stderr_fd, STDERR_FILENO) < 0) {
		return -errno;
	}
	if (script_fd == SCRIPT_FD) {
		if (fcntl(script_fd, F_SETFD, 0) < 0) {
			return -errno;
		}
	} else if (script_fd >= 0 && dup2(script_fd, SCRIPT_FD) < 0) {
		return -errno;
	}
	/* Before the workdir is entered: its path could name one of our fds by /proc/self/fd. */
	return syscall(SYS_close_range, SCRIPT_FD + (script_fd >= 0), ~0U, 0) < 0 ? -errno : 0;
}

/* Raw system calls: the library's functions would signal other threads, of which there are none. Without
 * capset, the mounter's CAP_SYS_ADMIN would remain where the uid stays the same. */
int box_launch_change_ids(void)
{
	if (!ids.same &&
		(syscall(SYS_setgroups, 0, NULL) < 0 ||
			syscall(SYS_setresgid, ids.gid, ids.gid, ids.gid) < 0 ||
			syscall(SYS_setresuid, ids.uid, ids.uid, ids.uid) < 0)) {
		return -errno;
	}
	int r = box_caps_drop_all();
	if (r < 0) {
		return r;
	}
	/* After the change of ids, which would clear it. */
	return prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0 ? -errno : 0;
}

static int make_workdir(void)
{
	for (char *at = workdir + 1;; at++) {
		char here = *at;
		if (here != '/' && here != '\0') {
			continue;
		}
		*at = '\0';
		int r = mkdirat(AT_FDCWD, workdir, 0755) < 0 && errno != EEXIST ? -errno : 0;
		*at = here;
		if (r < 0 || here == '\0') {
			return r;
		}
	}
}

static int enter_workdir(void)
{
	if (chdir(workdir) < 0) {
		int r = errno == ENOENT ? make_workdir() : -errno;
		if (r < 0) {
			return r;
		}
		if (chdir(workdir) < 0) {
			return -errno;
		}
	}
	/* A raw system call: the library's function would search for another answer. */
	if (syscall(SYS_getcwd, cwd, sizeof(cwd)) < 0) {
		return -errno;
	}
	return cwd[0] == '/' ? 0 : -ENOENT;
}

static const char *path_variable(void)
{
	for (char *const *pair = environment; *pair; pair++) {
		if (strncmp(*pair, "PATH=", 5) == 0) {
			return *pair + 5;
		}
	}
	return "/usr/bin:/bin";
}

/* As execvp: continues with the next folder if the program is missing or may not be executed. */
static int execute_from_path(void)
{
	int r = -ENOENT;
	size_t name_len = strlen(program);
	for (const char *at = path_variable(); at;) {
		size_t len = strcspn(at, ":");
		if (len + 1 + name_len < sizeof(candidate)) {
			memcpy(candidate, at, len);
			candidate[len] = '/';
			memcpy(candidate + len + (len > 0), program, name_len + 1);
			(void)execve(candidate, arguments, environment);
			if (errno != ENOENT && errno != ENOTDIR && errno != EACCES) {
				return -errno;
			}
			r = errno == EACCES ? -EACCES : r;
		}
		at = at[len] ? at + len + 1 : NULL;
	}
	return r;
}

static int execute(void)
{
	sigset_t none;
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	/* box-init may have a higher priority than commands. A lower priority of boxd itself stays. */
	(void)setpriority(PRIO_PROCESS, 0, 0);
	if (search_path && !strchr(program, '/')) {
		return execute_from_path();
	}
	(void)execve(program, arguments, environment);
	return -errno;
}

static int run_steps(struct box_launch *launch)
{
	launch->failure->step = BOX_INIT_STEP_CLONE;
	if (launch->pid_to) {
		*launch->pid_to = getpid();
	}
	if (setsid() < 0) {
		return -errno;
	}
	int r = launch->prepare ? launch->prepare(launch) : 0;
	if (r < 0) {
		return r;
	}
	launch->failure->step = BOX_INIT_STEP_PIPES;
	r = arrange_fds(launch);
	if (r < 0) {
		return r;
	}
	if ((launch->run->flags & BOX_INIT_RUN_TTY) && ioctl(STDIN_FILENO, TIOCSCTTY, 0) < 0) {
		return -errno;
	}
	launch->failure->step = BOX_INIT_STEP_IDS;
	r = box_launch_change_ids();
	if (r < 0) {
		return r;
	}
	launch->failure->step = BOX_INIT_STEP_WORKDIR;
	r = enter_workdir();
	if (r < 0) {
		return r;
	}
	launch->failure->step = BOX_INIT_STEP_EXEC;
	return execute();
}

static int child_main(void *data)
{
	struct box_launch *launch = data;
	launch->failure->errnum = -run_steps(launch);
	_exit(127);
}

static pid_t start(struct box_launch *launch)
{
	box_launch_raise_oom_score(true);
	unsigned long flags = launch->clone_flags | CLONE_VM | CLONE_VFORK | SIGCHLD;
	pid_t pid = clone(child_main, stack + sizeof(stack), (int)flags, launch);
	int r = pid < 0 ? -errno : 0;
	box_launch_raise_oom_score(false);
	if (pid < 0) {
		launch->failure->step = BOX_INIT_STEP_CLONE;
		launch->failure->errnum = -r;
		return r;
	}
	if (launch->failure->errnum == 0) {
		/* It has executed its program, or was killed before: its wait status shows that. */
		launch->failure->step = BOX_INIT_STEP_NONE;
	}
	return pid;
}

pid_t box_launch(struct box_launch *launch)
{
	launch->failure->step = BOX_INIT_STEP_NONE;
	launch->failure->errnum = 0;
	launch->failure->mount = 0;
	search_path = launch->search_path;
	int r = take_body(launch);
	if (r < 0) {
		launch->failure->step = script_fd >= 0 || r == -ENOMEM || r == -EMFILE
			? BOX_INIT_STEP_MEMORY
			: BOX_INIT_STEP_REQUEST;
		launch->failure->errnum = -r;
	} else {
		r = start(launch);
	}
	if (script_fd >= 0) {
		(void)close(script_fd);
		script_fd = -1;
	}
	return r;
}
