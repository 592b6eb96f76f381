/* Whose skills, and where. */
#include "runtime/skill_store.h"

#include <stdio.h>

#include "runtime/runtime.h"

void box_skill_store_request(struct box_runtime *runtime, const struct box_context *context,
	struct box_skill_store_request *ask)
{
	/* A copy: another configuration may come while it waits. */
	(void)snprintf(ask->root, sizeof(ask->root), "%s", runtime->config->skills_root);
	ask->refused = false;
	box_tenant_namespace(context, ask->namespace);
	box_list_init(&ask->links);
	runtime->host->ask_skills(runtime->host_arg, ask);
}

void box_skill_store_cancel(struct box_runtime *runtime, struct box_skill_store_request *ask)
{
	runtime->host->cancel_skills(runtime->host_arg, ask);
}
