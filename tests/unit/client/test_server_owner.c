/* Owners of the sockets in /proc/net/tcp, and which socket a connection to loopback reaches. */
#include "base/macros.h"
#include "client/connection/server_owner.h"
#include "tests/unit/lib/test.h"

#define V4(local, remote, state, uid)                                                      \
	"   0: " local " " remote " " state " 00000000:00000000 00:00000000 00000000 " uid \
	"        0 20873 1 0000000000000000 100 0 0 10 0\n"
#define REST "00000000:0000"
#define REST_V6 "00000000000000000000000000000000:0000"

static const struct {
	const char *text;
	bool is_line;
	bool serves; /* from port 40000 to port 5410 */
	uid_t uid;
} rows[] = {
	{V4("0100007F:1522", REST, "0A", "    0"), true, true, 0},
	{V4("00000000:1522", REST, "0A", " 1000"), true, true, 1000},
	{V4("0200007F:1522", REST, "0A", " 1000"), true, false, 1000}, /* 127.0.0.2 */
	{V4("0100000A:1522", REST, "0A", " 1000"), true, false, 1000}, /* 10.0.0.1 */
	{V4("0100007F:1523", REST, "0A", " 1000"), true, false, 1000},
	{V4("0100007F:1522", "0100007F:9C40", "01", "65534"), true, true, 65534},
	{V4("0100007F:1522", "0100007F:9C41", "01", "65534"), true, false, 65534},
	{V4("0100007F:9C40", "0100007F:1522", "01", "    7"), true, false, 7}, /* our own end */
	{V4("00000000000000000000000000000000:1522", REST_V6, "0A", "12"), true, true, 12},
	{V4("00000000000000000000000001000000:1522", REST_V6, "0A", "12"), true, true, 12},
	{V4("0000000000000000FFFF00000100007F:1522", REST_V6, "0A", "12"), true, true, 12},
	{V4("0000000000000000FFFF000000000000:1522", REST_V6, "0A", "12"), true, true, 12},
	{V4("B80D0120000000000000000001000000:1522", REST_V6, "0A", "12"), true, false, 12},
	{"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when\n", false, false, 0},
	{"", false, false, 0},
	{"   0: 0100007F:1522\n", false, false, 0},
	{V4("0100007F00:1522", REST, "0A", "0"), false, false, 0},
};

TEST(lines_of_the_table)
{
#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
	SKIP("the lines are of a machine with the other byte order");
#endif
	for (size_t i = 0; i < BOX_COUNT_OF(rows); i++) {
		struct box_server_owner_line line;
		ASSERT_INT(box_server_owner_parse_line(rows[i].text, &line), rows[i].is_line);
		if (rows[i].is_line) {
			ASSERT_INT(line.uid, rows[i].uid);
			ASSERT_INT(
				box_server_owner_line_serves(&line, 5410, 40000), rows[i].serves);
		}
	}
}
