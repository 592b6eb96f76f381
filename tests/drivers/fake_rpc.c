/* A fake box-rpc, for the tests of boxd: reports what it was given, and misbehaves on command.
 *
 * Only START reaches it, so commands come as lines over its connections (or stdin). What it should
 * do before it is ready is in the text of the --config file ("exit 78"), or once in the STATE of
 * its predecessor ("unready"). */
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/macros.h"
#include "tests/drivers/fake_packets.h"

#define PEERS_MAX 64
#define TEXT_MAX 8192
#define UNREADY_US 500000

static struct box_boxd_start start;
static char file_text[TEXT_MAX] = "-";
static char variable_text[TEXT_MAX] = "-";
static char state_text[TEXT_MAX] = "-";
static char first_text[TEXT_MAX] = "-";
static char reload_text[TEXT_MAX] = "-";
static int reloads;
static int listeners[BOX_BOXD_LISTENERS_MAX];
static size_t listener_count;
static int peers[PEERS_MAX]; /* 0: free */
static bool stubborn;
static bool sigpipe_was_default;
static void read_text(int fd, char text[TEXT_MAX])
{
	/* Moves the file offset, which a successor must not notice. */
	ssize_t len = read(fd, text, TEXT_MAX - 1);
	text[len > 0 ? len : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
}

static void await_packet(struct box_packet *packet)
{
	struct pollfd polled = {.fd = BOX_BOXD_FD, .events = POLLIN};
	(void)poll(&polled, 1, -1);
	if (box_packet_recv(BOX_BOXD_FD, packet) < 0) {
		exit(90);
	}
}

static void take_start(void)
{
	static const struct {
		uint32_t flag;
		char *text;
	} texts[] = {
		{BOX_BOXD_START_HAS_FILE, file_text},
		{BOX_BOXD_START_HAS_VARIABLE, variable_text},
		{BOX_BOXD_START_HAS_STATE, state_text},
		{BOX_BOXD_START_HAS_FIRST, first_text},
	};
	struct box_packet packet;
	await_packet(&packet);
	if (packet.kind != BOX_BOXD_START || packet.size != sizeof(start)) {
		exit(91);
	}
	start = packet.start;
	size_t next = 0;
	for (size_t i = 0; i < BOX_COUNT_OF(texts); i++) {
		if (start.flags & texts[i].flag) {
			if (next == packet.fd_count) {
				exit(92);
			}
			read_text(packet.fds[next++], texts[i].text);
		}
	}
	/* The roots of --mount-root, which another test checks. */
	next += (start.flags & BOX_BOXD_START_HAS_ROOTS) != 0;
	if (next != packet.fd_count) {
		exit(93);
	}
	box_packet_close_fds(&packet);
}

static void take_listen(void)
{
	struct box_packet packet;
	await_packet(&packet);
	/* What boxes would get comes first, by the policy that is sealed now. */
	if (packet.kind != BOX_BOXD_HOST || packet.size != sizeof(packet.host) ||
		!packet.host.host.sealed) {
		exit(96);
	}
	await_packet(&packet);
	if (packet.kind != BOX_BOXD_LISTEN) {
		exit(94);
	}
	listener_count = packet.fd_count;
	memcpy(listeners, packet.fds, sizeof(listeners));
}

static void take_later_packet(void)
{
	struct box_packet packet;
	int r = box_packet_recv(BOX_BOXD_FD, &packet);
	if (r < 0) {
		if (!stubborn) {
			exit(95);
		}
		(void)usleep(10000);
		return;
	}
	if (packet.kind == BOX_BOXD_STOP && !stubborn) {
		exit(0);
	}
	if (packet.kind == BOX_BOXD_RELOAD && packet.fd_count == 1) {
		reloads++;
		read_text(packet.fds[0], reload_text);
	}
	box_packet_close_fds(&packet);
}

static void say_status_lines(void)
{
	static const char *const keys[] = {"CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:",
		"NoNewPrivs:", "SigBlk:", "Groups:"};
	char line[512];
	FILE *file = fopen("/proc/self/status", "re");
	while (file && fgets(line, sizeof(line), file)) {
		for (size_t i = 0; i < BOX_COUNT_OF(keys); i++) {
			size_t len = strlen(keys[i]);
			if (strncmp(line, keys[i], len) == 0) {
				char *value = line + len + strspn(line + len, " \t");
				value[strcspn(value, "\n")] = '\0';
				say("%.*s=%s\n", (int)len - 1, keys[i], value);
			}
		}
	}
	if (file) {
		(void)fclose(file);
	}
}

static void say_fds(void)
{
	say("fds=");
	for (int fd = 0; fd < 4096; fd++) {
		char path[64];
		char target[256];
		(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		ssize_t len = readlink(path, target, sizeof(target) - 1);
		if (len > 0) {
			target[len] = '\0';
			target[strcspn(target, ":[")] = '\0';
			say("%d:%s,", fd, target);
		}
	}
	say("\n");
}

static size_t environment_size(void)
{
	size_t count = 0;
	while (environ && environ[count]) {
		count++;
	}
	return count;
}

static void say_ids(void)
{
	uid_t uid[3];
	gid_t gid[3];
	struct rlimit core;
	struct rlimit files;
	char folder[256] = "?";
	(void)getresuid(&uid[0], &uid[1], &uid[2]);
	(void)getresgid(&gid[0], &gid[1], &gid[2]);
	(void)getrlimit(RLIMIT_CORE, &core);
	(void)getrlimit(RLIMIT_NOFILE, &files);
	mode_t mask = umask(0);
	(void)umask(mask);
	say("uid=%u %u %u\ngid=%u %u %u\n", uid[0], uid[1], uid[2], gid[0], gid[1], gid[2]);
	say("cwd=%s\numask=%03o\n", getcwd(folder, sizeof(folder)) ? folder : "?", mask);
	say("environ=%zu\n", environment_size());
	say("core=%llu\nnofile=%llu %llu\n", (unsigned long long)core.rlim_cur,
		(unsigned long long)files.rlim_cur, (unsigned long long)files.rlim_max);
	say("pid=%d\npgid=%d\nsid=%d\nppid=%d\n", getpid(), getpgid(0), getsid(0), getppid());
	say("sigpipe=%s\n", sigpipe_was_default ? "default" : "other");
	say_status_lines();
	say_fds();
}

static void say_start(void)
{
	say("flags=%u\nrestarts=%u\nlog_level=%d\nlog_format=%d\n", start.flags, start.restarts,
		start.log_level, start.log_format);
	say("config_path=%s\nworking_folder=%s\n", start.config_path, start.working_folder);
	say("token=%s\ninstance=%s\n", start.token, start.instance);
	say("file=%s\nvariable=%s\nlisteners=%zu\n", file_text, variable_text, listener_count);
	say("reloads=%d\nreload=%s\n", reloads, reload_text);
}

static void make_folder(const char *path)
{
	static uint32_t id = 100;
	struct box_boxd_make_folder wanted = {.kind = BOX_BOXD_MAKE_FOLDER, .id = ++id};
	(void)snprintf(wanted.path, sizeof(wanted.path), "%s", path);
	send_packet(&wanted, sizeof(wanted), NULL, 0);
	struct box_packet packet;
	await_packet(&packet);
	if (packet.kind != BOX_BOXD_FOLDER || packet.size != sizeof(packet.folder) ||
		packet.folder.id != id) {
		say("wrong answer\n");
		return;
	}
	say("%d\n", packet.folder.result);
}

static void obey(char *line)
{
	char *rest = line + strcspn(line, " ");
	if (*rest) {
		*rest++ = '\0';
	}
	if (strcmp(line, "exit") == 0) {
		exit(atoi(rest));
	} else if (strcmp(line, "abort") == 0) {
		abort();
	} else if (strcmp(line, "state") == 0) {
		send_state(rest);
		say("ok\n");
	} else if (strcmp(line, "laststate") == 0) {
		/* Many, so that boxd notices the death before it has read them all. */
		for (int i = 0; i < 50; i++) {
			send_state("not the last");
		}
		send_state(rest);
		(void)raise(SIGKILL);
	} else if (strcmp(line, "taken") == 0) {
		send_plain(BOX_BOXD_CONFIG_ACCEPTED, NULL, 0);
		say("ok\n");
	} else if (strcmp(line, "getstate") == 0) {
		say("%s\n", state_text);
	} else if (strcmp(line, "garbage") == 0) {
		if (strcmp(rest, "hundredfds") == 0) {
			send_too_many_fds();
		} else {
			send_garbage(rest);
		}
	} else if (strcmp(line, "folder") == 0) {
		make_folder(rest);
	} else if (strcmp(line, "narrow") == 0) {
		narrow(rest);
		say("ok\n");
	} else if (strcmp(line, "lastfolder") == 0) {
		send_last_folder(rest);
	} else if (strcmp(line, "flood") == 0) {
		flood();
	} else if (strcmp(line, "floodmeasures") == 0) {
		flood_measures();
	} else if (strcmp(line, "hangup") == 0) {
		stubborn = true;
		(void)close(BOX_BOXD_FD);
	} else if (strcmp(line, "stubborn") == 0) {
		stubborn = true;
		say("ok\n");
	} else if (strcmp(line, "ids") == 0) {
		say_ids();
		say(".\n");
	} else if (strcmp(line, "start") == 0) {
		say_start();
		say(".\n");
	} else {
		say("no such command\n");
	}
}

/* False when the peer has closed. A test sends each command in one piece. */
static bool serve(int in, int out)
{
	char line[TEXT_MAX];
	ssize_t len = read(in, line, sizeof(line) - 1);
	if (len <= 0) {
		return false;
	}
	line[len] = '\0';
	line[strcspn(line, "\n")] = '\0';
	answer_fd = out;
	obey(line);
	return true;
}

static void greet(int listener)
{
	for (size_t i = 0; i < PEERS_MAX; i++) {
		if (peers[i] == 0) {
			int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			if (fd > 0) {
				peers[i] = fd;
				(void)dprintf(fd, "p%d\n", getpid());
			}
			return;
		}
	}
}

static void serve_peers(struct pollfd *polled)
{
	for (size_t i = 0; i < PEERS_MAX; i++) {
		if (peers[i] != 0 && polled[i].fd == peers[i] && polled[i].revents != 0 &&
			!serve(peers[i], peers[i])) {
			(void)close(peers[i]);
			peers[i] = 0;
		}
	}
}

static void loop(void)
{
	enum {
		BOXD,
		STDIN,
		LISTENERS,
		PEERS = LISTENERS + BOX_BOXD_LISTENERS_MAX
	};
	struct pollfd polled[PEERS + PEERS_MAX];
	bool stdio = (start.flags & BOX_BOXD_START_STDIO) != 0;
	for (;;) {
		for (size_t i = 0; i < PEERS + PEERS_MAX; i++) {
			polled[i] = (struct pollfd){.fd = -1, .events = POLLIN};
		}
		polled[BOXD].fd = BOX_BOXD_FD;
		polled[STDIN].fd = stdio ? STDIN_FILENO : -1;
		for (size_t i = 0; i < listener_count; i++) {
			polled[LISTENERS + i].fd = listeners[i];
		}
		for (size_t i = 0; i < PEERS_MAX; i++) {
			polled[PEERS + i].fd = peers[i] ? peers[i] : -1;
		}
		(void)poll(polled, PEERS + PEERS_MAX, -1);
		if (polled[BOXD].revents) {
			take_later_packet();
		}
		if (polled[STDIN].revents && !serve(STDIN_FILENO, STDOUT_FILENO)) {
			exit(0);
		}
		serve_peers(polled + PEERS);
		for (size_t i = 0; i < listener_count; i++) {
			if (polled[LISTENERS + i].revents) {
				greet(listeners[i]);
			}
		}
	}
}

int main(void)
{
	sigpipe_was_default = signal(SIGPIPE, SIG_IGN) == SIG_DFL;
	take_start();
	if (strncmp(file_text, "exit ", 5) == 0) {
		return atoi(file_text + 5);
	}
	if (start.flags & BOX_BOXD_START_CHECK_CONFIG) {
		return 0;
	}
	if (strcmp(state_text, "unready") == 0) {
		(void)usleep(UNREADY_US);
		send_state("-");
		return 3;
	}
	narrow(NULL);
	send_plain(BOX_BOXD_READY, NULL, 0);
	take_listen();
	loop();
}
