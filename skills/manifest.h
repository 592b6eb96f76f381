/* The manifest of an artifact: which files a tree has, and what is in them. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/value.h"

struct box_arena;

struct box_manifest_file {
	const char *path; /* relative and normal */
	uint64_t size;
	const char *sha256; /* 64 digits */
	bool executable;
};

struct box_manifest {
	struct box_manifest_file *files;
	size_t count;
	uint64_t total_bytes;
};

/* The tree of a decoded manifest whose digest must be `digest`, 64 digits. Everything is in the arena
 * or in the tree. 0, or negative with err. */
int box_manifest_read(struct box_arena *arena, const struct box_value *tree, const char *digest,
	struct box_manifest *ret_manifest, struct box_err *err);

/* Whether a path may be one of a manifest: relative, normal, of letters that are no controls. */
bool box_manifest_path_is_good(struct box_str path);
