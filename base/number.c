/* Digits are produced from the last to the first, then reversed. */
#include "base/number.h"

#include <stddef.h>

void box_number_put(char to[BOX_NUMBER_SIZE], uint64_t number, unsigned base)
{
	char digits[BOX_NUMBER_SIZE];
	size_t count = 0;
	do {
		digits[count++] = (char)('0' + number % base);
		number /= base;
	} while (number > 0);
	while (count > 0) {
		*to++ = digits[--count];
	}
	*to = '\0';
}
