/* What libbox encodes and decodes: frames, answers, command lines. */
#include <errno.h>

#include "base/arena.h"
#include "base/buf.h"
#include "client/answer.h"
#include "client/box.h"
#include "client/connection/ws_client.h"
#include "tests/unit/lib/decoded.h"
#include "tests/unit/lib/test.h"

/* --- frames out --- */

static const unsigned char mask[BOX_WS_MASK_BYTES] = {0x37, 0xfa, 0x21, 0x3d};

TEST(frames_are_masked)
{
	struct box_buf out = box_buf(BOX_MIB);
	ASSERT_INT(box_ws_client_frame(&out, BOX_WS_TEXT, "Hello", 5, mask), 0);
	ASSERT_INT(box_ws_client_frame(&out, BOX_WS_OP_PONG, NULL, 0, mask), 0);
	ASSERT_INT(box_ws_client_frame(&out, BOX_WS_OP_CLOSE, "\x03\xe8", 2, mask), 0);
	static const char expected[] = "\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58"
				       "\x8a\x80\x37\xfa\x21\x3d"
				       "\x88\x82\x37\xfa\x21\x3d\x34\x12";
	ASSERT_BYTES(out.bytes, out.len, expected, sizeof(expected) - 1);
	box_buf_free(&out);
}

TEST(frames_have_the_shortest_length)
{
	static const struct {
		size_t len;
		const char *header;
		size_t header_len;
	} rows[] = {
		{125, "\x82\xfd", 2},
		{126, "\x82\xfe\x00\x7e", 4},
		{65535, "\x82\xfe\xff\xff", 4},
		{65536, "\x82\xff\x00\x00\x00\x00\x00\x01\x00\x00", 10},
	};
	char *payload = box_alloc(65536);
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_buf out = box_buf(BOX_MIB);
		size_t start = rows[i].header_len + BOX_WS_MASK_BYTES;
		ASSERT_INT(box_ws_client_frame(&out, BOX_WS_BINARY, payload, rows[i].len, mask), 0);
		ASSERT_INT(out.len, start + rows[i].len);
		ASSERT_BYTES(out.bytes, rows[i].header_len, rows[i].header, rows[i].header_len);
		/* Zeros come out as the repeated mask. */
		for (size_t j = 0; j < rows[i].len; j++) {
			ASSERT_INT((unsigned char)out.bytes[start + j], mask[j % 4]);
		}
		box_buf_free(&out);
	}
	free(payload);
}

TEST(frames_keep_to_the_limit_of_their_buffer)
{
	struct box_buf out = box_buf(11);
	ASSERT_INT(box_ws_client_frame(&out, BOX_WS_BINARY, "123456", 6, mask), -EMSGSIZE);
	ASSERT_INT(out.len, 0);
	ASSERT_INT(box_ws_client_frame(&out, BOX_WS_BINARY, "12345", 5, mask), 0);
	ASSERT_INT(out.len, 11);
	box_buf_free(&out);
}

/* --- frames in --- */

/* Records what arrives: M(bytes) P(ping) p(pong) C(close) B(why). */
static bool record_event(struct box_ws_client_reader *reader, enum box_ws_client_event event,
	const char *why, struct box_buf *record)
{
	struct box_buf message;
	switch (event) {
	case BOX_WS_MORE:
		break;
	case BOX_WS_MESSAGE:
		message = box_ws_client_reader_take(reader);
		(void)box_buf_printf(
			record, "M(%.*s)", (int)message.len, message.bytes ? message.bytes : "");
		box_buf_free(&message);
		break;
	case BOX_WS_PING:
	case BOX_WS_PONG:
	case BOX_WS_CLOSE:
		(void)box_buf_printf(record, "%c(%.*s)",
			event == BOX_WS_PING           ? 'P'
				: event == BOX_WS_PONG ? 'p'
						       : 'C',
			(int)reader->control_len, (const char *)reader->control);
		break;
	case BOX_WS_BROKEN:
		(void)box_buf_printf(record, "B(%s)", why);
		return false;
	}
	return true;
}

static void assert_gives(const char *stream, size_t len, const char *expected)
{
	static const size_t steps[] = {1, 2, 3, 5, 7, 1000};
	for (size_t i = 0; i < COUNT(steps); i++) {
		struct box_ws_client_reader reader;
		struct box_buf record = box_buf(BOX_MIB);
		box_ws_client_reader_start(&reader);
		bool alive = true;
		for (size_t at = 0; alive && at < len;) {
			size_t piece = steps[i] < len - at ? steps[i] : len - at;
			/* A block of its own, so that a read past it is detected. */
			char *copy = malloc(piece);
			memcpy(copy, stream + at, piece);
			for (size_t done = 0; alive && done < piece;) {
				size_t used = 0;
				const char *why = NULL;
				enum box_ws_client_event event = box_ws_client_reader_feed(
					&reader, copy + done, piece - done, &used, &why);
				alive = record_event(&reader, event, why, &record);
				ASSERT(!alive || used > 0);
				done += used;
			}
			free(copy);
			at += piece;
		}
		ASSERT_INT(box_buf_append(&record, "", 1), 0);
		ASSERT_STR(record.bytes, expected);
		box_buf_free(&record);
		box_ws_client_reader_free(&reader);
	}
}

TEST(reads_frames_however_they_are_cut)
{
	static const struct {
		const char *stream;
		size_t len;
		const char *expected;
	} rows[] = {
#define ROW(bytes, expected) {bytes, sizeof(bytes) - 1, expected}
		ROW("\x82\x05Hello", "M(Hello)"),
		ROW("\x82\x00", "M()"),
		ROW("\x82\x02"
		    "ab\x82\x01"
		    "c",
			"M(ab)M(c)"),
		ROW("\x02\x03Hel\x80\x02lo", "M(Hello)"),
		ROW("\x02\x00\x00\x01"
		    "a\x80\x00",
			"M(a)"),
		/* A control frame may come between fragments. */
		ROW("\x02\x03Hel\x89\x02hi\x80\x02lo\x89\x00", "P(hi)M(Hello)P()"),
		ROW("\x8a\x01x\x82\x01y", "p(x)M(y)"),
		ROW("\x88\x05\x33\x34"
		    "bye",
			"C(34bye)"),
		ROW("\x88\x00", "C()"),
		/* Incomplete. */
		ROW("\x82", ""),
		ROW("\x82\x05Hell", ""),
		ROW("\x02\x05Hello", ""),
		/* Frames that no server may send. */
		ROW("\x81\x05Hello", "B(a text message, but only binary messages are expected)"),
		ROW("\x82\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58",
			"B(a masked frame from a server)"),
		ROW("\xc2\x01x", "B(reserved bits are set)"),
		ROW("\x92\x01x", "B(reserved bits are set)"),
		ROW("\x80\x01x", "B(a continuation frame without a message)"),
		ROW("\x02\x01x\x82\x01y", "B(a new message inside a fragmented one)"),
		ROW("\x02\x01x\x02\x01y", "B(a new message inside a fragmented one)"),
		ROW("\x82\x01x\x80\x01y", "M(x)B(a continuation frame without a message)"),
		ROW("\x83\x01x", "B(an unknown kind of frame)"),
		ROW("\x8b\x01x", "B(an unknown kind of frame)"),
		ROW("\x09\x01x", "B(a fragmented control frame)"),
		ROW("\x89\x7e\x00\x7e", "B(a control frame is too long)"),
		ROW("\x82\x7e\x00\x7d", "B(a length is not in its shortest form)"),
		ROW("\x82\x7f\x00\x00\x00\x00\x00\x00\xff\xff",
			"B(a length is not in its shortest form)"),
		ROW("\x82\x7f\x00\x00\x00\x00\x01\x00\x00\x01",
			"B(a message is larger than 16 MiB)"),
		ROW("\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff",
			"B(a message is larger than 16 MiB)"),
		/* The sum of all fragments counts. */
		ROW("\x02\x01x\x80\x7f\x00\x00\x00\x00\x01\x00\x00\x00",
			"B(a message is larger than 16 MiB)"),
#undef ROW
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		assert_gives(rows[i].stream, rows[i].len, rows[i].expected);
	}
}

TEST(reads_a_message_of_16_mib)
{
	struct box_ws_client_reader reader;
	const char *why;
	size_t used;
	size_t len = BOX_MESSAGE_BYTES_MAX;
	char *payload = box_alloc(len);
	memset(payload, 'x', len);
	box_ws_client_reader_start(&reader);
	ASSERT_INT(box_ws_client_reader_feed(
			   &reader, "\x82\x7f\x00\x00\x00\x00\x01\x00\x00\x00", 10, &used, &why),
		BOX_WS_MORE);
	ASSERT_INT(used, 10);
	/* A declared length allocates no memory. */
	ASSERT_INT(reader.message.room, 0);
	ASSERT_INT(box_ws_client_reader_feed(&reader, payload, len, &used, &why), BOX_WS_MESSAGE);
	ASSERT_INT(used, len);
	struct box_buf message = box_ws_client_reader_take(&reader);
	ASSERT_INT(message.len, len);
	ASSERT_INT(memcmp(message.bytes, payload, len), 0);
	box_buf_free(&message);
	box_ws_client_reader_free(&reader);
	free(payload);
}

/* --- answers --- */

#define OK(seq, more) "{\"seq_id\":" #seq ",\"code\":0,\"data\":{}," more "}"
#define FAILED(text) "{\"seq_id\":1,\"code\":1,\"data\":{},\"message\":\"" text "\"}"

TEST(takes_answers_apart)
{
	static const struct {
		const char *json;
		const char *text;
		int64_t seq_id;
		int64_t index;
		int result;
		enum box_code code;
		int errnum;
		bool end;
	} rows[] = {
		{.json = OK(7, "\"chunk_status\":\"continue\""), .seq_id = 7},
		{.json = OK(8, "\"chunk_status\":\"end\""), .seq_id = 8, .end = true},
		{.json = OK(9, "\"stream_index\":3"), .seq_id = 9, .index = 3},
		{.json = OK(9, "\"stream_index\":null"), .seq_id = 9},
		{.json = FAILED("BoxSessionNotFoundError: session x not found"),
			.seq_id = 1,
			.code = BOX_ERR_SESSION_NOT_FOUND,
			.errnum = ENOENT,
			.text = "session x not found"},
		{.json = FAILED("PermissionError: no: never"),
			.seq_id = 1,
			.code = BOX_ERR_PERMISSION,
			.errnum = EACCES,
			.text = "no: never"},
		{.json = FAILED("Runtime connection is busy"),
			.seq_id = 1,
			.code = BOX_ERR_BOX,
			.errnum = EIO,
			.text = "Runtime connection is busy"},
		{.json = FAILED("StrangeError: x"),
			.seq_id = 1,
			.code = BOX_ERR_BOX,
			.errnum = EIO,
			.text = "StrangeError: x"},
		{.json = FAILED(""), .seq_id = 1, .code = BOX_ERR_BOX, .errnum = EIO, .text = ""},
		{.json = "{\"seq_id\":1,\"code\":2}",
			.seq_id = 1,
			.code = BOX_ERR_BOX,
			.errnum = EIO,
			.text = "the runtime gave no reason"},
		{.json = "{\"seq_id\":1,\"action\":\"x\",\"data\":{}}", .result = -EBADMSG},
		{.json = "{\"seq_id\":\"1\",\"code\":0,\"data\":{}}", .result = -EBADMSG},
		{.json = "{\"code\":0,\"data\":{}}", .result = -EBADMSG},
		{.json = "{\"seq_id\":1,\"code\":0}", .result = -EBADMSG},
		{.json = "{\"seq_id\":1,\"code\":0,\"data\":[]}", .result = -EBADMSG},
		{.json = "[]", .result = -EBADMSG},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_answer answer;
		struct box_err err;
		struct decoded d = decode_json(rows[i].json, strlen(rows[i].json));
		ASSERT_INT(d.result, 0);
		ASSERT_INT(box_answer_parse(&d.value, &answer, &err), rows[i].result);
		if (rows[i].result == 0) {
			ASSERT_INT(answer.seq_id, rows[i].seq_id);
			ASSERT_INT(answer.end, rows[i].end);
			ASSERT_INT(answer.index, rows[i].index);
			ASSERT_INT(answer.err != NULL, rows[i].text != NULL);
			ASSERT_INT(answer.data != NULL, rows[i].text == NULL);
		}
		if (rows[i].text) {
			ASSERT_INT(answer.err->code, rows[i].code);
			ASSERT_INT(answer.err->errnum, rows[i].errnum);
			ASSERT_STR(answer.err->text, rows[i].text);
		}
		release(&d);
	}
}

/* --- command lines --- */

TEST(joins_words)
{
	static const struct {
		const char *words[4];
		const char *line;
	} rows[] = {
		{{"echo a | cat"}, "echo a | cat"},
		{{""}, ""},
		{{"echo", "a"}, "echo a"},
		{{"echo", "a b", ""}, "echo 'a b' ''"},
		{{"echo", "it's"}, "echo 'it'\\''s'"},
		{{"echo", "'"}, "echo ''\\'''"},
		{{"echo", "$HOME", "`x`", "a;b"}, "echo '$HOME' '`x`' 'a;b'"},
		{{"a=b", "c"}, "'a=b' c"},
		{{"~", "#x"}, "'~' '#x'"},
		{{"/bin/ls", "-l", "--x=1", "a.b:c,d@e%f+g"}, "/bin/ls -l '--x=1' a.b:c,d@e%f+g"},
	};
	for (size_t i = 0; i < COUNT(rows); i++) {
		struct box_buf out = box_buf(1000);
		size_t count = 0;
		while (count < 4 && rows[i].words[count]) {
			count++;
		}
		ASSERT_INT(box_exec_join_words(&out, rows[i].words, count), 0);
		ASSERT_BYTES(out.bytes, out.len, rows[i].line, strlen(rows[i].line));
		box_buf_free(&out);
	}
	struct box_buf small = box_buf(6);
	static const char *const long_words[] = {"echo", "a b"};
	ASSERT_INT(box_exec_join_words(&small, long_words, 2), -EMSGSIZE);
	box_buf_free(&small);
}

/* sh itself parses them. */
TEST(a_shell_gives_the_same_words_back)
{
	static const char *const words[] = {"printf", "[%s]", "", " ", "'", "''", "\"", "\\",
		"a\nb", "$x", "$(id)", "`id`", "*", "?", "~", "!", "#", "&", "|", ";", "<", ">",
		"(", ")", "{a,b}", "a=b", "-n", "--", "\t", "\xc3\xa9", "it's 'so'", "\\'"};
	struct box_buf line = box_buf(BOX_MIB);
	struct box_buf expected = box_buf(BOX_MIB);
	char got[4096];
	ASSERT_INT(box_exec_join_words(&line, words, COUNT(words)), 0);
	ASSERT_INT(box_buf_append(&line, "", 1), 0);
	for (size_t i = 2; i < COUNT(words); i++) {
		ASSERT_INT(box_buf_printf(&expected, "[%s]", words[i]), 0);
	}
	FILE *shell = popen(line.bytes, "re");
	ASSERT(shell != NULL);
	size_t len = fread(got, 1, sizeof(got), shell);
	ASSERT_INT(pclose(shell), 0);
	ASSERT_BYTES(got, len, expected.bytes, expected.len);
	box_buf_free(&line);
	box_buf_free(&expected);
}
