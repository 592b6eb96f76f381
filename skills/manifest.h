/* The manifest of an artifact: the files of a tree and their digests. Pure. For artifact.c. */
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

/* Reads the tree of a decoded manifest whose digest must be `digest`, 64 hex digits. The result points into
 * the arena and into `tree`. 0, or negative with err. */
int box_manifest_read(struct box_arena *arena, const struct box_value *tree, const char *digest,
	struct box_manifest *ret_manifest, struct box_err *err);

/* Whether a path is allowed in a manifest: relative, normal, without control characters. */
bool box_manifest_path_is_good(struct box_str path);
