/* Small macros for all programs. */
#pragma once

#include <stddef.h>

/* The number of elements of an array; not for pointers. */
#define BOX_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Both arguments may be evaluated twice. */
#define BOX_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BOX_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The struct that contains a member. */
#define BOX_CONTAINER_OF(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))
