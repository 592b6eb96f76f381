/* Parses the command line with getopt_long: argv in, a struct or one line of error out. */
#include "boxd/options.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define HOST_MAX 255 /* the longest DNS name */

enum {
	FLAG_STDIO = 's',
	FLAG_HELP = 'h',
	FLAG_HOST = 256,
	FLAG_PORT,
	FLAG_STANDALONE,
	FLAG_SOCKET,
	FLAG_SOCKET_GROUP,
	FLAG_TOKEN_FILE,
	FLAG_UNAUTHENTICATED,
	FLAG_CONFIG,
	FLAG_MOUNT_ROOT,
	FLAG_LOG_LEVEL,
	FLAG_LOG_FORMAT,
	FLAG_CHECK_CONFIG,
	FLAG_VERSION,
};

static const struct option flags[] = {
	{"stdio-control", no_argument, NULL, FLAG_STDIO},
	{"host", required_argument, NULL, FLAG_HOST},
	{"ws-control-port", required_argument, NULL, FLAG_PORT},
	{"standalone-box", no_argument, NULL, FLAG_STANDALONE},
	{"socket", required_argument, NULL, FLAG_SOCKET},
	{"socket-group", required_argument, NULL, FLAG_SOCKET_GROUP},
	{"token-file", required_argument, NULL, FLAG_TOKEN_FILE},
	{"unauthenticated", no_argument, NULL, FLAG_UNAUTHENTICATED},
	{"config", required_argument, NULL, FLAG_CONFIG},
	{"mount-root", required_argument, NULL, FLAG_MOUNT_ROOT},
	{"log-level", required_argument, NULL, FLAG_LOG_LEVEL},
	{"log-format", required_argument, NULL, FLAG_LOG_FORMAT},
	{"check-config", no_argument, NULL, FLAG_CHECK_CONFIG},
	{"version", no_argument, NULL, FLAG_VERSION},
	{"help", no_argument, NULL, FLAG_HELP},
	{0},
};

static const char usage[] =
	"Usage: boxd [OPTION]...\n"
	"Runs commands and long-lived processes in sandboxes, for clients that speak RPC.\n"
	"\n"
	"  -s, --stdio-control      speak on stdin and stdout; end when stdin ends\n"
	"      --standalone-box     speak WebSocket only (the default; not with -s)\n"
	"      --host H             listen on this address or name, not on loopback alone: needs a\n"
	"                           token\n"
	"      --ws-control-port N  listen on this port (5410); 0 takes any that is free\n"
	"      --socket PATH        the operator's own Unix socket, or none (root:\n"
	"                           /run/box/box.sock; others: $XDG_RUNTIME_DIR/box/box.sock;\n"
	"                           with -s: none)\n"
	"      --socket-group GROUP let this group use it too: its members are operators then\n"
	"      --token-file FILE    the token of WebSocket clients, one or two lines of it;\n"
	"                           SIGHUP reads it again\n"
	"      --unauthenticated    let in every client that reaches the port, without a token\n"
	"      --config FILE        read the configuration from FILE; SIGHUP reads it again\n"
	"      --mount-root DIR     let boxes mount DIR and what is in it, beside host_root or\n"
	"                           allowed_mount_roots; / is anywhere; may be given again\n"
	"      --check-config       check the configuration, and exit\n"
	"      --log-level LEVEL    debug, info, warning or error (info)\n"
	"      --log-format FORMAT  text or json (text); the log goes to stderr\n"
	"      --version            print the version, and exit\n"
	"  -h, --help               print this, and exit\n"
	"\n"
	"Environment:\n"
	"  LANGBOT_BOX_CONTROL_TOKEN\n"
	"      the token of WebSocket clients (at least 32 characters); without it only root and\n"
	"      the user of boxd are let in, over loopback\n"
	"  CREDENTIALS_DIRECTORY\n"
	"      of systemd: its file box-token is a --token-file where neither is given\n"
	"  LANGBOT_BOX_UNAUTHENTICATED\n"
	"      1, true, yes or on: as --unauthenticated\n"
	"  LANGBOT_BOX_TRUSTED_INSTANCE_UUID\n"
	"      the one instance that is served; needed with -s\n"
	"  LANGBOT_BOX_CONFIG\n"
	"      configuration as JSON, which overrides that of --config\n"
	"  LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS\n"
	"      1, true, yes or on: shown in the readiness under admission\n"
	"\n"
	"Exit status: 0 after a stop, 1 when something failed, 2 for a wrong command line or an\n"
	"unreadable file, 78 for a wrong configuration.\n";

const char *box_options_usage(void)
{
	return usage;
}

static bool parse_port(const char *text, uint16_t *ret_port)
{
	size_t len = strspn(text, "0123456789");
	if (len == 0 || len > 5 || text[len] != '\0') {
		return false;
	}
	long port = strtol(text, NULL, 10);
	if (port > UINT16_MAX) {
		return false;
	}
	*ret_port = (uint16_t)port;
	return true;
}

static int wrong_value(struct box_err *err, const char *flag, const char *value, const char *why)
{
	return box_err_set(
		err, BOX_ERR_VALUE, EINVAL, "--%s: \"%.100s\" is not a valid %s", flag, value, why);
}

/* Reports an error for which getopt_long returned '?' or ':'. `optopt` is 0 for an unknown long flag. */
static int wrong_flag(struct box_err *err, int answer, char **argv)
{
	for (const struct option *flag = flags; flag->name; flag++) {
		if (optopt != 0 && flag->val == optopt) {
			return box_err_set(err, BOX_ERR_VALUE, EINVAL, "--%s: %s", flag->name,
				answer == ':' ? "needs a value" : "takes no value");
		}
	}
	if (optopt != 0) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "-%c: no such flag (see boxd --help)", optopt);
	}
	const char *text = argv[optind - 1];
	int len = (int)strnlen(text, 100);
	const char *equals = memchr(text, '=', (size_t)len);
	len = equals ? (int)(equals - text) : len;
	return box_err_set(
		err, BOX_ERR_VALUE, EINVAL, "%.*s: no such flag (see boxd --help)", len, text);
}

static int set_host(struct box_options *options, const char *value, struct box_err *err)
{
	size_t len = strlen(value);
	if (len == 0 || len > HOST_MAX) {
		return wrong_value(err, "host", value, "address or host name");
	}
	options->host = value;
	return 0;
}

static int set_path(const char **path, const char *flag, const char *value, struct box_err *err)
{
	size_t len = strlen(value);
	if (len == 0 || len >= BOX_PATH_MAX) {
		return wrong_value(err, flag, value, "path (1 to 4095 bytes)");
	}
	*path = value;
	return 0;
}

static int set_socket(struct box_options *options, const char *value, struct box_err *err)
{
	options->socket_none = strcmp(value, "none") == 0;
	options->socket_path = options->socket_none ? NULL : value;
	return options->socket_none || value[0] == '/'
		? 0
		: wrong_value(err, "socket", value, "path (absolute, or \"none\")");
}

static int set_socket_group(struct box_options *options, const char *value, struct box_err *err)
{
	options->socket_group = value;
	return value[0] != '\0' ? 0 : wrong_value(err, "socket-group", value, "group");
}

static int add_mount_root(struct box_options *options, const char *value, struct box_err *err)
{
	size_t len = strlen(value);
	if (len == 0 || len >= BOX_PATH_MAX) {
		return wrong_value(err, "mount-root", value, "path (1 to 4095 bytes)");
	}
	if (options->mount_root_count == BOX_MOUNT_ROOTS_MAX) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "--mount-root: at most %d times",
			BOX_MOUNT_ROOTS_MAX);
	}
	options->mount_roots[options->mount_root_count++] = value;
	return 0;
}

/* Stores one flag that getopt_long has accepted. */
static int apply(struct box_options *options, int flag, bool *standalone, struct box_err *err)
{
	switch (flag) {
	case FLAG_STDIO:
		options->stdio = true;
		return 0;
	case FLAG_HELP:
		options->help = true;
		return 0;
	case FLAG_VERSION:
		options->version = true;
		return 0;
	case FLAG_CHECK_CONFIG:
		options->check_config = true;
		return 0;
	case FLAG_STANDALONE:
		*standalone = true;
		return 0;
	case FLAG_HOST:
		return set_host(options, optarg, err);
	case FLAG_CONFIG:
		return set_path(&options->config_path, "config", optarg, err);
	case FLAG_TOKEN_FILE:
		return set_path(&options->token_path, "token-file", optarg, err);
	case FLAG_UNAUTHENTICATED:
		options->unauthenticated = true;
		return 0;
	case FLAG_SOCKET:
		return set_socket(options, optarg, err);
	case FLAG_SOCKET_GROUP:
		return set_socket_group(options, optarg, err);
	case FLAG_MOUNT_ROOT:
		return add_mount_root(options, optarg, err);
	case FLAG_PORT:
		return parse_port(optarg, &options->port)
			? 0
			: wrong_value(err, "ws-control-port", optarg, "port (0 to 65535)");
	case FLAG_LOG_LEVEL:
		return box_log_level_parse(optarg, &options->log_level) == 0
			? 0
			: wrong_value(
				  err, "log-level", optarg, "level (debug, info, warning, error)");
	case FLAG_LOG_FORMAT:
		return box_log_format_parse(optarg, &options->log_format) == 0
			? 0
			: wrong_value(err, "log-format", optarg, "format (text, json)");
	default:
		return -EINVAL;
	}
}

static int parse(int argc, char **argv, struct box_options *options, struct box_err *err)
{
	bool standalone = false;
	opterr = 0;
	optind = 0; /* GNU: start again */
	for (;;) {
		int flag = getopt_long(argc, argv, ":sh", flags, NULL);
		if (flag == -1) {
			break;
		}
		if (flag == '?' || flag == ':') {
			return wrong_flag(err, flag, argv);
		}
		int r = apply(options, flag, &standalone, err);
		if (r < 0) {
			return r;
		}
		if (options->help || options->version) {
			return 0;
		}
	}
	if (optind < argc) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"\"%.100s\": no argument is expected (see boxd --help)", argv[optind]);
	}
	if (standalone && options->stdio) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL,
			"--standalone-box: not together with --stdio-control");
	}
	if (options->socket_group &&
		(options->socket_none || (options->stdio && !options->socket_path))) {
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "--socket-group: there is no socket to share");
	}
	return 0;
}

int box_options_parse(int argc, char **argv, struct box_options *ret_options, struct box_err *err)
{
	struct box_options options = {
		.port = BOX_OPTIONS_PORT_DEFAULT,
		.log_level = BOX_LOG_INFO,
		.log_format = BOX_LOG_TEXT,
	};
	int r = parse(argc, argv, &options, err);
	if (r < 0) {
		/* Escapes the text, so that it stays one line whatever the arguments contained. */
		for (char *c = err->text; *c; c++) {
			*c = iscntrl((unsigned char)*c) ? '?' : *c;
		}
		return r;
	}
	*ret_options = options;
	return 0;
}
