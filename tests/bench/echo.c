/* The baseline of messages: what libwebsockets on libuv costs when nothing is done with a message.
 *
 * Listens on a free port of 127.0.0.1, prints the port, and sends every message back as it came, in
 * frames as large as those of Box. Ends with its stdin. */
#include <libwebsockets.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#define FRAME_BYTES 131072UL

struct message {
	struct message *next;
	size_t len;
	size_t sent;
	bool binary;
	unsigned char bytes[]; /* LWS_PRE of them in front of the text */
};

struct connection {
	struct message *first;
	struct message **last;
	struct message *growing;
	size_t room;
};

static int fail(const char *what)
{
	(void)fprintf(stderr, "echo: %s\n", what);
	return 1;
}

static int on_receive(struct lws *wsi, struct connection *c, const void *bytes, size_t len)
{
	size_t have = c->growing ? c->growing->len : 0;
	if (!c->growing || have + len > c->room) {
		bool fresh = !c->growing;
		while (c->room < have + len) {
			c->room = c->room ? c->room * 2 : 512;
		}
		c->growing = realloc(c->growing, sizeof(*c->growing) + LWS_PRE + c->room);
		if (!c->growing) {
			abort();
		}
		if (fresh) {
			*c->growing = (struct message){.binary = lws_frame_is_binary(wsi)};
		}
	}
	memcpy(c->growing->bytes + LWS_PRE + have, bytes, len);
	c->growing->len += len;
	if (lws_remaining_packet_payload(wsi) > 0 || !lws_is_final_fragment(wsi)) {
		return 0;
	}
	*c->last = c->growing;
	c->last = &c->growing->next;
	c->growing = NULL;
	c->room = 0;
	lws_callback_on_writable(wsi);
	return 0;
}

static int on_writable(struct lws *wsi, struct connection *c)
{
	while (c->first && !lws_send_pipe_choked(wsi)) {
		struct message *m = c->first;
		size_t left = m->len - m->sent;
		size_t len = left < FRAME_BYTES ? left : FRAME_BYTES;
		int flags = lws_write_ws_flags(
			m->binary ? LWS_WRITE_BINARY : LWS_WRITE_TEXT, m->sent == 0, len == left);
		if (lws_write(wsi, m->bytes + LWS_PRE + m->sent, len,
			    (enum lws_write_protocol)flags) < (int)len) {
			return -1;
		}
		m->sent += len;
		if (m->sent == m->len) {
			c->first = m->next;
			c->last = c->first ? c->last : &c->first;
			free(m);
		}
	}
	if (c->first) {
		lws_callback_on_writable(wsi);
	}
	return 0;
}

static int callback(
	struct lws *wsi, enum lws_callback_reasons reason, void *user, void *in, size_t len)
{
	struct connection *c = user;
	switch (reason) {
	case LWS_CALLBACK_ESTABLISHED:
		c->last = &c->first;
		return 0;
	case LWS_CALLBACK_RECEIVE:
		return on_receive(wsi, c, in, len);
	case LWS_CALLBACK_SERVER_WRITEABLE:
		return on_writable(wsi, c);
	case LWS_CALLBACK_CLOSED:
		free(c->growing);
		for (struct message *m = c->first; m;) {
			struct message *next = m->next;
			free(m);
			m = next;
		}
		return 0;
	default:
		return 0;
	}
}

static const struct lws_protocols protocols[] = {
	{.name = "echo", .callback = callback, .per_session_data_size = sizeof(struct connection)},
	{0},
};

static void stdin_cb(uv_poll_t *poll, int status, int events)
{
	char waste[64];
	(void)poll;
	(void)events;
	if (status < 0 || read(STDIN_FILENO, waste, sizeof(waste)) <= 0) {
		exit(0);
	}
}

int main(void)
{
	static uv_loop_t loop;
	static uv_poll_t watch;
	void *loops[] = {&loop};
	if (uv_loop_init(&loop) < 0) {
		return fail("no event loop");
	}
	struct lws_context_creation_info info = {
		.port = 0,
		.iface = "127.0.0.1",
		.protocols = protocols,
		.options = LWS_SERVER_OPTION_LIBUV | LWS_SERVER_OPTION_EXPLICIT_VHOSTS |
			LWS_SERVER_OPTION_DISABLE_IPV6 |
			LWS_SERVER_OPTION_SKIP_SERVER_CANONICAL_NAME,
		.foreign_loops = loops,
		.gid = (gid_t)-1,
		.uid = (uid_t)-1,
		.pt_serv_buf_size = FRAME_BYTES,
		.vhost_name = "echo",
	};
	lws_set_log_level(LLL_ERR, NULL);
	struct lws_context *context = lws_create_context(&info);
	struct lws_vhost *vhost = context ? lws_create_vhost(context, &info) : NULL;
	if (!vhost) {
		return fail("libwebsockets cannot start");
	}
	if (uv_poll_init(&loop, &watch, STDIN_FILENO) < 0 ||
		uv_poll_start(&watch, UV_READABLE, stdin_cb) < 0) {
		return fail("stdin is neither a pipe nor a socket");
	}
	printf("%d\n", lws_get_vhost_listen_port(vhost));
	(void)fflush(stdout);
	return uv_run(&loop, UV_RUN_DEFAULT);
}
