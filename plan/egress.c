/* Parses, prints, sorts and checks egress policies. Entries are compared as numbers and sorted by
 * address, prefix and port. */
#include "plan/egress.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_MAX 32
#define PORT_MAX 65535

/* Digits only, without a leading zero: other parsers would read that as octal. */
static bool read_number(const char *text, size_t len, unsigned most, unsigned *ret_number)
{
	unsigned number = 0;
	if (len == 0 || len > 5 || (text[0] == '0' && len > 1)) {
		return false;
	}
	for (size_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') {
			return false;
		}
		number = 10 * number + (unsigned)(text[i] - '0');
	}
	*ret_number = number;
	return number <= most;
}

static uint32_t mask_of(unsigned prefix)
{
	return prefix == 0 ? 0 : UINT32_MAX << (PREFIX_MAX - prefix);
}

static const char *find(const char *text, size_t len, char what)
{
	return len > 0 ? memchr(text, what, len) : NULL;
}

const char *box_egress_read(const char *text, size_t len, struct box_egress_allow *ret_allow)
{
	const char *end = text + len;
	const char *colon = find(text, len, ':');
	unsigned prefix = PREFIX_MAX;
	unsigned port = 0;
	char word[INET_ADDRSTRLEN] = "";
	struct in_addr address;
	if (colon && find(colon + 1, (size_t)(end - colon) - 1, ':')) {
		return "must be IPv4: boxes have no IPv6";
	}
	if (colon &&
		(!read_number(colon + 1, (size_t)(end - colon) - 1, PORT_MAX, &port) ||
			port == 0)) {
		return "has a port that is not a number from 1 to 65535";
	}
	end = colon ? colon : end;
	const char *slash = find(text, (size_t)(end - text), '/');
	if (slash && !read_number(slash + 1, (size_t)(end - slash) - 1, PREFIX_MAX, &prefix)) {
		return "has a prefix that is not a number from 0 to 32";
	}
	end = slash ? slash : end;
	if ((size_t)(end - text) < sizeof(word)) {
		memcpy(word, text, (size_t)(end - text));
	}
	/* A NUL inside would end the string early. */
	if (strlen(word) != (size_t)(end - text) || inet_pton(AF_INET, word, &address) != 1) {
		return "must be ADDRESS/PREFIX or ADDRESS/PREFIX:PORT, with an IPv4 address";
	}
	if (ntohl(address.s_addr) & ~mask_of(prefix)) {
		return "has an address with bits beyond its prefix";
	}
	*ret_allow = (struct box_egress_allow){.address = ntohl(address.s_addr),
		.port = (uint16_t)port,
		.prefix = (uint8_t)prefix};
	return NULL;
}

void box_egress_write(const struct box_egress_allow *allow, char ret_text[BOX_EGRESS_TEXT])
{
	uint32_t a = allow->address;
	int len = snprintf(ret_text, BOX_EGRESS_TEXT,
		"%" PRIu32 ".%" PRIu32 ".%" PRIu32 ".%" PRIu32 "/%u", a >> 24, a >> 16 & 255,
		a >> 8 & 255, a & 255, allow->prefix);
	if (allow->port != 0) {
		(void)snprintf(ret_text + len, BOX_EGRESS_TEXT - (size_t)len, ":%u", allow->port);
	}
}

static int compare(const struct box_egress_allow *a, const struct box_egress_allow *b)
{
	if (a->address != b->address) {
		return a->address < b->address ? -1 : 1;
	}
	return a->prefix != b->prefix ? a->prefix - b->prefix : a->port - b->port;
}

static int by_entry(const void *a, const void *b)
{
	return compare(a, b);
}

static int by_port(const void *a, const void *b)
{
	return *(const uint16_t *)a - *(const uint16_t *)b;
}

void box_egress_normalize(struct box_egress *egress)
{
	uint32_t kept = 0;
	qsort(egress->allow, egress->allow_count, sizeof(egress->allow[0]), by_entry);
	for (uint32_t i = 0; i < egress->allow_count; i++) {
		if (i == 0 || compare(&egress->allow[kept - 1], &egress->allow[i]) != 0) {
			egress->allow[kept++] = egress->allow[i];
		}
	}
	egress->allow_count = kept;
	kept = 0;
	qsort(egress->host_ports, egress->host_port_count, sizeof(uint16_t), by_port);
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		if (i == 0 || egress->host_ports[kept - 1] != egress->host_ports[i]) {
			egress->host_ports[kept++] = egress->host_ports[i];
		}
	}
	egress->host_port_count = kept;
}

bool box_egress_equal(const struct box_egress *a, const struct box_egress *b)
{
	bool same = a->limited == b->limited && a->allow_count == b->allow_count &&
		a->host_port_count == b->host_port_count;
	for (uint32_t i = 0; same && i < a->allow_count; i++) {
		same = compare(&a->allow[i], &b->allow[i]) == 0;
	}
	for (uint32_t i = 0; same && i < a->host_port_count; i++) {
		same = a->host_ports[i] == b->host_ports[i];
	}
	return same;
}

static int refuse(struct box_err *err, const char *why)
{
	return box_err_set(err, BOX_ERR_VALIDATION, EINVAL, "egress %s", why);
}

int box_egress_check(const struct box_egress *egress, bool network, struct box_err *err)
{
	if (egress->limited > 1) {
		return refuse(err, "limited must be 0 or 1");
	}
	if (!egress->limited && (egress->allow_count > 0 || egress->host_port_count > 0)) {
		return refuse(err, "has entries but is not limited");
	}
	if (egress->limited && !network) {
		return refuse(err, "needs network on");
	}
	if (egress->allow_count > BOX_EGRESS_ALLOW_MAX ||
		egress->host_port_count > BOX_EGRESS_HOST_PORTS_MAX) {
		return refuse(err, "has too many entries");
	}
	for (uint32_t i = 0; i < egress->allow_count; i++) {
		const struct box_egress_allow *at = &egress->allow[i];
		if (at->prefix > PREFIX_MAX || at->reserved != 0 ||
			(at->address & ~mask_of(at->prefix))) {
			return refuse(err, "allow has an invalid entry");
		}
		if (i > 0 && compare(at - 1, at) >= 0) {
			return refuse(err, "allow is not in order");
		}
	}
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		uint16_t before = i > 0 ? egress->host_ports[i - 1] : 0;
		if (egress->host_ports[i] <= before) {
			return refuse(err, "host_ports is not in order");
		}
	}
	return 0;
}
