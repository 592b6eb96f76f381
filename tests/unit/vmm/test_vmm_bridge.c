/* The bridge of a microVM box: a guest that behaves, and guests that do not. */
#include "tests/unit/lib/vmm_bridge_fixture.h"

/* --- before the report --- */

TEST(a_guest_that_reports_byte_by_byte)
{
	start(WAIT_MS);
	stream = dial();
	struct box_init_report said = {BOX_INIT_BOOT_STDIO, ENOENT};
	for (size_t i = 0; i < sizeof(said); i++) {
		ASSERT_INT(send(stream, (char *)&said + i, 1, MSG_NOSIGNAL), 1);
		(void)usleep(2000);
	}
	hear_report();
	ASSERT_INT(words.report.step, BOX_INIT_BOOT_STDIO);
	ASSERT_INT(words.report.errnum, ENOENT);
	ASSERT_INT(ended(), 1);
}

TEST(reports_that_make_no_sense)
{
	static const struct box_init_report table[] = {{0, 1}, {0, -1}, {1, 1}, {64, 5}, {999, 1},
		{BOX_INIT_BOOT_READ, 0}, {BOX_INIT_BOOT_READ, -5}, {BOX_INIT_BOOT_READ, 4096},
		{BOX_INIT_BOOT_END_, 1}, {BOX_VMM_READ, 1}, {BOX_VMM_DEADLINE, ETIMEDOUT},
		{UINT32_MAX, INT32_MAX}};
	for (size_t i = 0; i < COUNT(table); i++) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
		start(WAIT_MS);
		stream = dial();
		say_report(table[i].step, table[i].errnum);
		hear_report();
		ASSERT_INT(words.report.step, BOX_VMM_ANSWER);
		ASSERT_INT(words.report.errnum, EBADMSG);
		ASSERT_INT(ended(), 1);
		remove_folder();
	}
}

TEST(a_guest_that_never_comes)
{
	start(300);
	ASSERT_INT(write(console, "Linux version\nall is lost\n", 26), 26);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_DEADLINE);
	ASSERT_INT(words.report.errnum, ETIMEDOUT);
	ASSERT_STR(words.text, "Linux version\nall is lost");
	ASSERT_INT(ended(), 1);
}

TEST(a_guest_that_comes_and_is_silent)
{
	start(300);
	stream = dial();
	ASSERT_INT(send(stream, "\0\0\0", 3, MSG_NOSIGNAL), 3);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_DEADLINE);
	ASSERT_INT(ended(), 1);
}

/* Its output meanwhile does not change the deadline. */
TEST(a_console_that_never_ends)
{
	start(500);
	char much[4096];
	memset(much, 'x', sizeof(much));
	(void)signal(SIGPIPE, SIG_IGN);
	time_t began = time(NULL);
	while (write(console, much, sizeof(much)) > 0) {
		ASSERT(time(NULL) - began < 20);
	}
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_DEADLINE);
	ASSERT_INT(strlen(words.text), BOX_MICROVM_TEXT_MAX - 1);
	ASSERT_INT(ended(), 1);
}

TEST(a_guest_that_comes_and_goes)
{
	start(WAIT_MS);
	stream = dial();
	ASSERT_INT(send(stream, "\0\0\0", 3, MSG_NOSIGNAL), 3);
	(void)close(stream);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_ANSWER);
	ASSERT_INT(ended(), 1);
}

TEST(a_machine_that_dies_early)
{
	start(WAIT_MS);
	ASSERT_INT(write(console, "libkrun: no\n", 12), 12);
	ASSERT_INT(kill(machine_pid, SIGKILL), 0);
	hear_report();
	ASSERT_INT(words.report.step, BOX_VMM_START);
	ASSERT_INT(words.report.errnum, ECHILD);
	ASSERT_STR(words.text, "libkrun: no\nits virtual machine was killed by signal 9");
	ASSERT_INT(ended(), 1);
}

TEST(a_box_that_nobody_wants_any_more)
{
	start(WAIT_MS);
	(void)close(control);
	ASSERT_INT(ended(), 1);
}

TEST(there_is_one_connection)
{
	start_ready();
	ASSERT_INT(dial(), -ENOENT);
	ASSERT_INT(access(path, F_OK), -1);
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* --- carrying --- */

TEST(requests_go_down_in_their_order)
{
	start_ready();
	static char body[BOX_INIT_BYTES_MAX];
	for (uint32_t i = 1; i <= 64; i++) {
		size_t size = i == 64 ? sizeof(body) : i * 37;
		memset(body, (int)i, size);
		ask(BOX_INIT_INPUT, i, body, size, -1);
		if (i % 4 == 0) {
			for (uint32_t k = i - 3; k <= i; k++) {
				struct box_init_header header = read_packet(bytes);
				ASSERT_INT(header.kind, BOX_INIT_INPUT);
				ASSERT_INT(header.id, k);
				ASSERT_INT(bytes[0], (char)k);
				ASSERT_INT(bytes[header.size - sizeof(header) - 1], (char)k);
			}
		}
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Wherever the stream is split. */
TEST(answers_come_up_whole)
{
	start_ready();
	static char all[8 * BOX_INIT_PACKET_MAX];
	static const size_t sizes[] = {1, 100, BOX_INIT_BYTES_MAX, 7, 60000, 60000, 60000, 3};
	size_t total = 0;
	for (size_t i = 0; i < COUNT(sizes); i++) {
		memset(bytes, 'a' + (int)i, sizes[i]);
		total += make_packet(all + total, BOX_INIT_STDOUT, 5, bytes, sizes[i]);
	}
	static const size_t pieces[] = {1, 15, 16, 17, 4096, 100000};
	for (size_t p = 0; p < COUNT(pieces); p++) {
		size_t heard = 0;
		size_t slow = 0; /* byte by byte only at the start, because it is slow */
		for (size_t at = 0; at < total;) {
			size_t piece = pieces[p] < 100 && slow++ > 300 ? 5000 : pieces[p];
			piece = piece < total - at ? piece : total - at;
			ssize_t sent = send(stream, all + at, piece, MSG_NOSIGNAL | MSG_DONTWAIT);
			at += sent > 0 ? (size_t)sent : 0;
			while (!is_quiet(control, 0)) {
				ASSERT_INT(hear(packet, sizeof(packet)), sizes[heard] + 16);
				ASSERT_INT(packet[16], 'a' + (char)heard);
				ASSERT_INT(packet[sizes[heard] + 15], 'a' + (char)heard);
				heard++;
			}
		}
		for (; heard < COUNT(sizes); heard++) {
			ASSERT_INT(hear(packet, sizeof(packet)), sizes[heard] + 16);
		}
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Resident memory of the bridge, in KiB. */
static long resident_kib(void)
{
	char name[64];
	long pages = 0;
	(void)snprintf(name, sizeof(name), "/proc/%d/statm", bridge_pid);
	FILE *from = fopen(name, "re");
	ASSERT(from && fscanf(from, "%*d %ld", &pages) == 1);
	(void)fclose(from);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* A guest that sends more than box-rpc reads has to wait; nothing is lost, and nothing is buffered
 * without limit. */
TEST(a_guest_that_says_too_much)
{
	start_ready();
	ASSERT_INT(fcntl(stream, F_SETFL, O_NONBLOCK), 0);
	memset(bytes, 'x', sizeof(bytes));
	size_t len = make_packet(packet, BOX_INIT_STDOUT, 5, bytes, BOX_INIT_BYTES_MAX);
	long before_kib = resident_kib();
	size_t sent = 0;
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(stream, packet + sent % len, len - sent % len, MSG_NOSIGNAL);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0 ? (size_t)n : 0;
		ASSERT(sent < 64U * 1024 * 1024);
		if (n < 0) {
			(void)usleep(10000);
		}
	}
	ASSERT(resident_kib() < before_kib + 1024);
	size_t heard = 0;
	while (heard + len <= sent) {
		ASSERT_INT(hear(bytes, sizeof(bytes)), len);
		ASSERT(memcmp(bytes, packet, len) == 0);
		heard += len;
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* A guest that reads nothing blocks box-rpc's packets, and no others. */
TEST(a_guest_that_reads_nothing)
{
	start_ready();
	ASSERT_INT(fcntl(control, F_SETFL, O_NONBLOCK), 0);
	size_t len = make_packet(packet, BOX_INIT_INPUT, 5, bytes, BOX_INIT_BYTES_MAX);
	size_t sent = 0;
	for (int idle = 0; idle < 20;) {
		ssize_t n = send(control, packet, len, MSG_NOSIGNAL);
		idle = n > 0 ? 0 : idle + 1;
		sent += n > 0;
		ASSERT(sent < 1024);
		if (n < 0) {
			(void)usleep(10000);
		}
	}
	answer(BOX_INIT_STDOUT, 5, "up", 2);
	ASSERT_INT(hear(bytes, sizeof(bytes)), 18);
	for (; sent > 0; sent--) {
		ASSERT_INT(read_packet(bytes).size, len);
	}
	(void)close(control);
	ASSERT_INT(ended(), 0);
}

/* Each ends the box, and box-rpc receives only the last line. */
TEST(nonsense_ends_the_box)
{
	static const struct {
		struct box_init_header header;
		char bytes[32];
	} table[] = {
		{{0, BOX_INIT_STDOUT, 1, 0}, "size 0"},
		{{15, BOX_INIT_STDOUT, 1, 0}, "less than a header"},
		{{BOX_INIT_PACKET_MAX + 1, BOX_INIT_STDOUT, 1, 0}, "too long"},
		{{UINT32_MAX, BOX_INIT_STDOUT, 1, 0}, "endless"},
		{{48, 0, 1, 0}, "no kind"},
		{{48, BOX_INIT_RUN, 1, 0}, "box-rpc's kind"},
		{{24, BOX_MICROVM_CLOCK, 0, 0}, "ours"},
		{{48, BOX_INIT_STDOUT, 0, 0}, "no id"},
		{{48, BOX_INIT_STDOUT, 1, 1}, "a number"},
		{{16, BOX_INIT_STDOUT, 1, 0}, "no bytes"},
		{{48, BOX_INIT_EXIT, 1, 0}, "a short end"},
		{{48, BOX_INIT_RESET_DONE, 0, 0}, "bytes"},
		{{24, BOX_INIT_BOX_ENDS, 0, 0}, "box-vmm's last words"},
		{{24, BOX_MICROVM_TIME, 0, 0}, "half a time"},
		{{32, BOX_MICROVM_TIME, 1, 0}, "a time of a command"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
		start_ready();
		answer(BOX_INIT_STDOUT, 7, "good", 4);
		ASSERT_INT(hear(bytes, sizeof(bytes)), 20);
		ASSERT_INT(
			send(stream, &table[i], sizeof(table[i]), MSG_NOSIGNAL), sizeof(table[i]));
		const char *said = hear_last();
		if (strcmp(said, "its guest broke the protocol") != 0) {
			TEST_FAIL("%s: %s", table[i].bytes, said);
		}
		ASSERT_INT(ended(), 0);
		(void)close(stream);
		(void)close(control);
		remove_folder();
	}
}

TEST(what_box_rpc_must_not_send)
{
	static const struct box_init_header table[] = {
		{17, BOX_INIT_INPUT, 1, 0},
		{UINT32_MAX, BOX_INIT_INPUT, 1, 0},
		{16, BOX_MICROVM_CLOCK, 0, 0},
		{16, BOX_INIT_EXIT, 1, 0},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
		start_ready();
		ASSERT_INT(
			send(control, &table[i], sizeof(table[i]), MSG_NOSIGNAL), sizeof(table[i]));
		char byte;
		ASSERT_INT(recv(stream, &byte, 1, 0), 0);
		ASSERT_INT(ended(), 0);
		remove_folder();
	}
	(void)snprintf(folder, sizeof(folder), "/tmp/test_bridge_XXXXXX");
	start_ready();
	ask(BOX_INIT_INPUT, 1, "x", 1, STDERR_FILENO);
	ASSERT_INT(ended(), 0);
}
