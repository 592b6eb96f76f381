/* JSON encoder and decoder: tables of exact results, and jansson as the reference for what is
 * valid. Limits are in test_json_limits.c.
 *
 * The two decoders differ on purpose in: an escaped lone surrogate (here U+FFFD, there an error),
 * integers beyond 64 bits (here a real), depth (here 32), NUL in a key (here allowed). */
#include <errno.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "codec/json.h"
#include "tests/unit/lib/decoded.h"

TEST(documents_come_back_as_written)
{
	static const struct {
		const char *text;
		const char *back;
	} table[] = {
		{"null", "null"},
		{" true ", "true"},
		{"\t\r\nfalse\n", "false"},
		{"0", "0"},
		{"-0", "0"},
		{"-1", "-1"},
		{"9223372036854775807", "9223372036854775807"},
		{"-9223372036854775808", "-9223372036854775808"},
		{"9223372036854775808", "9.223372036854776e+18"},
		{"-9223372036854775809", "-9.223372036854776e+18"},
		{"18446744073709551616", "1.8446744073709552e+19"},
		{"1.0", "1.0"},
		{"-0.0", "-0.0"},
		{"1e2", "100.0"},
		{"1E+2", "100.0"},
		{"1e-2", "0.01"},
		{"0.1", "0.1"},
		{"0e0", "0.0"},
		{"1e-400", "0.0"},
		{"123456789.125e3", "123456789125.0"},
		{"\"\"", "\"\""},
		{"\"a\"", "\"a\""},
		{"\"\\u0041\\/\"", "\"A/\""},
		{"\"\\\"\\\\\\b\\f\\n\\r\\t\"", "\"\\\"\\\\\\b\\f\\n\\r\\t\""},
		{"\"\\u0000\\u001f\\u007f\"", "\"\\u0000\\u001f\x7f\""},
		{"\"\\u00e9\\u20ac\\ud83d\\ude00\"", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
		{"\"\\uD83D\\uDE00\"", "\"\xf0\x9f\x98\x80\""},
		{"\"\xc3\xa9\xf0\x9f\x98\x80\"", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
		{"[]", "[]"},
		{"[ ]", "[]"},
		{"{ }", "{}"},
		{"[1,[2,[]],{}]", "[1,[2,[]],{}]"},
		{"[ 1 , 2 ]", "[1,2]"},
		{"{\"a\":1,\"b\":{\"a\":[null]}}", "{\"a\":1,\"b\":{\"a\":[null]}}"},
		{"{ \"z\" : 1 , \"a\" : 2 }", "{\"z\":1,\"a\":2}"},
		{"{\"\":0}", "{\"\":0}"},
		{"{\"\\u0061\":1}", "{\"a\":1}"},
	};
	for (size_t i = 0; i < COUNT(table); i++) {
		struct decoded d = decode_json(table[i].text, strlen(table[i].text));
		if (d.result != 0) {
			TEST_FAIL("%s: %d %s", table[i].text, d.result, d.why);
		}
		assert_encodes(&d.value, table[i].back, strlen(table[i].back));
		release(&d);
	}
}

static const struct {
	const char *text;
	int result;
	const char *why;
} malformed[] = {
	{"", -EBADMSG, "empty text"},
	{"  ", -EBADMSG, "unexpected end of text"},
	{"01", -EBADMSG, "not a value"},
	{"-", -EBADMSG, "not a value"},
	{"+1", -EBADMSG, "not a value"},
	{".5", -EBADMSG, "not a value"},
	{"NaN", -EBADMSG, "not a value"},
	{"Infinity", -EBADMSG, "not a value"},
	{"-Infinity", -EBADMSG, "not a value"},
	{"nul", -EBADMSG, "not a value"},
	{"True", -EBADMSG, "not a value"},
	{"1.", -EBADMSG, "number ends with a point"},
	{"1.e3", -EBADMSG, "number ends with a point"},
	{"1e", -EBADMSG, "exponent has no digits"},
	{"1e+", -EBADMSG, "exponent has no digits"},
	{"1e400", -EBADMSG, "number out of range"},
	{"[-1e400]", -EBADMSG, "number out of range"},
	{"truex", -EBADMSG, "text after the document"},
	{"1 2", -EBADMSG, "text after the document"},
	{"{}}", -EBADMSG, "text after the document"},
	{"0x10", -EBADMSG, "text after the document"},
	{"[1,]", -EBADMSG, "not a value"},
	{"[,1]", -EBADMSG, "not a value"},
	{"[1", -EBADMSG, "',' or the end of a list or map expected"},
	{"[1}", -EBADMSG, "',' or the end of a list or map expected"},
	{"[1 2]", -EBADMSG, "',' or the end of a list or map expected"},
	{"{\"a\":1,}", -EBADMSG, "key expected"},
	{"{a:1}", -EBADMSG, "key expected"},
	{"{1:1}", -EBADMSG, "key expected"},
	{"{", -EBADMSG, "key expected"},
	{"{\"a\"}", -EBADMSG, "':' expected"},
	{"{\"a\" 1}", -EBADMSG, "':' expected"},
	{"{\"a\":", -EBADMSG, "unexpected end of text"},
	{"{\"a\":1 \"b\":2}", -EBADMSG, "',' or the end of a list or map expected"},
	{"{\"a\":1,\"b\":2,\"a\":3}", -EBADMSG, "duplicate map key"},
	{"{\"a\":1,\"\\u0061\":3}", -EBADMSG, "duplicate map key"},
	{"[{\"\":1,\"\":1}]", -EBADMSG, "duplicate map key"},
	{"\"", -EBADMSG, "unterminated string"},
	{"\"abcdefghijkl", -EBADMSG, "unterminated string"},
	{"\"\\", -EBADMSG, "unterminated string"},
	{"\"\\\"", -EBADMSG, "unterminated string"},
	{"\"\\x\"", -EBADMSG, "unknown escape"},
	{"\"\\'\"", -EBADMSG, "unknown escape"},
	{"\"\\u12\"", -EBADMSG, "bad \\u escape"},
	{"\"\\u12g4\"", -EBADMSG, "bad \\u escape"},
	{"\"\\u+123\"", -EBADMSG, "bad \\u escape"},
	{"\"\\ud83d\\u12\"", -EBADMSG, "bad \\u escape"},
	{"\"a\nb\"", -EBADMSG, "control character in a string"},
	{"\"abcdefgh\tabcdefgh\"", -EBADMSG, "control character in a string"},
	{"'a'", -EBADMSG, "not a value"},
	{"// c\n1", -EBADMSG, "not a value"},
	{"/* c */ 1", -EBADMSG, "not a value"},
	{"\xef\xbb\xbf{}", -EBADMSG, "not a value"},
	{"\xc2\xa0{}", -EBADMSG, "not a value"},
	{"\v{}", -EBADMSG, "not a value"},
	{"\"\x80\"", -EILSEQ, "not UTF-8"},
	{"\"\xc0\xaf\"", -EILSEQ, "not UTF-8"},
	{"\"\xed\xa0\x80\"", -EILSEQ, "not UTF-8"},
	{"\"\xf4\x90\x80\x80\"", -EILSEQ, "not UTF-8"},
	{"\"\xc3\"", -EILSEQ, "not UTF-8"},
	{"{\xff}", -EILSEQ, "not UTF-8"},
};

TEST(malformed_documents_are_refused)
{
	for (size_t i = 0; i < COUNT(malformed); i++) {
		struct decoded d = decode_json(malformed[i].text, strlen(malformed[i].text));
		if (d.result != malformed[i].result || strcmp(d.why, malformed[i].why) != 0) {
			TEST_FAIL("%s: %d %s", malformed[i].text, d.result,
				d.result ? d.why : "taken");
		}
		release(&d);
	}
	struct decoded d = decode_json("\"a\0b\"", 5);
	ASSERT_STR(d.why, "control character in a string");
	release(&d);
	d = decode_json("{}\0", 3);
	ASSERT_STR(d.why, "text after the document");
	release(&d);
}

static bool same(const struct box_value *ours, const json_t *theirs);

static bool same_map(const struct box_value *ours, const json_t *theirs)
{
	if (ours->count != json_object_size(theirs)) {
		return false;
	}
	for (uint32_t i = 0; i < ours->count; i++) {
		char key[256];
		const struct box_str *name = &ours->pairs[i].key;
		if (name->len >= sizeof(key)) {
			return false;
		}
		if (name->len > 0) {
			memcpy(key, name->bytes, name->len);
		}
		key[name->len] = '\0';
		if (!same(&ours->pairs[i].value, json_object_get(theirs, key))) {
			return false;
		}
	}
	return true;
}

static bool same(const struct box_value *ours, const json_t *theirs)
{
	switch (ours->type) {
	case BOX_NULL:
		return json_is_null(theirs);
	case BOX_BOOL:
		return json_is_boolean(theirs) && ours->boolean == json_is_true(theirs);
	case BOX_INT:
		return json_is_integer(theirs) && ours->integer == json_integer_value(theirs);
	case BOX_REAL: {
		double real = json_real_value(theirs);
		return json_is_real(theirs) && same_real(ours->real, real);
	}
	case BOX_STR:
		return json_is_string(theirs) && ours->str.len == json_string_length(theirs) &&
			(ours->str.len == 0 ||
				memcmp(ours->str.bytes, json_string_value(theirs), ours->str.len) ==
					0);
	case BOX_LIST:
		if (ours->count != json_array_size(theirs)) {
			return false;
		}
		for (uint32_t i = 0; i < ours->count; i++) {
			if (!same(&ours->items[i], json_array_get(theirs, i))) {
				return false;
			}
		}
		return json_is_array(theirs);
	case BOX_MAP:
		return json_is_object(theirs) && same_map(ours, theirs);
	case BOX_BIN:
		break;
	}
	return false;
}

enum verdict {
	BOTH_TAKE,
	BOTH_REFUSE,
	DIFFERENT_ON_PURPOSE,
};

/* True when jansson refuses something that we accept on purpose. */
static bool is_known_difference(const json_error_t *error)
{
	enum json_error_code code = json_error_code(error);
	bool surrogate = strncmp(error->text, "invalid Unicode '\\uD", 20) == 0 ||
		strncmp(error->text, "invalid Unicode '\\ud", 20) == 0;
	bool big_integer = code == json_error_numeric_overflow && !strstr(error->text, "real");
	return surrogate || big_integer || code == json_error_null_byte_in_key;
}

static enum verdict compare(const char *text, size_t len)
{
	json_error_t error;
	json_t *theirs = json_loadb(
		text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	struct decoded ours = decode_json(text, len);
	enum verdict verdict = theirs ? BOTH_TAKE : BOTH_REFUSE;
	if ((!theirs && is_known_difference(&error)) || ours.result == -E2BIG) {
		verdict = DIFFERENT_ON_PURPOSE;
	} else if (!theirs != (ours.result != 0)) {
		TEST_FAIL("%.*s: ours %d %s, jansson %s", (int)len, text, ours.result,
			ours.result ? ours.why : "", theirs ? "takes it" : error.text);
	} else if (theirs && !same(&ours.value, theirs)) {
		TEST_FAIL("%.*s: read differently", (int)len, text);
	}
	json_decref(theirs);
	release(&ours);
	return verdict;
}

static const struct {
	const char *text;
	enum verdict verdict;
} documents[] = {
	{"{\"seq_id\": 92680, \"action\": \"__ping\", \"data\": {}}", BOTH_TAKE},
	{"{\"seq_id\": 1, \"code\": 0, \"message\": \"success\", \"data\": {\"initialized\": true}, "
	 "\"chunk_status\": \"continue\"}",
		BOTH_TAKE},
	{"{\"seq_id\": 2, \"action\": \"box_exec\", \"data\": {\"cmd\": \"echo hi; exit 3\", "
	 "\"env\": {}, \"host_path\": null, \"extra_mounts\": [], \"cpus\": 1.0}}",
		BOTH_TAKE},
	{"{\"type\":\"chunk_data\",\"data\":\"{\\\"a\\\":\\\"\\u00e9\\\"}\",\"offset\":0}",
		BOTH_TAKE},
	{"[1,-2,3.5,1e3,-1E-3,\"x\",true,false,null,[],{}]", BOTH_TAKE},
	{"{\"a\":{\"b\":{\"c\":[1,2,{\"d\":\"\\ud83d\\ude00\"}]}}}", BOTH_TAKE},
	{"\"plain\"", BOTH_TAKE},
	{"\"\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa9\"", BOTH_TAKE},
	{"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\"", BOTH_TAKE},
	{"\"nul \\u0000 inside\"", BOTH_TAKE},
	{"\"\x7f\"", BOTH_TAKE},
	{"\"\\uFFFF\\ufffe\"", BOTH_TAKE},
	{"0", BOTH_TAKE},
	{"-0", BOTH_TAKE},
	{"-0.0", BOTH_TAKE},
	{"9223372036854775807", BOTH_TAKE},
	{"-9223372036854775808", BOTH_TAKE},
	{"123.456e-7", BOTH_TAKE},
	{"1.7976931348623157e308", BOTH_TAKE},
	{"4.9e-324", BOTH_TAKE},
	{"1e-999", BOTH_TAKE},
	{"0.1e+0", BOTH_TAKE},
	{"0E5", BOTH_TAKE},
	{"true", BOTH_TAKE},
	{"null", BOTH_TAKE},
	{" \t\r\n[ ]\n", BOTH_TAKE},
	{"{\"\":\"\"}", BOTH_TAKE},
	{"{\"a\":1,\"A\":2,\"aa\":3}", BOTH_TAKE},
	{"[[[[[[[[[[1]]]]]]]]]]", BOTH_TAKE},
	{"[\"\",\"\",\"\"]", BOTH_TAKE},
	{"", BOTH_REFUSE},
	{" ", BOTH_REFUSE},
	{"[", BOTH_REFUSE},
	{"]", BOTH_REFUSE},
	{"{", BOTH_REFUSE},
	{"}", BOTH_REFUSE},
	{"[]]", BOTH_REFUSE},
	{"{}{}", BOTH_REFUSE},
	{"[1,]", BOTH_REFUSE},
	{"[,]", BOTH_REFUSE},
	{"[1,,2]", BOTH_REFUSE},
	{"[1:2]", BOTH_REFUSE},
	{"{\"a\":1,}", BOTH_REFUSE},
	{"{,}", BOTH_REFUSE},
	{"{\"a\"}", BOTH_REFUSE},
	{"{\"a\":}", BOTH_REFUSE},
	{"{\"a\",1}", BOTH_REFUSE},
	{"{\"a\":1 \"b\":2}", BOTH_REFUSE},
	{"{\"a\":1;\"b\":2}", BOTH_REFUSE},
	{"{null:1}", BOTH_REFUSE},
	{"{'a':1}", BOTH_REFUSE},
	{"{\"a\":1,\"a\":1}", BOTH_REFUSE},
	{"{\"a\":{\"x\":1,\"x\":2}}", BOTH_REFUSE},
	{"{\"a\":1,\"\\u0061\":1}", BOTH_REFUSE},
	{"01", BOTH_REFUSE},
	{"-01", BOTH_REFUSE},
	{"00", BOTH_REFUSE},
	{"1.", BOTH_REFUSE},
	{".1", BOTH_REFUSE},
	{"-.1", BOTH_REFUSE},
	{"1e", BOTH_REFUSE},
	{"1e-", BOTH_REFUSE},
	{"1.e1", BOTH_REFUSE},
	{"1.5.5", BOTH_REFUSE},
	{"1e1.5", BOTH_REFUSE},
	{"--1", BOTH_REFUSE},
	{"+1", BOTH_REFUSE},
	{"- 1", BOTH_REFUSE},
	{"1 1", BOTH_REFUSE},
	{"1a", BOTH_REFUSE},
	{"0x1", BOTH_REFUSE},
	{"1_000", BOTH_REFUSE},
	{"1e309", BOTH_REFUSE},
	{"-1e309", BOTH_REFUSE},
	{"NaN", BOTH_REFUSE},
	{"nan", BOTH_REFUSE},
	{"Infinity", BOTH_REFUSE},
	{"inf", BOTH_REFUSE},
	{"tru", BOTH_REFUSE},
	{"TRUE", BOTH_REFUSE},
	{"nulll", BOTH_REFUSE},
	{"undefined", BOTH_REFUSE},
	{"\"", BOTH_REFUSE},
	{"\"a", BOTH_REFUSE},
	{"\"\\\"", BOTH_REFUSE},
	{"\"\\a\"", BOTH_REFUSE},
	{"\"\\0\"", BOTH_REFUSE},
	{"\"\\u\"", BOTH_REFUSE},
	{"\"\\u00\"", BOTH_REFUSE},
	{"\"\\u00g0\"", BOTH_REFUSE},
	{"\"\\U0041\"", BOTH_REFUSE},
	{"\"tab\there\"", BOTH_REFUSE},
	{"\"new\nline\"", BOTH_REFUSE},
	{"\"\x1f\"", BOTH_REFUSE},
	{"\"\x80\"", BOTH_REFUSE},
	{"\"\xc0\x80\"", BOTH_REFUSE},
	{"\"\xe0\x80\x80\"", BOTH_REFUSE},
	{"\"\xed\xa0\x80\"", BOTH_REFUSE},
	{"\"\xf8\x88\x80\x80\x80\"", BOTH_REFUSE},
	{"\"\xf4\x90\x80\x80\"", BOTH_REFUSE},
	{"\"\xe2\x82\"", BOTH_REFUSE},
	{"\xef\xbb\xbf[]", BOTH_REFUSE},
	{"[] // no", BOTH_REFUSE},
	{"/**/[]", BOTH_REFUSE},
	{"#\n[]", BOTH_REFUSE},
	{"[1]\f", BOTH_REFUSE},
	{"\v[1]", BOTH_REFUSE},
	{"\"\\ud800\"", DIFFERENT_ON_PURPOSE},
	{"\"\\udc00 \"", DIFFERENT_ON_PURPOSE},
	{"\"\\ud800\\u0041\"", DIFFERENT_ON_PURPOSE},
	{"9223372036854775808", DIFFERENT_ON_PURPOSE},
	{"[-9223372036854775809]", DIFFERENT_ON_PURPOSE},
	{"{\"a\\u0000b\":1}", DIFFERENT_ON_PURPOSE},
	{"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
		DIFFERENT_ON_PURPOSE},
};

TEST(jansson_agrees_on_the_table)
{
	ASSERT(COUNT(documents) >= 100);
	for (size_t i = 0; i < COUNT(documents); i++) {
		enum verdict verdict = compare(documents[i].text, strlen(documents[i].text));
		if (verdict != documents[i].verdict) {
			TEST_FAIL("%s: verdict %d", documents[i].text, (int)verdict);
		}
	}
}

static uint32_t random_below(uint64_t *state, size_t limit)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)((*state >> 16) % limit);
}

/* One small change: a byte replaced, inserted or removed, or a piece doubled. No NUL is inserted,
 * because jansson overlooks one after a number. */
static size_t mutate(char *text, size_t len, size_t room, uint64_t *state)
{
	static const char likely[] =
		"{}[]:,\"\\/0123456789.eE+-truefalsnbdux \n\t\x1f\x7f\xc3\xa9\xed\xf0";
	size_t at = random_below(state, len + 1);
	char c = likely[random_below(state, sizeof(likely) - 1)];
	switch (random_below(state, 4)) {
	case 0:
		if (at < len) {
			text[at] = c;
		}
		return len;
	case 1:
		if (len < room) {
			memmove(text + at + 1, text + at, len - at);
			text[at] = c;
			len++;
		}
		return len;
	case 2:
		if (at < len) {
			memmove(text + at, text + at + 1, len - at - 1);
			len--;
		}
		return len;
	default: {
		size_t piece = random_below(state, 12);
		if (piece > len - at || len + piece > room) {
			return len;
		}
		memmove(text + at + piece, text + at, len - at);
		return len + piece;
	}
	}
}

TEST(jansson_agrees_on_changed_documents)
{
	uint64_t state = 0x9e3779b97f4a7c15ULL;
	int verdicts[3] = {0};
	for (int round = 0; round < 30000; round++) {
		char text[512];
		const char *from = documents[random_below(&state, COUNT(documents))].text;
		size_t len = strlen(from);
		put_bytes(text, from, len);
		for (uint32_t changes = 1 + random_below(&state, 3); changes > 0; changes--) {
			len = mutate(text, len, sizeof(text), &state);
		}
		verdicts[compare(text, len)]++;
	}
	/* Each kind must have occurred, or the test proves nothing. */
	ASSERT(verdicts[BOTH_TAKE] > 3000);
	ASSERT(verdicts[BOTH_REFUSE] > 10000);
	ASSERT(verdicts[DIFFERENT_ON_PURPOSE] > 300);
}
