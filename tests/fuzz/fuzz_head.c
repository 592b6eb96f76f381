/* Any bytes as a request head, then the gate's decision on it: properties that hold for all inputs.
 */
#include "tests/fuzz/common.h"
#include "transport/gate.h"

#define SECRET "correct-horse-battery-staple-0123456789"
#define SHORT_HEAD 1024 /* below it every prefix is tried, above it some: the cost is quadratic */

static const struct box_gate_policy policies[] = {
	{.token = SECRET, .instance = "inst-1", .loopback_names_only = true},
	{.token = SECRET},
};

/* Found in another way than by the reader: a line that starts with the name, in any case, and has
 * nothing but the secret and white space after the colon. */
static bool has_token_line(const char *bytes, size_t len)
{
	static const char name[] = "\r\nx-langbot-box-control-token:";
	size_t name_len = sizeof(name) - 1;
	for (size_t i = 0; i + name_len <= len; i++) {
		if (strncasecmp(bytes + i, name, name_len) != 0) {
			continue;
		}
		const char *at = bytes + i + name_len;
		const char *end = memmem(at, len - i - name_len, "\r\n", 2);
		if (!end) {
			continue;
		}
		at += strspn(at, " \t");
		if (end - at < (ptrdiff_t)strlen(SECRET) ||
			memcmp(at, SECRET, strlen(SECRET)) != 0) {
			continue;
		}
		at += strlen(SECRET);
		if (at + strspn(at, " \t") == end) {
			return true;
		}
	}
	return false;
}

static void check_whole(const char *bytes, const struct box_http_head *head)
{
	size_t used = head->bytes_used;
	MUST(used >= 4 && used <= BOX_HTTP_HEAD_BYTES_MAX);
	const char *end = memmem(bytes, used, "\r\n\r\n", 4);
	MUST(end == bytes + used - 4);
	for (size_t i = 0; i < used; i++) {
		char c = bytes[i];
		MUST((c >= ' ' && c <= '~') || c == '\t' || c == '\r' || c == '\n');
		MUST((c == '\n') == (i > 0 && bytes[i - 1] == '\r'));
	}
	MUST(head->field_count >= 1 && head->field_count <= BOX_HTTP_HEAD_LINES_MAX);
	MUST(box_http_head_count(head, "Host") == 1);
	MUST(box_http_head_count(head, "Content-Length") <= 1);
	MUST(box_http_head_count(head, "Transfer-Encoding") == 0);
	MUST(head->path.len >= 1 && head->path.bytes[0] == '/');
	for (size_t i = 0; i < head->field_count; i++) {
		const struct box_http_head_field *field = &head->fields[i];
		MUST(field->name.bytes > bytes && field->name.len > 0);
		MUST(field->value.bytes + field->value.len <= bytes + used);
	}
}

static void check_prefixes(const char *bytes, size_t used)
{
	struct box_http_head part;
	size_t step = used <= SHORT_HEAD ? 1 : 61;
	for (size_t len = 0; len < used; len += step) {
		MUST(box_http_head_parse(bytes, len, &part) == BOX_HTTP_HEAD_MORE);
	}
	MUST(box_http_head_parse(bytes, used - 1, &part) == BOX_HTTP_HEAD_MORE);
}

static void check_verdict(
	const struct box_gate_policy *policy, const char *bytes, const struct box_http_head *head)
{
	struct box_gate_verdict verdict;
	memset(&verdict, 0x5a, sizeof(verdict));
	box_gate_decide(policy, head, &verdict);
	bool websocket = verdict.kind == BOX_GATE_RPC || verdict.kind == BOX_GATE_RELAY;
	if (verdict.kind == BOX_GATE_REFUSED) {
		MUST(verdict.status >= 400 && verdict.status < 500 && verdict.body && verdict.why);
	}
	MUST((verdict.instance[0] != '\0') == websocket);
	MUST(strlen(verdict.websocket_key) == (websocket ? 24 : 0));
	MUST(verdict.head_only == box_str_eq(head->method, "HEAD"));
	if (!websocket) {
		return;
	}
	MUST(has_token_line(bytes, head->bytes_used));
	MUST(box_tenant_instance_id_valid(box_str(verdict.instance)));
	MUST(!policy->instance || strcmp(verdict.instance, policy->instance) == 0);
	MUST(box_str_eq(head->method, "GET") && head->content_length == 0);
	MUST(box_http_head_count(head, "Origin") == 0);
	bool relay = verdict.kind == BOX_GATE_RELAY;
	MUST(!relay || policy->instance);
	MUST((verdict.session_id[0] != '\0') == relay && (verdict.process_id[0] != '\0') == relay);
	MUST((verdict.workspace[0] != '\0') == relay && (verdict.generation >= 1) == relay);
	MUST(!strpbrk(verdict.session_id, "/%\\ ") && strcmp(verdict.session_id, "..") != 0);
	MUST(!strpbrk(verdict.process_id, "/%\\ ") && strcmp(verdict.process_id, "..") != 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data;
	struct box_http_head head;
	struct box_http_head part;
	enum box_http_head_result result = box_http_head_parse(bytes, size, &head);
	if (result != BOX_HTTP_HEAD_COMPLETE) {
		/* A verdict is final: every shorter input was undecided or had the same. */
		enum box_http_head_result half = box_http_head_parse(bytes, size / 2, &part);
		MUST(half == BOX_HTTP_HEAD_MORE || half == result);
		MUST(result != BOX_HTTP_HEAD_MORE || size < BOX_HTTP_HEAD_BYTES_MAX);
		return 0;
	}
	MUST(head.bytes_used <= size);
	check_whole(bytes, &head);
	check_prefixes(bytes, head.bytes_used);
	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		check_verdict(&policies[i], bytes, &head);
	}
	return 0;
}
