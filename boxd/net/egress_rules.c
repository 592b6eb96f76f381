/* Rules are written in the words in which nft lists them, so that what is read back can be compared
 * word by word. What nft lists in other words, a version that we do not know may do so, is a rule
 * that is not there: the box does not start.
 */
#include "boxd/net/egress_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "boxd/net/router.h"
#include "boxd/net/router_nft.h"

#define TEXT_BYTES_MAX (1024 * 1024)
#define SPACE " \t\n"
#define WORD_MAX 64
#define REMOVALS_MAX 64 /* at once: what is left over waits for the next time */

enum {
	OPEN,
	LIMITED,
	STALE, /* limited, and nobody is there */
};

/* --- text --- */

/* As nft lists it: an address alone has no prefix. */
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

/* A protocol alone is listed by its number: its name is known only where there is an
 * /etc/protocols. */
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

/* The rules of a seat, each after the words of `before`. An entry of the allowlist never means the
 * host's ports, whatever addresses it covers. */
static void write_chain(const struct box_egress *egress, const char *before, struct box_buf *text)
{
	for (uint32_t i = 0; i < egress->host_port_count; i++) {
		(void)box_buf_printf(text, "%sip daddr " BOX_EGRESS_HOST " tcp dport %u accept\n",
			before, egress->host_ports[i]);
	}
	(void)box_buf_printf(text, "%sip daddr " BOX_EGRESS_HOST " counter jump refuse\n", before);
	for (uint32_t i = 0; i < egress->allow_count; i++) {
		write_entry(&egress->allow[i], "tcp", IPPROTO_TCP, before, text);
		write_entry(&egress->allow[i], "udp", IPPROTO_UDP, before, text);
	}
	(void)box_buf_printf(text, "%scounter jump refuse\n", before);
}

static void write_seat(uint32_t seat, struct box_buf *text)
{
	(void)box_buf_printf(text, "add chain inet box seat%" PRIu32 "\n", seat);
	(void)box_buf_printf(text,
		"add element inet box egress { \"b%" PRIu32 "\" : goto seat%" PRIu32 " }\n", seat,
		seat);
}

/* What may not be there is added first: to take away what is not there is an error. */
static void write_removal(uint32_t seat, struct box_buf *text)
{
	write_seat(seat, text);
	(void)box_buf_printf(text, "delete element inet box egress { \"b%" PRIu32 "\" }\n", seat);
	(void)box_buf_printf(text, "flush chain inet box seat%" PRIu32 "\n", seat);
	(void)box_buf_printf(text, "delete chain inet box seat%" PRIu32 "\n", seat);
}

static void write_removals(const struct box_egress_rules_slots *seats, struct box_buf *text)
{
	size_t count = 0;
	for (uint32_t i = 0; i < BOX_NETWORK_SLOTS_MAX && count < REMOVALS_MAX; i++) {
		if (seats->states[i] == STALE) {
			write_removal(i, text);
			count++;
		}
	}
}

/* The same that were written. */
static void removals_are_done(struct box_egress_rules_slots *seats)
{
	size_t count = 0;
	for (uint32_t i = 0; i < BOX_NETWORK_SLOTS_MAX && count < REMOVALS_MAX; i++) {
		if (seats->states[i] == STALE) {
			seats->states[i] = OPEN;
			count++;
		}
	}
}

void box_egress_rules_write(const struct box_egress_rules_slots *seats, uint32_t seat,
	const struct box_egress *egress, struct box_buf *text)
{
	char before[64];
	(void)snprintf(before, sizeof(before), "add rule inet box seat%" PRIu32 " ", seat);
	write_removals(seats, text);
	write_removal(seat, text);
	write_seat(seat, text);
	write_chain(egress, before, text);
}

/* --- what is read back --- */

/* Whether the next word is this one; then it is behind us. */
static bool next_is(const char **at, const char *word)
{
	size_t len = strlen(word);
	*at += strspn(*at, SPACE);
	if (strncmp(*at, word, len) != 0 || !strchr(SPACE, (*at)[len])) {
		return false;
	}
	*at += len;
	return true;
}

/* All words of a text, one after the other. */
static bool next_are(const char **at, const char *words)
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
		if (!next_is(at, word)) {
			return false;
		}
	}
	return true;
}

/* "b5" : goto seat5 -- of a seat that is to be there or may be; with the comma after it, if one is.
 * Those that are to be there are counted. */
static bool next_element(const char **at, const struct box_egress_rules_slots *seats, size_t *found)
{
	unsigned long number = 0;
	char words[WORD_MAX];
	*at += strspn(*at, SPACE);
	if (strncmp(*at, "\"b", 2) == 0) {
		number = strtoul(*at + 2, NULL, 10);
	}
	(void)snprintf(words, sizeof(words), "\"b%lu\" : goto", number);
	if (number >= BOX_NETWORK_SLOTS_MAX || seats->states[number] == OPEN ||
		!next_are(at, words)) {
		return false;
	}
	*found += seats->states[number] == LIMITED;
	(void)snprintf(words, sizeof(words), "seat%lu,", number);
	if (next_is(at, words)) {
		return true;
	}
	words[strlen(words) - 1] = '\0';
	return next_is(at, words);
}

static bool is_map(const char **at, const struct box_egress_rules_slots *seats)
{
	size_t wanted = 0;
	size_t found = 0;
	for (uint32_t i = 0; i < BOX_NETWORK_SLOTS_MAX; i++) {
		wanted += seats->states[i] == LIMITED;
	}
	if (!next_are(at, "table inet box { map egress { type ifname : verdict elements = {")) {
		return false;
	}
	while (!next_is(at, "}")) {
		if (!next_element(at, seats, &found)) {
			return false;
		}
	}
	/* The kernel has no element twice. */
	return found == wanted && next_are(at, "} }");
}

bool box_egress_rules_match(const struct box_egress_rules_slots *seats, uint32_t seat,
	const struct box_egress *egress, const char *listing)
{
	struct box_buf wanted = box_buf(TEXT_BYTES_MAX);
	(void)box_buf_printf(&wanted, "table inet box { chain seat%" PRIu32 " {\n", seat);
	write_chain(egress, "", &wanted);
	(void)box_buf_append(&wanted, "} }", sizeof("} }"));
	bool same = !wanted.overflowed && is_map(&listing, seats) &&
		next_are(&listing, wanted.bytes) && listing[strspn(listing, SPACE)] == '\0';
	box_buf_free(&wanted);
	return same;
}

/* --- what is done --- */

static int tell_nft(const struct box_router *router, const struct box_buf *text, char **ret_said,
	struct box_err *err)
{
	_cleanup_(box_close_p) int input = memfd_create("egress", MFD_CLOEXEC);
	if (input < 0 || text->overflowed || !text->bytes ||
		write(input, text->bytes, text->len) != (ssize_t)text->len) {
		return box_err_set(err, BOX_ERR_OS, EIO, "egress: the rules cannot be written");
	}
	return box_router_run_nft(router, input, ret_said, err);
}

static int read_back(const struct box_egress_rules_slots *seats, const struct box_router *router,
	uint32_t seat, const struct box_egress *egress, struct box_err *err)
{
	_cleanup_(box_free_p) char *listing = NULL;
	_cleanup_(box_buf_free) struct box_buf question = box_buf(TEXT_BYTES_MAX);
	(void)box_buf_printf(
		&question, "list map inet box egress\nlist chain inet box seat%" PRIu32 "\n", seat);
	int r = tell_nft(router, &question, &listing, err);
	if (r < 0 || box_egress_rules_match(seats, seat, egress, listing)) {
		return r;
	}
	return box_err_set(err, BOX_ERR_BACKEND_UNAVAILABLE, EIO,
		"egress cannot be held: the rules of the box are not what was set");
}

int box_egress_rules_set(struct box_egress_rules_slots *seats, const struct box_router *router,
	uint32_t seat, const struct box_egress *egress, struct box_err *err)
{
	_cleanup_(box_free_p) char *said = NULL;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(TEXT_BYTES_MAX);
	seats->states[seat] = LIMITED;
	box_egress_rules_write(seats, seat, egress, &text);
	int r = tell_nft(router, &text, &said, err);
	if (r == 0) {
		removals_are_done(seats);
		r = read_back(seats, router, seat, egress, err);
	}
	if (r < 0) {
		seats->states[seat] = STALE; /* whatever is there of it */
	}
	return r;
}

void box_egress_rules_release(struct box_egress_rules_slots *seats, uint32_t seat)
{
	if (seats->states[seat] == LIMITED) {
		seats->states[seat] = STALE;
	}
}

int box_egress_rules_clear(struct box_egress_rules_slots *seats, const struct box_router *router,
	uint32_t seat, struct box_err *err)
{
	_cleanup_(box_free_p) char *said = NULL;
	_cleanup_(box_buf_free) struct box_buf text = box_buf(TEXT_BYTES_MAX);
	if (seats->states[seat] == OPEN) {
		return 0;
	}
	write_removals(seats, &text);
	write_removal(seat, &text);
	int r = tell_nft(router, &text, &said, err);
	if (r == 0) {
		removals_are_done(seats);
		seats->states[seat] = OPEN;
	}
	return r;
}
