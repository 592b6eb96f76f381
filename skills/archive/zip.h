/* Checks what a ZIP would unpack to, from its bytes alone, before anything is written.
 *
 * An archive is accepted only if every reader would see the same in it: entries, central directory and end
 * record are contiguous, with no byte between, before or after them, and both headers of an entry agree. No
 * function here touches a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_arena;

struct box_zip_entry {
	const char *name;      /* as in the archive, for errors */
	const char *path;      /* no "." or "..", no empty part, no slash at either end */
	const uint8_t *packed; /* points into the archive */
	uint32_t packed_size;
	uint32_t size; /* declared; checked when unpacked, like the checksum */
	uint32_t crc;
	bool is_folder;
	bool is_executable;
	bool is_deflated; /* else stored */
};

struct box_zip {
	struct box_zip_entry *entries;
	size_t count;
	const char **folders; /* all paths that are needed, each after its parent */
	size_t folder_count;
};

/* Checks the whole archive. ret_zip lives in the arena and points into the bytes. -EINVAL with
 * BOX_ERR_VALIDATION and a text that names the entry. */
int box_zip_check(const uint8_t *bytes, size_t len, struct box_arena *arena,
	struct box_zip *ret_zip, struct box_err *err);
