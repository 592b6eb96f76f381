/* The skill actions of older clients: their fields are checked, and a runtime without a skill store
 * says so. Newer clients keep skills themselves and never ask. */
#include <errno.h>

#include "handlers/actions.h"
#include "handlers/request.h"

void box_handle_skill(struct box_request *request)
{
	struct box_err err;
	(void)box_err_set(
		&err, BOX_ERR_BACKEND_UNAVAILABLE, ENOTSUP, "this runtime keeps no skills");
	box_request_fail(request, &err);
}
