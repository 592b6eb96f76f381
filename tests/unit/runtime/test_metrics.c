/* The metrics page: exact lines for known counts, and every line by the exposition grammar. */
#include <errno.h>
#include <regex.h>

#include "base/buf.h"
#include "base/limits.h"
#include "runtime/metrics.h"
#include "tests/unit/lib/test.h"

static void fill(struct box_metrics *metrics, struct box_metrics_gauges *gauges)
{
	*metrics = (struct box_metrics){0};
	*gauges = (struct box_metrics_gauges){.sessions = 3,
		.managed_processes = 4,
		.completed_processes = 5,
		.resident_bytes = 123456789,
		.requests_under_way = 6};
	metrics->actions[0].name = "__ping";
	metrics->actions[1].name = "box_exec";
	box_metrics_count(&metrics->actions[0], BOX_RESULT_OK, 50);
	box_metrics_count(&metrics->actions[0], BOX_RESULT_OK, 51);
	box_metrics_count(&metrics->actions[0], BOX_RESULT_ERROR, 1000);
	box_metrics_count(&metrics->actions[1], BOX_RESULT_CANCELLED, 0);
	box_metrics_count(&metrics->actions[1], BOX_RESULT_OK, 60000000);
	box_metrics_count(&metrics->actions[1], BOX_RESULT_OK, 60000001);
	metrics->unknown_actions = 7;
	metrics->ignored_messages = 8;
	metrics->traffic[BOX_TRANSPORT_STDIO].messages_in[0] = 11;
	metrics->traffic[BOX_TRANSPORT_WEBSOCKET].messages_in[1] = 12;
	metrics->traffic[BOX_TRANSPORT_STDIO].messages_out[1] = 13;
	metrics->traffic[BOX_TRANSPORT_WEBSOCKET].bytes_in[0] = UINT64_MAX;
	metrics->traffic[BOX_TRANSPORT_WEBSOCKET].bytes_out[1] = 14;
	metrics->connections_opened[BOX_TRANSPORT_WEBSOCKET] = 15;
	metrics->connections_open[BOX_TRANSPORT_STDIO] = 1;
	metrics->pending_connections = 16;
	metrics->pending_evicted = 17;
	metrics->handshakes_refused = 18;
	metrics->handshakes_timed_out = 19;
	metrics->worker_restarts = 20;
}

static char *page(void)
{
	static struct box_metrics metrics;
	struct box_metrics_gauges gauges;
	struct box_buf out = box_buf(BOX_MIB);
	fill(&metrics, &gauges);
	ASSERT_INT(box_metrics_render(&metrics, &gauges, &out), 0);
	ASSERT_INT(box_buf_append(&out, "", 1), 0);
	char *text = malloc(out.len);
	memcpy(text, out.bytes, out.len);
	box_buf_free(&out);
	return text;
}

/* The page contains these lines, together and in this order. */
static void expect(const char *text, const char *lines)
{
	const char *at = strstr(text, lines);
	if (!at || (at != text && at[-1] != '\n')) {
		TEST_FAIL("not in the page:\n%s", lines);
	}
}

TEST(requests)
{
	char *text = page();
	ASSERT_INT(strncmp(text, "# HELP box_requests_total ", 26), 0);
	expect(text,
		"# TYPE box_requests_total counter\n"
		"box_requests_total{action=\"__ping\",result=\"ok\"} 2\n"
		"box_requests_total{action=\"__ping\",result=\"error\"} 1\n"
		"box_requests_total{action=\"__ping\",result=\"cancelled\"} 0\n"
		"box_requests_total{action=\"box_exec\",result=\"ok\"} 2\n"
		"box_requests_total{action=\"box_exec\",result=\"error\"} 0\n"
		"box_requests_total{action=\"box_exec\",result=\"cancelled\"} 1\n");
	expect(text,
		"# TYPE box_request_duration_seconds histogram\n"
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"0.00005\"} 1\n"
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"0.0001\"} 2\n"
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"0.00025\"} 2\n"
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"0.001\"} 3\n"
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"0.005\"} 3\n");
	expect(text,
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"60\"} 3\n"
		"box_request_duration_seconds_bucket{action=\"__ping\",le=\"+Inf\"} 3\n"
		"box_request_duration_seconds_sum{action=\"__ping\"} 0.001101\n"
		"box_request_duration_seconds_count{action=\"__ping\"} 3\n"
		"box_request_duration_seconds_bucket{action=\"box_exec\",le=\"0.00005\"} 1\n");
	expect(text,
		"box_request_duration_seconds_bucket{action=\"box_exec\",le=\"10\"} 1\n"
		"box_request_duration_seconds_bucket{action=\"box_exec\",le=\"60\"} 2\n"
		"box_request_duration_seconds_bucket{action=\"box_exec\",le=\"+Inf\"} 3\n"
		"box_request_duration_seconds_sum{action=\"box_exec\"} 120.000001\n"
		"box_request_duration_seconds_count{action=\"box_exec\"} 3\n");
	expect(text, "box_unknown_actions_total 7\n");
	expect(text, "box_ignored_messages_total 8\n");
	free(text);
}

TEST(the_rest)
{
	char *text = page();
	expect(text,
		"box_messages_received_total{transport=\"stdio\",codec=\"json\"} 11\n"
		"box_messages_received_total{transport=\"stdio\",codec=\"msgpack\"} 0\n"
		"box_messages_received_total{transport=\"websocket\",codec=\"json\"} 0\n"
		"box_messages_received_total{transport=\"websocket\",codec=\"msgpack\"} 12\n");
	expect(text, "box_messages_sent_total{transport=\"stdio\",codec=\"msgpack\"} 13\n");
	expect(text,
		"box_received_bytes_total{transport=\"websocket\",codec=\"json\"} "
		"18446744073709551615\n");
	expect(text, "box_sent_bytes_total{transport=\"websocket\",codec=\"msgpack\"} 14\n");
	expect(text,
		"# TYPE box_connections gauge\n"
		"box_connections{transport=\"stdio\"} 1\n"
		"box_connections{transport=\"websocket\"} 0\n");
	expect(text, "box_connections_opened_total{transport=\"websocket\"} 15\n");
	expect(text, "box_pending_connections 16\n");
	expect(text, "box_pending_evicted_total 17\n");
	expect(text, "box_handshakes_refused_total 18\n");
	expect(text, "box_handshakes_timed_out_total 19\n");
	expect(text, "# TYPE box_requests_under_way gauge\nbox_requests_under_way 6\n");
	expect(text, "box_sessions 3\n");
	expect(text, "box_managed_processes 4\n");
	expect(text, "box_completed_processes 5\n");
	expect(text, "# TYPE box_worker_restarts_total counter\nbox_worker_restarts_total 20\n");
	expect(text,
		"# TYPE box_resident_memory_bytes gauge\n"
		"box_resident_memory_bytes 123456789\n");
	free(text);
}

#define NAME "[a-zA-Z_:][a-zA-Z0-9_:]*"
#define LABEL "[a-zA-Z_][a-zA-Z0-9_]*=\"([^\"\\\\\n]|\\\\[\\\\\"n])*\""

/* The family of a sample line: its name without the histogram suffixes. */
static size_t family_len(const char *line)
{
	static const char *const endings[] = {"_bucket", "_sum", "_count"};
	size_t len = strcspn(line, "{ ");
	if (strncmp(line, "box_request_duration_seconds_", 29) != 0) {
		return len;
	}
	for (size_t i = 0; i < COUNT(endings); i++) {
		size_t ending = strlen(endings[i]);
		if (len > ending && memcmp(line + len - ending, endings[i], ending) == 0) {
			return len - ending;
		}
	}
	return len;
}

TEST(grammar)
{
	regex_t help;
	regex_t type;
	regex_t sample;
	ASSERT_INT(regcomp(&help, "^# HELP " NAME " [^\n]+$", REG_EXTENDED), 0);
	ASSERT_INT(regcomp(&type, "^# TYPE " NAME " (counter|gauge|histogram)$", REG_EXTENDED), 0);
	ASSERT_INT(regcomp(&sample, "^" NAME "(\\{" LABEL "(," LABEL ")*\\})? [0-9]+(\\.[0-9]+)?$",
			   REG_EXTENDED),
		0);
	char *text = page();
	char *lines = text;
	char family[128] = "";
	int families = 0;
	ASSERT_INT(text[strlen(text) - 1], '\n');
	for (char *line = strsep(&lines, "\n"); line && lines; line = strsep(&lines, "\n")) {
		if (regexec(&help, line, 0, NULL, 0) == 0) {
			/* HELP starts a family, TYPE is the next line, samples follow. */
			(void)snprintf(family, sizeof(family), "%.*s", (int)strcspn(line + 7, " "),
				line + 7);
			line = strsep(&lines, "\n");
			ASSERT_INT(regexec(&type, line, 0, NULL, 0), 0);
			ASSERT_INT(strncmp(line + 7, family, strlen(family)), 0);
			bool counter = strstr(line, " counter") != NULL;
			bool total = strlen(family) > 6 &&
				strcmp(family + strlen(family) - 6, "_total") == 0;
			ASSERT_INT(counter, total);
			families++;
			continue;
		}
		if (regexec(&sample, line, 0, NULL, 0) != 0) {
			TEST_FAIL("by no rule: %s", line);
		}
		ASSERT_BYTES(line, family_len(line), family, strlen(family));
	}
	ASSERT(families > 15);
	regfree(&help);
	regfree(&type);
	regfree(&sample);
	free(text);
}

TEST(buckets)
{
	const uint64_t bounds[] = {
		50, 100, 250, 1000, 5000, 25000, 100000, 500000, 2500000, 10000000, 60000000};
	ASSERT_INT(COUNT(bounds), BOX_METRICS_BUCKETS - 1);
	for (size_t i = 0; i < COUNT(bounds); i++) {
		struct box_metrics_action action = {.name = "x"};
		box_metrics_count(&action, BOX_RESULT_OK, bounds[i]);
		box_metrics_count(&action, BOX_RESULT_OK, bounds[i] + 1);
		ASSERT_INT(action.buckets[i], 1);
		ASSERT_INT(action.buckets[i + 1], 1);
		ASSERT_INT(action.total_us, 2 * bounds[i] + 1);
		ASSERT_INT(action.results[BOX_RESULT_OK], 2);
	}
}

TEST(page_too_large)
{
	static struct box_metrics metrics;
	struct box_metrics_gauges gauges;
	struct box_buf out = box_buf(1000);
	fill(&metrics, &gauges);
	ASSERT_INT(box_metrics_render(&metrics, &gauges, &out), -EMSGSIZE);
	ASSERT(out.len <= 1000);
	box_buf_free(&out);
}
