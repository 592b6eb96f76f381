/* Dates and times in plain scalars: what PyYAML takes for one, and what Python says of it. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "skills/text/yaml.h"

struct parts {
	int year, month, day;
	int hour, minute, second, micros;
	int offset_minutes;
	bool has_time, has_zone;
	bool short_date; /* a month or day of one digit: only with a time behind it */
};

/* `least` to `most` digits as a number, taken off; -1 when there are fewer. */
static int take_number(struct box_str *rest, size_t least, size_t most)
{
	int number = 0;
	size_t len = 0;
	while (len < most && len < rest->len && rest->bytes[len] >= '0' &&
		rest->bytes[len] <= '9') {
		number = number * 10 + rest->bytes[len++] - '0';
	}
	rest->bytes += len;
	rest->len -= len;
	return len < least ? -1 : number;
}

static bool take_char(struct box_str *rest, const char *set)
{
	if (rest->len == 0 || rest->bytes[0] == '\0' || !strchr(set, rest->bytes[0])) {
		return false;
	}
	rest->bytes++;
	rest->len--;
	return true;
}

static bool take_date(struct box_str *rest, struct parts *parts)
{
	parts->year = take_number(rest, 4, 4);
	if (parts->year < 0 || !take_char(rest, "-")) {
		return false;
	}
	size_t before = rest->len;
	parts->month = take_number(rest, 1, 2);
	if (parts->month < 0 || !take_char(rest, "-")) {
		return false;
	}
	parts->day = take_number(rest, 1, 2);
	parts->short_date = before - rest->len != 5;
	return parts->day >= 0;
}

static void take_fraction(struct box_str *rest, struct parts *parts)
{
	int unit = 100000;
	while (rest->len > 0 && rest->bytes[0] >= '0' && rest->bytes[0] <= '9') {
		parts->micros += (rest->bytes[0] - '0') * unit;
		unit /= 10;
		rest->bytes++;
		rest->len--;
	}
}

static bool take_zone(struct box_str *rest, struct parts *parts)
{
	while (take_char(rest, " \t")) {
	}
	if (take_char(rest, "Z")) {
		parts->has_zone = true;
		return true;
	}
	bool west = rest->len > 0 && rest->bytes[0] == '-';
	if (!take_char(rest, "+-")) {
		return false;
	}
	int hours = take_number(rest, 1, 2);
	int minutes = 0;
	if (take_char(rest, ":")) {
		minutes = take_number(rest, 2, 2);
	}
	if (hours < 0 || minutes < 0) {
		return false;
	}
	parts->has_zone = true;
	parts->offset_minutes = (hours * 60 + minutes) * (west ? -1 : 1);
	return true;
}

static bool split(struct box_str rest, struct parts *parts)
{
	*parts = (struct parts){0};
	if (!take_date(&rest, parts)) {
		return false;
	}
	if (rest.len == 0) {
		return !parts->short_date;
	}
	parts->has_time = true;
	if (!take_char(&rest, "Tt")) {
		size_t before = rest.len;
		while (take_char(&rest, " \t")) {
		}
		if (before == rest.len) {
			return false;
		}
	}
	parts->hour = take_number(&rest, 1, 2);
	bool first = parts->hour >= 0 && take_char(&rest, ":");
	parts->minute = first ? take_number(&rest, 2, 2) : -1;
	bool second = parts->minute >= 0 && take_char(&rest, ":");
	parts->second = second ? take_number(&rest, 2, 2) : -1;
	if (parts->second < 0) {
		return false;
	}
	if (take_char(&rest, ".")) {
		take_fraction(&rest, parts);
	}
	return rest.len == 0 || (take_zone(&rest, parts) && rest.len == 0);
}

bool box_yaml_is_time(struct box_str text)
{
	struct parts parts;
	return split(text, &parts);
}

static const char *out_of_range(const struct parts *parts)
{
	static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	if (parts->year < 1 || parts->month < 1 || parts->month > 12) {
		return "is no date: year or month is out of range";
	}
	bool leap = parts->year % 4 == 0 && (parts->year % 100 != 0 || parts->year % 400 == 0);
	if (parts->day < 1 || parts->day > days[parts->month - 1] + (leap && parts->month == 2)) {
		return "is no date: day is out of range for month";
	}
	if (parts->hour > 23 || parts->minute > 59 || parts->second > 59) {
		return "is no time: hour, minute or second is out of range";
	}
	if (parts->offset_minutes <= -24 * 60 || parts->offset_minutes >= 24 * 60) {
		return "is no time: its zone is a day or more away";
	}
	return NULL;
}

static void print_time(const struct parts *p, char *text, size_t size)
{
	int len = snprintf(text, size, "%04d-%02d-%02d %02d:%02d:%02d", p->year, p->month, p->day,
		p->hour, p->minute, p->second);
	if (p->micros > 0) {
		len += snprintf(text + len, size - (size_t)len, ".%06d", p->micros);
	}
	if (p->has_zone) {
		int away = p->offset_minutes < 0 ? -p->offset_minutes : p->offset_minutes;
		(void)snprintf(text + len, size - (size_t)len, "%c%02d:%02d",
			p->offset_minutes < 0 ? '-' : '+', away / 60, away % 60);
	}
}

static void print_time_repr(const struct parts *p, char *text, size_t size)
{
	int len = snprintf(text, size, "datetime.datetime(%d, %d, %d, %d, %d", p->year, p->month,
		p->day, p->hour, p->minute);
	if (p->second > 0 || p->micros > 0) {
		len += snprintf(text + len, size - (size_t)len, ", %d", p->second);
	}
	if (p->micros > 0) {
		len += snprintf(text + len, size - (size_t)len, ", %d", p->micros);
	}
	if (p->has_zone && p->offset_minutes == 0) {
		len += snprintf(text + len, size - (size_t)len, ", tzinfo=datetime.timezone.utc");
	} else if (p->has_zone) {
		bool west = p->offset_minutes < 0;
		len += snprintf(text + len, size - (size_t)len,
			", tzinfo=datetime.timezone(datetime.timedelta(%sseconds=%d))",
			west ? "days=-1, " : "", p->offset_minutes * 60 + (west ? 86400 : 0));
	}
	(void)snprintf(text + len, size - (size_t)len, ")");
}

const char *box_yaml_time(struct box_arena *arena, struct box_str text, struct box_yaml *ret_time)
{
	struct parts parts;
	char said[64];
	char repr[160];
	if (!split(text, &parts)) {
		return "is no time";
	}
	const char *why = out_of_range(&parts);
	if (why) {
		return why;
	}
	if (parts.has_time) {
		print_time(&parts, said, sizeof(said));
		print_time_repr(&parts, repr, sizeof(repr));
	} else {
		(void)snprintf(
			said, sizeof(said), "%04d-%02d-%02d", parts.year, parts.month, parts.day);
		(void)snprintf(repr, sizeof(repr), "datetime.date(%d, %d, %d)", parts.year,
			parts.month, parts.day);
	}
	ret_time->type = BOX_YAML_TIME;
	ret_time->is_true = true;
	ret_time->text = box_str(box_arena_strndup(arena, said, strlen(said)));
	ret_time->repr = box_str(box_arena_strndup(arena, repr, strlen(repr)));
	return NULL;
}
