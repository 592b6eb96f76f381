/* What is to be said of a configuration: each error and warning as one line that begins with its
 * place. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

struct box_arena;

struct box_remark {
	bool wrong;       /* else it is a warning */
	const char *text; /* "box.yaml:3: local.rootf: unknown member; did you mean rootfs?" */
};

struct box_verdict {
	struct box_arena *arena;
	size_t errors;
	size_t count;
	struct box_remark remarks[BOX_CONFIG_REMARKS_MAX]; /* what is beyond is only counted */
};

struct box_verdict *box_verdict_new(void);
void box_verdict_free(struct box_verdict *verdict);
static inline void box_verdict_free_p(struct box_verdict **verdict)
{
	box_verdict_free(*verdict);
}

void box_verdict_add(struct box_verdict *verdict, bool wrong, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Each into the log: errors as `event`, warnings as config.warning. */
void box_verdict_log(const struct box_verdict *verdict, const char *event);

/* For --check-config: each on a line of stdout, and whether `from` is good. 0, or the exit code. */
int box_verdict_print(const struct box_verdict *verdict, const char *from);
