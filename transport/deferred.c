/* Owns two handles of the loop: a check handle, which runs after the sockets were read, and a prepare
 * handle, which runs before the loop sleeps, for calls that timers or libwebsockets scheduled. */
#include "transport/deferred.h"

static void end_turn(struct box_deferred *turn)
{
	struct box_list *item;
	while ((item = box_list_pop(&turn->calls))) {
		struct box_deferred_call *call = BOX_CONTAINER_OF(
			item, struct box_deferred_call, links);
		call->waits = false;
		call->call(call);
	}
	(void)uv_check_stop(&turn->check);
	(void)uv_prepare_stop(&turn->prepare);
}

static void check_cb(uv_check_t *check)
{
	end_turn(check->data);
}

static void prepare_cb(uv_prepare_t *prepare)
{
	end_turn(prepare->data);
}

void box_deferred_init(struct box_deferred *turn, uv_loop_t *loop)
{
	box_list_init(&turn->calls);
	(void)uv_check_init(loop, &turn->check);
	(void)uv_prepare_init(loop, &turn->prepare);
	turn->check.data = turn;
	turn->prepare.data = turn;
}

void box_deferred_schedule(struct box_deferred *turn, struct box_deferred_call *call)
{
	if (call->waits) {
		return;
	}
	call->waits = true;
	box_list_push(&turn->calls, &call->links);
	(void)uv_check_start(&turn->check, check_cb);
	(void)uv_prepare_start(&turn->prepare, prepare_cb);
}

void box_deferred_cancel(struct box_deferred_call *call)
{
	if (call->waits) {
		call->waits = false;
		box_list_drop(&call->links);
	}
}
