/* Any bytes as a request to the process that does file work, and as its answer: properties of those
 * that are accepted. The first byte chooses the kind of request. */
#include "protocol/init_file.h"
#include "tests/fuzz/common.h"

static bool has(struct box_str bytes, char c)
{
	return bytes.len > 0 && memchr(bytes.bytes, c, bytes.len) != NULL;
}

static void check_ask(const char *bytes, size_t size)
{
	struct box_init_file file;
	const char *texts[4];
	if (box_init_file_check(bytes, size, &file, texts) < 0) {
		return;
	}
	MUST(file.kind > 0 && file.kind < BOX_INIT_FILE_KINDS_ && file.mode <= 0777);
	MUST(file.offset + file.size <= INT64_MAX && texts[0][0] == '/');
	for (int i = 0; i < 4; i++) {
		MUST(strlen(texts[i]) + 1 == file.sizes[i] && file.sizes[i] <= 4096);
		MUST(texts[i] + file.sizes[i] <= bytes + size);
	}
}

static void check_answer(uint32_t kind, struct box_str err)
{
	const struct box_init_file file = {.kind = kind, .size = 100, .limit = 9};
	struct box_init_file_answer answer;
	size_t data = err.len > 8 ? (unsigned char)err.bytes[8] : 0;
	if (box_init_file_read_answer(&file, err, data, &answer) < 0) {
		return;
	}
	MUST(answer.errnum >= 0 && answer.errnum < 4096 && answer.why < BOX_INIT_FILE_WHYS_);
	MUST(answer.written <= 100 && answer.data_size <= 4096);
	MUST(answer.errnum != 0 || answer.data_size == data);
	MUST(answer.facts.type < BOX_INIT_FILE_TYPES_ && answer.facts.size <= INT64_MAX);
}

static void check_entries(struct box_str left)
{
	struct box_init_file_entry_read named;
	struct box_str after = box_str("");
	size_t before = left.len;
	while (box_init_file_next_entry(&left, after, &named) == 1) {
		MUST(left.len < before);
		before = left.len;
		MUST(named.name.len > 0 && named.name.len <= 255 && !has(named.name, '/'));
		MUST(!has(named.name, '\0') && !has(named.target, '\0'));
		MUST(named.target.len < 4096 && named.facts.type != BOX_INIT_FILE_TYPE_NONE);
		size_t len = named.name.len < after.len ? named.name.len : after.len;
		MUST(len == 0 || memcmp(named.name.bytes, after.bytes, len) >= 0);
		after = named.name;
	}
}

static void check_path(struct box_str path)
{
	MUST(path.len < 4096 && !has(path, '\0'));
	MUST(path.len == 0 || (path.bytes[0] != '/' && path.bytes[path.len - 1] != '/'));
	for (size_t i = 0; i + 1 < path.len; i++) {
		MUST(path.bytes[i] != '/' || path.bytes[i + 1] != '/');
	}
	MUST(!box_str_eq(path, ".."));
}

static void check_events(struct box_str left)
{
	struct box_init_file_event_read changed;
	while (box_init_file_next_event(&left, &changed) == 1) {
		MUST(changed.change > 0 && changed.change < BOX_INIT_FILE_CHANGES_);
		MUST((changed.change == BOX_INIT_FILE_MOVED) == (changed.from.len > 0));
		check_path(changed.path);
		check_path(changed.from);
	}
}

static void check_measured(struct box_str said)
{
	struct box_init_file_measured measured;
	if (box_init_file_read_measured(said, &measured) == 0) {
		MUST(measured.workspace.exists <= 1 && measured.cache.size_bytes <= INT64_MAX);
		MUST(measured.temp.file_count <= INT64_MAX);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0) {
		return 0;
	}
	/* A copy of exactly its size, so that a read past it is detected. */
	size_t len = size - 1;
	char *bytes = malloc(len > 0 ? len : 1);
	MUST(bytes != NULL);
	memcpy(bytes, data + 1, len);
	struct box_str said = {bytes, len};
	check_ask(bytes, len);
	check_answer(data[0] % BOX_INIT_FILE_KINDS_, said);
	check_entries(said);
	check_events(said);
	check_measured(said);
	free(bytes);
	return 0;
}
