/* The load client's measurements of commands in boxes: in an existing session, in a new one, and
 * many at once. The baselines run in turn with them, so that noise affects both. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

#define NAME_BYTES 64

static struct text message, answer;
static uint64_t seq;

static void begin(void)
{
	message.len = 0;
	ask_init(&message, ++seq);
	(void)round_trip(&message, &answer, seq);
}

static uint64_t exec_once(const char *session, const char *cmd, bool network)
{
	message.len = 0;
	ask_exec(&message, ++seq, session, cmd, network);
	uint64_t took = round_trip(&message, &answer, seq);
	(void)check_exec(&answer);
	return took;
}

static uint64_t delete_once(const char *session)
{
	message.len = 0;
	ask_delete(&message, ++seq, session);
	return round_trip(&message, &answer, seq);
}

static void print_named(const char *name, uint64_t *times)
{
	printf("\"%s\": ", name);
	print_series(times + opt.warmup, opt.count);
	(void)fputs(", ", stdout);
	free(times);
}

static void end(void)
{
	free(message.bytes);
	free(answer.bytes);
	message = answer = (struct text){0};
}

void measure_exec(void)
{
	size_t rounds = opt.warmup + opt.count;
	char networked[NAME_BYTES];
	uint64_t *off = zeroed(rounds, sizeof(*off));
	uint64_t *on = opt.network ? zeroed(rounds, sizeof(*on)) : NULL;
	(void)snprintf(networked, sizeof(networked), "%s-on", opt.session);
	begin();
	spawns_prepare(rounds);
	for (size_t i = 0; i < rounds; i++) {
		spawns_turn(i);
		off[i] = exec_once(opt.session, opt.cmd, false);
		if (on) {
			on[i] = exec_once(networked, opt.cmd, true);
		}
	}
	(void)putchar('{');
	print_named("exec", off);
	if (on) {
		print_named("exec_on", on);
	}
	spawns_print();
	(void)fputs("}\n", stdout);
	end();
}

/* The command only prints a file: making the text is not measured. */
void measure_output(void)
{
	size_t rounds = opt.warmup + opt.count;
	uint64_t *times = zeroed(rounds, sizeof(*times));
	make_big();
	begin();
	(void)exec_once(opt.session, big_command(), false);
	for (size_t i = 0; i < rounds; i++) {
		times[i] = exec_once(opt.session, "cat f", false);
		check_big(&answer);
	}
	print_series(times + opt.warmup, opt.count);
	(void)putchar('\n');
	free(times);
	end();
}

/* Times of new sessions, network off or on. */
struct fresh {
	uint64_t *first; /* the exec that makes the box */
	uint64_t *make;  /* what it took more than the next one */
	uint64_t *gone;  /* removing the session */
};

static void fresh_turn(struct fresh *fresh, size_t round, bool network)
{
	char name[NAME_BYTES];
	(void)snprintf(name, sizeof(name), "%s-%zu-%s", opt.session, round, network ? "on" : "off");
	uint64_t first = exec_once(name, opt.cmd, network);
	uint64_t second = exec_once(name, opt.cmd, network);
	fresh->first[round] = first;
	fresh->make[round] = first > second ? first - second : 0;
	fresh->gone[round] = delete_once(name);
}

void measure_first(void)
{
	size_t rounds = opt.warmup + opt.count;
	static const char *const names[][3] = {
		{"first", "make", "delete"}, {"first_on", "make_on", "delete_on"}};
	struct fresh fresh[2];
	begin();
	spawns_prepare(rounds);
	for (size_t i = 0; i < 2; i++) {
		fresh[i].first = zeroed(rounds, sizeof(uint64_t));
		fresh[i].make = zeroed(rounds, sizeof(uint64_t));
		fresh[i].gone = zeroed(rounds, sizeof(uint64_t));
	}
	for (size_t i = 0; i < rounds; i++) {
		spawns_turn(i);
		/* The previous session is still being cleaned up: the two take turns in coming
		 * first. */
		bool on_first = opt.network && i % 2 == 1;
		fresh_turn(&fresh[on_first], i, on_first);
		if (opt.network) {
			fresh_turn(&fresh[!on_first], i, !on_first);
		}
	}
	(void)putchar('{');
	for (size_t i = 0; i < 2; i++) {
		print_named(names[i][0], fresh[i].first);
		print_named(names[i][1], fresh[i].make);
		print_named(names[i][2], fresh[i].gone);
	}
	spawns_print();
	(void)fputs("}\n", stdout);
	end();
}

/* --- many at once --- */

static size_t answered(bool *done, size_t first, size_t *refused)
{
	bool success;
	receive(&answer);
	uint64_t got = check_either(&answer, &success);
	if (got < first || got > seq || done[got - first]) {
		die("an answer that was not asked for");
	}
	done[got - first] = true;
	if (success) {
		(void)check_exec(&answer);
	} else {
		(*refused)++;
	}
	return 1;
}

/* The sessions exist before the measurement, because the warm-up has used each. */
void measure_rate(void)
{
	struct text wire = {0};
	size_t total = opt.warmup + opt.count;
	size_t refused = 0;
	begin();
	uint64_t first = seq + 1;
	bool *done = zeroed(total, sizeof(*done));
	uint64_t before = now_ns();
	for (size_t sent = 0, back = 0; back < total;) {
		wire.len = 0;
		for (; sent < total && sent - back < opt.window; sent++) {
			char name[NAME_BYTES];
			(void)snprintf(
				name, sizeof(name), "%s-%zu", opt.session, sent % opt.sessions);
			message.len = 0;
			ask_exec(&message, ++seq, name, opt.cmd, false);
			wrap(&wire, &message);
		}
		write_all(&wire);
		do {
			back += answered(done, first, &refused);
			before = back == opt.warmup ? now_ns() : before;
		} while (back < total && more_received());
	}
	double seconds = (double)(now_ns() - before) / 1e9;
	printf("{\"count\": %zu, \"window\": %zu, \"sessions\": %zu, \"refused\": %zu, "
	       "\"per_second\": %.1f}\n",
		opt.count, opt.window, opt.sessions, refused, (double)opt.count / seconds);
	free(done);
	free(wire.bytes);
	end();
}
