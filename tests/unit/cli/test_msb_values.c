/* Values of msb's flags: what they mean, and which are invalid. */
#include <string.h>

#include "base/arena.h"
#include "base/macros.h"
#include "cli/msb/msb_values.h"
#include "tests/unit/lib/test.h"

TEST(memory)
{
	static const struct {
		const char *text;
		int64_t mb;
	} good[] = {{"512", 512}, {"512M", 512}, {"64m", 64}, {"64MiB", 64}, {"64MB", 64},
		{"1G", 1024}, {"2g", 2048}, {"2GiB", 2048}, {"2147483647", INT32_MAX}};
	static const char *const bad[] = {"", "M", "0", "0M", "-1M", "1.5G", "1T", "1K", "5x",
		" 512M", "512 M", "512M ", "2147483648", "2097152G", "99999999999"};
	struct box_err err = {0};
	for (size_t i = 0; i < BOX_COUNT_OF(good); i++) {
		int64_t mb = 0;
		ASSERT_INT(box_msb_values_memory("--memory", good[i].text, &mb, &err), 0);
		ASSERT_INT(mb, good[i].mb);
	}
	for (size_t i = 0; i < BOX_COUNT_OF(bad); i++) {
		int64_t mb = 0;
		ASSERT(box_msb_values_memory("--memory", bad[i], &mb, &err) < 0);
		ASSERT(strstr(err.text, "is not a memory size such as 512M or 1G") != NULL);
	}
}

TEST(duration)
{
	static const struct {
		const char *text;
		int64_t seconds;
	} good[] = {{"30s", 30}, {"5m", 300}, {"1h", 3600}, {"2d", 172800}, {"90", 90}};
	static const char *const bad[] = {
		"", "s", "0", "0s", "-5s", "5x", "5S", "1h30m", "1.5h", "500ms", "596524h"};
	struct box_err err = {0};
	for (size_t i = 0; i < BOX_COUNT_OF(good); i++) {
		int64_t seconds = 0;
		ASSERT_INT(
			box_msb_values_duration("--idle-timeout", good[i].text, &seconds, &err), 0);
		ASSERT_INT(seconds, good[i].seconds);
	}
	for (size_t i = 0; i < BOX_COUNT_OF(bad); i++) {
		int64_t seconds = 0;
		ASSERT(box_msb_values_duration("--idle-timeout", bad[i], &seconds, &err) < 0);
		ASSERT(strstr(err.text, "is not a duration such as 30s, 5m or 1h") != NULL);
	}
}

TEST(volumes)
{
	struct box_arena *arena = box_arena_new();
	struct box_path_argument_mount volume;
	struct box_err err = {0};
	ASSERT_INT(box_msb_values_volume(arena, "/a b:/c", &volume, &err), 0);
	ASSERT_STR(volume.host, "/a b");
	ASSERT_STR(volume.box, "/c");
	ASSERT_STR(volume.mode, "rw");
	ASSERT_INT(box_msb_values_volume(arena, "./a:/c:ro", &volume, &err), 0);
	ASSERT_STR(volume.host, "./a");
	ASSERT_STR(volume.mode, "ro");
	static const char *const bad[] = {
		"", "/a", ":/c", "/a:", "/a:c", "/a:/c:", "/a:/c:xo", "/a:/c:ro:rw", "data:/c"};
	for (size_t i = 0; i < BOX_COUNT_OF(bad); i++) {
		ASSERT(box_msb_values_volume(arena, bad[i], &volume, &err) < 0);
		ASSERT(strncmp(err.text, "--volume: ", 10) == 0);
	}
	ASSERT(strstr(err.text, "named volumes are not supported") != NULL);
	box_arena_free(arena);
}
