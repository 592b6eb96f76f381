/* The baseline of streams: a command behind a loopback socket, with nothing done to its bytes.
 *
 *   bare pipe COMMAND...    copies between the socket and the command's stdin and stdout
 *   bare socket COMMAND...  the socket is the command's stdout itself
 *
 * Listens on a free port of 127.0.0.1, prints the port, and starts the command for each connection,
 * one after the other. Ends with its stdin. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define COPY_BYTES 65536

extern char **environ;

static _Noreturn void fail(const char *what)
{
	(void)fprintf(stderr, "bare: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* False when one of the two has ended. */
static bool copy(int from, int to)
{
	static char bytes[COPY_BYTES];
	ssize_t got = read(from, bytes, sizeof(bytes));
	for (ssize_t at = 0; at < got;) {
		ssize_t wrote = write(to, bytes + at, (size_t)(got - at));
		if (wrote < 0) {
			return false;
		}
		at += wrote;
	}
	return got > 0;
}

static pid_t start(char **command, int in, int out)
{
	pid_t pid;
	posix_spawn_file_actions_t actions;
	(void)posix_spawn_file_actions_init(&actions);
	if (in >= 0) {
		(void)posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
	}
	(void)posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	errno = posix_spawnp(&pid, command[0], &actions, NULL, command, environ);
	if (errno != 0) {
		fail(command[0]);
	}
	(void)posix_spawn_file_actions_destroy(&actions);
	return pid;
}

static void serve_socket(int socket, char **command)
{
	pid_t pid = start(command, -1, socket);
	(void)close(socket);
	(void)waitpid(pid, NULL, 0);
}

static void serve_pipe(int socket, char **command)
{
	int in[2];
	int out[2];
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		fail("pipe");
	}
	pid_t pid = start(command, in[0], out[1]);
	(void)close(in[0]);
	(void)close(out[1]);
	struct pollfd fds[] = {{.fd = socket, .events = POLLIN}, {.fd = out[0], .events = POLLIN}};
	for (bool goes_on = true; goes_on && poll(fds, 2, -1) > 0;) {
		if (fds[1].revents) {
			goes_on = copy(out[0], socket);
		}
		if (goes_on && fds[0].revents) {
			goes_on = copy(socket, in[1]);
		}
	}
	(void)close(in[1]);
	(void)close(out[0]);
	(void)close(socket);
	(void)waitpid(pid, NULL, 0);
}

static int listen_here(void)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, size) < 0 || listen(fd, 16) < 0 ||
		getsockname(fd, (struct sockaddr *)&address, &size) < 0) {
		fail("listen");
	}
	printf("%d\n", ntohs(address.sin_port));
	(void)fflush(stdout);
	return fd;
}

int main(int argc, char **argv)
{
	bool pipes = argc > 2 && strcmp(argv[1], "pipe") == 0;
	const int on = 1;
	if (argc < 3 || (!pipes && strcmp(argv[1], "socket") != 0)) {
		(void)fputs("usage: bare pipe|socket COMMAND...\n", stderr);
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	int listening = listen_here();
	struct pollfd fds[] = {
		{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = listening, .events = POLLIN}};
	while (poll(fds, 2, -1) > 0 && !fds[0].revents) {
		int socket = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		if (socket < 0) {
			continue;
		}
		(void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (pipes) {
			serve_pipe(socket, argv + 2);
		} else {
			serve_socket(socket, argv + 2);
		}
	}
	return 0;
}
