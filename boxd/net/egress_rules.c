/* Writes the rules of one slot and compares them with nft's listing.
 *
 * Rules are written exactly as nft lists them, so that they can be compared word by word. If another
 * version of nft lists a rule differently, the rule counts as missing and the box does not start.
 */
#include "boxd/net/egress_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "boxd/net/router_child.h"

#define TEXT_BYTES_MAX (1024 * 1024)
#define SPACE " \t\n"
#define WORD_MAX 64
#define REMOVALS_MAX 64 /* per run of nft: the others wait for the next run */

/* The state of a slot. */
enum {
	OPEN,
	LIMITED,
	STALE, /* it has rules, but no box */
};

struct box_egress_rules_addresses box_egress_rules_resolve(const struct box_egress *policy)
{
	return (struct box_egress_rules_addresses){
		.allow = policy->allow,
		.allow_count = policy->allow_count,
		.host_ports = policy->host_ports,
		.host_port_count = policy->host_port_count,
	};
}

/* --- commands --- */

/* nft lists a single address without its prefix. */
static void write_address(const struct box_egress_allow *allow, struct box_buf *text)
{
	struct box_egress_allow plain = *allow;
	char address[BOX_EGRESS_TEXT];
	plain.port = 0;
	box_egress_write(&plain, address);
	if (plain.prefix == 32) {
		address[strcspn(address, "/")] = '\0';
	}
	(void)box_buf_printf(text, "ip daddr %s", address);
}

/* nft lists a protocol without a port by its number: names depend on /etc/protocols. */
static void write_entry(const struct box_egress_allow *allow, const char *protocol, int number,
	const char *before, struct box_buf *text)
{
	(void)box_buf_append_str(text, before);
	write_address(allow, text);
	if (allow->port != 0) {
		(void)box_buf_printf(text, " %s dport %u accept\n", protocol, allow->port);
	} else {
		(void)box_buf_printf(text, " meta l4proto %d accept\n", number);
	}
}

/* The rules of a slot, each with `before` in front. Ports of the host are decided first, so that no
 * entry of the allowlist opens them, whatever addresses it covers. */
static void write_chain(const struct box_egress_rules_addresses *addresses, const char *before,
	struct box_buf *text)
{
	for (uint32_t i = 0; i < addresses->host_port_count; i++) {
		(void)box_buf_printf(text, "%sip daddr " BOX_EGRESS_HOST " tcp dport %u accept\n",
			before, addresses->host_ports[i]);
	}
	(void)box_buf_printf(text, "%sip daddr " BOX_EGRESS_HOST " counter jump refuse\n", before);
	for (uint32_t i = 0; i < addresses->allow_count; i++) {
		write_entry(&addresses->allow[i], "tcp", IPPROTO_TCP, before, text);
		write_entry(&addresses->allow[i], "udp", IPPROTO_UDP, before, text);
	}
	(void)box_buf_printf(text, "%scounter jump refuse\n", before);
}

static void write_slot(uint32_t slot, struct box_buf *text)
{
	(void)box_buf_printf(text, "add chain inet box slot%" PRIu32 "\n", slot);
	(void)box_buf_printf(text,
		"add element inet box egress { \"b%" PRIu32 "\" : goto slot%" PRIu32 " }\n", slot,
		slot);
}

/* Adds first what it deletes: deleting what does not exist is an error. */
static void write_removal(uint32_t slot, struct box_buf *text)
{
	write_slot(slot, text);
	(void)box_buf_printf(text, "delete element inet box egress { \"b%" PRIu32 "\" }\n", slot);
	(void)box_buf_printf(text, "flush chain inet box slot%" PRIu32 "\n", slot);
	(void)box_buf_printf(text, "delete chain inet box slot%" PRIu32 "\n", slot);
}

static void write_removals(const struct box_egress_rules_slots *slots, struct box_buf *text)
{
	size_t count = 0;
	for (uint32_t i = 0; i < BOX_ROUTER_SLOTS_MAX && count < REMOVALS_MAX; i++) {
		if (slots->states[i] == STALE) {
			write_removal(i, text);
			count++;
		}
	}
}

/* The slots whose removal is in the commands. */
static void mark_removed(struct box_egress_rules_slots *slots)
{
	size_t count = 0;
	for (uint32_t i = 0; i < BOX_ROUTER_SLOTS_MAX && count < REMOVALS_MAX; i++) {
		if (slots->states[i] == STALE) {
			slots->states[i] = OPEN;
			count++;
		}
	}
}

void box_egress_rules_write(const struct box_egress_rules_slots *slots, uint32_t slot,
	const struct box_egress_rules_addresses *addresses, struct box_buf *text)
{
	char before[64];
	(void)snprintf(before, sizeof(before), "add rule inet box slot%" PRIu32 " ", slot);
	write_removals(slots, text);
	write_removal(slot, text);
	write_slot(slot, text);
	write_chain(addresses, before, text);
}

/* --- comparing --- */

/* Skips the next word if it is this one. */
static bool skip_word(const char **at, const char *word)
{
	size_t len = strlen(word);
	*at += strspn(*at, SPACE);
	if (strncmp(*at, word, len) != 0 || !strchr(SPACE, (*at)[len])) {
		return false;
	}
	*at += len;
	return true;
}

/* The same for all words of a text, in order. */
static bool skip_words(const char **at, const char *words)
{
	char word[WORD_MAX];
	for (words += strspn(words, SPACE); *words; words += strspn(words, SPACE)) {
		size_t len = strcspn(words, SPACE);
		if (len >= sizeof(word)) {
			return false;
		}
		memcpy(word, words, len);
		word[len] = '\0';
		words += len;
		if (!skip_word(at, word)) {
			return false;
		}
	}
	return true;
}

/* Skips `"b5" : goto slot5`, and a comma after it. The slot must have rules; counts the slots that are
 * required to have some. */
static bool skip_element(const char **at, const struct box_egress_rules_slots *slots, size_t *found)
{
	unsigned long number = 0;
	char words[WORD_MAX];
	*at += strspn(*at, SPACE);
	if (strncmp(*at, "\"b", 2) == 0) {
		number = strtoul(*at + 2, NULL, 10);
	}
	(void)snprintf(words, sizeof(words), "\"b%lu\" : goto", number);
	if (number >= BOX_ROUTER_SLOTS_MAX || slots->states[number] == OPEN ||
		!skip_words(at, words)) {
		return false;
	}
	*found += slots->states[number] == LIMITED;
	(void)snprintf(words, sizeof(words), "slot%lu,", number);
	if (skip_word(at, words)) {
		return true;
	}
	words[strlen(words) - 1] = '\0';
	return skip_word(at, words);
}

static bool skip_map(const char **at, const struct box_egress_rules_slots *slots)
{
	size_t expected = 0;
	size_t found = 0;
	for (uint32_t i = 0; i < BOX_ROUTER_SLOTS_MAX; i++) {
		expected += slots->states[i] == LIMITED;
	}
	if (!skip_words(at, "table inet box { map egress { type ifname : verdict elements = {")) {
		return false;
	}
	while (!skip_word(at, "}")) {
		if (!skip_element(at, slots, &found)) {
			return false;
		}
	}
	/* The kernel has no element twice. */
	return found == expected && skip_words(at, "} }");
}

bool box_egress_rules_match(const struct box_egress_rules_slots *slots, uint32_t slot,
	const struct box_egress_rules_addresses *addresses, const char *listing)
{
	struct box_buf expected = box_buf(TEXT_BYTES_MAX);
	(void)box_buf_printf(&expected, "table inet box { chain slot%" PRIu32 " {\n", slot);
	write_chain(addresses, "", &expected);
	(void)box_buf_append(&expected, "} }", sizeof("} }"));
	bool same = !expected.overflowed && skip_map(&listing, slots) &&
		skip_words(&listing, expected.bytes) && listing[strspn(listing, SPACE)] == '\0';
	box_buf_free(&expected);
	return same;
}

/* --- in the router --- */

static int check(const struct box_egress_rules_slots *slots, const struct box_router *router,
	uint32_t slot, const struct box_egress_rules_addresses *addresses, struct box_err *err)
{
	_cleanup_(box_free_p) char *listing = NULL;
	_cleanup_(box_buf_free) struct box_buf question = box_buf(TEXT_BYTES_MAX);
	(void)box_buf_printf(
		&question, "list map inet box egress\nlist chain inet box slot%" PRIu32 "\n", slot);
	int r = box_router_child_run_nft(router, &question, &listing, err);
	if (r < 0) {
		return r;
	}
	if (!box_egress_rules_match(slots, slot, addresses, listing)) {
		return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
			"egress cannot be enforced: the rules of the box are not what was set");
	}
	return 0;
}

static int set_and_check(struct box_egress_rules_slots *slots, const struct box_router *router,
	uint32_t slot, const struct box_egress_rules_addresses *addresses, struct box_err *err)
{
	_cleanup_(box_free_p) char *ignored = NULL;
	_cleanup_(box_buf_free) struct box_buf commands = box_buf(TEXT_BYTES_MAX);
	box_egress_rules_write(slots, slot, addresses, &commands);
	int r = box_router_child_run_nft(router, &commands, &ignored, err);
	if (r < 0) {
		return r;
	}
	mark_removed(slots);
	return check(slots, router, slot, addresses, err);
}

int box_egress_rules_set(struct box_egress_rules_slots *slots, const struct box_router *router,
	uint32_t slot, const struct box_egress_rules_addresses *addresses, struct box_err *err)
{
	slots->states[slot] = LIMITED;
	int r = set_and_check(slots, router, slot, addresses, err);
	if (r < 0) {
		slots->states[slot] = STALE; /* some of the rules may exist */
	}
	return r;
}

void box_egress_rules_release(struct box_egress_rules_slots *slots, uint32_t slot)
{
	if (slots->states[slot] == LIMITED) {
		slots->states[slot] = STALE;
	}
}

int box_egress_rules_clear(struct box_egress_rules_slots *slots, const struct box_router *router,
	uint32_t slot, struct box_err *err)
{
	_cleanup_(box_free_p) char *ignored = NULL;
	_cleanup_(box_buf_free) struct box_buf commands = box_buf(TEXT_BYTES_MAX);
	if (slots->states[slot] == OPEN) {
		return 0;
	}
	write_removals(slots, &commands);
	write_removal(slot, &commands);
	int r = box_router_child_run_nft(router, &commands, &ignored, err);
	if (r < 0) {
		return r;
	}
	mark_removed(slots);
	slots->states[slot] = OPEN;
	return 0;
}
