/* Nothing of it is the client's but the key, which the gate has checked, and what came behind its
 * head. */
#include "transport/ws_request_head.h"

void box_ws_write_request_head(struct box_buf *head, const struct box_ws_upgrade *upgrade)
{
	(void)box_buf_printf(head,
		"GET /rpc/ws HTTP/1.1\r\nHost: box\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: %s\r\n",
		upgrade->key);
	if (upgrade->protocol) {
		(void)box_buf_printf(head, "Sec-WebSocket-Protocol: %s\r\n", upgrade->protocol);
	}
	(void)box_buf_append_str(head, "\r\n");
	(void)box_buf_append(head, upgrade->rest.bytes, upgrade->rest.len);
}
