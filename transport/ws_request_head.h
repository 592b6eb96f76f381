/* The request head that libwebsockets sees in place of the client's own. Pure. */
#pragma once

#include "transport/ws.h"

void box_ws_write_request_head(struct box_buf *head, const struct box_ws_upgrade *upgrade);
