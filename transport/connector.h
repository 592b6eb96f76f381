/* The client's side of a connection: which carrier, which address, and the way there.
 *
 * An endpoint that was named, --standalone-box and running in a container mean WebSocket; else a
 * `boxd -s` is started and spoken to over its stdin and stdout. The choice is pure. Who speaks on
 * what was dialled is client/.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define BOX_ENDPOINT_DEFAULT "ws://127.0.0.1:5410"
#define BOX_ENDPOINT_HOST_MAX 255 /* the longest name that DNS has */
#define BOX_ENDPOINT_PATH_MAX 1024

enum box_carrier {
	BOX_CARRIER_STDIO,
	BOX_CARRIER_WEBSOCKET,
};

enum box_shares {
	BOX_SHARES_DERIVED,
	BOX_SHARES_YES,
	BOX_SHARES_NO,
};

struct box_connector_facts {
	const char *endpoint; /* NULL or empty: none was named */
	bool standalone;      /* a runtime that others started is wanted */
	bool in_container;
	bool cannot_spawn; /* a platform without boxd */
	enum box_shares shares;
};

struct box_connector_choice {
	enum box_carrier carrier;
	const char *endpoint;   /* NULL for stdio */
	bool shares_filesystem; /* a path here is the same path there */
};

struct box_connector_choice box_connector_choose(const struct box_connector_facts *facts);

/* By the marks that container engines leave. */
bool box_connector_in_container(void);

struct box_endpoint {
	char host[BOX_ENDPOINT_HOST_MAX + 1]; /* without the brackets of an IPv6 address */
	char port[6];
	char authority[BOX_ENDPOINT_HOST_MAX + 16]; /* what the Host header says */
	char path[BOX_ENDPOINT_PATH_MAX];
};

/* ws://HOST[:PORT][/PATH]; port 5410 and path /rpc/ws unless given. 0, or -EINVAL with the
 * reason. */
int box_endpoint_parse(const char *url, struct box_endpoint *ret_endpoint, struct box_err *err);

/* Connects by TCP to the first address that answers. 0 and a socket that does not block, or a
 * negative errno: -ECONNREFUSED when nobody listens, -ETIMEDOUT after timeout_ms in all. Names are
 * looked up by the C library, in its own time. */
int box_connector_dial(
	const struct box_endpoint *endpoint, int timeout_ms, int *ret_fd, struct box_err *err);
