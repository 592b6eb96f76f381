/* The load client's connection: a WebSocket or a child's stdio, and the frames or lines on it. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/load.h"

#define READ_BYTES ((size_t)256 * 1024)
#define CHUNK_BYTES ((size_t)16 * 1024) /* stdio: larger messages go in pieces of this size */
#define CONNECT_PAUSE_US 100
#define CONNECT_SECONDS 30
#define END_SECONDS 10

/* The one peer. */
static int in_fd = -1, out_fd = -1;
static volatile pid_t child;
static struct text received; /* bytes from `taken` on are unread */
static size_t taken;

/* Eight bytes at a time: processor time of the client is missing for the measured programs. */
static void mask(char *place, const char *bytes, size_t len, const unsigned char key[4])
{
	uint64_t wide;
	uint64_t word;
	size_t i = 0;
	memcpy(&wide, key, 4);
	memcpy((char *)&wide + 4, key, 4);
	for (; i + sizeof(word) <= len; i += sizeof(word)) {
		memcpy(&word, bytes + i, sizeof(word));
		word ^= wide;
		memcpy(place + i, &word, sizeof(word));
	}
	for (; i < len; i++) {
		place[i] = (char)((unsigned char)bytes[i] ^ key[i & 3]);
	}
}

/* RFC 6455: FIN, mask bit, a length in one of three forms, a key, the masked bytes. */
static void frame(struct text *out, unsigned int opcode, const char *bytes, size_t len)
{
	static uint32_t state = 0x9e3779b9;
	unsigned char key[4];
	state = state * 1664525U + 1013904223U;
	memcpy(key, &state, sizeof(key));
	add_byte(out, 0x80U | opcode);
	if (len < 126) {
		add_byte(out, 0x80U | (unsigned int)len);
	} else if (len < 65536) {
		add_byte(out, 0x80U | 126);
		add_big_endian(out, len, 2);
	} else {
		add_byte(out, 0x80U | 127);
		add_big_endian(out, len, 8);
	}
	add(out, key, sizeof(key));
	mask(space(out, len), bytes, len, key);
	out->len += len;
}

static void lines(struct text *out, const char *bytes, size_t len)
{
	char part[128];
	if (len <= CHUNK_BYTES) {
		add(out, bytes, len);
		add_byte(out, '\n');
		return;
	}
	(void)snprintf(
		part, sizeof(part), "{\"type\": \"chunk_start\", \"total_size\": %zu}\n", len);
	add_cstr(out, part);
	for (size_t at = 0; at < len; at += CHUNK_BYTES) {
		size_t piece = len - at < CHUNK_BYTES ? len - at : CHUNK_BYTES;
		add_cstr(out, "{\"type\": \"chunk_data\", \"data\": \"");
		add_escaped(out, bytes + at, piece);
		(void)snprintf(part, sizeof(part), "\", \"offset\": %zu}\n", at);
		add_cstr(out, part);
	}
	add_cstr(out, "{\"type\": \"chunk_end\"}\n");
}

/* Appends a message as it goes over the wire. */
void wrap(struct text *out, const struct text *message)
{
	if (opt.ws) {
		frame(out, opt.msgpack ? 2 : 1, message->bytes, message->len);
	} else if (opt.msgpack) {
		add(out, message->bytes, message->len);
	} else {
		lines(out, message->bytes, message->len);
	}
}

void write_all(const struct text *out)
{
	for (size_t at = 0; at < out->len;) {
		ssize_t wrote = write(out_fd, out->bytes + at, out->len - at);
		if (wrote < 0 && errno != EINTR) {
			die("write: %s", strerror(errno));
		}
		at += wrote > 0 ? (size_t)wrote : 0;
	}
}

/* 0 at the end. */
static size_t read_or_end(char *place, size_t len)
{
	ssize_t got;
	do {
		got = read(in_fd, place, len);
	} while (got < 0 && errno == EINTR);
	if (got < 0) {
		die("read: %s", strerror(errno));
	}
	return (size_t)got;
}

static size_t read_some(char *place, size_t len)
{
	size_t got = read_or_end(place, len);
	if (got == 0) {
		die("read: the peer is gone");
	}
	return got;
}

size_t receive_some(struct text *out)
{
	size_t got = read_or_end(space(out, READ_BYTES), READ_BYTES);
	out->len += got;
	return got;
}

void receive_bytes(struct text *out)
{
	out->len += read_some(space(out, READ_BYTES), READ_BYTES);
}

/* Reads more after the bytes that were not taken yet. */
static void fill(void)
{
	if (taken == received.len) {
		taken = received.len = 0;
	} else if (received.len > 4 * READ_BYTES && taken > received.len / 2) {
		received.len -= taken;
		memmove(received.bytes, received.bytes + taken, received.len);
		taken = 0;
	}
	received.len += read_some(space(&received, READ_BYTES), READ_BYTES);
}

static const unsigned char *want(size_t len)
{
	while (received.len - taken < len) {
		fill();
	}
	return (const unsigned char *)received.bytes + taken;
}

/* One frame into `message`; true when it was the last of a message. */
static bool receive_frame(struct text *message)
{
	const unsigned char *head = want(2);
	bool final = head[0] & 0x80;
	unsigned int opcode = head[0] & 15;
	size_t len = head[1] & 127;
	size_t used = 2;
	if (head[1] & 0x80) {
		die("a server's frame is masked");
	}
	if (len >= 126) {
		size_t bytes = len == 126 ? 2 : 8;
		head = want(2 + bytes);
		len = 0;
		for (size_t i = 0; i < bytes; i++) {
			len = len << 8 | head[2 + i];
		}
		used += bytes;
	}
	taken += used;
	if (opcode == 8) {
		die("the peer closed the connection");
	}
	if (opcode >= 8) {
		struct text pong = {0};
		const char *bytes = (const char *)want(len);
		if (opcode == 9) {
			frame(&pong, 10, bytes, len);
			write_all(&pong);
		}
		free(pong.bytes);
		taken += len;
		return false;
	}
	while (len > 0) {
		size_t have = received.len - taken;
		size_t piece = have < len ? have : len;
		if (piece > 0) {
			add(message, received.bytes + taken, piece);
			taken += piece;
		} else {
			/* Directly to its destination: saves a copy for large messages. */
			piece = read_some(space(message, len), len);
			message->len += piece;
		}
		len -= piece;
	}
	return final;
}

/* Appends one line, its newline included, and returns where it starts. */
static const char *receive_line(struct text *message)
{
	size_t before = message->len;
	const char *newline = NULL;
	while (!newline) {
		const char *bytes = (const char *)want(1);
		size_t have = received.len - taken;
		newline = memchr(bytes, '\n', have);
		size_t piece = newline ? (size_t)(newline - bytes) + 1 : have;
		add(message, bytes, piece);
		taken += piece;
	}
	return message->bytes + before;
}

bool line_is(const char *line, const struct text *message, const char *type)
{
	size_t len = message->len - (size_t)(line - message->bytes);
	return memmem(line, len < 40 ? len : 40, type, strlen(type)) != NULL;
}

/* What follows a msgpack value's first byte. */
struct msgpack_head {
	size_t fixed;       /* bytes of its own */
	size_t count_bytes; /* the length of a count, then as many bytes or values */
	unsigned int each;  /* values for each of the count; 0: bytes */
	unsigned int values;
};

static struct msgpack_head msgpack_head(unsigned int c)
{
	if ((c & 0xe0) == 0x80) {
		return (struct msgpack_head){.values = (c & 15) * (c < 0x90 ? 2 : 1)};
	}
	if ((c & 0xe0) == 0xa0) {
		return (struct msgpack_head){.fixed = c & 31};
	}
	if (c >= 0xc4 && c <= 0xc6) {
		return (struct msgpack_head){.count_bytes = (size_t)1 << (c - 0xc4)};
	}
	if (c >= 0xd9 && c <= 0xdb) {
		return (struct msgpack_head){.count_bytes = (size_t)1 << (c - 0xd9)};
	}
	if (c >= 0xdc && c <= 0xdf) {
		return (struct msgpack_head){
			.count_bytes = c & 1 ? 4 : 2, .each = c >= 0xde ? 2 : 1};
	}
	if (c == 0xca || c == 0xcb) {
		return (struct msgpack_head){.fixed = c == 0xca ? 4 : 8};
	}
	if (c >= 0xcc && c <= 0xd3) {
		return (struct msgpack_head){.fixed = (size_t)1 << (c & 3)};
	}
	if (c >= 0xc7 && c <= 0xd8) {
		die("a msgpack extension");
	}
	return (struct msgpack_head){0};
}

/* How many bytes the msgpack value at `bytes` takes; 0: more than there are. */
static size_t msgpack_size(const unsigned char *bytes, size_t len)
{
	size_t at = 0;
	for (uint64_t left = 1; left > 0; left--) {
		if (at >= len) {
			return 0;
		}
		struct msgpack_head head = msgpack_head(bytes[at++]);
		if (len - at < head.count_bytes) {
			return 0;
		}
		uint64_t count = 0;
		for (size_t i = 0; i < head.count_bytes; i++) {
			count = count << 8 | bytes[at++];
		}
		left += head.values + head.each * count;
		head.fixed += head.each == 0 ? count : 0;
		if (len - at < head.fixed) {
			return 0;
		}
		at += head.fixed;
	}
	return at;
}

/* One message as it came: on stdio with its chunk lines. */
void receive(struct text *message)
{
	message->len = 0;
	if (opt.ws) {
		while (!receive_frame(message)) {
		}
	} else if (opt.msgpack) {
		size_t size;
		const unsigned char *bytes = want(1);
		while ((size = msgpack_size(bytes, received.len - taken)) == 0) {
			fill();
			bytes = want(1);
		}
		add(message, want(size), size);
		taken += size;
	} else {
		const char *line = receive_line(message);
		if (line_is(line, message, "chunk_start")) {
			do {
				line = receive_line(message);
			} while (!line_is(line, message, "chunk_end"));
		}
	}
}

bool more_received(void)
{
	return taken < received.len;
}

/* --- the peer process --- */

/* SIGALRM: it took too long. */
static void on_signal(int number)
{
	static const char said[] = "load: took too long\n";
	if (number == SIGALRM) {
		(void)!write(STDERR_FILENO, said, sizeof(said) - 1);
	}
	if (child > 0) {
		(void)kill(child, SIGKILL);
	}
	_exit(1);
}

void take_signals(void)
{
	(void)signal(SIGALRM, on_signal);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGPIPE, SIG_IGN);
}

void kill_child(void)
{
	if (child > 0) {
		(void)kill(child, SIGKILL);
	}
}

static void add_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) < 0) {
		die("pipe: %s", strerror(errno));
	}
}

/* Starts the command; on stdio its ends of two pipes are its stdin and stdout. */
void spawn(void)
{
	int to[2];
	int from[2];
	pid_t pid;
	posix_spawn_file_actions_t actions;
	add_pipe(to);
	add_pipe(from);
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_addopen(
		&actions, STDERR_FILENO, opt.log, O_WRONLY | O_CREAT | O_APPEND, 0600);
	(void)posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
	(void)posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
	int r = posix_spawnp(&pid, opt.command[0], &actions, NULL, opt.command, opt.env);
	if (r != 0) {
		die("%s: %s", opt.command[0], strerror(r));
	}
	child = pid;
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(to[0]);
	(void)close(from[1]);
	in_fd = from[0];
	out_fd = to[1];
}

static int connect_unix(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	size_t len = strlen(opt.socket);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || len >= sizeof(address.sun_path)) {
		die("socket %s: %s", opt.socket, fd < 0 ? strerror(errno) : "the path is too long");
	}
	memcpy(address.sun_path, opt.socket, len + 1);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		(void)close(fd);
		return -1;
	}
	return fd;
}

static int connect_tcp(void)
{
	const int on = 1;
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(opt.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		die("socket: %s", strerror(errno));
	}
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) < 0) {
		(void)close(fd);
		return -1;
	}
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	return fd;
}

static int try_connect(void)
{
	return opt.socket ? connect_unix() : connect_tcp();
}

static _Noreturn void die_unconnected(void)
{
	if (opt.socket) {
		die("%s: %s", opt.socket, strerror(errno));
	}
	die("port %u: %s", opt.port, strerror(errno));
}

static void upgrade(const char *path, const char *more)
{
	struct text head = {0};
	char fields[8192];
	(void)snprintf(fields, sizeof(fields),
		"GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-LangBot-Instance-Id: %s\r\n"
		"%s%s%s%s\r\n",
		path, opt.port, opt.instance, opt.token ? "X-LangBot-Box-Control-Token: " : "",
		opt.token ? opt.token : "", opt.token ? "\r\n" : "", more);
	add_cstr(&head, fields);
	write_all(&head);
	free(head.bytes);
	const char *end;
	(void)want(1);
	while (!(end = memmem(received.bytes, received.len, "\r\n\r\n", 4))) {
		fill();
	}
	if (!memmem(received.bytes, received.len, " 101 ", 5) ||
		!memmem(received.bytes, received.len, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", 28)) {
		die("no upgrade: %.*s", (int)(end - received.bytes), received.bytes);
	}
	taken = (size_t)(end - received.bytes) + 4;
}

void dial(void)
{
	const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_US * 1000L};
	uint64_t until = now_ns() + CONNECT_SECONDS * 1000000000ULL;
	int fd;
	if (in_fd >= 0) {
		/* A child of ours listens: its pipes are not needed. */
		(void)close(in_fd);
		(void)close(out_fd);
	}
	while ((fd = try_connect()) < 0) {
		if (!child || now_ns() > until) {
			die_unconnected();
		}
		(void)nanosleep(&pause, NULL);
	}
	in_fd = out_fd = fd;
	if (!opt.bare) {
		upgrade("/rpc/ws", "");
	}
}

void dial_relay(const char *path)
{
	(void)close(in_fd);
	received.len = taken = 0;
	in_fd = out_fd = try_connect();
	if (in_fd < 0) {
		die_unconnected();
	}
	upgrade(path,
		"X-LangBot-Workspace-Id: ws1\r\nX-LangBot-Placement-Generation: 1\r\n"
		"Sec-WebSocket-Protocol: mcp\r\n");
}

/* Ends the command by what ends it: end of file on stdio, else SIGTERM. */
void end_child(void)
{
	int status = 0;
	const struct timespec pause = {.tv_nsec = 1000000};
	uint64_t until = now_ns() + END_SECONDS * 1000000000ULL;
	(void)close(out_fd);
	if (!child) {
		return;
	}
	if (opt.ws) {
		(void)kill(child, SIGTERM);
	}
	while (waitpid(child, &status, WNOHANG) == 0) {
		if (now_ns() > until) {
			die("%s does not end", opt.command[0]);
		}
		(void)nanosleep(&pause, NULL);
	}
	child = 0;
}
