/* The reader of request heads: what it accepts, and at which byte it refuses. */
#include "tests/unit/lib/test.h"
#include "transport/http_head.h"

#define LINE "GET /rpc/ws HTTP/1.1\r\n"
#define HOST "Host: localhost:5410\r\n"

/* A literal that may hold NUL bytes. */
#define BYTES(literal)                       \
	{                                    \
		literal, sizeof(literal) - 1 \
	}

static struct box_http_head head;

static void assert_str(struct box_str actual, const char *expected)
{
	ASSERT(actual.bytes != NULL);
	ASSERT_BYTES(actual.bytes, actual.len, expected, strlen(expected));
}

/* From a copy of exactly that size, so that the sanitizer sees any read past it. */
static enum box_http_head_result parse(const char *bytes, size_t len)
{
	static char *copy;
	free(copy);
	copy = malloc(len > 0 ? len : 1);
	ASSERT(copy != NULL);
	memcpy(copy, bytes, len);
	return box_http_head_parse(copy, len, &head);
}

static void assert_prefixes_more(const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (parse(bytes, i) != BOX_HTTP_HEAD_MORE) {
			TEST_FAIL("no MORE for %zu of %zu bytes: %.*s", i, len, (int)i, bytes);
		}
	}
}

static const char full[] = "GET /v1/sessions/ws-1/managed-process/p/ws?a=1&b=?/ HTTP/1.1\r\n"
			   "Host: 127.0.0.1:5410\r\n"
			   "Upgrade: websocket\r\n"
			   "Connection: keep-alive, Upgrade\r\n"
			   "X-Empty:\r\n"
			   "X-Spaces: \t  a \t b \t \r\n"
			   "X-Tight:a:b\r\n"
			   "Content-Length: 0\r\n"
			   "\r\n";

TEST(a_whole_head)
{
	ASSERT_INT(parse(full, sizeof(full) - 1), BOX_HTTP_HEAD_COMPLETE);
	assert_str(head.method, "GET");
	assert_str(head.path, "/v1/sessions/ws-1/managed-process/p/ws");
	assert_str(head.query, "a=1&b=?/");
	ASSERT_INT(head.field_count, 7);
	assert_str(head.fields[0].name, "Host");
	assert_str(head.fields[0].value, "127.0.0.1:5410");
	assert_str(head.fields[3].name, "X-Empty");
	assert_str(head.fields[3].value, "");
	assert_str(head.fields[4].value, "a \t b");
	assert_str(head.fields[5].value, "a:b");
	ASSERT_INT(head.bytes_used, sizeof(full) - 1);
	ASSERT_INT(head.content_length, 0);
}

TEST(every_prefix_asks_for_more)
{
	assert_prefixes_more(full, sizeof(full) - 1);
}

TEST(what_follows_the_head_is_not_read)
{
	static const char text[] = LINE HOST "\r\n\0\xff\r\nGET / HTTP/1.0\n";
	ASSERT_INT(parse(text, sizeof(text) - 1), BOX_HTTP_HEAD_COMPLETE);
	ASSERT_INT(head.bytes_used, strlen(LINE HOST "\r\n"));
	ASSERT_INT(head.field_count, 1);
}

TEST(nothing_of_an_earlier_parse_stays)
{
	static const char first[] = "GET /?q HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\n";
	static const char second[] = "GET / HTTP/1.1\r\n" HOST "\r\n";
	ASSERT_INT(parse(first, sizeof(first) - 1), BOX_HTTP_HEAD_COMPLETE);
	ASSERT_INT(head.content_length, 9);
	ASSERT_INT(parse(second, sizeof(second) - 1), BOX_HTTP_HEAD_COMPLETE);
	ASSERT_INT(head.content_length, 0);
	ASSERT_INT(head.field_count, 1);
	ASSERT(head.query.bytes == NULL);
}

TEST(well_formed)
{
	static const struct box_str rows[] = {
		BYTES(LINE HOST "\r\n"),
		BYTES("M-SEARCH!#$%&'*+.^_`|~09 / HTTP/1.1\r\n" HOST "\r\n"),
		BYTES("get / HTTP/1.1\r\n" HOST "\r\n"),
		BYTES("GET //x/../%00 HTTP/1.1\r\n" HOST "\r\n"),
		BYTES("GET /? HTTP/1.1\r\n" HOST "\r\n"),
		BYTES("GET /!\"$%&'()*+,-.:;<=>@[\\]^_`{|}~ HTTP/1.1\r\n" HOST "\r\n"),
		BYTES(LINE "hOST:\t[::1]:80 \t\r\n\r\n"),
		BYTES(LINE "Host: a-b.c_d~e%20!$&'()*+,;=\r\n\r\n"),
		BYTES(LINE HOST "X: \"{[(\\|/?#)]}\"\r\n\r\n"),
		BYTES(LINE HOST "Content-Length: \t 00012 \t\r\n\r\n"),
		BYTES(LINE HOST "X-Content-Length: a\r\nTransfer-Encodings: chunked\r\n\r\n"),
		BYTES(LINE HOST "TE: trailers\r\nX: 1\r\nX: 2\r\n\r\n"),
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_prefixes_more(rows[i].bytes, rows[i].len);
		ASSERT_INT(parse(rows[i].bytes, rows[i].len), BOX_HTTP_HEAD_COMPLETE);
		ASSERT_INT(head.bytes_used, rows[i].len);
	}
}

/* `good` may still become a head, `good` + `bad` never can, and the first byte of `bad` shows it.
 */
struct refusal {
	const char *good;
	struct box_str bad;
};

static void assert_refused_at(const struct refusal *row)
{
	static const char after[] = "\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n";
	char text[1024];
	size_t good = strlen(row->good);
	ASSERT(good + row->bad.len + sizeof(after) <= sizeof(text));
	memcpy(text, row->good, good);
	memcpy(text + good, row->bad.bytes, row->bad.len);
	memcpy(text + good + row->bad.len, after, sizeof(after));
	for (size_t len = 0; len < good + row->bad.len + sizeof(after); len++) {
		enum box_http_head_result wanted = len <= good ? BOX_HTTP_HEAD_MORE
							       : BOX_HTTP_HEAD_MALFORMED;
		if (parse(text, len) != wanted) {
			TEST_FAIL("%s%.*s: not %d at byte %zu", row->good, (int)row->bad.len,
				row->bad.bytes, (int)wanted, len);
		}
	}
}

static void assert_all_refused(const struct refusal *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		assert_refused_at(&rows[i]);
	}
}

TEST(malformed_request_lines)
{
	static const struct refusal rows[] = {
		{"", BYTES("\r\nGET / HTTP/1.1")},
		{"", BYTES("\nGET")},
		{"", BYTES(" GET")},
		{"", BYTES("\0")},
		{"", BYTES("\x16\x03\x01")}, /* a TLS hello */
		{"", BYTES("{\"seq_id\"")},
		{"", BYTES("\x81\xa6")},
		{"GET", BYTES("\t/")},
		{"GET", BYTES("\r\n")},
		{"GET", BYTES("\0 /")},
		{"GE", BYTES("(T /")},
		{"GE", BYTES("\xc3\x89 /")},
		{"GET ", BYTES(" /")},
		{"GET ", BYTES("\t/")},
		{"GET ", BYTES("http://localhost/rpc/ws HTTP/1.1")},
		{"CONNECT ", BYTES("localhost:5410 HTTP/1.1")},
		{"OPTIONS ", BYTES("* HTTP/1.1")},
		{"PRI ", BYTES("* HTTP/2.0\r\n\r\nSM\r\n\r\n")},
		{"GET ", BYTES("?a HTTP/1.1")},
		{"GET ", BYTES("\r\n")},
		{"GET /", BYTES("\r\n")}, /* HTTP/0.9 */
		{"GET /a", BYTES("#b")},
		{"GET /a", BYTES("\tHTTP/1.1")},
		{"GET /a", BYTES("\0")},
		{"GET /a", BYTES("\x7f")},
		{"GET /a", BYTES("\x80")},
		{"GET /a", BYTES("\xff")},
		{"GET /a", BYTES("\n")},
		{"GET /a?b", BYTES("#c")},
		{"GET / ", BYTES(" HTTP/1.1")},
		{"GET / ", BYTES("\r\n")},
		{"GET / ", BYTES("http/1.1")},
		{"GET / HTTP/", BYTES("2.0")},
		{"GET / HTTP/", BYTES("01.1")},
		{"GET / HTTP/1.", BYTES("0\r\n")},
		{"GET / HTTP/1.", BYTES("2\r\n")},
		{"GET / HTTP/1.1", BYTES("1\r\n")},
		{"GET / HTTP/1.1", BYTES(" \r\n")},
		{"GET / HTTP/1.1", BYTES("\n")},
		{"GET / HTTP/1.1\r", BYTES("\r\n")},
		{"GET / HTTP/1.1\r", BYTES("Host: a")},
	};
	assert_all_refused(rows, COUNT(rows));
}

TEST(malformed_fields)
{
	static const struct refusal rows[] = {
		{LINE, BYTES("\r\n")}, /* no Host */
		{LINE "X: 1\r\n", BYTES("\r\n")},
		{LINE, BYTES(" Host: a")}, /* folded into the request line */
		{LINE, BYTES("\n")},
		{LINE, BYTES(":a")},
		{LINE "Host", BYTES(" : a")},
		{LINE "Host", BYTES("\t: a")},
		{LINE "Host", BYTES("\r\n")},
		{LINE "Ho", BYTES("(st: a")},
		{LINE "Ho", BYTES("\0st: a")},
		{LINE "Ho", BYTES("\xe9")},
		{LINE HOST, BYTES(" folded")},
		{LINE HOST, BYTES("\tfolded")},
		{LINE HOST "X: a\r\n", BYTES(" b")},
		{LINE HOST "X: a\r\n", BYTES("\tb")},
		{LINE HOST "X: a", BYTES("\n")},
		{LINE HOST "X: a\r", BYTES("b\r\n")}, /* bare CR */
		{LINE HOST "X: a\r", BYTES("\r\n")},
		{LINE HOST "X: a\r", BYTES(" b")},
		{LINE HOST "X: a", BYTES("\0")},
		{LINE HOST "X: a", BYTES("\x01")},
		{LINE HOST "X: a", BYTES("\x0b")},
		{LINE HOST "X: a", BYTES("\x0c")},
		{LINE HOST "X: a", BYTES("\x1b[0m")},
		{LINE HOST "X: a", BYTES("\x7f")},
		{LINE HOST "X: a", BYTES("\x80")},
		{LINE HOST "X: a", BYTES("\xc3\xa9")},
		{LINE HOST "X: a", BYTES("\xff")},
		{LINE HOST, BYTES("\n")}, /* an end by bare LF */
		{LINE HOST "\r", BYTES("\r\n")},
		{LINE HOST "\r", BYTES("X: a")},
	};
	assert_all_refused(rows, COUNT(rows));
}

TEST(malformed_framing)
{
	static const struct refusal rows[] = {
		{LINE HOST "Host", BYTES(": localhost:5410\r\n")},
		{LINE HOST "X: 1\r\nhOsT", BYTES(": other\r\n")},
		{LINE "Host:", BYTES("\r\n")},
		{LINE "Host: \t ", BYTES("\r\n")},
		{LINE "Host: a ", BYTES("b\r\n")},
		{LINE "Host: a", BYTES("/b\r\n")},
		{LINE "Host: a", BYTES("@b\r\n")},
		{LINE "Host: a", BYTES("\\b\r\n")},
		{LINE HOST "Content-Length: 1\r\nContent-Length", BYTES(": 1\r\n")},
		{LINE HOST "Content-Length: 1\r\nX: 1\r\ncontent-length", BYTES(": 2\r\n")},
		{LINE HOST "Content-Length: 0\r\nTransfer-Encoding", BYTES(": chunked\r\n")},
		{LINE HOST "Transfer-Encoding", BYTES(": chunked\r\nContent-Length: 0\r\n")},
		{LINE HOST "transfer-encoding", BYTES(": identity\r\n")},
		{LINE HOST "TRANSFER-ENCODING", BYTES(":\r\n")},
		{LINE HOST "Transfer-Encoding", BYTES(" : chunked\r\n")},
		{LINE HOST "Content-Length", BYTES(" : 1\r\n")},
		{LINE HOST "Content-Length:", BYTES("\r\n")},
		{LINE HOST "Content-Length: ", BYTES("\r\n")},
		{LINE HOST "Content-Length: ", BYTES("-1\r\n")},
		{LINE HOST "Content-Length: ", BYTES("+1\r\n")},
		{LINE HOST "Content-Length: 0", BYTES("x10\r\n")},
		{LINE HOST "Content-Length: 1", BYTES(",1\r\n")},
		{LINE HOST "Content-Length: 1 ", BYTES("1\r\n")},
		{LINE HOST "Content-Length: 1", BYTES(".0\r\n")},
		{LINE HOST "Content-Length: 1", BYTES("e2\r\n")},
		{LINE HOST "Content-Length: 1844674407370955161", BYTES("6\r\n")},
		{LINE HOST "Content-Length: 18446744073709551615", BYTES("0\r\n")},
	};
	assert_all_refused(rows, COUNT(rows));
}

TEST(content_length)
{
	static const struct {
		const char *text;
		size_t length;
	} rows[] = {
		{LINE HOST "Content-Length: 0\r\n\r\n", 0},
		{LINE HOST "Content-Length:1\r\n\r\n", 1},
		{LINE "CONTENT-length: 0042 \r\n" HOST "\r\n", 42},
		{LINE HOST "Content-Length: 18446744073709551615\r\n\r\n", SIZE_MAX},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(parse(rows[i].text, strlen(rows[i].text)), BOX_HTTP_HEAD_COMPLETE);
		ASSERT(head.content_length == rows[i].length);
	}
}

/* Which of all 256 bytes are allowed where. A byte that ends the part is not malformed. */
static void assert_bytes_allowed(const char *before, const char *allowed, const char *low_to_high)
{
	char text[256];
	size_t len = strlen(before);
	put_bytes(text, before, len);
	for (int byte = 0; byte < 256; byte++) {
		bool listed = byte != 0 && strchr(allowed, byte) != NULL;
		bool ranged = low_to_high && byte >= low_to_high[0] && byte <= low_to_high[1];
		text[len] = (char)byte;
		ASSERT_INT(parse(text, len + 1),
			listed || ranged ? BOX_HTTP_HEAD_MORE : BOX_HTTP_HEAD_MALFORMED);
	}
}

TEST(every_byte_in_every_place)
{
#define ALNUM "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#define TOKEN ALNUM "!#$%&'*+-.^_`|~"
	assert_bytes_allowed("", TOKEN, NULL);
	assert_bytes_allowed("G", TOKEN " ", NULL);
	assert_bytes_allowed("GET ", "/", NULL);
	assert_bytes_allowed(LINE, TOKEN, NULL);
	assert_bytes_allowed(LINE "X", TOKEN ":", NULL);
	assert_bytes_allowed(LINE "X:", "\t\r", " ~");
	assert_bytes_allowed(LINE "X: a", "\t\r", " ~");
	assert_bytes_allowed(LINE "X: a\r", "\n", NULL);
	assert_bytes_allowed(LINE HOST, TOKEN "\r", NULL);
	assert_bytes_allowed(LINE "Host: a", ALNUM "-._~%!$&'()*+,;=:[] \t\r", NULL);
	assert_bytes_allowed(LINE "Content-Length: 1", "0123456789 \t\r", NULL);
	assert_bytes_allowed("GET /a", " !\"", "$~");
}

/* A head padded by one field to exactly that many bytes. */
static size_t sized_head(char *out, size_t size)
{
	static const char start[] = LINE HOST "X: ";
	static const char end[] = "\r\n\r\n";
	memset(out, 'a', size);
	memcpy(out, start, sizeof(start) - 1);
	memcpy(out + size - (sizeof(end) - 1), end, sizeof(end) - 1);
	return size;
}

TEST(bytes_at_the_limit)
{
	static char text[2 * BOX_HTTP_HEAD_BYTES_MAX];
	size_t len = sized_head(text, BOX_HTTP_HEAD_BYTES_MAX);
	ASSERT_INT(parse(text, len - 1), BOX_HTTP_HEAD_MORE);
	ASSERT_INT(parse(text, len), BOX_HTTP_HEAD_COMPLETE);
	ASSERT_INT(head.bytes_used, BOX_HTTP_HEAD_BYTES_MAX);
	ASSERT_INT(parse(text, sizeof(text)), BOX_HTTP_HEAD_COMPLETE);
	ASSERT_INT(head.bytes_used, BOX_HTTP_HEAD_BYTES_MAX);

	len = sized_head(text, BOX_HTTP_HEAD_BYTES_MAX + 1);
	ASSERT_INT(parse(text, BOX_HTTP_HEAD_BYTES_MAX - 1), BOX_HTTP_HEAD_MORE);
	ASSERT_INT(parse(text, BOX_HTTP_HEAD_BYTES_MAX), BOX_HTTP_HEAD_TOO_LARGE);
	ASSERT_INT(parse(text, len), BOX_HTTP_HEAD_TOO_LARGE);
}

TEST(parts_without_end)
{
	static const char *const starts[] = {"", "GET /", "GET /?", LINE, (LINE HOST "X: ")};
	static char text[BOX_HTTP_HEAD_BYTES_MAX + 1];
	for (size_t i = 0; i < COUNT(starts); i++) {
		memset(text, 'a', sizeof(text));
		memcpy(text, starts[i], strlen(starts[i]));
		ASSERT_INT(parse(text, BOX_HTTP_HEAD_BYTES_MAX - 1), BOX_HTTP_HEAD_MORE);
		ASSERT_INT(parse(text, BOX_HTTP_HEAD_BYTES_MAX), BOX_HTTP_HEAD_TOO_LARGE);
		ASSERT_INT(parse(text, BOX_HTTP_HEAD_BYTES_MAX + 1), BOX_HTTP_HEAD_TOO_LARGE);
	}
}

TEST(malformed_within_the_limit_stays_malformed)
{
	static char text[2 * BOX_HTTP_HEAD_BYTES_MAX];
	(void)sized_head(text, sizeof(text));
	text[BOX_HTTP_HEAD_BYTES_MAX - 1] = '\0';
	ASSERT_INT(parse(text, sizeof(text)), BOX_HTTP_HEAD_MALFORMED);
	(void)sized_head(text, sizeof(text));
	text[BOX_HTTP_HEAD_BYTES_MAX] = '\0';
	ASSERT_INT(parse(text, sizeof(text)), BOX_HTTP_HEAD_TOO_LARGE);
}

TEST(fields_at_the_limit)
{
	char text[1024];
	size_t len = strlen(LINE HOST);
	put_bytes(text, LINE HOST, len);
	for (int i = 1; i < BOX_HTTP_HEAD_LINES_MAX; i++) {
		put_bytes(text + len, "X:a\r\n", 5);
		len += 5;
	}
	put_bytes(text + len, "\r\n", 2);
	assert_prefixes_more(text, len + 2);
	ASSERT_INT(parse(text, len + 2), BOX_HTTP_HEAD_COMPLETE);
	ASSERT_INT(head.field_count, BOX_HTTP_HEAD_LINES_MAX);
	ASSERT_INT(box_http_head_count(&head, "x"), BOX_HTTP_HEAD_LINES_MAX - 1);

	/* One more is refused as soon as it starts; a byte that cannot start a field is malformed.
	 */
	text[len] = 'X';
	ASSERT_INT(parse(text, len + 1), BOX_HTTP_HEAD_TOO_LARGE);
	text[len] = ' ';
	ASSERT_INT(parse(text, len + 1), BOX_HTTP_HEAD_MALFORMED);
}

TEST(looking_fields_up)
{
	static const char text[] = LINE HOST "Connection: keep-alive ,\tUPGRADE\r\n"
					     "connection: , ,x-y\r\n"
					     "Upgrade: websocket\r\n"
					     "Upgraded: h2c\r\n"
					     "Empty:\r\n"
					     "Twice: a\r\nTWICE: a\r\n"
					     "Sec-WebSocket-Protocol: MCP, box.v1\r\n\r\n";
	ASSERT_INT(parse(text, sizeof(text) - 1), BOX_HTTP_HEAD_COMPLETE);
	assert_str(box_http_head_get(&head, "HOST"), "localhost:5410");
	assert_str(box_http_head_get(&head, "upgrade"), "websocket");
	assert_str(box_http_head_get(&head, "Empty"), "");
	ASSERT(box_http_head_get(&head, "Twice").bytes == NULL);
	ASSERT(box_http_head_get(&head, "Origin").bytes == NULL);
	ASSERT(box_http_head_get(&head, "").bytes == NULL);
	ASSERT_INT(box_http_head_count(&head, "twice"), 2);
	ASSERT_INT(box_http_head_count(&head, "empty"), 1);
	ASSERT_INT(box_http_head_count(&head, "upgrad"), 0);

	static const struct {
		const char *name;
		const char *token;
		bool folded;
		bool exact;
	} rows[] = {
		{"Connection", "upgrade", true, false},
		{"Connection", "UPGRADE", true, true},
		{"Connection", "keep-alive", true, true},
		{"CONNECTION", "x-y", true, true},
		{"Connection", "keep", false, false},
		{"Connection", "x-y-z", false, false},
		{"Connection", "close", false, false},
		{"Upgrade", "websocket", true, true},
		{"Upgrade", "h2c", false, false},
		{"Sec-WebSocket-Protocol", "mcp", true, false},
		{"Sec-WebSocket-Protocol", "box.v1", true, true},
		{"Sec-WebSocket-Protocol", "box.v", false, false},
		{"Empty", "a", false, false},
		{"Absent", "a", false, false},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		ASSERT_INT(box_http_head_has_token(&head, rows[i].name, rows[i].token),
			rows[i].folded);
		ASSERT_INT(
			box_http_head_has_exact(&head, rows[i].name, rows[i].token), rows[i].exact);
	}
}

TEST(nothing_yet)
{
	ASSERT_INT(box_http_head_parse(NULL, 0, &head), BOX_HTTP_HEAD_MORE);
}
