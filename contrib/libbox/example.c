/* A program on libbox: runs a command in a box, reads a file there, and says how the runtime is.
 *
 *   cc example.c -o example $(pkg-config --cflags --libs box)
 *   ./example 'echo hello'                                a boxd of its own, as a child
 *   ./example 'echo hello' ws://127.0.0.1:5410            one that listens
 */
#include <stdio.h>

#include "client/calls.h"
#include "client/skill_mounts.h"

static void went_up(void *arg)
{
	(void)arg;
	fprintf(stderr, "up\n");
}

static void went_down(void *arg, const struct box_err *why, int64_t pause_ms)
{
	(void)arg;
	fprintf(stderr, "down: %s; again in %lld ms\n", why->text, (long long)pause_ms);
}

static int failed(const char *what, const struct box_err *err)
{
	const char *name = box_code_name(err->code);
	fprintf(stderr, "%s: %s: %s\n", what, name ? name : "error", err->text);
	return 1;
}

/* The mounts of all skills that this workspace has; none where the runtime keeps no skills. */
static struct box_value mounts_of(struct box_line *line, struct box_arena *arena)
{
	struct box_value answer = box_null();
	struct box_value mounts;
	struct box_value warnings;
	struct box_err err;
	if (box_call_list_skills(line, arena, &answer, &err) < 0) {
		(void)failed("skills", &err);
	}
	box_skill_mounts_for_line(line, arena, &answer, &mounts, &warnings);
	for (uint32_t i = 0; i < warnings.count; i++) {
		fprintf(stderr, "%.*s\n", (int)warnings.items[i].str.len,
			warnings.items[i].str.bytes);
	}
	return mounts;
}

static int work(struct box_line *line, const char *cmd, struct box_arena *arena)
{
	const struct box_value mounts = mounts_of(line, arena);
	const struct box_spec_args spec = {
		.session_id = "example", .cmd = cmd, .timeout_sec = 10, .extra_mounts = &mounts};
	const struct box_file_args file = {.session_id = "example", .path = "."};
	struct box_value answer;
	struct box_err err;
	if (box_call_exec(line, &spec, arena, &answer, &err) < 0) {
		return failed("exec", &err);
	}
	struct box_str out = box_get_str(&answer, "stdout");
	printf("stdout: %.*s\n", (int)out.len, out.bytes);
	printf("exit_code: %lld\n", (long long)box_get_int(&answer, "exit_code", -1));
	if (box_call_file_stat(line, &file, arena, &answer, &err) < 0) {
		return failed("stat", &err);
	}
	struct box_str kind = box_get_str(&answer, "kind");
	printf("kind: %.*s\n", (int)kind.len, kind.bytes);
	if (box_call_status(line, arena, &answer, &err) < 0) {
		return failed("status", &err);
	}
	printf("sessions: %lld\n", (long long)box_get_int(&answer, "active_sessions", -1));
	printf("shares_filesystem: %d\n", box_line_shares_filesystem(line));
	return 0;
}

int main(int argc, char **argv)
{
	static const struct box_line_events events = {went_up, went_down};
	const struct box_line_options options = {
		.client = {.endpoint = argc > 2 ? argv[2] : NULL, .spawn = true},
		.events = &events,
	};
	struct box_line *line;
	struct box_err err;
	if (argc < 2) {
		fprintf(stderr, "usage: example COMMAND [ENDPOINT]\n");
		return 2;
	}
	if (box_line_open(&options, &line, &err) < 0) {
		return failed("open", &err);
	}
	struct box_arena *arena = box_arena_new();
	int code = box_line_wait_up(line, 30000, &err) < 0 ? failed("connect", &err)
							   : work(line, argv[1], arena);
	box_arena_free(arena);
	box_line_close(line);
	return code;
}
