/* The skills of all tenants, each in `tenants/NAMESPACE` below one folder. Called by skills_serve.c.
 *
 * Every client action is one call that is complete when it returns, except that an install is durable only
 * after box_store_settle (skills/store/deferred_sync.h). Files are reached only through fds beneath the
 * tenant's folder. Packages appear and disappear atomically (skills/store/stage.h).
 */
#pragma once

#include "base/value.h"

struct box_arena;
struct box_buf;
struct box_err;
struct box_store;

/* Takes over root_fd (an O_PATH or O_RDONLY folder), even on failure. root_path is its absolute path as
 * clients see it, for package_root. Removes what a crash has left. */
int box_store_open(
	int root_fd, const char *root_path, struct box_store **ret_store, struct box_err *err);
void box_store_close(struct box_store *store);

/* Runs one skill action (by its wire name) for one tenant. `data` is treated as hostile. archive_fd is a ZIP
 * for preview and install, otherwise -1; it stays the caller's. The answer is built in the arena and shares
 * texts with the store: it is valid until the next call. Negative errno with BOX_ERR_VALIDATION,
 * BOX_ERR_VALUE or BOX_ERR_KEY and the reference's words; -ENOSYS for an unknown action. */
int box_store_serve(struct box_store *store, const char *namespace, const char *action,
	const struct box_value *data, int archive_fd, struct box_arena *arena,
	struct box_value *ret_answer, struct box_err *err);

/* To be called after the answer was sent: waits for the disk, if an install is not synced yet. */
void box_store_settle(struct box_store *store);

/* Appends the path of a skill's folder below the store's root: tenants/NAMESPACE/... */
int box_store_find_package(struct box_store *store, const char *namespace, const char *skill_name,
	struct box_buf *ret_path, struct box_err *err);
