/* What one spec may ask for and what one workspace may have: defaults, refusals, edges. */
#include <errno.h>
#include <string.h>

#include "base/limits.h"
#include "base/macros.h"
#include "runtime/config/ceilings.h"
#include "runtime/config/config.h"
#include "runtime/spec/spec.h"
#include "tests/unit/lib/config_merge.h"
#include "tests/unit/lib/json_tree.h"

static const struct box_ceilings_host_size large = {.memory_mb = 24000, .cpus = 8};

static struct box_ceilings defaults(const struct box_ceilings_host_size *host)
{
	struct box_config *config = box_config_default();
	struct box_ceilings ceilings = box_ceilings_from_limits(&config->limits, host);
	box_config_free(config);
	return ceilings;
}

static struct box_spec usual(void)
{
	return (struct box_spec){.memory_mb = 512, .cpus = 1, .pids_limit = 128, .timeout_sec = 30};
}

TEST(what_nobody_has_written)
{
	struct box_ceilings ceilings = defaults(&large);
	ASSERT_INT(ceilings.memory_mb, 24000);
	ASSERT_INT(ceilings.cpus, 8);
	ASSERT_INT(ceilings.pids, 4096);
	ASSERT_INT(ceilings.timeout_sec, 0);
	/* One workspace leaves an eighth to the others. */
	ASSERT_INT(ceilings.workspace_sessions, 56);
	ASSERT_INT(ceilings.workspace_processes, 56);
	ASSERT_INT(ceilings.workspace_memory_mb, 0);
	ASSERT_INT(ceilings.workspace_artifact_mb, 768);
	ASSERT_INT(ceilings.promised_memory_mb, 0);
}

TEST(small_and_unknown_hosts)
{
	/* The largest profile of LangBot asks for 2 cpus and 1024 MB, its MCP servers for 1536. */
	struct box_ceilings ceilings = defaults(
		&(struct box_ceilings_host_size){.memory_mb = 957, .cpus = 1});
	ASSERT_INT(ceilings.memory_mb, 2048);
	ASSERT_INT(ceilings.cpus, 2);
	ceilings = defaults(&(struct box_ceilings_host_size){0});
	ASSERT_INT(ceilings.memory_mb, 0);
	ASSERT_INT(ceilings.cpus, 0);
}

TEST(shares_of_few_are_all)
{
	ASSERT_INT(box_ceilings_share(0), 0);
	ASSERT_INT(box_ceilings_share(1), 1);
	ASSERT_INT(box_ceilings_share(7), 7);
	ASSERT_INT(box_ceilings_share(8), 7);
	ASSERT_INT(box_ceilings_share(64), 56);
	ASSERT_INT(box_ceilings_artifact_share(1024), 768);
	ASSERT_INT(box_ceilings_artifact_share(512), 256);
	ASSERT_INT(box_ceilings_artifact_share(511), 256);
	ASSERT_INT(box_ceilings_artifact_share(1), 1);
}

TEST(the_operators_own)
{
	struct box_config *config = box_config_default();
	ASSERT_INT(
		merge_as(&config,
			"{\"limits\":{\"max_sessions\":10,\"max_memory_mb\":700,\"max_cpus\":3,"
			"\"max_pids\":9,\"max_timeout_sec\":60,\"max_sessions_per_workspace\":10,"
			"\"max_processes_per_workspace\":2,\"max_promised_memory_mb\":8000,"
			"\"max_artifact_memory_mb\":100,\"reserve_memory_mb\":0}}",
			BOX_CONFIG_OPERATOR),
		0);
	struct box_ceilings ceilings = box_ceilings_from_limits(&config->limits, &large);
	ASSERT_INT(ceilings.memory_mb, 700);
	ASSERT_INT(ceilings.cpus, 3);
	ASSERT_INT(ceilings.pids, 9);
	ASSERT_INT(ceilings.timeout_sec, 60);
	ASSERT_INT(ceilings.workspace_sessions, 10);
	ASSERT_INT(ceilings.workspace_processes, 2);
	ASSERT_INT(ceilings.workspace_memory_mb, 7000);
	ASSERT_INT(ceilings.promised_memory_mb, 8000);
	ASSERT_INT(ceilings.workspace_artifact_mb, 50);
	ASSERT_INT(config->limits.reserve_memory_mb, 0);
	/* A client cannot raise the operator's ceilings; its own settings still apply. */
	ASSERT_INT(merge(&config,
			   "{\"limits\":{\"max_sessions\":11,\"max_memory_mb\":90000,\"max_pids\":"
			   "\"many\",\"reserve_memory_mb\":1}}"),
		0);
	ASSERT_INT(config->limits.max_sessions, 11);
	ASSERT_INT(config->limits.max_memory_mb, 700);
	ASSERT_INT(config->limits.max_pids, 9);
	ASSERT_INT(config->limits.reserve_memory_mb, 0);
	ASSERT_INT(
		merge_as(&config, "{\"limits\":{\"max_pids\":0}}", BOX_CONFIG_OPERATOR), -EINVAL);
	ASSERT_STR(err.text, "box.limits.max_pids must be between 1 and 4194304");
	finish(config);
}

/* A default above the ceiling is not refused. */
TEST(times_that_nobody_has_set)
{
	static const struct {
		const char *data;
		int64_t parsed;
		int64_t cut;
	} rows[] = {
		{"{}", 30, 20},
		{"{\"timeout_sec\":null}", 30, 20},
		{"{\"timeout_sec\":30}", 30, 30}, /* and is refused */
		{"{\"timeout_sec\":10}", 10, 10},
		{"{\"timeout_sec\":315360000}", BOX_TIMEOUT_NONE_SEC, 20},
	};
	struct box_ceilings ceilings = {.timeout_sec = 20};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_arena *mine = box_arena_new();
		struct box_value data = tree(mine, rows[i].data);
		struct box_spec spec = {.timeout_sec = rows[i].parsed};
		box_ceilings_clamp_timeout(&ceilings, &data, &spec);
		ASSERT_INT(spec.timeout_sec, rows[i].cut);
		box_arena_free(mine);
	}
}

TEST(specs_above_a_ceiling)
{
	struct box_ceilings ceilings = defaults(&large);
	struct box_spec spec = usual();
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), 0);
	spec.memory_mb = 24000;
	spec.cpus = 8;
	spec.pids_limit = 4096;
	spec.timeout_sec = INT64_MAX;
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), 0);

	spec = usual();
	spec.memory_mb = 4000000;
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), -ERANGE);
	ASSERT_INT(err.code, BOX_ERR_VALIDATION);
	ASSERT_STR(err.text,
		"memory_mb 4000000 is above this runtime's limits.max_memory_mb, 24000: ask for less, "
		"or have the operator raise it");
	spec = usual();
	spec.cpus = 8.001;
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), -ERANGE);
	ASSERT(strstr(err.text, "limits.max_cpus, 8"));
	spec.cpus = 1e300;
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), -ERANGE);
	spec = usual();
	spec.pids_limit = 4097;
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), -ERANGE);
	ASSERT(strstr(err.text, "limits.max_pids, 4096"));
	ceilings.timeout_sec = 29;
	spec = usual();
	ASSERT_INT(box_ceilings_check_spec(&ceilings, &spec, &err), -ERANGE);
	ASSERT(strstr(err.text, "limits.max_timeout_sec, 29"));

	struct box_process_spec process = {.memory_mb = 24001};
	ASSERT_INT(box_ceilings_check_process(&ceilings, &process, &err), -ERANGE);
	process.memory_mb = 24000;
	ASSERT_INT(box_ceilings_check_process(&ceilings, &process, &err), 0);
	/* With unknown host values nothing is refused. */
	spec.memory_mb = INT64_MAX;
	ASSERT_INT(box_ceilings_check_spec(&(struct box_ceilings){0}, &spec, &err), 0);
}

TEST(shares_of_a_workspace)
{
	struct box_ceilings ceilings = {.workspace_sessions = 2,
		.workspace_memory_mb = 1000,
		.promised_memory_mb = 1500,
		.workspace_processes = 1};
	struct box_ceilings_usage use = {
		.workspace_sessions = 1, .workspace_memory_mb = 488, .memory_mb = 988};
	ASSERT_INT(box_ceilings_check_box(&ceilings, &use, 512, &err), 0);
	ASSERT_INT(box_ceilings_check_box(&ceilings, &use, 513, &err), -ENOSPC);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	ASSERT(strstr(err.text, "promised 488 MB of limits.max_memory_mb_per_workspace 1000"));
	use.memory_mb = 989;
	ASSERT_INT(box_ceilings_check_box(&ceilings, &use, 512, &err), -ENOSPC);
	ASSERT(strstr(err.text, "promised 989 MB of limits.max_promised_memory_mb 1500"));
	use.memory_mb = INT64_MAX;
	ASSERT_INT(box_ceilings_check_box(&ceilings, &use, INT64_MAX, &err), -ENOSPC);
	use = (struct box_ceilings_usage){.workspace_sessions = 2};
	ASSERT_INT(box_ceilings_check_box(&ceilings, &use, 1, &err), -ENOSPC);
	ASSERT(strstr(err.text, "limits.max_sessions_per_workspace 2"));
	ASSERT_INT(box_ceilings_check_box(&(struct box_ceilings){0}, &use, 1, &err), 0);

	ASSERT_INT(box_ceilings_check_processes(&ceilings, 0, &err), 0);
	ASSERT_INT(box_ceilings_check_processes(&ceilings, 1, &err), -EAGAIN);
	ASSERT_INT(err.code, BOX_ERR_CAPACITY);
	ASSERT(strstr(err.text, "limits.max_processes_per_workspace 1"));
}
