/* Storage analysis. */
#include "handlers/actions.h"
#include "handlers/request.h"
#include "runtime/storage.h"

static void reply(void *arg, const struct box_storage_report *report)
{
	struct box_request *request = arg;
	struct box_value answer = box_storage_value(report, request->arena);
	box_request_reply(request, &answer);
}

static void cancel(struct box_request *request)
{
	box_storage_cancel(request->work);
}

void box_action_storage_analysis(struct box_request *request)
{
	struct box_storage_report report;
	struct box_storage_analysis *analysis = box_storage_analyse(
		request->runtime, &request->context, reply, request, &report);
	if (!analysis) {
		reply(request, &report);
		return;
	}
	request->work = analysis;
	request->cancel = cancel;
}
