/* Namespaces and physical ids by the rules of the reference; clients compute the same hash themselves. */
#include "runtime/tenant.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/hash.h"
#include "base/limits.h"

#define HASH_DIGITS 24

struct box_context box_tenant_copy_context(
	struct box_arena *arena, const struct box_context *context)
{
	struct box_str instance = context->instance;
	struct box_str workspace = context->workspace;
	return (struct box_context){
		.instance = {box_arena_strndup(arena, instance.bytes, instance.len), instance.len},
		.workspace = {box_arena_strndup(arena, workspace.bytes, workspace.len),
			workspace.len},
		.generation = context->generation,
	};
}

void box_tenant_namespace(const struct box_context *context, char out[BOX_NAMESPACE_SIZE])
{
	const struct box_str parts[] = {context->instance, {"", 1}, context->workspace};
	unsigned char digest[BOX_HASH_SHA256_BYTES];
	char hex[2 * BOX_HASH_SHA256_BYTES + 1];
	box_hash_sha256_parts(parts, 3, digest);
	box_hash_hex(digest, sizeof(digest), hex);
	memcpy(out, "ws-", 3);
	memcpy(out + 3, hex, HASH_DIGITS);
	out[3 + HASH_DIGITS] = '\0';
}

size_t box_tenant_prefix(const struct box_context *context, char out[BOX_PHYSICAL_ID_SIZE])
{
	char name[BOX_NAMESPACE_SIZE];
	box_tenant_namespace(context, name);
	return (size_t)snprintf(
		out, BOX_PHYSICAL_ID_SIZE, "%s-g%" PRId64 "-", name, context->generation);
}

static bool is_alnum(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool box_tenant_instance_id_valid(struct box_str id)
{
	if (id.len == 0 || id.len > BOX_INSTANCE_ID_MAX || !is_alnum(id.bytes[0])) {
		return false;
	}
	for (size_t i = 1; i < id.len; i++) {
		char c = id.bytes[i];
		if (!is_alnum(c) && c != '.' && c != '_' && c != ':' && c != '-') {
			return false;
		}
	}
	return true;
}

static bool is_safe(char c)
{
	return is_alnum(c) || c == '_' || c == '.' || c == '-';
}

int box_tenant_physical_id(const struct box_context *context, struct box_str logical,
	char out[BOX_PHYSICAL_ID_SIZE], struct box_err *err)
{
	logical = box_str_strip(logical);
	if (logical.len == 0) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "Box session_id must not be empty");
	}
	if (logical.len > BOX_SESSION_ID_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"Box session_id must be at most %d bytes", BOX_SESSION_ID_MAX);
	}
	size_t start = box_tenant_prefix(context, out);
	size_t at = start;
	bool in_run = false;
	for (size_t i = 0; i < logical.len; i++) {
		if (is_safe(logical.bytes[i])) {
			out[at++] = logical.bytes[i];
			in_run = false;
		} else if (!in_run) {
			out[at++] = '-';
			in_run = true;
		}
	}
	while (at > start && out[at - 1] == '-') {
		at--;
	}
	out[at] = '\0';
	size_t skip = strspn(out + start, "-");
	if (start + skip >= at) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"Box session_id must contain a valid character");
	}
	memmove(out + start, out + start + skip, at - start - skip);
	out[at - skip] = '\0';
	return 0;
}
