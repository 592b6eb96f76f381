/* The command line of `box`: argv in, a struct or one line of error out. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_arena;

/* Which options a command takes. */
enum {
	BOX_CLI_COMMON = 1,  /* every command, and before it */
	BOX_CLI_SPEC = 2,    /* what a box is like */
	BOX_CLI_COMMAND = 4, /* what a command is like */
	BOX_CLI_LIST = 8,
	BOX_CLI_TOP = 16,     /* before the command only */
	BOX_CLI_START = 32,   /* what a boxd that is started is like, or the service */
	BOX_CLI_PROCESS = 64, /* what a managed process is like */
	BOX_CLI_FOLLOW = 128,
	BOX_CLI_SKILL = 256,     /* which skill a command sees */
	BOX_CLI_SKILL_ADD = 512, /* how a skill is installed */
	BOX_CLI_HIDDEN = 1024,
	BOX_CLI_SURE = 2048,
	BOX_CLI_MSB = 4096, /* every command of msb; the others are not its own */
	BOX_CLI_MSB_CREATE = 8192,
	BOX_CLI_MSB_EXEC = 16384,
	BOX_CLI_MSB_END = 32768,
	BOX_CLI_MSB_LIST = 65536,
	BOX_CLI_KIND = 131072, /* which kind of box */
	BOX_CLI_ALL = 262144,  /* of all workspaces */
};

struct box_cli_words {
	const char **items;
	size_t count;
};

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
	int64_t generation; /* of a box that was named with its workspace; no option says it */
	const char *network;
	const char *backend;
	const char *workdir;
	int64_t memory_mb; /* these are 0 when not given */
	int64_t pids;
	int64_t timeout_sec;
	double cpus;
	struct box_cli_words allow;      /* what a box may reach */
	struct box_cli_words host_ports; /* and of the host */
	struct box_cli_words mounts;
	struct box_cli_words env;
	struct box_cli_words volumes;
	struct box_cli_words from;  /* which folders of an archive */
	struct box_cli_words words; /* what is no option */
};

/* Reads options of `sets` from argv[*at] on, up to the first word that is none; *at is left
 * there. */
int box_cli_options_read(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	struct box_cli_options *options, struct box_err *err);

/* Reads all: options, and words that are none. Once `plain_words` of these are there, the next
 * begins a command, and all that follows is its own. `--` ends the options. */
int box_cli_options_read_all(struct box_arena *arena, int argc, char **argv, int *at, unsigned sets,
	size_t plain_words, struct box_cli_options *options, struct box_err *err);

/* The nearest of the names to a misspelt one, or NULL when none is near. */
const char *box_cli_options_nearest(const char *word, const char *const *names, size_t count);
