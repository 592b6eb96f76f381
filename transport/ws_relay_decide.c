/* Who may have a relay, once the gate has let it through. */
#include <errno.h>
#include <string.h>

#include "runtime/runtime.h"
#include "runtime/session/process.h"
#include "transport/ws_relay.h"

enum box_ws_relay_decision box_ws_relay_decide(struct box_runtime *runtime,
	const struct box_gate_verdict *verdict, struct box_process **ret_process,
	struct box_err *err)
{
	struct box_context context = {
		box_str(verdict->instance), box_str(verdict->workspace), verdict->generation};
	char known[BOX_PHYSICAL_ID_SIZE];
	if (box_generations_require_current(runtime->fence, &context, NULL) < 0) {
		return BOX_WS_RELAY_UNAUTHORIZED;
	}
	if (box_runtime_require_ready(runtime, err) < 0) {
		return BOX_WS_RELAY_REFUSED;
	}
	const char *session_id = verdict->session_id;
	if (context.workspace.len == 0) {
		/* Clients that send no context know only the ids that they gave. */
		if (box_tenant_physical_id(&context, box_str(session_id), known, err) < 0) {
			return BOX_WS_RELAY_REFUSED;
		}
		session_id = known;
	} else {
		size_t prefix_len = box_tenant_prefix(&context, known);
		if (strncmp(session_id, known, prefix_len) != 0 ||
			strlen(session_id) == prefix_len) {
			return BOX_WS_RELAY_UNAUTHORIZED;
		}
	}
	struct box_session *session = box_sessions_find(runtime->sessions, session_id, err);
	struct box_process *process = session ? box_process_find(session, verdict->process_id, err)
					      : NULL;
	if (!process) {
		return BOX_WS_RELAY_REFUSED;
	}
	if (!box_process_runs(process)) {
		(void)box_err_set(err, BOX_ERR_PROCESS_CONFLICT, ESRCH,
			"managed process %s in session %s is not running", verdict->process_id,
			verdict->session_id);
		return BOX_WS_RELAY_REFUSED;
	}
	*ret_process = process;
	return BOX_WS_RELAY_ACCEPTED;
}

const char *box_ws_relay_protocol(const struct box_gate_verdict *verdict)
{
	return verdict->offers_box_v1 ? "box.v1" : verdict->offers_mcp ? "mcp" : NULL;
}
