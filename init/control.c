/* Owns both packet buffers of box-init. There is one for answers: what does not fit into the socket
 * stays there, and then nobody reads pipes, so that nothing needs a queue. Of a stream the front of
 * an answer may have gone already. */
#include "init/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "init/control_framed.h"
#include "protocol/init_process.h"

/* One more byte: a text without its NUL gets one in place. */
static _Alignas(16) char incoming[BOX_INIT_PACKET_MAX + 1];
static _Alignas(16) char outgoing[BOX_INIT_PACKET_MAX];
static size_t waiting; /* bytes in outgoing */
static size_t gone;    /* of them, in a stream */
static bool framed;

void box_control_open(void)
{
	int type = SOCK_SEQPACKET;
	socklen_t size = sizeof(type);
	(void)getsockopt(BOX_INIT_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &size);
	framed = type == SOCK_STREAM;
}

static bool has_fd(uint32_t kind)
{
	return kind == BOX_INIT_MOUNT || kind == BOX_INIT_PIPE || kind == BOX_INIT_DRAIN ||
		kind == BOX_INIT_START_PROCESS_IN;
}

static int judge(const struct box_fds *fds, size_t got, struct box_control_request *request)
{
	if (got >= sizeof(request->header)) {
		memcpy(&request->header, incoming, sizeof(request->header));
	}
	if (fds->cut || box_init_check_request(incoming, got) < 0) {
		return -EBADMSG;
	}
	return fds->count == has_fd(request->header.kind) ? 0 : -EBADMSG;
}

int box_control_receive(struct box_control_request *ret_request)
{
	if (framed) {
		return box_control_receive_framed(incoming, ret_request);
	}
	struct box_control_request request = {.fd = -1, .events = -1};
	struct box_fds fds = {.list = &request.fd, .max = 1};
	ssize_t got = box_fds_receive(
		BOX_INIT_CONTROL_FD, incoming, BOX_INIT_PACKET_MAX, &fds, MSG_DONTWAIT);
	if (got <= 0) {
		/* An empty packet looks like the end, and is treated as one. */
		box_fds_close(&fds);
		return got == -EAGAIN ? -EAGAIN : -EPIPE;
	}
	int r = judge(&fds, (size_t)got, &request);
	if (r < 0) {
		box_fds_close(&fds);
	}
	request.bytes = incoming + sizeof(request.header);
	request.size = r < 0 ? 0 : (size_t)got - sizeof(request.header);
	*ret_request = request;
	return r;
}

bool box_control_blocked(void)
{
	return waiting > 0;
}

void box_control_drop(void)
{
	/* Half a packet would take the next one for its end. */
	waiting = gone > 0 ? waiting : 0;
}

int box_control_flush(void)
{
	if (waiting == 0) {
		return 0;
	}
	ssize_t sent;
	do {
		sent = send(BOX_INIT_CONTROL_FD, outgoing + gone, waiting - gone,
			MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
		return 0;
	}
	gone += sent < 0 ? 0 : (size_t)sent;
	if (sent >= 0 && gone < waiting) {
		return 0;
	}
	waiting = 0;
	gone = 0;
	return sent < 0 ? -EPIPE : 0;
}

char *box_control_buffer(void)
{
	return outgoing + sizeof(struct box_init_header);
}

void box_control_send_buffer(uint32_t kind, uint32_t id, size_t size)
{
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size),
		.kind = kind,
		.id = id,
	};
	memcpy(outgoing, &header, sizeof(header));
	waiting = sizeof(header) + size;
	/* The end of the socket is noticed by the next receive. */
	(void)box_control_flush();
}

void box_control_send(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	if (size > 0) {
		memcpy(box_control_buffer(), bytes, size);
	}
	box_control_send_buffer(kind, id, size);
}
