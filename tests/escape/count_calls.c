/* Counts how many system calls the kernel answers where this runs, by trying every number.
 *
 * Each number is tried in a child of its own, with arguments that no call can use: bad fds, bad
 * pointers, unknown flags. A call that is allowed then fails with EBADF, EFAULT, EINVAL or the
 * like, or does something harmless; EPERM, ENOSYS, EOPNOTSUPP and SIGSYS come from the filter.
 * Where the kernel itself would answer one of these, the tables say how that is handled. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))
#define NUMBERS 1024
#define PATIENCE_MS 200
#define BAD (-1L)

enum outcome {
	ANSWERED,
	REFUSED,
	ABSENT,
	KILLED,
	OUTCOMES_
};

static const char *const outcome_names[OUTCOMES_] = {"answered", "refused", "absent", "killed"};

/* Filled by the child; `returned` stays false when the call never came back. */
struct report {
	bool returned;
	long result;
	int errnum;
};

/* Calls that a filter may refuse because of -1 itself, or that answer ENOSYS to it. */
static const struct {
	long number;
	long args[6];
} gentle[] = {
	{SYS_clone, {CLONE_THREAD, 0, BAD, BAD, BAD, BAD}}, /* EINVAL: a thread needs more */
	{SYS_socket, {AF_UNIX, SOCK_STREAM, 0}},
	{SYS_socketpair, {AF_UNIX, SOCK_STREAM, 0, BAD}},
	{SYS_futex, {BAD, FUTEX_WAKE}}, /* ENOSYS to an unknown operation */
	{SYS_openat, {BAD, BAD, 0, 0}},
	{SYS_fchmod, {BAD, 0}},
	{SYS_fchmodat, {BAD, BAD, 0}},
	{452 /* fchmodat2 */, {BAD, BAD, 0}},
	{SYS_mknodat, {BAD, BAD, S_IFIFO}},
#ifdef SYS_open
	{SYS_open, {BAD, 0, 0}},
	{SYS_creat, {BAD, 0}},
	{SYS_chmod, {BAD, 0}},
	{SYS_mknod, {BAD, S_IFIFO}},
#endif
};

/* Calls to which the kernel says EPERM before it looks at anything. They are counted as answered:
 * too many rather than too few. */
static const long unclear[] = {
	SYS_setgroups, /* without CAP_SETGID */
	SYS_mlock,     /* when nothing may be locked */
};

static enum outcome judge(long number, const struct report *report, int status)
{
	if (!report->returned) {
		return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS ? KILLED : ANSWERED;
	}
	if (report->result != -1) {
		return ANSWERED;
	}
	if (report->errnum == ENOSYS) {
		return ABSENT;
	}
	for (size_t i = 0; i < COUNT(unclear); i++) {
		if (unclear[i] == number) {
			return ANSWERED;
		}
	}
	return report->errnum == EPERM || report->errnum == EOPNOTSUPP ? REFUSED : ANSWERED;
}

/* In the child. Whatever it became afterwards must not go on as if it were the parent. */
static _Noreturn void attempt(long number, struct report *report)
{
	long args[6] = {BAD, BAD, BAD, BAD, BAD, BAD};
	for (size_t i = 0; i < COUNT(gentle); i++) {
		if (gentle[i].number == number) {
			memcpy(args, gentle[i].args, sizeof(args));
		}
	}
	pid_t self = getpid();
	long result;
	errno = 0;
#ifdef SYS_vfork
	if (number == SYS_vfork) {
		/* Its child shares this stack, which only the library's own entry survives. */
		result =
			vfork(); /* NOLINT(clang-analyzer-security.insecureAPI.vfork): it is tried */
		if (result == 0) {
			_exit(0);
		}
	} else
#endif
	{
		result = syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
	}
	if (getpid() == self) {
		report->errnum = errno;
		report->result = result;
		report->returned = true;
	}
	_exit(0);
}

/* Ends a child that waits for something: pause does. */
static int wait_for(pid_t pid)
{
	int status = 0;
	for (int ms = 0; ms < PATIENCE_MS; ms++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			return status;
		}
		(void)poll(NULL, 0, 1);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, &status, 0);
	return status;
}

static enum outcome try_number(long number, struct report *report)
{
	memset(report, 0, sizeof(*report));
	pid_t pid = fork();
	if (pid < 0) {
		perror("fork");
		exit(2);
	}
	if (pid == 0) {
		attempt(number, report);
	}
	return judge(number, report, wait_for(pid));
}

static int usage(void)
{
	(void)fprintf(stderr, "usage: count_calls [-v] [MOST]\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const long beyond[] = {0x1000, 0xffff, 0x10000, 0x3fffffff, 0x40000000, 0x40000001,
		0x40000027, 0x400001b4, 0x40000208, 0x7fffffff};
	bool verbose = argc > 1 && strcmp(argv[1], "-v") == 0;
	int next = verbose ? 2 : 1;
	char *end = NULL;
	long most = next < argc ? strtol(argv[next], &end, 10) : NUMBERS;
	if (argc > next + 1 || (end && (*end || end == argv[next]))) {
		return usage();
	}
	struct report *report = mmap(
		NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (report == MAP_FAILED) {
		perror("mmap");
		return 2;
	}
	int counts[OUTCOMES_] = {0};
	for (size_t i = 0; i < NUMBERS + COUNT(beyond); i++) {
		long number = i < NUMBERS ? (long)i : beyond[i - NUMBERS];
		enum outcome outcome = try_number(number, report);
		counts[outcome]++;
		if (verbose && outcome != ABSENT) {
			printf("%ld %s %s\n", number, outcome_names[outcome],
				!report->returned              ? "(no return)"
					: report->result == -1 ? strerrorname_np(report->errnum)
							       : "0");
			(void)fflush(stdout);
		}
	}
	for (int i = 0; i < OUTCOMES_; i++) {
		printf("%s=%d%s", outcome_names[i], counts[i], i + 1 < OUTCOMES_ ? " " : "\n");
	}
	return counts[ANSWERED] > most ? 1 : 0;
}
