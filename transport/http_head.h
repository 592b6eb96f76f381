/* The HTTP/1.1 request head, parsed strictly: bytes in, a struct that points into them out.
 *
 * Anything not clearly well-formed is refused, so that no parser behind us can read it differently:
 * bare LF, folded lines, white space before a colon, control characters, two Content-Length or Host
 * lines, any Transfer-Encoding, an absolute or authority target, any version but HTTP/1.1.
 */
#pragma once

#include <stddef.h>

#include "base/limits.h"
#include "base/value.h"

struct box_http_head_field {
	struct box_str name;  /* as sent; compare ignoring case */
	struct box_str value; /* without white space at both ends */
};

struct box_http_head {
	struct box_str method;
	struct box_str path;  /* starts with '/', not decoded, without the query */
	struct box_str query; /* after '?', bytes NULL when there is none */
	struct box_http_head_field fields[BOX_HTTP_HEAD_LINES_MAX];
	size_t field_count;
	size_t bytes_used; /* the length of the head */
	size_t content_length;
};

enum box_http_head_result {
	BOX_HTTP_HEAD_MORE, /* well-formed so far, not complete */
	BOX_HTTP_HEAD_COMPLETE,
	BOX_HTTP_HEAD_MALFORMED, /* answer 400 */
	BOX_HTTP_HEAD_TOO_LARGE, /* answer 431: BOX_HTTP_HEAD_BYTES_MAX or BOX_HTTP_HEAD_LINES_MAX passed */
};

/* Parses all bytes that have arrived so far. *ret_head is filled in for COMPLETE only. */
enum box_http_head_result box_http_head_parse(
	const char *bytes, size_t len, struct box_http_head *ret_head);

/* The value of the only field of that name; bytes NULL when there is none or more than one. */
struct box_str box_http_head_get(const struct box_http_head *head, const char *name);
size_t box_http_head_count(const struct box_http_head *head, const char *name);

/* True when a comma-separated list in any field of that name has the token, case ignored. */
bool box_http_head_has_token(const struct box_http_head *head, const char *name, const char *token);

/* Like box_http_head_has_token, but case matters, as it does for subprotocols. */
bool box_http_head_has_exact(const struct box_http_head *head, const char *name, const char *token);
