/* Private to the store: one request, and the helpers that the actions share. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/list.h"
#include "base/value.h"
#include "skills/store/deferred_sync.h"
#include "skills/store/skill_tree.h"
#include "skills/store/stage.h"

struct box_arena;
struct box_package;

struct box_store_tenant {
	char *namespace;
	char *root_path; /* as clients see it */
	struct box_skill_tree *tree;
	uint64_t used; /* when it was last used, counted in calls */
};

struct box_store {
	int root_fd;
	char *root_path;
	struct box_store_tenant *tenants[BOX_SKILL_TENANTS_CACHED_MAX];
	size_t tenant_count;
	uint64_t calls;
	struct box_deferred_sync deferred;
};

/* One action under way. */
struct box_store_request {
	struct box_store_tenant *tenant;
	int root_fd; /* the tenant's folder */
	const struct box_value *data;
	int archive_fd;
	struct box_deferred_sync *deferred; /* the store's: packages to sync after the answer */
	struct box_arena *arena;
	struct box_err *err;
};

/* -- helpers that actions begin with (store.c, store_find.c) */

/* Fills err with a text for clients, and returns -EINVAL. */
int box_store_request_refuse(struct box_store_request *request, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* An error in the words of Python's OSError: [Errno 21] Is a directory: 'PATH'. The path is below the
 * tenant's root. */
int box_store_request_os_error(struct box_store_request *request, int errnum, const char *path);

/* A required member. */
int box_store_request_need(
	struct box_store_request *request, const char *key, const struct box_value **ret_value);
/* str(value), str(value or fallback); `value` may be NULL in the second. */
struct box_str box_store_request_str(
	struct box_store_request *request, const struct box_value *value);
struct box_str box_store_request_str_or(
	struct box_store_request *request, const struct box_value *value, const char *fallback);

/* Reads all skills of the tenant again. */
int box_store_request_list(struct box_store_request *request);
/* The newest skill of that name, or NULL. box_store_request_list must have been called. */
const struct box_package *box_store_request_find(
	struct box_store_request *request, const struct box_value *name, struct box_str *ret_path);
/* Lists, and finds by name; an error if there is none. ret_path is below the tenant's root. */
int box_store_request_require(struct box_store_request *request, const struct box_value *name,
	const struct box_package **ret_skill, char **ret_path);
/* Converts a client's path to one below the tenant's root. -EINVAL: "`label` must stay within..." */
int box_store_request_scoped(
	struct box_store_request *request, struct box_str path, const char *label, char **ret_path);
/* Its path for clients. */
char *box_store_request_path(struct box_store_request *request, const char *path);
/* The public fields, and warnings if there are any. */
struct box_value box_store_request_skill(
	struct box_store_request *request, const struct box_package *skill);
/* Discovery below a folder of the tenant that must contain exactly one package, which is loaded. The caller
 * frees the tree. */
int box_store_request_scan(
	struct box_store_request *request, const char *path, struct box_skill_tree **ret_tree);

/* -- the actions: each fills the answer (store.c, store_edit.c, store_files.c, store_zip.c) */

typedef int box_store_action(struct box_store_request *request, struct box_value *ret_answer);
box_store_action box_store_list, box_store_get, box_store_scan;
box_store_action box_store_create, box_store_update, box_store_delete;
box_store_action box_store_list_files, box_store_read_file, box_store_write_file;
box_store_action box_store_preview, box_store_install;
