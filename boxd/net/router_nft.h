/* The program nft, run inside of a router. */
#pragma once

#include "base/err.h"

struct box_router;

/* Its path, or NULL. */
const char *box_router_nft_path(void);

/* Runs the commands that are in a file of ours. The text is what nft printed, to be freed. */
int box_router_run_nft(
	const struct box_router *router, int input, char **ret_text, struct box_err *err);
