/* Owns both packet buffers. What comes from the guest is taken for hostile: not a byte of a packet goes
 * on before all of it was judged. What comes from box-rpc is judged by box-init, as in any other box;
 * here its size must be right, or the guest would take one packet for another. */
#include "vmm/bridge/forward.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fds.h"

/* --- to the guest --- */

/* The clock is ours to tell. */
static bool is_request(uint32_t kind)
{
	return kind < BOX_INIT_RESET_DONE && kind != BOX_MICROVM_CLOCK;
}

static int judge(const struct box_fds *fds, const char *bytes, size_t got)
{
	struct box_init_header header;
	if (fds->cut || got < sizeof(header)) {
		return -EBADMSG;
	}
	memcpy(&header, bytes, sizeof(header));
	return header.size == got && is_request(header.kind) ? 0 : -EBADMSG;
}

int box_forward_take(struct box_forward_to_guest *down, int control, int *ret_fd)
{
	int fd = -1;
	struct box_fds fds = {.list = &fd, .max = 1};
	ssize_t got = box_fds_receive(
		control, down->bytes, sizeof(down->bytes), &fds, MSG_DONTWAIT);
	/* An empty packet looks like the end, and is treated as one. */
	int r = got == -EAGAIN ? -EAGAIN
		: got <= 0     ? -EPIPE
			       : judge(&fds, down->bytes, (size_t)got);
	if (r < 0) {
		box_fds_close(&fds);
		return r;
	}
	down->size = (size_t)got;
	down->sent = 0;
	*ret_fd = fd;
	return 0;
}

void box_forward_put(
	struct box_forward_to_guest *down, uint32_t kind, const void *bytes, size_t size)
{
	struct box_init_header header = {.size = (uint32_t)(sizeof(header) + size), .kind = kind};
	memcpy(down->bytes, &header, sizeof(header));
	memcpy(down->bytes + sizeof(header), bytes, size);
	down->size = header.size;
	down->sent = 0;
}

struct box_init_header box_forward_header(const struct box_forward_to_guest *down)
{
	struct box_init_header header;
	memcpy(&header, down->bytes, sizeof(header));
	return header;
}

void box_forward_set_number(struct box_forward_to_guest *down, uint32_t number)
{
	struct box_init_header header = box_forward_header(down);
	header.reserved = number;
	memcpy(down->bytes, &header, sizeof(header));
}

int box_forward_push(struct box_forward_to_guest *down, int stream)
{
	while (down->sent < down->size) {
		ssize_t n = send(stream, down->bytes + down->sent, down->size - down->sent,
			MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			bool later = errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM;
			return later ? 0 : -EPIPE;
		}
		down->sent += (size_t)n;
	}
	down->size = 0;
	down->sent = 0;
	return 0;
}

/* --- from the guest --- */

int box_forward_pull(struct box_forward_from_guest *up, int stream)
{
	if (up->start > 0) {
		memmove(up->bytes, up->bytes + up->start, up->end - up->start);
		up->end -= up->start;
		up->start = 0;
	}
	ssize_t got;
	do {
		got = recv(stream, up->bytes + up->end, sizeof(up->bytes) - up->end, MSG_DONTWAIT);
	} while (got < 0 && errno == EINTR);
	if (got <= 0) {
		return got < 0 && errno == EAGAIN ? -EAGAIN : -EPIPE;
	}
	up->end += (size_t)got;
	return 0;
}

/* The time is ours to hear, the last words ours to say. */
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
	const struct box_forward_from_guest *up, struct box_init_header *ret_header)
{
	struct box_init_header header;
	size_t have = up->end - up->start;
	if (have < sizeof(header)) {
		return 0;
	}
	memcpy(&header, up->bytes + up->start, sizeof(header));
	if (header.size < sizeof(header) || header.size > BOX_INIT_PACKET_MAX) {
		return -EBADMSG;
	}
	if (have < header.size) {
		return 0;
	}
	if (!is_answer(up->bytes + up->start, &header)) {
		return -EBADMSG;
	}
	*ret_header = header;
	return 1;
}

const char *box_forward_bytes(const struct box_forward_from_guest *up)
{
	return up->bytes + up->start + sizeof(struct box_init_header);
}

void box_forward_drop(struct box_forward_from_guest *up)
{
	struct box_init_header header;
	memcpy(&header, up->bytes + up->start, sizeof(header));
	up->start += header.size;
	if (up->start == up->end) {
		up->start = 0;
		up->end = 0;
	}
}

int box_forward_send(struct box_forward_from_guest *up, int control)
{
	struct box_init_header header;
	memcpy(&header, up->bytes + up->start, sizeof(header));
	ssize_t sent;
	do {
		sent = send(
			control, up->bytes + up->start, header.size, MSG_DONTWAIT | MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0) {
		return errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM ? -EAGAIN : -EPIPE;
	}
	box_forward_drop(up);
	return 0;
}
