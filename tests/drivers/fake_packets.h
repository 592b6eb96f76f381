/* Packets that the fake box-rpc sends to boxd, valid and invalid. */
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "protocol/packet.h"

static int answer_fd;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)vdprintf(answer_fd, format, args);
	va_end(args);
}

static void send_packet(const void *body, size_t size, const int *fds, size_t count)
{
	if (box_packet_send(BOX_BOXD_FD, body, size, fds, count) < 0) {
		say("send failed\n");
	}
}

static void send_plain(uint32_t kind, const int *fds, size_t count)
{
	struct box_boxd_plain packet = {.kind = kind};
	send_packet(&packet, sizeof(packet), fds, count);
}

static int memfd_with(const char *text)
{
	int fd = memfd_create("state", MFD_CLOEXEC);
	ssize_t ignored = write(fd, text, strlen(text));
	(void)ignored;
	return fd;
}

static void send_state(const char *text)
{
	int fd = memfd_with(text);
	send_plain(BOX_BOXD_STATE, &fd, 1);
	(void)close(fd);
}

/* Packets that boxd must refuse. */
static void send_garbage(const char *what)
{
	int fds[BOX_PACKET_FDS_MAX];
	for (size_t i = 0; i < BOX_PACKET_FDS_MAX; i++) {
		fds[i] = STDERR_FILENO;
	}
	static struct box_boxd_make_folder endless;
	static char huge[sizeof(struct box_boxd_start) + 1];
	uint32_t ready = BOX_BOXD_READY;
	int big = memfd_with("");
	int pipes[2] = {-1, -1};
	if (strcmp(what, "kind") == 0) {
		send_plain(4711, NULL, 0);
	} else if (strcmp(what, "downward") == 0) {
		send_plain(BOX_BOXD_STOP, NULL, 0);
	} else if (strcmp(what, "short") == 0) {
		send_packet(&ready, 3, NULL, 0);
	} else if (strcmp(what, "empty") == 0) {
		send_packet(&ready, 0, NULL, 0);
	} else if (strcmp(what, "long") == 0) {
		uint32_t two[2] = {BOX_BOXD_STATE, 0};
		send_packet(two, sizeof(two), &big, 1);
	} else if (strcmp(what, "huge") == 0) {
		send_packet(huge, sizeof(huge), NULL, 0);
	} else if (strcmp(what, "ready") == 0) {
		send_plain(BOX_BOXD_READY, NULL, 0);
	} else if (strcmp(what, "nofd") == 0) {
		send_plain(BOX_BOXD_STATE, NULL, 0);
	} else if (strcmp(what, "twofds") == 0) {
		int two[2] = {big, big};
		send_plain(BOX_BOXD_STATE, two, 2);
	} else if (strcmp(what, "manyfds") == 0) {
		send_plain(BOX_BOXD_STATE, fds, BOX_PACKET_FDS_MAX);
	} else if (strcmp(what, "bigstate") == 0 && ftruncate(big, (256L << 20) + 1) == 0) {
		send_plain(BOX_BOXD_STATE, &big, 1);
	} else if (strcmp(what, "pipestate") == 0 && pipe2(pipes, O_CLOEXEC) == 0) {
		send_plain(BOX_BOXD_STATE, &pipes[0], 1);
	} else if (strcmp(what, "tenant") == 0) {
		static struct box_boxd_make_box wanted = {.kind = BOX_BOXD_MAKE_BOX, .id = 1};
		memset(wanted.ask.tenant, 't', sizeof(wanted.ask.tenant));
		send_packet(&wanted, sizeof(wanted), NULL, 0);
	} else if (strcmp(what, "path") == 0) {
		memset(&endless, 'x', sizeof(endless));
		endless.kind = BOX_BOXD_MAKE_FOLDER;
		endless.path[0] = '/';
		send_packet(&endless, sizeof(endless), NULL, 0);
	} else if (strcmp(what, "nobodysgroup") == 0 || strcmp(what, "emptygroup") == 0) {
		struct box_boxd_open_process_cgroup group = {.kind = BOX_BOXD_OPEN_PROCESS_CGROUP,
			.process = what[0] == 'e',
			.memory_mib = what[0] == 'n'};
		send_packet(&group, sizeof(group), NULL, 0);
	} else if (strcmp(what, "groupfd") == 0) {
		struct box_boxd_close_process_cgroup group = {
			.kind = BOX_BOXD_CLOSE_PROCESS_CGROUP};
		send_packet(&group, sizeof(group), &big, 1);
	} else {
		say("no such garbage\n");
	}
	(void)close(big);
}

/* Nine fds and more are not possible with packet.h: the struct is written out here. */
static void send_too_many_fds(void)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(100 * sizeof(int))];
	} control = {0};
	struct box_boxd_plain packet = {.kind = BOX_BOXD_STATE};
	struct iovec part = {.iov_base = &packet, .iov_len = sizeof(packet)};
	struct msghdr message = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(100 * sizeof(int));
	for (size_t i = 0; i < 100; i++) {
		int fd = STDERR_FILENO;
		memcpy(CMSG_DATA(header) + i * sizeof(int), &fd, sizeof(fd));
	}
	(void)sendmsg(BOX_BOXD_FD, &message, 0);
}

/* Mounts, and so folders, must be at or below this path. */
/* The first one sets the policy: everything may be mounted. Later ones narrow it. */
static void narrow(const char *path)
{
	static struct box_policy policy = {.roots = {.count = 1, .paths = {"/"}}};
	int fd = memfd_create("policy", MFD_CLOEXEC);
	policy.narrower.count = path ? 1 : 0;
	(void)snprintf(policy.narrower.paths[0], BOX_PATH_MAX, "%s", path ? path : "");
	if (write(fd, &policy, sizeof(policy)) == (ssize_t)sizeof(policy)) {
		send_plain(BOX_BOXD_POLICY, &fd, 1);
	}
	(void)close(fd);
}

/* Sent by a worker that is dead before boxd has read it: the first packets keep boxd busy. */
static void send_last_folder(const char *path)
{
	struct box_boxd_make_folder wanted = {.kind = BOX_BOXD_MAKE_FOLDER, .id = 1};
	(void)snprintf(wanted.path, sizeof(wanted.path), "%s", path);
	for (int i = 0; i < 50; i++) {
		send_state("before");
	}
	send_packet(&wanted, sizeof(wanted), NULL, 0);
	send_state("after");
	(void)raise(SIGKILL);
}

/* Answers come immediately when more is requested than boxd measures at once. */
static void flood_measures(void)
{
	struct box_boxd_measure_folder wanted = {
		.kind = BOX_BOXD_MEASURE_FOLDER, .path = "/usr", .below = "share"};
	for (;;) {
		(void)box_packet_send(BOX_BOXD_FD, &wanted, sizeof(wanted), NULL, 0);
	}
}

static void flood(void)
{
	struct box_boxd_make_folder wanted = {.kind = BOX_BOXD_MAKE_FOLDER, .path = "/tmp"};
	for (;;) {
		(void)box_packet_send(BOX_BOXD_FD, &wanted, sizeof(wanted), NULL, 0);
	}
}
