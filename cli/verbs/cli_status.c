/* box status: the state of the runtime (disabled, unreachable, no backend, healthy) as the service of libbox
 * judges it; also the check of box doctor. The runtime is only queried, never configured. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/config_file.h"
#include "cli/doctor/check.h"
#include "client/service/service_config.h"
#include "client/service/service_status.h"

#define EXIT_NOT_HEALTHY 1
#define WIDTH 12

/* --- for people --- */

static const struct box_value *find(
	const struct box_value *map, const char *section, const char *name)
{
	const struct box_value *inner = box_map_get(map, section);
	return inner ? box_map_get(inner, name) : NULL;
}

static long long number(const struct box_value *value)
{
	return value && value->type == BOX_INT ? (long long)value->integer : 0;
}

static void print_member(const char *label, const struct box_value *value)
{
	if (value && value->type == BOX_STR) {
		(void)printf("%-*s ", WIDTH, label);
		box_cli_print_text(value, 0);
		(void)putchar('\n');
	}
}

static void print_list(const char *label, const struct box_value *list, bool lines)
{
	uint32_t count = list && list->type == BOX_LIST ? list->count : 0;
	for (uint32_t i = 0; i < count; i++) {
		if (i == 0 || lines) {
			(void)printf("%-*s ", WIDTH, i == 0 ? label : "");
		} else {
			(void)fputs(", ", stdout);
		}
		box_cli_print_text(&list->items[i], 0);
		if (lines || i + 1 == count) {
			(void)putchar('\n');
		}
	}
}

static void print_backend(const struct box_value *status)
{
	const struct box_value *available = find(status, "backend", "available");
	const struct box_value *degraded = find(status, "backend", "degraded");
	(void)printf("%-*s ", WIDTH, "backend");
	const struct box_value *name = find(status, "backend", "name");
	const struct box_value *asked = find(status, "backend", "asked");
	box_cli_print_text(asked && (!name || name->type == BOX_NULL) ? asked : name, 0);
	(void)puts(!available || available->type != BOX_BOOL || !available->boolean
			? ", not available"
			: degraded && degraded->type == BOX_BOOL && degraded->boolean
			? ", boxes have no limits"
			: "");
}

static void print_status(const struct box_value *status)
{
	const struct box_value *state = box_map_get(status, "state");
	struct box_value healthy = box_cstr("healthy");
	/* On the wire and in JSON the state is called "well". */
	bool is_healthy = state && state->type == BOX_STR && box_str_eq(state->str, "well");
	print_member("state", is_healthy ? &healthy : state);
	print_member("reason", box_map_get(status, "connector_error"));
	print_member("runtime", box_map_get(status, "endpoint"));
	print_member("profile", box_map_get(status, "profile"));
	if (!box_map_get(status, "backend")) {
		return;
	}
	print_backend(status);
	(void)printf("%-*s %lld, limit %lld, %lld free\n", WIDTH, "boxes",
		number(find(status, "capacity", "used")), number(find(status, "capacity", "limit")),
		number(find(status, "capacity", "remaining")));
	(void)printf("%-*s %lld running\n", WIDTH, "processes",
		number(box_map_get(status, "managed_processes")));
	long long idle_sec = number(box_map_get(status, "session_ttl_sec"));
	if (idle_sec == 0) {
		(void)printf("%-*s are kept\n", WIDTH, "idle boxes");
	} else {
		(void)printf("%-*s are removed after %lld s; those of box create stay\n", WIDTH,
			"idle boxes", idle_sec);
	}
	print_list("features", box_map_get(status, "features"), false);
	print_list("warnings", box_map_get(status, "warnings"), true);
	print_list("no limit on", box_map_get(status, "not_held"), false);
	print_list("shared", box_map_get(status, "held_together"), false);
}

/* --- the query --- */

/* The runtime's box_status; an older runtime has its backend in another answer. */
static int ask(const struct cli *cli, struct box_client *client, struct box_value *ret_status,
	struct box_err *err)
{
	struct box_value backend;
	int r = box_client_call(
		client, "box_status", NULL, BOX_CLI_CALL_MS, cli->arena, ret_status, err);
	if (r < 0 || box_map_get(ret_status, "backend")) {
		return r;
	}
	r = box_client_call(
		client, "box_get_backend_info", NULL, BOX_CLI_CALL_MS, cli->arena, &backend, err);
	if (r == 0) {
		box_map_add(cli->arena, ret_status, "backend", backend);
	}
	return r;
}

static struct box_client_options client_options(
	const struct cli *cli, const struct box_service_config *config)
{
	struct box_client_options options = box_cli_client_options(cli, false);
	if (!options.endpoint) {
		options.endpoint = config->endpoint;
	}
	options.config = NULL; /* it is not for a boxd that we start */
	return options;
}

/* Fills the facts: `runtime` when it answered, else the reason. Gives the endpoint. */
static const char *query(const struct cli *cli, const struct box_service_config *config,
	struct box_service_status_facts *facts, struct box_value *answer, struct box_err *err)
{
	const struct box_client_options options = client_options(cli, config);
	const char *endpoint = options.endpoint ? options.endpoint : BOX_CLI_ENDPOINT_DEFAULT;
	struct box_client *client = NULL;
	if (!config->enabled) {
		return NULL;
	}
	int r = box_cli_open(&options, &client, err);
	if (r == 0) {
		if (!options.endpoint) {
			endpoint = box_arena_printf(cli->arena, "%s", box_client_endpoint(client));
		}
		r = ask(cli, client, answer, err);
	}
	box_client_close(client);
	facts->runtime = r == 0 ? answer : NULL;
	facts->why = r < 0 ? err->text : NULL;
	return endpoint;
}

void box_check_runtime(const struct box_check_setup *setup, struct box_check *check)
{
	const struct box_service_config config = {.enabled = true};
	struct box_service_status_facts facts = {.enabled = true};
	struct box_value answer;
	struct box_err err = {0};
	(void)query(setup->cli, &config, &facts, &answer, &err);
	struct box_value status = box_service_status_value(setup->cli->arena, &facts);
	const struct box_value *name = find(&status, "backend", "name");
	const struct box_value *why = box_map_get(&status, "connector_error");
	switch (box_service_status_judge(&facts)) {
	case BOX_SERVICE_HEALTHY:
		box_check_report(check, BOX_CHECK_OK, "",
			"the running boxd can create boxes (%.*s)",
			name && name->type == BOX_STR ? (int)name->str.len : 0,
			name && name->type == BOX_STR ? name->str.bytes : "");
		break;
	case BOX_SERVICE_NO_BACKEND:
		box_check_report(check, BOX_CHECK_MISSING,
			"see its log and boxd --check-config, then restart it",
			"the running boxd cannot create boxes: %.*s",
			why && why->type == BOX_STR ? (int)why->str.len : 0,
			why && why->type == BOX_STR ? why->str.bytes : "");
		break;
	default:
		if (err.errnum == ECONNREFUSED || err.errnum == ENOENT) {
			box_check_report(check, BOX_CHECK_OK, "", "no boxd is running");
		} else {
			box_check_report(check, BOX_CHECK_LIMITED,
				"run as root, as the user that runs boxd or in its --socket-group, or set "
				"LANGBOT_BOX_CONTROL_TOKEN to its token",
				"cannot query boxd: %s", err.text);
		}
	}
}

static int status_verb(const struct cli *cli)
{
	char folder[BOX_PATH_MAX];
	struct box_service_config config;
	struct box_value map;
	struct box_value answer;
	struct box_err err;
	if (cli->options.words.count > 0) {
		return box_cli_usage_error(cli, "takes no arguments");
	}
	if (box_config_file_read(cli, &map, &err) < 0 ||
		box_service_config_read(cli->arena, &map,
			getcwd(folder, sizeof(folder)) ? folder : "/", &config, &err) < 0) {
		return box_cli_fail(&err);
	}
	struct box_service_status_facts facts = {
		.enabled = config.enabled, .profile = config.profile->name};
	const char *endpoint = query(cli, &config, &facts, &answer, &err);
	struct box_value status = box_service_status_value(cli->arena, &facts);
	if (endpoint) {
		box_map_add(cli->arena, &status, "endpoint", box_cstr(endpoint));
	}
	if (!cli->options.json) {
		print_status(&status);
	}
	int code = cli->options.json ? box_cli_print_json(&status) : box_cli_flush();
	return code                                                       ? code
		: box_service_status_judge(&facts) == BOX_SERVICE_HEALTHY ? 0
									  : EXIT_NOT_HEALTHY;
}

BOX_CLI_VERB(status) = {
	.name = "status",
	.options = {box_cli_options_common, box_cli_options_json, box_cli_options_config},
	.plain_words = SIZE_MAX,
	.run = status_verb,
	.summary = "show the state of the runtime",
	.usage = "Usage: box status [OPTION]...\n"
		 "Shows whether a runtime answers and can create boxes, with its backend,\n"
		 "capacity and warnings. The state is disabled (by the configuration),\n"
		 "unreachable, no_backend or healthy. Exit status: 0 when it is healthy, else 1.\n"
		 "\n"
		 "      --json             print JSON with all details\n" BOX_CLI_CONFIG_USAGE
			 BOX_CLI_COMMON_USAGE,
};
