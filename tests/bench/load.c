/* The load client: sends requests to a runtime over WebSocket or stdio, measures the time, prints
 * it as JSON.
 *
 * Uses libc only, so that the runtime is measured and not the client. Requests are built and
 * answers are checked outside of the measured time; any wrong answer ends the program with 1. */
#include "tests/bench/load.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/macros.h"

static const char usage[] =
	"usage: load MODE --ws PORT|--unix PATH [OPTION]... [-- COMMAND...]\n"
	"       load MODE --stdio [OPTION]... -- COMMAND...\n"
	"       load spawn|spawns [OPTION]... -- COMMAND... [// COMMAND...]...\n"
	"MODE\n"
	"  ping     round trips of __ping, one at a time\n"
	"  flood    pings a second with --window of them under way\n"
	"  big      round trips of a message with --bytes of text, which comes back: a\n"
	"           box_create_session with it as its image, or a box_exec that prints it\n"
	"  start    from the start of COMMAND to its first box_health\n"
	"  exec     round trips of box_exec of --cmd in one session; with --with-network in a\n"
	"           second session too, in turns\n"
	"  output   the same of a command that prints --bytes of text\n"
	"  first    a new session each time: its first exec, its second, its end\n"
	"  rate     execs a second with --window of them under way in --sessions\n"
	"  relay    round trips of a line of --bytes through the relay of a process that runs --cmd\n"
	"  flow     the same with --window lines under way\n"
	"  processes  starts --sessions processes that run --cmd\n"
	"  drain    how long all that a --bare peer says takes\n"
	"  spawn    one process after the other on this machine\n"
	"  spawns   processes a second with --window of them under way\n"
	"In exec and first each COMMAND (// between two) is run in turn with the requests: what\n"
	"they are compared with.\n"
	"OPTION\n"
	"  --count N     how many (1000)          --warmup N    uncounted ones before (100)\n"
	"  --window N    under way at once (32)   --bytes N     length of the text (1048576)\n"
	"  --msgpack     not JSON                 --plain       a text without escapes\n"
	"  --echo        the peer answers with what it got\n"
	"  --bare        the peer is a plain socket: lines come back as they went\n"
	"  --relay PATH  where the relay is (modes relay, flow)\n"
	"  --exec        box_exec (mode big)\n"
	"  --cmd C       what is run (true)       --expect T    part of its answer, as encoded\n"
	"  --session S   its session (bench)      --sessions N  S-0 to S-(N-1) (mode rate) (1)\n"
	"  --cpus N      for box_exec             --seconds N   its timeout_sec\n"
	"  --with-network                         network on as well (modes exec, first)\n"
	"  --backend B   for box_init             --root DIR    its host_root\n"
	"  --instance I  --token T                who we are\n"
	"  --env K=V     the only environment that COMMAND gets\n"
	"  --log FILE    COMMAND's stderr         --timeout N   give up after N seconds (60)\n";

struct options opt = {
	.count = 1000,
	.warmup = 100,
	.window = 32,
	.text_bytes = 1048576,
	.sessions = 1,
	.cmd = "true",
	.session = "bench",
	.instance = "bench-instance",
	.log = "/dev/null",
};

_Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	(void)fputs("load: ", stderr);
	(void)vfprintf(stderr, format, args);
	(void)fputc('\n', stderr);
	va_end(args);
	kill_child();
	exit(1);
}

uint64_t now_ns(void)
{
	struct timespec t;
	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* Zeroed memory for an array; exits when there is none. */
void *zeroed(size_t count, size_t size)
{
	void *room = calloc(count, size);
	if (!room) {
		die("no memory");
	}
	return room;
}

/* --- texts --- */

char *space(struct text *text, size_t len)
{
	if (text->len + len > text->room) {
		text->room = text->room * 2 > text->len + len ? text->room * 2 : text->len + len;
		text->bytes = realloc(text->bytes, text->room);
		if (!text->bytes) {
			die("no memory");
		}
	}
	return text->bytes + text->len;
}

void add(struct text *text, const void *bytes, size_t len)
{
	memcpy(space(text, len), bytes, len);
	text->len += len;
}

void add_cstr(struct text *text, const char *more)
{
	add(text, more, strlen(more));
}

void add_byte(struct text *text, unsigned int byte)
{
	*space(text, 1) = (char)byte;
	text->len++;
}

void add_big_endian(struct text *out, uint64_t number, int bytes)
{
	for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
		add_byte(out, (unsigned int)(number >> shift) & 0xff);
	}
}

void add_escaped(struct text *out, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (bytes[i] == '"' || bytes[i] == '\\') {
			add_byte(out, '\\');
			add_byte(out, (unsigned char)bytes[i]);
		} else if (bytes[i] == '\n') {
			add(out, "\\n", 2);
		} else {
			add_byte(out, (unsigned char)bytes[i]);
		}
	}
}

/* --- the command line --- */

enum {
	FLAG_WS = 1,
	FLAG_UNIX,
	FLAG_STDIO,
	FLAG_COUNT,
	FLAG_WARMUP,
	FLAG_WINDOW,
	FLAG_BYTES,
	FLAG_MSGPACK,
	FLAG_PLAIN,
	FLAG_ECHO,
	FLAG_BARE,
	FLAG_RELAY,
	FLAG_EXEC,
	FLAG_CMD,
	FLAG_EXPECT,
	FLAG_SESSION,
	FLAG_SESSIONS,
	FLAG_CPUS,
	FLAG_SECONDS,
	FLAG_NETWORK,
	FLAG_BACKEND,
	FLAG_ROOT,
	FLAG_INSTANCE,
	FLAG_TOKEN,
	FLAG_ENV,
	FLAG_LOG,
	FLAG_TIMEOUT,
};

static const struct option flags[] = {
	{"ws", required_argument, NULL, FLAG_WS},
	{"unix", required_argument, NULL, FLAG_UNIX},
	{"stdio", no_argument, NULL, FLAG_STDIO},
	{"count", required_argument, NULL, FLAG_COUNT},
	{"warmup", required_argument, NULL, FLAG_WARMUP},
	{"window", required_argument, NULL, FLAG_WINDOW},
	{"bytes", required_argument, NULL, FLAG_BYTES},
	{"msgpack", no_argument, NULL, FLAG_MSGPACK},
	{"plain", no_argument, NULL, FLAG_PLAIN},
	{"echo", no_argument, NULL, FLAG_ECHO},
	{"bare", no_argument, NULL, FLAG_BARE},
	{"relay", required_argument, NULL, FLAG_RELAY},
	{"exec", no_argument, NULL, FLAG_EXEC},
	{"cmd", required_argument, NULL, FLAG_CMD},
	{"expect", required_argument, NULL, FLAG_EXPECT},
	{"session", required_argument, NULL, FLAG_SESSION},
	{"sessions", required_argument, NULL, FLAG_SESSIONS},
	{"cpus", required_argument, NULL, FLAG_CPUS},
	{"seconds", required_argument, NULL, FLAG_SECONDS},
	{"with-network", no_argument, NULL, FLAG_NETWORK},
	{"backend", required_argument, NULL, FLAG_BACKEND},
	{"root", required_argument, NULL, FLAG_ROOT},
	{"instance", required_argument, NULL, FLAG_INSTANCE},
	{"token", required_argument, NULL, FLAG_TOKEN},
	{"env", required_argument, NULL, FLAG_ENV},
	{"log", required_argument, NULL, FLAG_LOG},
	{"timeout", required_argument, NULL, FLAG_TIMEOUT},
	{0},
};

static _Noreturn void wrong_usage(void)
{
	(void)fputs(usage, stderr);
	exit(2);
}

static size_t number(size_t most)
{
	char *end;
	unsigned long long value = strtoull(optarg, &end, 10);
	if (*end != '\0' || end == optarg || value > most) {
		wrong_usage();
	}
	return (size_t)value;
}

/* Whether the option was one of those that name commands. */
static bool apply_exec(int flag)
{
	switch (flag) {
	case FLAG_EXEC:
		opt.exec = true;
		return true;
	case FLAG_CMD:
		opt.cmd = optarg;
		return true;
	case FLAG_EXPECT:
		opt.expect = optarg;
		return true;
	case FLAG_RELAY:
		opt.relay = optarg;
		return true;
	case FLAG_SESSION:
		opt.session = optarg;
		return true;
	case FLAG_SESSIONS:
		opt.sessions = number(INT_MAX);
		return true;
	case FLAG_CPUS:
		opt.cpus = number(1024);
		return true;
	case FLAG_SECONDS:
		opt.seconds = number(3600);
		return true;
	case FLAG_NETWORK:
		opt.network = true;
		return true;
	default:
		return false;
	}
}

static void apply(int flag)
{
	if (apply_exec(flag)) {
		return;
	}
	switch (flag) {
	case FLAG_WS:
		opt.ws = true;
		opt.port = (uint16_t)number(UINT16_MAX);
		break;
	case FLAG_UNIX:
		opt.ws = true;
		opt.socket = optarg;
		break;
	case FLAG_STDIO:
		opt.stdio = true;
		break;
	case FLAG_COUNT:
		opt.count = number(INT_MAX);
		break;
	case FLAG_WARMUP:
		opt.warmup = number(INT_MAX);
		break;
	case FLAG_WINDOW:
		opt.window = number(128);
		break;
	case FLAG_BYTES:
		opt.text_bytes = number(INT_MAX);
		break;
	case FLAG_MSGPACK:
		opt.msgpack = true;
		break;
	case FLAG_PLAIN:
		opt.plain = true;
		break;
	case FLAG_ECHO:
		opt.echo = true;
		break;
	case FLAG_BARE:
		opt.bare = true;
		break;
	case FLAG_BACKEND:
		opt.backend = optarg;
		break;
	case FLAG_ROOT:
		opt.root = optarg;
		break;
	case FLAG_INSTANCE:
		opt.instance = optarg;
		break;
	case FLAG_TOKEN:
		opt.token = optarg;
		break;
	case FLAG_ENV:
		if (opt.env_count + 1 == BOX_COUNT_OF(opt.env)) {
			wrong_usage();
		}
		opt.env[opt.env_count++] = optarg;
		break;
	case FLAG_LOG:
		opt.log = optarg;
		break;
	case FLAG_TIMEOUT:
		(void)alarm((unsigned int)number(3600));
		break;
	default:
		wrong_usage();
	}
}

struct mode {
	const char *name;
	void (*measure)(void);
	bool no_peer;      /* speaks to nobody */
	bool inits;        /* needs a backend, unless the peer is an echo */
	bool must_command; /* COMMAND is what is measured */
	bool may_command;  /* COMMAND is what it is compared with */
};

static const struct mode modes[] = {
	{.name = "ping", .measure = measure_ping},
	{.name = "flood", .measure = measure_flood},
	{.name = "big", .measure = measure_big, .inits = true},
	{.name = "start", .measure = measure_start, .must_command = true},
	{.name = "exec", .measure = measure_exec, .inits = true, .may_command = true},
	{.name = "output", .measure = measure_output, .inits = true},
	{.name = "first", .measure = measure_first, .inits = true, .may_command = true},
	{.name = "rate", .measure = measure_rate, .inits = true},
	{.name = "relay", .measure = measure_relay, .inits = true},
	{.name = "flow", .measure = measure_relay_flood, .inits = true},
	{.name = "processes", .measure = measure_processes, .inits = true},
	{.name = "drain", .measure = measure_drain},
	{.name = "spawn", .measure = measure_spawn, .no_peer = true, .must_command = true},
	{.name = "spawns", .measure = measure_spawns, .no_peer = true, .must_command = true},
};

static const struct mode *find_mode(const char *name)
{
	for (size_t i = 0; name && i < BOX_COUNT_OF(modes); i++) {
		if (strcmp(name, modes[i].name) == 0) {
			return &modes[i];
		}
	}
	wrong_usage();
}

static void check_options(const struct mode *mode)
{
	bool must = mode->must_command || opt.stdio;
	if (opt.ws + opt.stdio != (mode->no_peer ? 0 : 1) || opt.count == 0 || opt.window == 0 ||
		opt.text_bytes == 0 || opt.sessions == 0 ||
		(mode->inits && !opt.echo && !opt.bare && !opt.backend) || (must && !opt.command) ||
		(!must && !mode->may_command && opt.command) || (mode->may_command && opt.stdio)) {
		wrong_usage();
	}
}

int main(int argc, char **argv)
{
	const struct mode *mode = find_mode(argv[1]);
	take_signals();
	(void)alarm(60);
	optind = 2;
	for (int flag; (flag = getopt_long(argc, argv, "+", flags, NULL)) != -1;) {
		apply(flag);
	}
	opt.command = optind < argc ? argv + optind : NULL;
	check_options(mode);
	if (mode->no_peer || mode->measure == measure_start) {
		mode->measure();
	} else {
		if (opt.stdio) {
			spawn();
		} else {
			dial();
		}
		mode->measure();
	}
	(void)fflush(stdout);
	end_child();
	return 0;
}
