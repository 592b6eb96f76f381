/* The load client: asks a runtime over WebSocket or stdio, takes the time, prints it as JSON.
 *
 * Nothing but libc, so that what is measured is the runtime and not the client. What is sent is
 * built, and what came is checked, outside of the time taken; any answer that is not the right one
 * ends the program with 1.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define READ_BYTES ((size_t)256 * 1024)
#define CHUNK_BYTES ((size_t)16 * 1024) /* stdio: larger messages go in pieces of this size */
#define CONNECT_PAUSE_US 100
#define CONNECT_SECONDS 30
#define END_SECONDS 10

static const char usage[] =
	"usage: load MODE --ws PORT [OPTION]... [-- COMMAND...]\n"
	"       load MODE --stdio [OPTION]... -- COMMAND...\n"
	"MODE\n"
	"  ping     round trips of __ping, one at a time\n"
	"  flood    pings a second with --window of them under way\n"
	"  big      round trips of a message with --bytes of text, which comes back: a\n"
	"           box_create_session with it as its image, or a box_exec that prints it\n"
	"  start    from the start of COMMAND to its first box_health\n"
	"OPTION\n"
	"  --count N     how many (1000)          --warmup N    uncounted ones before (100)\n"
	"  --window N    under way at once (32)   --bytes N     length of the text (1048576)\n"
	"  --msgpack     not JSON                 --plain       a text without escapes\n"
	"  --echo        the peer answers with what it got\n"
	"  --exec        box_exec (mode big)\n"
	"  --backend B   for box_init             --root DIR    its host_root\n"
	"  --instance I  --token T                who we are\n"
	"  --env K=V     the only environment that COMMAND gets\n"
	"  --log FILE    COMMAND's stderr         --timeout N   give up after N seconds (60)\n";

struct text {
	char *bytes;
	size_t len;
	size_t room;
};

static struct {
	bool ws, stdio, msgpack, plain, echo, exec;
	uint16_t port;
	size_t count, warmup, window, text_bytes;
	const char *backend, *root, *instance, *token, *log;
	char **command;
	char *env[64];
	size_t env_count;
} opt = {
	.count = 1000,
	.warmup = 100,
	.window = 32,
	.text_bytes = 1048576,
	.instance = "bench-instance",
	.log = "/dev/null",
};

/* The one peer. */
static int in_fd = -1, out_fd = -1;
static volatile pid_t child;
static struct text received; /* bytes from `taken` on are not looked at yet */
static size_t taken;
static struct text big_asked;    /* the string of mode big, encoded as it goes out */
static struct text big_expected; /* and as it comes back */

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)fputs("load: ", stderr);
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	va_end(args);
	if (child > 0) {
		(void)kill(child, SIGKILL);
	}
	exit(1);
}

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

static uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static char *space(struct text *text, size_t len)
{
	if (text->len + len > text->room) {
		text->room = text->room * 2 > text->len + len ? text->room * 2 : text->len + len;
		text->bytes = realloc(text->bytes, text->room);
		if (!text->bytes) {
			die("no memory");
		}
	}
	return text->bytes + text->len;
}

static void add(struct text *text, const void *bytes, size_t len)
{
	memcpy(space(text, len), bytes, len);
	text->len += len;
}

static void add_cstr(struct text *text, const char *more)
{
	add(text, more, strlen(more));
}

static void add_byte(struct text *text, unsigned int byte)
{
	*space(text, 1) = (char)byte;
	text->len++;
}

/* --- messages: JSON and msgpack by the same calls --- */

static void add_big_endian(struct text *out, uint64_t number, int bytes)
{
	for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
		add_byte(out, (unsigned int)(number >> shift) & 0xff);
	}
}

static void put_escaped(struct text *out, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == '"' || bytes[i] == '\\') {
			add_byte(out, '\\');
			add_byte(out, (unsigned char)bytes[i]);
		} else if (bytes[i] == '\n') {
			add(out, "\\n", 2);
		} else {
			add_byte(out, (unsigned char)bytes[i]);
		}
	}
}

static void put_map(struct text *out, unsigned int count)
{
	add_byte(out, opt.msgpack ? 0x80U + count : '{');
}

static void put_end(struct text *out)
{
	if (!opt.msgpack) {
		add_byte(out, '}');
	}
}

static void put_str(struct text *out, const char *str)
{
	size_t len = strlen(str);
	if (opt.msgpack) {
		add_byte(out, 0xda);
		add_big_endian(out, len, 2);
		add(out, str, len);
	} else {
		add_byte(out, '"');
		put_escaped(out, str, len);
		add_byte(out, '"');
	}
}

static void put_key(struct text *out, bool first, const char *key)
{
	if (!opt.msgpack && !first) {
		add_byte(out, ',');
	}
	put_str(out, key);
	if (!opt.msgpack) {
		add_byte(out, ':');
	}
}

static void put_pair(struct text *out, bool first, const char *key, const char *value)
{
	put_key(out, first, key);
	put_str(out, value);
}

static void put_number(struct text *out, uint64_t number)
{
	char digits[24];
	if (opt.msgpack) {
		add_byte(out, 0xce);
		add_big_endian(out, number, 4);
	} else {
		(void)snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
		add_cstr(out, digits);
	}
}

/* Everything up to the value of "data". */
static void put_head(struct text *out, uint64_t seq, const char *action, unsigned int members)
{
	put_map(out, members);
	put_key(out, true, "seq_id");
	put_number(out, seq);
	put_pair(out, false, "action", action);
	put_key(out, false, "data");
}

static void ask_empty(struct text *out, uint64_t seq, const char *action)
{
	put_head(out, seq, action, 3);
	put_map(out, 0);
	put_end(out);
	put_end(out);
}

static void ask_init(struct text *out, uint64_t seq)
{
	put_head(out, seq, "box_init", 3);
	put_map(out, 2);
	put_pair(out, true, "backend", opt.backend);
	put_key(out, false, "local");
	put_map(out, 1);
	put_pair(out, true, "host_root", opt.root ? opt.root : ".");
	put_end(out);
	put_end(out);
	put_end(out);
}

static void ask_big(struct text *out, uint64_t seq)
{
	put_head(out, seq, opt.exec ? "box_exec" : "box_create_session", 4);
	put_map(out, 2);
	put_pair(out, true, "session_id", opt.exec ? "bench-exec" : "bench");
	put_key(out, false, opt.exec ? "cmd" : "image");
	add(out, big_asked.bytes, big_asked.len);
	put_end(out);
	put_key(out, false, "context");
	put_map(out, 3);
	put_pair(out, true, "instance_uuid", opt.instance);
	put_pair(out, false, "workspace_uuid", "ws1");
	put_key(out, false, "placement_generation");
	put_number(out, 1);
	put_end(out);
	put_end(out);
}

static void put_big(struct text *out, const char *bytes, size_t len)
{
	if (opt.msgpack) {
		add_byte(out, 0xdb);
		add_big_endian(out, len, 4);
		add(out, bytes, len);
	} else {
		add_byte(out, '"');
		put_escaped(out, bytes, len);
		add_byte(out, '"');
	}
}

/* Lines of prose, some of them quoted: what a source file or a web page is like. It does not end in
 * white space, which an exec would strip. */
static void make_big(void)
{
	static const char line[] =
		"the quick brown fox jumps over the lazy dog, and then it said: \"once more\".\n";
	static const char verb[] = "echo ";
	struct text text = {0};
	add_cstr(&text, verb);
	for (size_t i = 0; i < opt.text_bytes; i++) {
		char c = i + 1 < opt.text_bytes ? line[i % (sizeof(line) - 1)] : '.';
		add_byte(&text, (unsigned char)(opt.plain && (c == '"' || c == '\n') ? 'x' : c));
	}
	size_t skip = sizeof(verb) - 1;
	put_big(&big_expected, text.bytes + skip, text.len - skip);
	skip = opt.exec ? 0 : skip;
	put_big(&big_asked, text.bytes + skip, text.len - skip);
	free(text.bytes);
}

/* --- framing --- */

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
	char *place = space(out, len);
	for (size_t i = 0; i < len; i++) {
		place[i] = (char)((unsigned char)bytes[i] ^ key[i & 3]);
	}
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
		put_escaped(out, bytes + at, piece);
		(void)snprintf(part, sizeof(part), "\", \"offset\": %zu}\n", at);
		add_cstr(out, part);
	}
	add_cstr(out, "{\"type\": \"chunk_end\"}\n");
}

/* Appends a message as it goes over the wire. */
static void wrap(struct text *out, const struct text *message)
{
	if (opt.ws) {
		frame(out, opt.msgpack ? 2 : 1, message->bytes, message->len);
	} else if (opt.msgpack) {
		add(out, message->bytes, message->len);
	} else {
		lines(out, message->bytes, message->len);
	}
}

static void write_all(const struct text *out)
{
	for (size_t at = 0; at < out->len;) {
		ssize_t wrote = write(out_fd, out->bytes + at, out->len - at);
		if (wrote < 0 && errno != EINTR) {
			die("write: %s", strerror(errno));
		}
		at += wrote > 0 ? (size_t)wrote : 0;
	}
}

static size_t read_some(char *place, size_t len)
{
	ssize_t got = read(in_fd, place, len);
	if (got == 0 || (got < 0 && errno != EINTR)) {
		die("read: %s", got == 0 ? "the peer is gone" : strerror(errno));
	}
	return got > 0 ? (size_t)got : 0;
}

/* Reads more behind what was not taken yet. */
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
			/* Straight to where it belongs: large messages are copied once less. */
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

static bool line_is(const char *line, const struct text *message, const char *type)
{
	size_t len = message->len - (size_t)(line - message->bytes);
	return memmem(line, len < 40 ? len : 40, type, strlen(type)) != NULL;
}

/* How many bytes the msgpack value at `bytes` takes; 0: more than there are. */
static size_t msgpack_size(const unsigned char *bytes, size_t len)
{
	size_t at = 0;
	for (uint64_t left = 1; left > 0; left--) {
		if (at >= len) {
			return 0;
		}
		unsigned int c = bytes[at++];
		size_t fixed = 0;
		size_t count_bytes = 0;
		unsigned int each = 0; /* values for each of the count; 0: bytes */
		if ((c & 0xf0) == 0x80 || (c & 0xf0) == 0x90) {
			left += (uint64_t)(c & 15) * ((c & 0xf0) == 0x80 ? 2 : 1);
		} else if ((c & 0xe0) == 0xa0) {
			fixed = c & 31;
		} else if (c >= 0xc4 && c <= 0xc6) {
			count_bytes = 1U << (c - 0xc4);
		} else if (c >= 0xd9 && c <= 0xdb) {
			count_bytes = 1U << (c - 0xd9);
		} else if (c >= 0xdc && c <= 0xdf) {
			count_bytes = c & 1 ? 4 : 2;
			each = c >= 0xde ? 2 : 1;
		} else if (c == 0xca || c == 0xcb) {
			fixed = c == 0xca ? 4 : 8;
		} else if (c >= 0xcc && c <= 0xd3) {
			fixed = (size_t)1 << (c & 3);
		} else if (c >= 0xc7 && c <= 0xd8) {
			die("a msgpack extension");
		}
		if (len - at < count_bytes) {
			return 0;
		}
		uint64_t count = 0;
		for (size_t i = 0; i < count_bytes; i++) {
			count = count << 8 | bytes[at++];
		}
		left += each * count;
		fixed += each == 0 ? count : 0;
		if (len - at < fixed) {
			return 0;
		}
		at += fixed;
	}
	return at;
}

/* One message as it came: on stdio with its chunk lines. */
static void receive(struct text *message)
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

/* --- checking --- */

/* The text of a chunked message: what stands in its lines, unescaped once. */
static void unchunk(struct text *message)
{
	static const char key[] = "\"data\":";
	char *to = message->bytes;
	char *at = message->bytes;
	char *end = at + message->len;
	while ((at = memmem(at, (size_t)(end - at), key, sizeof(key) - 1))) {
		at = memchr(at + sizeof(key) - 1, '"', (size_t)(end - at) - (sizeof(key) - 1));
		if (!at) {
			die("chunk data that is no string");
		}
		for (at++; at < end && *at != '"'; at++) {
			if (*at == '\\' && *++at == 'n') {
				*at = '\n';
			}
			*to++ = *at;
		}
	}
	message->len = (size_t)(to - message->bytes);
}

/* The number behind a key; dies when there is none. */
static uint64_t number_of(const struct text *message, const char *key)
{
	size_t len = strlen(key);
	const char *end = message->bytes + message->len;
	const char *at = memmem(message->bytes, message->len, key, len);
	if (!at) {
		die("an answer without %s: %.*s", key,
			(int)(message->len < 300 ? message->len : 300), message->bytes);
	}
	at += len;
	uint64_t number = 0;
	if (opt.msgpack) {
		unsigned int c = at < end ? (unsigned char)*at++ : 0xc0;
		size_t bytes = c >= 0xcc && c <= 0xd3 ? (size_t)1 << (c & 3) : 0;
		if ((bytes == 0 && c > 127) || (size_t)(end - at) < bytes) {
			die("%s is no number", key);
		}
		number = bytes == 0 ? c : 0;
		for (size_t i = 0; i < bytes; i++) {
			number = number << 8 | (unsigned char)*at++;
		}
		return number;
	}
	while (at < end && (*at == '"' || *at == ':' || *at == ' ')) {
		at++;
	}
	if (at == end || *at < '0' || *at > '9') {
		die("%s is no number", key);
	}
	for (; at < end && *at >= '0' && *at <= '9'; at++) {
		number = number * 10 + (uint64_t)(*at - '0');
	}
	return number;
}

/* The seq_id of an answer that is a success. */
static uint64_t check(struct text *message)
{
	if (!opt.ws && !opt.msgpack && line_is(message->bytes, message, "chunk_start")) {
		unchunk(message);
	}
	if (!opt.echo && number_of(message, "code") != 0) {
		die("an error: %.*s", (int)(message->len < 600 ? message->len : 600),
			message->bytes);
	}
	return number_of(message, "seq_id");
}

static void check_big(const struct text *message)
{
	const struct text *text = opt.echo ? &big_asked : &big_expected;
	if (!memmem(message->bytes, message->len, text->bytes, text->len)) {
		die("the text did not come back");
	}
}

/* --- connections --- */

static void add_pipe(int fds[2])
{
	if (pipe2(fds, O_CLOEXEC) < 0) {
		die("pipe: %s", strerror(errno));
	}
}

/* Starts the command; on stdio its ends of two pipes are its stdin and stdout. */
static void spawn(void)
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

static int try_connect(void)
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

static void dial(void)
{
	const struct timespec pause = {.tv_nsec = CONNECT_PAUSE_US * 1000L};
	uint64_t until = now_ns() + CONNECT_SECONDS * 1000000000ULL;
	int fd;
	while ((fd = try_connect()) < 0) {
		if (!child || now_ns() > until) {
			die("port %u: %s", opt.port, strerror(errno));
		}
		(void)nanosleep(&pause, NULL);
	}
	in_fd = out_fd = fd;
	struct text head = {0};
	char fields[8192];
	(void)snprintf(fields, sizeof(fields),
		"GET /rpc/ws HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nUpgrade: websocket\r\n"
		"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-LangBot-Instance-Id: %s\r\n%s%s%s\r\n",
		opt.port, opt.instance, opt.token ? "X-LangBot-Box-Control-Token: " : "",
		opt.token ? opt.token : "", opt.token ? "\r\n" : "");
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

/* Ends the command by what ends it: end of file on stdio, else SIGTERM. */
static void end_child(void)
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

/* --- what is measured --- */

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static void print_times(uint64_t *times, size_t count)
{
	uint64_t sum = 0;
	qsort(times, count, sizeof(*times), by_value);
	for (size_t i = 0; i < count; i++) {
		sum += times[i];
	}
	printf("{\"count\": %zu, \"min_us\": %.2f, \"p50_us\": %.2f, \"p90_us\": %.2f, "
	       "\"p99_us\": %.2f, \"max_us\": %.2f, \"mean_us\": %.2f}\n",
		count, (double)times[0] / 1e3, (double)times[count / 2] / 1e3,
		(double)times[count * 9 / 10] / 1e3, (double)times[count * 99 / 100] / 1e3,
		(double)times[count - 1] / 1e3, (double)sum / (double)count / 1e3);
}

/* Sends one message and takes its answer. The time between, in ns. */
static uint64_t round_trip(const struct text *message, struct text *answer, uint64_t seq)
{
	static struct text wire;
	wire.len = 0;
	wrap(&wire, message);
	uint64_t before = now_ns();
	write_all(&wire);
	receive(answer);
	uint64_t took = now_ns() - before;
	if (check(answer) != seq) {
		die("an answer to another request");
	}
	return took;
}

static void measure_ping(void)
{
	struct text message = {0};
	struct text answer = {0};
	uint64_t *times = calloc(opt.count, sizeof(*times));
	for (size_t i = 0; times && i < opt.warmup + opt.count; i++) {
		message.len = 0;
		ask_empty(&message, i + 1, "__ping");
		uint64_t took = round_trip(&message, &answer, i + 1);
		if (i >= opt.warmup) {
			times[i - opt.warmup] = took;
		}
	}
	print_times(times, opt.count);
}

static void add_ping(struct text *wire, struct text *message, uint64_t seq)
{
	message->len = 0;
	ask_empty(message, seq, "__ping");
	wrap(wire, message);
}

/* Keeps `window` pings under way: as many go out as have been answered, in one write. */
static void measure_flood(void)
{
	struct text wire = {0};
	struct text message = {0};
	struct text answer = {0};
	size_t total = opt.warmup + opt.count;
	size_t sent = 0;
	uint64_t before = 0;
	bool *answered = calloc(total + 1, sizeof(*answered));
	for (size_t done = 0; answered && done < total;) {
		wire.len = 0;
		while (sent < total && sent - done < opt.window) {
			add_ping(&wire, &message, ++sent);
		}
		write_all(&wire);
		do {
			receive(&answer);
			uint64_t seq = check(&answer);
			if (seq == 0 || seq > sent || answered[seq]) {
				die("an answer that was not asked for");
			}
			answered[seq] = true;
			if (++done == opt.warmup) {
				before = now_ns();
			}
		} while (taken < received.len);
	}
	double seconds = (double)(now_ns() - before) / 1e9;
	printf("{\"count\": %zu, \"window\": %zu, \"per_second\": %.1f}\n", opt.count, opt.window,
		(double)opt.count / seconds);
}

static void measure_big(void)
{
	struct text message = {0};
	struct text answer = {0};
	uint64_t *times = calloc(opt.count, sizeof(*times));
	make_big();
	if (!opt.echo) {
		ask_init(&message, 1);
		(void)round_trip(&message, &answer, 1);
	}
	for (size_t i = 0; times && i < opt.warmup + opt.count; i++) {
		message.len = 0;
		ask_big(&message, i + 2);
		uint64_t took = round_trip(&message, &answer, i + 2);
		check_big(&answer);
		if (i >= opt.warmup) {
			times[i - opt.warmup] = took;
		}
	}
	print_times(times, opt.count);
}

static void measure_start(void)
{
	struct text message = {0};
	struct text answer = {0};
	ask_empty(&message, 1, "box_health");
	uint64_t before = now_ns();
	spawn();
	uint64_t spawned = now_ns();
	if (opt.ws) {
		(void)close(in_fd);
		(void)close(out_fd);
		dial();
	}
	uint64_t connected = now_ns();
	(void)round_trip(&message, &answer, 1);
	uint64_t answered = now_ns();
	printf("{\"spawn_ms\": %.3f, \"connected_ms\": %.3f, \"total_ms\": %.3f}\n",
		(double)(spawned - before) / 1e6, (double)(connected - before) / 1e6,
		(double)(answered - before) / 1e6);
}

/* --- the command line --- */

enum {
	FLAG_WS = 1,
	FLAG_STDIO,
	FLAG_COUNT,
	FLAG_WARMUP,
	FLAG_WINDOW,
	FLAG_BYTES,
	FLAG_MSGPACK,
	FLAG_PLAIN,
	FLAG_ECHO,
	FLAG_EXEC,
	FLAG_BACKEND,
	FLAG_ROOT,
	FLAG_INSTANCE,
	FLAG_TOKEN,
	FLAG_ENV,
	FLAG_LOG,
	FLAG_TIMEOUT,
};

static const struct option flags[] = {
	{"ws", required_argument, NULL, FLAG_WS},
	{"stdio", no_argument, NULL, FLAG_STDIO},
	{"count", required_argument, NULL, FLAG_COUNT},
	{"warmup", required_argument, NULL, FLAG_WARMUP},
	{"window", required_argument, NULL, FLAG_WINDOW},
	{"bytes", required_argument, NULL, FLAG_BYTES},
	{"msgpack", no_argument, NULL, FLAG_MSGPACK},
	{"plain", no_argument, NULL, FLAG_PLAIN},
	{"echo", no_argument, NULL, FLAG_ECHO},
	{"exec", no_argument, NULL, FLAG_EXEC},
	{"backend", required_argument, NULL, FLAG_BACKEND},
	{"root", required_argument, NULL, FLAG_ROOT},
	{"instance", required_argument, NULL, FLAG_INSTANCE},
	{"token", required_argument, NULL, FLAG_TOKEN},
	{"env", required_argument, NULL, FLAG_ENV},
	{"log", required_argument, NULL, FLAG_LOG},
	{"timeout", required_argument, NULL, FLAG_TIMEOUT},
	{0},
};

static _Noreturn void wrong_usage(void)
{
	(void)fputs(usage, stderr);
	exit(2);
}

static size_t number(size_t most)
{
	char *end;
	unsigned long long value = strtoull(optarg, &end, 10);
	if (*end != '\0' || end == optarg || value > most) {
		wrong_usage();
	}
	return (size_t)value;
}

static void apply(int flag)
{
	switch (flag) {
	case FLAG_WS:
		opt.ws = true;
		opt.port = (uint16_t)number(UINT16_MAX);
		break;
	case FLAG_STDIO:
		opt.stdio = true;
		break;
	case FLAG_COUNT:
		opt.count = number(INT_MAX);
		break;
	case FLAG_WARMUP:
		opt.warmup = number(INT_MAX);
		break;
	case FLAG_WINDOW:
		opt.window = number(128);
		break;
	case FLAG_BYTES:
		opt.text_bytes = number(INT_MAX);
		break;
	case FLAG_MSGPACK:
		opt.msgpack = true;
		break;
	case FLAG_PLAIN:
		opt.plain = true;
		break;
	case FLAG_ECHO:
		opt.echo = true;
		break;
	case FLAG_EXEC:
		opt.exec = true;
		break;
	case FLAG_BACKEND:
		opt.backend = optarg;
		break;
	case FLAG_ROOT:
		opt.root = optarg;
		break;
	case FLAG_INSTANCE:
		opt.instance = optarg;
		break;
	case FLAG_TOKEN:
		opt.token = optarg;
		break;
	case FLAG_ENV:
		if (opt.env_count + 1 == sizeof(opt.env) / sizeof(opt.env[0])) {
			wrong_usage();
		}
		opt.env[opt.env_count++] = optarg;
		break;
	case FLAG_LOG:
		opt.log = optarg;
		break;
	case FLAG_TIMEOUT:
		(void)alarm((unsigned int)number(3600));
		break;
	default:
		wrong_usage();
	}
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*measure)(void);
	} modes[] = {
		{"ping", measure_ping},
		{"flood", measure_flood},
		{"big", measure_big},
		{"start", measure_start},
	};
	void (*measure)(void) = NULL;
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		measure = strcmp(argv[1], modes[i].name) == 0 ? modes[i].measure : measure;
	}
	if (!measure) {
		wrong_usage();
	}
	(void)signal(SIGALRM, on_signal);
	(void)signal(SIGTERM, on_signal);
	(void)signal(SIGINT, on_signal);
	(void)signal(SIGPIPE, SIG_IGN);
	(void)alarm(60);
	optind = 2;
	for (int flag; (flag = getopt_long(argc, argv, "+", flags, NULL)) != -1;) {
		apply(flag);
	}
	opt.command = optind < argc ? argv + optind : NULL;
	if (opt.ws == opt.stdio || opt.count == 0 || opt.window == 0 || opt.text_bytes == 0 ||
		(measure == measure_big && !opt.echo && !opt.backend) ||
		(opt.command != NULL) != (opt.stdio || measure == measure_start)) {
		wrong_usage();
	}
	if (opt.stdio && measure != measure_start) {
		spawn();
	} else if (opt.ws && measure != measure_start) {
		dial();
	}
	measure();
	(void)fflush(stdout);
	end_child();
	return 0;
}
