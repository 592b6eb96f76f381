/* The skills of all tenants: one folder, `tenants/NAMESPACE` below it for each.
 *
 * Every action of clients is one call, done when it returns, but that an install lasts only after
 * box_store_settle (skills/store/deferred_sync.h). Files are reached by fds beneath the tenant's folder only.
 * Packages come and go in one step each (skills/store/stage.h).
 */
#pragma once

#include "base/value.h"

struct box_arena;
struct box_buf;
struct box_err;
struct box_store;

/* Takes root_fd (an O_PATH or O_RDONLY folder), also when it fails. root_path is its absolute path as
 * clients see it, for package_root. Clears what a crash has left. */
int box_store_open(
	int root_fd, const char *root_path, struct box_store **ret_store, struct box_err *err);
void box_store_close(struct box_store *store);

/* One skill action (by its wire name) of one tenant. `data` is taken for hostile. archive_fd is a ZIP
 * for preview and install, else -1; it stays the caller's. The answer is built in the arena, and shares
 * texts with the store: it is good until the next call. Negative errno with BOX_ERR_VALIDATION,
 * BOX_ERR_VALUE or BOX_ERR_KEY and the reference's words; -ENOSYS for an action that is none. */
int box_store_serve(struct box_store *store, const char *namespace, const char *action,
	const struct box_value *data, int archive_fd, struct box_arena *arena,
	struct box_value *ret_answer, struct box_err *err);

/* To be called when the answer has been sent: waits for the disk, if there is something to wait
 * for. */
void box_store_settle(struct box_store *store);

/* Appends where a skill's folder is, below the store's root: tenants/NAMESPACE/... */
int box_store_find_package(struct box_store *store, const char *namespace, const char *skill_name,
	struct box_buf *ret_path, struct box_err *err);
