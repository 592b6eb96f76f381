/* What each profile answers, found by running its program on made-up calls (bpf.h).
 *
 * The rows are held against the program bit by bit; what the rows must say is written here a second
 * time, by name, so that a row changed by mistake is seen.
 */
#include <errno.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "runtime/plan/filter.h"
#include "runtime/plan/filter_table.h"
#include "tests/unit/bpf.h"
#include "tests/unit/filter_probes.h"
#include "tests/unit/test.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define KILLED (-1)
#define NUMBERS 2000

static struct box_filter programs[BOX_FILTERS_];

static void compile(void)
{
	for (int i = 0; i < BOX_FILTERS_; i++) {
		static struct box_err err;
		if (box_filter_compile((enum box_filter_profile)i, &programs[i], &err) < 0) {
			TEST_FAIL("%s: %s", box_filter_name((enum box_filter_profile)i), err.text);
		}
	}
}

/* 0, an errno, or KILLED. */
static int ask(int profile, uint32_t arch, uint32_t number, const uint64_t args[6])
{
	struct seccomp_data call = {.nr = (int)number, .arch = arch};
	uint32_t action;
	memcpy(call.args, args, sizeof(call.args));
	if (!bpf_run(programs[profile].instructions, programs[profile].count, &call, &action)) {
		TEST_FAIL("no verdict for call %u", number);
	}
	if (action == SECCOMP_RET_ALLOW) {
		return 0;
	}
	if (action == SECCOMP_RET_KILL_PROCESS) {
		return KILLED;
	}
	if ((action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO ||
		(action & SECCOMP_RET_DATA) == 0) {
		TEST_FAIL("call %u: action %#x", number, action);
	}
	return (int)(action & SECCOMP_RET_DATA);
}

static const struct box_filter_row *row_of(const char *name)
{
	for (size_t i = 0; i < box_filter_rows_count; i++) {
		if (strcmp(box_filter_rows[i].name, name) == 0) {
			return &box_filter_rows[i];
		}
	}
	TEST_FAIL("no row for %s", name);
}

static void expect(int profile, const char *name, const uint64_t args[6], int expected)
{
	int number = box_filter_number(row_of(name));
	if (number == -ENXIO) {
		return;
	}
	int got = ask(profile, NATIVE, (uint32_t)number, args);
	if (got != expected) {
		TEST_FAIL("%s: %s(%#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64
			  ") is %d, not %d",
			box_filter_name((enum box_filter_profile)profile), name, args[0], args[1],
			args[2], args[3], got, expected);
	}
}

/* What the rule says, read in the plainest way. */
static int meaning_of(const struct box_filter_rule *rule, const uint64_t args[6])
{
	for (size_t i = 0; i < rule->count; i++) {
		bool all = true;
		for (size_t j = 0; j < BOX_FILTER_MATCHES_MAX; j++) {
			const struct box_filter_match *match = &rule->cases[i].all[j];
			all = all && ((uint32_t)args[match->arg] & match->mask) == match->value;
		}
		if (all) {
			return rule->matched;
		}
	}
	return rule->otherwise;
}

/* Around one case: as it stands, and with each bit of each argument turned. */
static void hold_case(int profile, const struct box_filter_row *row,
	const struct box_filter_case *wanted, uint64_t noise)
{
	const struct box_filter_rule *rule = row->rules[profile];
	uint64_t args[6] = {noise, noise, noise, noise, noise, noise};
	for (size_t j = 0; j < BOX_FILTER_MATCHES_MAX; j++) {
		const struct box_filter_match *match = &wanted->all[j];
		args[match->arg] = (args[match->arg] & ~(uint64_t)match->mask) | match->value;
	}
	ASSERT_INT(meaning_of(rule, args), rule->matched);
	expect(profile, row->name, args, rule->matched);
	for (int arg = 0; arg < 6; arg++) {
		for (int bit = 0; bit < 64; bit++) {
			args[arg] ^= 1ULL << bit;
			expect(profile, row->name, args, meaning_of(rule, args));
			args[arg] ^= 1ULL << bit;
		}
	}
}

TEST(the_program_says_what_the_rows_say)
{
	static const uint64_t noises[] = {0, UINT64_MAX, HIGH, WORD, 0x5a5a5a5a5a5a5a5aULL};
	compile();
	for (int profile = 0; profile < BOX_FILTERS_; profile++) {
		for (size_t i = 0; i < box_filter_rows_count; i++) {
			const struct box_filter_row *row = &box_filter_rows[i];
			const struct box_filter_rule *rule = row->rules[profile];
			for (size_t n = 0; n < COUNT(noises); n++) {
				uint64_t v = noises[n];
				uint64_t args[6] = {v, v, v, v, v, v};
				expect(profile, row->name, args, meaning_of(rule, args));
				for (size_t c = 0; c < rule->count; c++) {
					hold_case(profile, row, &rule->cases[c], v);
				}
			}
		}
	}
}

TEST(the_rows_are_sound)
{
	static const struct box_filter_row *seen[NUMBERS];
	for (size_t i = 0; i < box_filter_rows_count; i++) {
		const struct box_filter_row *row = &box_filter_rows[i];
		int number = box_filter_number(row);
		if (number == -ENXIO) {
#if defined(__x86_64__)
			TEST_FAIL("%s is no call of this machine", row->name);
#endif
			continue;
		}
		if (number < 0 || number >= NUMBERS) {
			TEST_FAIL("%s has no number", row->name);
		}
		if (row->number != 0 && row->number != number) {
			TEST_FAIL("%s is %d, not %d", row->name, number, row->number);
		}
		if (seen[number]) {
			TEST_FAIL("%s and %s are both %d", row->name, seen[number]->name, number);
		}
		seen[number] = row;
		for (int profile = 0; profile < BOX_FILTERS_; profile++) {
			const struct box_filter_rule *rule = row->rules[profile];
			ASSERT(rule->count == 0 || rule->matched != rule->otherwise);
		}
	}
	ASSERT_INT(box_filter_number(row_of("futex_waitv")), SYS_futex_waitv);
	ASSERT_INT(box_filter_number(row_of("openat")), SYS_openat);
	struct box_filter_row wrong = {.name = "no_such_call"};
	ASSERT_INT(box_filter_number(&wrong), -ENOENT);
}

TEST(other_numbers_are_unknown)
{
	static bool known[NUMBERS];
	const uint64_t args[6] = {0};
	compile();
	for (size_t i = 0; i < box_filter_rows_count; i++) {
		int number = box_filter_number(&box_filter_rows[i]);
		if (number >= 0) {
			known[number] = true;
		}
	}
	for (int profile = 0; profile < BOX_FILTERS_; profile++) {
		for (uint32_t number = 0; number < NUMBERS; number++) {
			if (!known[number]) {
				ASSERT_INT(ask(profile, NATIVE, number, args), ENOSYS);
			}
		}
		ASSERT_INT(ask(profile, NATIVE, 0x3fffffff, args), ENOSYS);
		/* What a tracer leaves behind that wants no call at all. */
		ASSERT_INT(ask(profile, NATIVE, UINT32_MAX, args), ENOSYS);
	}
}

TEST(other_machines_are_killed)
{
	static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_MIPS, 0,
		UINT32_MAX, NATIVE & ~(uint32_t)__AUDIT_ARCH_64BIT, NATIVE ^ __AUDIT_ARCH_LE};
	const uint64_t args[6] = {0};
	compile();
	for (int profile = 0; profile < BOX_FILTERS_; profile++) {
		for (uint32_t number = 0; number < NUMBERS; number++) {
			for (size_t i = 0; i < COUNT(others); i++) {
				ASSERT_INT(ask(profile, others[i], number, args), KILLED);
			}
#if defined(__x86_64__)
			uint32_t x32 = 0x40000000 | number;
			ASSERT_INT(ask(profile, NATIVE, x32, args), KILLED);
			ASSERT_INT(ask(profile, NATIVE, 0x80000000 | x32, args), KILLED);
#endif
		}
	}
}

static int answering(int profile)
{
	int count = 0;
	for (size_t i = 0; i < box_filter_rows_count; i++) {
		const struct box_filter_rule *rule = box_filter_rows[i].rules[profile];
		bool here = box_filter_number(&box_filter_rows[i]) >= 0;
		count += here && (rule->count > 0 || rule->otherwise == 0);
	}
	return count;
}

TEST(few_calls_answer)
{
	compile();
	for (int i = 0; i < BOX_FILTERS_; i++) {
		printf("# %s: %d calls answer, %zu instructions\n",
			box_filter_name((enum box_filter_profile)i), answering(i),
			programs[i].count);
	}
	ASSERT(answering(BOX_FILTER_DEFAULT) <= 240);
	ASSERT(answering(BOX_FILTER_STRICT) <= 160);
}

struct names {
	int verdicts[BOX_FILTERS_];
	const char *const *names;
	size_t count;
};

TEST(calls_that_never_depend_on_arguments)
{
	static const struct names tables[] = {
		{{0, 0}, everywhere, COUNT(everywhere)},
		{{0, ENOSYS}, default_only, COUNT(default_only)},
		{{EPERM, EPERM}, refused, COUNT(refused)},
		{{ENOSYS, ENOSYS}, unknown, COUNT(unknown)},
	};
	static const uint64_t none[6];
	static const uint64_t all[6] = {
		UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
	compile();
	for (size_t t = 0; t < COUNT(tables); t++) {
		for (size_t i = 0; i < tables[t].count; i++) {
			for (int profile = 0; profile < BOX_FILTERS_; profile++) {
				int expected = tables[t].verdicts[profile];
				expect(profile, tables[t].names[i], none, expected);
				expect(profile, tables[t].names[i], all, expected);
			}
		}
	}
}

static void hold(const struct probe *probes, size_t count)
{
	compile();
	for (size_t i = 0; i < count; i++) {
		uint64_t args[6] = {0};
		memcpy(args, probes[i].args, sizeof(probes[i].args));
		expect(BOX_FILTER_DEFAULT, probes[i].name, args, probes[i].expected);
		expect(BOX_FILTER_STRICT, probes[i].name, args, probes[i].strict);
		args[4] = UINT64_MAX;
		args[5] = UINT64_MAX;
		expect(BOX_FILTER_DEFAULT, probes[i].name, args, probes[i].expected);
		expect(BOX_FILTER_STRICT, probes[i].name, args, probes[i].strict);
	}
}

TEST(processes_by_their_arguments)
{
	hold(process_probes, COUNT(process_probes));
}

TEST(sockets_by_their_arguments)
{
	hold(socket_probes, COUNT(socket_probes));
}

TEST(files_by_their_arguments)
{
	hold(file_probes, COUNT(file_probes));
}

TEST(profiles_have_names)
{
	ASSERT_STR(box_filter_name(BOX_FILTER_DEFAULT), "default");
	ASSERT_STR(box_filter_name(BOX_FILTER_STRICT), "strict");
	ASSERT_INT(box_filter_find("default"), BOX_FILTER_DEFAULT);
	ASSERT_INT(box_filter_find("strict"), BOX_FILTER_STRICT);
	ASSERT(box_filter_find("") < 0);
	ASSERT(box_filter_find("Default") < 0);
}

/* Behind the real thing; _exit because a leak checker would want ptrace. */
static void live(const struct box_filter *program)
{
	struct sock_fprog fprog = {(unsigned short)program->count, program->instructions};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &fprog) < 0) {
		_exit(1);
	}
	if (syscall(SYS_getppid) <= 0 || syscall(SYS_unshare, 0) != -1 || errno != EPERM) {
		_exit(2);
	}
	if (syscall(SYS_io_uring_setup, 0, NULL) != -1 || errno != ENOSYS) {
		_exit(3);
	}
	if (syscall(SYS_socket, AF_UNIX, SOCK_STREAM, 0) < 0 ||
		syscall(SYS_socket, AF_ALG, SOCK_SEQPACKET, 0) != -1 || errno != EAFNOSUPPORT) {
		_exit(4);
	}
	_exit(syscall(SYS_ioctl, 0, 0x5412, "x") != -1 || errno != EPERM ? 5 : 0);
}

TEST(the_kernel_takes_the_programs)
{
	compile();
	for (int profile = 0; profile < BOX_FILTERS_; profile++) {
		int status = -1;
		pid_t pid = fork();
		if (pid == 0) {
			live(&programs[profile]);
		}
		ASSERT_INT(waitpid(pid, &status, 0), pid);
		ASSERT_INT(status, 0);
		box_filter_free(&programs[profile]);
		ASSERT_INT(programs[profile].count, 0);
	}
}

TEST(the_interpreter_knows_what_is_no_program)
{
	static const struct seccomp_data call = {.nr = 7, .arch = NATIVE};
	static const struct sock_filter load = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0);
	static const struct sock_filter end = BPF_STMT(BPF_RET | BPF_K, 5);
	static const struct {
		struct sock_filter middle;
		bool valid;
	} rows[] = {
		{BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 7, 0, 1), true},
		{BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 8, 0, 1), false},
		{BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 6, 0, 1), true},
		{BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, 7, 0, 1), false},
		{BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 7, 0, 1), true},
		{BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 8, 0, 1), false},
		{BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 12, 0, 1), true},
		{BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 8, 0, 1), false},
		{BPF_STMT(BPF_JMP | BPF_JA, 0), true},
		{BPF_STMT(BPF_JMP | BPF_JA, 1), false},
		{BPF_STMT(BPF_JMP | BPF_JA, UINT32_MAX), false},
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 60), true},
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 62), false},
		{BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64), false},
		{BPF_STMT(BPF_LD | BPF_W | BPF_IND, 0), false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		const struct sock_filter program[] = {load, rows[i].middle, end};
		uint32_t action = 0;
		bool valid = bpf_run(program, COUNT(program), &call, &action);
		ASSERT_INT(valid, rows[i].valid);
		ASSERT_INT(action, valid ? 5 : 0);
	}
}
