/* box cp: what both directions share. */
#pragma once

#include "cli/cli.h"
#include "cli/copy/copy_rules.h"
#include "cli/copy/transfer.h"

struct box_copy {
	const struct cli *cli;
	struct box_client *client;
	const struct box_value *identity; /* the spec of the box, without a command */
	const char *session;
	struct box_copy_rules_end box;  /* the end in the box */
	struct box_copy_rules_end host; /* the end on the host; "-" is stdin or stdout */
	bool box_link;                  /* the path in the box is a link */
	bool has_tar;
	bool has_gnu_tar;
	bool has_stat; /* the next three are valid */
	unsigned mode;
	int64_t size;
	int64_t mtime;
	uint64_t done; /* bytes */
	int64_t total; /* -1: not known */
	uint64_t begun_ms;
	bool shows; /* the progress */
};

/* Finds out what is at the path in the box, and which programs the box has. Prints the reason when it fails. */
int box_copy_probe(struct box_copy *copy);

/* The spec of a command in the box. */
int box_copy_command(struct box_copy *copy, const char *const *words, size_t count,
	struct box_value *ret_spec, struct box_err *err);
/* Runs a clean-up command in the box for at most a few seconds, even after a signal. */
void box_copy_tidy(struct box_copy *copy, const char *const *words, size_t count);

/* Runs the transfer, shows the progress, and gives the exit code. Prints the reason when it is not 0, unless the
 * transfer's own flush has cancelled it. */
int box_copy_run(struct box_copy *copy, struct box_transfer *transfer);

void box_copy_report(void *arg, const char *line);

int box_copy_in(struct box_copy *copy);
int box_copy_out(struct box_copy *copy);
