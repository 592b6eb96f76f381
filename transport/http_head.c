/* The strict parser of request heads. It starts over whenever bytes arrive: with 8 KiB at most, that is
 * cheaper than state that could be wrong. Bytes are checked strictly in order, so a result never changes
 * when more bytes arrive, and a byte that can never be valid is refused even if it is the last one so far.
 */
#include "transport/http_head.h"

#include "base/macros.h"

struct reader {
	const char *at;
	const char *end;
	bool has_host;
	bool has_length;
};

enum field_kind {
	FIELD_PLAIN,
	FIELD_HOST,
	FIELD_LENGTH,
	FIELD_REFUSED,
};

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_among(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

static bool is_token_byte(char c)
{
	return is_alnum(c) || is_among(c, "!#$%&'*+-.^_`|~");
}

/* Bytes from 0x80 on are negative or above '~', depending on char's sign: refused in both cases. */
static bool is_visible(char c)
{
	return c >= '!' && c <= '~';
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Not strncasecmp: that depends on the locale. */
static bool same_fold(struct box_str a, const char *b)
{
	if (a.len != strlen(b)) {
		return false;
	}
	for (size_t i = 0; i < a.len; i++) {
		if (lower(a.bytes[i]) != lower(b[i])) {
			return false;
		}
	}
	return true;
}

/* The read_ functions return COMPLETE when they have read their part, and leave r->at behind it. */

static enum box_http_head_result read_literal(struct reader *r, const char *text)
{
	for (; *text; text++, r->at++) {
		if (r->at == r->end) {
			return BOX_HTTP_HEAD_MORE;
		}
		if (*r->at != *text) {
			return BOX_HTTP_HEAD_MALFORMED;
		}
	}
	return BOX_HTTP_HEAD_COMPLETE;
}

static enum box_http_head_result read_token(struct reader *r, char stop, struct box_str *ret_token)
{
	const char *start = r->at;
	while (r->at < r->end && is_token_byte(*r->at)) {
		r->at++;
	}
	if (r->at == r->end) {
		return BOX_HTTP_HEAD_MORE;
	}
	if (*r->at != stop || r->at == start) {
		return BOX_HTTP_HEAD_MALFORMED;
	}
	*ret_token = (struct box_str){start, (size_t)(r->at - start)};
	r->at++;
	return BOX_HTTP_HEAD_COMPLETE;
}

static enum box_http_head_result read_target(struct reader *r, struct box_http_head *head)
{
	const char *start = r->at;
	enum box_http_head_result result = read_literal(r, "/");
	if (result != BOX_HTTP_HEAD_COMPLETE) {
		return result;
	}
	while (r->at < r->end && is_visible(*r->at) && *r->at != '#') {
		r->at++;
	}
	if (r->at == r->end) {
		return BOX_HTTP_HEAD_MORE;
	}
	if (*r->at != ' ') {
		return BOX_HTTP_HEAD_MALFORMED;
	}
	size_t len = (size_t)(r->at - start);
	const char *mark = memchr(start, '?', len);
	head->path = (struct box_str){start, mark ? (size_t)(mark - start) : len};
	head->query = (struct box_str){NULL, 0};
	if (mark) {
		head->query = (struct box_str){mark + 1, (size_t)(r->at - mark - 1)};
	}
	r->at++;
	return BOX_HTTP_HEAD_COMPLETE;
}

static enum box_http_head_result read_request_line(struct reader *r, struct box_http_head *head)
{
	enum box_http_head_result result = read_token(r, ' ', &head->method);
	if (result == BOX_HTTP_HEAD_COMPLETE) {
		result = read_target(r, head);
	}
	if (result == BOX_HTTP_HEAD_COMPLETE) {
		result = read_literal(r, "HTTP/1.1\r\n");
	}
	return result;
}

/* Which rule applies to a field. A second Host or Content-Length is refused like a first
 * Transfer-Encoding, even if it is equal: the next parser may take the other one. */
static enum field_kind field_kind(struct reader *r, struct box_str name)
{
	if (same_fold(name, "host")) {
		bool again = r->has_host;
		r->has_host = true;
		return again ? FIELD_REFUSED : FIELD_HOST;
	}
	if (same_fold(name, "content-length")) {
		bool again = r->has_length;
		r->has_length = true;
		return again ? FIELD_REFUSED : FIELD_LENGTH;
	}
	return same_fold(name, "transfer-encoding") ? FIELD_REFUSED : FIELD_PLAIN;
}

/* The next two accept the start of a value as well as a whole one, and therefore an empty one. */

static bool host_fits(struct box_str value)
{
	for (size_t i = 0; i < value.len; i++) {
		if (!is_alnum(value.bytes[i]) && !is_among(value.bytes[i], "-._~%!$&'()*+,;=:[]")) {
			return false;
		}
	}
	return true;
}

static bool length_fits(struct box_str value, size_t *ret_length)
{
	size_t length = 0;
	for (size_t i = 0; i < value.len; i++) {
		char c = value.bytes[i];
		if (c < '0' || c > '9' || __builtin_mul_overflow(length, (size_t)10, &length) ||
			__builtin_add_overflow(length, (size_t)(c - '0'), &length)) {
			return false;
		}
	}
	*ret_length = length;
	return true;
}

static enum box_http_head_result read_field(struct reader *r, struct box_http_head *head)
{
	struct box_http_head_field field;
	if (!is_token_byte(*r->at)) {
		return BOX_HTTP_HEAD_MALFORMED;
	}
	if (head->field_count == BOX_HTTP_HEAD_LINES_MAX) {
		return BOX_HTTP_HEAD_TOO_LARGE;
	}
	enum box_http_head_result result = read_token(r, ':', &field.name);
	if (result != BOX_HTTP_HEAD_COMPLETE) {
		return result;
	}
	enum field_kind kind = field_kind(r, field.name);
	if (kind == FIELD_REFUSED) {
		return BOX_HTTP_HEAD_MALFORMED;
	}
	const char *start = r->at;
	while (r->at < r->end && (is_visible(*r->at) || *r->at == ' ' || *r->at == '\t')) {
		r->at++;
	}
	field.value = box_str_strip((struct box_str){start, (size_t)(r->at - start)});
	if ((kind == FIELD_HOST && !host_fits(field.value)) ||
		(kind == FIELD_LENGTH && !length_fits(field.value, &head->content_length))) {
		return BOX_HTTP_HEAD_MALFORMED;
	}
	if (kind != FIELD_PLAIN && field.value.len == 0 && r->at < r->end) {
		return BOX_HTTP_HEAD_MALFORMED;
	}
	result = read_literal(r, "\r\n");
	if (result == BOX_HTTP_HEAD_COMPLETE) {
		head->fields[head->field_count++] = field;
	}
	return result;
}

static enum box_http_head_result read_head(struct reader *r, struct box_http_head *head)
{
	enum box_http_head_result result = read_request_line(r, head);
	while (result == BOX_HTTP_HEAD_COMPLETE) {
		if (r->at == r->end) {
			return BOX_HTTP_HEAD_MORE;
		}
		if (*r->at == '\r') {
			return r->has_host ? read_literal(r, "\r\n") : BOX_HTTP_HEAD_MALFORMED;
		}
		result = read_field(r, head);
	}
	return result;
}

enum box_http_head_result box_http_head_parse(
	const char *bytes, size_t len, struct box_http_head *ret_head)
{
	if (len == 0) {
		return BOX_HTTP_HEAD_MORE;
	}
	size_t readable = BOX_MIN(len, BOX_HTTP_HEAD_BYTES_MAX);
	struct reader r = {.at = bytes, .end = bytes + readable};
	ret_head->field_count = 0;
	ret_head->content_length = 0;
	enum box_http_head_result result = read_head(&r, ret_head);
	ret_head->bytes_used = (size_t)(r.at - bytes);
	/* So many bytes without an end: the end can only come too late. A caller whose buffer has this
	 * size would otherwise wait for bytes that it has no room for. */
	if (result == BOX_HTTP_HEAD_MORE && len >= BOX_HTTP_HEAD_BYTES_MAX) {
		return BOX_HTTP_HEAD_TOO_LARGE;
	}
	return result;
}

struct box_str box_http_head_get(const struct box_http_head *head, const char *name)
{
	struct box_str found = {NULL, 0};
	size_t count = 0;
	for (size_t i = 0; i < head->field_count; i++) {
		if (same_fold(head->fields[i].name, name)) {
			found = head->fields[i].value;
			count++;
		}
	}
	return count == 1 ? found : (struct box_str){NULL, 0};
}

size_t box_http_head_count(const struct box_http_head *head, const char *name)
{
	size_t count = 0;
	for (size_t i = 0; i < head->field_count; i++) {
		count += same_fold(head->fields[i].name, name);
	}
	return count;
}

static bool list_has(struct box_str list, const char *token, bool fold)
{
	while (list.len > 0) {
		const char *comma = memchr(list.bytes, ',', list.len);
		size_t len = comma ? (size_t)(comma - list.bytes) : list.len;
		struct box_str item = box_str_strip((struct box_str){list.bytes, len});
		if (fold ? same_fold(item, token) : box_str_eq(item, token)) {
			return true;
		}
		size_t step = comma ? len + 1 : len;
		list.bytes += step;
		list.len -= step;
	}
	return false;
}

static bool any_list_has(
	const struct box_http_head *head, const char *name, const char *token, bool fold)
{
	for (size_t i = 0; i < head->field_count; i++) {
		if (same_fold(head->fields[i].name, name) &&
			list_has(head->fields[i].value, token, fold)) {
			return true;
		}
	}
	return false;
}

bool box_http_head_has_token(const struct box_http_head *head, const char *name, const char *token)
{
	return any_list_has(head, name, token, true);
}

bool box_http_head_has_exact(const struct box_http_head *head, const char *name, const char *token)
{
	return any_list_has(head, name, token, false);
}
