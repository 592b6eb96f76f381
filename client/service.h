/* The service: what a bot platform needs around a runtime, so that its own code only says what to run.
 *
 *   struct box_service_options options = {.config = &map};
 *   struct box_service *service;
 *   if (box_service_open(&options, &service, &err) < 0) { ... the configuration is wrong ... }
 *   struct box_service_run run = {.spec = &spec, .query = &query};   // spec: {"cmd": "ls"}
 *   if (box_service_exec(service, &run, 300000, arena, &result, &err) < 0) { ... }
 *
 * It is configured by LangBot's `box` map (docs/libbox.md). It holds a line to the runtime, or none if
 * `enabled` is false: then nothing is started or dialled. A run gets its session id from a template, its
 * members from a profile, its folder from the default workspace, and mounts from the query's skills.
 * Folders outside the allowed roots are refused, the workspace's size is checked before and after, and
 * long output is cut. The last errors are remembered.
 *
 * One service is one tenant. Like a line, it is used from one thread, and waits only where a comment says so.
 */
#pragma once

#include "client/line.h"

#pragma GCC visibility push(default)

struct box_service;

struct box_service_options {
	/* How the runtime is reached; `config` in it is not used. If it names no endpoint, the map's
	 * `runtime.endpoint` is used. */
	struct box_line_options line;
	/* Or an existing line, as from box_line_adopt, instead of all that. The service takes it over, even
	 * if it fails to open. */
	struct box_line *given;
	/* The `box` map, or LangBot's whole configuration with `box` and `system` in it; NULL: all defaults.
	 * Copied. */
	const struct box_value *config;
	const char *working_folder; /* relative paths start here; NULL: ours */
};

/* Reads the configuration and, if both sides share a file system, creates the default workspace. The runtime
 * need not be running: the line connects with the first steps. -EINVAL and others if the configuration cannot
 * work. */
int box_service_open(const struct box_service_options *options, struct box_service **ret_service,
	struct box_err *err);
/* Drops pending runs without a callback. NULL is fine. */
void box_service_close(struct box_service *service);
static inline void box_service_close_p(struct box_service **service)
{
	box_service_close(*service);
}

bool box_service_is_enabled(const struct box_service *service);
/* The line, for all other actions; NULL when disabled. */
struct box_line *box_service_line(struct box_service *service);
/* The workspace folder of boxes that do not request another; NULL: none. */
const char *box_service_default_workspace(const struct box_service *service);

/* What is to be run. Nothing in it is needed after the call. */
struct box_service_run {
	const struct box_value *spec;   /* the members of a box spec that the caller sets */
	const struct box_value *query;  /* {query_id, launcher_type, ...}; may be NULL */
	const char *session_template;   /* the caller's; NULL: the operator's */
	const char *profile;            /* by name; NULL: the operator's choice */
	const struct box_value *skills; /* of this query, as from box_list_skills; or NULL */
	bool create_only;               /* box_create_session instead of box_exec */
};

/* The answer is the runtime's, with `ok` and `backend` added, stdout and stderr cut, stdout_truncated and
 * stderr_truncated, and `notes`, a list of texts: what was requested and not done. In `answered` data is
 * valid until that returns. Refusals that need no runtime are returned by the call itself; all errors are
 * remembered. */
int box_service_submit(struct box_service *service, const struct box_service_run *run,
	box_client_answered *answered, void *arg, int64_t *ret_id, struct box_err *err);
/* Cancels a run: its callback is not called any more; a command is ended. */
void box_service_cancel(struct box_service *service, int64_t id);
/* The same, blocking, also while the line connects for the first time. -ETIMEDOUT. */
int box_service_exec(struct box_service *service, const struct box_service_run *run, int timeout_ms,
	struct box_arena *arena, struct box_value *ret_result, struct box_err *err);

/* Builds what would be sent for a run, and the notes, without sending it. For people, and for tests. */
int box_service_explain(struct box_service *service, const struct box_service_run *run,
	struct box_arena *arena, struct box_value *ret_spec, struct box_value *ret_notes,
	struct box_err *err);

/* {state: "disabled" | "unreachable" | "no_backend" | "well", available, enabled, profile,
 * recent_error_count, connector_error, and the runtime's own status}. Never an error: a failure is a
 * state. The second one waits, at most timeout_ms. */
int box_service_submit_status(struct box_service *service, box_client_answered *answered, void *arg,
	int64_t *ret_id, struct box_err *err);
struct box_value box_service_status(
	struct box_service *service, int timeout_ms, struct box_arena *arena);

/* The last 50 errors, oldest first: {timestamp, type, message, query_id}. */
struct box_value box_service_errors(const struct box_service *service, struct box_arena *arena);
/* The known profiles, each a map with its name; `own` is the map `local.profiles`, or NULL. With a name only
 * that one; if it does not exist, err lists the known names. */
int box_service_profiles(struct box_arena *arena, const struct box_value *own, const char *name,
	struct box_value *ret_list, struct box_err *err);

/* --- for a program with its own event loop: as with a line --- */

int box_service_fd(const struct box_service *service);
short box_service_poll_events(const struct box_service *service);
int box_service_timeout_ms(const struct box_service *service);
void box_service_step(struct box_service *service);
/* Waits until something happens, and handles it. 0, or -EINTR. */
int box_service_wait(struct box_service *service, int timeout_ms);
/* Waits until the line is up. -ECANCELED at once if disabled; -ETIMEDOUT with the last reason. */
int box_service_wait_up(struct box_service *service, int timeout_ms, struct box_err *err);

#pragma GCC visibility pop
