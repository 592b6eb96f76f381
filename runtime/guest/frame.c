/* Owns what is known of a packet that is not whole yet. Never reads beyond its end: what is behind
 * waits in the socket, which wakes us for it. */
#include "runtime/guest/frame.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "runtime/guest/clock.h"
#include "runtime/guest/machine.h"
#include "runtime/guest/steward.h"
#include "runtime/guest/wire_kept.h"

static size_t have;

/* 0 when a packet is whole; -EAGAIN; -EPIPE. */
static int read_on(char *packet)
{
	int missing;
	while ((missing = box_guest_frame_missing(packet, have)) > 0) {
		ssize_t got = recv(
			BOX_GUEST_CONTROL_FD, packet + have, (size_t)missing, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR) {
			continue;
		}
		if (got <= 0) {
			return got < 0 && errno == EAGAIN ? -EAGAIN : -EPIPE;
		}
		have += (size_t)got;
	}
	return missing < 0 ? -EPIPE : 0;
}

/* box-vmm's own: it is never wrong. */
static int take_clock(const char *packet, const struct box_guest_header *header)
{
	struct box_machine_clock clock;
	if (header->size != sizeof(*header) + sizeof(clock) || header->id || header->reserved) {
		return -EPIPE;
	}
	memcpy(&clock, packet + sizeof(*header), sizeof(clock));
	if (clock.step_ns != 0) {
		box_steward_step_clock(clock.step_ns);
	} else if (!box_control_blocked()) {
		/* Else it is asked again some time. */
		const struct box_machine_time time = {clock.token, box_clock_now()};
		box_control_send(BOX_MACHINE_TIME, 0, &time, sizeof(time));
	}
	return -EAGAIN;
}

/* What the number stands for. A managed process hears why it has no group; of a mount that is
 * missing its command will be told. */
static int take_number(struct box_control_request *request, uint32_t number)
{
	if (request->header.kind == BOX_GUEST_MOUNT) {
		int fd = box_steward_mount(number);
		request->fd = fd < 0 ? -1 : fd;
		return fd < 0 ? -EBADMSG : 0;
	}
	int door = box_steward_group(number, &request->events);
	request->fd = door < 0 ? -1 : door;
	request->lack = door < 0 ? door : 0;
	return 0;
}

int box_frame_receive(char *packet, struct box_control_request *ret_request)
{
	struct box_control_request request = {.fd = -1, .events = -1};
	int r = read_on(packet);
	if (r < 0) {
		return r;
	}
	size_t size = have;
	have = 0;
	memcpy(&request.header, packet, sizeof(request.header));
	uint32_t kind = request.header.kind;
	if (kind == BOX_MACHINE_CLOCK) {
		return take_clock(packet, &request.header);
	}
	bool numbered = kind == BOX_GUEST_MOUNT || kind == BOX_GUEST_KEEP_IN;
	uint32_t number = request.header.reserved;
	if (numbered) {
		request.header.reserved = 0;
		memcpy(packet, &request.header, sizeof(request.header));
	}
	request.bytes = packet + sizeof(request.header);
	r = box_guest_check_request(packet, size);
	r = r < 0 || !numbered ? r : take_number(&request, number);
	request.size = r < 0 ? 0 : size - sizeof(request.header);
	*ret_request = request;
	return r;
}
