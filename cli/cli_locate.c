/* Resolves WORKSPACE/BOX to the box of another workspace. Only the operator may list these. Verbs that take a
 * NAME call box_cli_locate first, and go on as if --workspace and --instance had been given. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

#define SEVERAL_MAX 200

static struct box_str text_of(const struct box_value *info, const char *name)
{
	const struct box_value *value = box_map_get(info, name);
	return value && value->type == BOX_STR ? value->str : (struct box_str){"", 0};
}

static const char *copy_of(const struct cli *cli, struct box_str text)
{
	return box_arena_strndup(cli->arena, text.bytes, text.len);
}

const char *box_cli_qualified_name(const struct cli *cli, const struct box_value *info)
{
	struct box_str workspace = text_of(info, "workspace_uuid");
	struct box_str box = text_of(info, "session_id");
	return box_arena_printf(cli->arena, "%.*s/%.*s", (int)workspace.len, workspace.bytes,
		(int)box.len, box.bytes);
}

int box_cli_request_all_boxes(
	const struct cli *cli, struct box_client *client, struct box_value *ret_boxes)
{
	struct box_value data = box_map_value();
	struct box_value answer;
	box_map_add(cli->arena, &data, "all", box_bool(true));
	int r = box_cli_request(cli, client, "box_get_sessions", &data, &answer);
	const struct box_value *boxes = r < 0 ? NULL : box_map_get(&answer, "sessions");
	*ret_boxes = boxes && boxes->type == BOX_LIST ? *boxes : box_list_value();
	return r;
}

struct cli box_cli_as_owner(const struct cli *cli, const struct box_value *info)
{
	const struct box_value *generation = box_map_get(info, "placement_generation");
	struct cli owner = *cli;
	owner.options.instance = copy_of(cli, text_of(info, "instance_uuid"));
	owner.options.workspace = copy_of(cli, text_of(info, "workspace_uuid"));
	owner.options.generation = generation && generation->type == BOX_INT ? generation->integer
									     : 1;
	return owner;
}

/* Whether the box has this name, and is of the instance of --instance if one is given. */
static bool is_meant(const struct cli *cli, const struct box_value *info, const char *name)
{
	const char *instance = cli->options.instance;
	return strcmp(box_cli_qualified_name(cli, info), name) == 0 &&
		(!instance || box_str_eq(text_of(info, "instance_uuid"), instance));
}

static int refuse_ambiguous(
	const struct cli *cli, const struct box_value *boxes, const char *name, struct box_err *err)
{
	char instances[SEVERAL_MAX] = "";
	size_t len = 0;
	for (uint32_t i = 0; i < boxes->count; i++) {
		struct box_str instance = text_of(&boxes->items[i], "instance_uuid");
		if (is_meant(cli, &boxes->items[i], name) &&
			len + instance.len + 3 < sizeof(instances)) {
			len += (size_t)snprintf(instances + len, sizeof(instances) - len, "%s%.*s",
				len > 0 ? ", " : "", (int)instance.len, instance.bytes);
		}
	}
	return box_err_set(err, BOX_ERR_VALUE, EEXIST,
		"several instances have a box %.200s: choose one with --instance: %s", name,
		instances);
}

static int find(const struct cli *cli, const struct box_value *boxes, const char *name,
	const struct box_value **ret_info, struct box_err *err)
{
	const struct box_value *found = NULL;
	for (uint32_t i = 0; i < boxes->count; i++) {
		const struct box_value *info = &boxes->items[i];
		if (!is_meant(cli, info, name)) {
			continue;
		}
		if (found) {
			return refuse_ambiguous(cli, boxes, name, err);
		}
		found = info;
	}
	if (!found) {
		return box_err_set(err, BOX_ERR_VALUE, ENOENT,
			"no box %.200s: box ls --all lists those of all workspaces", name);
	}
	*ret_info = found;
	return 0;
}

/* On the operator's socket the instance in the environment does not matter. */
static int ask(const struct cli *cli, struct box_value *ret_boxes)
{
	struct box_client *client;
	if (box_cli_connect(cli, false, &client) < 0) {
		return -EIO;
	}
	int r = box_cli_request_all_boxes(cli, client, ret_boxes);
	box_client_close(client);
	return r;
}

int box_cli_locate(const struct cli *cli, size_t word, struct cli *ret_cli)
{
	const struct box_cli_words *words = &cli->options.words;
	const char *name = words->items[word];
	const struct box_value *info = NULL;
	struct box_value boxes;
	struct box_err err;
	if (!strchr(name, '/')) {
		*ret_cli = *cli;
		return 0;
	}
	if (ask(cli, &boxes) < 0) {
		return -EIO;
	}
	if (find(cli, &boxes, name, &info, &err) < 0) {
		(void)box_cli_fail(&err);
		return -ENOENT;
	}
	struct cli owner = box_cli_as_owner(cli, info);
	const char **items = box_arena_alloc(cli->arena, words->count * sizeof(*items));
	memcpy(items, words->items, words->count * sizeof(*items));
	items[word] = copy_of(cli, text_of(info, "session_id"));
	owner.options.words.items = items;
	*ret_cli = owner;
	return 0;
}
