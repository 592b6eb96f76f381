/* The last checks: a real box, created by a boxd of our own, and the programs in it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/doctor/check.h"
#include "cli/doctor/diagnose.h"

#define CALL_MS 10000
#define SESSION "doctor"
#define PYTHON_MAJOR 3
#define PYTHON_MINOR 8 /* what LangBot's tools for files are written for */

struct trial {
	struct box_arena *arena;
	struct box_client *client;
	struct box_value answer;
	struct box_err err;
	char last_line[BOX_CHECK_TEXT_SIZE]; /* of the log of a boxd that failed */
};

static void keep_line(void *arg, const char *line)
{
	struct trial *trial = arg;
	(void)snprintf(trial->last_line, sizeof(trial->last_line), "%s", line);
}

/* Starts a boxd for native boxes, whatever the configuration in the environment is. */
static int trial_open(struct trial *trial, const struct cli *cli)
{
	*trial = (struct trial){.arena = box_arena_new()};
	const struct box_client_options options = {
		.spawn = true,
		.show_log = cli->options.verbose,
		.log_line = keep_line,
		.log_arg = trial,
	};
	struct box_value config = box_map_value();
	box_map_add(trial->arena, &config, "backend", box_cstr("native"));
	int r = box_client_open(&options, &trial->client, &trial->err);
	return r < 0 ? r
		     : box_client_call(trial->client, "box_init", &config, CALL_MS, trial->arena,
			       &trial->answer, &trial->err);
}

static void trial_close(struct trial *trial)
{
	box_client_close(trial->client);
	box_arena_free(trial->arena);
}

/* *ret_us is the duration of the round trip. */
static int trial_exec(struct trial *trial, const char *cmd, uint64_t *ret_us)
{
	struct box_value spec = box_map_value();
	box_map_add(trial->arena, &spec, "session_id", box_cstr(SESSION));
	box_map_add(trial->arena, &spec, "cmd", box_cstr(cmd));
	uint64_t begun_us = box_clock_us();
	int r = box_client_call(trial->client, "box_exec", &spec, CALL_MS, trial->arena,
		&trial->answer, &trial->err);
	*ret_us = box_clock_us() - begun_us;
	return r;
}

static int64_t exit_code(const struct trial *trial)
{
	const struct box_value *code = box_map_get(&trial->answer, "exit_code");
	return code && code->type == BOX_INT ? code->integer : -1;
}

static void report_failure(
	const struct trial *trial, struct box_check *check, enum box_check_state state)
{
	box_check_report(check, state, "see the lines above; box doctor -v shows boxd's log",
		"%s%s%s", trial->err.text, trial->last_line[0] ? ": " : "", trial->last_line);
}

void box_check_box(const struct box_check_setup *setup, struct box_check *check)
{
	struct trial trial;
	uint64_t first_us = 0;
	uint64_t second_us = 0;
	int r = trial_open(&trial, setup->cli);
	if (r == 0) {
		r = trial_exec(&trial, "true", &first_us);
	}
	if (r == 0 && exit_code(&trial) == 0) {
		r = trial_exec(&trial, "true", &second_us);
	}
	if (r < 0) {
		report_failure(&trial, check, BOX_CHECK_MISSING);
	} else if (exit_code(&trial) != 0) {
		box_check_report(check, BOX_CHECK_MISSING,
			"see the lines above; box doctor -v shows boxd's log",
			"`true` ended with code %lld in a box", (long long)exit_code(&trial));
	} else {
		box_check_report(check, BOX_CHECK_OK, "",
			"`true` ran in a new box in %.1f ms, and again in %.1f ms",
			(double)first_us / 1000, (double)second_us / 1000);
	}
	trial_close(&trial);
}

/* The first line of stdout, up to the first character that is not printable ASCII. */
static void first_line(const struct trial *trial, char *line, size_t size)
{
	const struct box_value *out = box_map_get(&trial->answer, "stdout");
	struct box_str text = out && out->type == BOX_STR ? out->str : box_str("");
	size_t len = 0;
	while (len < text.len && len + 1 < size && (unsigned char)text.bytes[len] >= ' ' &&
		(unsigned char)text.bytes[len] < 0x7f) {
		line[len] = text.bytes[len];
		len++;
	}
	line[len] = '\0';
}

void box_check_interpreters(const struct box_check_setup *setup, struct box_check *check)
{
	static const char ask[] =
		"command -v python3 >/dev/null || exit 44\n"
		"exec python3 -c 'import sys; print(\"%d.%d.%d\" % sys.version_info[:3])'";
	static const char cure[] = "install python3 (3.8 or later) on the host, or name a root "
				   "folder with it in boxd --config (local.rootfs)";
	struct trial trial;
	char version[64];
	uint64_t took_us;
	if (!setup->boxes) {
		box_check_report(check, BOX_CHECK_LIMITED, "", "skipped: boxes cannot be created");
		return;
	}
	int r = trial_open(&trial, setup->cli);
	if (r == 0) {
		r = trial_exec(&trial, ask, &took_us);
	}
	first_line(&trial, version, sizeof(version));
	if (r < 0) {
		report_failure(&trial, check, BOX_CHECK_LIMITED);
	} else if (exit_code(&trial) == 44) {
		box_check_report(check, BOX_CHECK_LIMITED, cure,
			"sh works in boxes; python3, which LangBot's file tools need, is missing");
	} else if (exit_code(&trial) != 0) {
		box_check_report(check, BOX_CHECK_LIMITED, cure,
			"python3 does not start in boxes: code %lld", (long long)exit_code(&trial));
	} else if (!box_diagnose_version(version, PYTHON_MAJOR, PYTHON_MINOR)) {
		box_check_report(check, BOX_CHECK_LIMITED, cure,
			"python3 in boxes is %s: LangBot's file tools need 3.8", version);
	} else {
		box_check_report(
			check, BOX_CHECK_OK, "", "sh and python3 %s work in boxes", version);
	}
	trial_close(&trial);
}
