/* Reads the counter of OOM kills in the kernel's memory statistics. */
#include "protocol/oom.h"

#include <stdbool.h>
#include <string.h>

#define KEY "oom_kill "

/* Digits only; a number that is too large counts as the largest. */
static bool parse_count(const char *text, size_t len, uint64_t *ret_count)
{
	uint64_t count = 0;
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
		unsigned digit = (unsigned)(text[i] - '0');
		count = count > (UINT64_MAX - digit) / 10 ? UINT64_MAX : count * 10 + digit;
	}
	*ret_count = count;
	return len > 0;
}

uint64_t box_oom_parse_kills(const char *text, size_t len)
{
	const size_t key = sizeof(KEY) - 1;
	uint64_t count = 0;
	while (len > 0) {
		const char *end = memchr(text, '\n', len);
		size_t line = end ? (size_t)(end - text) : len;
		if (line > key && memcmp(text, KEY, key) == 0 &&
			parse_count(text + key, line - key, &count)) {
			return count;
		}
		size_t step = end ? line + 1 : line;
		text += step;
		len -= step;
	}
	return 0;
}
