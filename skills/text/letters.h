/* Letters and digits of all scripts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool box_pytext_is_letter_or_digit(uint32_t c);
