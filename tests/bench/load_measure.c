/* The load client's measurements of messages: pings, large texts, the start of a runtime. */
#include <stdio.h>
#include <stdlib.h>

#include "tests/bench/load.h"

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

void print_series(uint64_t *times, size_t count)
{
	uint64_t sum = 0;
	qsort(times, count, sizeof(*times), by_value);
	for (size_t i = 0; i < count; i++) {
		sum += times[i];
	}
	size_t middle = count / 2;
	size_t ninety = count * 9 / 10;
	size_t ninety_nine = count * 99 / 100;
	printf("{\"count\": %zu, \"min_us\": %.2f, \"p50_us\": %.2f, \"p90_us\": %.2f, "
	       "\"p99_us\": %.2f, \"max_us\": %.2f, \"mean_us\": %.2f}",
		count, (double)times[0] / 1e3, (double)times[middle] / 1e3,
		(double)times[ninety] / 1e3, (double)times[ninety_nine] / 1e3,
		(double)times[count - 1] / 1e3, (double)sum / (double)count / 1e3);
}

/* Of all round trips except the warm-up. Frees them. */
static void print_times(uint64_t *all)
{
	print_series(all + opt.warmup, opt.count);
	(void)putchar('\n');
	free(all);
}

uint64_t round_trip(const struct text *message, struct text *answer, uint64_t seq)
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

void measure_ping(void)
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

/* Keeps `window` pings in flight: as many are sent as were answered, in one write. */
void measure_flood(void)
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

void measure_big(void)
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

void measure_start(void)
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
