/* boxd's start: reads the command line, opens files and sockets, connects the modules. All errors in
 * these are found here, before box-rpc or any box starts. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/sock_diag.h"
#include "boxd/program.h"
#include "boxd/rpc/supervise.h"

#ifndef BOX_VERSION
#define BOX_VERSION "0.0.0"
#endif

#define EXIT_FAILED 1
#define EXIT_USAGE 2

static int fail(int exit_code, const struct box_err *err)
{
	(void)fprintf(stderr, "boxd: %s\n", err->text);
	return exit_code;
}

/* Otherwise the next open() would get fd 0, 1 or 2, and be written to by mistake. */
static int fill_standard_fds(struct box_err *err)
{
	int fd;
	do {
		fd = open("/dev/null", O_RDWR); /* NOLINT(android-cloexec-open): it stays */
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd < 0) {
		return box_err_set(err, BOX_ERR_OS, errno, "/dev/null cannot be opened");
	}
	(void)close(fd);
	return 0;
}

/* With -s boxd goes on without these sockets if they cannot be opened. */
static int open_listeners(
	const struct box_options *options, struct box_listeners *listeners, struct box_err *err)
{
	if (options->check_config) {
		return box_listeners_check_host(options->host, &listeners->all_loopback, err);
	}
	int r = box_listeners_open(options->host, options->port, listeners, err);
	if (r < 0 && options->stdio) {
		BOX_LOG(BOX_LOG_WARNING, "listen.failed", box_log_str("why", err->text));
		return 0;
	}
	return r;
}

/* At its default path this may fail: another boxd may listen there. */
static int open_operator_socket(
	const struct box_options *options, struct box_listeners *listeners, struct box_err *err)
{
	bool named = options->socket_path != NULL;
	if (options->check_config || options->socket_none || (options->stdio && !named)) {
		return 0;
	}
	int r = box_operator_socket_open(
		options->socket_path, options->socket_group, &listeners->operator, err);
	if (r < 0 && !named && !options->socket_group) {
		BOX_LOG(BOX_LOG_WARNING, "listening.no_operator", box_log_str("why", err->text),
			box_log_str("do", "name another path with --socket, or --socket none"));
		return 0;
	}
	return r;
}

/* box-rpc ignores a token of white space only. */
static bool is_blank(const char *token)
{
	return box_str_strip(box_str(token)).len == 0;
}

/* Logs where we listen, and tells box-rpc, which decides by the operator's file whether that is
 * allowed. Without a token box-rpc must look up which user connects. */
static void report_listeners(
	struct box_listeners *listeners, bool wide, struct box_boxd_start *start)
{
	box_listeners_log(listeners);
	if (!is_blank(start->token)) {
		return;
	}
	start->flags |= wide ? BOX_BOXD_START_WIDE_OPEN : 0;
	int r = listeners->count > 0 ? box_sock_diag_open(&listeners->sock_diag) : 0;
	if (r < 0) {
		BOX_LOG(BOX_LOG_WARNING, "sock_diag.missing", box_log_errno("why", r),
			box_log_str("so", "nobody is let in by TCP without a token"));
	}
}

/* Every box needs some fds. The limits of our children are set separately. */
static void raise_open_files(void)
{
	struct rlimit limit;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
}

/* NULL for no path. */
static const char *make_absolute(const char *folder, const char *path, char out[2 * BOX_PATH_MAX])
{
	if (!path || path[0] == '\0') {
		return NULL;
	}
	bool absolute = path[0] == '/';
	(void)snprintf(
		out, 2 * BOX_PATH_MAX, "%s%s%s", absolute ? "" : folder, absolute ? "" : "/", path);
	return out;
}

/* With -s the configuration is in the working folder of the process that started boxd, so it does not
 * count as Box's own. */
static void find_own_paths(const struct box_options *options,
	const struct box_start_data *start_data, const struct box_listeners *listeners,
	struct box_mount_roots_own_paths *ret_paths)
{
	static char config[2 * BOX_PATH_MAX];
	static char token[2 * BOX_PATH_MAX];
	const char *folder = start_data->start.working_folder;
	*ret_paths = (struct box_mount_roots_own_paths){
		.socket = listeners->operator.fd >= 0 ? listeners->operator.path : NULL,
		.config = options->stdio ? NULL
					 : make_absolute(folder, options->config_path, config),
		.token = make_absolute(folder, start_data->token_path, token), };
}

static int serve(const struct box_options *options)
{
	static struct box_host_state host_state;
	struct box_err err;
	raise_open_files();
	struct box_start_data *start_data = box_start_data_new();
	if (!start_data) {
		(void)box_err_set(&err, BOX_ERR_OS, errno, "no memory for the token");
		return fail(EXIT_FAILED, &err);
	}
	if (box_start_data_load(options, start_data, &err) < 0) {
		return fail(EXIT_USAGE, &err);
	}
	struct box_identity ids;
	struct box_listeners listeners = BOX_LISTENERS_NONE;
	char rpc_path[BOX_PATH_MAX];
	/* Before the namespaces change what our own path means. */
	if (box_program_find("box-rpc", rpc_path, &err) < 0 ||
		box_identity_choose_for_rpc(&ids, &err) < 0 ||
		open_listeners(options, &listeners, &err) < 0 ||
		open_operator_socket(options, &listeners, &err) < 0) {
		return fail(EXIT_FAILED, &err);
	}
	char skills_path[BOX_PATH_MAX];
	if (box_program_find("box-skills", skills_path, &err) < 0) {
		BOX_LOG(BOX_LOG_WARNING, "skills.missing", box_log_str("why", err.text));
		skills_path[0] = '\0';
	}
	bool opened = listeners.count > 0 || options->check_config;
	report_listeners(&listeners, opened && !listeners.all_loopback, &start_data->start);
	box_host_state_init(&host_state);
	find_own_paths(options, start_data, &listeners, &host_state.own_paths);
	if (!options->check_config) {
		box_host_state_open(&host_state, &ids);
		/* The process that started us sees the same mounts. */
		host_state.alone = options->stdio;
	}
	/* The token is in this process's memory: no core dumps, and no debugger of the same user. Not
	 * earlier: as a plain user, boxd could not write its own id maps then. */
	if (prctl(PR_SET_DUMPABLE, 0L) < 0) {
		(void)box_err_set(&err, BOX_ERR_OS, errno, "PR_SET_DUMPABLE failed");
		return fail(EXIT_FAILED, &err);
	}
	const struct box_supervise_setup setup = {
		.rpc_path = rpc_path,
		.serve =
			{
				.start_data = start_data,
				.listeners = &listeners,
				.host_state = &host_state,
				.ids = &ids,
				.skills_path = skills_path,
			},
	};
	int exit_code = box_supervise_run(&setup);
	box_host_state_close(&host_state);
	box_listeners_close(&listeners);
	return exit_code;
}

int main(int argc, char **argv)
{
	struct box_options options;
	struct box_err err;
	if (fill_standard_fds(&err) < 0) {
		return fail(EXIT_FAILED, &err);
	}
	if (box_options_parse(argc, argv, &options, &err) < 0) {
		return fail(EXIT_USAGE, &err);
	}
	if (options.help || options.version) {
		(void)fputs(options.help ? box_options_usage() : "boxd " BOX_VERSION "\n", stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_FAILED;
	}
	/* The result must not be buried among log lines about processes. */
	if (options.check_config && options.log_level == BOX_LOG_INFO) {
		options.log_level = BOX_LOG_WARNING;
	}
	box_log_setup("boxd", options.log_level, options.log_format);
	(void)umask(022);
	return serve(&options);
}
