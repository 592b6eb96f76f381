/* Compiles the table into a BPF program: a binary tree over the system call numbers, followed, for each
 * call whose arguments matter, by its cases in order.
 *
 * Installing the program costs time per instruction in each box. So the trees consist of ranges of
 * equal answers, and all leaves with the same answer share one instruction. Conditional jumps reach 255
 * instructions: a longer jump fails to compile, and so do the tests.
 */
#include "plan/filter.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/macros.h"
#include "plan/filter_table.h"

#define NUMBERS 1024
#define RULES_MAX 64 /* calls whose arguments matter */
#define SPANS_MAX (NUMBERS + 2)

/* The bit that marks x32 calls. It is also set in the number with which a tracer skips a call. */
#define X32 0x40000000U
#define NO_CALL UINT32_MAX

/* The target of a jump is known when the code at the target is emitted. */
#define LABELS_MAX (RULES_MAX + 8)
struct edge {
	size_t from;
	bool taken; /* when the condition is true */
	size_t label;
};

struct edges {
	struct edge list[2 * SPANS_MAX];
	size_t count;
};

/* Values from `first` up to the next span have the same label. */
struct span {
	uint32_t first;
	size_t label;
};

struct spans {
	struct span list[SPANS_MAX];
	size_t count;
};

/* A leaf of the tree: an action, or a rule that checks arguments. */
struct leaf {
	uint32_t action;
	const struct box_filter_rule *rule; /* NULL: the action */
	size_t at;                          /* in the program */
};

struct leaves {
	struct leaf list[LABELS_MAX];
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
		/* Negative numbers in libseccomp are calls of other architectures. */
		return number >= 0 ? number : -ENXIO;
	}
	return row->number > 0 ? row->number : -ENOENT;
}

static uint32_t action_of(int verdict)
{
	if (verdict == BOX_FILTER_DONE) {
		return SECCOMP_RET_ERRNO; /* 0 */
	}
	return verdict == 0 ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | (uint32_t)verdict;
}

/* --- instructions and jumps --- */

static int emit(struct box_filter *program, struct sock_filter instruction)
{
	if (program->count == BPF_MAXINSNS) {
		return -E2BIG;
	}
	program->instructions[program->count++] = instruction;
	return 0;
}

static int add_edge(struct edges *edges, size_t from, bool taken, size_t label)
{
	if (edges->count == BOX_COUNT_OF(edges->list)) {
		return -E2BIG;
	}
	edges->list[edges->count++] = (struct edge){from, taken, label};
	return 0;
}

static int set_jump(struct box_filter *program, size_t from, bool taken, size_t to)
{
	size_t distance = to - from - 1;
	if (distance > UINT8_MAX) {
		return -E2BIG;
	}
	struct sock_filter *instruction = &program->instructions[from];
	*(taken ? &instruction->jt : &instruction->jf) = (uint8_t)distance;
	return 0;
}

/* Sets all jumps to `label` to the next instruction. */
static int put_label(struct box_filter *program, const struct edges *edges, size_t label)
{
	for (size_t i = 0; i < edges->count; i++) {
		const struct edge *edge = &edges->list[i];
		int r = edge->label == label
			? set_jump(program, edge->from, edge->taken, program->count)
			: 0;
		if (r < 0) {
			return r;
		}
	}
	return 0;
}

static void add_span(struct spans *spans, uint32_t first, size_t label)
{
	if (spans->count == 0 || spans->list[spans->count - 1].label != label) {
		spans->list[spans->count++] = (struct span){first, label};
	}
}

/* At least two spans, with the value loaded: one comparison between two neighbours. The half below the
 * middle comes first. */
static int emit_tree(
	struct box_filter *program, struct edges *edges, const struct span *spans, size_t count)
{
	size_t half = count / 2;
	size_t branch = program->count;
	int r = emit(program,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, spans[half].first, 0, 0));
	if (r == 0) {
		r = half == 1 ? add_edge(edges, branch, false, spans[0].label)
			      : emit_tree(program, edges, spans, half);
	}
	if (r < 0 || count - half == 1) {
		return r < 0 ? r : add_edge(edges, branch, true, spans[half].label);
	}
	r = set_jump(program, branch, true, program->count);
	return r < 0 ? r : emit_tree(program, edges, spans + half, count - half);
}

/* --- a call whose arguments matter --- */

enum {
	CASE_FAILS,
	CASE_HOLDS
};

/* The low half of an argument, masked. */
static int emit_load(struct box_filter *program, unsigned arg, uint32_t mask)
{
	size_t offset = offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	offset += sizeof(uint32_t);
#endif
	int r = emit(
		program, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
	if (r == 0 && mask != UINT32_MAX) {
		r = emit(program, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
	}
	return r;
}

static int emit_match(
	struct box_filter *program, struct edges *edges, const struct box_filter_match *match)
{
	int r = emit_load(program, match->arg, match->mask);
	if (r < 0) {
		return r;
	}
	r = add_edge(edges, program->count, false, CASE_FAILS);
	return r < 0 ? r
		     : emit(program,
			       (struct sock_filter)BPF_JUMP(
				       BPF_JMP | BPF_JEQ | BPF_K, match->value, 0, 0));
}

static int compare_values(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a;
	uint32_t right = *(const uint32_t *)b;
	return left < right ? -1 : left > right;
}

static int emit_list(
	struct box_filter *program, struct edges *edges, const struct box_filter_list *list)
{
	uint32_t values[NUMBERS / 2];
	struct spans spans = {.count = 0};
	if (list->count > BOX_COUNT_OF(values)) {
		return -E2BIG;
	}
	memcpy(values, list->values, list->count * sizeof(values[0]));
	qsort(values, list->count, sizeof(values[0]), compare_values);
	if (values[0] > 0) {
		add_span(&spans, 0, CASE_FAILS);
	}
	for (size_t i = 0; i < list->count; i++) {
		add_span(&spans, values[i], CASE_HOLDS);
		bool last = i + 1 == list->count;
		if (values[i] < UINT32_MAX && (last || values[i + 1] > values[i] + 1)) {
			add_span(&spans, values[i] + 1, CASE_FAILS);
		}
	}
	int r = emit_load(program, list->arg, list->mask);
	return r < 0 ? r : emit_tree(program, edges, spans.list, spans.count);
}

static int emit_case(struct box_filter *program, const struct box_filter_case *wanted)
{
	struct edges edges = {.count = 0};
	int r = 0;
	for (size_t i = 0; r == 0 && i < BOX_FILTER_MATCHES_MAX && wanted->all[i].mask != 0; i++) {
		r = emit_match(program, &edges, &wanted->all[i]);
	}
	if (r == 0 && wanted->list.count > 0) {
		r = emit_list(program, &edges, &wanted->list);
	}
	if (r < 0) {
		return r;
	}
	r = put_label(program, &edges, CASE_HOLDS);
	if (r < 0) {
		return r;
	}
	r = emit(
		program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action_of(wanted->verdict)));
	return r < 0 ? r : put_label(program, &edges, CASE_FAILS);
}

static int emit_rule(struct box_filter *program, const struct box_filter_rule *rule, bool network)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < rule->count; i++) {
		if (network || !rule->cases[i].network) {
			r = emit_case(program, &rule->cases[i]);
		}
	}
	return r < 0 ? r
		     : emit(program,
			       (struct sock_filter)BPF_STMT(
				       BPF_RET | BPF_K, action_of(rule->otherwise)));
}

/* --- the tree over the numbers --- */

static int find_leaf(struct leaves *leaves, uint32_t action, const struct box_filter_rule *rule)
{
	for (size_t i = 0; !rule && i < leaves->count; i++) {
		if (!leaves->list[i].rule && leaves->list[i].action == action) {
			return (int)i;
		}
	}
	if (leaves->count == LABELS_MAX) {
		return -E2BIG;
	}
	leaves->list[leaves->count] = (struct leaf){action, rule, 0};
	return (int)leaves->count++;
}

static int add_numbers(struct spans *spans, struct leaves *leaves, uint32_t first, uint32_t action,
	const struct box_filter_rule *rule)
{
	int leaf = find_leaf(leaves, action, rule);
	if (leaf >= 0) {
		add_span(spans, first, (size_t)leaf);
	}
	return leaf < 0 ? leaf : 0;
}

static int take_rows(const struct box_filter_row *rows, size_t count,
	enum box_filter_profile profile, const struct box_filter_rule *rules[NUMBERS],
	struct box_err *err)
{
	for (size_t i = 0; i < count; i++) {
		int number = box_filter_number(&rows[i]);
		if (number == -ENXIO) {
			continue;
		}
		if (number < 0 || number >= NUMBERS) {
			return box_err_set(err, BOX_ERR_OS, ENOENT,
				"seccomp: the call %s has no number", rows[i].name);
		}
		rules[number] = rows[i].rules[profile];
	}
	return 0;
}

static int find_spans(const struct box_filter_rule *const rules[NUMBERS], struct spans *spans,
	struct leaves *leaves)
{
	int r = 0;
	for (uint32_t number = 0; r == 0 && number < NUMBERS; number++) {
		const struct box_filter_rule *rule = rules[number];
		uint32_t action = action_of(rule ? rule->otherwise : ENOSYS);
		r = add_numbers(
			spans, leaves, number, action, rule && rule->count > 0 ? rule : NULL);
	}
	if (r == 0 && seccomp_arch_native() == SCMP_ARCH_X86_64) {
		r = add_numbers(spans, leaves, X32, SECCOMP_RET_KILL_PROCESS, NULL);
		if (r < 0) {
			return r;
		}
		r = add_numbers(spans, leaves, NO_CALL, action_of(ENOSYS), NULL);
	}
	return r;
}

static int emit_head(struct box_filter *program)
{
	const struct sock_filter head[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, seccomp_arch_native(), 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < BOX_COUNT_OF(head); i++) {
		r = emit(program, head[i]);
	}
	return r;
}

/* A leaf that checks arguments is a jump; its target is set when it is known. */
static int emit_leaves(struct box_filter *program, const struct edges *edges, struct leaves *leaves)
{
	int r = 0;
	for (size_t i = 0; r == 0 && i < leaves->count; i++) {
		struct leaf *leaf = &leaves->list[i];
		leaf->at = program->count;
		r = put_label(program, edges, i);
		if (r == 0) {
			r = emit(program,
				leaf->rule ? (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 0)
					   : (struct sock_filter)BPF_STMT(
						     BPF_RET | BPF_K, leaf->action));
		}
	}
	return r;
}

static int emit_all(
	struct box_filter *program, const struct spans *spans, struct leaves *leaves, bool network)
{
	struct edges edges = {.count = 0};
	int r = emit_head(program);
	if (r < 0) {
		return r;
	}
	r = emit_tree(program, &edges, spans->list, spans->count);
	if (r < 0) {
		return r;
	}
	r = emit_leaves(program, &edges, leaves);
	for (size_t i = 0; r == 0 && i < leaves->count; i++) {
		const struct leaf *leaf = &leaves->list[i];
		if (leaf->rule) {
			program->instructions[leaf->at].k =
				(uint32_t)(program->count - leaf->at - 1);
			r = emit_rule(program, leaf->rule, network);
		}
	}
	return r;
}

int box_filter_compile(
	struct box_filter_kind kind, struct box_filter *ret_filter, struct box_err *err)
{
	const struct box_filter_rule *rules[NUMBERS] = {NULL};
	struct spans spans = {.count = 0};
	struct leaves leaves = {.count = 0};
	int r = take_rows(box_filter_rows, box_filter_rows_count, kind.profile, rules, err);
	if (r == 0 && kind.mounter) {
		r = take_rows(box_filter_mounter_rows, box_filter_mounter_rows_count, kind.profile,
			rules, err);
	}
	if (r < 0) {
		return r;
	}
	struct box_filter program = {
		.instructions = calloc(BPF_MAXINSNS, sizeof(struct sock_filter))};
	r = program.instructions ? find_spans(rules, &spans, &leaves) : -ENOMEM;
	if (r == 0) {
		r = emit_all(&program, &spans, &leaves, kind.network);
	}
	if (r < 0) {
		box_filter_free(&program);
		return box_err_set(err, BOX_ERR_OS, -r, "seccomp: no program for %s: %s",
			names[kind.profile], box_err_strerror(-r));
	}
	size_t size_bytes = program.count * sizeof(struct sock_filter);
	/* NOLINTNEXTLINE(clang-analyzer-optin.portability.UnixAPI): every program has a head */
	struct sock_filter *fitting = realloc(program.instructions, size_bytes);
	program.instructions = fitting ? fitting : program.instructions;
	*ret_filter = program;
	return 0;
}

void box_filter_free(struct box_filter *filter)
{
	free(filter->instructions);
	*filter = (struct box_filter){NULL, 0};
}
