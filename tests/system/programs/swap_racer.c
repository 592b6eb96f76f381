/* Swaps host folders while a runtime mounts them.
 *
 * swap_racer ARENA VICTIM. In ARENA, boxes are asked to mount the real tree `top/mid/leaf`. In a
 * loop one of its three names is atomically replaced and put back, or it is missing for a moment,
 * so that the runtime creates it. Runs until its stdin ends, and prints how many rounds it made. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAMES 3

static const char *const paths[NAMES] = {"top", "top/mid", "top/mid/leaf"};

static uint32_t dice(void)
{
	static uint32_t state = 2463534242U;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* Where the replacements for name `i` wait: beside the tree, so that a rename is enough. */
static void lure_name(char name[PATH_MAX], int i, int kind)
{
	(void)snprintf(name, PATH_MAX, "lures/%d-%d", i, kind);
}

static void make_link(const char *to, int i, int kind)
{
	char name[PATH_MAX];
	lure_name(name, i, kind);
	if (symlink(to, name) < 0) {
		die(name);
	}
}

enum lure {
	TO_ETC,
	TO_VICTIM,
	TO_SAME_NAME, /* so that the rest of the path exists, too */
	TO_MISSING,   /* would be created in the victim by a runtime that follows it */
	REAL_FOLDER,
	NOTHING, /* the name is missing */
	LURES_
};

static void make_lures(const char *victim)
{
	char path[PATH_MAX];
	if (mkdir("lures", 0755) < 0) {
		die("lures");
	}
	for (int i = 0; i < NAMES; i++) {
		make_link("/etc", i, TO_ETC);
		make_link(victim, i, TO_VICTIM);
		(void)snprintf(path, sizeof(path), "%s/%s", victim, paths[i]);
		make_link(path, i, TO_SAME_NAME);
		(void)snprintf(path, sizeof(path), "%s/missing-%d", victim, i);
		make_link(path, i, TO_MISSING);
		lure_name(path, i, REAL_FOLDER);
		if (mkdir(path, 0755) < 0) {
			die(path);
		}
	}
}

/* The parent folder of a name, by path components that are not links: the racer itself never moves
 * files of the victim. */
static int open_parent(int arena, int i)
{
	int fd = openat(arena, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char rest[PATH_MAX];
	(void)snprintf(rest, sizeof(rest), "%s", paths[i]);
	for (char *at = rest, *slash; fd >= 0 && (slash = strchr(at, '/')); at = slash + 1) {
		*slash = '\0';
		int next = openat(fd, at, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		(void)close(fd);
		fd = next;
	}
	if (fd < 0) {
		die("open_parent");
	}
	return fd;
}

static const char *last_name(int i)
{
	const char *slash = strrchr(paths[i], '/');
	return slash ? slash + 1 : paths[i];
}

static void linger(void)
{
	for (volatile uint32_t spin = dice() % 20000; spin > 0; spin--) {
	}
	/* Sometimes it stays: then a plain refusal is expected. */
	if (dice() % 64 == 0) {
		(void)usleep(dice() % 3000);
	}
}

static void exchange(int arena, int i, int kind)
{
	char lure[PATH_MAX];
	int parent = open_parent(arena, i);
	lure_name(lure, i, kind);
	for (int turn = 0; turn < 2; turn++) {
		if (renameat2(parent, last_name(i), arena, lure, RENAME_EXCHANGE) < 0) {
			die(lure);
		}
		linger();
	}
	(void)close(parent);
}

/* Folders that the runtime created meanwhile are moved away. */
static void take_away(int arena, int i)
{
	static unsigned made;
	char aside[PATH_MAX];
	int parent = open_parent(arena, i);
	const char *name = last_name(i);
	if (renameat2(parent, name, arena, "lures/away", RENAME_NOREPLACE) < 0) {
		die("lures/away");
	}
	linger();
	if (renameat2(arena, "lures/away", parent, name, RENAME_NOREPLACE) < 0) {
		(void)snprintf(aside, sizeof(aside), "lures/made-%u", made++);
		if (renameat2(arena, "lures/away", parent, name, RENAME_EXCHANGE) < 0 ||
			renameat2(arena, "lures/away", arena, aside, RENAME_NOREPLACE) < 0) {
			die(aside);
		}
	}
	linger();
	(void)close(parent);
}

static bool is_over(void)
{
	struct pollfd polled = {.fd = STDIN_FILENO, .events = POLLIN};
	char byte;
	return poll(&polled, 1, 0) == 1 && read(STDIN_FILENO, &byte, 1) <= 0;
}

static void turn(int arena)
{
	int i = (int)(dice() % NAMES);
	int kind = (int)(dice() % LURES_);
	if (kind == NOTHING) {
		take_away(arena, i);
	} else {
		exchange(arena, i, kind);
	}
}

int main(int argc, char **argv)
{
	if (argc != 3 || chdir(argv[1]) < 0) {
		(void)fprintf(stderr, "usage: swap_racer ARENA VICTIM\n");
		return 2;
	}
	int arena = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (arena < 0) {
		die("arena");
	}
	for (int i = 0; i < NAMES; i++) {
		if (mkdir(paths[i], 0755) < 0 && errno != EEXIST) {
			die(paths[i]);
		}
	}
	make_lures(argv[2]);
	(void)printf("ready\n");
	(void)fflush(stdout);
	uint64_t turns = 0;
	while (turns % 16 != 0 || !is_over()) {
		turn(arena);
		turns++;
	}
	(void)printf("%llu\n", (unsigned long long)turns);
	return 0;
}
