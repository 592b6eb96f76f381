/* Counters of the runtime, and their Prometheus text.
 *
 * Plain numbers, counted up where the event is seen; one thread, so no locks.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct box_buf;

#define BOX_METRICS_BUCKETS 12 /* upper bounds in metrics.c, the last is +Inf */
#define BOX_METRICS_ACTIONS_MAX 64

enum box_metrics_result {
	BOX_RESULT_OK,
	BOX_RESULT_ERROR,
	BOX_RESULT_CANCELLED,
	BOX_RESULTS_
};

enum box_metrics_transport {
	BOX_TRANSPORT_STDIO,
	BOX_TRANSPORT_WEBSOCKET,
	BOX_TRANSPORTS_
};

#define BOX_METRICS_CODECS 2 /* json, msgpack: codec/message.h */

struct box_metrics_action {
	const char *name; /* NULL ends the list */
	uint64_t results[BOX_RESULTS_];
	uint64_t buckets[BOX_METRICS_BUCKETS];
	uint64_t total_us;
};

struct box_metrics_traffic {
	uint64_t messages_in[BOX_METRICS_CODECS];
	uint64_t messages_out[BOX_METRICS_CODECS];
	uint64_t bytes_in[BOX_METRICS_CODECS];
	uint64_t bytes_out[BOX_METRICS_CODECS];
};

struct box_metrics {
	struct box_metrics_action actions[BOX_METRICS_ACTIONS_MAX + 1];
	uint64_t messages; /* received in total, of any kind */
	uint64_t unknown_actions;
	uint64_t ignored_messages;
	struct box_metrics_traffic traffic[BOX_TRANSPORTS_];
	uint64_t connections_opened[BOX_TRANSPORTS_];
	uint64_t connections_open[BOX_TRANSPORTS_];
	uint64_t pending_connections; /* not yet authenticated */
	uint64_t pending_evicted;     /* dropped because too many were pending */
	uint64_t handshakes_refused;
	uint64_t handshakes_timed_out;
	uint64_t worker_restarts;
};

/* Gauges whose values others own; filled in when the text is made. */
struct box_metrics_gauges {
	uint64_t sessions;
	uint64_t managed_processes;
	uint64_t completed_processes;
	uint64_t resident_bytes;
	uint64_t requests_under_way;
	uint64_t promised_bytes; /* to boxes */
	uint64_t artifact_bytes;
};

void box_metrics_count(
	struct box_metrics_action *action, enum box_metrics_result result, uint64_t duration_us);

/* Appends the whole page, text format 0.0.4. 0 or -EMSGSIZE. */
int box_metrics_render(const struct box_metrics *metrics, const struct box_metrics_gauges *gauges,
	struct box_buf *out);
