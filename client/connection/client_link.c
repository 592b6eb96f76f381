/* From what the caller wants to a wire. A child gets an instance id and a token that nobody else
 * knows: its port, which it opens for relays, is of no use to other users of this machine. */
#include "client/connection/client_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/hash.h"
#include "client/box.h"

#ifdef __linux__
#define CANNOT_SPAWN false
#else
#define CANNOT_SPAWN true /* there is no boxd */
#endif

#define SECRET_BYTES 32
#define SECRET_SIZE (2 * SECRET_BYTES + 1)

static void make_secret(char out[SECRET_SIZE])
{
	unsigned char bytes[SECRET_BYTES];
	if (getrandom(bytes, sizeof(bytes), 0) != sizeof(bytes)) {
		abort();
	}
	box_hash_hex(bytes, sizeof(bytes), out);
}

/* What was given, else a variable that is not empty, else the default. */
static const char *pick(const char *given, const char *variable, const char *otherwise)
{
	const char *value = given ? given : getenv(variable);
	return value && value[0] != '\0' ? value : otherwise;
}

static int start_child(
	const struct box_client_options *options, struct box_client_link *link, struct box_err *err)
{
	char instance[SECRET_SIZE];
	char token[SECRET_SIZE];
	make_secret(instance);
	make_secret(token);
	const struct box_boxd_child_setup setup = {
		.config = options->config,
		.program = options->boxd,
		.instance = instance,
		.token = token,
		.show_log = options->show_log,
	};
	int fd;
	int r = box_boxd_child_start(&setup, &fd, &link->child, err);
	if (r < 0) {
		return r;
	}
	link->private = true;
	link->instance = box_strdup(instance);
	box_wire_start_stdio(&link->wire, fd);
	return 0;
}

struct box_connector_choice box_client_link_choose(
	const struct box_client_options *options, enum box_connector_shares shares)
{
	const struct box_connector_facts facts = {
		.endpoint = options->endpoint,
		.standalone = options->standalone,
		.in_container = !options->spawn && box_connector_in_container(),
		.container_endpoint = options->container_endpoint,
		.cannot_spawn = CANNOT_SPAWN,
		.shares = shares,
	};
	return box_connector_choose(&facts);
}

static void link_init(const struct box_client_options *options, struct box_client_link *link)
{
	*link = (struct box_client_link){
		.wire = {.fd = -1},
		.child = {.pidfd = -1, .log_fd = -1},
		.generation = options->generation ? options->generation : 1,
		.log_line = options->log_line,
		.log_arg = options->log_arg,
	};
	link->workspace = box_strdup(
		options->workspace ? options->workspace : BOX_WORKSPACE_DEFAULT);
}

/* Where the runtime is, and who we are there. Where nobody was named the operator's socket goes
 * first, and *ret_fd is connected to it; else, and where it is too busy, it is -1. */
static int address(const struct box_client_options *options,
	const struct box_connector_choice *choice, struct box_client_link *link,
	struct box_endpoint *ret_endpoint, int *ret_fd, struct box_err *err)
{
	const char *token = pick(options->token, "LANGBOT_BOX_CONTROL_TOKEN", NULL);
	*ret_fd = -1;
	if (!choice->is_default || !box_dial_find_operator(ret_endpoint, ret_fd)) {
		int r = box_connector_parse_endpoint(choice->endpoint, ret_endpoint, err);
		if (r < 0) {
			return r;
		}
	}
	ret_endpoint->is_default = choice->is_default;
	bool is_operator = ret_endpoint->socket_path[0] != '\0';
	link->instance = box_strdup(pick(options->instance, "LANGBOT_BOX_TRUSTED_INSTANCE_UUID",
		is_operator ? BOX_INSTANCE_OPERATOR : BOX_INSTANCE_DEFAULT));
	link->token = token ? box_strdup(token) : NULL;
	char text[sizeof(ret_endpoint->authority) + sizeof("ws://")];
	(void)snprintf(
		text, sizeof(text), "%s%s", is_operator ? "" : "ws://", ret_endpoint->authority);
	link->endpoint = box_strdup(text);
	return 0;
}

int box_client_link_address(const struct box_client_options *options, struct box_client_link *link,
	struct box_endpoint *ret_endpoint, struct box_err *err)
{
	const struct box_connector_choice choice = box_client_link_choose(
		options, BOX_CONNECTOR_SHARES_DERIVED);
	link_init(options, link);
	if (choice.carrier == BOX_CONNECTOR_STDIO) {
		return box_err_set(err, BOX_ERR_VALUE, ENOTSUP, "a boxd of our own has no relay");
	}
	_cleanup_(box_close_p) int ignored = -1;
	return address(options, &choice, link, ret_endpoint, &ignored, err);
}

int box_client_link_start(
	const struct box_client_options *options, struct box_client_link *link, struct box_err *err)
{
	const struct box_connector_choice choice = box_client_link_choose(
		options, BOX_CONNECTOR_SHARES_DERIVED);
	struct box_endpoint endpoint;
	link_init(options, link);
	if (choice.carrier == BOX_CONNECTOR_STDIO) {
		return start_child(options, link, err);
	}
	int fd;
	int r = address(options, &choice, link, &endpoint, &fd, err);
	if (r < 0) {
		return r;
	}
	const struct box_ws_connect_identity who = {
		.instance = link->instance, .token = link->token};
	link->reach = fd >= 0 ? box_ws_connect_adopt(&endpoint, &who, fd)
			      : box_ws_connect_start(&endpoint, &who);
	return 0;
}

int box_client_link_step(struct box_client_link *link, struct box_err *err)
{
	int r = box_ws_connect_step(link->reach, &link->wire, err);
	if (r == 1) {
		box_ws_connect_free(link->reach);
		link->reach = NULL;
	}
	return r;
}

void box_client_link_close(struct box_client_link *link)
{
	char how[BOX_BOXD_CHILD_END_SIZE];
	box_ws_connect_free(link->reach);
	box_wire_close(&link->wire);
	box_boxd_child_end(&link->child, NULL, NULL, how);
	free(link->instance);
	free(link->token);
	free(link->endpoint);
	free(link->workspace);
	link->reach = NULL;
	link->instance = link->token = link->endpoint = link->workspace = NULL;
}
