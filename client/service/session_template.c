/* Expands templates piece by piece with the attributes of a query, and makes the result safe by the runtime's
 * own rule for session ids (runtime/tenant.c). */
#include "client/service/session_template.h"

#include <errno.h>
#include <inttypes.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/utf8.h"
#include "runtime/spec/fields.h"

#define HASH_DIGITS 12
#define ID_BYTES_MAX (64 * BOX_KIB) /* before it is made safe */

static const char *const known[] = {"launcher_type", "launcher_id", "sender_id", "query_id"};
#define KNOWN (BOX_COUNT_OF(known))

/* --- reading --- */

/* One piece of a template: text, or the name of an attribute. */
struct piece {
	struct box_str text;
	bool is_name;
};

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		c == '_';
}

static int refuse(const char *template, const char *why, struct box_err *err)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "session id template \"%.200s\": %s",
		template, why);
}

static int read_name(
	const char *template, const char **at, struct piece *ret_piece, struct box_err *err)
{
	const char *start = *at + 1;
	const char *p = start;
	while (is_name_char(*p)) {
		p++;
	}
	if (*p != '}') {
		return refuse(template,
			*p == '\0' || *p == '{' ? "\"{\" without \"}\""
						: "only {name} is allowed in braces",
			err);
	}
	if (p == start || (*start >= '0' && *start <= '9')) {
		return refuse(template, "an attribute needs a name", err);
	}
	*ret_piece = (struct piece){{start, (size_t)(p - start)}, true};
	*at = p + 1;
	return 0;
}

/* 1 and the next piece, 0 at the end. */
static int next_piece(
	const char *template, const char **at, struct piece *ret_piece, struct box_err *err)
{
	const char *p = *at;
	if (*p == '\0') {
		return 0;
	}
	if ((p[0] == '{' || p[0] == '}') && p[1] == p[0]) {
		*ret_piece = (struct piece){{p, 1}, false};
		*at = p + 2;
		return 1;
	}
	if (*p == '{') {
		int r = read_name(template, at, ret_piece, err);
		return r < 0 ? r : 1;
	}
	if (*p == '}') {
		return refuse(template, "\"}\" without \"{\"", err);
	}
	size_t len = strcspn(p, "{}");
	*ret_piece = (struct piece){{p, len}, false};
	*at = p + len;
	return 1;
}

int box_session_template_check(const char *template, struct box_err *err)
{
	const char *at = template;
	struct piece piece;
	int r;
	if (strlen(template) > BOX_SERVICE_TEMPLATE_BYTES_MAX) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"session id template: longer than %d bytes",
			BOX_SERVICE_TEMPLATE_BYTES_MAX);
	}
	while ((r = next_piece(template, &at, &piece, err)) == 1) {
	}
	return r;
}

/* --- attributes of a query --- */

static int refuse_unknown(struct box_arena *arena, struct box_str name,
	const struct box_value *query, struct box_err *err)
{
	struct box_buf names = box_buf(BOX_ERROR_TEXT_MAX);
	for (size_t i = 0; i < KNOWN; i++) {
		(void)box_buf_printf(&names, "%s%s", i > 0 ? ", " : "", known[i]);
	}
	(void)box_buf_append_str(&names, ", global");
	for (uint32_t i = 0; query && query->type == BOX_MAP && i < query->count; i++) {
		struct box_str one = query->pairs[i].key;
		bool twice = false;
		for (size_t j = 0; j < KNOWN; j++) {
			twice = twice || box_str_eq(one, known[j]);
		}
		if (!twice) {
			/* Text beyond the limit would be cut from the message in any case. */
			(void)box_buf_printf(&names, ", %s", box_fields_echo(arena, one));
		}
	}
	int r = box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
		"session id template: unknown attribute {%.*s}, known are %.*s", (int)name.len,
		name.bytes, (int)names.len, names.bytes);
	box_buf_free(&names);
	return r;
}

static bool is_known(struct box_str name)
{
	for (size_t i = 0; i < KNOWN; i++) {
		if (box_str_eq(name, known[i])) {
			return true;
		}
	}
	return false;
}

/* The value of an attribute as text; empty if it has none. */
static int find_attribute(struct box_arena *arena, struct box_str name,
	const struct box_value *query, struct box_str *ret_text, struct box_err *err)
{
	const char *key = box_arena_strndup(arena, name.bytes, name.len);
	const struct box_value *value = query ? box_map_get(query, key) : NULL;
	if (!value && box_str_eq(name, "global")) {
		*ret_text = name;
		return 0;
	}
	if (!value && !is_known(name)) {
		return refuse_unknown(arena, name, query, err);
	}
	if (!value || value->type == BOX_NULL) {
		*ret_text = (struct box_str){"", 0};
		return 0;
	}
	if (value->type == BOX_INT) {
		*ret_text = box_str(box_arena_printf(arena, "%" PRId64, value->integer));
		return 0;
	}
	if (value->type != BOX_STR) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"session id template: attribute {%s} is a %s, not a text", key,
			box_type_name(value->type));
	}
	*ret_text = box_str_strip(value->str);
	return 0;
}

/* 1 if every attribute has a value, otherwise 0. */
static int expand(struct box_arena *arena, const char *template, const struct box_value *query,
	struct box_buf *out, struct box_err *err)
{
	const char *at = template;
	bool whole = true;
	struct piece piece = {{"", 0}, false};
	int r;
	while ((r = next_piece(template, &at, &piece, err)) == 1) {
		struct box_str text = piece.text;
		if (piece.is_name) {
			r = find_attribute(arena, piece.text, query, &text, err);
			if (r < 0) {
				return r;
			}
			whole = whole && text.len > 0;
		}
		if (box_buf_append(out, text.bytes, text.len) < 0) {
			return refuse(template, "the result is too long", err);
		}
	}
	return r < 0 ? r : whole;
}

/* --- making it safe --- */

static bool is_safe(char c)
{
	return is_name_char(c) || c == '.' || c == '-';
}

int box_session_template_clean_id(
	struct box_arena *arena, struct box_str id, const char **ret_id, struct box_err *err)
{
	id = box_str_strip(id);
	if (id.len == 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "session_id must not be empty");
	}
	char *out = box_arena_alloc(arena, id.len + HASH_DIGITS + 2);
	size_t len = 0;
	bool in_run = false;
	for (size_t i = 0; i < id.len; i++) {
		bool safe = is_safe(id.bytes[i]);
		if (safe || !in_run) {
			out[len++] = safe ? id.bytes[i] : '-';
		}
		in_run = !safe;
	}
	while (len > 0 && out[len - 1] == '-') {
		len--;
	}
	size_t skip = 0;
	while (skip < len && out[skip] == '-') {
		skip++;
	}
	len -= skip;
	memmove(out, out + skip, len);
	bool changed = len != id.len || memcmp(out, id.bytes, len) != 0;
	if (changed || len > BOX_SESSION_ID_MAX) {
		unsigned char digest[BOX_HASH_SHA256_BYTES];
		char hex[2 * BOX_HASH_SHA256_BYTES + 1];
		const size_t most = BOX_SESSION_ID_MAX - HASH_DIGITS - 1;
		box_hash_sha256_parts(&id, 1, digest);
		box_hash_hex(digest, sizeof(digest), hex);
		len = BOX_MIN(len, most);
		if (len > 0) {
			out[len++] = '-';
		}
		memcpy(out + len, hex, HASH_DIGITS);
		len += HASH_DIGITS;
	}
	out[len] = '\0';
	*ret_id = out;
	return 0;
}

/* --- both --- */

static const char *pick(const struct box_session_template_rules *rules)
{
	const char *const order[] = {rules->forced, rules->wanted, rules->configured};
	for (size_t i = 0; i < BOX_COUNT_OF(order); i++) {
		if (order[i] && order[i][0] != '\0') {
			return order[i];
		}
	}
	return BOX_SESSION_TEMPLATE_DEFAULT;
}

int box_session_template_make_id(struct box_arena *arena,
	const struct box_session_template_rules *rules, const struct box_value *query,
	const char **ret_id, struct box_err *err)
{
	bool forced = rules->forced && rules->forced[0] != '\0';
	if (!forced && box_str_strip(rules->given).len > 0) {
		return box_session_template_clean_id(arena, rules->given, ret_id, err);
	}
	const char *template = pick(rules);
	struct box_buf text = box_buf(ID_BYTES_MAX);
	struct box_str id = {"", 0};
	int r = box_session_template_check(template, err);
	if (r == 0) {
		r = expand(arena, template, query, &text, err);
	}
	if (r == 1) {
		id = (struct box_str){
			box_arena_strndup(arena, text.len ? text.bytes : "", text.len), text.len};
		id = box_str_strip(id);
	}
	box_buf_free(&text);
	if (r < 0) {
		return r;
	}
	if (id.len == 0) {
		r = find_attribute(arena, box_str("query_id"), query, &id, err);
		if (r == 0 && id.len == 0) {
			r = refuse(template,
				"the query has neither these attributes nor a query_id", err);
		}
	}
	return r < 0 ? r : box_session_template_clean_id(arena, id, ret_id, err);
}
