/* A process that owns cgroups, for tests/system/boxes/test_cgroup.py: one command per line, one
 * answer per line.
 *
 * Its children do what payloads do to a host: use memory, fork, burn a processor, or just stay. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "boxd/cgroup/cgroup.h"
#include "protocol/oom.h"

#define GROUPS 16
#define FORKS 250
#define REMOVE_TRIES 5000

static struct box_cgroups *cgroups;
static struct {
	char name[64];
	struct box_cgroup *cgroup;
} groups[GROUPS];

static int64_t now_us(void)
{
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void pause_us(long us)
{
	const struct timespec pause = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
	(void)nanosleep(&pause, NULL);
}

static int slot_of(const char *name)
{
	for (int i = 0; i < GROUPS; i++) {
		if (strcmp(groups[i].name, name) == 0) {
			return i;
		}
	}
	return -1;
}

/* Pages are touched one by one; their contents differ, so that none can be shared. */
static int eat(long mib)
{
	size_t size = (size_t)mib << 20;
	unsigned char *memory = malloc(size);
	for (size_t at = 0; memory && at < size; at += 4096) {
		*(volatile uint64_t *)(void *)(memory + at) = at + 1;
	}
	int sum = memory ? memory[0] + memory[size - 4096] : 0;
	free(memory);
	return sum > 0 ? 0 : 1;
}

/* On SIGUSR1, which is blocked from the start. */
static int eat_later(long mib)
{
	sigset_t awaited;
	int number = 0;
	(void)sigemptyset(&awaited);
	(void)sigaddset(&awaited, SIGUSR1);
	(void)sigwait(&awaited, &number);
	return eat(mib);
}

/* How many children could be created. */
static int fork_all(void)
{
	int count = 0;
	pid_t pid = 0;
	while (count < FORKS && (pid = fork()) > 0) {
		count++;
	}
	if (pid == 0) {
		(void)pause();
		_exit(0);
	}
	return count;
}

static int spin(long ms)
{
	int64_t end = now_us() + ms * 1000;
	while (now_us() < end) {
	}
	return 0;
}

/* A fork bomb: all its children fork as well, as long as they live. */
static _Noreturn void breed(void)
{
	for (;;) {
		(void)fork();
	}
}

static int behave(const char *what, long amount)
{
	if (strcmp(what, "eat") == 0) {
		return eat(amount);
	}
	if (strcmp(what, "forks") == 0) {
		return fork_all();
	}
	if (strcmp(what, "breed") == 0) {
		breed();
	}
	if (strcmp(what, "later") == 0) {
		return eat_later(amount);
	}
	if (strcmp(what, "spin") == 0) {
		return spin(amount);
	}
	for (;;) {
		(void)pause();
	}
}

/* Started in its cgroup where possible, else it moves there by itself. */
static pid_t start(struct box_cgroup *cgroup, const char *what, long amount)
{
	int procs_fds[BOX_CGROUP_PROCS_FDS_MAX];
	size_t count = 0;
	struct box_err err;
	int folder = box_cgroup_folder(cgroup);
	struct clone_args args = {.exit_signal = SIGCHLD};
	if (folder >= 0) {
		args.flags = CLONE_INTO_CGROUP;
		args.cgroup = (uint64_t)folder;
	}
	int r = box_cgroup_open_procs_fds(cgroup, procs_fds, &count, &err);
	if (r < 0) {
		return r;
	}
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid == 0) {
		if (box_cgroup_enter(procs_fds, count) < 0) {
			_exit(99);
		}
		/* An inherited lock on a cgroup parent would outlive its owner. */
		(void)close_range(3, ~0U, 0);
		_exit(behave(what, amount));
	}
	r = pid < 0 ? -errno : 0;
	for (size_t i = 0; i < count; i++) {
		(void)close(procs_fds[i]);
	}
	return r < 0 ? r : (pid_t)pid;
}

/* Enters the cgroups of the box first, where it has any to enter, then the one of the process. */
static pid_t start_in_part(struct box_cgroup *cgroup, int procs_fd, const char *what, long amount)
{
	int procs_fds[BOX_CGROUP_PROCS_FDS_MAX];
	size_t count = 0;
	struct box_err err;
	int r = box_cgroup_open_procs_fds(cgroup, procs_fds, &count, &err);
	if (r < 0) {
		return r;
	}
	pid_t pid = fork();
	if (pid == 0) {
		if (box_cgroup_enter(procs_fds, count) < 0 || box_cgroup_enter(&procs_fd, 1) < 0) {
			_exit(99);
		}
		(void)close_range(3, ~0U, 0);
		_exit(behave(what, amount));
	}
	for (size_t i = 0; i < count; i++) {
		(void)close(procs_fds[i]);
	}
	return pid;
}

/* Writes to the fd as another user: 0, or the errno. */
static int push(int procs_fd, uid_t uid, const char *text)
{
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		bool done = setresuid(uid, uid, uid) == 0 &&
			write(procs_fd, text, strlen(text)) == (ssize_t)strlen(text);
		_exit(done ? 0 : errno);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

static unsigned long long kills_in(int events)
{
	char text[4096];
	ssize_t n = pread(events, text, sizeof(text), 0);
	return n < 0 ? 0 : (unsigned long long)box_oom_parse_kills(text, (size_t)n);
}

/* "part make BOX NUMBER MIB", "part start BOX NUMBER WHAT AMOUNT", "part kills BOX NUMBER" (in it,
 * in the box, and in the rest of the box), "part remove BOX NUMBER", "part push BOX NUMBER PID UID". */
static void act_on_part(const char *line)
{
	char verb[16] = "";
	char name[64] = "";
	char what[16] = "";
	unsigned number = 0;
	long amount = 0;
	struct box_err err;
	int procs_fd = -1;
	int events = -1;
	(void)sscanf(line, "%*s %15s %63s %u %15s %ld", verb, name, &number, what, &amount);
	int slot = slot_of(name);
	struct box_cgroup *cgroup = slot < 0 ? NULL : groups[slot].cgroup;
	if (!cgroup) {
		printf("error no such group\n");
	} else if (strcmp(verb, "make") == 0) {
		int r = box_process_cgroups_make_group(
			cgroup, number, strtoull(what, NULL, 10) << 20, &err);
		printf("%s %s\n", r < 0 ? "error" : "ok", r < 0 ? err.text : "");
	} else if (strcmp(verb, "remove") == 0) {
		printf("%s\n",
			box_process_cgroups_remove_group(cgroup, number) < 0 ? "busy" : "removed");
	} else if (box_process_cgroups_open_group(cgroup, number, &procs_fd, &events, &err) < 0) {
		printf("error %s\n", err.text);
	} else if (strcmp(verb, "start") == 0) {
		pid_t pid = start_in_part(cgroup, procs_fd, what, amount);
		printf(pid < 0 ? "error %d\n" : "pid %d\n", (int)pid);
	} else if (strcmp(verb, "push") == 0) {
		printf("pushed %d\n", push(procs_fd, (uid_t)amount, what));
	} else {
		printf("kills %llu %llu %llu\n", kills_in(events),
			kills_in(box_cgroup_events(cgroup)),
			kills_in(box_cgroup_leaf_events(cgroup)));
	}
	(void)close(procs_fd);
	(void)close(events);
}

static void say_wait(pid_t pid)
{
	int status = 0;
	struct rusage usage;
	if (wait4(pid, &status, 0, &usage) != pid) {
		printf("error %s\n", strerror(errno));
		return;
	}
	long long cpu_us = usage.ru_utime.tv_sec * 1000000LL + usage.ru_utime.tv_usec +
		usage.ru_stime.tv_sec * 1000000LL + usage.ru_stime.tv_usec;
	printf("%s %d %lld\n", WIFSIGNALED(status) ? "signal" : "exit",
		WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), cpu_us);
}

static void say_kills(const struct box_cgroup *cgroup)
{
	printf("kills %llu\n", kills_in(box_cgroup_events(cgroup)));
}

/* How many tries were needed. */
static int remove_group(struct box_cgroup *cgroup)
{
	int tries = 1;
	while (box_cgroup_remove(cgroup) == -EBUSY) {
		if (++tries > REMOVE_TRIES) {
			return -1;
		}
		pause_us(1000);
		while (waitpid(-1, NULL, WNOHANG) > 0) {
		}
	}
	return tries;
}

static int compare_times(const void *a, const void *b)
{
	int64_t first = *(const int64_t *)a;
	int64_t second = *(const int64_t *)b;
	return (first > second) - (first < second);
}

/* Medians in microseconds: make, move a process in, remove after its end. */
static void say_times(int rounds)
{
	enum {
		ROUNDS = 1000
	};
	static int64_t times[3][ROUNDS];
	const struct box_cgroup_limits limits = {64 << 20, 64, 1000};
	struct box_err err;
	rounds = rounds < ROUNDS ? rounds : ROUNDS;
	for (int i = 0; i < rounds; i++) {
		struct box_cgroup *cgroup = NULL;
		int64_t begun = now_us();
		if (box_cgroup_make(cgroups, "timed", &limits, &cgroup, &err) < 0) {
			printf("error %s\n", err.text);
			return;
		}
		times[0][i] = now_us() - begun;
		begun = now_us();
		pid_t pid = start(cgroup, "eat", 1);
		times[1][i] = now_us() - begun;
		(void)waitpid(pid, NULL, 0);
		begun = now_us();
		(void)remove_group(cgroup);
		times[2][i] = now_us() - begun;
	}
	for (int i = 0; i < 3; i++) {
		qsort(times[i], (size_t)rounds, sizeof(times[i][0]), compare_times);
	}
	printf("times make=%lld start=%lld remove=%lld\n", (long long)times[0][rounds / 2],
		(long long)times[1][rounds / 2], (long long)times[2][rounds / 2]);
}

static void make(const char *name, const struct box_cgroup_limits *limits)
{
	struct box_err err;
	int slot = slot_of("");
	struct box_cgroup *cgroup = NULL;
	if (slot < 0 || box_cgroup_make(cgroups, name, limits, &cgroup, &err) < 0) {
		printf("error %s\n", slot < 0 ? "too many" : err.text);
		return;
	}
	groups[slot].cgroup = cgroup;
	(void)snprintf(groups[slot].name, sizeof(groups[slot].name), "%s", name);
	printf("ok\n");
}

static void act_on(const char *verb, int slot, const char *what, long amount)
{
	if (slot < 0) {
		printf("error no such group\n");
	} else if (strcmp(verb, "start") == 0) {
		pid_t pid = start(groups[slot].cgroup, what, amount);
		printf(pid < 0 ? "error %d\n" : "pid %d\n", (int)pid);
	} else if (strcmp(verb, "give") == 0) {
		box_cgroup_set_root_id(groups[slot].cgroup, (uint32_t)strtoul(what, NULL, 10));
		printf("ok\n");
	} else if (strcmp(verb, "kills") == 0) {
		say_kills(groups[slot].cgroup);
	} else {
		int tries = remove_group(groups[slot].cgroup);
		groups[slot].name[0] = '\0';
		printf(tries < 0 ? "error busy\n" : "removed %d\n", tries);
	}
}

static void obey(const char *line)
{
	static const char *const modes[] = {"none", "v1", "v2"};
	char verb[16] = "";
	char name[300] = "";
	char what[16] = "";
	long amount = 0;
	struct box_cgroup_limits limits = {0};
	(void)sscanf(line, "%15s %299s %15s %ld", verb, name, what, &amount);
	if (strcmp(verb, "mode") == 0) {
		printf("%s %s\n", modes[box_cgroups_mode(cgroups)], box_cgroups_why(cgroups));
	} else if (strcmp(verb, "make") == 0) {
		(void)sscanf(line, "%*s %*s %" SCNu64 " %u %u", &limits.memory_bytes, &limits.pids,
			&limits.cpu_milli);
		make(name, &limits);
	} else if (strcmp(verb, "part") == 0) {
		act_on_part(line);
	} else if (strcmp(verb, "wait") == 0) {
		say_wait((pid_t)atoi(name));
	} else if (strcmp(verb, "times") == 0) {
		say_times(atoi(name));
	} else {
		act_on(verb, slot_of(name), what, amount);
	}
}

int main(void)
{
	char line[512];
	sigset_t blocked;
	(void)sigemptyset(&blocked);
	(void)sigaddset(&blocked, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &blocked, NULL);
	cgroups = box_cgroups_open();
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		obey(line);
	}
	box_cgroups_close(cgroups);
	return 0;
}
