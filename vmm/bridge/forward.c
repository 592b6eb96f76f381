/* Owns the format of both packet buffers. The guest is untrusted: no byte of its packet is forwarded before the whole
 * packet is validated. Packets of box-rpc are validated by box-init, as in any other box; only their size is checked
 * here, because a wrong size would shift all later packets in the stream. Called by bridge.c. */
#include "vmm/bridge/forward.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"

/* --- to the guest --- */

/* CLOCK may only come from the bridge. */
static bool is_request(uint32_t kind)
{
	return kind < BOX_INIT_RESET_DONE && kind != BOX_MICROVM_CLOCK;
}

static int check(const struct box_fds *fds, const char *bytes, size_t got)
{
	struct box_init_header header;
	if (fds->cut || got < sizeof(header)) {
		return -EBADMSG;
	}
	memcpy(&header, bytes, sizeof(header));
	return header.size == got && is_request(header.kind) ? 0 : -EBADMSG;
}

int box_forward_take(struct box_forward_to_guest *packet, int control, int *ret_fd)
{
	int fd = -1;
	struct box_fds fds = {.list = &fd, .max = 1};
	ssize_t got = box_fds_receive(
		control, packet->bytes, sizeof(packet->bytes), &fds, MSG_DONTWAIT);
	/* An empty packet looks like the end of the socket and is treated as that. */
	int r = got == -EAGAIN ? -EAGAIN
		: got <= 0     ? -EPIPE
			       : check(&fds, packet->bytes, (size_t)got);
	if (r < 0) {
		box_fds_close(&fds);
		return r;
	}
	packet->size = (size_t)got;
	packet->sent = 0;
	*ret_fd = fd;
	return 0;
}

void box_forward_put(
	struct box_forward_to_guest *packet, uint32_t kind, const void *bytes, size_t size)
{
	struct box_init_header header = {.size = (uint32_t)(sizeof(header) + size), .kind = kind};
	memcpy(packet->bytes, &header, sizeof(header));
	memcpy(packet->bytes + sizeof(header), bytes, size);
	packet->size = header.size;
	packet->sent = 0;
}

struct box_init_header box_forward_header(const struct box_forward_to_guest *packet)
{
	struct box_init_header header;
	memcpy(&header, packet->bytes, sizeof(header));
	return header;
}

void box_forward_set_number(struct box_forward_to_guest *packet, uint32_t number)
{
	struct box_init_header header = box_forward_header(packet);
	header.reserved = number;
	memcpy(packet->bytes, &header, sizeof(header));
}

int box_forward_push(struct box_forward_to_guest *packet, int stream)
{
	while (packet->sent < packet->size) {
		ssize_t n = send(stream, packet->bytes + packet->sent, packet->size - packet->sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			bool later = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
			return later ? 0 : -EPIPE;
		}
		packet->sent += (size_t)n;
	}
	packet->size = 0;
	packet->sent = 0;
	return 0;
}

/* --- from the guest --- */

int box_forward_pull(struct box_forward_from_guest *from, int stream)
{
	if (from->start > 0) {
		memmove(from->bytes, from->bytes + from->start, from->end - from->start);
		from->end -= from->start;
		from->start = 0;
	}
	ssize_t got;
	do {
		got = recv(stream, from->bytes + from->end, sizeof(from->bytes) - from->end,
			MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got <= 0) {
		return got < 0 && errno == EAGAIN ? -EAGAIN : -EPIPE;
	}
	from->end += (size_t)got;
	return 0;
}

/* TIME is for the bridge, and BOX_ENDS may only come from it. */
static bool is_answer(const char *packet, const struct box_init_header *header)
{
	if (header->kind == BOX_MICROVM_TIME) {
		return header->size == sizeof(*header) + sizeof(struct box_microvm_time) &&
			header->id == 0 && header->reserved == 0;
	}
	return header->kind != BOX_INIT_BOX_ENDS &&
		box_init_check_answer(packet, header->size) == 0;
}

int box_forward_is_whole(
	const struct box_forward_from_guest *from, struct box_init_header *ret_header)
{
	struct box_init_header header;
	size_t have = from->end - from->start;
	if (have < sizeof(header)) {
		return 0;
	}
	memcpy(&header, from->bytes + from->start, sizeof(header));
	if (header.size < sizeof(header) || header.size > BOX_INIT_PACKET_MAX) {
		return -EBADMSG;
	}
	if (have < header.size) {
		return 0;
	}
	if (!is_answer(from->bytes + from->start, &header)) {
		return -EBADMSG;
	}
	*ret_header = header;
	return 1;
}

const char *box_forward_bytes(const struct box_forward_from_guest *from)
{
	return from->bytes + from->start + sizeof(struct box_init_header);
}

void box_forward_drop(struct box_forward_from_guest *from)
{
	struct box_init_header header;
	memcpy(&header, from->bytes + from->start, sizeof(header));
	from->start += header.size;
	if (from->start == from->end) {
		from->start = 0;
		from->end = 0;
	}
}

int box_forward_send(struct box_forward_from_guest *from, int control)
{
	struct box_init_header header;
	memcpy(&header, from->bytes + from->start, sizeof(header));
	ssize_t sent;
	do {
		sent = send(control, from->bytes + from->start, header.size,
			MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0) {
		return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -EPIPE;
	}
	box_forward_drop(from);
	return 0;
}
