/* The table. An action exists when it has a row here, and only then. */
#include "handlers/actions.h"

#include <string.h>

#include "base/macros.h"
#include "runtime/metrics.h"

#define HOST BOX_SCOPE_HOST
#define TENANT BOX_SCOPE_TENANT
#define PLAIN BOX_LANE_REQUEST

/* clang-format off */
const struct box_action box_actions[] = {
	{"__ping", HOST, PLAIN, false, box_action_ping, {{0}}},
	{"__file_chunk", HOST, PLAIN, false, box_action_file_chunk,
		{{"file_key", BOX_STR, true}, {"chunk_index", BOX_INT, true},
		 {"chunk_amount", BOX_INT, true}, {"chunk_base64", BOX_STR, false},
		 {"chunk", BOX_BIN, false}, {"file_length", BOX_INT, false},
		 {"chunk_size", BOX_INT, false}}},
	{"__cancel_action", TENANT, BOX_LANE_CANCEL, false, box_action_cancel, {{0}}},
	{"__stream_ack", TENANT, BOX_LANE_ACK, false, box_action_stream_ack, {{0}}},

	{"box_health", HOST, PLAIN, false, box_action_health, {{0}}},
	{"box_get_backend_info", HOST, PLAIN, false, box_action_backend_info, {{0}}},
	{"box_init", HOST, PLAIN, false, box_action_init, {{0}}, .claims = true},
	{"box_shutdown", HOST, PLAIN, false, box_action_shutdown, {{0}}},
	{"box_upsert_sandbox_admission_grant", HOST, PLAIN, false, box_action_upsert_grant, {{0}}, .claims = true},
	{"box_revoke_sandbox_admission_grant", HOST, PLAIN, false, box_action_revoke_grant, {{0}}, .claims = true},
	{"box_verify_shared_workspace", HOST, PLAIN, false, box_action_verify_workspace,
		{{"marker_name", BOX_STR, false}}},

	{"box_status", TENANT, PLAIN, false, box_action_status, {{0}}},
	{"box_exec", TENANT, PLAIN, true, box_action_exec, {{0}}, .claims = true},
	{"box_exec_stream", TENANT, PLAIN, true, box_action_exec_stream, {{0}}, .claims = true},
	{"box_exec_input", TENANT, PLAIN, true, box_action_exec_input,
		{{"exec_id", BOX_STR, true}, {"data_base64", BOX_STR, false},
		 {"eof", BOX_BOOL, false}}},
	{"box_exec_resize", TENANT, PLAIN, true, box_action_exec_resize,
		{{"exec_id", BOX_STR, true}, {"rows", BOX_INT, true}, {"cols", BOX_INT, true}}},
	{"box_exec_signal", TENANT, PLAIN, true, box_action_exec_signal,
		{{"exec_id", BOX_STR, true}, {"signal", BOX_INT, true}}},
	{"box_create_session", TENANT, PLAIN, true, box_action_create_session, {{0}}, .claims = true},
	{"box_get_session", TENANT, PLAIN, true, box_action_get_session,
		{{"session_id", BOX_STR, true}}},
	{"box_get_sessions", TENANT, PLAIN, true, box_action_get_sessions,
		{{"all", BOX_BOOL, false}}},
	{"box_delete_session", TENANT, PLAIN, true, box_action_delete_session,
		{{"session_id", BOX_STR, true}}},
	{"box_stop_session", TENANT, PLAIN, true, box_action_stop_session,
		{{"session_id", BOX_STR, true}}},
	{"box_get_storage_analysis", TENANT, PLAIN, false, box_action_storage_analysis, {{0}}},

	{"box_file_read", TENANT, PLAIN, true, box_action_file_read,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false},
		 {"offset", BOX_INT, false}, {"length", BOX_INT, false}}},
	{"box_file_write", TENANT, PLAIN, true, box_action_file_write,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false},
		 {"data_base64", BOX_STR, false}, {"offset", BOX_INT, false},
		 {"append", BOX_BOOL, false}, {"mode", BOX_INT, false},
		 {"parents", BOX_BOOL, false}}, .claims = true},
	{"box_file_list", TENANT, PLAIN, true, box_action_file_list,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false},
		 {"after_base64", BOX_STR, false}, {"limit", BOX_INT, false}}},
	{"box_file_stat", TENANT, PLAIN, true, box_action_file_stat,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false}}},
	{"box_file_mkdir", TENANT, PLAIN, true, box_action_file_mkdir,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false},
		 {"mode", BOX_INT, false}, {"parents", BOX_BOOL, false}}, .claims = true},
	{"box_file_remove", TENANT, PLAIN, true, box_action_file_remove,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false},
		 {"recursive", BOX_BOOL, false}}, .claims = true},
	{"box_file_move", TENANT, PLAIN, true, box_action_file_move,
		{{"session_id", BOX_STR, true}, {"from_base64", BOX_STR, false},
		 {"to_base64", BOX_STR, false}, {"replace", BOX_BOOL, false}}, .claims = true},
	{"box_file_watch", TENANT, PLAIN, true, box_action_file_watch,
		{{"session_id", BOX_STR, true}, {"path_base64", BOX_STR, false},
		 {"recursive", BOX_BOOL, false}}},

	{"box_start_managed_process", TENANT, PLAIN, true, box_action_start_process,
		{{"session_id", BOX_STR, true}, {"spec", BOX_MAP, true}}, .claims = true},
	{"box_get_managed_process", TENANT, PLAIN, true, box_action_get_process,
		{{"session_id", BOX_STR, true}, {"process_id", BOX_STR, false}}},
	{"box_get_process_output", TENANT, PLAIN, true, box_action_process_output,
		{{"session_id", BOX_STR, true}, {"process_id", BOX_STR, false},
		 {"stream", BOX_STR, false}, {"offset", BOX_INT, false},
		 {"length", BOX_INT, false}, {"wait_ms", BOX_INT, false}}},
	{"box_stop_managed_process", TENANT, PLAIN, true, box_action_stop_process,
		{{"session_id", BOX_STR, true}, {"process_id", BOX_STR, false}}},

	{"box_list_skills", TENANT, PLAIN, false, box_action_skill, {{0}}},
	{"box_get_skill", TENANT, PLAIN, false, box_action_skill, {{"name", BOX_STR, true}}},
	{"box_create_skill", TENANT, PLAIN, false, box_action_skill, {{"skill", BOX_MAP, true}}, .claims = true},
	{"box_update_skill", TENANT, PLAIN, false, box_action_skill,
		{{"name", BOX_STR, true}, {"skill", BOX_MAP, true}}, .claims = true},
	{"box_delete_skill", TENANT, PLAIN, false, box_action_skill, {{"name", BOX_STR, true}}, .claims = true},
	{"box_scan_skill_directory", TENANT, PLAIN, false, box_action_skill,
		{{"path", BOX_STR, true}}},
	{"box_list_skill_files", TENANT, PLAIN, false, box_action_skill,
		{{"name", BOX_STR, true}, {"path", BOX_STR, false}}},
	{"box_read_skill_file", TENANT, PLAIN, false, box_action_skill,
		{{"name", BOX_STR, true}, {"path", BOX_STR, true}}},
	{"box_write_skill_file", TENANT, PLAIN, false, box_action_skill,
		{{"name", BOX_STR, true}, {"path", BOX_STR, true}, {"content", BOX_STR, false}}, .claims = true},
	{"box_preview_skill_zip", TENANT, PLAIN, false, box_action_skill_archive,
		{{"file_key", BOX_STR, true}}},
	{"box_install_skill_zip", TENANT, PLAIN, false, box_action_skill_archive,
		{{"file_key", BOX_STR, true}}, .claims = true},
};
/* clang-format on */

_Static_assert(
	BOX_COUNT_OF(box_actions) <= BOX_METRICS_ACTIONS_MAX, "every action has its counters");

const size_t box_actions_count = BOX_COUNT_OF(box_actions);

const struct box_action *box_action_find(struct box_str name)
{
	for (size_t i = 0; i < box_actions_count; i++) {
		if (box_str_eq(name, box_actions[i].name)) {
			return &box_actions[i];
		}
	}
	return NULL;
}
