/* Scope-bound release: `_cleanup_(box_close_p) int fd = -1;` and TAKE_FD / TAKE_PTR to keep it. */
#pragma once

#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(function) __attribute__((cleanup(function)))

static inline void box_close_p(int *fd)
{
	if (*fd >= 0) {
		(void)close(*fd);
		*fd = -1;
	}
}

static inline void box_free_p(void *pointer)
{
	free(*(void **)pointer);
}

/* The argument is evaluated once. */
#define TAKE_FD(fd)                   \
	({                            \
		int *place_ = &(fd);  \
		int taken_ = *place_; \
		*place_ = -1;         \
		taken_;               \
	})

#define TAKE_PTR(pointer)                                 \
	({                                                \
		__typeof__(pointer) *place_ = &(pointer); \
		__typeof__(pointer) taken_ = *place_;     \
		*place_ = NULL;                           \
		taken_;                                   \
	})
