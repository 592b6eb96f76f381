/* The load client's messages: requests in JSON and msgpack by the same calls, and checks of
 * answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

static struct text big_asked;    /* the string of mode big, encoded as it goes out */
static struct text big_expected; /* and as it comes back */

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

/* A string whose length takes that many bytes in msgpack: 2 or 4. */
static void put_string(struct text *out, const char *bytes, size_t len, int length_bytes)
{
	if (opt.msgpack) {
		add_byte(out, length_bytes == 2 ? 0xda : 0xdb);
		add_big_endian(out, len, length_bytes);
		add(out, bytes, len);
	} else {
		add_byte(out, '"');
		add_escaped(out, bytes, len);
		add_byte(out, '"');
	}
}

static void put_str(struct text *out, const char *str)
{
	put_string(out, str, strlen(str), 2);
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

void ask_empty(struct text *out, uint64_t seq, const char *action)
{
	put_head(out, seq, action, 3);
	put_map(out, 0);
	put_end(out);
	put_end(out);
}

void ask_init(struct text *out, uint64_t seq)
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

/* The last member of a tenant's request, and its end. */
static void put_context(struct text *out)
{
	put_key(out, false, "context");
	put_map(out, 3);
	put_pair(out, true, "instance_uuid", opt.instance);
	put_pair(out, false, "workspace_uuid", "ws1");
	put_key(out, false, "placement_generation");
	put_number(out, 1);
	put_end(out);
	put_end(out);
}

void ask_big(struct text *out, uint64_t seq)
{
	put_head(out, seq, opt.exec ? "box_exec" : "box_create_session", 4);
	put_map(out, 2);
	put_pair(out, true, "session_id", opt.exec ? "bench-exec" : "bench");
	put_key(out, false, opt.exec ? "cmd" : "image");
	add(out, big_asked.bytes, big_asked.len);
	put_end(out);
	put_context(out);
}

void ask_exec(struct text *out, uint64_t seq, const char *session, const char *cmd, bool network)
{
	put_head(out, seq, "box_exec", 4);
	put_map(out, 3 + (opt.cpus > 0) + (opt.seconds > 0));
	put_pair(out, true, "session_id", session);
	put_pair(out, false, "cmd", cmd);
	put_pair(out, false, "network", network ? "on" : "off");
	if (opt.cpus > 0) {
		put_key(out, false, "cpus");
		put_number(out, opt.cpus);
	}
	if (opt.seconds > 0) {
		put_key(out, false, "timeout_sec");
		put_number(out, opt.seconds);
	}
	put_end(out);
	put_context(out);
}

void ask_start(struct text *out, uint64_t seq, const char *session, const char *process,
	const char *command)
{
	put_head(out, seq, "box_start_managed_process", 4);
	put_map(out, 2);
	put_pair(out, true, "session_id", session);
	put_key(out, false, "spec");
	put_map(out, 2);
	put_pair(out, true, "process_id", process);
	put_pair(out, false, "command", command);
	put_end(out);
	put_end(out);
	put_context(out);
}

void ask_delete(struct text *out, uint64_t seq, const char *session)
{
	put_head(out, seq, "box_delete_session", 4);
	put_map(out, 1);
	put_pair(out, true, "session_id", session);
	put_end(out);
	put_context(out);
}

#define BIG_LINE "the quick brown fox jumps over the lazy dog, and then it said: \"once more\"."

/* Lines of prose with some quotes, like a source file or a web page. Does not end in white space,
 * which an exec would strip. */
void make_big(void)
{
	static const char line[] = BIG_LINE "\n";
	static const char verb[] = "echo ";
	struct text text = {0};
	add_cstr(&text, verb);
	for (size_t i = 0; i < opt.text_bytes; i++) {
		char c = i + 1 < opt.text_bytes ? line[i % (sizeof(line) - 1)] : '.';
		add_byte(&text, (unsigned char)(opt.plain && (c == '"' || c == '\n') ? 'x' : c));
	}
	size_t skip = sizeof(verb) - 1;
	put_string(&big_expected, text.bytes + skip, text.len - skip, 4);
	skip = opt.exec ? 0 : skip;
	put_string(&big_asked, text.bytes + skip, text.len - skip, 4);
	free(text.bytes);
}

const char *big_command(void)
{
	static char command[256];
	(void)snprintf(command, sizeof(command),
		"yes '" BIG_LINE "' | head -c %zu >f && printf . >>f", opt.text_bytes - 1);
	return command;
}

/* --- checking --- */

/* The text of a chunked message: the contents of its lines, unescaped once. */
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

/* The number after a key; exits when there is none. */
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

uint64_t check_either(struct text *message, bool *ret_success)
{
	if (!opt.ws && !opt.msgpack && line_is(message->bytes, message, "chunk_start")) {
		unchunk(message);
	}
	*ret_success = opt.echo || number_of(message, "code") == 0;
	return number_of(message, "seq_id");
}

uint64_t check(struct text *message)
{
	bool success;
	uint64_t seq = check_either(message, &success);
	if (!success) {
		die("an error: %.*s", (int)(message->len < 600 ? message->len : 600),
			message->bytes);
	}
	return seq;
}

uint64_t check_exec(struct text *message)
{
	uint64_t seq = check(message);
	if (number_of(message, "exit_code") != 0) {
		die("a command failed: %.*s", (int)(message->len < 600 ? message->len : 600),
			message->bytes);
	}
	if (opt.expect && !memmem(message->bytes, message->len, opt.expect, strlen(opt.expect))) {
		size_t shown = message->len < 300 ? message->len : 300;
		die("not what was expected: ...%.*s", (int)shown,
			message->bytes + message->len - shown);
	}
	return seq;
}

void check_big(const struct text *message)
{
	const struct text *text = opt.echo ? &big_asked : &big_expected;
	if (!memmem(message->bytes, message->len, text->bytes, text->len)) {
		die("the text did not come back");
	}
}
