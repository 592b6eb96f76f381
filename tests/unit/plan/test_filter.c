/* What each seccomp profile answers, found by running its program on made-up calls (bpf.h).
 *
 * The rows of the table are compared with the program bit by bit. What the rows must say is written
 * here a second time, by name, so that a row changed by mistake is noticed. */
#include <errno.h>
#include <linux/audit.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "plan/filter.h"
#include "plan/filter_table.h"
#include "tests/unit/lib/bpf.h"
#include "tests/unit/lib/filter_probes.h"
#include "tests/unit/lib/test.h"

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#endif

#define KILLED (-2) /* BOX_FILTER_DONE is -1 */
#define NUMBERS 2000

/* Every program: by profile, with and without a network, for commands and for the mounter. */
#define KINDS (BOX_FILTERS_ * 4)
#define OFF 0
#define NETWORK 1
#define MOUNTER 2
#define KIND(profile, which) ((profile)*4 + (which))
static struct box_filter programs[KINDS];

static struct box_filter_kind kind_of(int i)
{
	return (struct box_filter_kind){.profile = (enum box_filter_profile)(i / 4),
		.network = i & NETWORK,
		.mounter = i & MOUNTER};
}

static const char *name_of(int i)
{
	static char name[64];
	struct box_filter_kind kind = kind_of(i);
	(void)snprintf(name, sizeof(name), "%s%s%s", box_filter_name(kind.profile),
		kind.network ? ", network" : "", kind.mounter ? ", mounter" : "");
	return name;
}

static void compile(void)
{
	for (int i = 0; i < KINDS && programs[i].count == 0; i++) {
		static struct box_err err;
		if (box_filter_compile(kind_of(i), &programs[i], &err) < 0) {
			TEST_FAIL("%s: %s", name_of(i), err.text);
		}
	}
}

/* 0, an errno, BOX_FILTER_DONE, or KILLED. */
static int ask(int kind, uint32_t arch, uint32_t number, const uint64_t args[6])
{
	struct seccomp_data call = {.nr = (int)number, .arch = arch};
	uint32_t action;
	memcpy(call.args, args, sizeof(call.args));
	if (!bpf_run(programs[kind].instructions, programs[kind].count, &call, &action)) {
		TEST_FAIL("no verdict for call %u", number);
	}
	if (action == SECCOMP_RET_ALLOW) {
		return 0;
	}
	if (action == SECCOMP_RET_KILL_PROCESS) {
		return KILLED;
	}
	if (action == SECCOMP_RET_ERRNO) {
		return BOX_FILTER_DONE;
	}
	if ((action & SECCOMP_RET_ACTION_FULL) != SECCOMP_RET_ERRNO) {
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

/* The expected program for a row of the table, in this profile. */
static const struct box_filter_rule *rule_of(int kind, const struct box_filter_row *row)
{
	for (size_t i = 0; (kind & MOUNTER) && i < box_filter_mounter_rows_count; i++) {
		if (strcmp(box_filter_mounter_rows[i].name, row->name) == 0) {
			row = &box_filter_mounter_rows[i];
		}
	}
	return row->rules[kind_of(kind).profile];
}

static void expect(int kind, const char *name, const uint64_t args[6], int expected)
{
	int number = box_filter_number(row_of(name));
	if (number == -ENXIO) {
		return;
	}
	int got = ask(kind, NATIVE, (uint32_t)number, args);
	if (got != expected) {
		TEST_FAIL("%s: %s(%#" PRIx64 ", %#" PRIx64 ", %#" PRIx64 ", %#" PRIx64
			  ") is %d, not %d",
			name_of(kind), name, args[0], args[1], args[2], args[3], got, expected);
	}
}

static bool holds(const struct box_filter_case *one, const uint64_t args[6])
{
	for (size_t j = 0; j < BOX_FILTER_MATCHES_MAX; j++) {
		const struct box_filter_match *match = &one->all[j];
		if (((uint32_t)args[match->arg] & match->mask) != match->value) {
			return false;
		}
	}
	for (size_t j = 0; j < one->list.count; j++) {
		if (((uint32_t)args[one->list.arg] & one->list.mask) == one->list.values[j]) {
			return true;
		}
	}
	return one->list.count == 0;
}

/* The meaning of a rule, evaluated in the simplest way. */
static int meaning_of(int kind, const struct box_filter_rule *rule, const uint64_t args[6])
{
	for (size_t i = 0; i < rule->count; i++) {
		const struct box_filter_case *one = &rule->cases[i];
		if ((!one->network || kind_of(kind).network) && holds(one, args)) {
			return one->verdict;
		}
	}
	return rule->otherwise;
}

static void put_bits(uint64_t *arg, uint32_t mask, uint32_t value)
{
	*arg = (*arg & ~(uint64_t)mask) | value;
}

/* Calls around one case and one value of its list: unchanged, with each bit of each argument
 * flipped, and with the neighbours of the value. */
static void hold_case(int kind, const struct box_filter_row *row,
	const struct box_filter_case *wanted, size_t value, uint64_t noise)
{
	const struct box_filter_rule *rule = rule_of(kind, row);
	const struct box_filter_list *list = &wanted->list;
	uint64_t args[6] = {noise, noise, noise, noise, noise, noise};
	for (size_t j = 0; j < BOX_FILTER_MATCHES_MAX; j++) {
		const struct box_filter_match *match = &wanted->all[j];
		put_bits(&args[match->arg], match->mask, match->value);
	}
	if (list->count > 0) {
		put_bits(&args[list->arg], list->mask, list->values[value]);
	}
	ASSERT(holds(wanted, args));
	expect(kind, row->name, args, meaning_of(kind, rule, args));
	for (int arg = 0; arg < 6; arg++) {
		for (int bit = 0; bit < 64; bit++) {
			args[arg] ^= 1ULL << bit;
			expect(kind, row->name, args, meaning_of(kind, rule, args));
			args[arg] ^= 1ULL << bit;
		}
		for (int step = -1; step <= 1; step += 2) {
			args[arg] += (uint64_t)step;
			expect(kind, row->name, args, meaning_of(kind, rule, args));
			args[arg] -= (uint64_t)step;
		}
	}
}

static void hold_row(int kind, const struct box_filter_row *row, uint64_t noise)
{
	const struct box_filter_rule *rule = rule_of(kind, row);
	uint64_t args[6] = {noise, noise, noise, noise, noise, noise};
	expect(kind, row->name, args, meaning_of(kind, rule, args));
	for (size_t c = 0; c < rule->count; c++) {
		size_t values = rule->cases[c].list.count;
		for (size_t v = 0; v < (values > 0 ? values : 1); v++) {
			hold_case(kind, row, &rule->cases[c], v, noise);
		}
	}
}

TEST(the_program_says_what_the_rows_say)
{
	static const uint64_t noises[] = {0, UINT64_MAX, HIGH, 0x5a5a5a5a5a5a5a5aULL};
	compile();
	for (int kind = 0; kind < KINDS; kind++) {
		for (size_t i = 0; i < box_filter_rows_count; i++) {
			for (size_t n = 0; n < COUNT(noises); n++) {
				hold_row(kind, &box_filter_rows[i], noises[n]);
			}
		}
	}
}

/* A case that says the same as the default, or a duplicate value, was meant to be another one. */
static void sound_rule(const struct box_filter_rule *rule)
{
	for (size_t i = 0; i < rule->count; i++) {
		const struct box_filter_list *list = &rule->cases[i].list;
		ASSERT(rule->cases[i].verdict != rule->otherwise);
		for (size_t j = 0; j < list->count; j++) {
			ASSERT_INT(list->values[j] & ~list->mask, 0);
			for (size_t k = 0; k < j; k++) {
				ASSERT(list->values[j] != list->values[k]);
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
			sound_rule(row->rules[profile]);
		}
	}
	for (size_t i = 0; i < box_filter_mounter_rows_count; i++) {
		const struct box_filter_row *row = &box_filter_mounter_rows[i];
		ASSERT(seen[box_filter_number(row)]);
		sound_rule(row->rules[BOX_FILTER_DEFAULT]);
		sound_rule(row->rules[BOX_FILTER_STRICT]);
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
	for (int kind = 0; kind < KINDS; kind++) {
		for (uint32_t number = 0; number < NUMBERS; number++) {
			if (!known[number]) {
				ASSERT_INT(ask(kind, NATIVE, number, args), ENOSYS);
			}
		}
		ASSERT_INT(ask(kind, NATIVE, 0x3fffffff, args), ENOSYS);
		/* What a tracer leaves when it wants no call made. */
		ASSERT_INT(ask(kind, NATIVE, UINT32_MAX, args), ENOSYS);
	}
}

TEST(other_machines_are_killed)
{
	static const uint32_t others[] = {AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_MIPS, 0,
		UINT32_MAX, NATIVE & ~(uint32_t)__AUDIT_ARCH_64BIT, NATIVE ^ __AUDIT_ARCH_LE};
	const uint64_t args[6] = {0};
	compile();
	for (int kind = 0; kind < KINDS; kind++) {
		for (uint32_t number = 0; number < NUMBERS; number++) {
			for (size_t i = 0; i < COUNT(others); i++) {
				ASSERT_INT(ask(kind, others[i], number, args), KILLED);
			}
#if defined(__x86_64__)
			uint32_t x32 = 0x40000000 | number;
			ASSERT_INT(ask(kind, NATIVE, x32, args), KILLED);
			ASSERT_INT(ask(kind, NATIVE, 0x80000000 | x32, args), KILLED);
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
	for (int i = 0; i < KINDS; i++) {
		printf("# %s: %d calls answer, %zu instructions\n", name_of(i),
			answering(kind_of(i).profile), programs[i].count);
		/* Each box is charged for them when it is made. */
		ASSERT(programs[i].count <= 600);
	}
	/* The number in docs/security.md. */
	ASSERT_INT(answering(BOX_FILTER_DEFAULT), 236);
	ASSERT_INT(answering(BOX_FILTER_STRICT), 157);
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
				for (int which = OFF; which <= NETWORK; which++) {
					int kind = KIND(profile, which);
					expect(kind, tables[t].names[i], none, expected);
					expect(kind, tables[t].names[i], all, expected);
				}
			}
		}
	}
}

static void hold_kind(int which, const struct probe *probe)
{
	uint64_t args[6] = {0};
	memcpy(args, probe->args, sizeof(probe->args));
	for (int turn = 0; turn < 2; turn++) {
		expect(KIND(BOX_FILTER_DEFAULT, which), probe->name, args, probe->expected);
		expect(KIND(BOX_FILTER_STRICT, which), probe->name, args, probe->strict);
		args[5] = UINT64_MAX;
	}
}

static void hold(const struct probe *probes, size_t count)
{
	compile();
	for (size_t i = 0; i < count; i++) {
		hold_kind(OFF, &probes[i]);
		hold_kind(NETWORK, &probes[i]);
	}
}

/* Results that also depend on the network. */
static void hold_only(int which, const struct probe *probes, size_t count)
{
	compile();
	for (size_t i = 0; i < count; i++) {
		hold_kind(which, &probes[i]);
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

TEST(options_by_their_numbers)
{
	hold(option_probes, COUNT(option_probes));
}

TEST(memory_by_its_flags)
{
	hold(memory_probes, COUNT(memory_probes));
}

TEST(netlink_is_for_boxes_with_a_network)
{
	hold_only(OFF, netlink_off_probes, COUNT(netlink_off_probes));
	hold_only(NETWORK, netlink_on_probes, COUNT(netlink_on_probes));
}

TEST(the_mounter_attaches_mounts_and_no_more)
{
	hold_only(MOUNTER, mounter_probes, COUNT(mounter_probes));
	hold_only(MOUNTER | NETWORK, mounter_probes, COUNT(mounter_probes));
	/* Calls that commands may make must be allowed for the mounter's children, too. */
	for (size_t i = 0; i < COUNT(everywhere); i++) {
		static const uint64_t none[6];
		expect(KIND(BOX_FILTER_STRICT, MOUNTER), everywhere[i], none, 0);
	}
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

/* Under the real filter; _exit because the leak checker needs ptrace. */
static void live(const struct box_filter *program, bool mounter)
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
	if (syscall(SYS_ioctl, 0, 0x5412, "x") != -1 || errno != EPERM) {
		_exit(5);
	}
	/* A second filter, by both calls. */
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog more = {1, &allow};
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &more) != -1 || errno != EINVAL) {
		_exit(6);
	}
	if (mounter) {
		_exit(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &more) < 0 ? 7 : 0);
	}
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &more) != -1 || errno != EINVAL) {
		_exit(8);
	}
	_exit(0);
}

TEST(the_kernel_takes_the_programs)
{
	compile();
	for (int kind = 0; kind < KINDS; kind++) {
		int status = -1;
		pid_t pid = fork();
		if (pid == 0) {
			live(&programs[kind], kind_of(kind).mounter);
		}
		ASSERT_INT(waitpid(pid, &status, 0), pid);
		ASSERT_INT(status, 0);
		box_filter_free(&programs[kind]);
		ASSERT_INT(programs[kind].count, 0);
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
