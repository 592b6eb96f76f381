/* Numbers as text where there is no stdio: in box-init, and in children between fork and exec. */
#pragma once

#include <stdint.h>

#define BOX_NUMBER_SIZE 24 /* of a text, with its NUL */

/* In base 8 or 10. */
void box_number_put(char to[BOX_NUMBER_SIZE], uint64_t number, unsigned base);
