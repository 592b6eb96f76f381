/* The runtime: its generations and sessions, and its status report. */
#include <errno.h>

#include "runtime/runtime.h"
#include "tests/unit/lib/runtime_fixture.h"

TEST(entering)
{
	struct box_runtime *runtime = start();
	struct box_spec spec = {.session_id = "s", .image = "i", .mount_path = "/workspace"};
	struct box_context newer = place;
	struct box_err err = {0};
	bool advanced = false;
	newer.generation = 2;
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"limits\":{\"max_admission_records\":1}}");
	use_headless(runtime);
	enter(runtime, "ws", 1);
	open_session(runtime, &place, &spec);
	enter(runtime, "ws", 1);
	ASSERT_INT(asked.records, 1);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0);
	ASSERT_INT(box_runtime_enter_generation(runtime, &newer, &advanced, &err), 0);
	ASSERT(advanced);
	ASSERT_INT(asked.records, 2);
	ASSERT_INT(headless_count(HEADLESS_DESTROY), 0); /* the caller destroys it */
	box_sessions_retire(runtime->sessions, &newer);
	headless_gone();
	ASSERT_INT(box_runtime_enter_generation(runtime, &place, &advanced, &err), -EPERM);
	ASSERT_STR(err.text, "Stale Box placement generation");
	struct box_context other = {box_str("inst"), box_str("more"), 1};
	ASSERT_INT(box_runtime_enter_generation(runtime, &other, &advanced, &err), -EPERM);
	ASSERT_STR(err.text,
		"Box generation fence capacity reached; "
		"refusing an unbounded Workspace allocation");
	ASSERT_INT(asked.records, 2);
	finish(runtime);
}

/* A backend is not replaced while it has sessions. */
TEST(sessions_keep_their_backend)
{
	struct box_runtime *runtime = start();
	struct box_spec spec = {.session_id = "s", .image = "i", .mount_path = "/workspace"};
	use_headless(runtime);
	runtime->session_rules.max_sessions = 2;
	open_session(runtime, &place, &spec);
	init_now(runtime, "{\"backend\":\"docker\",\"limits\":{\"max_sessions\":9}}");
	ASSERT(runtime->backend == &headless_backend);
	ASSERT_INT(runtime->session_rules.max_sessions, 9);
	box_sessions_remove_all(runtime->sessions);
	headless_gone();
	init_now(runtime, "{}");
	ASSERT(runtime->backend == NULL);
	finish(runtime);
}

/* --- what it says of itself --- */

#define NO_DOCKER                                                                           \
	"no backend docker: container engines and services are not supported; set backend " \
	"to one of local, native, nsjail, krun, libkrun, microvm"
#define DOCKER \
	"{\"name\":null,\"available\":false,\"asked\":\"docker\",\"error\":\"" NO_DOCKER "\"}"

TEST(status_and_capacity)
{
	const struct box_runtime_setup setup = {.working_folder = "/w",
		.wide_open = true,
		.host_size = {.memory_mb = 24000, .cpus = 8}};
	struct box_runtime *runtime = start_with(&setup);
	struct box_spec spec = {
		.session_id = "s", .image = "i", .mount_path = "/workspace", .memory_mb = 512};
	struct box_context other = {box_str("inst"), box_str("other"), 1};
	configure(runtime, BOX_RUNTIME_LAYER_FILE,
		"{\"backend\":\"docker\",\"limits\":{\"max_sessions\":3}}");
	ASSERT_STR(status_member(runtime, "backend"), DOCKER);
	ASSERT_STR(status_member(runtime, "limits"),
		"{\"max_sessions\":3,\"max_managed_processes\":64,\"max_completed_processes\":256,"
		"\"max_admission_records\":100000,\"max_rpc_file_bytes\":20971520,"
		"\"max_output_bytes\":8388608,\"completed_process_retention_sec\":300,"
		"\"max_memory_mb\":24000,\"max_cpus\":8,\"max_pids\":4096,"
		"\"max_timeout_sec\":null,\"max_sessions_per_workspace\":3,"
		"\"max_processes_per_workspace\":56,\"max_memory_mb_per_workspace\":null,"
		"\"max_promised_memory_mb\":null,\"max_artifact_memory_mb\":1024,"
		"\"max_artifact_memory_mb_per_workspace\":768,\"reserve_memory_mb\":512}");
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":3,\"used\":0,\"remaining\":3}");
	ASSERT_STR(status_member(runtime, "warnings"),
		"[\"the control port is open beyond loopback without a token\"]");
	use_headless(runtime);
	open_session(runtime, &place, &spec);
	open_session(runtime, &other, &spec);
	ASSERT_STR(status_member(runtime, "backend"), "{\"name\":\"headless\",\"available\":true}");
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":3,\"used\":1,\"remaining\":1}");
	ASSERT_STR(status_member(runtime, "active_sessions"), "1");
	runtime->artifact_bytes = 4096;
	ASSERT_STR(status_member(runtime, "memory"),
		"{\"promised_mb\":1024,\"workspace_promised_mb\":512,\"artifact_bytes\":4096}");
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"limits\":{\"max_sessions\":1}}");
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":1,\"used\":1,\"remaining\":0}");
	runtime->requests_under_way = 5;
	struct box_value resources = box_runtime_resources(runtime, arena);
	ASSERT_STR(json(arena, &resources),
		"{\"sessions\":2,\"managed_processes\":0,"
		"\"completed_processes\":0,\"requests_under_way\":5}");
	box_sessions_remove_all(runtime->sessions);
	headless_gone();
	headless_gone();
	finish(runtime);
}

TEST(readiness_standard)
{
	struct box_runtime *runtime = start();
	struct box_err err = {0};
	bool ready = true;
	configure(runtime, BOX_RUNTIME_LAYER_FILE, "{\"backend\":\"docker\"}");
	struct box_value map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT_STR(json(arena, &map),
		"{\"ready\":false,\"mode\":\"standard\",\"backend\":" DOCKER
		",\"checks\":{\"backend_available\":false},\"error\":\"" NO_DOCKER "\"}");
	ASSERT_INT(box_runtime_require_ready(runtime, &err), 0);
	use_headless(runtime);
	map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(ready);
	ASSERT_STR(json(arena, &map),
		"{\"ready\":true,\"mode\":\"standard\",\"backend\":{\"name\":"
		"\"headless\",\"available\":true},\"checks\":"
		"{\"backend_available\":true}}");
	headless.unavailable = true;
	map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT(box_map_get(&map, "error") == NULL);
	finish(runtime);
}

#define CHECKS(configuration)                                                             \
	"{\"configuration\":" configuration ",\"required_backend\":false,"                \
	"\"workspace_mount\":false,\"backend_available\":false,\"cgroup_v2\":false,"      \
	"\"namespace_isolation\":false,\"mount_isolation\":false,"                        \
	"\"network_isolation\":false,\"hard_workspace_quota\":false,"                     \
	"\"hard_skill_storage_quota\":false,\"hard_read_only_mount_quota\":false,"        \
	"\"bounded_ephemeral_storage\":false,\"inode_quota\":false,\"session_cap\":true," \
	"\"managed_process_cap\":true}"

TEST(readiness_under_admission)
{
	const struct box_runtime_setup setup = {.working_folder = "/w", .soft_storage = true};
	struct box_runtime *runtime = start_with(&setup);
	struct box_err err = {0};
	bool ready = true;
	configure(runtime, BOX_RUNTIME_LAYER_FILE,
		"{\"backend\":\"docker\",\"admission\":{\"required\":true}}");
	struct box_value map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT_STR(json(arena, box_map_get(&map, "mode")), "\"grant_enforced\"");
	ASSERT_STR(json(arena, box_map_get(&map, "checks")), CHECKS("true"));
	ASSERT_STR(json(arena, box_map_get(&map, "unsafe_soft_storage_limits")), "true");
	ASSERT_INT(box_runtime_require_ready(runtime, &err), -EAGAIN);
	ASSERT_INT(err.code, BOX_ERR_READINESS);
	ASSERT_STR(err.text,
		"Managed sandbox isolation is not ready (failed checks: required_backend, "
		"workspace_mount, backend_available, cgroup_v2, namespace_isolation, "
		"mount_isolation, network_isolation, hard_workspace_quota, "
		"hard_skill_storage_quota, hard_read_only_mount_quota, "
		"bounded_ephemeral_storage, inode_quota): " NO_DOCKER);
	struct box_value info = box_runtime_backend_info(runtime, arena);
	ASSERT_INT(info.count, 5);
	ASSERT_STR(json(arena, box_map_get(&info, "name")), "null");
	ASSERT_STR(json(arena, box_map_get(&info, "available")), "false");
	ASSERT_STR(json(arena, box_map_get(&info, "readiness")), json(arena, &map));
	ASSERT_STR(status_member(runtime, "capacity"), "{\"limit\":0,\"used\":0,\"remaining\":0}");

	/* A malformed section: required, and the reason is shown. */
	configure(runtime, BOX_RUNTIME_LAYER_FILE,
		"{\"backend\":\"docker\",\"admission\":{\"required\":7}}");
	map = box_runtime_readiness(runtime, arena, &ready);
	ASSERT(!ready);
	ASSERT_STR(json(arena, box_map_get(&map, "checks")), CHECKS("false"));
	ASSERT_STR(json(arena, box_map_get(&map, "error")),
		"\"1 validation error for SandboxAdmissionPolicy\\nrequired\\n  Input should be a "
		"valid boolean, unable to interpret input\"");
	finish(runtime);
}
