/* msb create. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/msb/msb.h"
#include "cli/msb/msb_values.h"
#include "cli/path_argument.h"

/* A folder, an image file, or a name: the runtime says what a path is. */
static int add_image(
	const struct cli *cli, const char *image, struct box_value *spec, struct box_err *err)
{
	if (image[0] == '/' || image[0] == '.') {
		int r = box_path_argument_resolve(cli->arena, image, &image, err);
		if (r < 0) {
			return r;
		}
	}
	if (image[0] == '\0' || !box_utf8_valid(image, strlen(image))) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "IMAGE is not usable");
	}
	box_map_add(cli->arena, spec, "image", box_cstr(image));
	return 0;
}

static int add_volumes(const struct cli *cli, struct box_value *spec, struct box_err *err)
{
	const struct box_cli_words *given = &cli->options.volumes;
	struct box_value volumes = box_list_value();
	for (size_t i = 0; i < given->count; i++) {
		struct box_path_argument_mount volume;
		if (!box_utf8_valid(given->items[i], strlen(given->items[i]))) {
			return box_err_set(err, BOX_ERR_VALUE, EILSEQ, "--volume: no UTF-8");
		}
		const char *host;
		int r = box_msb_values_volume(cli->arena, given->items[i], &volume, err);
		r = r < 0 ? r : box_path_argument_resolve(cli->arena, volume.host, &host, err);
		if (r < 0) {
			return r;
		}
		struct box_value mount = box_map_value();
		box_map_add(cli->arena, &mount, "host_path", box_cstr(host));
		box_map_add(cli->arena, &mount, "mount_path", box_cstr(volume.box));
		box_map_add(cli->arena, &mount, "mode", box_cstr(volume.mode));
		box_list_add(cli->arena, &volumes, mount);
	}
	if (volumes.count > 0) {
		box_map_add(cli->arena, spec, "volumes", volumes);
	}
	return 0;
}

static int add_time(const struct cli *cli, const char *flag, const char *text, const char *member,
	struct box_value *spec, struct box_err *err)
{
	int64_t seconds = 0;
	int r = text ? box_msb_values_duration(flag, text, &seconds, err) : 0;
	if (seconds > 0) {
		box_map_add(cli->arena, spec, member, box_int(seconds));
	}
	return r;
}

static int make_spec(const struct cli *cli, struct box_value *ret_spec, struct box_err *err)
{
	const struct box_cli_options *options = &cli->options;
	struct box_value spec;
	int64_t memory_mb = 0;
	int r = box_cli_spec(cli, options->name, &spec, err);
	r = r < 0 ? r : add_image(cli, options->words.items[0], &spec, err);
	if (r == 0 && options->memory) {
		r = box_msb_values_memory("--memory", options->memory, &memory_mb, err);
		box_map_add(cli->arena, &spec, "memory_mb", box_int(memory_mb));
	}
	r = r < 0 ? r : add_volumes(cli, &spec, err);
	r = r < 0 ? r
		  : add_time(cli, "--idle-timeout", options->idle_timeout, "idle_timeout_sec",
			    &spec, err);
	r = r < 0 ? r
		  : add_time(cli, "--max-duration", options->max_duration, "max_duration_sec",
			    &spec, err);
	box_map_add(cli->arena, &spec, "network", box_cstr(options->no_network ? "off" : "on"));
	box_map_add(cli->arena, &spec, "read_only_rootfs", box_bool(false));
	/* It goes by its own times, or when it is told to. */
	box_map_add(cli->arena, &spec, "persistent", box_bool(true));
	*ret_spec = spec;
	return r;
}

/* There is none of this name from now on, or it was said why not. */
static int clear_name(const struct cli *cli, struct box_client *client)
{
	const char *name = cli->options.name;
	struct box_value data = box_cli_name_only(cli, name);
	struct box_value answer;
	struct box_err err = {0};
	int r = box_cli_try_request(cli, client,
		cli->options.replace ? "box_delete_session" : "box_get_session", &data, &answer,
		&err);
	if (r < 0 && err.code == BOX_ERR_SESSION_NOT_FOUND) {
		return 0;
	}
	if (r == 0 && !cli->options.replace) {
		r = box_err_set(&err, BOX_ERR_SESSION_CONFLICT, EEXIST,
			"sandbox %s already exists: remove it, or create it with --replace", name);
	}
	return r < 0 ? box_cli_fail(&err) : 0;
}

/* Volumes are opened for each command: what is wrong with one is to be known now. */
static int try_volumes(const struct cli *cli, struct box_client *client, struct box_value *spec)
{
	struct box_value data = box_cli_name_only(cli, cli->options.name);
	struct box_value answer;
	struct box_err err = {0};
	struct box_err ignored;
	if (cli->options.volumes.count == 0) {
		return 0;
	}
	box_map_add(cli->arena, spec, "cmd", box_cstr(":"));
	if (box_cli_try_request(cli, client, "box_exec", spec, &answer, &err) == 0) {
		return 0;
	}
	(void)box_cli_try_request(cli, client, "box_delete_session", &data, &answer, &ignored);
	return box_cli_fail(&err);
}

static int create(const struct cli *cli, struct box_client *client, struct box_value *spec)
{
	struct box_value info;
	int code = clear_name(cli, client);
	if (code == 0 && box_cli_request(cli, client, "box_create_session", spec, &info) < 0) {
		code = BOX_CLI_EXIT_FAILED;
	}
	code = code ? code : try_volumes(cli, client, spec);
	if (code == 0 && !cli->options.quiet) {
		(void)printf("%s\n", cli->options.name);
		code = box_cli_flush();
	}
	return code;
}

int box_msb_create(const struct cli *cli)
{
	struct box_client *client;
	struct box_value spec;
	struct box_err err;
	if (!cli->options.name) {
		return box_cli_usage_error(cli, "--name is needed");
	}
	if (cli->options.words.count != 1) {
		return box_cli_usage_error(cli, "one IMAGE is needed");
	}
	if (make_spec(cli, &spec, &err) < 0) {
		return box_cli_fail(&err);
	}
	if (box_cli_connect(cli, false, &client) < 0) {
		return BOX_CLI_EXIT_FAILED;
	}
	int code = create(cli, client, &spec);
	box_client_close(client);
	return code;
}
