/* Makes the program from the table. libseccomp knows the numbers and makes the parts that look at
 * arguments, each with two verdicts only: it orders comparisons as it likes, so none may matter.
 *
 * The tree over the numbers is made here, of spans of equal answers: shorter than with a leaf for
 * every call, and each box pays for every instruction when the program is installed.
 */
#include "runtime/plan/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "runtime/plan/filter_table.h"

#define NUMBERS 1024

/* The bit that marks calls of x32. What a tracer leaves behind to have no call done has it too. */
#define X32 0x40000000U
#define NO_CALL UINT32_MAX

/* Numbers from `first` up to the next span are answered alike: by an action, or, when it is one
 * call with a rule, by the program that looks at its arguments. */
struct span {
	uint32_t first;
	uint32_t action;
	const struct box_filter_rule *rule;
	size_t leaf; /* where it stands in the program */
};

struct spans {
	struct span list[NUMBERS + 2];
	size_t count;
};

static const char *const names[BOX_FILTERS_] = {
	[BOX_FILTER_DEFAULT] = "default", [BOX_FILTER_STRICT] = "strict"};

const char *box_filter_name(enum box_filter_profile profile)
{
	return names[profile];
}

int box_filter_find(const char *name)
{
	for (int i = 0; i < BOX_FILTERS_; i++) {
		if (strcmp(names[i], name) == 0) {
			return i;
		}
	}
	return -ENOENT;
}

int box_filter_number(const struct box_filter_row *row)
{
	int number = seccomp_syscall_resolve_name(row->name);
	if (number != __NR_SCMP_ERROR) {
		/* Below zero libseccomp counts the calls that other machines have. */
		return number >= 0 ? number : -ENXIO;
	}
	return row->number > 0 ? row->number : -ENOENT;
}

static void release(scmp_filter_ctx *filter)
{
	if (*filter) {
		seccomp_release(*filter);
	}
}

static uint32_t action_of(int verdict)
{
	return verdict == 0 ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO((uint32_t)verdict);
}

/* Room for `more` instructions behind those that are there. */
static int reserve(struct box_filter *program, size_t more)
{
	if (more > BPF_MAXINSNS - program->count) {
		return -E2BIG;
	}
	size_t size_bytes = (program->count + more) * sizeof(struct sock_filter);
	struct sock_filter *instructions = realloc(program->instructions, size_bytes);
	if (!instructions) {
		return -ENOMEM;
	}
	program->instructions = instructions;
	return 0;
}

static int emit(struct box_filter *program, struct sock_filter instruction)
{
	int r = reserve(program, 1);
	if (r == 0) {
		program->instructions[program->count++] = instruction;
	}
	return r;
}

static int emit_exported(struct box_filter *program, scmp_filter_ctx filter)
{
	_cleanup_(box_close_p) int fd = memfd_create("filter", MFD_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	int r = seccomp_export_bpf(filter, fd);
	if (r < 0) {
		return r;
	}
	struct stat st;
	if (fstat(fd, &st) < 0) {
		return -errno;
	}
	size_t more = (size_t)st.st_size / sizeof(struct sock_filter);
	r = reserve(program, more);
	if (r < 0) {
		return r;
	}
	size_t size_bytes = more * sizeof(struct sock_filter);
	ssize_t got = pread(fd, program->instructions + program->count, size_bytes, 0);
	if (got != (ssize_t)size_bytes) {
		return got < 0 ? -errno : -EIO;
	}
	program->count += more;
	return 0;
}

static int add_case(
	scmp_filter_ctx filter, int number, int verdict, const struct box_filter_case *wanted)
{
	struct scmp_arg_cmp matches[BOX_FILTER_MATCHES_MAX];
	unsigned count = 0;
	while (count < BOX_FILTER_MATCHES_MAX && wanted->all[count].mask != 0) {
		const struct box_filter_match *match = &wanted->all[count];
		matches[count++] = SCMP_CMP64(
			match->arg, SCMP_CMP_MASKED_EQ, match->mask, match->value);
	}
	return seccomp_rule_add_array(filter, action_of(verdict), number, count, matches);
}

/* The program for one call whose arguments matter. */
static int emit_rule(
	struct box_filter *program, uint32_t number, const struct box_filter_rule *rule)
{
	_cleanup_(release) scmp_filter_ctx filter = seccomp_init(action_of(rule->otherwise));
	if (!filter) {
		return -ENOMEM;
	}
	int r = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	for (size_t i = 0; r == 0 && i < rule->count; i++) {
		r = add_case(filter, (int)number, rule->matched, &rule->cases[i]);
	}
	return r < 0 ? r : emit_exported(program, filter);
}

/* A leaf that goes on elsewhere gets its target when that is known. */
static int emit_leaf(struct box_filter *program, struct span *span)
{
	span->leaf = program->count;
	return span->rule
		? emit(program, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0))
		: emit(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, span->action));
}

/* With the number loaded. A conditional jump reaches 255 instructions, which is 256 spans. */
static int emit_tree(struct box_filter *program, struct span *spans, size_t count)
{
	if (count == 1) {
		return emit_leaf(program, spans);
	}
	size_t half = count / 2;
	size_t branch = program->count;
	int r = emit(program,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, spans[half].first, 0, 0));
	if (r == 0) {
		r = emit_tree(program, spans, half);
	}
	if (r < 0) {
		return r;
	}
	size_t distance = program->count - branch - 1;
	if (distance > UINT8_MAX) {
		return -E2BIG;
	}
	program->instructions[branch].jt = (uint8_t)distance;
	return emit_tree(program, spans + half, count - half);
}

static void add_span(
	struct spans *spans, uint32_t first, uint32_t action, const struct box_filter_rule *rule)
{
	const struct span *last = spans->count > 0 ? &spans->list[spans->count - 1] : NULL;
	if (rule || !last || last->rule || last->action != action) {
		spans->list[spans->count++] = (struct span){first, action, rule, 0};
	}
}

static int find_spans(enum box_filter_profile profile, struct spans *spans, struct box_err *err)
{
	const struct box_filter_rule *rules[NUMBERS] = {NULL};
	for (size_t i = 0; i < box_filter_rows_count; i++) {
		const struct box_filter_row *row = &box_filter_rows[i];
		int number = box_filter_number(row);
		if (number == -ENXIO) {
			continue;
		}
		if (number < 0 || number >= NUMBERS) {
			return box_err_set(err, BOX_ERR_OS, ENOENT,
				"seccomp: the call %s has no number", row->name);
		}
		rules[number] = row->rules[profile];
	}
	for (uint32_t number = 0; number < NUMBERS; number++) {
		const struct box_filter_rule *rule = rules[number];
		uint32_t action = action_of(rule ? rule->otherwise : ENOSYS);
		add_span(spans, number, action, rule && rule->count > 0 ? rule : NULL);
	}
	if (seccomp_arch_native() == SCMP_ARCH_X86_64) {
		add_span(spans, X32, SCMP_ACT_KILL_PROCESS, NULL);
		add_span(spans, NO_CALL, action_of(ENOSYS), NULL);
	}
	return 0;
}

static int emit_head(struct box_filter *program)
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SCMP_ACT_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof(head) / sizeof(head[0]); i++) {
		r = emit(program, head[i]);
	}
	return r;
}

static int emit_all(struct box_filter *program, struct spans *spans)
{
	int r = emit_head(program);
	if (r == 0) {
		r = emit_tree(program, spans->list, spans->count);
	}
	for (size_t i = 0; r == 0 && i < spans->count; i++) {
		const struct span *span = &spans->list[i];
		if (span->rule) {
			program->instructions[span->leaf].k =
				(uint32_t)(program->count - span->leaf - 1);
			r = emit_rule(program, span->first, span->rule);
		}
	}
	return r;
}

int box_filter_compile(
	enum box_filter_profile profile, struct box_filter *ret_filter, struct box_err *err)
{
	struct box_filter program = {NULL, 0};
	struct spans spans = {.count = 0};
	int r = find_spans(profile, &spans, err);
	if (r < 0) {
		return r;
	}
	r = emit_all(&program, &spans);
	if (r < 0) {
		box_filter_free(&program);
		return box_err_set(err, BOX_ERR_OS, -r, "seccomp: no program for %s: %s",
			names[profile], strerror(-r));
	}
	*ret_filter = program;
	return 0;
}

void box_filter_free(struct box_filter *filter)
{
	free(filter->instructions);
	*filter = (struct box_filter){NULL, 0};
}
