/* Which backend a configured name means, and why there is none. */
#pragma once

struct box_backend;
struct box_native;
struct uv_loop_s;

struct box_backend_choice {
	struct box_backend *backend; /* the caller's to free, or NULL */
	const char *name;            /* what it answers to; static */
	const char *missing;         /* why there is none; outlives the choice */
};

/* `name` is the configured one, "" for the best that works here. `native` may be NULL. */
struct box_backend_choice box_backend_select(
	const char *name, struct uv_loop_s *loop, struct box_native *native);
