/* box profiles: lists the built-in profiles and the operator's, or shows one of them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/config_file.h"
#include "client/service.h"

#define NAME_WIDTH 20
#define MEMBER_WIDTH 20

static int64_t number(const struct box_value *map, const char *name)
{
	const struct box_value *value = box_map_get(map, name);
	return value && value->type == BOX_INT ? value->integer : 0;
}

static double real(const struct box_value *map, const char *name)
{
	const struct box_value *value = box_map_get(map, name);
	return value && value->type == BOX_REAL ? value->real : 0;
}

static bool truth(const struct box_value *map, const char *name)
{
	const struct box_value *value = box_map_get(map, name);
	return value && value->type == BOX_BOOL && value->boolean;
}

static void print_names(const struct box_value *list)
{
	for (uint32_t i = 0; i < list->count; i++) {
		(void)printf("%s", i > 0 ? ", " : "");
		box_cli_print_text(&list->items[i], 0);
	}
	(void)puts(list->count == 0 ? "-" : "");
}

static void print_row(const struct box_value *profile)
{
	char timeout[48];
	char memory[32];
	(void)snprintf(timeout, sizeof(timeout), "%lld/%lld s",
		(long long)number(profile, "timeout_sec"),
		(long long)number(profile, "max_timeout_sec"));
	(void)snprintf(memory, sizeof(memory), "%lld MB", (long long)number(profile, "memory_mb"));
	box_cli_print_text(box_map_get(profile, "name"), NAME_WIDTH);
	(void)putchar(' ');
	box_cli_print_text(box_map_get(profile, "network"), 8);
	(void)printf(" %-8s %-5.4g %-6lld %-5s ", memory, real(profile, "cpus"),
		(long long)number(profile, "pids_limit"),
		truth(profile, "read_only_rootfs") ? "ro" : "rw");
	box_cli_print_text(box_map_get(profile, "host_path_mode"), 5);
	(void)printf(" %-11s ", timeout);
	print_names(box_map_get(profile, "locked"));
}

static void print_value(const struct box_value *value)
{
	switch (value->type) {
	case BOX_INT:
		(void)printf("%lld\n", (long long)value->integer);
		break;
	case BOX_REAL:
		(void)printf("%g\n", value->real);
		break;
	case BOX_BOOL:
		(void)puts(value->boolean ? "true" : "false");
		break;
	case BOX_LIST:
		print_names(value);
		break;
	default:
		box_cli_print_text(value, 0);
		(void)putchar('\n');
	}
}

static int print_one(const struct cli *cli, const struct box_value *profile)
{
	if (cli->options.json) {
		return box_cli_print_json(profile);
	}
	for (uint32_t i = 0; i < profile->count; i++) {
		(void)printf("%-*.*s ", MEMBER_WIDTH, (int)profile->pairs[i].key.len,
			profile->pairs[i].key.bytes);
		print_value(&profile->pairs[i].value);
	}
	return box_cli_flush();
}

static int print_all(const struct cli *cli, const struct box_value *list)
{
	if (cli->options.json) {
		return box_cli_print_json(list);
	}
	(void)printf("%-*s %-8s %-8s %-5s %-6s %-5s %-5s %-11s %s\n", NAME_WIDTH, "NAME", "NETWORK",
		"MEMORY", "CPUS", "PIDS", "ROOT", "FILES", "TIMEOUT/MAX", "LOCKED");
	for (uint32_t i = 0; i < list->count; i++) {
		print_row(&list->items[i]);
	}
	return box_cli_flush();
}

static int profiles_verb(const struct cli *cli)
{
	const struct box_cli_words *words = &cli->options.words;
	struct box_value map;
	struct box_value list;
	struct box_err err;
	if (words->count > 1) {
		return box_cli_usage_error(cli, "expected at most one PROFILE");
	}
	if (box_config_file_read(cli, &map, &err) < 0) {
		return box_cli_fail(&err);
	}
	const struct box_value *local = box_map_get(&map, "local");
	const char *name = words->count ? words->items[0] : NULL;
	if (box_service_profiles(cli->arena, local ? box_map_get(local, "profiles") : NULL, name,
		    &list, &err) < 0) {
		return box_cli_fail(&err);
	}
	return name ? print_one(cli, &list.items[0]) : print_all(cli, &list);
}

BOX_CLI_VERB(profiles) = {
	.name = "profiles",
	.options = {box_cli_options_common, box_cli_options_json, box_cli_options_config},
	.plain_words = SIZE_MAX,
	.run = profiles_verb,
	.summary = "list box profiles",
	.usage = "Usage: box profiles [OPTION]... [PROFILE]\n"
		 "Lists the profiles (defaults and limits for boxes) that the service of libbox\n"
		 "knows, or shows one of them.\n"
		 "\n"
		 "      --json             print JSON\n" BOX_CLI_CONFIG_USAGE BOX_CLI_LOCAL_USAGE,
};
