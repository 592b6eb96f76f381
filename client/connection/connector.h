/* The client's side of a connection: which carrier, which address, and the way there.
 *
 * An endpoint that was named, --standalone-box and running in a container mean WebSocket; else a
 * `boxd -s` is started and spoken to over its stdin and stdout. The choice is pure. Who speaks on
 * what was dialled is client/.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/operator.h"

#define BOX_ENDPOINT_DEFAULT "ws://127.0.0.1:5410"
#define BOX_ENDPOINT_HOST_MAX 255 /* the longest name that DNS has */
#define BOX_ENDPOINT_PATH_MAX 1024

enum box_connector_carrier {
	BOX_CONNECTOR_STDIO,
	BOX_CONNECTOR_WEBSOCKET,
};

enum box_connector_shares {
	BOX_CONNECTOR_SHARES_DERIVED,
	BOX_CONNECTOR_SHARES_YES,
	BOX_CONNECTOR_SHARES_NO,
};

struct box_connector_facts {
	const char *endpoint; /* NULL or empty: none was named */
	bool standalone;      /* a runtime that others started is wanted */
	bool in_container;
	/* What is dialled in a container when nothing else is said, such as ws://langbot_box:5410;
	 * NULL: BOX_ENDPOINT_DEFAULT. */
	const char *container_endpoint;
	bool cannot_spawn; /* a platform without boxd */
	enum box_connector_shares shares;
};

struct box_connector_choice {
	enum box_connector_carrier carrier;
	const char *endpoint;   /* NULL for stdio */
	bool is_default;        /* nobody named it: the operator's socket goes first */
	bool shares_filesystem; /* a path here is the same path there */
};

struct box_connector_choice box_connector_choose(const struct box_connector_facts *facts);

/* By the marks that container engines leave, and DOCKER_ENV=true. */
bool box_connector_in_container(void);

struct box_endpoint {
	char host[BOX_ENDPOINT_HOST_MAX + 1]; /* without the brackets of an IPv6 address */
	char port[6];
	char authority[BOX_ENDPOINT_HOST_MAX + 16]; /* what messages call it */
	char path[BOX_ENDPOINT_PATH_MAX];
	char socket_path[BOX_SOCKET_PATH_SIZE]; /* of a Unix socket; empty for TCP */
	bool is_default;                        /* nobody named it */
};

/* ws://HOST[:PORT][/PATH], or http:// for it; port 5410 and path /rpc/ws unless given. Or
 * unix:/PATH/OF/A/SOCKET. 0, or -EINVAL with the reason. */
int box_connector_parse_endpoint(
	const char *url, struct box_endpoint *ret_endpoint, struct box_err *err);

/* The operator's socket of a boxd of this user or of root, if one answers that lets us in: its
 * endpoint and a connection to it, or -1 where it is too busy to take one now. False: there is
 * none; one that another user has made in XDG_RUNTIME_DIR is none. */
bool box_dial_find_operator(struct box_endpoint *ret_endpoint, int *ret_fd);

/* Connects to the first address that answers, without waiting: poll the fd for the
 * events, then step. 1 and a socket that does not block, 0 when it is not there yet, or a
 * negative errno: -ECONNREFUSED when nobody listens. How long that may take is the caller's to
 * say. */
struct box_dial;
struct box_dial *box_dial_start(const struct box_endpoint *endpoint);
/* The same for a socket that is connected already, and becomes the dial's. */
struct box_dial *box_dial_adopt(const struct box_endpoint *endpoint, int fd);
int box_dial_fd(const struct box_dial *dial);
short box_dial_events(const struct box_dial *dial);
int box_dial_step(struct box_dial *dial, int *ret_fd, struct box_err *err);
void box_dial_free(struct box_dial *dial); /* NULL is fine */

/* The same, waiting: 0, or also -ETIMEDOUT after timeout_ms in all. */
int box_dial_wait(
	const struct box_endpoint *endpoint, int timeout_ms, int *ret_fd, struct box_err *err);
