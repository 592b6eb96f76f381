/* The skill actions of 0.5 clients. The skill store (box-skills) checks their fields and answers later; an
 * uploaded archive goes to it as an fd. */
#include "base/cleanup.h"
#include "handlers/actions.h"
#include "handlers/peer.h"
#include "handlers/request.h"
#include "handlers/transfers.h"
#include "runtime/runtime.h"
#include "runtime/skill_store.h"

static void answered(void *arg, const struct box_value *answer, const struct box_err *err)
{
	struct box_request *request = arg;
	if (err) {
		box_request_fail(request, err);
	} else {
		box_request_reply(request, answer);
	}
}

static void cancel(struct box_request *request)
{
	struct box_skill_store_request *ask = request->work;
	box_close_p(&ask->archive);
	box_skill_store_cancel(request->runtime, ask);
}

static void answered_archive(void *arg, const struct box_value *answer, const struct box_err *err)
{
	struct box_request *request = arg;
	struct box_skill_store_request *ask = request->work;
	box_close_p(&ask->archive);
	answered(request, answer, err);
}

static struct box_skill_store_request *ask_new(
	struct box_request *request, box_skill_store_done *done)
{
	struct box_skill_store_request *ask = box_arena_alloc(request->arena, sizeof(*ask));
	ask->action = request->action->name;
	ask->data = request->data;
	ask->archive = -1;
	ask->done = done;
	ask->arg = request;
	return ask;
}

static void begin(struct box_request *request, struct box_skill_store_request *ask)
{
	request->work = ask;
	request->cancel = cancel;
	box_skill_store_request(request->runtime, &request->context, ask);
}

void box_action_skill(struct box_request *request)
{
	begin(request, ask_new(request, answered));
}

void box_action_skill_archive(struct box_request *request)
{
	struct box_err err;
	struct box_skill_store_request *ask = ask_new(request, answered_archive);
	struct box_str key = box_request_field(request, "file_key")->str;
	if (box_transfers_take(box_peer_transfers(request->peer), key, &ask->archive, &err) < 0) {
		err.code = BOX_ERR_VALIDATION;
		box_request_fail(request, &err);
		return;
	}
	begin(request, ask);
}
