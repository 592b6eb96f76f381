/* What a ZIP would unpack to, judged from its bytes alone before anything is written.
 *
 * An archive is taken only when every reader would see the same in it: entries, central directory
 * and end lie side by side without a byte between, before or after them, and both headers of an
 * entry agree. No function here touches a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_arena;

struct box_zip_entry {
	const char *name;      /* as the archive has it, for errors */
	const char *path;      /* no "." or "..", no empty part, no slash at either end */
	const uint8_t *packed; /* in the archive's bytes */
	uint32_t packed_size;
	uint32_t size; /* declared: to be checked when unpacked, as is the checksum */
	uint32_t crc;
	bool is_folder;
	bool is_executable;
	bool is_deflated; /* else stored */
};

struct box_zip {
	struct box_zip_entry *entries;
	size_t count;
	const char **folders; /* paths of all that there must be, each after the one it is in */
	size_t folder_count;
};

/* Checks the whole archive. What ret_zip has lives in the arena and points into the bytes. -EINVAL
 * with BOX_ERR_VALIDATION and a text that names the entry. */
int box_zip_check(const uint8_t *bytes, size_t len, struct box_arena *arena,
	struct box_zip *ret_zip, struct box_err *err);
