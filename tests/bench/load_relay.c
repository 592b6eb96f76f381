/* The load client's measurements of streams: lines through the relay of a managed process that
 * sends them back, and through a bare command behind a socket. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/load.h"

static struct text line; /* without its end */

static void make_line(void)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	for (size_t i = 0; i < opt.text_bytes; i++) {
		add_byte(&line, (unsigned char)letters[i % (sizeof(letters) - 1)]);
	}
}

/* Sends one request and takes its answer. */
static void ask(const struct text *message, uint64_t seq)
{
	struct text answer = {0};
	(void)round_trip(message, &answer, seq);
	free(answer.bytes);
}

/* As many processes as `--sessions` says, all in one session; the connection then becomes the relay
 * of the last one. */
static void begin(void)
{
	struct text message = {0};
	uint64_t seq = 0;
	make_line();
	if (opt.bare) {
		return;
	}
	ask_init(&message, ++seq);
	ask(&message, seq);
	message.len = 0;
	ask_exec(&message, ++seq, opt.session, "true", false);
	ask(&message, seq);
	for (size_t i = 0; i < opt.sessions; i++) {
		char process[32];
		(void)snprintf(process, sizeof(process), "p%zu", i);
		message.len = 0;
		ask_start(&message, ++seq, opt.session, process, opt.cmd);
		ask(&message, seq);
	}
	free(message.bytes);
}

static void attach(void)
{
	if (!opt.bare) {
		dial_relay(opt.relay);
	}
}

static void wrap_line(struct text *wire)
{
	if (opt.bare) {
		add(wire, line.bytes, line.len);
		add_byte(wire, '\n');
	} else {
		wrap(wire, &line);
	}
}

/* Letters of lines that came back with the next piece. */
static size_t take_piece(struct text *piece)
{
	if (opt.bare) {
		piece->len = 0;
		receive_bytes(piece);
	} else {
		receive(piece);
	}
	size_t letters = piece->len;
	const char *at = piece->bytes;
	const char *end = at + piece->len;
	while (at < end && (at = memchr(at, '\n', (size_t)(end - at)))) {
		letters--;
		at++;
	}
	return letters;
}

void measure_relay(void)
{
	struct text wire = {0};
	struct text piece = {0};
	struct text back = {0};
	uint64_t *times = zeroed(opt.warmup + opt.count, sizeof(*times));
	begin();
	attach();
	for (size_t i = 0; i < opt.warmup + opt.count; i++) {
		wire.len = 0;
		back.len = 0;
		wrap_line(&wire);
		uint64_t before = now_ns();
		write_all(&wire);
		while (back.len < line.len) {
			(void)take_piece(&piece);
			add(&back, piece.bytes, piece.len);
		}
		times[i] = now_ns() - before;
		if (memcmp(back.bytes, line.bytes, line.len) != 0) {
			die("another line came back");
		}
	}
	print_series(times + opt.warmup, opt.count);
	(void)putchar('\n');
	free(times);
	free(wire.bytes);
	free(piece.bytes);
	free(back.bytes);
}

/* Lines in flight are counted by their letters, because not every peer keeps newlines. */
void measure_relay_flood(void)
{
	struct text wire = {0};
	struct text piece = {0};
	size_t total = opt.warmup + opt.count;
	size_t sent = 0;
	size_t letters = 0;
	uint64_t before = 0;
	begin();
	attach();
	for (size_t back = 0; back < total; back = letters / line.len) {
		before = before == 0 && back >= opt.warmup ? now_ns() : before;
		wire.len = 0;
		for (; sent < total && sent - back < opt.window; sent++) {
			wrap_line(&wire);
		}
		write_all(&wire);
		letters += take_piece(&piece);
	}
	double seconds = (double)(now_ns() - before) / 1e9;
	double bytes = (double)opt.count * (double)line.len;
	printf("{\"count\": %zu, \"mb_per_second\": %.2f}\n", opt.count, bytes / 1e6 / seconds);
	free(wire.bytes);
	free(piece.bytes);
}

/* The processes exist, and keep running. */
void measure_processes(void)
{
	begin();
	printf("{\"processes\": %zu}\n", opt.sessions);
}

/* The time until the peer has sent everything. */
void measure_drain(void)
{
	struct text piece = {0};
	uint64_t bytes = 0;
	uint64_t before = now_ns();
	for (size_t got; (got = receive_some(&piece)) > 0; bytes += got) {
		piece.len = 0;
	}
	printf("{\"bytes\": %llu, \"seconds\": %.6f}\n", (unsigned long long)bytes,
		(double)(now_ns() - before) / 1e9);
	free(piece.bytes);
}
