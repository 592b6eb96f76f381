/* Reads /proc/net/tcp, since TCP has no SO_PEERCRED. It is read after the connection is made: the listener is
 * still there then, or the accepted socket shows whose it was. */
#include "client/connection/server_owner.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/loopback.h"
#include "base/operator.h"

#define STATE_LISTEN 0x0a

bool box_server_owner_parse_line(const char *text, struct box_server_owner_line *ret_line)
{
	struct box_server_owner_line line = {0};
	char address[33];
	unsigned port;
	unsigned remote_port;
	unsigned uid;
	if (sscanf(text, " %*[0-9]: %32[0-9A-F]:%4x %*[0-9A-F]:%4x %2x %*s %*s %*s %u", address,
		    &port, &remote_port, &line.state, &uid) != 5) {
		return false;
	}
	/* Each word is printed in the byte order of this machine. */
	uint32_t words[4] = {0, 0, htonl(0xffff), 0};
	size_t len = strlen(address);
	if ((len != 8 && len != 32) ||
		sscanf(address, "%8x%8x%8x%8x", len == 8 ? &words[3] : &words[0], &words[1],
			&words[2], &words[3]) != (int)len / 8) {
		return false;
	}
	memcpy(&line.local, words, sizeof(line.local));
	line.port = (uint16_t)port;
	line.remote_port = (uint16_t)remote_port;
	line.uid = uid;
	*ret_line = line;
	return true;
}

/* The two loopback addresses that are dialled, and the unspecified address. */
static bool is_here(const struct in6_addr *address)
{
	uint32_t inner;
	memcpy(&inner, &address->s6_addr[12], sizeof(inner));
	return IN6_IS_ADDR_UNSPECIFIED(address) || IN6_IS_ADDR_LOOPBACK(address) ||
		(IN6_IS_ADDR_V4MAPPED(address) &&
			(inner == htonl(INADDR_ANY) || inner == htonl(INADDR_LOOPBACK)));
}

bool box_server_owner_line_serves(
	const struct box_server_owner_line *line, uint16_t port, uint16_t own_port)
{
	return line->port == port && is_here(&line->local) &&
		(line->state == STATE_LISTEN || line->remote_port == own_port);
}

struct found {
	bool there;
	bool foreign; /* one belongs to another user */
	uid_t uid;    /* to this one */
};

/* A container may not have these ids; box-rpc runs under another one there. */
static bool is_id_here(uid_t id)
{
	unsigned long first;
	unsigned long outside;
	unsigned long count;
	bool found = false;
	FILE *map = fopen("/proc/self/uid_map", "re");
	while (map && !found && fscanf(map, "%lu %lu %lu", &first, &outside, &count) == 3) {
		found = id >= first && id - first < count;
	}
	if (map) {
		(void)fclose(map);
	}
	return found;
}

/* An accepted socket has the uid of the process that accepted it: box-rpc, which runs under an account of its
 * own or an id that nobody else has. */
static bool is_worker(uid_t uid)
{
	const struct passwd *account = getpwnam(BOX_WORKER_ACCOUNT);
	return uid >= BOX_WORKER_IDS_FIRST || (account && uid == account->pw_uid) ||
		(uid >= BOX_DYNAMIC_ID_FIRST && !is_id_here(BOX_WORKER_IDS_FIRST));
}

/* Checks both the listener and the accepted socket: a process that was bound to the port before the
 * listener can meet a client without listening, by connecting to the client's port at the same moment. */
static int look(const char *path, uint16_t port, uint16_t own_port, struct found *listener,
	struct found *end)
{
	char text[512];
	struct box_server_owner_line line;
	FILE *table = fopen(path, "re");
	if (!table) {
		return errno == ENOENT && strstr(path, "tcp6") ? 0 : -errno;
	}
	while (fgets(text, sizeof(text), table)) {
		if (!box_server_owner_parse_line(text, &line) ||
			!box_server_owner_line_serves(&line, port, own_port)) {
			continue;
		}
		bool listens = line.state == STATE_LISTEN;
		struct found *found = listens ? listener : end;
		bool foreign = line.uid != 0 && line.uid != geteuid() &&
			(listens || !is_worker(line.uid));
		found->there = true;
		found->uid = foreign ? line.uid : found->uid;
		found->foreign = found->foreign || foreign;
	}
	(void)fclose(table);
	return 0;
}

static uint16_t port_of(const struct sockaddr_storage *address)
{
	/* NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage): the caller clears it first */
	return ntohs(address->ss_family == AF_INET6
			? ((const struct sockaddr_in6 *)address)->sin6_port
			: ((const struct sockaddr_in *)address)->sin_port);
}

int box_server_owner_check(int fd, const char *authority, struct box_err *err)
{
	struct sockaddr_storage peer = {0};
	struct sockaddr_storage own = {0};
	socklen_t peer_size = sizeof(peer);
	socklen_t own_size = sizeof(own);
	if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0 ||
		getsockname(fd, (struct sockaddr *)&own, &own_size) < 0) {
		return box_err_set(err, BOX_ERR_RUNTIME_UNAVAILABLE, errno, "%s: %s", authority,
			box_err_strerror(errno));
	}
	if (!box_loopback_is((const struct sockaddr *)&peer)) {
		return 0;
	}
	struct found listener = {0};
	struct found end = {0};
	int r = look("/proc/net/tcp", port_of(&peer), port_of(&own), &listener, &end);
	if (r == 0) {
		r = look("/proc/net/tcp6", port_of(&peer), port_of(&own), &listener, &end);
	}
	if (r < 0) {
		return box_err_set(err, BOX_ERR_PERMISSION, EACCES,
			"/proc/net/tcp: %s: cannot find out who serves %s, so nothing was sent. If you trust "
			"it, name it: --endpoint ws://%s",
			box_err_strerror(-r), authority, authority);
	}
	if (listener.foreign || end.foreign) {
		const struct found *found = listener.foreign ? &listener : &end;
		return box_err_set(err, BOX_ERR_PERMISSION, EACCES,
			"%s is served by uid %u, which is neither root nor you: nothing was sent. If you "
			"trust it, name it: --endpoint ws://%s",
			authority, (unsigned)found->uid, authority);
	}
	return 0;
}
