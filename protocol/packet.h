/* One fixed-size struct with fds, over a SEQPACKET socket. Used by boxd and box-rpc.
 *
 * Does not interpret the packets. Sending and receiving never block.
 */
#pragma once

#include <stddef.h>

#include "protocol/boxd.h"

#define BOX_PACKET_FDS_MAX BOX_BOXD_LISTEN_FDS_MAX

/* What was received: `size` bytes of one of the structs, and its fds (CLOEXEC), which the receiver
 * owns. */
struct box_packet {
	size_t size;
	size_t fd_count;
	int fds[BOX_PACKET_FDS_MAX];
	union {
		uint32_t kind;
		struct box_boxd_plain plain;
		struct box_boxd_start start;
		struct box_boxd_tokens tokens;
		struct box_boxd_make_folder make_folder;
		struct box_boxd_folder folder;
		struct box_boxd_make_box make_box;
		struct box_boxd_made made;
		struct box_boxd_box box;
		struct box_boxd_open_mount open_mount;
		struct box_boxd_open_artifact open_artifact;
		struct box_boxd_mounted mounted;
		struct box_boxd_open_store open_store;
		struct box_boxd_store stored;
		struct box_boxd_open_process_cgroup open_process_cgroup;
		struct box_boxd_process_cgroup process_cgroup;
		struct box_boxd_close_process_cgroup close_process_cgroup;
		struct box_boxd_probe_microvms probe_microvms;
		struct box_boxd_probed probed;
		struct box_boxd_artifact_bytes artifact_bytes;
		struct box_boxd_measure_folder measure_folder;
		struct box_boxd_measure_box measure_box;
		struct box_boxd_measured measured;
		struct box_boxd_host_report host;
		struct box_boxd_check_path check_path;
		struct box_boxd_path_checked path_checked;
	};
};

/* 0, -EAGAIN when the other side does not read, -EPIPE when it is gone, or another -errno. The caller
 * keeps the fds. */
int box_packet_send(int socket, const void *body, size_t size, const int *fds, size_t fd_count);

/* 0; -EAGAIN when there is no packet; -EPIPE at the end; -EMSGSIZE for a packet that is too long, too
 * short for a kind, or has too many fds; -EMFILE when our fd table is full, and the fds are lost. On
 * failure no fd stays open. Bytes of ret_packet that were not received are zero. */
int box_packet_recv(int socket, struct box_packet *ret_packet);

/* Closes the fds that were not moved out (those that are >= 0). */
void box_packet_close_fds(struct box_packet *packet);
