/* Owns what is known of a packet that is not whole yet. Never reads beyond its end: what is behind
 * waits in the socket, which wakes us for it. */
#include "init/control_framed.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "init/guest/guest_clock.h"
#include "init/guest/priv_helper.h"
#include "protocol/init_process.h"
#include "protocol/microvm.h"

static size_t have;

/* 0 when a packet is whole; -EAGAIN; -EPIPE. */
static int read_on(char *packet)
{
	int missing;
	while ((missing = box_init_frame_missing(packet, have)) > 0) {
		ssize_t got = recv(
			BOX_INIT_CONTROL_FD, packet + have, (size_t)missing, MSG_DONTWAIT);
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
static int take_clock(const char *packet, const struct box_init_header *header)
{
	struct box_microvm_clock clock;
	if (header->size != sizeof(*header) + sizeof(clock) || header->id || header->reserved) {
		return -EPIPE;
	}
	memcpy(&clock, packet + sizeof(*header), sizeof(clock));
	if (clock.step_ns != 0) {
		box_priv_helper_step_clock(clock.step_ns);
	} else if (!box_control_blocked()) {
		/* Else it is asked again some time. */
		const struct box_microvm_time time = {clock.token, box_guest_clock_now()};
		box_control_send(BOX_MICROVM_TIME, 0, &time, sizeof(time));
	}
	return -EAGAIN;
}

/* What the number stands for. A managed process hears why it has no group; of a mount that is
 * missing its command will be told. */
static int take_number(struct box_control_request *request, uint32_t number)
{
	if (request->header.kind == BOX_INIT_MOUNT) {
		int fd = box_priv_helper_open_mount(number);
		request->fd = fd < 0 ? -1 : fd;
		return fd < 0 ? -EBADMSG : 0;
	}
	int door = box_priv_helper_make_cgroup(number, &request->events);
	request->fd = door < 0 ? -1 : door;
	request->lack = door < 0 ? door : 0;
	return 0;
}

int box_control_receive_framed(char *packet, struct box_control_request *ret_request)
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
	if (kind == BOX_MICROVM_CLOCK) {
		return take_clock(packet, &request.header);
	}
	bool numbered = kind == BOX_INIT_MOUNT || kind == BOX_INIT_START_PROCESS_IN;
	uint32_t number = request.header.reserved;
	if (numbered) {
		request.header.reserved = 0;
		memcpy(packet, &request.header, sizeof(request.header));
	}
	request.bytes = packet + sizeof(request.header);
	r = box_init_check_request(packet, size);
	r = r < 0 || !numbered ? r : take_number(&request, number);
	request.size = r < 0 ? 0 : size - sizeof(request.header);
	*ret_request = request;
	return r;
}
