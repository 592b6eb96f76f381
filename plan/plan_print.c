/* Prints a plan as text in columns: one line per fact, in the order in which it is applied.
 *
 * Paths come from callers and may contain anything but NUL: characters that could control a terminal or
 * break a line are printed as \xNN.
 */
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "base/macros.h"
#include "base/utf8.h"
#include "plan/plan.h"

#define FACT_WIDTH 12
#define KIND_WIDTH 8
#define TARGET_WIDTH 20
#define SOURCE_WIDTH 46
#define TEXT_MAX (2 * BOX_PATH_MAX + 64) /* maximum of one column before escaping */

/* Length of the printable character at `at`, or 0: C0 and C1 controls, a backslash, invalid UTF-8. */
static size_t printable(const char *at, size_t left)
{
	unsigned char first = (unsigned char)at[0];
	if (first < 0x80) {
		return first >= 0x20 && first != 0x7f && first != '\\' ? 1 : 0;
	}
	if (first == 0xc2 && left > 1 && (unsigned char)at[1] < 0xa0) {
		return 0;
	}
	for (size_t len = 2; len <= 4 && len <= left; len++) {
		if (box_utf8_valid(at, len)) {
			return len;
		}
	}
	return 0;
}

/* Returns the number of bytes written. */
static size_t put_text(FILE *to, const char *text)
{
	size_t written = 0;
	size_t left = strlen(text);
	while (left > 0) {
		size_t len = printable(text, left);
		if (len > 0) {
			(void)fwrite(text, 1, len, to);
			written += len;
		} else {
			(void)fprintf(to, "\\x%02x", (unsigned char)text[0]);
			written += 4;
			len = 1;
		}
		text += len;
		left -= len;
	}
	return written;
}

/* At least two spaces, so that a long text does not run into the next column. */
static void put_column(FILE *to, const char *text, size_t width)
{
	size_t written = put_text(to, text);
	(void)fprintf(to, "%*s", (int)(written + 2 < width ? width - written : 2), "");
}

static void put_fact(FILE *to, const char *name, const char *value)
{
	put_column(to, name, FACT_WIDTH);
	(void)put_text(to, value);
	(void)fputc('\n', to);
}

/* The largest unit that gives a whole number. */
static void write_size(char *out, size_t room, uint64_t size_bytes)
{
	if (size_bytes % BOX_MIB == 0) {
		(void)snprintf(out, room, "%" PRIu64 " MiB", size_bytes / BOX_MIB);
	} else {
		(void)snprintf(out, room, "%" PRIu64 " KiB", size_bytes / BOX_KIB);
	}
}

static void print_namespaces(const struct box_plan *plan, FILE *to)
{
	static const struct {
		uint64_t flag;
		const char *name;
	} names[] = {{CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"},
		{CLONE_NEWNET, "net"}, {CLONE_NEWIPC, "ipc"}, {CLONE_NEWUTS, "uts"},
		{CLONE_NEWCGROUP, "cgroup"}};

	put_column(to, "namespaces", FACT_WIDTH);
	const char *between = "";
	for (size_t i = 0; i < BOX_COUNT_OF(names); i++) {
		if (plan->namespaces & names[i].flag) {
			(void)fprintf(to, "%s%s", between, names[i].name);
			between = " ";
		}
	}
	(void)fputc('\n', to);
}

static void print_egress(const struct box_egress *egress, FILE *to)
{
	char text[BOX_EGRESS_TEXT];
	if (egress->limited && egress->allow_count == 0) {
		put_fact(to, "allow", "nothing");
	}
	for (uint32_t i = 0; i < egress->allow_count; i++) {
		box_egress_write(&egress->allow[i], text);
		put_fact(to, "allow", text);
	}
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		(void)snprintf(text, sizeof(text), "%u", egress->host_ports[i]);
		put_fact(to, "host port", text);
	}
}

static void print_microvm(const struct box_plan *plan, FILE *to)
{
	char text[128];
	char size[64];
	(void)snprintf(text, sizeof(text),
		"krun, %" PRIu32 " MiB, cpus %" PRIu32 ", must start in %" PRIu32 " s",
		plan->machine.memory_mib, plan->machine.cpus, plan->machine.start_ms / 1000);
	put_fact(to, "machine", text);
	write_size(size, sizeof(size), plan->limit_bytes);
	(void)snprintf(text, sizeof(text), "%s, pids %" PRIu32 "%s", size, plan->limit_pids,
		plan->limited ? "" : "  not enforced");
	put_fact(to, "jail", text);
}

static void print_facts(const struct box_plan *plan, FILE *to)
{
	char text[128];

	put_fact(to, "box", plan->ask->name);
	put_fact(to, "hostname", plan->hostname);
	print_namespaces(plan, to);
	if (plan->ids.count == 1) {
		(void)snprintf(text, sizeof(text), "%" PRIu32 " is who started boxd, no others",
			plan->ids.inside);
	} else {
		(void)snprintf(text, sizeof(text), "%" PRIu32 " to %" PRIu32 ", the box's own",
			plan->ids.inside, plan->ids.inside + plan->ids.count - 1);
	}
	put_fact(to, "ids", text);
	put_fact(to, "groups", plan->drop_groups ? "dropped" : "kept, setgroups denied");
	put_fact(to, "network", plan->network ? "on" : "off");
	print_egress(&plan->ask->egress, to);
	put_fact(to, "filter", box_filter_name(plan->profile));

	const char *held = plan->limited ? "" : "  not enforced";
	char size[64];
	write_size(size, sizeof(size), plan->memory_bytes);
	(void)snprintf(text, sizeof(text), "%s%s", size, held);
	put_fact(to, "memory", text);
	(void)snprintf(text, sizeof(text), "%" PRIu32 "%s", plan->pids, held);
	put_fact(to, "pids", text);
	(void)snprintf(text, sizeof(text), "%" PRIu32 ".%03" PRIu32 "%s", plan->cpu_milli / 1000,
		plan->cpu_milli % 1000, held);
	put_fact(to, "cpus", text);
	(void)snprintf(text, sizeof(text), "%" PRIu64, plan->open_files);
	put_fact(to, "open files", text);
	if (plan->ask->kind == BOX_PLAN_KIND_MICROVM) {
		print_microvm(plan, to);
	}
	if (plan->quota_bytes > 0) {
		write_size(size, sizeof(size), plan->quota_bytes);
		put_fact(to, "workspace", size);
	}
}

static void print_rules(const struct box_plan *plan, FILE *to)
{
	static const char *const words[] = {[BOX_PLAN_MAY_READ] = "read",
		[BOX_PLAN_MAY_WRITE] = "write",
		[BOX_PLAN_MAY_USE] = "use"};

	if (plan->landlock_abi == 0) {
		put_fact(to, "landlock", "none");
		return;
	}
	char text[64];
	(void)snprintf(text, sizeof(text), "abi %d%s", plan->landlock_abi,
		plan->ask->kind == BOX_PLAN_KIND_MICROVM ? ", or what its kernel has" : "");
	put_fact(to, "landlock", text);
	for (size_t i = 0; i < plan->rule_count; i++) {
		put_column(to, "may", KIND_WIDTH);
		put_column(to, words[plan->rules[i].may], KIND_WIDTH);
		(void)put_text(to, plan->rules[i].path);
		(void)fputc('\n', to);
	}
}

static const char *owner_name(const struct box_plan_step *step)
{
	return step->owner == BOX_PLAN_OWNER_PAYLOAD ? "payload" : "init";
}

/* The path of a tree's source: in a jail it is below a folder of its own. */
static const char *entry_of(const struct box_plan_step *step)
{
	return box_plan_path_is_under(step->target, BOX_PLAN_TREES)
		? step->target + strlen(BOX_PLAN_TREES)
		: step->target;
}

static void write_source(char *out, size_t room, const struct box_plan_step *step)
{
	if (step->kind == BOX_PLAN_STEP_TMPFS) {
		char size[64];
		write_size(size, sizeof(size), step->size_bytes);
		(void)snprintf(out, room, "tmpfs %s %" PRIu64 " inodes %04" PRIo32 " %s", size,
			step->inodes, step->mode, owner_name(step));
	} else if (step->kind == BOX_PLAN_STEP_PROC) {
		(void)snprintf(out, room, "proc%s", step->pids_only ? " of processes only" : "");
	} else if (step->kind == BOX_PLAN_STEP_PTS) {
		(void)snprintf(out, room, "devpts");
	} else if (step->tree == BOX_PLAN_TREE_ETC) {
		(void)snprintf(out, room, "own etc");
	} else if (step->tree == BOX_PLAN_TREE_DEV) {
		(void)snprintf(out, room, "own dev");
	} else if (step->tree == BOX_PLAN_TREE_KVM) {
		(void)snprintf(out, room, "own dev with kvm alone");
	} else if (step->tree == BOX_PLAN_TREE_HOST_PATH) {
		(void)snprintf(out, room, "host folder %s", step->source);
	} else {
		/* A rootfs of `/` means that there is none. */
		bool other = strcmp(step->source, "") != 0 && strcmp(step->source, "/") != 0;
		(void)snprintf(out, room, "%s folder %s%s", other ? "rootfs" : "host",
			other ? step->source : "", entry_of(step));
	}
}

static void print_mount(const struct box_plan_step *step, FILE *to)
{
	char source[TEXT_MAX];
	write_source(source, sizeof(source), step);
	put_column(to, "mount", KIND_WIDTH);
	put_column(to, step->target, TARGET_WIDTH);
	put_column(to, source, SOURCE_WIDTH);
	(void)fprintf(to, "%s nosuid%s%s\n", step->read_only ? "ro" : "rw",
		step->devices ? "" : " nodev", step->no_exec ? " noexec" : "");
}

static void print_step(const struct box_plan_step *step, FILE *to)
{
	static const char *const words[] = {[BOX_PLAN_STEP_FOLDER] = "folder",
		[BOX_PLAN_STEP_LINK] = "link",
		[BOX_PLAN_STEP_MASK] = "mask",
		[BOX_PLAN_STEP_FREEZE] = "freeze"};

	switch (step->kind) {
	case BOX_PLAN_STEP_TMPFS:
	case BOX_PLAN_STEP_TREE:
	case BOX_PLAN_STEP_PROC:
	case BOX_PLAN_STEP_PTS:
		print_mount(step, to);
		return;
	case BOX_PLAN_STEP_FOLDER:
		put_column(to, words[step->kind], KIND_WIDTH);
		put_column(to, step->target, TARGET_WIDTH);
		(void)fprintf(to, "%04" PRIo32 " %s\n", step->mode, owner_name(step));
		return;
	case BOX_PLAN_STEP_LINK:
		put_column(to, words[step->kind], KIND_WIDTH);
		put_column(to, step->target, TARGET_WIDTH);
		(void)fputs("to ", to);
		(void)put_text(to, step->source);
		(void)fputc('\n', to);
		return;
	case BOX_PLAN_STEP_MASK:
	case BOX_PLAN_STEP_FREEZE:
		put_column(to, words[step->kind], KIND_WIDTH);
		(void)put_text(to, step->target);
		(void)fputc('\n', to);
		return;
	}
}

void box_plan_print(const struct box_plan *plan, FILE *to)
{
	print_facts(plan, to);
	print_rules(plan, to);
	for (size_t i = 0; i < plan->inside_count; i++) {
		print_step(&plan->inside[i], to);
	}
	for (size_t i = 0; i < plan->step_count; i++) {
		(void)fputs(plan->inside_count > 0 ? "jail " : "", to);
		print_step(&plan->steps[i], to);
	}
	for (const char *const *variable = box_plan_environment; *variable; variable++) {
		put_column(to, "env", KIND_WIDTH);
		(void)put_text(to, *variable);
		(void)fputc('\n', to);
	}
}
