/* An error with its kind, its errno, and its reason in words.
 *
 * Functions whose reason a client will read take `struct box_err *err` as the last argument and return
 * a negative errno. The table from codes to wire names is in err.c.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/limits.h"

#pragma GCC visibility push(default)

enum box_code {
	BOX_ERR_NONE,
	BOX_ERR_BOX,
	BOX_ERR_VALIDATION,
	BOX_ERR_BACKEND_UNAVAILABLE,
	BOX_ERR_RUNTIME_UNAVAILABLE,
	BOX_ERR_ADMISSION,
	BOX_ERR_READINESS,
	BOX_ERR_CAPACITY,
	BOX_ERR_SESSION_CONFLICT,
	BOX_ERR_SESSION_NOT_FOUND,
	BOX_ERR_PROCESS_CONFLICT,
	BOX_ERR_PROCESS_NOT_FOUND,
	BOX_ERR_PERMISSION,
	BOX_ERR_VALUE,
	BOX_ERR_ENVELOPE,
	BOX_ERR_KEY,
	BOX_ERR_OS,
	BOX_ERR_BUSY,
	BOX_ERR_CODES_
};

struct box_err {
	enum box_code code;
	int errnum;
	char text[4 * BOX_ERROR_TEXT_MAX + 64]; /* up to four bytes a character */
};

/* The name in front of the text on the wire; NULL for errors that are sent without a name. */
const char *box_code_name(enum box_code code);

/* The code of a wire name, or BOX_ERR_NONE for an unknown name. */
enum box_code box_code_from_name(const char *name);

/* Fills err (which may be NULL) and returns -errnum, so that callers write `return box_err_set(err,
 * BOX_ERR_VALIDATION, EINVAL, "...", ...)`. Texts longer than BOX_ERROR_TEXT_MAX characters are cut,
 * and end with a note of that. */
int box_err_set(struct box_err *err, enum box_code code, int errnum, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

/* strerror that never returns NULL and is safe in a freshly forked child. */
const char *box_err_strerror(int errnum);

#pragma GCC visibility pop
