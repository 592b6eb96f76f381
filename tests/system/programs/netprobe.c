/* The requests and servers of netinside.py in C, for guests in which an interpreter starts slowly:
 * `netprobe ask SECONDS TARGET...` prints a line for each ADDRESS:PORT, all asked at once, each
 * with that timeout; `netprobe serve PORT LABEL` is listening when it returns. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static const char request[] = "GET / HTTP/1.0\r\n\r\n";

static const char *why(int errnum)
{
	return errnum == EINPROGRESS || errnum == EAGAIN ? "timeout" : strerrorname_np(errnum);
}

static const char *converse(int sock, const struct sockaddr *address, socklen_t size)
{
	static char text[4096];
	size_t len = 0;
	ssize_t got;
	if (connect(sock, address, size) < 0 || write(sock, request, strlen(request)) < 0) {
		return why(errno);
	}
	while (len < sizeof(text) - 1 &&
		(got = read(sock, text + len, sizeof(text) - 1 - len)) != 0) {
		if (got < 0) {
			return why(errno);
		}
		len += (size_t)got;
	}
	char *body = strstr(text, "\r\n\r\n");
	return body ? body + 4 : "no answer";
}

static const char *ask(char *target, time_t patience_sec)
{
	char *colon = strrchr(target, ':');
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
	struct addrinfo *found = NULL;
	struct timeval patience = {.tv_sec = patience_sec};
	*colon = '\0';
	int r = getaddrinfo(target, colon + 1, &hints, &found);
	*colon = ':';
	if (r != 0) {
		return "no such name";
	}
	int sock = socket(AF_INET, SOCK_STREAM, 0);
	(void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	return converse(sock, found->ai_addr, found->ai_addrlen);
}

static int ask_all(char **targets, time_t patience_sec)
{
	for (; *targets; targets++) {
		if (fork() == 0) {
			const char *answer = ask(*targets, patience_sec);
			_exit(dprintf(STDOUT_FILENO, "%s %s\n", *targets, answer) < 0);
		}
	}
	int status;
	int code = 0;
	while (wait(&status) > 0) {
		code |= status;
	}
	return code != 0;
}

static int serve(const char *port, const char *label)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(listener, 8) < 0) {
		return 1;
	}
	if (daemon(0, 0) < 0) {
		return 1;
	}
	for (;;) {
		char heard[256];
		int peer = accept(listener, NULL, NULL);
		if (read(peer, heard, sizeof(heard)) > 0) {
			(void)dprintf(peer, "HTTP/1.0 200 OK\r\n\r\n%s", label);
		}
		(void)close(peer);
	}
}

int main(int count, char **words)
{
	if (count > 3 && strcmp(words[1], "ask") == 0) {
		return ask_all(words + 3, atoi(words[2]));
	}
	if (count == 4 && strcmp(words[1], "serve") == 0) {
		return serve(words[2], words[3]);
	}
	return 2;
}
