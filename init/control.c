/* Owns the control socket of box-init and its two packet buffers. There is one buffer for answers: an
 * answer that the socket does not take stays there, and meanwhile no pipe is read, so that no queue is
 * needed. Of a stream, the beginning of that answer may have been sent already.
 *
 * In a microVM the socket is a stream. A request there carries a number in place of an fd, and the
 * privileged helper resolves that number. Exactly one packet is read at a time: the bytes of
 * the next one stay in the socket, which wakes the event loop again. */
#include "init/control.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"
#include "init/guest/guest_clock.h"
#include "init/guest/priv_helper.h"
#include "protocol/init_process.h"
#include "protocol/microvm.h"

/* One more byte: a text without its NUL can be terminated in place. */
static _Alignas(16) char incoming[BOX_INIT_PACKET_MAX + 1];
static _Alignas(16) char outgoing[BOX_INIT_PACKET_MAX];
static size_t received; /* of a stream: bytes in incoming */
static size_t waiting;  /* bytes in outgoing */
static size_t sent;     /* of a stream: how many of them were sent */
static bool is_stream;

void box_control_open(void)
{
	int type = SOCK_SEQPACKET;
	socklen_t size = sizeof(type);
	(void)getsockopt(BOX_INIT_CONTROL_FD, SOL_SOCKET, SO_TYPE, &type, &size);
	is_stream = type == SOCK_STREAM;
}

/* --- requests in packets --- */

static bool has_fd(uint32_t kind)
{
	return kind == BOX_INIT_MOUNT || kind == BOX_INIT_PIPE || kind == BOX_INIT_DRAIN ||
		kind == BOX_INIT_START_PROCESS_IN;
}

static int check(const struct box_fds *fds, size_t got, struct box_control_request *request)
{
	if (got >= sizeof(request->header)) {
		memcpy(&request->header, incoming, sizeof(request->header));
	}
	if (fds->cut || box_init_check_request(incoming, got) < 0) {
		return -EBADMSG;
	}
	return fds->count == has_fd(request->header.kind) ? 0 : -EBADMSG;
}

static int receive_packet(struct box_control_request *ret_request)
{
	struct box_control_request request = {.fd = -1, .events_fd = -1};
	struct box_fds fds = {.list = &request.fd, .max = 1};
	ssize_t got = box_fds_receive(
		BOX_INIT_CONTROL_FD, incoming, BOX_INIT_PACKET_MAX, &fds, MSG_DONTWAIT);
	if (got <= 0) {
		/* An empty packet looks like the end of the socket and is treated as that. */
		box_fds_close(&fds);
		return got == -EAGAIN ? -EAGAIN : -EPIPE;
	}
	int r = check(&fds, (size_t)got, &request);
	if (r < 0) {
		box_fds_close(&fds);
	}
	request.bytes = incoming + sizeof(request.header);
	request.size = r < 0 ? 0 : (size_t)got - sizeof(request.header);
	*ret_request = request;
	return r;
}

/* --- requests in a stream --- */

/* 0 when a packet is complete; -EAGAIN; -EPIPE. */
static int read_packet(void)
{
	int missing;
	while ((missing = box_init_frame_missing(incoming, received)) > 0) {
		ssize_t got = recv(
			BOX_INIT_CONTROL_FD, incoming + received, (size_t)missing, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return got < 0 && errno == EAGAIN ? -EAGAIN : -EPIPE;
		}
		received += (size_t)got;
	}
	/* After an invalid header nobody knows where the next packet begins. */
	return missing < 0 ? -EPIPE : 0;
}

/* A packet of box-vmm itself, which is always well-formed. */
static int handle_clock(const struct box_init_header *header)
{
	struct box_microvm_clock clock;
	if (header->size != sizeof(*header) + sizeof(clock) || header->id || header->reserved) {
		return -EPIPE;
	}
	memcpy(&clock, incoming + sizeof(*header), sizeof(clock));
	if (clock.step_ns != 0) {
		box_priv_helper_step_clock(clock.step_ns);
	} else if (!box_control_blocked()) {
		/* Otherwise box-vmm asks again later. */
		const struct box_microvm_time time = {clock.token, box_guest_clock_now()};
		box_control_send(BOX_MICROVM_TIME, 0, &time, sizeof(time));
	}
	return -EAGAIN;
}

/* Gets the fd that a number stands for. If there is no cgroup, the request for a managed process carries the
 * reason; if there is no mount, its command fails. */
static int resolve_number(struct box_control_request *request, uint32_t number)
{
	if (request->header.kind == BOX_INIT_MOUNT) {
		int fd = box_priv_helper_open_mount(number);
		request->fd = fd < 0 ? -1 : fd;
		return fd < 0 ? -EBADMSG : 0;
	}
	int procs_fd = box_priv_helper_make_cgroup(number, &request->events_fd);
	request->fd = procs_fd < 0 ? -1 : procs_fd;
	request->fd_error = procs_fd < 0 ? procs_fd : 0;
	return 0;
}

static int receive_framed(struct box_control_request *ret_request)
{
	struct box_control_request request = {.fd = -1, .events_fd = -1};
	int r = read_packet();
	if (r < 0) {
		return r;
	}
	size_t size = received;
	received = 0;
	memcpy(&request.header, incoming, sizeof(request.header));
	uint32_t kind = request.header.kind;
	if (kind == BOX_MICROVM_CLOCK) {
		return handle_clock(&request.header);
	}
	bool has_number = kind == BOX_INIT_MOUNT || kind == BOX_INIT_START_PROCESS_IN;
	uint32_t number = request.header.reserved;
	if (has_number) {
		request.header.reserved = 0;
		memcpy(incoming, &request.header, sizeof(request.header));
	}
	request.bytes = incoming + sizeof(request.header);
	r = box_init_check_request(incoming, size);
	if (r == 0 && has_number) {
		r = resolve_number(&request, number);
	}
	request.size = r < 0 ? 0 : size - sizeof(request.header);
	*ret_request = request;
	return r;
}

int box_control_receive(struct box_control_request *ret_request)
{
	return is_stream ? receive_framed(ret_request) : receive_packet(ret_request);
}

/* --- answers --- */

bool box_control_blocked(void)
{
	return waiting > 0;
}

void box_control_drop(void)
{
	/* After part of a packet, the rest must follow. */
	waiting = sent > 0 ? waiting : 0;
}

int box_control_flush(void)
{
	if (waiting == 0) {
		return 0;
	}
	ssize_t now;
	do {
		now = send(BOX_INIT_CONTROL_FD, outgoing + sent, waiting - sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (now < 0 && errno == EINTR);
	if (now < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)) {
		return 0;
	}
	sent += now < 0 ? 0 : (size_t)now;
	if (now >= 0 && sent < waiting) {
		return 0;
	}
	waiting = 0;
	sent = 0;
	return now < 0 ? -EPIPE : 0;
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
	/* If the socket is at its end, the next receive says so. */
	(void)box_control_flush();
}

void box_control_send(uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	if (size > 0) {
		memcpy(box_control_buffer(), bytes, size);
	}
	box_control_send_buffer(kind, id, size);
}
