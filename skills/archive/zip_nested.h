/* What archives in an archive would unpack to.
 *
 * They stay packed here, but somebody may unpack them later: what that gives, at any depth, counts
 * as if it lay in the archive itself. No function here touches a file.
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
	uint64_t bytes; /* to begin with: of the archive's own entries */
	size_t entries; /* of archives in it */
};

/* Adds what is packed in the content of an entry, if that is a ZIP by its bytes, whatever its name.
 * -EINVAL with BOX_ERR_VALIDATION and a text that names the entry, when a limit is passed or when it
 * cannot be told. */
int box_zip_nested_add(struct box_zip_nested *nested, const struct box_zip_entry *entry,
	const uint8_t *content, struct box_err *err);
