/* Base64 both ways. Every content has one spelling: decode refuses whatever encode would not have
 * written, so that padding and unused bits cannot carry hidden data.
 */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

#include "base/buf.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* What to add to a character, modulo 256, to get its value; 0 outside the alphabet. */
static const uint8_t shift[256] = {
	['A' ... 'Z'] = (uint8_t)(0 - 'A'),
	['a' ... 'z'] = (uint8_t)(26 - 'a'),
	['0' ... '9'] = 52 - '0',
	['+'] = 62 - '+',
	['/'] = 63 - '/',
};

int box_base64_encode(struct box_buf *out, const void *bytes, size_t len)
{
	const uint8_t *in = bytes;
	if (len / 3 >= SIZE_MAX / 4 - 1) {
		return -EMSGSIZE;
	}
	size_t text_len = (len + 2) / 3 * 4;
	char *text = box_buf_reserve(out, text_len);
	if (!text) {
		return -EMSGSIZE;
	}
	for (; len >= 3; len -= 3, in += 3, text += 4) {
		uint32_t group = (uint32_t)in[0] << 16 | (uint32_t)in[1] << 8 | in[2];
		text[0] = alphabet[group >> 18];
		text[1] = alphabet[group >> 12 & 63];
		text[2] = alphabet[group >> 6 & 63];
		text[3] = alphabet[group & 63];
	}
	if (len > 0) {
		uint32_t group = (uint32_t)in[0] << 16 | (len > 1 ? (uint32_t)in[1] << 8 : 0);
		text[0] = alphabet[group >> 18];
		text[1] = alphabet[group >> 12 & 63];
		text[2] = len > 1 ? alphabet[group >> 6 & 63] : '=';
		text[3] = '=';
	}
	out->len += text_len;
	return 0;
}

/* 0 to 63, or more for an invalid character. */
static uint32_t digit(char c)
{
	uint8_t add = shift[(uint8_t)c];
	return add ? (uint8_t)((uint8_t)c + add) : UINT32_MAX;
}

/* The four digits as 24 bits; a larger value when one of them is invalid. */
static uint32_t group_of(char a, char b, char c, char d)
{
	uint32_t w = digit(a);
	uint32_t x = digit(b);
	uint32_t y = digit(c);
	uint32_t z = digit(d);
	return (w | x | y | z) > 63 ? UINT32_MAX : w << 18 | x << 12 | y << 6 | z;
}

ssize_t box_base64_decode(struct box_str text, void *out, size_t room)
{
	if (text.len == 0) {
		return 0;
	}
	if (text.len % 4 != 0) {
		return -EBADMSG;
	}
	size_t pad = text.bytes[text.len - 1] != '=' ? 0 : text.bytes[text.len - 2] != '=' ? 1 : 2;
	size_t size = text.len / 4 * 3 - pad;
	if (size > room) {
		return -EMSGSIZE;
	}
	uint8_t *to = out;
	const char *in = text.bytes;
	const char *last = text.bytes + text.len - (pad ? 4 : 0);
	for (; in < last; in += 4, to += 3) {
		uint32_t group = group_of(in[0], in[1], in[2], in[3]);
		if (group > 0xffffff) {
			return -EBADMSG;
		}
		to[0] = (uint8_t)(group >> 16);
		to[1] = (uint8_t)(group >> 8);
		to[2] = (uint8_t)group;
	}
	if (pad > 0) {
		uint32_t group = group_of(in[0], in[1], pad == 1 ? in[2] : 'A', 'A');
		if (group > 0xffffff || (group & (pad == 1 ? 0xff : 0xffff)) != 0) {
			return -EBADMSG;
		}
		to[0] = (uint8_t)(group >> 16);
		if (pad == 1) {
			to[1] = (uint8_t)(group >> 8);
		}
	}
	return (ssize_t)size;
}
