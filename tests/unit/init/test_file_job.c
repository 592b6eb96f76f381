/* The process that does file work, in a folder that is its root: what it finds, what it refuses,
 * and that failed work leaves nothing behind. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"
#include "init/boot/boot.h"
#include "init/file/file_job.h"
#include "tests/unit/lib/test.h"

static char root_path[64];
static const struct box_boot boot;

const struct box_boot *box_boot_facts(void)
{
	return &boot;
}

static int root;
static struct box_file_job job;
static char given[1 << 16];
static size_t given_size;

/* A shell command is the shortest way to make a tree. */
static void sh(const char *command)
{
	char text[2048];
	(void)snprintf(text, sizeof(text), "set -e; cd %s; %s", root_path, command);
	ASSERT_INT(system(text), 0);
}

static void start(void)
{
	box_path_walk_copy(root_path, "/tmp/box-initfile-XXXXXX");
	ASSERT(mkdtemp(root_path) != NULL);
	root = open(root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(root >= 0);
	sh("mkdir -p ws/d tmp dev proc; echo in >ws/d/f; echo out >tmp/secret; mkfifo ws/fifo; "
	   "ln -s /tmp/secret ws/abs; ln -s ../tmp/secret ws/rel; ln -s d/f ws/ok; "
	   "ln -s /ws/d ws/okd; ln -s loop ws/loop; ln -s /dev/null tmp/null");
}

static void finish(void)
{
	char text[128];
	ASSERT_INT(close(root), 0);
	(void)snprintf(text, sizeof(text), "rm -rf %s", root_path);
	ASSERT_INT(system(text), 0);
}

/* Runs the job and returns the errno. */
static int serve(struct box_init_file ask, const char *place, const char *path,
	const char *to_place, const char *to, const char *input)
{
	int in[2];
	int out[2];
	int err[2];
	ASSERT_INT(pipe2(in, O_CLOEXEC), 0);
	ASSERT_INT(pipe2(out, O_CLOEXEC), 0);
	ASSERT_INT(pipe2(err, O_CLOEXEC), 0);
	ASSERT_INT(write(in[1], input, strlen(input)), strlen(input));
	ASSERT_INT(close(in[1]), 0);
	job = (struct box_file_job){
		.request = ask,
		.texts = {place, path, to_place, to},
		.root = root,
		.in = in[0],
		.out = out[1],
	};
	box_file_job_serve(&job, err[1]);
	ASSERT_INT(close(out[1]), 0);
	ASSERT_INT(close(err[1]), 0);
	ssize_t size = read(out[0], given, sizeof(given) - 1);
	ASSERT(size >= 0);
	given_size = (size_t)size;
	given[given_size] = '\0';
	struct box_init_file_answer answer;
	ASSERT_INT(read(err[0], &answer, sizeof(answer)), sizeof(answer));
	ASSERT_INT(close(in[0]), 0);
	ASSERT_INT(close(out[0]), 0);
	ASSERT_INT(close(err[0]), 0);
	struct box_str said = {(const char *)&answer, sizeof(answer)};
	ASSERT_INT(box_init_file_read_answer(&ask, said, given_size, &answer), 0);
	return answer.errnum;
}

static int do_path(uint32_t kind, const char *place, const char *path)
{
	struct box_init_file ask = {.kind = kind, .size = 4096, .limit = 100};
	return serve(ask, place, path, "", "", "");
}

static int do_write(const char *path, uint32_t flags, uint64_t size, const char *input)
{
	struct box_init_file ask = {.kind = BOX_INIT_FILE_WRITE, .flags = flags, .size = size};
	return serve(ask, "/ws", path, "", "", input);
}

TEST(paths_and_what_they_lead_to)
{
	static const struct {
		const char *place;
		const char *path;
		int errnum;
		uint32_t why;
	} rows[] = {
		{"/ws", "d/f", 0, 0},
		{"/ws", "./d//f", 0, 0},
		{"/ws", "d/../d/f", 0, 0},
		{"/ws", "ok", 0, 0},
		{"/ws", "okd/f", 0, 0},
		{"/ws", "okd/../d/f", 0, 0},
		{"/", "ws/d/f", 0, 0},
		{"/", "../../ws/d/f", 0, 0},
		{"/", "ws/rel", 0, 0},
		{"/", "ws/abs", 0, 0},
		{"/ws", "abs", EXDEV, BOX_INIT_FILE_WHY_OUTSIDE},
		{"/ws", "rel", EXDEV, BOX_INIT_FILE_WHY_OUTSIDE},
		{"/ws", "../ws/d/f", EXDEV, BOX_INIT_FILE_WHY_OUTSIDE},
		{"/ws", "d/../../tmp/secret", EXDEV, BOX_INIT_FILE_WHY_OUTSIDE},
		{"/tmp", "null", EXDEV, BOX_INIT_FILE_WHY_OUTSIDE},
		{"/", "tmp/null", EACCES, BOX_INIT_FILE_WHY_MAGIC},
		{"/", "dev/null", EACCES, BOX_INIT_FILE_WHY_MAGIC},
		{"/", "ws/../dev", EACCES, BOX_INIT_FILE_WHY_MAGIC},
		{"/", "proc/self", EACCES, BOX_INIT_FILE_WHY_MAGIC},
		{"/ws", "fifo", EINVAL, BOX_INIT_FILE_WHY_TYPE},
		{"/ws", "d", EISDIR, BOX_INIT_FILE_WHY_TYPE},
		{"/ws", "", EISDIR, BOX_INIT_FILE_WHY_TYPE},
		{"/ws", "d/f/", ENOTDIR, 0},
		{"/ws", "d/f/x", ENOTDIR, 0},
		{"/ws", "loop", ELOOP, 0},
		{"/ws", "nix", ENOENT, 0},
		{"/nix", "a", ENOENT, 0},
	};
	start();
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		int errnum = do_path(BOX_INIT_FILE_READ, rows[i].place, rows[i].path);
		if (errnum != rows[i].errnum || job.answer.why != rows[i].why) {
			TEST_FAIL("%s of %s: errno %d, why %u", rows[i].path, rows[i].place, errnum,
				job.answer.why);
		}
		ASSERT(errnum == 0 || given_size == 0);
	}
	finish();
}

/* The real /proc, recognized by its type, whatever its name. */
TEST(procfs_is_known_by_its_kind)
{
	int fd = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(box_path_walk_check_file_system(fd), -EACCES);
	ASSERT_INT(close(fd), 0);
	fd = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT_INT(box_path_walk_check_file_system(fd), 0);
	ASSERT_INT(close(fd), 0);
}

TEST(a_place_that_became_a_link_is_no_place)
{
	start();
	sh("mv ws real; ln -s tmp ws");
	ASSERT_INT(do_path(BOX_INIT_FILE_READ, "/ws", "secret"), ENOTDIR);
	finish();
}

TEST(a_write_that_is_cut_off_changes_nothing)
{
	start();
	ASSERT_INT(do_write("d/f", 0, 100, "short"), ECANCELED);
	ASSERT_INT(job.answer.written, 0);
	ASSERT_INT(do_path(BOX_INIT_FILE_READ, "/ws", "d/f"), 0);
	ASSERT_STR(given, "in\n");
	ASSERT_INT(do_write("new", 0, 100, "short"), ECANCELED);
	ASSERT_INT(do_path(BOX_INIT_FILE_READ, "/ws", "new"), ENOENT);
	sh("test \"$(ls -A ws | tr '\\n' ' ')\" = 'abs d fifo loop ok okd rel '");
	ASSERT_INT(do_write("d/f", BOX_INIT_FILE_AT_OFFSET, 100, "short"), ECANCELED);
	ASSERT_INT(job.answer.written, 5);
	finish();
}

TEST(writes)
{
	start();
	ASSERT_INT(do_write("ok", 0, 3, "new"), 0);
	sh("test \"$(cat ws/d/f)\" = new; test -L ws/ok; test \"$(ls -A ws/d)\" = f");
	ASSERT_INT(do_write("ok", BOX_INIT_FILE_APPEND, 1, "!"), 0);
	sh("test \"$(cat ws/d/f)\" = new!");
	ASSERT_INT(do_write("abs", 0, 3, "new"), EXDEV);
	ASSERT_INT(do_write("rel", BOX_INIT_FILE_APPEND, 3, "new"), EXDEV);
	sh("test \"$(cat tmp/secret)\" = out");
	ASSERT_INT(do_write("fifo", 0, 1, "x"), EINVAL);
	ASSERT_INT(do_write("fifo", BOX_INIT_FILE_APPEND, 1, "x"), EINVAL);
	ASSERT_INT(do_write("p/q", 0, 1, "x"), ENOENT);
	ASSERT_INT(do_write("p/q", BOX_INIT_FILE_PARENTS, 1, "x"), 0);
	ASSERT_INT(do_write("abs/x", BOX_INIT_FILE_PARENTS, 1, "x"), EXDEV);
	ASSERT_INT(do_write("d/", 0, 1, "x"), EISDIR);
	ASSERT_INT(do_write("", 0, 1, "x"), EISDIR);
	finish();
}

/* In a root without /proc a file cannot be linked by its fd later: it has a temporary name from the
 * start. */
static pid_t write_without_proc(const char *path, uint64_t size, int input)
{
	pid_t pid = fork();
	if (pid != 0) {
		return pid;
	}
	(void)setpgid(0, 0);
	int out = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (chroot(root_path) < 0) {
		_exit(TEST_SKIPPED);
	}
	job = (struct box_file_job){
		.request = {.kind = BOX_INIT_FILE_WRITE, .size = size},
		.texts = {"/ws", path, "", ""},
		.root = root,
		.in = input,
		.out = out,
	};
	box_file_job_serve(&job, out);
	_exit(job.answer.errnum);
}

static int exit_of(pid_t pid)
{
	int status;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == TEST_SKIPPED) {
		finish();
		SKIP("chroot is not allowed");
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* Waits up to 10 s until the folder ws/d has, or has not, a second name. */
static void wait_for_names(const char *count)
{
	char text[128];
	(void)snprintf(text, sizeof(text),
		"for i in $(seq 1000); do test $(ls -A ws/d | wc -l) != %s || exit 0; sleep 0.01; "
		"done; exit 1",
		count);
	sh(text);
}

TEST(a_temporary_name_goes_with_who_made_it)
{
	int in[2];
	start();
	ASSERT_INT(pipe2(in, O_CLOEXEC), 0);
	pid_t pid = write_without_proc("d/f", 3, in[0]);
	ASSERT_INT(write(in[1], "new", 3), 3);
	ASSERT_INT(exit_of(pid), 0);
	sh("test \"$(cat ws/d/f)\" = new; test \"$(ls -A ws/d)\" = f");
	pid = write_without_proc("d/f", 100, in[0]);
	ASSERT_INT(write(in[1], "half", 4), 4);
	wait_for_names("2");
	ASSERT_INT(kill(-pid, SIGKILL), 0);
	ASSERT_INT(exit_of(pid), -SIGKILL);
	wait_for_names("1");
	sh("test \"$(cat ws/d/f)\" = new");
	finish();
}

/* A folder that can be searched but not read, like the parent of homes. */
TEST(a_folder_that_cannot_be_read_can_be_gone_through)
{
	start();
	sh("mkdir -p ws/dark/in; echo deep >ws/dark/in/f; echo in >ws/dark/f; "
	   "chmod 0311 ws/dark; chmod 0711 ws/dark/in");
	if (geteuid() == 0) {
		sh("chown -R 65534:65534 .; chown 0:0 ws/dark/in");
		ASSERT_INT(setegid(65534), 0);
		ASSERT_INT(seteuid(65534), 0);
	}
	ASSERT_INT(do_path(BOX_INIT_FILE_READ, "/ws", "dark/f"), 0);
	ASSERT_STR(given, "in\n");
	ASSERT_INT(do_path(BOX_INIT_FILE_READ, "/ws", "dark/in/../in/f"), 0);
	ASSERT_STR(given, "deep\n");
	ASSERT_INT(do_path(BOX_INIT_FILE_STAT, "/ws", "dark/in/f"), 0);
	ASSERT_INT(do_path(BOX_INIT_FILE_STAT, "/ws", "dark"), 0);
	ASSERT_INT(do_write("dark/f", 0, 3, "new"), 0);
	ASSERT_INT(do_write("dark/f", BOX_INIT_FILE_APPEND, 1, "!"), 0);
	ASSERT_INT(do_write("dark/in/f", BOX_INIT_FILE_AT_OFFSET, 1, "D"), 0);
	ASSERT_INT(do_path(BOX_INIT_FILE_READ, "/ws", "dark/f"), 0);
	ASSERT_STR(given, "new!");
	ASSERT_INT(do_path(BOX_INIT_FILE_LIST, "/ws", "dark"), EACCES);
	ASSERT_INT(seteuid(getuid()), 0);
	sh("chmod 0755 ws/dark");
	finish();
}

TEST(removal_follows_no_link)
{
	struct box_init_file ask = {.kind = BOX_INIT_FILE_REMOVE, .flags = BOX_INIT_FILE_RECURSIVE};
	start();
	sh("mkdir tmp/keep; echo k >tmp/keep/k; ln -s ../../tmp/keep ws/d/l; ln -s ../tmp/keep ws/l");
	ASSERT_INT(serve(ask, "/ws", "d", "", "", ""), 0);
	ASSERT_INT(serve(ask, "/ws", "l", "", "", ""), 0);
	ASSERT_INT(serve(ask, "/ws", "", "", "", ""), EBUSY);
	ASSERT_INT(serve(ask, "/ws", "nix/..", "", "", ""), ENOENT);
	sh("test \"$(cat tmp/keep/k)\" = k; test ! -e ws/d; test ! -L ws/l");
	sh("mkdir ws/t; cd ws/t; for i in $(seq 200); do mkdir d e; touch f; cd d; done");
	ASSERT_INT(serve(ask, "/ws", "t", "", "", ""), 0);
	sh("test ! -e ws/t; test -z \"$(ls -A ws | grep box)\"");
	finish();
}

TEST(moves)
{
	struct box_init_file ask = {.kind = BOX_INIT_FILE_MOVE};
	start();
	ASSERT_INT(serve(ask, "/ws", "d/f", "/tmp", "f", ""), 0);
	ASSERT_INT(serve(ask, "/tmp", "f", "/ws", "ok", ""), EEXIST);
	ASSERT_INT(job.answer.of_to, 1);
	ask.flags = BOX_INIT_FILE_REPLACE;
	ASSERT_INT(serve(ask, "/tmp", "f", "/ws", "ok", ""), 0);
	sh("test \"$(cat ws/ok)\" = in; test ! -L ws/ok");
	ASSERT_INT(serve(ask, "/ws", "", "/tmp", "x", ""), EBUSY);
	ASSERT_INT(serve(ask, "/ws", "ok", "/ws", "abs/x", ""), EXDEV);
	ASSERT_INT(job.answer.of_to, 1);
	ASSERT_INT(serve(ask, "/", "dev", "/ws", "x", ""), EACCES);
	finish();
}

/* As on a file system that does not support RENAME_NOREPLACE. */
TEST(moves_by_steps_replace_nothing)
{
	start();
	int ws = openat(root, "ws", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int tmp = openat(root, "tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	sh("mkdir tmp/empty tmp/full; touch tmp/full/x");
	ASSERT_INT(box_file_job_rename_in_steps(ws, "fifo", tmp, "secret"), -EEXIST);
	ASSERT_INT(box_file_job_rename_in_steps(ws, "d", tmp, "secret"), -EEXIST);
	ASSERT_INT(box_file_job_rename_in_steps(ws, "d", tmp, "empty"), -EEXIST);
	ASSERT_INT(box_file_job_rename_in_steps(ws, "d", tmp, "full"), -EEXIST);
	ASSERT_INT(box_file_job_rename_in_steps(ws, "none", tmp, "x"), -ENOENT);
	ASSERT_INT(box_file_job_rename_in_steps(tmp, "secret", tmp, "secret"), -EEXIST);
	sh("test \"$(cat tmp/secret)\" = out; test -d tmp/empty; test -p ws/fifo");
	int d = openat(ws, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT_INT(box_file_job_rename_in_steps(ws, "d", d, "within"), -EINVAL);
	sh("test \"$(ls -A ws/d)\" = f");
	ASSERT_INT(box_file_job_rename_in_steps(ws, "d", tmp, "d"), 0);
	ASSERT_INT(box_file_job_rename_in_steps(tmp, "secret", ws, "s"), 0);
	ASSERT_INT(box_file_job_rename_in_steps(ws, "rel", tmp, "rel"), 0);
	sh("test \"$(cat tmp/d/f)\" = in; test ! -e ws/d; test \"$(cat ws/s)\" = out; "
	   "test ! -e tmp/secret; test \"$(readlink tmp/rel)\" = ../tmp/secret; test ! -L ws/rel");
	ASSERT_INT(close(d), 0);
	ASSERT_INT(close(ws), 0);
	ASSERT_INT(close(tmp), 0);
	finish();
}

/* Names appear and disappear while they are listed. */
TEST(a_page_with_more_behind_it_has_a_last_name)
{
	struct box_init_file ask = {.kind = BOX_INIT_FILE_LIST, .size = 4096, .limit = 1};
	start();
	sh("mkdir ws/m; touch ws/m/z1 ws/m/z2");
	pid_t pid = fork();
	if (pid == 0) {
		int folder = openat(root, "ws/m", O_PATH | O_DIRECTORY | O_CLOEXEC);
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		for (;;) {
			(void)close(openat(folder, "a", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
			(void)unlinkat(folder, "a", 0);
		}
	}
	for (int i = 0; i < 5000; i++) {
		ASSERT_INT(serve(ask, "/ws", "m", "", "", ""), 0);
		ASSERT(given_size > 0 || !job.answer.more);
	}
	ASSERT_INT(kill(pid, SIGKILL), 0);
	ASSERT_INT(waitpid(pid, NULL, 0), pid);
	finish();
}

TEST(pages_of_a_list)
{
	struct box_init_file ask = {.kind = BOX_INIT_FILE_LIST, .size = 4096, .limit = 3};
	struct box_init_file_entry_read named;
	char after[256] = "";
	int count = 0;
	start();
	sh("mkdir ws/m; cd ws/m; for i in $(seq -w 0 20); do touch n$i; done");
	do {
		ASSERT_INT(serve(ask, "/ws", "m", "", after, ""), 0);
		struct box_str left = {given, given_size};
		struct box_str last = box_str(after);
		while (box_init_file_next_entry(&left, last, &named) == 1) {
			last = named.name;
			ASSERT_INT(atoi(named.name.bytes + 1), count++);
		}
		ASSERT_INT(left.len, 0);
		(void)snprintf(after, sizeof(after), "%.*s", (int)last.len, last.bytes);
	} while (job.answer.more);
	ASSERT_INT(count, 21);
	ask.size = 100; /* bytes: room for two entries */
	ASSERT_INT(serve(ask, "/ws", "m", "", "", ""), 0);
	ASSERT_INT(job.answer.more, 1);
	ASSERT_INT(given_size, 2 * (sizeof(struct box_init_file_entry) + 3));
	ASSERT_INT(serve(ask, "/ws", "okd", "", "", ""), ENOTDIR);
	finish();
}

/* A link in the middle that appears and disappears. */
TEST(a_swap_never_leads_out)
{
	start();
	sh("mkdir ws/x; echo in >ws/x/secret; ln -s ../tmp ws/y");
	pid_t swapper = fork();
	ASSERT(swapper >= 0);
	if (swapper == 0) {
		ASSERT_INT(chdir(root_path), 0);
		for (;;) {
			(void)rename("ws/x", "ws/z");
			(void)rename("ws/y", "ws/x");
			(void)rename("ws/x", "ws/y");
			(void)rename("ws/z", "ws/x");
		}
	}
	int inside = 0;
	for (int i = 0; i < 20000; i++) {
		if (do_path(BOX_INIT_FILE_READ, "/ws", "x/secret") == 0) {
			ASSERT_STR(given, "in\n");
			inside++;
		}
	}
	ASSERT(inside > 0);
	ASSERT_INT(kill(swapper, SIGKILL), 0);
	ASSERT_INT(waitpid(swapper, NULL, 0), swapper);
	finish();
}
