/* Cuts the middle out of long output: the beginning and the end of a command's output matter most. */
#include "client/service/truncate.h"

#include <stdio.h>

#include "base/arena.h"
#include "base/macros.h"
#include "base/utf8.h"

#define NOTICE "\n\n... [%zu characters truncated] ...\n\n"
#define NOTICE_SIZE 80
#define HEAD_TENTHS 6 /* the rest is for the tail */

static size_t count_chars(struct box_str text)
{
	size_t count = 0;
	for (size_t i = 0; i < text.len; i++) {
		count += ((unsigned char)text.bytes[i] & 0xc0) != 0x80;
	}
	return count;
}

/* Writes the notice for a text: the more digits its number has, the more text must be dropped. Returns how
 * many characters of the text stay, 0 if the notice alone is too long. */
static size_t fit_notice(size_t total, size_t chars_max, char notice[NOTICE_SIZE])
{
	size_t kept = chars_max;
	for (;;) {
		size_t len = (size_t)snprintf(notice, NOTICE_SIZE, NOTICE, total - kept);
		if (len >= chars_max) {
			return 0;
		}
		if (kept + len <= chars_max) {
			return kept;
		}
		kept = chars_max - len;
	}
}

bool box_truncate(
	struct box_arena *arena, struct box_str text, size_t chars_max, struct box_str *ret_text)
{
	char notice[NOTICE_SIZE];
	/* There are no more characters than bytes. */
	size_t total = text.len <= chars_max ? text.len : count_chars(text);
	if (total <= chars_max) {
		*ret_text = text;
		return false;
	}
	size_t kept = fit_notice(total, chars_max, notice);
	size_t notice_len = strlen(notice);
	if (kept == 0) {
		notice_len = BOX_MIN(notice_len, chars_max);
		*ret_text = (struct box_str){
			box_arena_strndup(arena, notice, notice_len), notice_len};
		return true;
	}
	size_t head_chars = kept * HEAD_TENTHS / 10;
	size_t head = box_utf8_prefix(text.bytes, text.len, head_chars);
	size_t tail = box_utf8_prefix(text.bytes, text.len, total - (kept - head_chars));
	size_t len = head + notice_len + (text.len - tail);
	char *out = box_arena_bytes(arena, len + 1);
	out[len] = '\0';
	memcpy(out, text.bytes, head);
	memcpy(out + head, notice, notice_len);
	memcpy(out + head + notice_len, text.bytes + tail, text.len - tail);
	*ret_text = (struct box_str){out, len};
	return true;
}
