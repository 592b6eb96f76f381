/* Specs from JSON text, and the texts of refusals. */
#pragma once

#include <errno.h>

#include "runtime/spec/spec.h"
#include "tests/unit/lib/json_tree.h"

static inline int parse(
	struct box_arena *arena, const char *text, struct box_spec *spec, struct box_err *err)
{
	struct box_value value = tree(arena, text);
	return box_spec_parse(arena, &value, spec, err);
}

/* {"session_id": "s", MEMBERS} */
static inline int parse_with(
	struct box_arena *arena, const char *members, struct box_spec *spec, struct box_err *err)
{
	return parse(arena,
		box_arena_printf(
			arena, "{\"session_id\":\"s\"%s%s}", members[0] ? "," : "", members),
		spec, err);
}

static inline void expect_refusal(const char *input, int result, const struct box_err *err,
	const char *model, const char *expected)
{
	char wanted[2048];
	(void)snprintf(wanted, sizeof(wanted), "1 validation error for %s\n%s", model, expected);
	if (result != -EINVAL || err->code != BOX_ERR_VALIDATION || err->errnum != EINVAL ||
		strcmp(err->text, wanted) != 0) {
		TEST_FAIL("%s gives %d, code %d, \"%s\", not \"%s\"", input, result, (int)err->code,
			result < 0 ? err->text : "", wanted);
	}
}

static inline char *repeated(struct box_arena *arena, const char *head, char c, size_t count)
{
	size_t len = strlen(head);
	char *text = box_arena_bytes(arena, len + count + 1);
	memcpy(text, head, len);
	memset(text + len, c, count);
	text[len + count] = '\0';
	return text;
}

/* The text of a refusal, after the name of its field if it has one. */
#define NOT_INT "\n  Input should be a valid integer"
#define NOT_INT_TEXT NOT_INT ", unable to parse string as an integer"
#define INT_SIZE "\n  Unable to parse input string as an integer, exceeded maximum size"
#define NOT_REAL "cpus\n  Input should be a valid number"
#define NOT_REAL_TEXT NOT_REAL ", unable to parse string as a number"
#define NOT_FINITE "cpus\n  Input should be a finite number"
#define NOT_BOOL "persistent\n  Input should be a valid boolean"
#define NOT_BOOL_WORD NOT_BOOL ", unable to interpret input"
#define NOT_STR "\n  Input should be a valid string"
#define TIMEOUT "timeout_sec\n  Value error, timeout_sec must be greater than 0"
#define CPUS "cpus\n  Value error, cpus must be greater than 0"
#define NETWORK "network\n  Input should be 'off' or 'on'"
#define MODE "\n  Input should be 'none', 'ro' or 'rw'"
#define WORKDIR "workdir\n  Value error, workdir must be an absolute path inside the sandbox"
#define MOUNT_PATH \
	"mount_path\n  Value error, mount_path must be an absolute path inside the sandbox"
#define HOST_PATH "host_path\n  Value error, host_path must be an absolute host path"
#define UNDER "  Value error, workdir must stay under mount_path when host_path is provided"
#define NORMAL "extra_mounts.0.mount_path\n  Value error, mount_path must be normalized"
#define ARTIFACT                                                                              \
	"extra_mounts.0\n  Value error, Artifact paths require a read-only digest-addressed " \
	"mount and manifest"
#define SKILL                                                                                \
	"skill_name\n  Value error, skill_name can only contain up to 64 letters, numbers, " \
	"hyphens and underscores"
#define ENV_NAME "\n  Value error, env names must not be empty or contain = or NUL"
#define MOUNT(members) "\"extra_mounts\":[{\"host_path\":\"/a\"," members "}]"
