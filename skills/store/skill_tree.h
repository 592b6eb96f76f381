/* Finds packages below a folder, and remembers what was found. For the store's actions.
 *
 * Every walk checks the stamp of every folder and every SKILL.md; only what has changed is read again. So a
 * second walk over a tree costs one stat for each folder, and nothing outdated is reported.
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
	const char *why;                 /* why it could not be loaded */
};

/* root_path is the root's path for clients. */
struct box_skill_tree *box_skill_tree_new(const char *root_path);
void box_skill_tree_free(struct box_skill_tree *tree);

/* Walks breadth first, max_depth folders deep (the same for every walk of a tree), following no links. -errno
 * above a limit; what cannot be read is skipped. Only box_skill_tree_load reads packages: it fails if they
 * have too much text together, and skips the remaining ones once too much front matter was read. */
int box_skill_tree_walk(
	struct box_skill_tree *tree, int root_fd, unsigned max_depth, struct box_err *err);
int box_skill_tree_load(struct box_skill_tree *tree, int root_fd, struct box_err *err);

/* The results of the last walk, in its order; valid until the next one. */
size_t box_skill_tree_count(const struct box_skill_tree *tree);
struct box_skill_tree_found box_skill_tree_at(const struct box_skill_tree *tree, size_t i);

/* How much memory the tree takes. */
size_t box_skill_tree_bytes(const struct box_skill_tree *tree);
