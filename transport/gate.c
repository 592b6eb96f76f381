/* Decides on a request head, in this order: Host and Origin (so that a page in a browser learns nothing),
 * path, method and body, then the caller's identity, and last the form of the upgrade: a caller without
 * the token gets the same 401 whatever else is wrong with its request.
 */
#include "transport/gate.h"

#include <arpa/inet.h>

#include "base/base64.h"
#include "base/hash.h"
#include "base/macros.h"
#include "base/operator.h"

#define TOKEN_FIELD "X-LangBot-Box-Control-Token"
#define BEARER "Bearer "
#define INSTANCE_FIELD "X-LangBot-Instance-Id"
#define WORKSPACE_FIELD "X-LangBot-Workspace-Id"
#define GENERATION_FIELD "X-LangBot-Placement-Generation"

#define WEBSOCKET_KEY_LEN 24 /* of the text */
#define WEBSOCKET_KEY_BYTES 16
#define PORT_DIGITS_MAX 5
#define SEGMENTS_MAX 6 /* of /v1/sessions/SESSION/managed-process/PROCESS/ws */

static const char stranger_reason[] = "a user who is not allowed without a token";

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_alnum(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c);
}

static bool is_among(char c, const char *set)
{
	return c != '\0' && strchr(set, c) != NULL;
}

/* The caller has checked that it fits. */
static void copy_text(char *out, struct box_str text)
{
	memcpy(out, text.bytes, text.len);
	out[text.len] = '\0';
}

static void refuse(struct box_gate_verdict *verdict, int status, const char *body, const char *why)
{
	*verdict = (struct box_gate_verdict){
		.kind = BOX_GATE_REFUSED,
		.status = status,
		.body = body,
		.why = why,
		.head_only = verdict->head_only,
	};
}

/* Host and Origin. */

/* Removes the port; false if what follows the host is not a port. */
static bool strip_port(struct box_str host, struct box_str *ret_name)
{
	size_t digits = 0;
	while (digits < host.len && is_digit(host.bytes[host.len - 1 - digits])) {
		digits++;
	}
	if (digits == host.len || host.bytes[host.len - 1 - digits] != ':') {
		*ret_name = host;
		return true;
	}
	if (digits == 0 || digits > PORT_DIGITS_MAX) {
		return false;
	}
	*ret_name = (struct box_str){host.bytes, host.len - digits - 1};
	return true;
}

static bool names_loopback(struct box_str host)
{
	struct box_str name;
	char text[INET_ADDRSTRLEN];
	struct in_addr address;
	/* "[::1]" ends in ']', so its own colons are not taken for the one before a port. */
	if (!strip_port(host, &name) || name.len >= sizeof(text)) {
		return false;
	}
	copy_text(text, name);
	if (strcasecmp(text, "localhost") == 0 || strcmp(text, "[::1]") == 0) {
		return true;
	}
	return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

static bool origin_allowed(const struct box_gate_policy *policy, const struct box_http_head *head)
{
	if (box_http_head_count(head, "Origin") == 0) {
		return true;
	}
	struct box_str origin = box_http_head_get(head, "Origin");
	if (!origin.bytes || !policy->origins) {
		return false;
	}
	for (const char *const *allowed = policy->origins; *allowed; allowed++) {
		if (box_str_eq(origin, *allowed)) {
			return true;
		}
	}
	return false;
}

/* The path. */

static int hex_value(char c)
{
	if (is_digit(c)) {
		return c - '0';
	}
	if (c >= 'a' && c <= 'f') {
		return c - 'a' + 10;
	}
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* One path segment, percent-decoded once. An id contains neither '%' nor '/', so nobody who decodes it a
 * second time can find another id in it. `size` is that of out. */
static bool decode_id(struct box_str segment, char *out, size_t size)
{
	size_t len = 0;
	for (size_t i = 0; i < segment.len; i++) {
		char c = segment.bytes[i];
		if (c == '%') {
			int high = i + 2 < segment.len ? hex_value(segment.bytes[i + 1]) : -1;
			int low = i + 2 < segment.len ? hex_value(segment.bytes[i + 2]) : -1;
			if (high < 0 || low < 0) {
				return false;
			}
			c = (char)(high << 4 | low);
			i += 2;
		}
		if (len + 1 >= size || (!is_alnum(c) && !is_among(c, "_.:@~+-"))) {
			return false;
		}
		out[len++] = c;
	}
	out[len] = '\0';
	return len > 0 && strcmp(out, ".") != 0 && strcmp(out, "..") != 0;
}

/* Cuts at the slashes; the path starts with one. Returns 0 when there are too many segments. */
static size_t split_path(struct box_str path, struct box_str segments[SEGMENTS_MAX])
{
	const char *at = path.bytes + 1;
	const char *end = path.bytes + path.len;
	for (size_t count = 0; count < SEGMENTS_MAX; count++) {
		const char *slash = memchr(at, '/', (size_t)(end - at));
		segments[count] = (struct box_str){at, (size_t)((slash ? slash : end) - at)};
		if (!slash) {
			return count + 1;
		}
		at = slash + 1;
	}
	return 0;
}

static bool relay_path(struct box_str path, struct box_gate_verdict *verdict)
{
	struct box_str segments[SEGMENTS_MAX];
	size_t count = split_path(path, segments);
	if (count < SEGMENTS_MAX - 1 || !box_str_eq(segments[0], "v1") ||
		!box_str_eq(segments[1], "sessions") ||
		!box_str_eq(segments[3], "managed-process") ||
		!box_str_eq(segments[count - 1], "ws")) {
		return false;
	}
	struct box_str process = count == SEGMENTS_MAX ? segments[4] : box_str("default");
	return decode_id(segments[2], verdict->session_id, sizeof(verdict->session_id)) &&
		decode_id(process, verdict->process_id, sizeof(verdict->process_id));
}

/* Sets kind, and the ids of a relay; kind stays BOX_GATE_REFUSED if the path is unknown. */
static void find_route(struct box_str path, struct box_gate_verdict *verdict)
{
	static const struct {
		const char *path;
		enum box_gate_kind kind;
	} routes[] = {
		{"/healthz", BOX_GATE_HEALTHZ},
		{"/readyz", BOX_GATE_READYZ},
		{"/metrics", BOX_GATE_METRICS},
		{"/rpc/ws", BOX_GATE_RPC},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(routes); i++) {
		if (box_str_eq(path, routes[i].path)) {
			verdict->kind = routes[i].kind;
			return;
		}
	}
	if (relay_path(path, verdict)) {
		verdict->kind = BOX_GATE_RELAY;
	}
}

/* Who is calling. */

static void hash_padded(
	size_t len, const char padded[BOX_TOKEN_MAX], unsigned char out[BOX_HASH_SHA256_BYTES])
{
	const struct box_str parts[] = {
		{(const char *)&len, sizeof(len)},
		{padded, BOX_TOKEN_MAX},
	};
	box_hash_sha256_parts(parts, 2, out);
}

/* Both sides are padded to the same size, so that the number of hashed blocks does not reveal the length,
 * and compared as hashes, so that even a comparison that stopped early would reveal nothing. */
bool box_gate_secret_equal(const char *secret, struct box_str given)
{
	char padded[BOX_TOKEN_MAX];
	unsigned char wanted[BOX_HASH_SHA256_BYTES];
	unsigned char got[BOX_HASH_SHA256_BYTES];

	/* Past its end the secret reads as zeros; not strlen, whose time depends on the length. */
	size_t at = 0;
	for (size_t i = 0; i < sizeof(padded); i++) {
		padded[i] = secret[at];
		at += secret[at] != '\0';
	}
	bool whole = secret[at] == '\0';
	hash_padded(at, padded, wanted);

	memset(padded, 0, sizeof(padded));
	if (given.len > 0) {
		size_t fits = given.len < sizeof(padded) ? given.len : sizeof(padded);
		memcpy(padded, given.bytes, fits);
	}
	hash_padded(given.len, padded, got);
	explicit_bzero(padded, sizeof(padded));

	volatile unsigned char differs = 0;
	for (size_t i = 0; i < sizeof(wanted); i++) {
		differs = (unsigned char)(differs | (wanted[i] ^ got[i]));
	}
	return whole & (differs == 0);
}

static bool read_generation(struct box_str text, int64_t *ret_generation)
{
	int64_t generation = 0;
	if (text.len == 0 || text.bytes[0] == '0') {
		return false;
	}
	for (size_t i = 0; i < text.len; i++) {
		if (!is_digit(text.bytes[i]) ||
			__builtin_mul_overflow(generation, 10, &generation) ||
			__builtin_add_overflow(generation, text.bytes[i] - '0', &generation)) {
			return false;
		}
	}
	*ret_generation = generation;
	return true;
}

/* The operator is known by its socket. It may name the instance that it speaks for; the default is an
 * instance of its own. */
static const char *identify_operator(
	const struct box_http_head *head, struct box_gate_verdict *verdict)
{
	struct box_str instance = box_http_head_get(head, INSTANCE_FIELD);
	struct box_str workspace = box_http_head_get(head, WORKSPACE_FIELD);
	struct box_str generation = box_http_head_get(head, GENERATION_FIELD);
	verdict->is_operator = true;
	if (box_http_head_count(head, INSTANCE_FIELD) == 0) {
		instance = box_str(BOX_INSTANCE_OPERATOR);
	}
	if (!box_str_eq(instance, BOX_INSTANCE_OPERATOR) &&
		!box_str_eq(instance, BOX_INSTANCE_UNNAMED) &&
		!box_tenant_instance_id_valid(instance)) {
		return "instance id repeated or malformed";
	}
	copy_text(verdict->instance, instance);
	if (verdict->kind != BOX_GATE_RELAY) {
		return NULL;
	}
	if (box_http_head_count(head, WORKSPACE_FIELD) == 0) {
		/* The generation of clients that send no context. */
		verdict->generation = 1;
		return NULL;
	}
	if (workspace.len == 0 || workspace.len > BOX_WORKSPACE_ID_MAX ||
		!read_generation(generation, &verdict->generation)) {
		return "workspace or generation of the relay missing or malformed";
	}
	copy_text(verdict->workspace, workspace);
	return NULL;
}

/* Both are always compared, so that the time does not reveal which one matched. */
static bool token_matches(const struct box_gate_policy *policy, struct box_str token)
{
	const char *other = policy->other_token ? policy->other_token : policy->token;
	bool first = box_gate_secret_equal(policy->token, token);
	bool second = box_gate_secret_equal(other, token);
	return (first | second) & (token.bytes != NULL);
}

/* Monitoring tools can usually send Authorization, but no header of their own choice. */
static struct box_str page_token(const struct box_http_head *head)
{
	struct box_str bearer = box_http_head_get(head, "Authorization");
	size_t scheme = strlen(BEARER);
	if (box_http_head_count(head, TOKEN_FIELD) > 0 || !bearer.bytes || bearer.len < scheme ||
		strncasecmp(bearer.bytes, BEARER, scheme) != 0) {
		return box_http_head_get(head, TOKEN_FIELD);
	}
	return (struct box_str){bearer.bytes + scheme, bearer.len - scheme};
}

/* Whether a page may show all details. */
static bool may_know(const struct box_gate_policy *policy, const struct box_http_head *head)
{
	if (policy->is_operator) {
		return true;
	}
	return policy->token ? token_matches(policy, page_token(head)) : !policy->stranger;
}

static void decide_page(const struct box_gate_policy *policy, const struct box_http_head *head,
	struct box_gate_verdict *verdict)
{
	verdict->details = may_know(policy, head);
	if (verdict->kind == BOX_GATE_METRICS && !verdict->details && !policy->metrics_open) {
		refuse(verdict, 401,
			policy->stranger ? policy->stranger : box_gate_status_phrase(401),
			policy->token ? "page: control token missing, repeated or wrong"
				      : "page: a user who is not allowed");
	}
}

/* NULL if the caller is admitted, with its identity in verdict; otherwise the reason. All checks are made
 * before any result is looked at, so that the time does not reveal which one failed. */
static const char *authenticate(const struct box_gate_policy *policy,
	const struct box_http_head *head, struct box_gate_verdict *verdict)
{
	struct box_str token = box_http_head_get(head, TOKEN_FIELD);
	struct box_str instance = box_http_head_get(head, INSTANCE_FIELD);
	struct box_str workspace = box_http_head_get(head, WORKSPACE_FIELD);
	struct box_str generation = box_http_head_get(head, GENERATION_FIELD);
	bool relay = verdict->kind == BOX_GATE_RELAY;
	bool pinned = policy->instance != NULL;
	bool unnamed = policy->unnamed && box_http_head_count(head, INSTANCE_FIELD) == 0;
	if (unnamed) {
		instance = box_str(BOX_INSTANCE_UNNAMED);
	}

	bool token_equal = !policy->token || token_matches(policy, token);
	bool instance_equal = box_gate_secret_equal(pinned ? policy->instance : "", instance);
	bool instance_valid = unnamed || box_tenant_instance_id_valid(instance);
	bool workspace_valid = workspace.len > 0 && workspace.len <= BOX_WORKSPACE_ID_MAX;
	bool generation_valid = read_generation(generation, &verdict->generation);

	if (!token_equal) {
		return "control token missing, repeated or wrong";
	}
	if (!policy->token && policy->stranger) {
		return stranger_reason;
	}
	if (!instance_valid) {
		return "instance id missing, repeated or malformed";
	}
	if (pinned && !instance_equal) {
		return "another instance";
	}
	if (relay && !pinned) {
		return "relay before an instance is known";
	}
	copy_text(verdict->instance, instance);
	if (relay && unnamed) {
		/* All such callers share one workspace. */
		verdict->generation = 1;
		return NULL;
	}
	if (relay && !(workspace_valid & generation_valid)) {
		return "workspace or generation of the relay missing or malformed";
	}
	if (relay) {
		copy_text(verdict->workspace, workspace);
	} else {
		verdict->generation = 0;
	}
	return NULL;
}

/* The upgrade. */

static bool key_valid(struct box_str key)
{
	char decoded[WEBSOCKET_KEY_BYTES];
	return key.len == WEBSOCKET_KEY_LEN &&
		box_base64_decode(key, decoded, sizeof(decoded)) == WEBSOCKET_KEY_BYTES;
}

static void check_upgrade(const struct box_http_head *head, struct box_gate_verdict *verdict)
{
	static const char not_websocket[] = "Not a WebSocket upgrade";
	struct box_str upgrade = box_http_head_get(head, "Upgrade");
	struct box_str version = box_http_head_get(head, "Sec-WebSocket-Version");
	struct box_str key = box_http_head_get(head, "Sec-WebSocket-Key");
	if (box_http_head_count(head, "Upgrade") == 0) {
		refuse(verdict, 426, box_gate_status_phrase(426), "no Upgrade field");
		return;
	}
	if (upgrade.len != strlen("websocket") ||
		!box_http_head_has_token(head, "Upgrade", "websocket")) {
		refuse(verdict, 400, not_websocket, "Upgrade is not just websocket");
		return;
	}
	if (!box_http_head_has_token(head, "Connection", "upgrade")) {
		refuse(verdict, 400, not_websocket, "no upgrade in Connection");
		return;
	}
	if (!version.bytes || !box_str_eq(version, "13")) {
		refuse(verdict, 426, box_gate_status_phrase(426), "WebSocket version is not 13");
		return;
	}
	if (!key_valid(key)) {
		refuse(verdict, 400, not_websocket, "Sec-WebSocket-Key malformed");
		return;
	}
	copy_text(verdict->websocket_key, key);
	verdict->offers_mcp = box_http_head_has_exact(head, "Sec-WebSocket-Protocol", "mcp");
	verdict->offers_box_v1 = box_http_head_has_exact(head, "Sec-WebSocket-Protocol", "box.v1");
}

/* The checks that are the same for every request. Sets the kind; false if the request was refused. */
static bool admit_request(const struct box_gate_policy *policy, const struct box_http_head *head,
	struct box_gate_verdict *verdict)
{
	if (policy->loopback_names_only && !policy->is_operator &&
		!names_loopback(box_http_head_get(head, "Host"))) {
		refuse(verdict, 403, "Forbidden host", "Host does not name this machine");
		return false;
	}
	if (!origin_allowed(policy, head)) {
		refuse(verdict, 403, "Forbidden origin", "Origin is not allowed");
		return false;
	}
	find_route(head->path, verdict);
	if (verdict->kind == BOX_GATE_REFUSED) {
		refuse(verdict, 404, box_gate_status_phrase(404), "no such path");
		return false;
	}
	bool page = verdict->kind != BOX_GATE_RPC && verdict->kind != BOX_GATE_RELAY;
	if (!box_str_eq(head->method, "GET") && !(page && verdict->head_only)) {
		refuse(verdict, 405, box_gate_status_phrase(405), "method not allowed");
		verdict->allow = page ? "GET, HEAD" : "GET";
		return false;
	}
	if (head->content_length > 0) {
		refuse(verdict, 400, "Request body not accepted", "request with a body");
		return false;
	}
	return true;
}

void box_gate_decide(const struct box_gate_policy *policy, const struct box_http_head *head,
	struct box_gate_verdict *ret_verdict)
{
	*ret_verdict = (struct box_gate_verdict){
		.kind = BOX_GATE_REFUSED,
		.head_only = box_str_eq(head->method, "HEAD"),
	};
	if (!admit_request(policy, head, ret_verdict)) {
		return;
	}
	if (ret_verdict->kind != BOX_GATE_RPC && ret_verdict->kind != BOX_GATE_RELAY) {
		decide_page(policy, head, ret_verdict);
		return;
	}
	const char *why = policy->is_operator ? identify_operator(head, ret_verdict)
					      : authenticate(policy, head, ret_verdict);
	if (why) {
		const char *text = why == stranger_reason ? policy->stranger
							  : box_gate_status_phrase(401);
		refuse(ret_verdict, 401, text, why);
		return;
	}
	check_upgrade(head, ret_verdict);
}

const char *box_gate_status_phrase(int status)
{
	static const struct {
		int status;
		const char *phrase;
	} phrases[] = {
		{101, "Switching Protocols"},
		{200, "OK"},
		{400, "Bad Request"},
		{401, "Unauthorized"},
		{403, "Forbidden"},
		{404, "Not Found"},
		{405, "Method Not Allowed"},
		{408, "Request Timeout"},
		{426, "Upgrade Required"},
		{429, "Too Many Requests"},
		{431, "Request Header Fields Too Large"},
		{500, "Internal Server Error"},
		{503, "Service Unavailable"},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(phrases); i++) {
		if (phrases[i].status == status) {
			return phrases[i].phrase;
		}
	}
	return "Unknown";
}
