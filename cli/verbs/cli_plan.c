/* box plan: prints what `box run` with the same options would create on this host. The host is inspected by the
 * code of boxd, in a child, because that enters namespaces; the rest is pure. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "boxd/files/host_mount.h"
#include "boxd/host_state.h"
#include "cli/cli.h"
#include "cli/doctor/probe_child.h"
#include "plan/plan.h"
#include "runtime/spec/spec.h"

#define LOOK_MS 20000
#define NAME "box" /* a real box has a name of its own each time */

/* Comes out of the child through a pipe. */
struct findings {
	bool possible;
	char missing[BOX_BOXD_TEXT_MAX];
	struct box_plan_host host;
};

static void look_at_host(void *arg, void *result)
{
	const struct box_policy *policy = arg;
	struct findings *findings = result;
	static struct box_host_state state;
	struct box_identity ids;
	struct box_err err;
	box_host_state_init(&state);
	if (box_identity_choose_for_rpc(&ids, &err) < 0) {
		(void)snprintf(findings->missing, sizeof(findings->missing), "%.*s",
			(int)sizeof(findings->missing) - 1, err.text);
		return;
	}
	box_host_state_open(&state, &ids);
	if (box_host_state_set_policy(&state, policy, &err) < 0) {
		(void)snprintf(findings->missing, sizeof(findings->missing), "%.*s",
			(int)sizeof(findings->missing) - 1, err.text);
		return;
	}
	findings->possible = state.possible;
	memcpy(findings->missing, state.missing, sizeof(findings->missing));
	findings->host = state.host;
	box_host_state_close(&state);
}

/* Builds the request of the options, with the defaults and checks of the runtime. */
static int make_request(
	const struct box_spec *spec, struct box_plan_request *ret_request, struct box_err *err)
{
	*ret_request = (struct box_plan_request){
		.name = NAME,
		.host_mode = BOX_PLAN_MOUNT_NONE,
		.network = spec->network_on,
		.writable_root = !spec->read_only_rootfs,
		.memory_bytes = (uint64_t)spec->memory_mb * BOX_MIB,
		.pids = (uint64_t)spec->pids_limit,
		.cpu_milli = (uint64_t)ceil(spec->cpus * 1000),
		.quota_bytes = (uint64_t)spec->workspace_quota_mb * BOX_MIB,
	};
	if (spec->egress) {
		ret_request->egress = *spec->egress;
	}
	int len = snprintf(
		ret_request->mount_path, sizeof(ret_request->mount_path), "%s", spec->mount_path);
	return len < BOX_PATH_MAX
		? 0
		: box_err_set(err, BOX_ERR_VALIDATION, ENAMETOOLONG, "mount_path is too long");
}

static int read_kind(const struct cli *cli, struct box_plan_request *request, struct box_err *err)
{
	const char *name = cli->options.backend ? cli->options.backend : "native";
	if (strcmp(name, "native") != 0 && strcmp(name, "krun") != 0) {
		return box_err_set(err, BOX_ERR_VALIDATION, EINVAL,
			"--backend: \"%s\" is neither native nor krun", name);
	}
	request->kind = strcmp(name, "krun") == 0 ? BOX_PLAN_KIND_MICROVM : BOX_PLAN_KIND_NATIVE;
	return 0;
}

static int read_spec(const struct cli *cli, struct box_spec *ret_spec, struct box_err *err)
{
	/* The plan does not depend on the command, which may be left out. */
	static const char *const nothing[] = {"true"};
	const struct box_cli_words *words = &cli->options.words;
	struct box_value value;
	int r = box_cli_spec(cli, NAME, &value, err);
	if (r < 0) {
		return r;
	}
	r = box_cli_add_command(cli, words->count ? words->items : nothing,
		words->count ? words->count : 1, &value, err);
	if (r < 0) {
		return r;
	}
	return box_spec_parse(cli->arena, &value, ret_spec, err);
}

/* Checks the mounts of the command as boxd does when it runs. */
static int check_mounts(
	const struct box_spec *spec, const struct box_policy *policy, struct box_err *err)
{
	static struct box_mount_roots roots;
	int r = box_mount_roots_seal(&roots, policy, NULL, err);
	for (size_t i = 0; r == 0 && i < spec->mount_count; i++) {
		_cleanup_(box_close_p) int fd = -1;
		const struct box_mount *mount = &spec->mounts[i];
		const struct box_host_mount_request wanted = {.path = mount->host_path,
			.what = "extra_mounts.host_path",
			.files = true,
			.writable = mount->mode == BOX_MOUNT_RW,
			.asker = {.namespace = ""}};
		r = box_plan_check_target(mount->mount_path, "extra_mounts.mount_path", err);
		if (r == 0) {
			r = box_host_mount_open(&wanted, &roots, &fd, err);
		}
	}
	box_mount_roots_close(&roots);
	return r;
}

/* Prints one line without control characters: paths and names may have any bytes. */
static void print_safely(const char *text)
{
	for (const char *at = text; *at; at++) {
		bool control = (unsigned char)*at < ' ' || *at == 0x7f;
		if ((unsigned char)at[0] == 0xc2 && (unsigned char)at[1] < 0xa0) {
			(void)printf("\\xc2\\x%02x", (unsigned char)*++at);
		} else if (control || *at == '\\') {
			(void)printf("\\x%02x", (unsigned char)*at);
		} else {
			(void)putchar(*at);
		}
	}
}

/* What belongs to the command and not to the box. Values of variables may be secrets, so only names are shown. */
static void print_command(const struct cli *cli, const struct box_spec *spec)
{
	for (size_t i = 0; i < spec->mount_count; i++) {
		(void)printf("command mount ");
		print_safely(spec->mounts[i].mount_path);
		(void)printf(" host ");
		print_safely(spec->mounts[i].host_path);
		(void)printf(" %s nosuid nodev\n", box_spec_mount_mode_name(spec->mounts[i].mode));
	}
	for (size_t i = 0; i < spec->env_count; i++) {
		(void)printf("command env ");
		print_safely(spec->env[i].name);
		(void)putchar('\n');
	}
	(void)printf("command workdir ");
	print_safely(spec->workdir);
	(void)putchar('\n');
	if (cli->options.timeout_sec) {
		(void)printf("command timeout %lld s\n", (long long)cli->options.timeout_sec);
	}
}

static int inspect_host(const struct cli *cli, struct box_policy *policy, struct findings *findings,
	struct box_err *err)
{
	int r = box_probe_child_run(
		look_at_host, policy, findings, sizeof(*findings), LOOK_MS, cli->options.verbose);
	if (r < 0) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, -r,
			"cannot inspect the host: %s (see box doctor)",
			r == -ECHILD ? "the process for it ended early" : box_err_strerror(-r));
	}
	if (!findings->possible) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EOPNOTSUPP,
			"boxes cannot be created on this host: %s (see box doctor)",
			findings->missing);
	}
	return 0;
}

static int plan_verb(const struct cli *cli)
{
	/* As of the boxd that `box run` starts. */
	static struct box_policy policy = {.roots = {.count = 1, .paths = {"/"}}};
	static struct findings findings;
	static struct box_plan plan;
	static struct box_plan_request request;
	struct box_spec spec;
	struct box_err err;
	if (cli->options.endpoint) {
		return box_cli_usage_error(cli, "is about this host: leave out --endpoint");
	}
	if (read_spec(cli, &spec, &err) < 0 || make_request(&spec, &request, &err) < 0 ||
		read_kind(cli, &request, &err) < 0 || check_mounts(&spec, &policy, &err) < 0 ||
		inspect_host(cli, &policy, &findings, &err) < 0 ||
		box_plan_make(&request, &policy, &findings.host, &plan, &err) < 0) {
		return box_cli_fail(&err);
	}
	box_plan_print(&plan, stdout);
	print_command(cli, &spec);
	return box_cli_flush();
}

BOX_CLI_VERB(plan) = {
	.name = "plan",
	.options = {box_cli_options_common, box_cli_options_spec, box_cli_options_backend,
		box_cli_options_command},
	.plain_words = 0,
	.run = plan_verb,
	.summary = "show what `box run` would create (dry run)",
	.usage = "Usage: box plan [OPTION]... [[--] CMD [ARG]...]\n"
		 "Prints what `box run` with the same options would create on this host:\n"
		 "namespaces, limits, mounts, environment. Nothing is created.\n"
		 "\n" BOX_CLI_BACKEND_USAGE BOX_CLI_SPEC_USAGE BOX_CLI_COMMAND_USAGE
			 BOX_CLI_LOCAL_USAGE,
};
