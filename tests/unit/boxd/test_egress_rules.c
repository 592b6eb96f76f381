/* Allowlists: from text to numbers and back, the nft rules that are made of them, and which
 * listings of nft count as equal. */
#include "base/cleanup.h"
#include "base/macros.h"
#include "boxd/net/egress_rules.h"
#include "tests/unit/lib/test.h"

#define TEXT_MAX (256UL * 1024)

static struct box_egress_allow entry(const char *text)
{
	struct box_egress_allow allow = {0};
	ASSERT(box_egress_read(text, strlen(text), &allow) == NULL);
	return allow;
}

TEST(entries_are_written_as_they_mean)
{
	static const char *const rows[][2] = {
		{"0.0.0.0/0", "0.0.0.0/0"},
		{"0.0.0.0/0:1", "0.0.0.0/0:1"},
		{"255.255.255.255/32:65535", "255.255.255.255/32:65535"},
		{"10.1.2.3", "10.1.2.3/32"},
		{"10.1.2.3:53", "10.1.2.3/32:53"},
		{"10.1.2.2/31", "10.1.2.2/31"},
		{"128.0.0.0/1", "128.0.0.0/1"},
	};
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_egress_allow allow = entry(rows[i][0]);
		char text[BOX_EGRESS_TEXT];
		box_egress_write(&allow, text);
		ASSERT_STR(text, rows[i][1]);
	}
	struct box_egress_allow host = entry("10.1.2.3:53");
	ASSERT_INT(host.address, 0x0a010203);
	ASSERT_INT(host.prefix, 32);
	ASSERT_INT(host.port, 53);
	/* The given length counts, not a NUL in the text. */
	ASSERT(box_egress_read("10.0.0.0/8xyz", 10, &host) == NULL);
	ASSERT_INT(host.prefix, 8);
}

static struct box_egress three(void)
{
	struct box_egress egress = {.limited = 1,
		.allow_count = 4,
		.allow = {entry("192.0.2.1"), entry("10.0.0.0/8:53"), entry("10.0.0.0/8"),
			entry("192.0.2.1")},
		.host_port_count = 3,
		.host_ports = {8080, 80, 8080}};
	box_egress_normalize(&egress);
	return egress;
}

TEST(settled_means_in_order_and_once)
{
	struct box_egress egress = three();
	struct box_err err;
	ASSERT_INT(egress.allow_count, 3);
	ASSERT_INT(egress.allow[0].port, 0);
	ASSERT_INT(egress.allow[1].port, 53);
	ASSERT_INT(egress.allow[2].prefix, 32);
	ASSERT_INT(egress.host_port_count, 2);
	ASSERT_INT(egress.host_ports[0], 80);
	ASSERT_INT(box_egress_check(&egress, true, &err), 0);
	struct box_egress other = egress;
	ASSERT(box_egress_equal(&egress, &other));
	other.host_ports[1]++;
	ASSERT(!box_egress_equal(&egress, &other));
	other = egress;
	other.allow[2].port = 1;
	ASSERT(!box_egress_equal(&egress, &other));
	other = egress;
	other.allow_count--;
	ASSERT(!box_egress_equal(&egress, &other));
}

static struct box_egress_rules_slots slots;

/* The same fields as in box_egress_rules_set. */
enum {
	LIMITED = 1,
	STALE = 2
};

static const char rules[] = "add rule inet box slot7 ip daddr 198.18.0.3 tcp dport 80 accept\n"
			    "add rule inet box slot7 ip daddr 198.18.0.3 tcp dport 8080 accept\n"
			    "add rule inet box slot7 ip daddr 198.18.0.3 counter jump refuse\n"
			    "add rule inet box slot7 ip daddr 10.0.0.0/8 meta l4proto 6 accept\n"
			    "add rule inet box slot7 ip daddr 10.0.0.0/8 meta l4proto 17 accept\n"
			    "add rule inet box slot7 ip daddr 10.0.0.0/8 tcp dport 53 accept\n"
			    "add rule inet box slot7 ip daddr 10.0.0.0/8 udp dport 53 accept\n"
			    "add rule inet box slot7 ip daddr 192.0.2.1 meta l4proto 6 accept\n"
			    "add rule inet box slot7 ip daddr 192.0.2.1 meta l4proto 17 accept\n"
			    "add rule inet box slot7 counter jump refuse\n";

#define GOES(slot)                                                            \
	"add chain inet box slot" slot "\n"                                   \
	"add element inet box egress { \"b" slot "\" : goto slot" slot " }\n" \
	"delete element inet box egress { \"b" slot "\" }\n"                  \
	"flush chain inet box slot" slot "\n"                                 \
	"delete chain inet box slot" slot "\n"

TEST(what_nft_is_told)
{
	struct box_egress egress = three();
	struct box_egress_rules_addresses addresses = box_egress_rules_resolve(&egress);
	_cleanup_(box_buf_free) struct box_buf text = box_buf(TEXT_MAX);
	slots.states[7] = LIMITED;
	slots.states[3] = LIMITED;
	slots.states[9] = STALE;
	box_egress_rules_write(&slots, 7, &addresses, &text);
	(void)box_buf_append(&text, "", 1);
	_cleanup_(box_buf_free) struct box_buf wanted = box_buf(TEXT_MAX);
	(void)box_buf_printf(&wanted, "%s",
		GOES("9") GOES("7") "add chain inet box slot7\n"
				    "add element inet box egress { \"b7\" : goto slot7 }\n");
	(void)box_buf_append(&wanted, rules, sizeof(rules));
	ASSERT_STR(text.bytes, wanted.bytes);
}

/* The output of nft 1.0.6. */
#define MAP                                                                                \
	"table inet box {\n\tmap egress {\n\t\ttype ifname : verdict\n\t\telements = { "   \
	"\"b3\" : goto slot3,\n\t\t\t     \"b7\" : goto slot7,\n\t\t\t     \"b9\" : goto " \
	"slot9 }\n\t}\n}\n"
#define BEGIN "table inet box {\n\tchain slot7 {\n"
#define FIRST                                             \
	"\t\tip daddr 198.18.0.3 tcp dport 80 accept\n"   \
	"\t\tip daddr 198.18.0.3 tcp dport 8080 accept\n" \
	"\t\tip daddr 198.18.0.3 counter jump refuse\n"   \
	"\t\tip daddr 10.0.0.0/8 meta l4proto 6 accept\n" \
	"\t\tip daddr 10.0.0.0/8 meta l4proto 17 accept\n"
#define SECOND                                           \
	"\t\tip daddr 10.0.0.0/8 tcp dport 53 accept\n"  \
	"\t\tip daddr 10.0.0.0/8 udp dport 53 accept\n"  \
	"\t\tip daddr 192.0.2.1 meta l4proto 6 accept\n" \
	"\t\tip daddr 192.0.2.1 meta l4proto 17 accept\n"
#define LAST "\t\tcounter jump refuse\n"
#define END "\t}\n}\n"
#define ELEMENTS(list)                                                           \
	"table inet box { map egress { type ifname : verdict elements = { " list \
	" } } } " BEGIN FIRST SECOND LAST END

TEST(what_is_read_back_is_compared_in_everything)
{
	static const struct {
		const char *listing;
		bool same;
	} rows[] = {
		{MAP BEGIN FIRST SECOND LAST END, true},
		{ELEMENTS("\"b3\" : goto slot3, \"b7\" : goto slot7"), true},
		{MAP BEGIN FIRST SECOND END, false},
		{MAP BEGIN FIRST LAST END, false},
		{MAP BEGIN SECOND FIRST LAST END, false},
		{MAP BEGIN FIRST SECOND "accept\n" LAST END, false},
		{MAP BEGIN FIRST SECOND LAST "accept\n" END, false},
		{MAP BEGIN FIRST SECOND LAST END "table inet other {\n}\n", false},
		{BEGIN FIRST SECOND LAST END, false},
		{MAP, false},
		{"", false},
		{ELEMENTS("\"b3\" : goto slot3"), false},
		{ELEMENTS("\"b7\" : goto slot7"), false},
		{ELEMENTS("\"b3\" : goto slot7, \"b7\" : goto slot7"), false},
		{ELEMENTS("\"b3\" : goto slot3, \"b7\" : goto refuse"), false},
		{ELEMENTS("\"b3\" : goto slot3, \"b7\" : accept"), false},
		{ELEMENTS("\"b3\" : goto slot3, \"b7\" : goto slot7, \"b8\" : goto slot8"), false},
		{ELEMENTS("\"b3\" : goto slot3, \"b7\" : goto slot7, \"b99999\" : goto slot99999"),
			false},
	};
	struct box_egress egress = three();
	struct box_egress_rules_addresses addresses = box_egress_rules_resolve(&egress);
	slots.states[7] = LIMITED;
	slots.states[3] = LIMITED;
	slots.states[9] = STALE;
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		if (box_egress_rules_match(&slots, 7, &addresses, rows[i].listing) !=
			rows[i].same) {
			TEST_FAIL("row %zu", i);
		}
	}
	struct box_egress other = egress;
	struct box_egress_rules_addresses others = box_egress_rules_resolve(&other);
	other.allow[1].port++;
	ASSERT(!box_egress_rules_match(&slots, 7, &others, rows[0].listing));
	ASSERT(!box_egress_rules_match(&slots, 3, &addresses, rows[0].listing));
}

TEST(the_largest_list_fits)
{
	struct box_egress egress = {.limited = 1};
	_cleanup_(box_buf_free) struct box_buf text = box_buf(TEXT_MAX);
	for (uint32_t i = 0; i < BOX_EGRESS_ALLOW_MAX; i++) {
		egress.allow[egress.allow_count++] = (struct box_egress_allow){
			.address = 0xdfffffc0 + i, .prefix = 32, .port = (uint16_t)(65000 + i)};
	}
	struct box_egress_rules_addresses addresses = box_egress_rules_resolve(&egress);
	box_egress_rules_write(&slots, 16000, &addresses, &text);
	ASSERT(!text.overflowed);
}
