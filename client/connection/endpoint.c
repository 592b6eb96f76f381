/* Which transport a client uses, and what an endpoint URL says. A URL may come from anyone, and its parts go
 * into the head of an HTTP request: whatever could end a line there is refused. */
#include "client/connection/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/value.h"

#define PORT_DEFAULT "5410"
#define PATH_DEFAULT "/rpc/ws"

struct box_endpoint_choice box_endpoint_choose(const struct box_endpoint_facts *facts)
{
	bool named = facts->endpoint && facts->endpoint[0] != '\0';
	bool dial = named || facts->standalone || facts->in_container || facts->cannot_spawn;
	struct box_endpoint_choice choice = {
		.transport = dial ? BOX_ENDPOINT_WEBSOCKET : BOX_ENDPOINT_STDIO,
		.shares_filesystem = !dial,
	};
	bool neighbour = facts->in_container && !facts->standalone && facts->container_endpoint;
	choice.is_default = dial && !named && !neighbour;
	if (dial) {
		choice.endpoint = named ? facts->endpoint
			: neighbour     ? facts->container_endpoint
					: BOX_ENDPOINT_DEFAULT;
	}
	if (facts->shares != BOX_ENDPOINT_SHARES_DERIVED) {
		choice.shares_filesystem = facts->shares == BOX_ENDPOINT_SHARES_YES;
	}
	return choice;
}

bool box_endpoint_in_container(void)
{
	const char *docker = getenv("DOCKER_ENV");
	return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
		(docker && strcmp(docker, "true") == 0);
}

/* --- the address --- */

static int refuse(struct box_err *err, const char *url, const char *why)
{
	return box_err_set(err, BOX_ERR_VALUE, EINVAL, "endpoint \"%.200s\": %s", url, why);
}

static bool port_valid(struct box_str text)
{
	unsigned long port = 0;
	for (size_t i = 0; i < text.len; i++) {
		if (text.bytes[i] < '0' || text.bytes[i] > '9') {
			return false;
		}
		port = port * 10 + (unsigned long)(text.bytes[i] - '0');
	}
	return text.len > 0 && text.len <= 5 && port > 0 && port <= 65535;
}

/* Goes into the head of a request unchanged. */
static bool plain(struct box_str text, const char *also_refused)
{
	for (size_t i = 0; i < text.len; i++) {
		char c = text.bytes[i];
		if (c <= ' ' || c >= 0x7f || strchr(also_refused, c)) {
			return false;
		}
	}
	return true;
}

static void copy_text(char *out, struct box_str text)
{
	memcpy(out, text.bytes, text.len);
	out[text.len] = '\0';
}

/* Cuts HOST, HOST:PORT, [IPV6] or [IPV6]:PORT. NULL, or what is wrong with it. */
static const char *split_authority(
	struct box_str authority, struct box_str *ret_host, struct box_str *ret_port)
{
	struct box_str host = authority;
	const char *end = authority.bytes + authority.len;
	const char *after;
	if (host.len > 0 && host.bytes[0] == '[') {
		const char *close = memchr(host.bytes, ']', host.len);
		if (!close) {
			return "an IPv6 address needs its closing bracket";
		}
		host = (struct box_str){host.bytes + 1, (size_t)(close - host.bytes - 1)};
		after = close + 1;
	} else {
		const char *colon = memchr(host.bytes, ':', host.len);
		after = colon ? colon : end;
		host.len = (size_t)(after - host.bytes);
		if (memchr(host.bytes, ']', host.len)) {
			return "a host name cannot have a bracket";
		}
	}
	*ret_host = host;
	*ret_port = box_str(PORT_DEFAULT);
	if (after < end) {
		*ret_port = (struct box_str){after + 1, (size_t)(end - after - 1)};
		if (*after != ':' || !port_valid(*ret_port)) {
			return "the port must be 1 to 65535";
		}
	}
	return NULL;
}

static const char *after_scheme(const char *url, const char *scheme)
{
	size_t len = strlen(scheme);
	return strncasecmp(url, scheme, len) == 0 ? url + len : NULL;
}

/* unix:/PATH or, as URLs are written, unix:///PATH. */
static int parse_socket(
	const char *url, const char *path, struct box_endpoint *ret_endpoint, struct box_err *err)
{
	path += strncmp(path, "///", 3) == 0 ? 2 : 0;
	if (path[0] != '/' || strlen(path) >= BOX_SOCKET_PATH_SIZE) {
		return refuse(err, url,
			"the path of a socket must be absolute and at most 107 bytes long");
	}
	struct box_endpoint endpoint = {.path = PATH_DEFAULT};
	copy_text(endpoint.socket_path, box_str(path));
	(void)snprintf(endpoint.authority, sizeof(endpoint.authority), "unix:%s", path);
	*ret_endpoint = endpoint;
	return 0;
}

int box_endpoint_parse(const char *url, struct box_endpoint *ret_endpoint, struct box_err *err)
{
	const char *socket_path = after_scheme(url, "unix:");
	if (socket_path) {
		return parse_socket(url, socket_path, ret_endpoint, err);
	}
	const char *at = after_scheme(url, "ws://");
	at = at ? at : after_scheme(url, "http://");
	if (after_scheme(url, "wss://") || after_scheme(url, "https://")) {
		return refuse(err, url, "TLS is not supported; use ws:// through a TLS proxy");
	}
	if (!at) {
		return refuse(err, url, "must begin with ws://, http:// or unix:");
	}
	struct box_str authority = {at, strcspn(at, "/?#")};
	struct box_str path = box_str(at + authority.len);
	if (path.len == 0 || box_str_eq(path, "/")) {
		path = box_str(PATH_DEFAULT);
	}
	if (path.bytes[0] != '/' || path.len >= BOX_ENDPOINT_PATH_MAX || !plain(path, "#")) {
		return refuse(err, url, "the path is too long or has invalid characters");
	}
	struct box_str host;
	struct box_str port;
	const char *why = split_authority(authority, &host, &port);
	if (why) {
		return refuse(err, url, why);
	}
	if (host.len == 0 || host.len > BOX_ENDPOINT_HOST_MAX || !plain(host, "@[]\"\\%")) {
		return refuse(err, url, "the host is missing or malformed");
	}
	struct box_endpoint endpoint = {0};
	copy_text(endpoint.host, host);
	copy_text(endpoint.port, port);
	copy_text(endpoint.path, path);
	bool bracketed = strchr(endpoint.host, ':') != NULL;
	(void)snprintf(endpoint.authority, sizeof(endpoint.authority), "%s%s%s:%s",
		bracketed ? "[" : "", endpoint.host, bracketed ? "]" : "", endpoint.port);
	*ret_endpoint = endpoint;
	return 0;
}
