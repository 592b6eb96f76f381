/* The command line of `box`: argv in, a struct or one line of error out. The options that several verbs
 * have are here, with their help texts; those of one verb are in its own file. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_arena;

struct box_cli_words {
	const char **items;
	size_t count;
};

/* The values of all options of all verbs. */
struct box_cli_options {
	bool help;
	bool version;
	bool verbose;
	bool json;
	bool writable_root;
	bool interactive;
	bool tty;
	bool follow;
	bool all;
	bool yes;
	bool dry_run;
	bool quiet;
	bool replace;
	bool no_network;
	bool force;
	const char *name; /* of a box */
	const char *memory;
	const char *max_duration;
	const char *idle_timeout;
	const char *format;
	const char *process; /* its id */
	const char *skill;
	const char *folder_name; /* of an installed skill */
	const char *suffix;      /* of that name */
	const char *endpoint;
	const char *config;
	const char *instance;
	const char *workspace;
	int64_t generation; /* of a box that was named with its workspace; there is no option for it */
	const char *network;
	const char *backend;
	const char *workdir;
	int64_t memory_mb; /* these are 0 when not given */
	int64_t pids;
	int64_t timeout_sec;
	double cpus;
	struct box_cli_words allow;      /* addresses that a box may reach */
	struct box_cli_words host_ports; /* ports of the host that it may reach */
	struct box_cli_words mounts;
	struct box_cli_words env;
	struct box_cli_words volumes;
	struct box_cli_words from;  /* which folders of an archive */
	struct box_cli_words words; /* arguments that are not options */
};

enum box_cli_option_kind {
	BOX_CLI_FLAG,
	BOX_CLI_TEXT,
	BOX_CLI_WORDS,
	BOX_CLI_COUNT,
	BOX_CLI_REAL,
	BOX_CLI_ON_OFF,
};

struct box_cli_option {
	const char *name; /* with its dashes; NULL ends a group */
	char letter;      /* of the short form; 0: none */
	enum box_cli_option_kind kind;
	size_t offset; /* of the member of struct box_cli_options */
};

/* A group of options is an array of these that ends with {0}. */
#define BOX_CLI_OPTION(NAME, LETTER, KIND, MEMBER)                                     \
	{                                                                              \
		NAME, LETTER, BOX_CLI_##KIND, offsetof(struct box_cli_options, MEMBER) \
	}

#define BOX_CLI_GROUPS_MAX 8

/* --- groups that several verbs have --- */

/* Of every verb, and before it. */
extern const struct box_cli_option box_cli_options_common[];
#define BOX_CLI_COMMON_USAGE                                                           \
	"      --endpoint URL     the runtime, ws://HOST[:PORT] or unix:/PATH\n"       \
	"                         (default: $BOX_ENDPOINT, else the operator's\n"      \
	"                         Unix socket, else\n"                                 \
	"                         127.0.0.1:5410; run starts a boxd of its own)\n"     \
	"      --instance ID      instance id of the runtime (default:\n"              \
	"                         $LANGBOT_BOX_TRUSTED_INSTANCE_UUID, else \"box\")\n" \
	"      --workspace ID     workspace of the boxes (default: \"box\")\n"         \
	"  -v, --verbose          show the log of a boxd that box starts\n"            \
	"  -h, --help             print this help and exit\n"
/* For verbs that need no runtime. */
#define BOX_CLI_LOCAL_USAGE                            \
	"  -v, --verbose          show log messages\n" \
	"  -h, --help             print this help and exit\n"

/* Before the verb only. */
extern const struct box_cli_option box_cli_options_top[];

/* Limits and network of a box. */
extern const struct box_cli_option box_cli_options_spec[];
#define BOX_CLI_SPEC_USAGE                                                               \
	"      --network on|off   network access (default: off)\n"                       \
	"      --allow CIDR[:PORT]\n"                                                    \
	"                         allow only these addresses; repeatable, implies\n"     \
	"                         --network on\n"                                        \
	"      --host-port PORT   allow this TCP port at the box's own address on the\n" \
	"                         host; repeatable, implies --network on\n"              \
	"      --memory MB        memory limit (default: 512)\n"                         \
	"      --cpus N           CPU limit, such as 0.5 (default: 1)\n"                 \
	"      --pids N           limit of processes (default: 128)\n"                   \
	"      --writable-root    make the root file system writable\n"

extern const struct box_cli_option box_cli_options_backend[];
#define BOX_CLI_BACKEND_USAGE "      --backend NAME     native (namespaces), or krun (a microVM)\n"

/* Of one command in a box. */
extern const struct box_cli_option box_cli_options_command[];
#define BOX_CLI_COMMAND_USAGE                                                            \
	"      --timeout SEC      stop the command after this time and exit with 124;\n" \
	"                         a box of box create is kept (default: no timeout)\n"   \
	"      --mount HOST:BOX[:ro|rw]\n"                                               \
	"                         mount a host folder for this command; repeatable\n"    \
	"                         (default: rw)\n"                                       \
	"      --workdir PATH     working directory (default: /workspace)\n"             \
	"      --env NAME[=VALUE] set an environment variable, or pass on the one of\n"  \
	"                         this shell; repeatable\n"                              \
	"  -i, --interactive      with -t: send what is typed to the command\n"          \
	"  -t, --tty              allocate a terminal for the command\n"

/* Which skill a command sees. */
extern const struct box_cli_option box_cli_options_skill[];
#define BOX_CLI_SKILL_USAGE                                                         \
	"      --skill NAME       mount a skill of the runtime, read-only, under\n" \
	"                         .skills/NAME\n"

/* Of a boxd that box starts, or of the service. */
extern const struct box_cli_option box_cli_options_config[];
#define BOX_CLI_CONFIG_USAGE                                                               \
	"      --config FILE      configuration of the bot platform or of boxd, for the\n" \
	"                         operator's settings (default: $LANGBOT_BOX_CONFIG)\n"

extern const struct box_cli_option box_cli_options_json[];
extern const struct box_cli_option box_cli_options_all[];
#define BOX_CLI_ALL_USAGE \
	"  -a, --all              of all workspaces, as WORKSPACE/BOX (operator only)\n"

/* --- reading --- */

/* Reads options of the groups, a list that ends with NULL, from argv[*at] on, up to the first word that
 * is not an option; *at is that word's index then. */
int box_cli_options_read(struct box_arena *arena, int argc, char **argv, int *at,
	const struct box_cli_option *const *groups, struct box_cli_options *options,
	struct box_err *err);

/* Reads everything: options and other words. After `plain_words` words the next one begins a command, and
 * all that follows belongs to the command. `--` ends the options. */
int box_cli_options_read_all(struct box_arena *arena, int argc, char **argv, int *at,
	const struct box_cli_option *const *groups, size_t plain_words,
	struct box_cli_options *options, struct box_err *err);

/* The name that is most similar to a misspelt one, or NULL when none is similar. */
const char *box_cli_options_nearest(const char *word, const char *const *names, size_t count);
