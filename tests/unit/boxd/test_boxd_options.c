/* boxd's command line as a table, and what it takes from the environment and from files. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/macros.h"
#include "boxd/rpc/start_data.h"
#include "tests/unit/lib/test.h"

#define ARGS_MAX 8

/* The options point into these copies until the next call. */
static char texts[ARGS_MAX + 1][BOX_PATH_MAX + 1];

static char *copied(int place, const char *text)
{
	size_t len = strlen(text);
	ASSERT(place <= ARGS_MAX && len <= BOX_PATH_MAX);
	memcpy(texts[place], text, len + 1);
	return texts[place];
}

static int parse(const char *const *args, struct box_options *options, struct box_err *err)
{
	char *argv[ARGS_MAX + 2] = {copied(0, "boxd")};
	int argc = 1;
	for (; args[argc - 1]; argc++) {
		argv[argc] = copied(argc, args[argc - 1]);
	}
	return box_options_parse(argc, argv, options, err);
}

TEST(defaults)
{
	const char *args[] = {NULL};
	struct box_options options;
	struct box_err err;
	ASSERT_INT(parse(args, &options, &err), 0);
	ASSERT(!options.help && !options.version && !options.stdio && !options.check_config);
	ASSERT(options.host == NULL);
	ASSERT(options.config_path == NULL);
	ASSERT(options.socket_path == NULL && !options.socket_none && !options.socket_group);
	ASSERT_INT(options.port, 5410);
	ASSERT_INT(options.log_level, BOX_LOG_INFO);
	ASSERT_INT(options.log_format, BOX_LOG_TEXT);
}

TEST(every_flag)
{
	const char *args[] = {"-s", "--host=::1", "--ws-control-port=0", "--config=/x y",
		"--log-level=debug", "--log-format=json", "--check-config", NULL};
	struct box_options options;
	struct box_err err;
	ASSERT_INT(parse(args, &options, &err), 0);
	ASSERT(options.stdio);
	ASSERT(options.check_config);
	ASSERT_STR(options.host, "::1");
	ASSERT_STR(options.config_path, "/x y");
	ASSERT_INT(options.port, 0);
	ASSERT_INT(options.log_level, BOX_LOG_DEBUG);
	ASSERT_INT(options.log_format, BOX_LOG_JSON);
}

TEST(other_spellings)
{
	struct box_options options;
	struct box_err err;
	const char *separate[] = {"--ws-control-port", "65535", "--standalone-box", NULL};
	ASSERT_INT(parse(separate, &options, &err), 0);
	ASSERT_INT(options.port, 65535);
	const char *long_stdio[] = {"--stdio-control", NULL};
	ASSERT_INT(parse(long_stdio, &options, &err), 0);
	ASSERT(options.stdio);
	const char *last_wins[] = {"--log-level=debug", "--log-level=error", NULL};
	ASSERT_INT(parse(last_wins, &options, &err), 0);
	ASSERT_INT(options.log_level, BOX_LOG_ERROR);
	const char *dashes[] = {"-s", "--", NULL};
	ASSERT_INT(parse(dashes, &options, &err), 0);
}

TEST(help_and_version_end_the_parsing)
{
	struct box_options options;
	struct box_err err;
	const char *help[] = {"-h", "--bogus", NULL};
	ASSERT_INT(parse(help, &options, &err), 0);
	ASSERT(options.help && !options.version);
	const char *version[] = {"--version", "stray", NULL};
	ASSERT_INT(parse(version, &options, &err), 0);
	ASSERT(options.version && !options.help);
	ASSERT(strstr(box_options_usage(), "LANGBOT_BOX_CONTROL_TOKEN"));
}

TEST(wrong_command_lines)
{
	static const struct {
		const char *args[4];
		const char *text;
	} table[] = {
		{{"--ws-control-port", "70000"},
			"--ws-control-port: \"70000\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port", "65536"},
			"--ws-control-port: \"65536\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port="},
			"--ws-control-port: \"\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port=-1"},
			"--ws-control-port: \"-1\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port=+1"},
			"--ws-control-port: \"+1\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port= 1"},
			"--ws-control-port: \" 1\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port=1x"},
			"--ws-control-port: \"1x\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port=0x50"},
			"--ws-control-port: \"0x50\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port=000080"},
			"--ws-control-port: \"000080\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port=18446744073709551617"},
			"--ws-control-port: \"18446744073709551617\" is not a valid port (0 to 65535)"},
		{{"--ws-control-port"}, "--ws-control-port: needs a value"},
		{{"--host="}, "--host: \"\" is not a valid address or host name"},
		{{"--host"}, "--host: needs a value"},
		{{"--config="}, "--config: \"\" is not a valid path (1 to 4095 bytes)"},
		{{"--log-level", "loud"},
			"--log-level: \"loud\" is not a valid level (debug, info, warning, error)"},
		{{"--log-level=INFO"},
			"--log-level: \"INFO\" is not a valid level (debug, info, warning, error)"},
		{{"--log-format", "xml"},
			"--log-format: \"xml\" is not a valid format (text, json)"},
		{{"--log-format", "a\nb"},
			"--log-format: \"a?b\" is not a valid format (text, json)"},
		{{"--bogus"}, "--bogus: no such flag (see boxd --help)"},
		{{"--bogus=3"}, "--bogus: no such flag (see boxd --help)"},
		{{"-x"}, "-x: no such flag (see boxd --help)"},
		{{"--check-config", "-xs"}, "-x: no such flag (see boxd --help)"},
		{{"--stdio-control=yes"}, "--stdio-control: takes no value"},
		{{"--version=2"}, "--version: takes no value"},
		{{"serve"}, "\"serve\": no argument is expected (see boxd --help)"},
		{{"-s", "--", "-s"}, "\"-s\": no argument is expected (see boxd --help)"},
		{{"-s", "--standalone-box"}, "--standalone-box: not together with --stdio-control"},
		{{"--standalone-box", "-s"}, "--standalone-box: not together with --stdio-control"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		struct box_options options = {.port = 7};
		struct box_err err;
		ASSERT_INT(parse(table[i].args, &options, &err), -EINVAL);
		ASSERT_STR(err.text, table[i].text);
		ASSERT_INT(options.port, 7);
	}
}

TEST(sockets)
{
	static const struct {
		const char *args[4];
		const char *path;
		bool none;
		int result;
	} rows[] = {
		{{"--socket=/x"}, "/x", false, 0},
		{{"--socket=none"}, NULL, true, 0},
		{{"--socket", "none", "--socket=/x"}, "/x", false, 0},
		{{"--socket="}, NULL, false, -EINVAL},
		{{"--socket=x"}, NULL, false, -EINVAL},
		{{"--socket-group=g"}, NULL, false, 0},
		{{"--socket-group="}, NULL, false, -EINVAL},
		{{"--socket-group=g", "--socket=none"}, NULL, false, -EINVAL},
		{{"-s", "--socket-group=g"}, NULL, false, -EINVAL},
		{{"-s", "--socket-group=g", "--socket=/x"}, "/x", false, 0},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_options options;
		struct box_err err;
		ASSERT_INT(parse(rows[i].args, &options, &err), rows[i].result);
		if (rows[i].result == 0) {
			ASSERT_INT(options.socket_none, rows[i].none);
			ASSERT_STR(options.socket_path ? options.socket_path : "",
				rows[i].path ? rows[i].path : "");
		}
	}
}

TEST(lengths)
{
	struct box_options options;
	struct box_err err;
	char text[BOX_PATH_MAX + 1];
	memset(text, 'a', sizeof(text));
	text[BOX_PATH_MAX] = '\0';
	const char *config[] = {"--config", text, NULL};
	ASSERT_INT(parse(config, &options, &err), -EINVAL);
	text[BOX_PATH_MAX - 1] = '\0';
	ASSERT_INT(parse(config, &options, &err), 0);
	const char *host[] = {"--host", text, NULL};
	text[256] = '\0';
	ASSERT_INT(parse(host, &options, &err), -EINVAL);
	text[255] = '\0';
	ASSERT_INT(parse(host, &options, &err), 0);
}

static struct box_start_data carried;

static void assert_text(int fd, const char *expected)
{
	char text[256];
	ssize_t len = read(fd, text, sizeof(text));
	ASSERT_BYTES(text, len, expected, strlen(expected));
}

TEST(environment)
{
	struct box_options options = {.stdio = true, .host = "::", .log_level = BOX_LOG_ERROR};
	struct box_err err;
	ASSERT_INT(setenv("LANGBOT_BOX_CONTROL_TOKEN", "a secret", 1), 0);
	ASSERT_INT(setenv("LANGBOT_BOX_TRUSTED_INSTANCE_UUID", "an instance", 1), 0);
	ASSERT_INT(setenv("LANGBOT_BOX_CONFIG", "{not json", 1), 0);
	const char *in_place = getenv("LANGBOT_BOX_CONTROL_TOKEN");
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	ASSERT_INT(carried.start.kind, BOX_BOXD_START);
	ASSERT_INT(carried.start.flags, BOX_BOXD_START_STDIO | BOX_BOXD_START_EXPLICIT_HOST);
	ASSERT_INT(carried.start.log_level, BOX_LOG_ERROR);
	ASSERT_STR(carried.start.token, "a secret");
	ASSERT_STR(carried.start.instance, "an instance");
	ASSERT(getenv("LANGBOT_BOX_CONTROL_TOKEN") == NULL);
	ASSERT(in_place != NULL);
	ASSERT_BYTES(in_place, 8, "\0\0\0\0\0\0\0\0", 8);
	assert_text(carried.variable, "{not json");
	ASSERT_INT(fcntl(carried.variable, F_GET_SEALS),
		F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
	ASSERT_INT(carried.accepted, -1);
}

TEST(start_lists_the_fds_that_are_there)
{
	struct box_options options = {.check_config = true};
	struct box_err err;
	int fds[BOX_START_DATA_FDS_MAX];
	ASSERT_INT(unsetenv("LANGBOT_BOX_CONFIG"), 0);
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	ASSERT_INT(box_start_data_fill(&carried, 9, fds), 1);
	ASSERT_INT(fds[0], 9);
	ASSERT_INT(carried.start.flags, BOX_BOXD_START_CHECK_CONFIG | BOX_BOXD_START_HAS_STATE);
	carried.variable = 8;
	carried.accepted = 7;
	ASSERT_INT(box_start_data_fill(&carried, 9, fds), 3);
	ASSERT_INT(fds[0], 7);
	ASSERT_INT(fds[1], 8);
	ASSERT_INT(fds[2], 9);
	ASSERT_INT(box_start_data_fill(&carried, -1, fds), 2);
	ASSERT_INT(carried.start.flags,
		BOX_BOXD_START_CHECK_CONFIG | BOX_BOXD_START_HAS_FILE |
			BOX_BOXD_START_HAS_VARIABLE);
}

static void write_tokens(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, text, len), len);
	(void)close(fd);
}

/* Whatever box-rpc claims to have taken. */
TEST(tokens_that_were_not_offered_are_not_taken)
{
	static const char good[] = "0123456789abcdef0123456789abcdef\n";
	static char path[] = "/tmp/box-tokens-XXXXXX";
	struct box_options options = {.token_path = path};
	struct box_err err;
	int fd = mkstemp(path);
	ASSERT(fd >= 0);
	(void)close(fd);
	ASSERT_INT(unsetenv("LANGBOT_BOX_CONFIG"), 0);
	ASSERT_INT(unsetenv("LANGBOT_BOX_CONTROL_TOKEN"), 0);
	write_tokens(path, good, sizeof(good) - 1);
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	ASSERT_STR(carried.start.token, good);
	write_tokens(path, "with a NUL\0", 11);
	ASSERT(box_start_data_reread_tokens(&carried, &err) < 0);
	box_start_data_tokens_accepted(&carried);
	ASSERT_STR(carried.start.token, good);
	/* The answer to an offer may arrive when the next file could not be read. */
	write_tokens(path, "other", 5);
	ASSERT_INT(box_start_data_reread_tokens(&carried, &err), 0);
	ASSERT_INT(unlink(path), 0);
	ASSERT(box_start_data_reread_tokens(&carried, &err) < 0);
	box_start_data_tokens_accepted(&carried);
	ASSERT_STR(carried.start.token, "other");
}

TEST(long_variables)
{
	struct box_options options = {0};
	struct box_err err;
	static char text[BOX_CONFIG_BYTES_MAX + 2];
	memset(text, 't', BOX_CONFIG_BYTES_MAX + 1);
	ASSERT_INT(setenv("LANGBOT_BOX_CONTROL_TOKEN", text, 1), 0);
	ASSERT_INT(setenv("LANGBOT_BOX_TRUSTED_INSTANCE_UUID", text, 1), 0);
	ASSERT_INT(setenv("LANGBOT_BOX_CONFIG", text, 1), 0);
	ASSERT_INT(box_start_data_load(&options, &carried, &err), -E2BIG);
	ASSERT_STR(err.text, "LANGBOT_BOX_CONFIG: longer than 1048576 bytes");
	ASSERT_INT(strlen(carried.start.token), BOX_TOKEN_MAX + 1);
	ASSERT_INT(strlen(carried.start.instance), sizeof(carried.start.instance) - 1);
	ASSERT(getenv("LANGBOT_BOX_CONTROL_TOKEN") == NULL);
	text[BOX_CONFIG_BYTES_MAX] = '\0';
	ASSERT_INT(setenv("LANGBOT_BOX_CONFIG", text, 1), 0);
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	ASSERT_INT(carried.start.token[0], '\0');
	ASSERT_INT(lseek(carried.variable, 0, SEEK_END), BOX_CONFIG_BYTES_MAX);
}

TEST(soft_storage)
{
	static const struct {
		const char *value;
		bool set;
	} table[] = {{"1", true}, {"true", true}, {" YES\n", true}, {"On", true}, {"", false},
		{"0", false}, {"no", false}, {"11", false}, {"tru", false}};
	struct box_options options = {0};
	struct box_err err;
	for (size_t i = 0; i < COUNT(table); i++) {
		const char *name = "LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS";
		ASSERT_INT(setenv(name, table[i].value, 1), 0);
		ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
		ASSERT_INT(carried.start.flags, table[i].set ? BOX_BOXD_START_SOFT_STORAGE : 0);
	}
}

TEST(config_files)
{
	char folder[] = "/tmp/boxd-options-XXXXXX";
	ASSERT(mkdtemp(folder) != NULL);
	ASSERT_INT(chdir(folder), 0);
	FILE *file = fopen("good", "we");
	ASSERT(file && fputs("a: 1", file) >= 0 && fclose(file) == 0);
	struct box_options options = {.config_path = "good"};
	struct box_err err;
	int fd = -1;
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	ASSERT_STR(carried.start.config_path, "good");
	assert_text(carried.accepted, "a: 1");
	ASSERT_INT(fcntl(carried.accepted, F_GETFD), FD_CLOEXEC);

	/* A successor does not get a text that was only offered. */
	file = fopen("good", "we");
	ASSERT(file && fputs("a: 2", file) >= 0 && fclose(file) == 0);
	ASSERT_INT(box_start_data_reread_config(&carried, &fd, &err), 0);
	assert_text(fd, "a: 2");
	ASSERT_INT(lseek(carried.accepted, 0, SEEK_SET), 0);
	assert_text(carried.accepted, "a: 1");
	box_start_data_config_accepted(&carried);
	ASSERT_INT(lseek(carried.accepted, 0, SEEK_SET), 0);
	assert_text(carried.accepted, "a: 2");
	box_start_data_config_accepted(&carried);
	ASSERT(carried.accepted >= 0);

	/* A FIFO in place of the file does not block. */
	ASSERT_INT(unlink("good"), 0);
	ASSERT_INT(mkfifo("good", 0600), 0);
	ASSERT_INT(box_start_data_reread_config(&carried, &fd, &err), -EINVAL);
	ASSERT_STR(err.text, "--config: good: a pipe cannot be read again");
	options.config_path = "none";
	ASSERT_INT(box_start_data_load(&options, &carried, &err), -ENOENT);
	ASSERT_STR(err.text, "--config: none: No such file or directory");
	options.config_path = "/dev/null";
	ASSERT_INT(box_start_data_load(&options, &carried, &err), -EINVAL);
	ASSERT_STR(err.text, "--config: /dev/null: neither a regular file nor a pipe");
	options.config_path = NULL;
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	ASSERT_INT(box_start_data_reread_config(&carried, &fd, &err), -ENOENT);
	ASSERT_INT(unlink("good"), 0);
	ASSERT_INT(rmdir(folder), 0);
}

TEST(config_from_a_pipe)
{
	int ends[2];
	char path[64];
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	(void)snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	ASSERT_INT(write(ends[1], "b: 2", 4), 4);
	ASSERT_INT(close(ends[1]), 0);
	struct box_options options = {.config_path = path};
	struct box_err err;
	ASSERT_INT(box_start_data_load(&options, &carried, &err), 0);
	assert_text(carried.accepted, "b: 2");
	int fd = -1;
	ASSERT_INT(box_start_data_reread_config(&carried, &fd, &err), -EINVAL);
}

TEST(config_from_an_endless_pipe)
{
	int ends[2];
	char path[64];
	static char chunk[65536];
	ASSERT_INT(pipe2(ends, O_CLOEXEC), 0);
	(void)snprintf(path, sizeof(path), "/dev/fd/%d", ends[0]);
	pid_t writer = fork();
	if (writer == 0) {
		(void)close(ends[0]);
		while (write(ends[1], chunk, sizeof(chunk)) > 0) {
		}
		_exit(0);
	}
	(void)close(ends[1]);
	struct box_options options = {.config_path = path};
	struct box_err err;
	ASSERT_INT(box_start_data_load(&options, &carried, &err), -EFBIG);
	ASSERT(strstr(err.text, "File too large"));
	(void)kill(writer, SIGKILL);
	(void)waitpid(writer, NULL, 0);
}

/* Children of boxd are copies of it until they exec. */
TEST(children_do_not_have_the_token)
{
	struct box_options options = {0};
	struct box_err err;
	struct box_start_data *own = box_start_data_new();
	ASSERT(own);
	ASSERT_INT(setenv("LANGBOT_BOX_CONTROL_TOKEN", "secret", 1), 0);
	ASSERT_INT(box_start_data_load(&options, own, &err), 0);
	ASSERT_STR(own->start.token, "secret");
	pid_t pid = fork();
	if (pid == 0) {
		bool empty = own->start.kind == 0;
		for (size_t i = 0; i < sizeof(own->start.token); i++) {
			empty = empty && own->start.token[i] == '\0';
		}
		_exit(empty ? 0 : 1);
	}
	int status = -1;
	ASSERT_INT(waitpid(pid, &status, 0), pid);
	ASSERT_INT(status, 0);
	ASSERT_STR(own->start.token, "secret");
}
