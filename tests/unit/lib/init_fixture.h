/* Drives a real box-init, a child of the test, over its control socket as box-rpc would: starts it,
 * sends requests, and collects the answers, each of which must pass box_init_check_answer. The
 * environment variable BOX_INIT names the program. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "protocol/init.h"
#include "tests/unit/lib/test.h"

#ifndef CHILD_WAIT_MS
#define CHILD_WAIT_MS 20000
#endif
#define CHILD_FDS_FROM 100 /* where the test's own fds are, above those of box-init */
#define OUTPUT_MAX (8U * 1024 * 1024)
#ifndef CHILD_SOCKET
#define CHILD_SOCKET SOCK_SEQPACKET /* or SOCK_STREAM, as in a microVM */
#endif
static const int child_socket = CHILD_SOCKET;

struct child {
	pid_t pid;
	int control;
	int report;
};

/* What came of one command. */
struct outcome {
	char *out;
	size_t out_len;
	size_t err_len;
	char err[65536];
	bool started;
	bool ended;
	uint64_t taken;
	struct box_init_exit end;
};

/* What a test requests. Zero means: no limit that matters, text for the shell, in "/". */
struct asked {
	const char *command;
	size_t command_size; /* 0: its strlen */
	const char *workdir;
	const char *const *env;
	uint32_t flags;
	uint32_t mounts;
	uint64_t timeout_ms;
	uint32_t grace_ms;
	uint64_t limit;  /* 0: OUTPUT_MAX; UINT64_MAX: none at all */
	uint64_t credit; /* 0: endless; UINT64_MAX: none */
};

static inline uint64_t now_us(void)
{
	struct timespec now;
	ASSERT_INT(clock_gettime(CLOCK_MONOTONIC, &now), 0);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static inline int high(int fd)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, CHILD_FDS_FROM);
	ASSERT(moved >= 0);
	ASSERT_INT(close(fd), 0);
	return moved;
}

/* A boot file with these facts and rules. */
static inline int boot_file(struct box_init_boot facts, const struct box_init_path_rule *rules,
	const struct sock_filter *filter)
{
	facts.size = sizeof(facts);
	size_t rules_size = facts.rule_count * sizeof(*rules);
	size_t filter_size = facts.filter_count * sizeof(*filter);
	int fd = memfd_create("boot", MFD_CLOEXEC);
	ASSERT(fd >= 0);
	ASSERT_INT(write(fd, &facts, sizeof(facts)), sizeof(facts));
	if (rules) {
		ASSERT_INT(write(fd, rules, rules_size), rules_size);
	}
	if (filter) {
		ASSERT_INT(write(fd, filter, filter_size), filter_size);
		/* The mounter gets the same one, if it has a filter. */
		size_t mounter_size = facts.mounter_filter_count * sizeof(*filter);
		ASSERT_INT(write(fd, filter, mounter_size), mounter_size);
	}
	return high(fd);
}

/* A socket on which an order has already arrived, with this fd unless it is -1. */
static inline int order_that_came(int fd)
{
	int pair[2];
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct iovec part = {(char[]){0}, 1};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	ASSERT_INT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	ASSERT_INT(sendmsg(pair[0], &message, 0), 1);
	ASSERT_INT(close(pair[0]), 0);
	return high(pair[1]);
}

/* The fds that box-init starts with. */
struct beginning {
	int program;
	int control;
	int report;
	int boot;
	int root;
	int orders;
};

/* In the process that becomes box-init. */
_Noreturn static inline void become_init(const struct beginning *from)
{
	char name[] = "box-init";
	char *const arguments[] = {name, NULL};
	char *const environment[] = {NULL};
	if (dup2(from->control, BOX_INIT_CONTROL_FD) < 0 ||
		dup2(from->report, BOX_INIT_REPORT_FD) < 0 ||
		dup2(from->boot, BOX_INIT_BOOT_FD) < 0 || dup2(from->root, BOX_INIT_ROOT_FD) < 0 ||
		dup2(from->orders, BOX_INIT_ORDER_FD) < 0) {
		_exit(90);
	}
	(void)fexecve(from->program, arguments, environment);
	_exit(91);
}

static inline int open_program(void)
{
	const char *path = getenv("BOX_INIT");
	if (!path) {
		TEST_FAIL("BOX_INIT does not name the program");
	}
	int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0) {
		TEST_FAIL("%s: %s", path, strerror(errno));
	}
	return high(fd);
}

static inline struct box_init_report take_report(struct child *child)
{
	struct box_init_report report = {0};
	ASSERT_INT(read(child->report, &report, sizeof(report)), sizeof(report));
	/* It sends one report and closes; no other process has the fd. */
	char byte;
	ASSERT_INT(read(child->report, &byte, 1), 0);
	return report;
}

static inline void open_child(struct child *child, struct beginning *from)
{
	int pair[2];
	int pipes[2];
	ASSERT_INT(socketpair(AF_UNIX, child_socket | SOCK_CLOEXEC, 0, pair), 0);
	ASSERT_INT(pipe2(pipes, O_CLOEXEC), 0);
	if (child_socket == SOCK_STREAM) {
		/* So small that packets are sent in pieces. */
		int size = 16384;
		ASSERT_INT(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	}
	child->control = high(pair[0]);
	child->report = high(pipes[0]);
	from->control = high(pair[1]);
	from->report = high(pipes[1]);
}

static inline void close_beginning(const struct beginning *from)
{
	(void)close(from->program);
	(void)close(from->control);
	(void)close(from->report);
	(void)close(from->boot);
	(void)close(from->root);
	(void)close(from->orders);
}

/* A box-init without namespaces, filter and rules: an ordinary child of the test. */
static inline void start_child(struct child *child)
{
	struct beginning from = {
		.program = open_program(),
		.root = high(open("/", O_PATH | O_CLOEXEC)),
		.boot = boot_file((struct box_init_boot){.same_uid = 1}, NULL, NULL),
		.orders = order_that_came(-1),
	};
	open_child(child, &from);
	child->pid = fork();
	ASSERT(child->pid >= 0);
	if (child->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
		become_init(&from);
	}
	close_beginning(&from);
	struct box_init_report said = take_report(child);
	ASSERT_INT(said.step, 0);
	ASSERT_INT(said.errnum, 0);
}

/* box-init ends when the socket is closed. */
static inline void stop_child(struct child *child)
{
	int status;
	ASSERT_INT(close(child->control), 0);
	ASSERT_INT(waitpid(child->pid, &status, 0), child->pid);
	ASSERT(WIFEXITED(status));
	ASSERT_INT(WEXITSTATUS(status), 0);
}

/* --- asking --- */

static inline void send_bytes(const struct child *child, const void *bytes, size_t size, int fd)
{
	struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(sizeof(int))];
	} ancillary = {0};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
	if (fd >= 0) {
		message.msg_control = ancillary.bytes;
		message.msg_controllen = sizeof(ancillary.bytes);
		struct cmsghdr *header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	}
	ASSERT_INT(sendmsg(child->control, &message, MSG_NOSIGNAL), size);
}

static inline void send_with(const struct child *child, uint32_t kind, uint32_t id,
	const void *bytes, size_t size, int fd)
{
	static char packet[BOX_INIT_PACKET_MAX];
	struct box_init_header header = {
		.size = (uint32_t)(sizeof(header) + size),
		.kind = kind,
		.id = id,
	};
	memcpy(packet, &header, sizeof(header));
	if (size > 0) {
		memcpy(packet + sizeof(header), bytes, size);
	}
	send_bytes(child, packet, header.size, fd);
}

static inline void send_kind(
	const struct child *child, uint32_t kind, uint32_t id, const void *bytes, size_t size)
{
	send_with(child, kind, id, bytes, size, -1);
}

static inline void send_number(
	const struct child *child, uint32_t kind, uint32_t id, uint64_t number)
{
	send_kind(child, kind, id, &number, sizeof(number));
}

/* In as many packets as needed. */
static inline void send_body(const struct child *child, uint32_t id, const struct box_init_run *run,
	const char *body, size_t size)
{
	static char bytes[BOX_INIT_BYTES_MAX];
	size_t room = sizeof(bytes) - sizeof(*run);
	size_t piece = size < room ? size : room;
	memcpy(bytes, run, sizeof(*run));
	memcpy(bytes + sizeof(*run), body, piece);
	send_kind(child, BOX_INIT_RUN, id, bytes, sizeof(*run) + piece);
	for (size_t at = piece; at < size; at += piece) {
		piece = size - at < sizeof(bytes) ? size - at : sizeof(bytes);
		send_kind(child, BOX_INIT_MORE, id, body + at, piece);
	}
}

static inline void ask(const struct child *child, uint32_t id, struct asked asked)
{
	static char body[BOX_INIT_BODY_MAX];
	static const char *const no_env[] = {"PATH=/usr/bin:/bin", NULL};
	struct box_init_run run = {
		.flags = asked.flags,
		.mount_count = asked.mounts,
		.timeout_ms = asked.timeout_ms,
		.grace_ms = asked.grace_ms,
		.output_limit = asked.limit == 0    ? OUTPUT_MAX
			: asked.limit == UINT64_MAX ? 0
						    : asked.limit,
		.credit = asked.credit == 0          ? UINT64_MAX
			: asked.credit == UINT64_MAX ? 0
						     : asked.credit,
	};
	size_t size = 0;
	for (const char *const *env = asked.env ? asked.env : no_env; *env; env++) {
		size_t len = strlen(*env) + 1;
		memcpy(body + size, *env, len);
		size += len;
		run.env_count++;
	}
	run.env_size = (uint32_t)size;
	const char *workdir = asked.workdir ? asked.workdir : "/";
	run.workdir_size = (uint32_t)strlen(workdir) + 1;
	memcpy(body + size, workdir, run.workdir_size);
	size += run.workdir_size;
	run.command_size = (uint32_t)(asked.command_size ? asked.command_size
							 : strlen(asked.command));
	memcpy(body + size, asked.command, run.command_size);
	size += run.command_size;
	send_body(child, id, &run, body, size);
}

/* --- collecting --- */

#define OUTCOMES_MAX 1024
static struct outcome *outcomes[OUTCOMES_MAX];
static bool reset_done;

static inline struct outcome *outcome_of(uint32_t id)
{
	ASSERT(id < OUTCOMES_MAX);
	if (!outcomes[id]) {
		outcomes[id] = calloc(1, sizeof(struct outcome));
		ASSERT(outcomes[id]);
	}
	return outcomes[id];
}

static inline void forget(uint32_t id)
{
	free(outcomes[id] ? outcomes[id]->out : NULL);
	free(outcomes[id]);
	outcomes[id] = NULL;
}

static inline void take_output(
	struct outcome *outcome, uint32_t kind, const char *bytes, size_t size)
{
	if (kind == BOX_INIT_STDERR) {
		ASSERT(outcome->err_len + size < sizeof(outcome->err));
		memcpy(outcome->err + outcome->err_len, bytes, size);
		outcome->err_len += size;
		return;
	}
	if (!outcome->out) {
		outcome->out = calloc(1, OUTPUT_MAX + 1);
	}
	ASSERT(outcome->out && outcome->out_len + size <= OUTPUT_MAX);
	memcpy(outcome->out + outcome->out_len, bytes, size);
	outcome->out_len += size;
}

static inline void take_answer(const char *packet, size_t size)
{
	struct box_init_header header;
	ASSERT_INT(box_init_check_answer(packet, size), 0);
	memcpy(&header, packet, sizeof(header));
	const char *bytes = packet + sizeof(header);
	if (header.kind == BOX_INIT_RESET_DONE) {
		reset_done = true;
		return;
	}
	struct outcome *outcome = outcome_of(header.id);
	ASSERT(!outcome->ended);
	if (header.kind == BOX_INIT_STARTED) {
		ASSERT(!outcome->started);
		outcome->started = true;
	} else if (header.kind == BOX_INIT_INPUT_TAKEN) {
		memcpy(&outcome->taken, bytes, sizeof(outcome->taken));
	} else if (header.kind == BOX_INIT_EXIT) {
		memcpy(&outcome->end, bytes, sizeof(outcome->end));
		outcome->ended = true;
	} else {
		take_output(outcome, header.kind, bytes, size - sizeof(header));
	}
}

/* One packet; on a stream as many bytes as its header says. */
static inline size_t receive_packet(const struct child *child, char *packet)
{
	size_t have = 0;
	int missing = BOX_INIT_PACKET_MAX;
	while (missing > 0) {
		if (child_socket == SOCK_STREAM) {
			missing = box_init_frame_missing(packet, have);
			ASSERT(missing >= 0);
		}
		ssize_t got = missing ? recv(child->control, packet + have, (size_t)missing, 0) : 0;
		if (missing > 0 && got <= 0) {
			TEST_FAIL("box-init is gone");
		}
		have += (size_t)got;
		missing = child_socket == SOCK_STREAM ? missing : 0;
	}
	return have;
}

/* Handles one answer. False when none came in time. */
static inline bool receive(const struct child *child, int wait_ms)
{
	static char packet[BOX_INIT_PACKET_MAX];
	struct pollfd fd = {.fd = child->control, .events = POLLIN};
	if (poll(&fd, 1, wait_ms) <= 0) {
		return false;
	}
	take_answer(packet, receive_packet(child, packet));
	return true;
}

static inline struct outcome *collect(const struct child *child, uint32_t id)
{
	struct outcome *outcome = outcome_of(id);
	while (!outcome->ended) {
		if (!receive(child, CHILD_WAIT_MS)) {
			TEST_FAIL("command %" PRIu32 " does not end", id);
		}
	}
	return outcome;
}

static inline struct outcome *run_one(const struct child *child, uint32_t id, struct asked asked)
{
	forget(id);
	ask(child, id, asked);
	return collect(child, id);
}

#define ASSERT_END(of, wanted_end, wanted_value)                 \
	do {                                                     \
		const struct outcome *outcome_ = (of);           \
		ASSERT_INT(outcome_->end.end, (wanted_end));     \
		ASSERT_INT(outcome_->end.value, (wanted_value)); \
	} while (0)

#define ASSERT_OUT(of, text)                                                 \
	do {                                                                 \
		const struct outcome *outcome_ = (of);                       \
		const char *out_ = outcome_->out ? outcome_->out : "";       \
		const char *text_ = (text);                                  \
		ASSERT_BYTES(out_, outcome_->out_len, text_, strlen(text_)); \
	} while (0)
