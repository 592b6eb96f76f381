/* UTF-8 repair, stripping and the clip line, which LangBot matches literally. */
#include "runtime/session/output.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/utf8.h"

static const char replacement[] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */
#define CLIP_LINE_MAX 96

/* How many bytes at p belong together: a whole sequence (*ret_valid), or the start of one that is
 * broken off, which is replaced by one U+FFFD as the Unicode standard advises. */
static size_t sequence_at(const unsigned char *p, size_t left, bool *ret_valid)
{
	*ret_valid = true;
	if (p[0] < 0x80) {
		return 1;
	}
	size_t need = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
	if (need <= left && box_utf8_valid((const char *)p, need)) {
		return need;
	}
	*ret_valid = false;
	if (p[0] < 0xc2 || p[0] > 0xf4) {
		return 1;
	}
	/* The longest start of a well-formed sequence: the second byte's range depends on the
	 * first. */
	unsigned char low = p[0] == 0xe0 ? 0xa0 : p[0] == 0xf0 ? 0x90 : 0x80;
	unsigned char high = p[0] == 0xed ? 0x9f : p[0] == 0xf4 ? 0x8f : 0xbf;
	size_t good = 1;
	while (good < need && good < left && p[good] >= low && p[good] <= high) {
		low = 0x80;
		high = 0xbf;
		good++;
	}
	return good;
}

size_t box_output_repaired_size(struct box_str raw)
{
	if (box_utf8_valid(raw.bytes, raw.len)) {
		return raw.len;
	}
	const unsigned char *p = (const unsigned char *)raw.bytes;
	size_t size = 0;
	for (size_t at = 0; at < raw.len;) {
		bool valid;
		size_t sequence = sequence_at(p + at, raw.len - at, &valid);
		size += valid ? sequence : sizeof(replacement);
		at += sequence;
	}
	return size;
}

struct box_str box_output_repair(struct box_arena *arena, struct box_str raw)
{
	if (box_utf8_valid(raw.bytes, raw.len)) {
		return raw;
	}
	const unsigned char *p = (const unsigned char *)raw.bytes;
	char *text = box_arena_bytes(arena, raw.len * sizeof(replacement));
	size_t len = 0;
	for (size_t at = 0; at < raw.len;) {
		bool valid;
		size_t sequence = sequence_at(p + at, raw.len - at, &valid);
		size_t put = valid ? sequence : sizeof(replacement);
		memcpy(text + len, valid ? raw.bytes + at : replacement, put);
		len += put;
		at += sequence;
	}
	return (struct box_str){text, len};
}

/* White space as in Python's str.strip(): clients expect what the Python runtime sent. */
static size_t space_at(const char *bytes, size_t left)
{
	static const char *const wide[] = {"\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\xa8",
		"\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
	unsigned char c = (unsigned char)bytes[0];
	if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1c && c <= 0x1f)) {
		return 1;
	}
	if (left >= 3 && memcmp(bytes, "\xe2\x80", 2) == 0 && (unsigned char)bytes[2] <= 0x8a) {
		return 3; /* U+2000 to U+200A */
	}
	for (size_t i = 0; i < BOX_COUNT_OF(wide); i++) {
		size_t len = strlen(wide[i]);
		if (left >= len && memcmp(bytes, wide[i], len) == 0) {
			return len;
		}
	}
	return 0;
}

static struct box_str stripped(struct box_str text)
{
	size_t space;
	while (text.len > 0 && (space = space_at(text.bytes, text.len)) > 0) {
		text.bytes += space;
		text.len -= space;
	}
	while (text.len > 0) {
		size_t last = text.len - 1;
		while (last > 0 && ((unsigned char)text.bytes[last] & 0xc0) == 0x80) {
			last--;
		}
		if (space_at(text.bytes + last, text.len - last) != text.len - last) {
			break;
		}
		text.len = last;
	}
	return text;
}

struct box_str box_output_text(
	struct box_arena *arena, struct box_str raw, uint64_t discarded, size_t limit)
{
	uint64_t total = raw.len + discarded;
	if (raw.len == 0) {
		raw = box_str(""); /* empty output may be a NULL pointer */
	}
	if (raw.len > limit) {
		raw.len = limit;
	}
	struct box_str text = stripped(box_output_repair(arena, raw));
	if (total == raw.len) {
		return text;
	}
	char line[CLIP_LINE_MAX];
	int line_len = snprintf(line, sizeof(line),
		"\n... [raw output clipped at %zu bytes, %" PRIu64 " bytes discarded]", raw.len,
		total - raw.len);
	char *whole = box_arena_bytes(arena, text.len + (size_t)line_len);
	memcpy(whole, text.bytes, text.len);
	memcpy(whole + text.len, line, (size_t)line_len);
	return (struct box_str){whole, text.len + (size_t)line_len};
}

struct box_value box_output_end(
	struct box_arena *arena, enum box_backend_end_reason reason, int signal)
{
	static const char *const reasons[] = {
		[BOX_BACKEND_END_EXIT] = "exit",
		[BOX_BACKEND_END_SIGNAL] = "signal",
		[BOX_BACKEND_END_MEMORY] = "memory",
		[BOX_BACKEND_END_TIMEOUT] = "timeout",
	};
	bool by_signal = reason == BOX_BACKEND_END_SIGNAL || reason == BOX_BACKEND_END_MEMORY;
	struct box_value end = box_map_value();
	box_map_add(arena, &end, "reason", box_cstr(reasons[reason]));
	box_map_add(arena, &end, "signal", by_signal ? box_int(signal) : box_null());
	return end;
}
