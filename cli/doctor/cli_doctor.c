/* box doctor: the table of checks, each of which runs in a child with a timeout, and how the results are
 * printed. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/doctor/check.h"
#include "cli/doctor/probe_child.h"
#include "codec/json.h"

#define EXIT_NO_BOXES 1
#define NAME_WIDTH 16
#define STATE_WIDTH 8
#define REPORT_BYTES_MAX (1 * BOX_MIB)

#define SHORT_MS 5000
#define NETWORK_MS 15000
#define MICROVM_MS (BOX_MICROVM_PROBE_MS + SHORT_MS)
#define BOX_MS 60000 /* more than its steps may take together */

static const struct row {
	const char *name;
	box_check_run *run;
	const char *folder;
	int timeout_ms;
	bool decides; /* when it fails there are no boxes, whatever the other results are */
} rows[] = {
	{"user namespaces", box_check_userns, NULL, SHORT_MS, false},
	{"namespaces", box_check_namespaces, NULL, SHORT_MS, false},
	{"/proc", box_check_proc, NULL, SHORT_MS, false},
	{"mounts", box_check_mounts, NULL, SHORT_MS, false},
	{"tmpfs", box_check_tmpfs, NULL, SHORT_MS, false},
	{"overlay", box_check_overlay, NULL, SHORT_MS, false},
	{"ids", box_check_ids, NULL, SHORT_MS, false},
	{"owners in .", box_check_owners, ".", SHORT_MS, false},
	{"owners in /tmp", box_check_owners, "/tmp", SHORT_MS, false},
	{"cgroups", box_check_cgroups, NULL, SHORT_MS, false},
	{"resources", box_check_resources, NULL, SHORT_MS, false},
	{"quotas", box_check_quotas, NULL, SHORT_MS, false},
	{"landlock", box_check_landlock, NULL, SHORT_MS, false},
	{"seccomp", box_check_seccomp, NULL, SHORT_MS, false},
	{"network", box_check_network, NULL, NETWORK_MS, false},
	{"microVMs", box_check_microvms, NULL, MICROVM_MS, false},
	{"port 5410", box_check_port, NULL, SHORT_MS, false},
	{"programs", box_check_programs, NULL, SHORT_MS, false},
	{"a box", box_check_box, NULL, BOX_MS, true},
	{"sh and python3", box_check_interpreters, NULL, BOX_MS, false},
	{"runtime", box_check_runtime, NULL, NETWORK_MS, true},
};

#define ROWS (BOX_COUNT_OF(rows))

static const char *const state_names[] = {
	[BOX_CHECK_OK] = "ok",
	[BOX_CHECK_LIMITED] = "limited",
	[BOX_CHECK_MISSING] = "missing",
};

/* The text of a check may have parts from the kernel, boxd or paths: makes it one line of UTF-8. */
static void clean(char *text)
{
	for (char *at = text; *at; at++) {
		bool wide = (unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0;
		if ((unsigned char)at[0] < ' ' || at[0] == 0x7f || (wide && at[1])) {
			at[wide] = ' ';
			at[0] = ' ';
		}
	}
	size_t len = strlen(text);
	/* The text may have been cut inside a character. */
	for (int i = 0; i < 3 && len > 0 && !box_utf8_valid(text, len); i++) {
		text[--len] = '\0';
	}
	if (!box_utf8_valid(text, len)) {
		(void)snprintf(text, BOX_CHECK_TEXT_SIZE, "(unreadable)");
	}
}

void box_check_report(struct box_check *check, enum box_check_state state, const char *cure,
	const char *format, ...)
{
	va_list arguments;
	check->state = state;
	va_start(arguments, format);
	(void)vsnprintf(check->text, sizeof(check->text), format, arguments);
	va_end(arguments);
	(void)snprintf(check->cure, sizeof(check->cure), "%s", cure);
}

struct run {
	const struct row *row;
	struct box_check_setup setup;
};

static void run_check(void *arg, void *result)
{
	const struct run *run = arg;
	run->row->run(&run->setup, result);
}

static void try_row(
	const struct cli *cli, const struct row *row, bool boxes, struct box_check *check)
{
	struct run run = {.row = row, .setup = {cli, row->folder, boxes}};
	memset(check, 0, sizeof(*check));
	int r = box_probe_child_run(
		run_check, &run, check, sizeof(*check), row->timeout_ms, cli->options.verbose);
	if (r == -ETIMEDOUT) {
		box_check_report(check, BOX_CHECK_MISSING,
			"box doctor -v may show what it waits for",
			"timed out: no result after %d s", row->timeout_ms / 1000);
	} else if (r < 0) {
		box_check_report(check, BOX_CHECK_MISSING, "box doctor -v may show why",
			"the check itself failed: %s",
			r == -ECHILD ? "its process ended early" : box_err_strerror(-r));
	}
	clean(check->text);
	clean(check->cure);
}

/* Green, yellow or red, unless NO_COLOR is set or stdout is not a terminal. */
static void print_state(enum box_check_state state, bool colours)
{
	static const char *const codes[] = {
		[BOX_CHECK_OK] = "32", [BOX_CHECK_LIMITED] = "33", [BOX_CHECK_MISSING] = "31"};
	(void)printf(colours ? "\033[%sm%-*s\033[0m" : "%.0s%-*s", codes[state], STATE_WIDTH,
		state_names[state]);
}

static void print_check(const struct row *row, const struct box_check *check, bool colours)
{
	print_state(check->state, colours);
	(void)printf(" %-*s %s\n", NAME_WIDTH, row->name, check->text);
	if (check->state != BOX_CHECK_OK && check->cure[0]) {
		(void)printf("%*s fix: %s\n", STATE_WIDTH + 1 + NAME_WIDTH, "", check->cure);
	}
	(void)fflush(stdout); /* some take seconds */
}

static int print_json(const struct cli *cli, const struct box_check *checks, bool boxes)
{
	struct box_value report = box_map_value();
	struct box_value list = box_list_value();
	for (size_t i = 0; i < ROWS; i++) {
		struct box_value one = box_map_value();
		box_map_add(cli->arena, &one, "name", box_cstr(rows[i].name));
		box_map_add(cli->arena, &one, "state", box_cstr(state_names[checks[i].state]));
		box_map_add(cli->arena, &one, "text", box_cstr(checks[i].text));
		box_map_add(cli->arena, &one, "cure",
			box_cstr(checks[i].cure[0] ? checks[i].cure : NULL));
		box_list_add(cli->arena, &list, one);
	}
	box_map_add(cli->arena, &report, "boxes", box_bool(boxes));
	box_map_add(cli->arena, &report, "checks", list);
	struct box_buf text = box_buf(REPORT_BYTES_MAX);
	int r = box_json_encode(&text, &report);
	if (r == 0) {
		(void)printf("%.*s\n", (int)text.len, text.bytes);
	}
	box_buf_free(&text);
	return r;
}

static int doctor_verb(const struct cli *cli)
{
	const char *no_color = getenv("NO_COLOR");
	bool colours = isatty(STDOUT_FILENO) && !(no_color && no_color[0]);
	static struct box_check checks[ROWS];
	bool boxes = true;
	if (cli->options.words.count > 0) {
		return box_cli_usage_error(cli, "takes no arguments");
	}
	if (cli->options.endpoint) {
		return box_cli_usage_error(cli, "checks this host: leave out --endpoint");
	}
	for (size_t i = 0; i < ROWS; i++) {
		try_row(cli, &rows[i], boxes, &checks[i]);
		boxes = boxes && !(rows[i].decides && checks[i].state == BOX_CHECK_MISSING);
		if (!cli->options.json) {
			print_check(&rows[i], &checks[i], colours);
		}
	}
	if (cli->options.json) {
		(void)print_json(cli, checks, boxes);
	} else {
		(void)printf("\nBoxes %s be created on this host.\n", boxes ? "can" : "cannot");
	}
	int code = box_cli_flush();
	return code ? code : boxes ? 0 : EXIT_NO_BOXES;
}

BOX_CLI_VERB(doctor) = {
	.name = "doctor",
	.options = {box_cli_options_common, box_cli_options_json},
	.plain_words = SIZE_MAX,
	.run = doctor_verb,
	.summary = "check whether this host can run boxes",
	.usage = "Usage: box doctor [OPTION]...\n"
		 "Tests everything that boxes need on this host, and says how to fix what fails.\n"
		 "Exit status: 0 when boxes can be created, else 1.\n"
		 "\n"
		 "      --json             print JSON\n" BOX_CLI_LOCAL_USAGE,
};
