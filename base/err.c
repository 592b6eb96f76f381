/* The table of error names, and the formatting of error texts. */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define TRUNCATED "... [protocol error truncated]"

static const char *const code_names[BOX_ERR_CODES_] = {
	[BOX_ERR_BOX] = "BoxError",
	[BOX_ERR_VALIDATION] = "BoxValidationError",
	[BOX_ERR_BACKEND_UNAVAILABLE] = "BoxBackendUnavailableError",
	[BOX_ERR_RUNTIME_UNAVAILABLE] = "BoxRuntimeUnavailableError",
	[BOX_ERR_ADMISSION] = "BoxAdmissionError",
	[BOX_ERR_READINESS] = "BoxReadinessError",
	[BOX_ERR_CAPACITY] = "BoxCapacityExceededError",
	[BOX_ERR_SESSION_CONFLICT] = "BoxSessionConflictError",
	[BOX_ERR_SESSION_NOT_FOUND] = "BoxSessionNotFoundError",
	[BOX_ERR_PROCESS_CONFLICT] = "BoxManagedProcessConflictError",
	[BOX_ERR_PROCESS_NOT_FOUND] = "BoxManagedProcessNotFoundError",
	[BOX_ERR_PERMISSION] = "PermissionError",
	[BOX_ERR_VALUE] = "ValueError",
	[BOX_ERR_ENVELOPE] = "ValidationError",
	[BOX_ERR_KEY] = "KeyError",
	[BOX_ERR_OS] = "OSError",
};

const char *box_code_name(enum box_code code)
{
	return code_names[code];
}

enum box_code box_code_from_name(const char *name)
{
	for (int code = 0; code < BOX_ERR_CODES_; code++) {
		if (code_names[code] && strcmp(code_names[code], name) == 0) {
			return (enum box_code)code;
		}
	}
	return BOX_ERR_NONE;
}

int box_err_set(struct box_err *err, enum box_code code, int errnum, const char *format, ...)
{
	if (!err) {
		return -errnum;
	}
	err->code = code;
	err->errnum = errnum;

	va_list args;
	va_start(args, format);
	size_t room = sizeof(err->text) - sizeof(TRUNCATED);
	int wanted = vsnprintf(err->text, room, format, args);
	va_end(args);
	if (wanted < 0) {
		err->text[0] = '\0';
		return -errnum;
	}
	size_t len = strlen(err->text);
	size_t kept = box_utf8_prefix(err->text, len, BOX_ERROR_TEXT_MAX);
	if (kept < len || (size_t)wanted > len) {
		memcpy(err->text + box_utf8_floor(err->text, kept), TRUNCATED, sizeof(TRUNCATED));
	}
	return -errnum;
}

const char *box_err_strerror(int errnum)
{
	const char *text = strerrordesc_np(errnum);
	return text ? text : "unknown error";
}
