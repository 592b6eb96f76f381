/* The metrics page. Names follow Prometheus: base units, `_total` on counters. */
#include "runtime/metrics.h"

#include <errno.h>
#include <inttypes.h>

#include "base/buf.h"

static const uint64_t bucket_bounds_us[BOX_METRICS_BUCKETS - 1] = {
	50, 100, 250, 1000, 5000, 25000, 100000, 500000, 2500000, 10000000, 60000000};
static const char *const bucket_names[BOX_METRICS_BUCKETS] = {"0.00005", "0.0001", "0.00025",
	"0.001", "0.005", "0.025", "0.1", "0.5", "2.5", "10", "60", "+Inf"};
static const char *const result_names[BOX_RESULTS_] = {"ok", "error", "cancelled"};
static const char *const transport_names[BOX_TRANSPORTS_] = {"stdio", "websocket"};
static const char *const codec_names[BOX_METRICS_CODECS] = {"json", "msgpack"};

void box_metrics_count(
	struct box_metrics_action *action, enum box_metrics_result result, uint64_t duration_us)
{
	size_t bucket = 0;
	while (bucket < BOX_METRICS_BUCKETS - 1 && duration_us > bucket_bounds_us[bucket]) {
		bucket++;
	}
	action->results[result]++;
	action->buckets[bucket]++;
	action->total_us += duration_us;
}

static void describe(struct box_buf *out, const char *name, const char *type, const char *help)
{
	(void)box_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void single(
	struct box_buf *out, const char *name, const char *type, const char *help, uint64_t value)
{
	describe(out, name, type, help);
	(void)box_buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void render_requests(const struct box_metrics *metrics, struct box_buf *out)
{
	describe(out, "box_requests_total", "counter", "Requests by action and result.");
	for (const struct box_metrics_action *a = metrics->actions; a->name; a++) {
		for (int result = 0; result < BOX_RESULTS_; result++) {
			(void)box_buf_printf(out,
				"box_requests_total{action=\"%s\",result=\"%s\"} %" PRIu64 "\n",
				a->name, result_names[result], a->results[result]);
		}
	}
	describe(out, "box_request_duration_seconds", "histogram",
		"Time from a request's arrival to its answer.");
	for (const struct box_metrics_action *a = metrics->actions; a->name; a++) {
		uint64_t below = 0;
		for (int bucket = 0; bucket < BOX_METRICS_BUCKETS; bucket++) {
			below += a->buckets[bucket];
			(void)box_buf_printf(out,
				"box_request_duration_seconds_bucket{action=\"%s\",le=\"%s\"} "
				"%" PRIu64 "\n",
				a->name, bucket_names[bucket], below);
		}
		(void)box_buf_printf(out,
			"box_request_duration_seconds_sum{action=\"%s\"} %" PRIu64 ".%06" PRIu64
			"\n"
			"box_request_duration_seconds_count{action=\"%s\"} %" PRIu64 "\n",
			a->name, a->total_us / 1000000, a->total_us % 1000000, a->name, below);
	}
	single(out, "box_unknown_actions_total", "counter",
		"Requests for actions that do not exist.", metrics->unknown_actions);
	single(out, "box_ignored_messages_total", "counter",
		"Messages that were not requests and were ignored.", metrics->ignored_messages);
}

/* One series per transport and codec. `counts` is the first transport's array of the member. */
static void render_traffic(const struct box_metrics *metrics, struct box_buf *out, const char *name,
	const char *help, size_t member)
{
	describe(out, name, "counter", help);
	for (int t = 0; t < BOX_TRANSPORTS_; t++) {
		const char *traffic = (const char *)&metrics->traffic[t];
		const uint64_t *counts = (const uint64_t *)(const void *)(traffic + member);
		for (int codec = 0; codec < BOX_METRICS_CODECS; codec++) {
			(void)box_buf_printf(out, "%s{transport=\"%s\",codec=\"%s\"} %" PRIu64 "\n",
				name, transport_names[t], codec_names[codec], counts[codec]);
		}
	}
}

static void render_connections(const struct box_metrics *metrics, struct box_buf *out)
{
	describe(out, "box_connections", "gauge", "Connections open now.");
	for (int t = 0; t < BOX_TRANSPORTS_; t++) {
		(void)box_buf_printf(out, "box_connections{transport=\"%s\"} %" PRIu64 "\n",
			transport_names[t], metrics->connections_open[t]);
	}
	describe(out, "box_connections_opened_total", "counter", "Connections accepted so far.");
	for (int t = 0; t < BOX_TRANSPORTS_; t++) {
		(void)box_buf_printf(out,
			"box_connections_opened_total{transport=\"%s\"} %" PRIu64 "\n",
			transport_names[t], metrics->connections_opened[t]);
	}
	single(out, "box_pending_connections", "gauge", "Connections not yet authenticated.",
		metrics->pending_connections);
	single(out, "box_pending_evicted_total", "counter",
		"Pending connections dropped for newer ones.", metrics->pending_evicted);
	single(out, "box_handshakes_refused_total", "counter",
		"Requests refused before a connection was made.", metrics->handshakes_refused);
	single(out, "box_handshakes_timed_out_total", "counter",
		"Requests whose head did not arrive in time.", metrics->handshakes_timed_out);
}

int box_metrics_render(const struct box_metrics *metrics, const struct box_metrics_gauges *gauges,
	struct box_buf *out)
{
	render_requests(metrics, out);
	render_traffic(metrics, out, "box_messages_received_total", "Messages received.",
		offsetof(struct box_metrics_traffic, messages_in));
	render_traffic(metrics, out, "box_messages_sent_total", "Messages sent.",
		offsetof(struct box_metrics_traffic, messages_out));
	render_traffic(metrics, out, "box_received_bytes_total", "Bytes of messages received.",
		offsetof(struct box_metrics_traffic, bytes_in));
	render_traffic(metrics, out, "box_sent_bytes_total", "Bytes of messages sent.",
		offsetof(struct box_metrics_traffic, bytes_out));
	render_connections(metrics, out);
	single(out, "box_requests_under_way", "gauge", "Requests not answered yet.",
		gauges->requests_under_way);
	single(out, "box_sessions", "gauge", "Sessions that exist.", gauges->sessions);
	single(out, "box_promised_memory_bytes", "gauge",
		"Memory that all boxes together may take, by their limits.",
		gauges->promised_bytes);
	single(out, "box_artifact_memory_bytes", "gauge",
		"Memory of artifacts, including those that only boxes still use.",
		gauges->artifact_bytes);
	single(out, "box_managed_processes", "gauge", "Managed processes running.",
		gauges->managed_processes);
	single(out, "box_completed_processes", "gauge",
		"Managed processes that have ended and are still listed.",
		gauges->completed_processes);
	single(out, "box_worker_restarts_total", "counter", "Times box-rpc was started again.",
		metrics->worker_restarts);
	single(out, "box_resident_memory_bytes", "gauge", "Memory of box-rpc.",
		gauges->resident_bytes);
	return out->overflowed ? -EMSGSIZE : 0;
}
