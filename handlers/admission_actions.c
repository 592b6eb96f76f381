/* Admission grants and the shared-workspace probe.
 *
 * Grants are taken only while isolation is proved ready, which no backend of this runtime can do
 * yet; so every grant is refused, by the error that says so.
 */
#include <errno.h>
#include <string.h>

#include "handlers/actions.h"
#include "handlers/request.h"
#include "runtime/runtime.h"

#define PROBE_PREFIX ".langbot-box-volume-probe-"
#define PROBE_DIGITS 32

static void refuse_grant(struct box_request *request)
{
	struct box_err err;
	if (!request->runtime->config->admission.required) {
		(void)box_err_set(&err, BOX_ERR_ADMISSION, EPERM,
			"Sandbox admission enforcement is not enabled");
	} else if (box_runtime_require_ready(request->runtime, &err) == 0) {
		(void)box_err_set(&err, BOX_ERR_ADMISSION, ENOTSUP,
			"this runtime installs no sandbox admission grants");
	}
	box_request_fail(request, &err);
}

void box_action_upsert_grant(struct box_request *request)
{
	refuse_grant(request);
}

void box_action_revoke_grant(struct box_request *request)
{
	refuse_grant(request);
}

static bool probe_name_valid(struct box_str name)
{
	size_t prefix = strlen(PROBE_PREFIX);
	if (name.len != prefix + PROBE_DIGITS || memcmp(name.bytes, PROBE_PREFIX, prefix) != 0) {
		return false;
	}
	for (size_t i = prefix; i < name.len; i++) {
		if (name.bytes[i] == '\0' || !strchr("0123456789abcdef", name.bytes[i])) {
			return false;
		}
	}
	return true;
}

/* box-rpc can open no file of the host, and boxd reads none for it. */
void box_action_verify_workspace(struct box_request *request)
{
	struct box_err err;
	const struct box_value *name = box_request_field(request, "marker_name");
	bool valid = name && probe_name_valid(box_str_strip(name->str));
	(void)box_err_set(&err, BOX_ERR_READINESS, EACCES, "%s",
		valid ? "Box Runtime cannot read the Core shared Workspace probe"
		      : "Invalid Box shared Workspace probe basename");
	box_request_fail(request, &err);
}
