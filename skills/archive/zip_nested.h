/* Checks what archives within an archive would unpack to. Called by archive_write.c.
 *
 * They stay packed here, but somebody may unpack them later: what they would give, at any depth, counts as
 * if it were in the uploaded archive itself. No function here touches a file.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct box_inflater;
struct box_zip_entry;

/* Sums over one whole archive. */
struct box_zip_nested {
	struct box_inflater *inflater;
	uint64_t bytes; /* starts with the archive's own entries */
	size_t entries; /* entries of nested archives */
};

/* Adds what is packed in an entry's content, if its bytes are a ZIP, whatever its name. -EINVAL with
 * BOX_ERR_VALIDATION and a text that names the entry if a limit is exceeded or the size is not
 * certain. */
int box_zip_nested_add(struct box_zip_nested *nested, const struct box_zip_entry *entry,
	const uint8_t *content, struct box_err *err);
