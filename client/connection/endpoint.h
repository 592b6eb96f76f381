/* Which runtime is meant: the transport that is used, and the address in an endpoint URL. Pure, except for
 * box_endpoint_in_container. How the address is reached is in dial.h. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/operator.h"

#define BOX_ENDPOINT_DEFAULT "ws://127.0.0.1:5410"
#define BOX_ENDPOINT_HOST_MAX 255 /* the longest name in DNS */
#define BOX_ENDPOINT_PATH_MAX 1024

enum box_endpoint_transport {
	BOX_ENDPOINT_STDIO, /* `boxd -s` is started, and spoken to over its stdin and stdout */
	BOX_ENDPOINT_WEBSOCKET,
};

enum box_endpoint_shares {
	BOX_ENDPOINT_SHARES_DERIVED,
	BOX_ENDPOINT_SHARES_YES,
	BOX_ENDPOINT_SHARES_NO,
};

struct box_endpoint_facts {
	const char *endpoint; /* NULL or empty: none was given */
	bool standalone;      /* use a runtime that somebody else started */
	bool in_container;
	/* What is dialled in a container when nothing else is given, such as ws://langbot_box:5410;
	 * NULL: BOX_ENDPOINT_DEFAULT. */
	const char *container_endpoint;
	bool cannot_spawn; /* a platform without boxd */
	enum box_endpoint_shares shares;
};

struct box_endpoint_choice {
	enum box_endpoint_transport transport;
	const char *endpoint;   /* NULL for stdio */
	bool is_default;        /* not given by the caller: the operator's socket is tried first */
	bool shares_filesystem; /* a path here is the same path for the runtime */
};

/* WebSocket for an endpoint that was given, for `standalone`, in a container and where no boxd can be
 * started; stdio otherwise. */
struct box_endpoint_choice box_endpoint_choose(const struct box_endpoint_facts *facts);

/* By the marks that container engines leave, and by DOCKER_ENV=true. */
bool box_endpoint_in_container(void);

struct box_endpoint {
	char host[BOX_ENDPOINT_HOST_MAX + 1]; /* without the brackets of an IPv6 address */
	char port[6];
	char authority[BOX_ENDPOINT_HOST_MAX + 16]; /* how messages name it */
	char path[BOX_ENDPOINT_PATH_MAX];
	char socket_path[BOX_SOCKET_PATH_SIZE]; /* of a Unix socket; empty for TCP */
	bool is_default;                        /* not given by the caller */
};

/* ws://HOST[:PORT][/PATH], or http:// with the same meaning; port 5410 and path /rpc/ws by default. Or
 * unix:/PATH/OF/A/SOCKET. 0, or -EINVAL with the reason. */
int box_endpoint_parse(const char *url, struct box_endpoint *ret_endpoint, struct box_err *err);
