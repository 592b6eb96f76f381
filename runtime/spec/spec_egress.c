/* The member `egress`, which the reference does not know. Its forms are strict: anything unknown is refused, since to
 * ignore it would open what the caller wanted closed.
 */
#include "runtime/spec/spec_egress.h"

#include <string.h>

#include "base/arena.h"
#include "base/limits.h"
#include "base/macros.h"

#define PORT_MAX 65535

static int refuse_item(const struct box_fields *fields, const char *list, uint32_t at,
	const char *before, const char *why)
{
	return box_fields_refuse(fields,
		box_arena_printf(fields->arena, "egress.%s.%u", list, (unsigned)at),
		box_arena_printf(fields->arena, "Value error, %s%s", before, why));
}

static int check_list(const struct box_fields *fields, const char *member,
	const struct box_value *list, size_t max)
{
	if (list->type != BOX_LIST) {
		return box_fields_refuse(fields, member, "Input should be a valid list");
	}
	if (list->count > max) {
		return box_fields_refuse(fields, member,
			box_arena_printf(fields->arena,
				"Value error, there may be at most %zu entries", max));
	}
	return 0;
}

static int read_allow(
	const struct box_fields *fields, const struct box_value *list, struct box_egress *egress)
{
	int r = check_list(fields, "egress.allow", list, BOX_COUNT_OF(egress->allow));
	egress->allow_count = 0;
	for (uint32_t i = 0; r == 0 && i < list->count; i++) {
		const struct box_value *item = &list->items[i];
		if (item->type != BOX_STR) {
			return refuse_item(fields, "allow", i, "", "an entry must be a text");
		}
		const char *why = box_egress_read(
			item->str.bytes, item->str.len, &egress->allow[egress->allow_count++]);
		if (why) {
			const char *shown = box_fields_echo(fields->arena, item->str);
			r = refuse_item(fields, "allow", i,
				box_arena_printf(fields->arena, "%s ", shown), why);
		}
	}
	return r;
}

static int read_ports(
	const struct box_fields *fields, const struct box_value *list, struct box_egress *egress)
{
	int r = check_list(fields, "egress.host_ports", list, BOX_COUNT_OF(egress->host_ports));
	egress->host_port_count = 0;
	for (uint32_t i = 0; r == 0 && i < list->count; i++) {
		const struct box_value *item = &list->items[i];
		if (item->type != BOX_INT || item->integer < 1 || item->integer > PORT_MAX) {
			return refuse_item(fields, "host_ports", i, "",
				"a port must be a number from 1 to 65535");
		}
		egress->host_ports[egress->host_port_count++] = (uint16_t)item->integer;
	}
	return r;
}

int box_spec_egress_read(
	const struct box_fields *fields, const struct box_value *value, void *member)
{
	struct box_egress *egress = box_arena_alloc(fields->arena, sizeof(*egress));
	if (value->type != BOX_MAP) {
		return box_fields_refuse(fields, "egress", "Input should be a valid dictionary");
	}
	egress->limited = 1;
	for (uint32_t i = 0; i < value->count; i++) {
		struct box_str name = value->pairs[i].key;
		const struct box_value *list = &value->pairs[i].value;
		int r;
		if (box_str_eq(name, "allow")) {
			r = read_allow(fields, list, egress);
		} else if (box_str_eq(name, "host_ports")) {
			r = read_ports(fields, list, egress);
		} else {
			r = box_fields_refuse(fields,
				box_arena_printf(fields->arena, "egress.%s",
					box_fields_echo(fields->arena, name)),
				"Extra inputs are not permitted");
		}
		if (r < 0) {
			return r;
		}
	}
	box_egress_normalize(egress);
	*(struct box_egress **)member = egress;
	return 0;
}

struct box_value box_spec_egress_value(struct box_arena *arena, const struct box_egress *egress)
{
	struct box_value allow = box_list_value();
	struct box_value ports = box_list_value();
	struct box_value value = box_map_value();
	for (uint32_t i = 0; i < egress->allow_count; i++) {
		char text[BOX_EGRESS_TEXT];
		box_egress_write(&egress->allow[i], text);
		box_list_add(arena, &allow, box_cstr(box_arena_strndup(arena, text, strlen(text))));
	}
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		box_list_add(arena, &ports, box_int(egress->host_ports[i]));
	}
	box_map_add(arena, &value, "allow", allow);
	box_map_add(arena, &value, "host_ports", ports);
	return value;
}

const char *box_spec_egress_text(struct box_arena *arena, const struct box_egress *egress)
{
	if (!egress) {
		return "None";
	}
	const char *text = "allow";
	for (uint32_t i = 0; i < egress->allow_count; i++) {
		char entry[BOX_EGRESS_TEXT];
		box_egress_write(&egress->allow[i], entry);
		text = box_arena_printf(arena, "%s %s", text, entry);
	}
	text = box_arena_printf(
		arena, "%s%s, host_ports", text, egress->allow_count > 0 ? "" : " nothing");
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		text = box_arena_printf(arena, "%s %u", text, egress->host_ports[i]);
	}
	return egress->host_port_count > 0 ? text : box_arena_printf(arena, "%s none", text);
}
