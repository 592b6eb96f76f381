/* Bytes as a predecessor's state file, then replay. Whatever it contains, the runtime stays usable:
 * its status can be read, its own dump can be written, and a successor that reads the dump is the
 * same. */
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/limits.h"
#include "base/log.h"
#include "codec/json.h"
#include "codec/msgpack.h"
#include "runtime/runtime.h"
#include "tests/fuzz/common.h"
#include "worker/saved_state.h"

static void host_folder(void *host, const char *path, enum box_runtime_folder_mode wish,
	box_runtime_folder_done *done, void *arg)
{
	(void)host;
	(void)path;
	(void)wish;
	(void)done;
	(void)arg;
	abort(); /* a replay makes nothing */
}

static uint64_t host_resident_bytes(void *host)
{
	(void)host;
	return 0;
}

static void host_record(void *host, const struct box_value *change)
{
	(void)host;
	(void)change;
	abort(); /* a replay records nothing */
}

static const struct box_runtime_host host_ops = {
	.folder = host_folder,
	.resident_bytes = host_resident_bytes,
	.record = host_record,
};

static struct box_runtime *runtime_from(const void *bytes, size_t size)
{
	const struct box_runtime_setup setup = {.working_folder = "/w"};
	struct box_runtime *runtime = box_runtime_new(&setup, &host_ops, NULL);
	struct box_value nothing = box_map_value();
	MUST(box_runtime_configure(runtime, BOX_RUNTIME_LAYER_FILE, &nothing, NULL) == 0);
	int fd = memfd_create("fuzz-state", MFD_CLOEXEC);
	MUST(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	box_saved_state_replay(runtime, fd);
	MUST(close(fd) < 0); /* the callee had to close it */
	return runtime;
}

static void emit(void *arg, const struct box_value *change)
{
	MUST(change->type == BOX_MAP && change->count == 1);
	MUST(box_msgpack_encode(arg, change) == 0);
}

static void put_status(const struct box_runtime *runtime, struct box_buf *out)
{
	struct box_arena *arena = box_arena_new();
	const struct box_context place = {box_str("inst"), box_str("ws"), 1};
	struct box_value status = box_runtime_status(runtime, &place, arena);
	MUST(box_json_encode(out, &status) == 0);
	box_arena_free(arena);
}

static size_t generation_count(const struct box_runtime *runtime)
{
	uint64_t position = 0;
	struct box_context context;
	size_t count = 0;
	while (box_generations_next(runtime->generations, &position, &context)) {
		MUST(box_generations_current(runtime->generations, &context) == context.generation);
		count++;
	}
	return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct box_buf dump = box_buf(64 * BOX_MIB);
	struct box_buf before = box_buf(BOX_MIB);
	struct box_buf after = box_buf(BOX_MIB);
	box_log_setup("fuzz", (enum box_log_level)(BOX_LOG_ERROR + 1), BOX_LOG_TEXT);
	struct box_runtime *runtime = runtime_from(data, size);
	put_status(runtime, &before);
	box_runtime_dump(runtime, emit, &dump);
	struct box_runtime *next = runtime_from(dump.bytes ? dump.bytes : "", dump.len);
	put_status(next, &after);
	MUST(before.len == after.len && memcmp(before.bytes, after.bytes, before.len) == 0);
	MUST(!runtime->instance == !next->instance);
	MUST(!next->instance || strcmp(runtime->instance, next->instance) == 0);
	MUST(generation_count(next) == generation_count(runtime));
	box_runtime_free(runtime);
	box_runtime_free(next);
	box_buf_free(&dump);
	box_buf_free(&before);
	box_buf_free(&after);
	return 0;
}
