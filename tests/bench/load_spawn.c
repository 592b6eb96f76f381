/* The load client's baselines: processes of this host, spawned and waited for, with nothing around
 * them. */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/load.h"

#define COMMANDS_MAX 8

static struct {
	char **argv;
	uint64_t *times;
} commands[COMMANDS_MAX];
static size_t command_count;

static pid_t begin(char **argv)
{
	pid_t pid;
	int r = posix_spawn(&pid, argv[0], NULL, NULL, argv, opt.env);
	if (r != 0) {
		die("%s: %s", argv[0], strerror(r));
	}
	return pid;
}

static void succeeded(pid_t pid, int status)
{
	if (pid < 0) {
		die("wait: %s", strerror(errno));
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		die("a process ended with status %#x", (unsigned int)status);
	}
}

void spawns_prepare(size_t rounds)
{
	char **from = opt.command;
	for (char **at = from; from; at++) {
		if (*at && strcmp(*at, "//") != 0) {
			continue;
		}
		if (at == from || command_count == COMMANDS_MAX) {
			die("no command, or too many");
		}
		bool last = *at == NULL;
		*at = NULL;
		commands[command_count].argv = from;
		commands[command_count++].times = zeroed(rounds, sizeof(uint64_t));
		from = last ? NULL : at + 1;
	}
}

void spawns_turn(size_t round)
{
	for (size_t i = 0; i < command_count; i++) {
		int status = 0;
		uint64_t before = now_ns();
		pid_t pid = waitpid(begin(commands[i].argv), &status, 0);
		commands[i].times[round] = now_ns() - before;
		succeeded(pid, status);
	}
}

void spawns_print(void)
{
	(void)fputs("\"spawned\": [", stdout);
	for (size_t i = 0; i < command_count; i++) {
		(void)fputs(i > 0 ? ", " : "", stdout);
		print_series(commands[i].times + opt.warmup, opt.count);
		free(commands[i].times);
	}
	(void)putchar(']');
}

void measure_spawn(void)
{
	size_t rounds = opt.warmup + opt.count;
	spawns_prepare(rounds);
	for (size_t i = 0; i < rounds; i++) {
		spawns_turn(i);
	}
	(void)putchar('{');
	spawns_print();
	(void)fputs("}\n", stdout);
}

/* One thread's share of all commands, with its share of the window in flight. */
static _Noreturn void spawner(size_t count, size_t window)
{
	for (size_t begun = 0, ended = 0; ended < count; ended++) {
		for (; begun < count && begun - ended < window; begun++) {
			(void)begin(commands[0].argv);
		}
		int status = 0;
		pid_t pid = wait(&status);
		succeeded(pid, status);
	}
	_exit(0);
}

/* A spawner waits in vfork for half of the time, so there is one per processor. */
void measure_spawns(void)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	size_t spawners = processors < 1 ? 1 : (size_t)processors;
	spawners = spawners < opt.window ? spawners : opt.window;
	size_t each = (opt.count + spawners - 1) / spawners;
	spawns_prepare(0);
	uint64_t before = now_ns();
	for (size_t i = 0; i < spawners; i++) {
		pid_t pid = fork();
		if (pid < 0) {
			die("fork: %s", strerror(errno));
		}
		if (pid == 0) {
			spawner(each, (opt.window + spawners - 1) / spawners);
		}
	}
	for (size_t i = 0; i < spawners; i++) {
		int status = 0;
		pid_t pid = wait(&status);
		succeeded(pid, status);
	}
	double seconds = (double)(now_ns() - before) / 1e9;
	printf("{\"count\": %zu, \"window\": %zu, \"spawners\": %zu, \"per_second\": %.1f}\n",
		each * spawners, opt.window, spawners, (double)(each * spawners) / seconds);
}
