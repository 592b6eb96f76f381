/* The command line of `box`: argv in, a struct or one line of error out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_arena;

/* Which options a command takes. */
enum {
	CLI_COMMON = 1,  /* every command, and before it */
	CLI_SPEC = 2,    /* what a box is like */
	CLI_COMMAND = 4, /* what a command is like */
	CLI_LIST = 8,
	CLI_TOP = 16,     /* before the command only */
	CLI_START = 32,   /* what a boxd that is started is like, or the service */
	CLI_PROCESS = 64, /* what a managed process is like */
	CLI_FOLLOW = 128,
	CLI_SKILL = 256,     /* which skill a command sees */
	CLI_SKILL_ADD = 512, /* how a skill is installed */
	CLI_HIDDEN = 1024,
	CLI_SURE = 2048,
	CLI_MSB = 4096, /* every command of msb; the others are not its own */
	CLI_MSB_CREATE = 8192,
	CLI_MSB_EXEC = 16384,
	CLI_MSB_END = 32768,
	CLI_MSB_LIST = 65536,
	CLI_KIND = 131072, /* which kind of box */
	CLI_ALL = 262144,  /* of all workspaces */
};

struct cli_words {
	const char **items;
	size_t count;
};

struct cli_options {
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
	int64_t generation; /* of a box that was named with its workspace; no option says it */
	const char *network;
	const char *backend;
	const char *workdir;
	int64_t memory_mb; /* these are 0 when not given */
	int64_t pids;
	int64_t timeout_sec;
	double cpus;
	struct cli_words allow;      /* what a box may reach */
	struct cli_words host_ports; /* and of the host */
	struct cli_words mounts;
	struct cli_words env;
	struct cli_words volumes;
	struct cli_words from;  /* which folders of an archive */
	struct cli_words words; /* what is no option */
};

/* Reads options of `sets` from argv[*at] on, up to the first word that is none; *at is left
 * there. */
int box_cli_parse_options(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	struct cli_options *options, struct box_err *err);

/* Reads all: options, and words that are none. Once `plain_words` of these are there, the next
 * begins a command, and all that follows is its own. `--` ends the options. */
int box_cli_parse(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	size_t plain_words, struct cli_options *options, struct box_err *err);

/* The nearest of the names to a misspelt one, or NULL when none is near. */
const char *box_cli_nearest(const char *word, const char *const *names, size_t count);
