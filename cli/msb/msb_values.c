/* Parses numbers with a unit, and volumes. */
#include "cli/msb/msb_values.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

#define DIGITS_MAX 10 /* more exceeds every limit */

struct unit {
	const char *name;
	int64_t each;
};

/* `units` ends with a NULL name; the first is for a number without a unit. */
static int read_amount(const char *text, const struct unit *units, int64_t *ret_amount)
{
	size_t digits = strspn(text, "0123456789");
	if (digits == 0 || digits > DIGITS_MAX) {
		return -EINVAL;
	}
	int64_t count = strtoll(text, NULL, 10);
	for (const struct unit *unit = units; unit->name; unit++) {
		if (strcmp(text + digits, unit->name) != 0) {
			continue;
		}
		if (count < 1 || count > INT32_MAX / unit->each) {
			return -ERANGE;
		}
		*ret_amount = count * unit->each;
		return 0;
	}
	return -EINVAL;
}

static int wrong(struct box_err *err, const char *flag, const char *text, const char *what)
{
	return box_err_set(
		err, BOX_ERR_VALUE, EINVAL, "%s: \"%.100s\" is not %s", flag, text, what);
}

int box_msb_values_memory(const char *flag, const char *text, int64_t *ret_mb, struct box_err *err)
{
	static const struct unit units[] = {{"", 1}, {"M", 1}, {"m", 1}, {"MB", 1}, {"MiB", 1},
		{"G", 1024}, {"g", 1024}, {"GB", 1024}, {"GiB", 1024}, {NULL, 0}};
	return read_amount(text, units, ret_mb) == 0
		? 0
		: wrong(err, flag, text, "a memory size such as 512M or 1G");
}

int box_msb_values_duration(
	const char *flag, const char *text, int64_t *ret_sec, struct box_err *err)
{
	static const struct unit units[] = {
		{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {NULL, 0}};
	return read_amount(text, units, ret_sec) == 0
		? 0
		: wrong(err, flag, text, "a duration such as 30s, 5m or 1h");
}

int box_msb_values_volume(struct box_arena *arena, const char *text,
	struct box_path_argument_mount *ret_volume, struct box_err *err)
{
	struct box_path_argument_mount volume;
	if (!box_path_argument_split_mount(arena, text, &volume)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--volume: \"%.200s\" is not HOST:GUEST[:ro|rw] with an absolute GUEST",
			text);
	}
	if (volume.host[0] != '/' && volume.host[0] != '.') {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--volume: \"%.200s\" is not a path: named volumes are not supported, and "
			"a relative path must begin with ./",
			volume.host);
	}
	*ret_volume = volume;
	return 0;
}
