/* The load client: asks a runtime over WebSocket or stdio, takes the time, prints it as JSON.
 *
 * Nothing but libc, so that what is measured is the runtime and not the client. What is sent is
 * built, and what came is checked, outside of the time taken; any answer that is not the right one
 * ends the program with 1.
 */
#include "tests/bench/load.h"

#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
	"usage: load MODE --ws PORT [OPTION]... [-- COMMAND...]\n"
	"       load MODE --stdio [OPTION]... -- COMMAND...\n"
	"MODE\n"
	"  ping     round trips of __ping, one at a time\n"
	"  flood    pings a second with --window of them under way\n"
	"  big      round trips of a message with --bytes of text, which comes back: a\n"
	"           box_create_session with it as its image, or a box_exec that prints it\n"
	"  start    from the start of COMMAND to its first box_health\n"
	"OPTION\n"
	"  --count N     how many (1000)          --warmup N    uncounted ones before (100)\n"
	"  --window N    under way at once (32)   --bytes N     length of the text (1048576)\n"
	"  --msgpack     not JSON                 --plain       a text without escapes\n"
	"  --echo        the peer answers with what it got\n"
	"  --exec        box_exec (mode big)\n"
	"  --backend B   for box_init             --root DIR    its host_root\n"
	"  --instance I  --token T                who we are\n"
	"  --env K=V     the only environment that COMMAND gets\n"
	"  --log FILE    COMMAND's stderr         --timeout N   give up after N seconds (60)\n";

struct options opt = {
	.count = 1000,
	.warmup = 100,
	.window = 32,
	.text_bytes = 1048576,
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

/* --- what is measured --- */

static void *zeroed(size_t count, size_t size)
{
	void *room = calloc(count, size);
	if (!room) {
		die("no memory");
	}
	return room;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

/* Of all round trips but those that warmed up. Frees them. */
static void print_times(uint64_t *all)
{
	uint64_t *times = all + opt.warmup;
	size_t count = opt.count;
	uint64_t sum = 0;
	qsort(times, count, sizeof(*times), by_value);
	for (size_t i = 0; i < count; i++) {
		sum += times[i];
	}
	size_t middle = count / 2;
	size_t ninety = count * 9 / 10;
	size_t ninety_nine = count * 99 / 100;
	printf("{\"count\": %zu, \"min_us\": %.2f, \"p50_us\": %.2f, \"p90_us\": %.2f, "
	       "\"p99_us\": %.2f, \"max_us\": %.2f, \"mean_us\": %.2f}\n",
		count, (double)times[0] / 1e3, (double)times[middle] / 1e3,
		(double)times[ninety] / 1e3, (double)times[ninety_nine] / 1e3,
		(double)times[count - 1] / 1e3, (double)sum / (double)count / 1e3);
	free(all);
}

/* Sends one message and takes its answer. The time between, in ns. */
static uint64_t round_trip(const struct text *message, struct text *answer, uint64_t seq)
{
	static struct text wire;
	wire.len = 0;
	wrap(&wire, message);
	uint64_t before = now_ns();
	write_all(&wire);
	receive(answer);
	uint64_t took = now_ns() - before;
	if (check(answer) != seq) {
		die("an answer to another request");
	}
	return took;
}

static void measure_ping(void)
{
	struct text message = {0};
	struct text answer = {0};
	uint64_t *times = zeroed(opt.warmup + opt.count, sizeof(*times));
	for (size_t i = 0; i < opt.warmup + opt.count; i++) {
		message.len = 0;
		ask_empty(&message, i + 1, "__ping");
		times[i] = round_trip(&message, &answer, i + 1);
	}
	print_times(times);
	free(message.bytes);
	free(answer.bytes);
}

static void add_ping(struct text *wire, struct text *message, uint64_t seq)
{
	message->len = 0;
	ask_empty(message, seq, "__ping");
	wrap(wire, message);
}

/* Keeps `window` pings under way: as many go out as have been answered, in one write. */
static void measure_flood(void)
{
	struct text wire = {0};
	struct text message = {0};
	struct text answer = {0};
	size_t total = opt.warmup + opt.count;
	size_t sent = 0;
	uint64_t before = 0;
	bool *answered = zeroed(total + 1, sizeof(*answered));
	for (size_t done = 0; done < total;) {
		wire.len = 0;
		while (sent < total && sent - done < opt.window) {
			add_ping(&wire, &message, ++sent);
		}
		write_all(&wire);
		do {
			receive(&answer);
			uint64_t seq = check(&answer);
			if (seq == 0 || seq > sent || answered[seq]) {
				die("an answer that was not asked for");
			}
			answered[seq] = true;
			if (++done == opt.warmup) {
				before = now_ns();
			}
		} while (more_received());
	}
	free(answered);
	free(wire.bytes);
	free(message.bytes);
	free(answer.bytes);
	double seconds = (double)(now_ns() - before) / 1e9;
	printf("{\"count\": %zu, \"window\": %zu, \"per_second\": %.1f}\n", opt.count, opt.window,
		(double)opt.count / seconds);
}

static void measure_big(void)
{
	struct text message = {0};
	struct text answer = {0};
	uint64_t *times = zeroed(opt.warmup + opt.count, sizeof(*times));
	make_big();
	if (!opt.echo) {
		ask_init(&message, 1);
		(void)round_trip(&message, &answer, 1);
	}
	for (size_t i = 0; i < opt.warmup + opt.count; i++) {
		message.len = 0;
		ask_big(&message, i + 2);
		times[i] = round_trip(&message, &answer, i + 2);
		check_big(&answer);
	}
	print_times(times);
	free(message.bytes);
	free(answer.bytes);
}

static void measure_start(void)
{
	struct text message = {0};
	struct text answer = {0};
	ask_empty(&message, 1, "box_health");
	uint64_t before = now_ns();
	spawn();
	uint64_t spawned = now_ns();
	if (opt.ws) {
		dial();
	}
	uint64_t connected = now_ns();
	(void)round_trip(&message, &answer, 1);
	uint64_t answered = now_ns();
	printf("{\"spawn_ms\": %.3f, \"connected_ms\": %.3f, \"total_ms\": %.3f}\n",
		(double)(spawned - before) / 1e6, (double)(connected - before) / 1e6,
		(double)(answered - before) / 1e6);
}

/* --- the command line --- */

enum {
	FLAG_WS = 1,
	FLAG_STDIO,
	FLAG_COUNT,
	FLAG_WARMUP,
	FLAG_WINDOW,
	FLAG_BYTES,
	FLAG_MSGPACK,
	FLAG_PLAIN,
	FLAG_ECHO,
	FLAG_EXEC,
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
	{"stdio", no_argument, NULL, FLAG_STDIO},
	{"count", required_argument, NULL, FLAG_COUNT},
	{"warmup", required_argument, NULL, FLAG_WARMUP},
	{"window", required_argument, NULL, FLAG_WINDOW},
	{"bytes", required_argument, NULL, FLAG_BYTES},
	{"msgpack", no_argument, NULL, FLAG_MSGPACK},
	{"plain", no_argument, NULL, FLAG_PLAIN},
	{"echo", no_argument, NULL, FLAG_ECHO},
	{"exec", no_argument, NULL, FLAG_EXEC},
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

static void apply(int flag)
{
	switch (flag) {
	case FLAG_WS:
		opt.ws = true;
		opt.port = (uint16_t)number(UINT16_MAX);
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
	case FLAG_EXEC:
		opt.exec = true;
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
		if (opt.env_count + 1 == sizeof(opt.env) / sizeof(opt.env[0])) {
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

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*measure)(void);
	} modes[] = {
		{"ping", measure_ping},
		{"flood", measure_flood},
		{"big", measure_big},
		{"start", measure_start},
	};
	void (*measure)(void) = NULL;
	for (size_t i = 0; argc > 1 && i < sizeof(modes) / sizeof(modes[0]); i++) {
		measure = strcmp(argv[1], modes[i].name) == 0 ? modes[i].measure : measure;
	}
	if (!measure) {
		wrong_usage();
	}
	take_signals();
	(void)alarm(60);
	optind = 2;
	for (int flag; (flag = getopt_long(argc, argv, "+", flags, NULL)) != -1;) {
		apply(flag);
	}
	opt.command = optind < argc ? argv + optind : NULL;
	if (opt.ws == opt.stdio || opt.count == 0 || opt.window == 0 || opt.text_bytes == 0 ||
		(measure == measure_big && !opt.echo && !opt.backend) ||
		(opt.command != NULL) != (opt.stdio || measure == measure_start)) {
		wrong_usage();
	}
	if (opt.stdio && measure != measure_start) {
		spawn();
	} else if (opt.ws && measure != measure_start) {
		dial();
	}
	measure();
	(void)fflush(stdout);
	end_child();
	return 0;
}
