/* Finding packages below a folder, and remembering what was found.
 *
 * Every folder and every SKILL.md is stamped again on every walk; what has the same stamp as before is
 * not read again, anything else is. So the second walk over a tree costs one stat a folder, and nothing
 * stale is told.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/value.h"

struct box_err;
struct box_package;
struct box_skill_tree;

struct box_skill_tree_found {
	const char *path;                /* below the root of the tree: "" for the root itself */
	const char *entry_file;          /* SKILL.md or skill.md */
	const struct box_package *skill; /* NULL when it could not be loaded */
	const char *why;                 /* then: why */
};

/* root_path is what clients call the root. */
struct box_skill_tree *box_skill_tree_new(const char *root_path);
void box_skill_tree_free(struct box_skill_tree *tree);

/* Walks breadth first, max_depth folders down (always the same for one tree), through no link. -errno
 * when a limit is passed; what cannot be read is passed over. Only `load` reads the packages; it
 * fails when they have too much text together, and leaves out those that come after too much front
 * matter. */
int box_skill_tree_walk(
	struct box_skill_tree *tree, int root_fd, unsigned max_depth, struct box_err *err);
int box_skill_tree_load(struct box_skill_tree *tree, int root_fd, struct box_err *err);

/* What the last walk found, in its order; good until the next. */
size_t box_skill_tree_count(const struct box_skill_tree *tree);
struct box_skill_tree_found box_skill_tree_at(const struct box_skill_tree *tree, size_t i);

/* How much memory it takes. */
size_t box_skill_tree_bytes(const struct box_skill_tree *tree);
