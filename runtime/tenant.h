/* Tenants: on whose behalf a request is made, and the names that follow from that.
 *
 * A tenant is a workspace of an instance at a placement generation. Its sessions are listed under
 * physical ids that contain all three, so that one tenant can never name another's; callers see only
 * their own logical ids.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/value.h"

#define BOX_NAMESPACE_SIZE BOX_TENANT_SIZE

/* Strings live as long as the request that carries the context. Clients older than tenancy send no
 * context: they share the workspace "", a name that no context can have. */
struct box_context {
	struct box_str instance;
	struct box_str workspace;
	int64_t generation;
};

static inline bool box_tenant_same_workspace(
	const struct box_context *a, const struct box_context *b)
{
	return box_str_same(a->instance, b->instance) && box_str_same(a->workspace, b->workspace);
}

/* A deep copy. */
struct box_arena;
struct box_context box_tenant_copy_context(
	struct box_arena *arena, const struct box_context *context);

/* `[A-Za-z0-9][A-Za-z0-9._:-]{0,127}`: the valid form of an instance id. */
bool box_tenant_instance_id_valid(struct box_str id);

/* The durable namespace, without the generation. */
void box_tenant_namespace(const struct box_context *context, char out[BOX_NAMESPACE_SIZE]);

/* Room for every possible physical id. */
#define BOX_PHYSICAL_ID_SIZE (BOX_NAMESPACE_SIZE + 24 + BOX_SESSION_ID_MAX)

/* The start of every physical id of this placement: "NAMESPACE-gN-". Returns its length. */
size_t box_tenant_prefix(const struct box_context *context, char out[BOX_PHYSICAL_ID_SIZE]);

/* The physical id of a logical one. 0, or -EINVAL with BOX_ERR_VALUE. */
int box_tenant_physical_id(const struct box_context *context, struct box_str logical,
	char out[BOX_PHYSICAL_ID_SIZE], struct box_err *err);
