/* A boxd that this process starts for itself. It runs in its own session, so that Ctrl-C on the terminal
 * reaches only us, and ends when its stdin is closed. Its log goes to a memfd of fixed size, which nobody
 * has to read and which cannot grow; what does not fit is lost. */
#include "client/connection/boxd_child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/macros.h"

#ifndef BOX_BINDIR
#define BOX_BINDIR "/usr/local/bin"
#endif
#ifndef BOX_LIBEXECDIR
#define BOX_LIBEXECDIR "/usr/local/libexec/box"
#endif

#define LOG_BYTES (64 * BOX_KIB)
#define LOG_LINES_SHOWN 8
#define END_MS 4000 /* it should end within 2 s after its stdin was closed */
#define TERM_MS 2000
#define LOOK_MS 20 /* between two checks, after SIGKILL and without pidfds */

#define INSTANCE_VARIABLE "LANGBOT_BOX_TRUSTED_INSTANCE_UUID"
#define TOKEN_VARIABLE "LANGBOT_BOX_CONTROL_TOKEN"

extern char **environ;

/* --- where it is --- */

static bool runnable(const char *path)
{
	return access(path, X_OK) == 0;
}

/* Next to the running program, so that a build folder and a moved installation use their own. */
static bool find_beside(char out[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", out, PATH_MAX - sizeof("boxd"));
	char *slash = len > 0 ? memrchr(out, '/', (size_t)len) : NULL;
	if (!slash) {
		return false;
	}
	memcpy(slash + 1, "boxd", sizeof("boxd"));
	return runnable(out);
}

static bool find_on_path(char out[PATH_MAX])
{
	const char *at = getenv("PATH");
	while (at && *at) {
		size_t len = strcspn(at, ":");
		/* An empty part means the working folder, where a boxd may be anyone's. */
		if (len > 0 && at[0] == '/' && len + sizeof("/boxd") <= PATH_MAX) {
			memcpy(out, at, len);
			memcpy(out + len, "/boxd", sizeof("/boxd"));
			if (runnable(out)) {
				return true;
			}
		}
		at += len + (at[len] == ':');
	}
	return false;
}

static const char *find_program(char out[PATH_MAX])
{
	static const char *const installed[] = {BOX_LIBEXECDIR "/boxd", BOX_BINDIR "/boxd"};
	if (find_beside(out)) {
		return out;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(installed); i++) {
		if (runnable(installed[i])) {
			return installed[i];
		}
	}
	return find_on_path(out) ? out : NULL;
}

/* --- its start --- */

/* All writers share one offset, and none can change the size. */
static int make_log(int *ret_fd)
{
	_cleanup_(box_close_p) int fd = memfd_create("boxd-log", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, LOG_BYTES) < 0 ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
		return -errno;
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool names(const char *entry, const char *name)
{
	size_t len = strlen(name);
	return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/* Our environment, with the instance and token of this connection instead of others. */
static char **make_environment(struct box_arena *arena, const struct box_boxd_child_setup *setup)
{
	size_t count = 0;
	while (environ && environ[count]) {
		count++;
	}
	char **made = box_arena_alloc(arena, (count + 3) * sizeof(*made));
	size_t at = 0;
	for (size_t i = 0; i < count; i++) {
		if (!names(environ[i], INSTANCE_VARIABLE) && !names(environ[i], TOKEN_VARIABLE)) {
			made[at++] = environ[i];
		}
	}
	made[at++] = box_arena_printf(arena, INSTANCE_VARIABLE "=%s", setup->instance);
	made[at] = box_arena_printf(arena, TOKEN_VARIABLE "=%s", setup->token);
	return made;
}

static int set_attributes(posix_spawnattr_t *attributes)
{
	sigset_t all;
	sigset_t none;
	(void)sigfillset(&all);
	(void)sigemptyset(&none);
	int r = posix_spawnattr_setsigdefault(attributes, &all);
	if (r) {
		return r;
	}
	r = posix_spawnattr_setsigmask(attributes, &none);
	if (r) {
		return r;
	}
	return posix_spawnattr_setflags(
		attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
}

static int set_fds(posix_spawn_file_actions_t *actions, int socket, int log)
{
	int r = posix_spawn_file_actions_adddup2(actions, socket, STDIN_FILENO);
	if (r) {
		return r;
	}
	r = posix_spawn_file_actions_adddup2(actions, socket, STDOUT_FILENO);
	return r || log < 0 ? r : posix_spawn_file_actions_adddup2(actions, log, STDERR_FILENO);
}

/* Without a log fd the log goes to our stderr, at the default level. */
static int spawn(const char *program, const char *config, char *const *environment, int socket,
	int log, pid_t *ret_pid)
{
	/* Any free port: the default one belongs to a boxd that others started. */
	static char name[] = "boxd";
	static char carrier[] = "-s";
	static char port[] = "--ws-control-port=0";
	static char level[] = "--log-level=warning";
	static char file[] = "--config";
	char *arguments[8] = {name, carrier, port};
	size_t count = 3;
	if (log >= 0) {
		arguments[count++] = level;
	}
	if (config) {
		arguments[count++] = file;
		/* posix_spawn only reads it. */
		arguments[count++] = (char *)(uintptr_t)config;
	}
	posix_spawnattr_t attributes;
	posix_spawn_file_actions_t actions;
	int r = posix_spawnattr_init(&attributes);
	if (r) {
		return -r;
	}
	r = posix_spawn_file_actions_init(&actions);
	if (r == 0) {
		r = set_attributes(&attributes);
		if (r == 0) {
			r = set_fds(&actions, socket, log);
		}
		if (r == 0) {
			r = posix_spawn(
				ret_pid, program, &actions, &attributes, arguments, environment);
		}
		(void)posix_spawn_file_actions_destroy(&actions);
	}
	(void)posix_spawnattr_destroy(&attributes);
	return -r;
}

static int not_started(struct box_err *err, const char *what, int errnum)
{
	return box_err_set(
		err, BOX_ERR_RUNTIME_UNAVAILABLE, errnum, "%s: %s", what, box_err_strerror(errnum));
}

int box_boxd_child_start(const struct box_boxd_child_setup *setup, int *ret_fd,
	struct box_boxd_child *ret_child, struct box_err *err)
{
	char found[PATH_MAX];
	const char *program = setup->program ? setup->program : find_program(found);
	if (!program) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, ENOENT,
			"boxd was not found next to this program, where it is installed, or on PATH");
	}
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0) {
		return not_started(err, "socketpair", errno);
	}
	_cleanup_(box_close_p) int ours = pair[0];
	_cleanup_(box_close_p) int theirs = pair[1];
	_cleanup_(box_close_p) int log = -1;
	int r = fcntl(ours, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;
	if (r == 0 && !setup->show_log) {
		r = make_log(&log);
	}
	if (r < 0) {
		return not_started(err, "boxd's log", -r);
	}
	struct box_arena *arena = box_arena_new();
	struct box_boxd_child child = {.pidfd = -1};
	r = spawn(program, setup->config, make_environment(arena, setup), theirs, log, &child.pid);
	box_arena_free(arena);
	if (r < 0) {
		return not_started(err, program, -r);
	}
	child.pidfd = pidfd_open(child.pid, 0);
	child.log_fd = TAKE_FD(log);
	*ret_fd = TAKE_FD(ours);
	*ret_child = child;
	return 0;
}

/* --- its log --- */

static void show_log(int log_fd, void (*line)(void *arg, const char *line), void *arg)
{
	char *text = box_alloc(LOG_BYTES + 1);
	ssize_t got = pread(log_fd, text, LOG_BYTES, 0);
	size_t len = strnlen(text, got > 0 ? (size_t)got : 0);
	while (len > 0 && text[len - 1] == '\n') {
		len--;
	}
	text[len] = '\0';
	char *start = text + len;
	for (int lines = 0; start > text; start--) {
		if (start[-1] == '\n' && ++lines == LOG_LINES_SHOWN) {
			break;
		}
	}
	char *rest = NULL;
	for (char *at = strtok_r(start, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
		line(arg, at);
	}
	free(text);
}

/* --- its end --- */

static bool reap(struct box_boxd_child *child, int timeout_ms, siginfo_t *ret_info)
{
	struct pollfd ended = {.fd = child->pidfd, .events = POLLIN};
	int r;
	/* Without a pidfd (a kernel before 5.3) there is no wait with a timeout: it blocks, or just looks. */
	do {
		r = child->pidfd >= 0 ? poll(&ended, 1, timeout_ms) : 1;
	} while (r < 0 && errno == EINTR);
	if (r <= 0) {
		return false;
	}
	do {
		r = waitid(P_PID, (id_t)child->pid, ret_info,
			WEXITED | (timeout_ms == 0 ? WNOHANG : 0));
	} while (r < 0 && errno == EINTR);
	/* A process that ignores SIGCHLD gets no status. */
	return r < 0 || ret_info->si_pid != 0;
}

static void forget(struct box_boxd_child *child, const siginfo_t *info,
	void (*line)(void *arg, const char *line), void *arg, char out[BOX_BOXD_CHILD_END_SIZE])
{
	(void)snprintf(out, BOX_BOXD_CHILD_END_SIZE, "ended %s %d",
		info->si_code == CLD_EXITED ? "with code" : "by signal", info->si_status);
	if (line && child->log_fd >= 0) {
		show_log(child->log_fd, line, arg);
	}
	box_close_p(&child->pidfd);
	box_close_p(&child->log_fd);
	*child = (struct box_boxd_child){.pidfd = -1, .log_fd = -1};
}

void box_boxd_child_end(struct box_boxd_child *child, void (*line)(void *arg, const char *line),
	void *arg, char out[BOX_BOXD_CHILD_END_SIZE])
{
	siginfo_t info = {0};
	out[0] = '\0';
	if (child->pid == 0) {
		return;
	}
	if (!reap(child, END_MS, &info)) {
		(void)kill(child->pid, SIGTERM);
		if (!reap(child, TERM_MS, &info)) {
			(void)kill(child->pid, SIGKILL);
			(void)reap(child, -1, &info);
		}
	}
	forget(child, &info, line, arg, out);
}

bool box_boxd_child_leave(struct box_boxd_child *child, uint64_t waited_ms,
	void (*line)(void *arg, const char *line), void *arg, char out[BOX_BOXD_CHILD_END_SIZE],
	int *ret_again_ms)
{
	siginfo_t info = {0};
	out[0] = '\0';
	if (child->pid == 0) {
		return true;
	}
	if (reap(child, 0, &info)) {
		forget(child, &info, line, arg, out);
		return true;
	}
	int wanted = waited_ms >= END_MS + TERM_MS ? SIGKILL : waited_ms >= END_MS ? SIGTERM : 0;
	if (wanted != child->last_signal) {
		child->last_signal = wanted;
		(void)kill(child->pid, wanted);
	}
	uint64_t next_ms = wanted == 0 ? END_MS : wanted == SIGTERM ? END_MS + TERM_MS : 0;
	*ret_again_ms = child->pidfd >= 0 && next_ms > 0 ? (int)(next_ms - waited_ms) : LOOK_MS;
	return false;
}
