/* Maps merged into a configuration, one after the other. */
#pragma once

#include "runtime/config/config.h"
#include "tests/unit/lib/json_tree.h"

/* What LangBot 4.11 sends without any configuration. */
static const char langbot_default[] =
	"{\"enabled\": true, \"backend\": \"local\", \"limits\": {\"max_sessions\": 64, "
	"\"max_managed_processes\": 64, \"max_completed_processes\": 256, "
	"\"max_workspace_entries\": 100000, \"max_admission_records\": 100000, "
	"\"max_rpc_file_bytes\": 20971520}, \"admission\": {\"required\": false, "
	"\"logical_session_id\": \"global\", \"required_backend\": \"nsjail\", "
	"\"max_sessions\": 1, "
	"\"max_managed_processes\": 0, \"max_grant_ttl_sec\": 300, \"max_timeout_sec\": 120, "
	"\"cpus\": 1.0, \"memory_mb\": 512, \"pids_limit\": 128, \"read_only_rootfs\": true, "
	"\"workspace_quota_mb\": 0, \"readiness_cache_sec\": 15}, \"local\": {\"profile\": "
	"\"default\", \"image\": \"\", \"host_root\": \"./data/box\", \"default_workspace\": \"\", "
	"\"allowed_mount_roots\": [\"./data/box\", \"/tmp\"], \"workspace_quota_mb\": null}, "
	"\"default_memory_mb\": 1536, \"docker\": {\"cpu_limit_enabled\": true}, \"e2b\": "
	"{\"api_key\": \"\", \"api_url\": \"\", \"template\": \"\"}}";

static struct box_arena *arena; /* of the test: each runs in a process of its own */
static struct box_err err;

static inline int merge_value(
	struct box_config **config, const struct box_value *map, enum box_config_origin origin)
{
	struct box_config *fresh = NULL;
	int result = box_config_merge(*config, map, origin, "/here", &fresh, &err);
	if (result == 0) {
		box_config_free(*config);
		*config = fresh;
	} else {
		ASSERT(fresh == NULL);
	}
	return result;
}

static inline int merge_as(
	struct box_config **config, const char *text, enum box_config_origin origin)
{
	if (!arena) {
		arena = box_arena_new();
	}
	struct box_value map = tree(arena, text);
	return merge_value(config, &map, origin);
}

static inline int merge(struct box_config **config, const char *text)
{
	return merge_as(config, text, BOX_CONFIG_CLIENT);
}

static inline const char *joined(const char *const *texts)
{
	const char *all = "";
	for (; texts && *texts; texts++) {
		all = box_arena_printf(arena, "%s%s ", all, *texts);
	}
	return all;
}

static inline void finish(struct box_config *config)
{
	box_config_free(config);
	box_arena_free(arena);
}
