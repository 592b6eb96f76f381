/* Endpoints: which transport, which address, and how it is found. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/macros.h"
#include "client/connection/dial.h"
#include "tests/unit/lib/test.h"

#define NAMED "ws://box.example:1"
#define NEIGHBOUR "ws://langbot_box:5410"

TEST(chooses_by_the_facts)
{
	static const struct {
		struct box_endpoint_facts facts;
		enum box_endpoint_transport transport;
		bool shares;
		const char *endpoint;
	} rows[] = {
		{{0}, BOX_ENDPOINT_STDIO, true, NULL},
		{{.endpoint = ""}, BOX_ENDPOINT_STDIO, true, NULL},
		{{.endpoint = NAMED}, BOX_ENDPOINT_WEBSOCKET, false, NAMED},
		{{.standalone = true}, BOX_ENDPOINT_WEBSOCKET, false, BOX_ENDPOINT_DEFAULT},
		{{.in_container = true}, BOX_ENDPOINT_WEBSOCKET, false, BOX_ENDPOINT_DEFAULT},
		{{.cannot_spawn = true}, BOX_ENDPOINT_WEBSOCKET, false, BOX_ENDPOINT_DEFAULT},
		{{.endpoint = NAMED, .standalone = true, .in_container = true},
			BOX_ENDPOINT_WEBSOCKET, false, NAMED},
		{{.container_endpoint = NEIGHBOUR}, BOX_ENDPOINT_STDIO, true, NULL},
		{{.in_container = true, .container_endpoint = NEIGHBOUR}, BOX_ENDPOINT_WEBSOCKET,
			false, NEIGHBOUR},
		{{.cannot_spawn = true, .container_endpoint = NEIGHBOUR}, BOX_ENDPOINT_WEBSOCKET,
			false, BOX_ENDPOINT_DEFAULT},
		{{.standalone = true, .in_container = true, .container_endpoint = NEIGHBOUR},
			BOX_ENDPOINT_WEBSOCKET, false, BOX_ENDPOINT_DEFAULT},
		{{.endpoint = NAMED, .in_container = true, .container_endpoint = NEIGHBOUR},
			BOX_ENDPOINT_WEBSOCKET, false, NAMED},
		{{.endpoint = NAMED, .cannot_spawn = true}, BOX_ENDPOINT_WEBSOCKET, false, NAMED},
		{{.endpoint = "", .in_container = true}, BOX_ENDPOINT_WEBSOCKET, false,
			BOX_ENDPOINT_DEFAULT},
		{{.shares = BOX_ENDPOINT_SHARES_NO}, BOX_ENDPOINT_STDIO, false, NULL},
		{{.shares = BOX_ENDPOINT_SHARES_YES}, BOX_ENDPOINT_STDIO, true, NULL},
		{{.endpoint = NAMED, .shares = BOX_ENDPOINT_SHARES_YES}, BOX_ENDPOINT_WEBSOCKET,
			true, NAMED},
		{{.standalone = true, .shares = BOX_ENDPOINT_SHARES_NO}, BOX_ENDPOINT_WEBSOCKET,
			false, BOX_ENDPOINT_DEFAULT},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_endpoint_choice choice = box_endpoint_choose(&rows[i].facts);
		ASSERT_INT(choice.transport, rows[i].transport);
		ASSERT_INT(choice.shares_filesystem, rows[i].shares);
		if (rows[i].endpoint) {
			ASSERT_STR(choice.endpoint, rows[i].endpoint);
		} else {
			ASSERT(choice.endpoint == NULL);
		}
	}
}

TEST(parses_endpoints)
{
	static const struct {
		const char *url;
		const char *host;
		const char *port;
		const char *authority;
		const char *path;
	} rows[] = {
		{"ws://h", "h", "5410", "h:5410", "/rpc/ws"},
		{"ws://h/", "h", "5410", "h:5410", "/rpc/ws"},
		{"http://h:81/", "h", "81", "h:81", "/rpc/ws"},
		{"WS://h:80", "h", "80", "h:80", "/rpc/ws"},
		{"ws://127.0.0.1:5410", "127.0.0.1", "5410", "127.0.0.1:5410", "/rpc/ws"},
		{"ws://[::1]", "::1", "5410", "[::1]:5410", "/rpc/ws"},
		{"ws://[::1]:65535/", "::1", "65535", "[::1]:65535", "/rpc/ws"},
		{"ws://a.b-c:1/x/y?z=1", "a.b-c", "1", "a.b-c:1", "/x/y?z=1"},
		{BOX_ENDPOINT_DEFAULT, "127.0.0.1", "5410", "127.0.0.1:5410", "/rpc/ws"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_endpoint endpoint;
		struct box_err err;
		ASSERT_INT(box_endpoint_parse(rows[i].url, &endpoint, &err), 0);
		ASSERT_STR(endpoint.host, rows[i].host);
		ASSERT_STR(endpoint.port, rows[i].port);
		ASSERT_STR(endpoint.authority, rows[i].authority);
		ASSERT_STR(endpoint.path, rows[i].path);
	}
}

TEST(refuses_other_endpoints)
{
	static const char host[] = "the host is missing or malformed";
	static const char port[] = "the port must be 1 to 65535";
	static const char path[] = "the path is too long or has invalid characters";
	static const char tls[] = "TLS is not supported; use ws:// through a TLS proxy";
	static const char scheme[] = "must begin with ws://, http:// or unix:";
	static const struct {
		const char *url;
		const char *why;
	} rows[] = {
		{"", scheme},
		{"h:5410", scheme},
		{"httpx://h", scheme},
		{"ws:/h", scheme},
		{"wss://h", tls},
		{"https://h", tls},
		{"ws://", host},
		{"ws:///rpc/ws", host},
		{"ws://:5410", host},
		{"ws://me@h", host},
		{"ws://a b", host},
		{"ws://h\r\nX", host},
		{"ws://h\r\nX: y", port},
		{"ws://h\xc3\xa9", host},
		{"ws://[]:1", host},
		{"ws://[fe80::1%eth0]", host},
		{"ws://h:", port},
		{"ws://h:0", port},
		{"ws://h:65536", port},
		{"ws://h:123456", port},
		{"ws://h:1x", port},
		{"ws://h:-1", port},
		{"ws://h:1:2", port},
		{"ws://::1", port},
		{"ws://[::1]5410", port},
		{"ws://[::1", "an IPv6 address needs its closing bracket"},
		{"ws://a]b", "a host name cannot have a bracket"},
		{"ws://h/a b", path},
		{"ws://h/\r\nX: y", path},
		{"ws://h/#part", path},
		{"ws://h?x", path},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_endpoint endpoint = {.host = "as before"};
		struct box_err err;
		char expected[512];
		(void)snprintf(expected, sizeof(expected), "endpoint \"%s\": %s", rows[i].url,
			rows[i].why);
		ASSERT_INT(box_endpoint_parse(rows[i].url, &endpoint, &err), -EINVAL);
		ASSERT_STR(err.text, expected);
		ASSERT_STR(endpoint.host, "as before");
	}
}

TEST(endpoints_are_bounded)
{
	char url[4 * BOX_ENDPOINT_PATH_MAX];
	struct box_endpoint endpoint;
	for (int extra = 0; extra <= 1; extra++) {
		(void)snprintf(url, sizeof(url), "ws://%0*d", BOX_ENDPOINT_HOST_MAX + extra, 0);
		ASSERT_INT(box_endpoint_parse(url, &endpoint, NULL), extra ? -EINVAL : 0);
		(void)snprintf(
			url, sizeof(url), "ws://h/%0*d", BOX_ENDPOINT_PATH_MAX - 2 + extra, 0);
		ASSERT_INT(box_endpoint_parse(url, &endpoint, NULL), extra ? -EINVAL : 0);
	}
}

/* A socket on a free port; writes it into the endpoint. */
static int bound(struct box_endpoint *endpoint)
{
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t size = sizeof(address);
	char url[64];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	ASSERT(fd >= 0);
	ASSERT_INT(bind(fd, (struct sockaddr *)&address, size), 0);
	ASSERT_INT(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	(void)snprintf(url, sizeof(url), "ws://127.0.0.1:%d", ntohs(address.sin_port));
	ASSERT_INT(box_endpoint_parse(url, endpoint, NULL), 0);
	return fd;
}

TEST(dials_who_listens)
{
	struct box_endpoint endpoint;
	struct box_err err;
	int fd = -1;
	char byte = 0;
	int listener = bound(&endpoint);
	ASSERT_INT(listen(listener, 1), 0);
	ASSERT_INT(box_dial_wait(&endpoint, 5000, &fd, &err), 0);
	int peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ASSERT(peer >= 0);
	ASSERT_INT(send(fd, "x", 1, 0), 1);
	ASSERT_INT(recv(peer, &byte, 1, 0), 1);
	ASSERT_INT(byte, 'x');
	ASSERT(fcntl(fd, F_GETFL) & O_NONBLOCK);
	ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	(void)close(fd);
	(void)close(peer);
	(void)close(listener);
}

/* A name is resolved, unlike an address, and may have several addresses. */
TEST(dials_a_name)
{
	struct box_endpoint endpoint;
	struct box_err err;
	int fd = -1;
	int listener = bound(&endpoint);
	ASSERT_INT(listen(listener, 1), 0);
	(void)snprintf(endpoint.host, sizeof(endpoint.host), "localhost");
	ASSERT_INT(box_dial_wait(&endpoint, 20000, &fd, &err), 0);
	(void)close(fd);
	(void)close(listener);
}

TEST(a_name_that_nobody_has_is_the_reason)
{
	struct box_endpoint endpoint;
	struct box_err err;
	int fd = -2;
	ASSERT_INT(box_endpoint_parse("ws://no-such-host.invalid", &endpoint, NULL), 0);
	ASSERT(box_dial_wait(&endpoint, 5000, &fd, &err) < 0);
	ASSERT_INT(err.code, BOX_ERR_RUNTIME_UNAVAILABLE);
	ASSERT(strstr(err.text, "no-such-host.invalid:5410: "));
	ASSERT_INT(fd, -2);
}

/* A caller that cancels does not wait for the answer, and nothing leaks. */
TEST(a_lookup_can_be_left)
{
	struct box_endpoint endpoint;
	ASSERT_INT(box_endpoint_parse("ws://localhost", &endpoint, NULL), 0);
	for (int i = 0; i < 50; i++) {
		struct box_dial *dial = box_dial_start(&endpoint);
		ASSERT(box_dial_fd(dial) >= 0);
		ASSERT_INT(box_dial_events(dial), POLLIN);
		box_dial_free(dial);
	}
	/* Their threads end within moments; the kernel counts them. */
	for (int links = 0, tries = 0; links != 3 && tries < 500; tries++) {
		struct stat info;
		ASSERT_INT(stat("/proc/self/task", &info), 0);
		links = (int)info.st_nlink;
		(void)usleep(10000);
		ASSERT(tries < 499);
	}
}

TEST(says_that_nobody_listens)
{
	struct box_endpoint endpoint;
	struct box_err err;
	char expected[128];
	int fd = -2;
	int unused = bound(&endpoint); /* bound but not listening: nobody else gets the port */
	ASSERT_INT(box_dial_wait(&endpoint, 5000, &fd, &err), -ECONNREFUSED);
	(void)snprintf(
		expected, sizeof(expected), "127.0.0.1:%s: Connection refused", endpoint.port);
	ASSERT_STR(err.text, expected);
	ASSERT_INT(err.code, BOX_ERR_RUNTIME_UNAVAILABLE);
	ASSERT_INT(fd, -2);
	(void)close(unused);
}

TEST(gives_up_after_its_time)
{
	struct box_endpoint endpoint;
	struct box_err err;
	int waiting[8];
	int fd = -1;
	int listener = bound(&endpoint);
	ASSERT_INT(listen(listener, 0), 0);
	/* Once its queue is full, the kernel answers no more of them. */
	int r = 0;
	size_t count = 0;
	while (r == 0 && count < COUNT(waiting)) {
		r = box_dial_wait(&endpoint, 200, &fd, &err);
		waiting[count] = fd;
		count += r == 0;
	}
	ASSERT_INT(r, -ETIMEDOUT);
	ASSERT(count >= 1);
	for (size_t i = 0; i < count; i++) {
		(void)close(waiting[i]);
	}
	(void)close(listener);
}

TEST(sockets)
{
	static const struct {
		const char *url;
		const char *path; /* NULL: refused */
	} rows[] = {
		{"unix:/run/box/box.sock", "/run/box/box.sock"},
		{"unix:///run/box/box.sock", "/run/box/box.sock"},
		{"UNIX:/s", "/s"},
		{"unix:", NULL},
		{"unix:box.sock", NULL},
		{"unix://run/box.sock", "//run/box.sock"},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_endpoint endpoint;
		struct box_err err;
		int r = box_endpoint_parse(rows[i].url, &endpoint, &err);
		ASSERT_INT(r, rows[i].path ? 0 : -EINVAL);
		if (rows[i].path) {
			ASSERT_STR(endpoint.socket_path, rows[i].path);
			ASSERT_STR(endpoint.path, "/rpc/ws");
		}
	}
	char longest[BOX_SOCKET_PATH_SIZE + 16] = "unix:/";
	struct box_endpoint endpoint;
	memset(longest + 6, 'x', BOX_SOCKET_PATH_SIZE - 2);
	ASSERT_INT(box_endpoint_parse(longest, &endpoint, NULL), 0);
	longest[strlen(longest)] = 'x';
	ASSERT_INT(box_endpoint_parse(longest, &endpoint, NULL), -EINVAL);
}

TEST(places_of_the_operators_socket)
{
	char path[BOX_SOCKET_PATH_SIZE];
	char longest[BOX_SOCKET_PATH_SIZE] = "/";
	ASSERT_INT(box_operator_socket_path(0, "/run/user/0", path), 0);
	ASSERT_STR(path, "/run/box/box.sock");
	ASSERT_INT(box_operator_socket_path(7, "/r", path), 0);
	ASSERT_STR(path, "/r/box/box.sock");
	ASSERT_INT(box_operator_socket_path(7, NULL, path), 0);
	ASSERT_STR(path, "/run/user/7/box/box.sock");
	ASSERT_INT(box_operator_socket_path(7, "relative", path), 0);
	ASSERT_STR(path, "/run/user/7/box/box.sock");
	memset(longest + 1, 'x', sizeof(longest) - 2);
	ASSERT_INT(box_operator_socket_path(7, longest, path), -ENAMETOOLONG);
}

/* The server of a Unix socket is the process that called listen. */
static int listen_as(uid_t uid, const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	ASSERT(seteuid(uid) == 0);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(fd >= 0);
	ASSERT(bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 1) == 0);
	ASSERT(chmod(path, 0666) == 0);
	ASSERT(seteuid(0) == 0);
	return fd;
}

TEST(a_socket_of_another_user_is_not_the_operators)
{
	if (geteuid() != 0) {
		SKIP("only root can be several users");
	}
	static const struct {
		uid_t server;
		bool found;
	} rows[] = {{2, false}, {1, true}, {0, true}};
	char place[] = "/tmp/box-endpoint-XXXXXX";
	char folder[64];
	char path[64];
	ASSERT(mkdtemp(place) && chmod(place, 0777) == 0);
	(void)snprintf(folder, sizeof(folder), "%s/box", place);
	(void)snprintf(path, sizeof(path), "%s/box/box.sock", place);
	ASSERT(mkdir(folder, 0777) == 0 && chmod(folder, 0777) == 0);
	ASSERT(setenv("XDG_RUNTIME_DIR", place, 1) == 0);
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_endpoint endpoint;
		int fd = -1;
		int server = listen_as(rows[i].server, path);
		ASSERT(seteuid(1) == 0);
		/* The host may have a boxd of root that lets in everyone. */
		bool found = box_dial_find_operator(&endpoint, &fd) &&
			strcmp(endpoint.socket_path, path) == 0;
		ASSERT(seteuid(0) == 0);
		ASSERT_INT(found, rows[i].found);
		(void)close(server);
		if (fd >= 0) {
			(void)close(fd);
		}
		ASSERT(unlink(path) == 0);
	}
	ASSERT(rmdir(folder) == 0 && rmdir(place) == 0);
}

/* Otherwise a client would continue over TCP, as somebody else. */
TEST(a_busy_socket_of_the_operator_is_there)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", "/run", "tmpfs", 0, NULL) < 0 || mkdir("/run/box", 0755) < 0) {
		SKIP("no /run of our own");
	}
	struct box_endpoint endpoint;
	struct box_err err;
	int callers[8];
	size_t count = 0;
	int server = listen_as(0, "/run/box/box.sock");
	while (count < COUNT(callers) && box_dial_find_operator(&endpoint, &callers[count]) &&
		callers[count] >= 0) {
		count++;
	}
	ASSERT(count > 0 && count < COUNT(callers));
	ASSERT_INT(callers[count], -1);
	ASSERT_STR(endpoint.socket_path, "/run/box/box.sock");
	int fd;
	ASSERT_INT(box_dial_wait(&endpoint, 1000, &fd, &err), -EAGAIN);
	for (size_t i = 0; i < count; i++) {
		(void)close(callers[i]);
	}
	(void)close(server);
	ASSERT(!box_dial_find_operator(&endpoint, &fd));
}
