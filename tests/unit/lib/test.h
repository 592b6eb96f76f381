/* The unit test framework: TEST(name) { ... } registers itself and runs in a process of its own.
 *
 * A test fails by an ASSERT that prints both sides, by a crash, or by its timeout. Output is TAP.
 * `prog NAME` runs one test in this process, for a debugger. A test program is one .c file that
 * includes this header once; it needs no main. */
#pragma once

#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/macros.h"

#define TEST_SECONDS 60
#define TEST_SKIPPED 77
#define COUNT(rows) (BOX_COUNT_OF(rows))

struct test_case {
	const char *name;
	void (*run)(void);
	struct test_case *next;
};

static struct test_case *test_cases;
static struct test_case **test_tail = &test_cases;

#define TEST(test_name)                                                          \
	static void test_name(void);                                             \
	__attribute__((constructor)) static void test_register_##test_name(void) \
	{                                                                        \
		static struct test_case entry = {#test_name, test_name, NULL};   \
		*test_tail = &entry;                                             \
		test_tail = &entry.next;                                         \
	}                                                                        \
	static void test_name(void)

#define TEST_FAIL(...)                                                  \
	do {                                                            \
		(void)fprintf(stderr, "# %s:%d: ", __FILE__, __LINE__); \
		(void)fprintf(stderr, __VA_ARGS__);                     \
		(void)fprintf(stderr, "\n");                            \
		exit(1);                                                \
	} while (0)

#define SKIP(...)                                                 \
	do {                                                      \
		(void)fprintf(stderr, "# skipped: " __VA_ARGS__); \
		(void)fprintf(stderr, "\n");                      \
		exit(TEST_SKIPPED);                               \
	} while (0)

#define ASSERT(condition)                                      \
	do {                                                   \
		if (!(condition)) {                            \
			TEST_FAIL("not true: %s", #condition); \
		}                                              \
	} while (0)

#define ASSERT_INT(actual, expected)                                                               \
	do {                                                                                       \
		intmax_t actual_ = (intmax_t)(actual);                                             \
		intmax_t expected_ = (intmax_t)(expected);                                         \
		if (actual_ != expected_) {                                                        \
			TEST_FAIL(                                                                 \
				"%s is %" PRIdMAX ", not %" PRIdMAX, #actual, actual_, expected_); \
		}                                                                                  \
	} while (0)

#define ASSERT_STR(actual, expected)                                      \
	do {                                                              \
		const char *actual_ = (actual);                           \
		const char *expected_ = (expected);                       \
		if (!actual_ || strcmp(actual_, expected_) != 0) {        \
			TEST_FAIL("%s is \"%s\", not \"%s\"", #actual,    \
				actual_ ? actual_ : "(null)", expected_); \
		}                                                         \
	} while (0)

#define ASSERT_BYTES(actual, actual_len, expected, expected_len)                              \
	do {                                                                                  \
		ASSERT_INT(actual_len, expected_len);                                         \
		if (memcmp((actual), (expected), (size_t)(expected_len)) != 0) {              \
			TEST_FAIL("%s is \"%.*s\", not \"%.*s\"", #actual, (int)(actual_len), \
				(const char *)(actual), (int)(expected_len),                  \
				(const char *)(expected));                                    \
		}                                                                             \
	} while (0)

/* Copies bytes into the middle of others, without a NUL. */
static inline void put_bytes(void *to, const void *bytes, size_t len)
{
	memcpy(to, bytes, len);
}

/* Compares bits: -0.0 is not 0.0, and a NaN equals itself. */
static inline bool same_real(double a, double b)
{
	uint64_t bits[2];
	memcpy(&bits[0], &a, sizeof(a));
	memcpy(&bits[1], &b, sizeof(b));
	return bits[0] == bits[1];
}

static int test_run_forked(const struct test_case *test)
{
	(void)fflush(stdout);
	pid_t pid = fork();
	if (pid == 0) {
		(void)alarm(TEST_SECONDS);
		test->run();
		exit(0);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		return 1;
	}
	if (WIFSIGNALED(status)) {
		(void)fprintf(stderr, "# %s: ended by signal %d\n", test->name, WTERMSIG(status));
		return 1;
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	int count = 0;
	int failed = 0;
	for (struct test_case *test = test_cases; test; test = test->next) {
		if (argc > 1) {
			if (strcmp(argv[1], test->name) == 0) {
				test->run();
				return 0;
			}
			continue;
		}
		int result = test_run_forked(test);
		count++;
		failed += result != 0 && result != TEST_SKIPPED;
		printf("%s %d - %s%s\n", result == 0 || result == TEST_SKIPPED ? "ok" : "not ok",
			count, test->name, result == TEST_SKIPPED ? " # SKIP see above" : "");
	}
	printf("1..%d\n", count);
	return failed > 0 || count == 0;
}
