/* box-rpc as one struct: the parts that main.c puts together at the start and that worker.c drives from
 * then on.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/limits.h"
#include "base/value.h"
#include "protocol/boxd_client.h"
#include "runtime/backend/local.h"
#include "runtime/runtime.h"
#include "worker/settings.h"

struct box_acceptor;
struct box_arena;
struct box_config_report;
struct box_dispatch;
struct box_policy;
struct box_saved_state;
struct box_skills_client;
struct box_stdio;
struct box_ws;

struct box_worker {
	uv_loop_t loop;
	struct box_packet start;
	struct box_settings settings;
	struct box_local *local;
	struct box_boxd_host host; /* as boxd reported it last; texts of `local` are here */
	uint64_t host_ticks;       /* since then */
	bool readiness_logged;     /* `ready` and `why` are in the log */
	bool ready;
	char why[1024];
	struct box_policy *policy; /* the operator's, until it is sent to boxd */
	struct box_config_report *of_file;
	struct box_config_report *of_variable;
	struct box_arena *first_arena; /* of `first`, the file that boxd was started with */
	struct box_value first;
	struct box_runtime *runtime;
	struct box_dispatch *dispatch;
	struct box_boxd_client *boxd;
	struct box_skills_client *skills;
	struct box_saved_state *state;
	struct box_ws *ws;
	struct box_acceptor *acceptor;
	struct box_stdio *stdio;
	uv_timer_t tick;
	uv_timer_t stopping;
	uv_timer_t adopting;
	uint64_t adopt_by_ms;
	int listeners[BOX_PACKET_FDS_MAX];
	size_t listener_count;
	const char *tokens[BOX_TOKENS_MAX]; /* of the settings */
	uint64_t stop_by_ms;                /* requests may run until then */
	uint64_t give_up_by_ms;             /* connections may close until then */
	bool closing;
	uint64_t messages_at_tick; /* number of messages at the last tick */
	uint64_t messages_at_trim;
	int exit_code;
	int statm_fd;
	long page_size;
};

/* What the runtime asks of its host, and what boxd reports; the argument of both is the worker. */
extern const struct box_runtime_host box_worker_host_ops;
extern const struct box_boxd_client_events box_worker_boxd_events;

/* For box_stdio_open: box-rpc stops when the stdio connection has ended. */
void box_worker_stdio_ended(void *arg, bool clean);
/* Starts what is done once a second. */
void box_worker_start_tick(struct box_worker *worker);

/* What boxes get on this host. The texts are those of `host`. */
struct box_local_support box_worker_local_support(const struct box_boxd_host *host);
/* Puts the tokens of the settings into force. */
void box_worker_use_tokens(struct box_worker *worker);
/* Whether unidentified clients are admitted without a token; and the warning about it. */
bool box_worker_is_unauthenticated(const struct box_worker *worker);
void box_worker_warn_unauthenticated(void);
/* Compares the current configuration file with the one that boxd was started with: members that count
 * from the next start on are logged, and shown in status. */
void box_worker_note_restart(struct box_worker *worker);
