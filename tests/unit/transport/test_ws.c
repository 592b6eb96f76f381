/* Pings on WebSocket connections: the peer's are answered, ours are sent to silent peers, and a
 * peer that does not answer is closed. libwebsockets is real, the peer is a plain socket. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <uv.h>

#include "base/buf.h"
#include "base/clock.h"
#include "tests/unit/lib/test.h"
#include "transport/ws.h"

#define KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define FIN_TEXT 0x81
#define FIN_CLOSE 0x88
#define FIN_PING 0x89
#define FIN_PONG 0x8a
#define TICK_MS 20
#define PIECE_BYTES 65536
#define SOON_MS 10000 /* far more than it takes */

struct play {
	uv_loop_t loop;
	uv_timer_t tick;
	uv_prepare_t before_reading;
	struct box_ws *ws;
	struct box_ws_socket *socket;
	size_t messages;
	int fd; /* the peer's */
	unsigned char got[4096];
	size_t len;
	uint64_t opened_ms;
	bool closed;
};
static struct play play;

static void opened(void *arg, struct box_ws_socket *socket)
{
	(void)arg;
	play.socket = socket;
	play.opened_ms = box_clock_ms();
}

static int message(void *arg, struct box_buf bytes, bool binary, const char **ret_why)
{
	(void)arg;
	(void)binary;
	(void)ret_why;
	play.messages++;
	box_buf_free(&bytes);
	return 0;
}

static bool next(void *arg, struct box_ws_frame *ret_frame)
{
	(void)arg;
	(void)ret_frame;
	return false;
}

static void sent(void *arg, const struct box_ws_frame *frame)
{
	(void)arg;
	(void)frame;
	TEST_FAIL("the user had nothing to send");
}

static void closing(void *arg)
{
	(void)arg;
}

static void closed(void *arg)
{
	(void)arg;
	play.closed = true;
}

static const struct box_ws_user user = {
	.opened = opened,
	.message = message,
	.next = next,
	.sent = sent,
	.closing = closing,
	.closed = closed,
};

static void on_tick(uv_timer_t *timer)
{
	(void)timer;
	box_ws_tick(play.ws);
}

/* Two ends of a TCP connection: returns ours; the peer's is in `play`. */
static int connect_peer(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(bind(listener, (struct sockaddr *)&address, size) == 0);
	ASSERT(listen(listener, 1) == 0);
	ASSERT(getsockname(listener, (struct sockaddr *)&address, &size) == 0);
	play.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT(connect(play.fd, (struct sockaddr *)&address, size) == 0);
	ASSERT(fcntl(play.fd, F_SETFL, O_NONBLOCK) == 0);
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	ASSERT(fd >= 0);
	(void)close(listener);
	return fd;
}

static void turn(void)
{
	(void)uv_run(&play.loop, UV_RUN_ONCE);
	ssize_t n = recv(play.fd, play.got + play.len, sizeof(play.got) - play.len, 0);
	play.len += n > 0 ? (size_t)n : 0;
}

static void start(struct box_keepalive_times times)
{
	ASSERT(uv_loop_init(&play.loop) == 0);
	play.ws = box_ws_new(&play.loop, &times);
	ASSERT(play.ws);
	ASSERT(uv_timer_init(&play.loop, &play.tick) == 0);
	ASSERT(uv_prepare_init(&play.loop, &play.before_reading) == 0);
	ASSERT(uv_timer_start(&play.tick, on_tick, TICK_MS, TICK_MS) == 0);
}

/* An open connection whose handshake the peer has read. */
static void open_connection(struct box_keepalive_times times)
{
	start(times);
	struct box_ws_upgrade upgrade = {.fd = connect_peer(), .key = KEY};
	ASSERT(box_ws_adopt(play.ws, &upgrade, &user, NULL) == 0);
	while (play.len < 4 || memcmp(play.got + play.len - 4, "\r\n\r\n", 4) != 0) {
		turn();
	}
	play.len = 0;
	ASSERT(play.opened_ms > 0);
}

/* A control frame from the peer, with a mask of zeros. */
static void say(unsigned char head, const void *bytes, unsigned char len)
{
	unsigned char frame[6 + 125] = {head, 0x80 | len};
	ASSERT(len <= 125);
	memcpy(frame + 6, bytes, len);
	ASSERT_INT(send(play.fd, frame, 6 + (size_t)len, 0), 6 + len);
}

/* Where the first frame of this kind starts in the received bytes, or NULL. All are short. */
static const unsigned char *find(unsigned char head)
{
	for (size_t at = 0; at + 2 <= play.len; at += 2 + (size_t)play.got[at + 1]) {
		if (play.got[at] == head && at + 2 + play.got[at + 1] <= play.len) {
			return play.got + at;
		}
	}
	return NULL;
}

static const unsigned char *wait_for(unsigned char head)
{
	uint64_t end_ms = box_clock_ms() + SOON_MS;
	while (!find(head) && !play.closed && box_clock_ms() < end_ms) {
		turn();
	}
	const unsigned char *found = find(head);
	if (!found) {
		TEST_FAIL("no frame that begins with %02x", head);
	}
	return found;
}

/* --- */

TEST(a_silent_one_is_asked)
{
	struct box_keepalive_times times = {30, 60};
	struct box_keepalive alive = {0};
	box_keepalive_heard(&alive, 5000);
	ASSERT(!box_keepalive_ping_due(&alive, &times, 5000));
	ASSERT(!box_keepalive_ping_due(&alive, &times, 34999));
	ASSERT(box_keepalive_ping_due(&alive, &times, 35000));
	ASSERT(!box_keepalive_ping_due(&alive, &times, 35001));
	ASSERT(!box_keepalive_ping_due(&alive, &times, 64999));
	ASSERT(box_keepalive_ping_due(&alive, &times, 65003));
	box_keepalive_heard(&alive, 80000);
	ASSERT(!box_keepalive_ping_due(&alive, &times, 109999));
	ASSERT(box_keepalive_ping_due(&alive, &times, 110000));
}

/* The loop turn that reads the ping starts before the second is over, and ends after it. */
static void ask_across_the_second(uv_prepare_t *prepare)
{
	if (box_clock_ms() < play.opened_ms + 900) {
		return;
	}
	(void)uv_prepare_stop(prepare);
	say(FIN_PING, "asked", 5);
	while (box_clock_ms() < play.opened_ms + 1050) {
		(void)usleep(1000);
	}
}

TEST(an_answer_is_to_what_was_asked_though_we_ask_at_that_moment)
{
	open_connection((struct box_keepalive_times){1, 30});
	ASSERT(uv_prepare_start(&play.before_reading, ask_across_the_second) == 0);
	const unsigned char *pong = wait_for(FIN_PONG);
	ASSERT_INT(pong[1], 5);
	ASSERT(memcmp(pong + 2, "asked", 5) == 0);
	(void)wait_for(FIN_PING);
}

TEST(who_does_not_answer_goes)
{
	open_connection((struct box_keepalive_times){1, 3});
	(void)wait_for(FIN_PING);
	uint64_t end_ms = box_clock_ms() + SOON_MS;
	while (!play.closed && box_clock_ms() < end_ms) {
		turn();
	}
	ASSERT(play.closed);
	ASSERT(box_clock_ms() >= play.opened_ms + 2900);
}

static void answer_for_seconds(bool empty)
{
	open_connection((struct box_keepalive_times){1, 3});
	while (box_clock_ms() < play.opened_ms + 4500) {
		const unsigned char *ping = wait_for(FIN_PING);
		ASSERT(ping[1] > 0);
		play.len = 0;
		say(FIN_PONG, ping + 2, empty ? 0 : ping[1]);
	}
	ASSERT(!play.closed);
}

TEST(who_answers_stays_and_is_asked_again)
{
	answer_for_seconds(false);
}

TEST(an_empty_answer_is_one)
{
	answer_for_seconds(true);
}

/* --- what libwebsockets reads --- */

TEST(libwebsockets_reads_by_our_function)
{
	ASSERT(box_ws_recv_is_hooked());
}

/* As with a libwebsockets that reads in another way; this is private to transport/. */
void box_ws_recv_forget(struct box_ws_socket *socket);

TEST(a_message_that_was_not_judged_is_refused)
{
	open_connection((struct box_keepalive_times){30, 60});
	say(FIN_TEXT, "judged", 6);
	while (play.messages == 0) {
		turn();
	}
	box_ws_recv_forget(play.socket);
	say(FIN_TEXT, "not judged", 10);
	const unsigned char *bye = wait_for(FIN_CLOSE);
	ASSERT_INT(bye[2] << 8 | bye[3], BOX_WS_INTERNAL);
	ASSERT_INT(play.messages, 1);
}

/* --- one that is not read, because it has not taken its answers --- */

static char endless[BOX_BUF_HEADROOM + PIECE_BYTES];

static void opened_owing(void *arg, struct box_ws_socket *socket)
{
	opened(arg, socket);
	box_ws_pause_reading(socket, true);
	box_ws_want_write(socket);
}

static bool next_endless(void *arg, struct box_ws_frame *ret_frame)
{
	(void)arg;
	*ret_frame = (struct box_ws_frame){
		.kind = BOX_WS_FRAME_BINARY,
		.bytes = endless + BOX_BUF_HEADROOM,
		.len = PIECE_BYTES,
		.first = true,
		.last = true,
	};
	return true;
}

static void sent_endless(void *arg, const struct box_ws_frame *frame)
{
	(void)arg;
	(void)frame;
}

static const struct box_ws_user owing = {
	.opened = opened_owing,
	.message = message,
	.next = next_endless,
	.sent = sent_endless,
	.closing = closing,
	.closed = closed,
};

/* How long the peer reads one piece every 50 ms, or nothing; its pongs would not be seen. */
static void owe_for(uint64_t ms, bool reads)
{
	static char taken[PIECE_BYTES];
	const int room = PIECE_BYTES;
	start((struct box_keepalive_times){1, 3});
	struct box_ws_upgrade upgrade = {.fd = connect_peer(), .key = KEY};
	ASSERT(setsockopt(play.fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)) == 0);
	ASSERT(box_ws_adopt(play.ws, &upgrade, &owing, NULL) == 0);
	uint64_t end_ms = box_clock_ms() + ms;
	for (uint64_t next_ms = 0; !play.closed && box_clock_ms() < end_ms;) {
		(void)uv_run(&play.loop, UV_RUN_ONCE);
		if (reads && box_clock_ms() >= next_ms) {
			(void)recv(play.fd, taken, sizeof(taken), 0);
			next_ms = box_clock_ms() + 50;
		}
	}
	ASSERT(play.opened_ms > 0);
}

TEST(a_slow_one_that_takes_what_it_is_owed_stays)
{
	owe_for(5000, true);
	ASSERT(!play.closed);
}

TEST(one_that_takes_nothing_goes)
{
	owe_for(SOON_MS, false);
	ASSERT(play.closed);
}
