/* A stand-in for boxd that has nothing but a network: boxes are processes in namespaces of their
 * own. Lines on stdin, one answer on stdout for each:
 *
 * box [ONLY WORD...]   box N pid P address A router R host H slot_us S attach_us T enter_us E
 *   with ONLY it reaches what the words allow, and nothing else: entries, and host:PORT
 * run N COMMAND        exit N CODE   (by /bin/sh, without any right; when it has ended)
 * admin N COMMAND      likewise, with all rights in the box's namespaces
 * leave N              left N us U */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "boxd/net/netns.h"
#include "boxd/net/network.h"
#include "boxd/net/router.h"

#define BOXES_MAX 64
#define LINE_MAX_ 8192
#define HOST_IDS 1000000 /* where the ids of boxes begin on the host, as root */

struct box {
	pid_t pid;
	int socket; /* commands to it, codes from it */
	struct box_network_slot slot;
};

static struct box boxes[BOXES_MAX];
static size_t box_count;
static bool rootless;

_Noreturn static void die(const char *what)
{
	(void)fprintf(stderr, "network_driver: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text)) {
		die(path);
	}
	(void)close(fd);
}

/* As boxd does when an ordinary user started it. */
static void enter_own_namespaces(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();
	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
		die("unshare");
	}
	write_file("/proc/self/setgroups", "deny");
	(void)snprintf(map, sizeof(map), "0 %u 1", uid);
	write_file("/proc/self/uid_map", map);
	(void)snprintf(map, sizeof(map), "0 %u 1", gid);
	write_file("/proc/self/gid_map", map);
}

static void map_ids(pid_t pid)
{
	char path[64];
	char map[64];
	(void)snprintf(map, sizeof(map), rootless ? "1000 0 1" : "0 %d 65536", HOST_IDS);
	if (rootless) {
		(void)snprintf(path, sizeof(path), "/proc/%d/setgroups", pid);
		write_file(path, "deny");
	}
	(void)snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	write_file(path, map);
	(void)snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	write_file(path, map);
}

static int run_command(const char *line)
{
	bool admin = line[0] == 'a';
	uid_t id = admin ? 0 : 1000;
	pid_t pid = fork();
	if (pid == 0) {
		if (!rootless && setgroups(0, NULL) < 0) {
			_exit(126);
		}
		/* Only an exec by an id other than 0 drops the capabilities of a new namespace. */
		if (setresgid(id, id, id) < 0 || setresuid(id, id, id) < 0 ||
			prctl(PR_SET_PDEATHSIG, (long)SIGKILL) < 0) {
			_exit(126);
		}
		(void)execl("/bin/sh", "sh", "-c", line + 1, (char *)NULL);
		_exit(127);
	}
	int status = 0;
	if (pid < 0 || waitpid(pid, &status, 0) != pid) {
		return 125;
	}
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

_Noreturn static void live_in_box(int socket)
{
	(void)prctl(PR_SET_PDEATHSIG, (long)SIGKILL);
	struct box_network_slot slot;
	if (recv(socket, &slot, sizeof(slot), 0) != sizeof(slot)) {
		_exit(1);
	}
	int result = box_netns_configure(slot.box_address, slot.router_address);
	static char line[LINE_MAX_];
	for (;;) {
		ssize_t got = send(socket, &result, sizeof(result), MSG_NOSIGNAL);
		got = got < 0 ? got : recv(socket, line, sizeof(line) - 1, 0);
		if (got <= 0) {
			_exit(0);
		}
		line[got] = 0;
		result = run_command(line);
	}
}

static int await_code(const struct box *box)
{
	int code;
	return recv(box->socket, &code, sizeof(code), 0) == sizeof(code) ? code : -EPIPE;
}

/* Invalid ports and too many entries are mistakes of the test. */
static struct box_egress read_egress(char *words)
{
	struct box_egress egress = {0};
	for (char *word = strtok(words, " "); word; word = strtok(NULL, " ")) {
		if (strcmp(word, "only") == 0) {
			egress.limited = 1;
		} else if (strncmp(word, "host:", 5) == 0) {
			egress.host_ports[egress.host_port_count++] = (uint16_t)strtoul(
				word + 5, NULL, 10);
		} else if (box_egress_read(
				   word, strlen(word), &egress.allow[egress.allow_count++])) {
			die(word);
		}
	}
	box_egress_normalize(&egress);
	return egress;
}

static void make_box(struct box_network *network, char *words)
{
	const struct box_egress egress = read_egress(words);
	uint32_t host_address = 0;
	struct box *box = &boxes[box_count];
	struct box_err err = {0};
	int sockets[2];
	if (box_count == BOXES_MAX ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0) {
		die("socketpair");
	}
	pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWPID | SIGCHLD,
		NULL, NULL, NULL, NULL);
	if (pid == 0) {
		(void)close(sockets[0]);
		live_in_box(sockets[1]);
	}
	if (pid < 0) {
		die("clone");
	}
	(void)close(sockets[1]);
	*box = (struct box){.pid = pid, .socket = sockets[0]};
	map_ids(pid);
	char path[64];
	(void)snprintf(path, sizeof(path), "/proc/%d/ns/net", pid);
	int netns = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t times[4] = {box_clock_us()};
	int r = netns < 0 ? -errno : box_network_take_slot(network, &box->slot, &err);
	bool has_slot = r == 0;
	times[1] = box_clock_us();
	r = r < 0 ? r : box_network_attach(network, &box->slot, netns, &err);
	times[2] = box_clock_us();
	r = r < 0 ? r : box_network_set_egress(network, &box->slot, &egress, &host_address, &err);
	(void)close(netns);
	if (r == 0) {
		(void)send(box->socket, &box->slot, sizeof(box->slot), MSG_NOSIGNAL);
		r = await_code(box);
	}
	times[3] = box_clock_us();
	if (r < 0) {
		if (has_slot) {
			box_network_release_slot(network, &box->slot);
		}
		(void)kill(pid, SIGKILL);
		(void)waitpid(pid, NULL, 0);
		(void)close(box->socket);
		printf("error %d %s\n", -r, err.text);
		return;
	}
	char address[INET_ADDRSTRLEN];
	char router[INET_ADDRSTRLEN];
	(void)inet_ntop(AF_INET, &box->slot.box_address, address, sizeof(address));
	(void)inet_ntop(AF_INET, &box->slot.router_address, router, sizeof(router));
	char host[INET_ADDRSTRLEN];
	(void)inet_ntop(AF_INET, &host_address, host, sizeof(host));
	printf("box %zu pid %d address %s router %s host %s slot_us %d attach_us %d enter_us %d\n",
		box_count++, pid, address, router, host, (int)(times[1] - times[0]),
		(int)(times[2] - times[1]), (int)(times[3] - times[2]));
}

static void leave_box(struct box_network *network, struct box *box, size_t number)
{
	uint64_t start_us = box_clock_us();
	box_network_release_slot(network, &box->slot);
	printf("left %zu us %d\n", number, (int)(box_clock_us() - start_us));
	(void)kill(box->pid, SIGKILL);
	(void)waitpid(box->pid, NULL, 0);
	(void)close(box->socket);
	box->pid = 0;
	box->socket = -1;
}

static void serve_line(struct box_network *network, char *line)
{
	line[strcspn(line, "\n")] = 0;
	char *rest = line + strcspn(line, " ");
	char *end = rest;
	size_t number = strtoul(rest, &end, 10);
	if (strncmp(line, "box", 3) == 0) {
		make_box(network, line + 3);
	} else if (end == rest || number >= box_count || boxes[number].pid == 0) {
		printf("error 22 no such box or command\n");
	} else if (strncmp(line, "leave ", 6) == 0) {
		leave_box(network, &boxes[number], number);
	} else {
		end[0] = line[0];
		(void)send(boxes[number].socket, end, strlen(end), MSG_NOSIGNAL);
	}
}

/* The same as boxd's loop: it never waits for a command. */
static void serve(struct box_network *network)
{
	static char line[LINE_MAX_];
	struct box_event_source source = box_network_event_source(network);
	for (;;) {
		struct pollfd fds[2 + BOXES_MAX] = {
			{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = source.fd(source.arg), .events = POLLIN},
		};
		for (size_t i = 0; i < box_count; i++) {
			fds[2 + i] = (struct pollfd){.fd = boxes[i].socket, .events = POLLIN};
		}
		size_t count = box_count;
		(void)fflush(stdout);
		if (poll(fds, 2 + count, -1) < 0 && errno != EINTR) {
			die("poll");
		}
		if (fds[1].revents) {
			source.step(source.arg, POLLIN);
		}
		for (size_t i = 0; i < count; i++) {
			if (fds[2 + i].revents) {
				printf("exit %zu %d\n", i, await_code(&boxes[i]));
			}
		}
		if (fds[0].revents) {
			if (!fgets(line, sizeof(line), stdin)) {
				return;
			}
			serve_line(network, line);
		}
	}
}

int main(int argc, char **argv)
{
	uid_t uid = 64321;
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--rootless") == 0) {
			rootless = true;
		} else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc) {
			box_router_without = argv[++i];
		} else {
			(void)fprintf(
				stderr, "usage: network_driver [--rootless] [--without NAME]\n");
			return 2;
		}
	}
	box_log_setup("network_driver", BOX_LOG_DEBUG, BOX_LOG_TEXT);
	(void)setvbuf(stdin, NULL, _IONBF, 0); /* so that poll tells the truth about it */
	if (rootless) {
		enter_own_namespaces();
		uid = 0;
	}
	struct box_network *network = box_network_new(uid, (gid_t)uid);
	struct box_err err = {0};
	if (!network) {
		die("memory");
	}
	if (!box_network_is_possible(network, &err)) {
		printf("impossible %s\n", err.text);
		box_network_free(network);
		return 3;
	}
	serve(network);
	for (size_t i = 0; i < box_count; i++) {
		if (boxes[i].pid > 0) {
			leave_box(network, &boxes[i], i);
		}
	}
	box_network_free(network);
	return 0;
}
