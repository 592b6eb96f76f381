/* Which backend a configured name selects, and the reason if it selects none. Called by runtime.c. */
#pragma once

#include <stdbool.h>

struct box_backend;
struct box_local;
struct uv_loop_s;

struct box_backend_choice {
	struct box_backend *backend; /* freed by the caller, or NULL */
	const char *name;            /* its name for clients; static */
	const char *missing;         /* why there is none; remains valid */
	bool unknown;                /* no backend has this name */
};

/* All names that select a backend, for error texts. */
#define BOX_BACKEND_SELECT_NAMES "local, native, nsjail, krun, libkrun, microvm"

/* Whether a backend has this name, even if it cannot be used on this host. "" is known. */
bool box_backend_select_is_known(const char *name);

/* `name` is the configured name; "": the best backend that works here. `local` may be NULL. */
struct box_backend_choice box_backend_select(
	const char *name, struct uv_loop_s *loop, struct box_local *local);
