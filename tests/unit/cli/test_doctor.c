/* Diagnoses of `box doctor` that need no host, and the children with a timeout that its checks run.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>

#include "cli/doctor/diagnose.h"
#include "cli/doctor/probe_child.h"
#include "tests/unit/lib/test.h"

#define UNSAID .clone_allowed = -1, .limit = -1, .apparmor_limits = -1

TEST(user_namespaces)
{
	static const struct {
		struct box_diagnose_userns_facts facts;
		const char *why;
		const char *cure; /* a part of it */
	} rows[] = {
		{{.errnum = EPERM, .clone_allowed = 0, .limit = 9, .apparmor_limits = -1},
			"kernel.unprivileged_userns_clone is 0",
			"sysctl -w kernel.unprivileged_userns_clone=1"},
		{{.errnum = ENOSPC, .clone_allowed = -1, .limit = 0, .apparmor_limits = -1},
			"user.max_user_namespaces is 0",
			"sysctl -w user.max_user_namespaces=15000"},
		/* Both: the one that the other depends on is reported. */
		{{.errnum = EPERM, .clone_allowed = 0, .limit = 0, .apparmor_limits = -1},
			"user.max_user_namespaces is 0",
			"sysctl -w user.max_user_namespaces=15000"},
		{{.errnum = ENOSPC, .clone_allowed = -1, .limit = 7, .apparmor_limits = -1},
			"the limit user.max_user_namespaces is reached",
			"sysctl -w user.max_user_namespaces=15000"},
		{{.errnum = EUSERS, UNSAID}, "they are nested too deeply", "outside"},
		{{.errnum = EPERM,
			 .made = true,
			 .clone_allowed = 1,
			 .limit = 9,
			 .apparmor_limits = 1},
			"AppArmor removes the capabilities in them "
			"(kernel.apparmor_restrict_unprivileged_userns)",
			"sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"},
		{{.errnum = EPERM,
			 .made = true,
			 .filtered = true,
			 .apparmor_limits = 0,
			 .clone_allowed = -1,
			 .limit = 9},
			"a security module removes the capabilities in them", "SELinux"},
		{{.errnum = EPERM, .filtered = true, UNSAID},
			"a seccomp filter forbids them, as in containers",
			"--security-opt seccomp=unconfined"},
		/* That setting does not apply to root: it is the filter. */
		{{.errnum = EPERM,
			 .root = true,
			 .filtered = true,
			 .clone_allowed = 0,
			 .limit = 9,
			 .apparmor_limits = -1},
			"a seccomp filter forbids them, as in containers",
			"--security-opt seccomp=unconfined"},
		/* AppArmor's setting allows user namespaces, so it is not the reason. */
		{{.errnum = EPERM,
			 .filtered = true,
			 .clone_allowed = 1,
			 .limit = 9,
			 .apparmor_limits = 1},
			"a seccomp filter forbids them, as in containers", "docker run"},
		{{.errnum = EPERM, .changed_root = true, .filtered = true, UNSAID},
			"the kernel does not create them in a chroot", "pivot_root"},
		{{.errnum = EINVAL, UNSAID}, "the kernel is built without them", "CONFIG_USER_NS"},
		{{.errnum = EACCES, UNSAID}, "Permission denied", "security module"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_diagnose_result diagnosis = box_diagnose_userns(&rows[i].facts);
		ASSERT_STR(diagnosis.why, rows[i].why);
		if (!strstr(diagnosis.cure, rows[i].cure)) {
			TEST_FAIL("row %zu: \"%s\" is not in \"%s\"", i, rows[i].cure,
				diagnosis.cure);
		}
	}
}

TEST(who_answers)
{
#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
	static const struct {
		const char *answer;
		enum box_diagnose_port_owner owner;
	} rows[] = {
		{"", BOX_DIAGNOSE_PORT_SILENT},
		{HEAD "{\"live\":true,\"resources\":{}}", BOX_DIAGNOSE_PORT_BOXD},
		{HEAD "{\"live\":true,\"resources\":", BOX_DIAGNOSE_PORT_BOXD},
		{HEAD "{\"live\":true}", BOX_DIAGNOSE_PORT_BOXD},
		{HEAD "{\"live\":true} ", BOX_DIAGNOSE_PORT_BOXD},
		{HEAD "{\"live\":false}", BOX_DIAGNOSE_PORT_OTHER},
		{HEAD " {\"live\":true,\"resources\":{}}", BOX_DIAGNOSE_PORT_OTHER},
		{HEAD "<html>{\"live\":true,\"resources\":{}}", BOX_DIAGNOSE_PORT_OTHER},
		{HEAD, BOX_DIAGNOSE_PORT_OTHER},
		{"HTTP/1.1 200 OK\r\n", BOX_DIAGNOSE_PORT_OTHER},
		{"HTTP/1.1 404 Not Found\r\n\r\n{\"live\":true,\"resources\":{}}",
			BOX_DIAGNOSE_PORT_OTHER},
		{"x" HEAD "{\"live\":true,\"resources\":{}}", BOX_DIAGNOSE_PORT_OTHER},
		{"SSH-2.0-OpenSSH_9.2\r\n", BOX_DIAGNOSE_PORT_OTHER},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		enum box_diagnose_port_owner owner = box_diagnose_port(
			rows[i].answer, strlen(rows[i].answer));
		if (owner != rows[i].owner) {
			TEST_FAIL("row %zu: %d, not %d", i, owner, rows[i].owner);
		}
	}
}

TEST(versions)
{
	static const struct {
		const char *text;
		bool enough;
	} rows[] = {
		{"3.8.0", true},
		{"3.8", true},
		{"3.11.2", true},
		{"4.0.0", true},
		{"3.7.17", false},
		{"2.7.18", false},
		{"2.99.1", false},
		{"", false},
		{"3", false},
		{"python", false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		if (box_diagnose_version(rows[i].text, 3, 8) != rows[i].enough) {
			TEST_FAIL("%s", rows[i].text);
		}
	}
}

/* --- children --- */

/* More than a pipe takes at once. */
struct large {
	unsigned char bytes[300000];
};

static void fill(void *arg, void *result)
{
	struct large *large = result;
	for (size_t i = 0; i < sizeof(large->bytes); i++) {
		large->bytes[i] = (unsigned char)(i % 251 + *(const unsigned char *)arg);
	}
}

TEST(a_result_comes_back_whole)
{
	static struct large large;
	unsigned char first = 3;
	ASSERT_INT(box_probe_child_run(fill, &first, &large, sizeof(large), 10000, true), 0);
	for (size_t i = 0; i < sizeof(large.bytes); i++) {
		ASSERT_INT(large.bytes[i], (unsigned char)(i % 251 + 3));
	}
}

static void die(void *arg, void *result)
{
	(void)result;
	(void)kill(getpid(), *(const int *)arg);
	_exit(0);
}

TEST(a_child_that_dies_has_no_result)
{
	static const int signals[] = {SIGKILL, SIGTERM, 0};
	for (size_t i = 0; i < COUNT(signals); i++) {
		int number = signals[i];
		int result = 7;
		ASSERT_INT(box_probe_child_run(die, &number, &result, sizeof(result), 10000, true),
			-ECHILD);
		ASSERT_INT(result, 7);
	}
}

/* Hangs, with a child that hangs, too. */
static void hang(void *arg, void *result)
{
	(void)result;
	pid_t pid = fork();
	if (pid > 0) {
		*(volatile pid_t *)arg = pid;
	}
	for (;;) {
		(void)pause();
	}
}

static void nap(long milliseconds)
{
	const struct timespec time = {.tv_nsec = milliseconds * 1000000};
	(void)nanosleep(&time, NULL);
}

TEST(a_child_that_hangs_is_ended_with_its_children)
{
	volatile pid_t *pid = mmap(
		NULL, sizeof(*pid), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int result = 7;
	struct timespec begun;
	struct timespec ended;
	ASSERT(pid != MAP_FAILED);
	(void)clock_gettime(CLOCK_MONOTONIC, &begun);
	ASSERT_INT(box_probe_child_run(
			   hang, (void *)(uintptr_t)pid, &result, sizeof(result), 300, true),
		-ETIMEDOUT);
	(void)clock_gettime(CLOCK_MONOTONIC, &ended);
	long took_ms = (ended.tv_sec - begun.tv_sec) * 1000 +
		(ended.tv_nsec - begun.tv_nsec) / 1000000;
	ASSERT(took_ms >= 300 && took_ms < 5000);
	ASSERT(*pid > 0);
	/* Its new parent may reap it late: a zombie counts as dead. */
	char path[64];
	char text[256] = "";
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)*pid);
	for (int i = 0; i < 200; i++) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
		text[got > 0 ? got : 0] = '\0';
		(void)close(fd);
		const char *state = strrchr(text, ')');
		if (!state || state[2] == 'Z' || state[2] == 'X') {
			return;
		}
		nap(10);
	}
	TEST_FAIL("it lives: %s", text);
}

static int give(void *arg)
{
	return *(const int *)arg;
}

static int end_early(void *arg)
{
	(void)arg;
	_exit(0);
}

TEST(steps)
{
	int values[] = {0, -EPERM, -ENOSYS};
	for (size_t i = 0; i < COUNT(values); i++) {
		ASSERT_INT(box_probe_child_step(give, &values[i]), values[i]);
	}
	ASSERT_INT(box_probe_child_step(end_early, NULL), -ECHILD);
}
