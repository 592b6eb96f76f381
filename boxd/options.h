/* boxd's command line. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/limits.h"
#include "base/log.h"

#define BOX_OPTIONS_PORT_DEFAULT 5410

struct box_options {
	bool help;
	bool version;
	bool stdio;
	bool check_config;
	const char *host; /* NULL: loopback only */
	uint16_t port;    /* 0: any that is free */
	const char *config_path;
	const char *socket_path; /* NULL: this user's default path, except with -s */
	bool socket_none;        /* --socket none */
	const char *socket_group;
	const char *token_path;
	bool unauthenticated;
	const char *mount_roots[BOX_MOUNT_ROOTS_MAX];
	size_t mount_root_count;
	enum box_log_level log_level;
	enum box_log_format log_format;
};

/* 0, or -EINVAL with one line of text in err that names the flag and what is allowed. --help and
 * --version end the parsing. The strings of ret_options point into argv. */
int box_options_parse(int argc, char **argv, struct box_options *ret_options, struct box_err *err);

const char *box_options_usage(void);
