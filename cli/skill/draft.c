/* A draft is a file of mode 0600 in a folder of mode 0700 of its own, because editors create other files next
 * to the one that they edit, and replace it too. */
#include "cli/skill/draft.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "base/write.h"

extern char **environ;

#define READ_BYTES (64 * BOX_KIB)
#define NAME_DEFAULT "text"

static int fail(struct box_err *err, const char *what, int errnum)
{
	return box_err_set(err, BOX_ERR_OS, errnum, "%s: %s", what, box_err_strerror(errnum));
}

/* --- the file --- */

static int make_folder(struct box_draft *draft, struct box_err *err)
{
	const char *where = getenv("TMPDIR");
	where = where && where[0] == '/' ? where : "/tmp";
	if ((size_t)snprintf(draft->folder, sizeof(draft->folder), "%s/box-edit-XXXXXX", where) >=
		sizeof(draft->folder) - NAME_MAX - 1) {
		return fail(err, "TMPDIR", ENAMETOOLONG);
	}
	if (!mkdtemp(draft->folder)) {
		return fail(err, where, errno);
	}
	draft->folder_fd = open(draft->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (draft->folder_fd < 0) {
		int r = fail(err, draft->folder, errno);
		(void)rmdir(draft->folder);
		return r;
	}
	return 0;
}

int box_draft_open(
	struct box_draft *draft, const char *leaf, struct box_str text, struct box_err *err)
{
	size_t len = strlen(leaf);
	bool usable = len > 0 && len <= NAME_MAX && !strchr(leaf, '/') && strcmp(leaf, ".") != 0 &&
		strcmp(leaf, "..") != 0;
	*draft = (struct box_draft){.folder_fd = -1};
	int r = make_folder(draft, err);
	if (r < 0) {
		return r;
	}
	leaf = usable ? leaf : NAME_DEFAULT;
	/* It fits: the length of the folder's name was checked. */
	(void)snprintf(draft->path, sizeof(draft->path), "%.*s/%s", PATH_MAX - NAME_MAX - 2,
		draft->folder, leaf);
	_cleanup_(box_close_p) int fd = openat(
		draft->folder_fd, leaf, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = fd < 0 ? -errno : box_write_all(fd, text.bytes, text.len);
	if (r < 0) {
		box_draft_close(draft, false);
		return fail(err, draft->path, -r);
	}
	return 0;
}

int box_draft_read(const struct box_draft *draft, size_t bytes_max, struct box_buf *ret_text,
	struct box_err *err)
{
	struct box_buf text = box_buf(bytes_max + 1);
	struct stat status;
	_cleanup_(box_close_p) int fd = open(
		draft->path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	int r = fd < 0 || fstat(fd, &status) < 0 ? -errno : S_ISREG(status.st_mode) ? 0 : -EINVAL;
	for (ssize_t got = 1; r == 0 && got != 0 && text.len <= bytes_max;) {
		size_t room = bytes_max + 1 - text.len;
		room = BOX_MIN(room, READ_BYTES);
		got = read(fd, box_buf_reserve(&text, room), room);
		r = got < 0 && errno != EINTR ? -errno : 0;
		text.len += got > 0 ? (size_t)got : 0;
	}
	if (r == 0 && text.len > bytes_max) {
		r = -EFBIG;
	}
	if (r < 0) {
		box_buf_free(&text);
		return fail(err, draft->path, -r);
	}
	*ret_text = text;
	return 0;
}

void box_draft_close(struct box_draft *draft, bool keep)
{
	int again = keep ? -1 : fcntl(draft->folder_fd, F_DUPFD_CLOEXEC, 3);
	DIR *folder = again < 0 ? NULL : fdopendir(again);
	for (const struct dirent *found; folder && (found = readdir(folder));) {
		(void)unlinkat(draft->folder_fd, found->d_name, 0);
	}
	if (folder) {
		(void)closedir(folder);
		(void)rmdir(draft->folder);
	}
	(void)close(draft->folder_fd);
	draft->folder_fd = -1;
}

/* --- the editor --- */

static const char *editor(void)
{
	const char *visual = getenv("VISUAL");
	const char *plain = getenv("EDITOR");
	return visual && visual[0] ? visual : plain && plain[0] ? plain : "vi";
}

/* Through sh, because these variables may have options in them. */
static int start(const struct box_draft *draft, const char *program, pid_t *ret_pid)
{
	char line[] = "sh";
	char flag[] = "-c";
	_cleanup_(box_free_p) char *command = NULL;
	char path[sizeof(draft->path)];
	memcpy(path, draft->path, sizeof(path));
	if (asprintf(&command, "%s \"$@\"", program) < 0) {
		command = NULL;
		return -ENOMEM;
	}
	char *const words[] = {line, flag, command, line, path, NULL};
	posix_spawnattr_t attributes;
	sigset_t signals;
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGINT);
	(void)sigaddset(&signals, SIGQUIT);
	(void)sigaddset(&signals, SIGPIPE);
	int r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		(void)posix_spawnattr_setsigdefault(&attributes, &signals);
		(void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
		r = posix_spawn(ret_pid, "/bin/sh", NULL, &attributes, words, environ);
		(void)posix_spawnattr_destroy(&attributes);
	}
	return -r;
}

int box_draft_edit(const struct box_draft *draft, struct box_err *err)
{
	const char *program = editor();
	int status = 0;
	pid_t pid = 0;
	/* Ctrl-C and Ctrl-\\ on the terminal are for the editor. */
	void (*on_int)(int) = signal(SIGINT, SIG_IGN);
	void (*on_quit)(int) = signal(SIGQUIT, SIG_IGN);
	int r = start(draft, program, &pid);
	while (r == 0 && waitpid(pid, &status, 0) < 0) {
		r = errno == EINTR ? 0 : -errno;
	}
	(void)signal(SIGINT, on_int);
	(void)signal(SIGQUIT, on_quit);
	if (r < 0) {
		return fail(err, program, -r);
	}
	if (WIFSIGNALED(status)) {
		return box_err_set(err, BOX_ERR_OS, ECANCELED,
			"%s was killed by signal %d: nothing was written", program,
			WTERMSIG(status));
	}
	return WEXITSTATUS(status) == 0
		? 0
		: box_err_set(err, BOX_ERR_OS, ECANCELED, "%s exited with %d: nothing was written",
			  program, WEXITSTATUS(status));
}
