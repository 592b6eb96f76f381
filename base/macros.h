/* Small macros that every program needs. */
#pragma once

#include <stddef.h>

/* How many elements an array has; an array, not a pointer. */
#define BOX_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/* Both arguments may be evaluated twice. */
#define BOX_MIN(a, b) ((a) < (b) ? (a) : (b))
#define BOX_MAX(a, b) ((a) > (b) ? (a) : (b))

/* The struct that a member is in. */
#define BOX_CONTAINER_OF(pointer, type, member) \
	((type *)(void *)((char *)(pointer)-offsetof(type, member)))
