/* One fixed struct with its fds, over a SEQPACKET socket. Both ends of the socketpair use this.
 *
 * It knows nothing of what the packets mean. Sending and receiving never block.
 */
#pragma once

#include <stddef.h>

#include "runtime/keeper/proto.h"

#define BOX_PACKET_FDS_MAX BOX_KEEPER_LISTEN_FDS_MAX

/* Whatever may arrive: `size` bytes of one of the structs, and its fds (CLOEXEC), which belong to
 * the receiver. */
struct box_packet {
	size_t size;
	size_t fd_count;
	int fds[BOX_PACKET_FDS_MAX];
	union {
		uint32_t kind;
		struct box_keeper_plain plain;
		struct box_keeper_start start;
		struct box_keeper_tokens tokens;
		struct box_keeper_make_folder make_folder;
		struct box_keeper_folder folder;
		struct box_keeper_make_box make_box;
		struct box_keeper_made made;
		struct box_keeper_box box;
		struct box_keeper_open_mount open_mount;
		struct box_keeper_open_artifact open_artifact;
		struct box_keeper_mounted mounted;
		struct box_keeper_open_store open_store;
		struct box_keeper_stored stored;
		struct box_keeper_open_group open_group;
		struct box_keeper_grouped grouped;
		struct box_keeper_close_group close_group;
		struct box_keeper_try try_machines;
		struct box_keeper_tried tried;
		struct box_keeper_held held;
		struct box_keeper_measure_folder measure_folder;
		struct box_keeper_measure_box measure_box;
		struct box_keeper_measured measured;
		struct box_keeper_host_told host_told;
		struct box_keeper_look_at look_at;
		struct box_keeper_looked looked;
	};
};

/* 0, -EAGAIN when the other side does not read, -EPIPE when it is gone, or another -errno. The fds
 * stay the caller's. */
int box_packet_send(int socket, const void *body, size_t size, const int *fds, size_t fd_count);

/* 0; -EAGAIN when nothing is there; -EPIPE at the end; -EMSGSIZE for a packet that is too long, too
 * short to have a kind, or comes with too many fds; -EMFILE when we have no room for its fds, which
 * are lost. On failure no fd is left open. What of ret_packet was not sent is zero. */
int box_packet_recv(int socket, struct box_packet *ret_packet);

/* Closes the fds that were not taken out (those that are >= 0). */
void box_packet_close_fds(struct box_packet *packet);
