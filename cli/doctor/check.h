/* The checks of `box doctor`: each tests one thing that boxes need, and reports the result. */
#pragma once

#include <stdbool.h>

struct cli;

enum box_check_state {
	BOX_CHECK_OK,
	BOX_CHECK_LIMITED, /* boxes can be created, with a restriction */
	BOX_CHECK_MISSING,
};

#define BOX_CHECK_TEXT_SIZE 1024

/* Fixed-size: it comes out of a child through a pipe. */
struct box_check {
	enum box_check_state state;
	char text[BOX_CHECK_TEXT_SIZE];
	char cure[BOX_CHECK_TEXT_SIZE]; /* how to fix it; "" when there is nothing to do */
};

/* What checks may depend on. */
struct box_check_setup {
	const struct cli *cli;
	const char *folder; /* of the host, for checks of a folder */
	bool boxes;         /* no box has failed so far */
};

void box_check_report(struct box_check *check, enum box_check_state state, const char *cure,
	const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Each runs in a process of its own, and may enter namespaces, hang or crash. */
typedef void box_check_run(const struct box_check_setup *setup, struct box_check *check);

/* The kernel: check_confinement.c, check_mounts.c. */
box_check_run box_check_userns;
box_check_run box_check_namespaces;
box_check_run box_check_ids;
box_check_run box_check_landlock;
box_check_run box_check_seccomp;
box_check_run box_check_mounts;
box_check_run box_check_tmpfs;
box_check_run box_check_proc;
box_check_run box_check_overlay;
box_check_run box_check_owners;
/* The host: check_host.c. */
box_check_run box_check_cgroups;
box_check_run box_check_resources;
box_check_run box_check_quotas;
box_check_run box_check_network;
box_check_run box_check_port;
box_check_run box_check_programs;
/* MicroVMs: check_microvm.c. */
box_check_run box_check_microvms;
/* A running boxd: cli_status.c. */
box_check_run box_check_runtime;
/* Everything together: check_box.c. */
box_check_run box_check_box;
box_check_run box_check_interpreters;
