/* What the operator said: the command line, the environment, the configuration texts.
 *
 * The command line is parsed here. The environment and the texts are bytes that boxd carries to
 * box-rpc and does not read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/log.h"
#include "runtime/keeper/proto.h"

#define BOX_PORT_DEFAULT 5410

struct box_options {
	bool help;
	bool version;
	bool stdio;
	bool check_config;
	const char *host; /* NULL: loopback only */
	uint16_t port;    /* 0: any that is free */
	const char *config_path;
	enum box_log_level log_level;
	enum box_log_format log_format;
};

/* 0, or -EINVAL with one line of text in err that names the flag and what is allowed. --help and
 * --version end the parsing. The strings of ret_options point into argv. */
int box_options_parse(int argc, char **argv, struct box_options *ret_options, struct box_err *err);

const char *box_options_usage(void);

/* What goes into every START. Big: let it be static. */
struct box_carried {
	struct box_keeper_start start; /* complete but for the flags of fds and `restarts` */
	const char *config_path;       /* NULL without --config */
	int file_copy;                 /* memfd of a --config that was a pipe, or -1 */
	int variable;                  /* memfd of LANGBOT_BOX_CONFIG, or -1 */
};

/* Takes the environment and tries the --config file; the token is wiped from the environment.
 * Negative with the text of the error when the file cannot be used or something is too long. */
int box_options_carry(
	const struct box_options *options, struct box_carried *ret_carried, struct box_err *err);

#define BOX_START_FDS_MAX 3

/* Sets the flags of `start` for the fds that go with it, and lists those in their order: file,
 * variable, state. Those that are -1 are left out. Returns how many there are. */
size_t box_options_fill_start(
	struct box_carried *carried, int config_fd, int state_fd, int ret_fds[BOX_START_FDS_MAX]);

/* A new fd at the start of the --config text, for START and RELOAD; -ENOENT without --config. */
int box_options_open_config(const struct box_carried *carried, int *ret_fd, struct box_err *err);
