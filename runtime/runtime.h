/* The runtime: one object that owns the configuration, the generations, the sessions, the backend and the counters, and
 * answers questions about all of them.
 *
 * Handlers call it; it calls nothing above it. What it needs from outside (creating folders, recording changes) goes
 * through struct box_runtime_host, which the program that owns it implements.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/fair_queue.h"
#include "base/list.h"
#include "base/log_limit.h"
#include "base/value.h"
#include "runtime/config/config.h"
#include "runtime/generation.h"
#include "runtime/metrics.h"
#include "runtime/session/session.h"

struct box_arena;
struct box_init;
struct box_local;
struct uv_loop_s;

enum box_runtime_folder_mode {
	BOX_RUNTIME_FOLDER_MAKE,  /* create it, with parents, if it is missing */
	BOX_RUNTIME_FOLDER_CHECK, /* only check whether it exists: -ENOENT */
};

typedef void box_runtime_folder_done(void *arg, int result);

struct box_skill_store_request;
struct box_storage_measure;
struct box_storage_measured;
typedef void box_storage_measure_done(void *arg, const struct box_storage_measured *measured);

struct box_runtime_host {
	/* Creates or checks a host folder; `done` is called once, later, with 0 or a negative errno:
	 * -ENOTDIR when it is not a folder, -EPERM when no box may have it. */
	void (*folder)(void *host, const char *path, enum box_runtime_folder_mode wish,
		box_runtime_folder_done *done, void *arg);
	/* Measures a host folder or a box; `done` is called once, later. See storage.h. */
	void (*measure)(void *host, const struct box_storage_measure *what,
		box_storage_measure_done *done, void *arg);
	/* Sends a request to the skill store, and cancels it. See skill_store.h. */
	void (*ask_skills)(void *host, struct box_skill_store_request *ask);
	void (*cancel_skills)(void *host, struct box_skill_store_request *ask);
	/* Another configuration is active; may be NULL. */
	void (*configured)(void *host);
	/* The process that started this one is about to set what may be mounted; may be NULL. */
	void (*mount_roots)(void *host, const struct box_config *config);
	/* Memory this process has resident. */
	uint64_t (*resident_bytes)(void *host);
	/* A change that the next box-rpc must know: see box_runtime_replay. */
	void (*record)(void *host, const struct box_value *change);
};

/* How the runtime was started. */
struct box_runtime_setup {
	struct uv_loop_s *loop;  /* for backends */
	struct box_local *local; /* native and microVM boxes, or NULL */
	struct box_ceilings_host_size host_size;
	const char *working_folder;     /* relative paths of a configuration start here */
	const char *const *mount_roots; /* from the command line, absolute, or NULL */
	bool host_backend_allowed;      /* stdio, or a token protects the control port */
	bool soft_storage;              /* LANGBOT_BOX_ALLOW_UNSAFE_SOFT_STORAGE_LIMITS */
	bool wide_open;                 /* listens beyond loopback without a token */
};

/* The sources of configuration; later ones override earlier ones. */
enum box_runtime_layer_kind {
	BOX_RUNTIME_LAYER_FILE,     /* --config */
	BOX_RUNTIME_LAYER_VARIABLE, /* LANGBOT_BOX_CONFIG */
	BOX_RUNTIME_LAYER_INIT,     /* box_init, all of them merged */
	BOX_RUNTIME_LAYER_REFUSED, /* an admission section that tried to turn admission off: it stays visible */
	BOX_RUNTIME_LAYERS_
};

struct box_runtime_layer {
	struct box_arena *arena; /* NULL: this layer is empty */
	struct box_value map;
};

struct box_runtime {
	struct box_runtime_setup setup;
	const struct box_runtime_host *host;
	void *host_arg;
	struct box_runtime_layer layers[BOX_RUNTIME_LAYERS_];
	struct box_config *config; /* all layers, merged and checked */
	struct box_generations *generations;
	struct box_sessions *sessions;
	struct box_session_rules session_rules;
	struct box_backend *backend; /* NULL while there is none */
	struct box_metrics metrics;
	struct box_log_limit ignored; /* messages that were not requests */
	uint64_t requests_under_way;
	uint64_t streams_begun;     /* live commands so far, for their names */
	uint64_t files_total_bytes; /* held by file transfers */
	uint64_t artifact_bytes;    /* memory of artifacts, as boxd reported last */
	struct box_list analyses;   /* storage analyses with pending work */
	unsigned measures_asked;    /* by the host, pending */
	uint16_t measures_of
		[BOX_FAIR_QUEUE_BUCKETS]; /* of these, by tenants: box_fair_queue_bucket */
	char *instance;                   /* the trusted one, NULL until pinned */
	bool parent_configures;  /* the last `local` of box_init came from the parent process */
	bool stopping;           /* no new work is accepted */
	char no_backend[512];    /* if the requested backend is unknown, the reason */
	char needs_restart[256]; /* members of the file that need a restart */
};

struct box_runtime *box_runtime_new(
	const struct box_runtime_setup *setup, const struct box_runtime_host *host, void *host_arg);
void box_runtime_free(struct box_runtime *runtime);

/* Replaces a layer's map and checks all layers together: for the operator's own file at start and reload. 0, or
 * negative with err and nothing changed. */
int box_runtime_configure(struct box_runtime *runtime, enum box_runtime_layer_kind layer,
	const struct box_value *map, struct box_err *err);
/* Only checks: returns what the same call without a change would return. */
int box_runtime_check(const struct box_runtime *runtime, enum box_runtime_layer_kind layer,
	const struct box_value *map, struct box_err *err);

/* Sets which members of the current file need a restart of boxd; "": none. Shown in the status. */
void box_runtime_needs_restart(struct box_runtime *runtime, const char *members);

/* Whether a backend has this name, even if it is not available here; and all such names, for people. */
bool box_runtime_knows_backend(const char *name);
const char *box_runtime_backend_names(void);

/* Selects the backend again after the capabilities of a backend have changed. */
void box_runtime_choose_backend(struct box_runtime *runtime);

/* box_init: checks the map, creates the default workspace, then applies the map over the current one. 0: done at once.
 * 1: `done` is called once, later, with NULL or an error; if it is cancelled before that, nothing is applied.
 * Negative: refused, nothing changed. `by_parent`: it comes from the process that started this one, which may set
 * what can be mounted. */
typedef void box_runtime_init_done(void *arg, const struct box_err *err);
int box_runtime_init(struct box_runtime *runtime, const struct box_value *map, bool by_parent,
	box_runtime_init_done *done, void *arg, struct box_init **ret_init, struct box_err *err);
void box_runtime_init_cancel(struct box_init *init);

/* Pins the instance that all contexts must name, unless one is pinned already. */
void box_runtime_pin_instance(struct box_runtime *runtime, struct box_str instance);

/* Refuses a stale generation. *ret_advanced: the context's generation is newer than the current one; then the caller
 * ends requests of older ones, and after that calls box_sessions_retire. */
int box_runtime_enter_generation(struct box_runtime *runtime, const struct box_context *context,
	bool *ret_advanced, struct box_err *err);

/* {name, available}, under admission with the readiness. */
struct box_value box_runtime_backend_info(
	const struct box_runtime *runtime, struct box_arena *arena);
/* {ready, mode, backend, checks, ...}. */
struct box_value box_runtime_readiness(
	const struct box_runtime *runtime, struct box_arena *arena, bool *ret_ready);
/* 0, or BOX_ERR_READINESS with the checks that failed. Always 0 without admission. */
int box_runtime_require_ready(const struct box_runtime *runtime, struct box_err *err);
struct box_value box_runtime_status(const struct box_runtime *runtime,
	const struct box_context *context, struct box_arena *arena);
/* The `resources` of /healthz and /readyz. */
struct box_value box_runtime_resources(const struct box_runtime *runtime, struct box_arena *arena);

/* Passes every change that turns a fresh runtime into this one to `emit`, one by one; and the reverse: applies a
 * change. A change that does not fit is ignored, because the record is not trusted. */
void box_runtime_dump(const struct box_runtime *runtime,
	void (*emit)(void *arg, const struct box_value *change), void *arg);
void box_runtime_replay(struct box_runtime *runtime, const struct box_value *change);
