/* The store: owns the tenants, the table of actions, and the helpers that every action begins with. */
#include "skills/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/limits.h"
#include "base/macros.h"
#include "skills/store/names.h"
#include "skills/store/package.h"
#include "skills/store/store_request.h"
#include "skills/store/subtree.h"
#include "skills/text/pytext.h"
#include "skills/text/yaml.h"

#define TENANTS "tenants"

static const struct {
	const char *name;
	box_store_action *run;
	bool is_bare;    /* its errors have no "BoxValidationError" prefix */
	bool only_looks; /* read-only: the tenant's folder need not exist */
} actions[] = {
	{"box_list_skills", box_store_list, .is_bare = true},
	{"box_get_skill", box_store_get, .is_bare = true},
	{"box_create_skill", box_store_create},
	{"box_update_skill", box_store_update},
	{"box_delete_skill", box_store_delete},
	{"box_scan_skill_directory", box_store_scan, .only_looks = true},
	{"box_list_skill_files", box_store_list_files},
	{"box_read_skill_file", box_store_read_file},
	{"box_write_skill_file", box_store_write_file},
	{"box_preview_skill_zip", box_store_preview},
	{"box_install_skill_zip", box_store_install},
};

/* -- tenants ---------------------------------------------------------------------------------- */

static void tenant_free(struct box_store_tenant *tenant)
{
	box_skill_tree_free(tenant->tree);
	free(tenant->root_path);
	free(tenant->namespace);
	free(tenant);
}

/* Drops the tenant that was unused for longest, but never `kept`. */
static void forget_oldest(struct box_store *store, const struct box_store_tenant *kept)
{
	size_t oldest = store->tenant_count;
	for (size_t i = 0; i < store->tenant_count; i++) {
		if (store->tenants[i] != kept &&
			(oldest == store->tenant_count ||
				store->tenants[i]->used < store->tenants[oldest]->used)) {
			oldest = i;
		}
	}
	if (oldest < store->tenant_count) {
		tenant_free(store->tenants[oldest]);
		store->tenants[oldest] = store->tenants[--store->tenant_count];
	}
}

static void bound_memory(struct box_store *store, const struct box_store_tenant *kept)
{
	size_t bytes = SIZE_MAX;
	while (bytes > BOX_SKILL_CACHED_BYTES_MAX && store->tenant_count > 1) {
		bytes = 0;
		for (size_t i = 0; i < store->tenant_count; i++) {
			bytes += box_skill_tree_bytes(store->tenants[i]->tree);
		}
		if (bytes > BOX_SKILL_CACHED_BYTES_MAX) {
			forget_oldest(store, kept);
		}
	}
}

static struct box_store_tenant *find_tenant(struct box_store *store, const char *namespace)
{
	store->calls++;
	for (size_t i = 0; i < store->tenant_count; i++) {
		if (strcmp(store->tenants[i]->namespace, namespace) == 0) {
			store->tenants[i]->used = store->calls;
			return store->tenants[i];
		}
	}
	if (store->tenant_count == BOX_SKILL_TENANTS_CACHED_MAX) {
		forget_oldest(store, NULL);
	}
	struct box_store_tenant *tenant = box_alloc(sizeof(*tenant));
	size_t size = strlen(store->root_path) + sizeof("/" TENANTS "/") + strlen(namespace);
	tenant->namespace = box_strdup(namespace);
	tenant->root_path = box_alloc(size);
	(void)snprintf(tenant->root_path, size, "%s/" TENANTS "/%s", store->root_path, namespace);
	tenant->tree = box_skill_tree_new(tenant->root_path);
	tenant->used = store->calls;
	store->tenants[store->tenant_count++] = tenant;
	return tenant;
}

/* Opens a tenant's folder, or -errno. */
static int open_tenant(const struct box_store *store, const char *namespace, bool only_look)
{
	char path[sizeof(TENANTS "/") + 256];
	size_t good = 0;
	(void)snprintf(path, sizeof(path), TENANTS "/%s", namespace);
	if (only_look) {
		return box_subtree_open(store->root_fd, path, O_PATH | O_DIRECTORY, 0);
	}
	return box_subtree_make_folders(store->root_fd, path, &good);
}

static int sweep_tenant(void *context, const char *name, int d_type)
{
	const int *tenants_fd = context;
	(void)d_type;
	_cleanup_(box_close_p) int fd = box_subtree_open(
		*tenants_fd, name, O_PATH | O_DIRECTORY, 0);
	if (fd >= 0) {
		box_stage_sweep(fd);
	}
	return 0;
}

int box_store_open(
	int root_fd, const char *root_path, struct box_store **ret_store, struct box_err *err)
{
	size_t len = strlen(root_path);
	if (root_path[0] != '/') {
		(void)close(root_fd);
		return box_err_set(
			err, BOX_ERR_VALUE, EINVAL, "not an absolute path: %s", root_path);
	}
	while (len > 0 && root_path[len - 1] == '/') {
		len--;
	}
	struct box_store *store = box_alloc(sizeof(*store));
	store->root_fd = root_fd;
	store->deferred.root_fd = -1;
	store->root_path = box_alloc(len + 1);
	memcpy(store->root_path, root_path, len);
	_cleanup_(box_close_p) int tenants = box_subtree_open(
		root_fd, TENANTS, O_PATH | O_DIRECTORY, 0);
	if (tenants >= 0) {
		(void)box_subtree_each(tenants, sweep_tenant, &tenants);
	}
	*ret_store = store;
	return 0;
}

void box_store_close(struct box_store *store)
{
	if (store) {
		box_store_settle(store);
		for (size_t i = 0; i < store->tenant_count; i++) {
			tenant_free(store->tenants[i]);
		}
		(void)close(store->root_fd);
		free(store->root_path);
		free(store);
	}
}

void box_store_settle(struct box_store *store)
{
	box_deferred_sync_finish(&store->deferred);
}

/* -- serving ---------------------------------------------------------------------------------- */

int box_store_serve(struct box_store *store, const char *namespace, const char *action,
	const struct box_value *data, int archive_fd, struct box_arena *arena,
	struct box_value *ret_answer, struct box_err *err)
{
	size_t row = 0;
	while (row < BOX_COUNT_OF(actions) && strcmp(actions[row].name, action) != 0) {
		row++;
	}
	if (row == BOX_COUNT_OF(actions)) {
		return box_err_set(err, BOX_ERR_VALUE, ENOSYS, "no skill action: %s", action);
	}
	if (!box_names_is_namespace(namespace)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "Invalid Box skill namespace");
	}
	box_store_settle(store); /* in case the caller has not done it after the last answer */
	_cleanup_(box_close_p) int root_fd = open_tenant(store, namespace, actions[row].only_looks);
	if (root_fd < 0 && !(actions[row].only_looks && root_fd == -ENOENT)) {
		return box_err_set(err, BOX_ERR_OS, -root_fd,
			"the skills of %s cannot be opened: %s", namespace,
			box_err_strerror(-root_fd));
	}
	struct box_value answer = box_map_value();
	struct box_store_request request = {
		.tenant = find_tenant(store, namespace),
		.root_fd = root_fd,
		.data = data,
		.archive_fd = archive_fd,
		.deferred = &store->deferred,
		.arena = arena,
		.err = err,
	};
	int r = actions[row].run(&request, &answer);
	bound_memory(store, request.tenant);
	if (r == 0) {
		*ret_answer = answer;
	} else if (actions[row].is_bare && err && err->code == BOX_ERR_VALIDATION) {
		err->code = BOX_ERR_VALUE;
	}
	return r;
}

int box_store_find_package(struct box_store *store, const char *namespace, const char *skill_name,
	struct box_buf *ret_path, struct box_err *err)
{
	struct box_str name = {NULL, 0};
	if (!box_names_is_namespace(namespace)) {
		return box_err_set(err, BOX_ERR_VALUE, EINVAL, "Invalid Box skill namespace");
	}
	int r = box_names_check(box_str(skill_name), &name, err);
	if (r < 0) {
		return r;
	}
	_cleanup_(box_arena_free_p) struct box_arena *arena = box_arena_new();
	_cleanup_(box_close_p) int root_fd = open_tenant(store, namespace, false);
	if (root_fd < 0) {
		return box_err_set(err, BOX_ERR_OS, -root_fd,
			"the skills of %s cannot be opened: %s", namespace,
			box_err_strerror(-root_fd));
	}
	struct box_store_request request = {.tenant = find_tenant(store, namespace),
		.root_fd = root_fd,
		.archive_fd = -1,
		.arena = arena,
		.err = err};
	struct box_value asked = box_text(name);
	const struct box_package *skill = NULL;
	char *path = NULL;
	r = box_store_request_require(&request, &asked, &skill, &path);
	bound_memory(store, request.tenant);
	return r < 0
		? r
		: box_buf_printf(ret_path, TENANTS "/%s%s%s", namespace, *path ? "/" : "", path);
}

/* -- helpers that actions begin with ---------------------------------------------------------- */

int box_store_request_refuse(struct box_store_request *request, const char *format, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0) {
		abort();
	}
	int r = box_err_set(request->err, BOX_ERR_VALIDATION, EINVAL, "%s", text);
	free(text);
	return r;
}

int box_store_request_os_error(struct box_store_request *request, int errnum, const char *path)
{
	if (errnum == ENOLCK) {
		return box_store_request_refuse(request,
			"Skills cannot be changed now: another program has locked %s",
			box_store_request_path(request, BOX_STAGE_NAME));
	}
	return box_err_set(request->err, BOX_ERR_VALIDATION, errnum, "[Errno %d] %s: '%s'", errnum,
		box_err_strerror(errnum), box_store_request_path(request, path));
}

int box_store_request_need(
	struct box_store_request *request, const char *key, const struct box_value **ret_value)
{
	const struct box_value *value = box_map_get(request->data, key);
	if (!value) {
		return box_store_request_refuse(request, "'%s'", key);
	}
	*ret_value = value;
	return 0;
}

struct box_str box_store_request_str(
	struct box_store_request *request, const struct box_value *value)
{
	if (value->type == BOX_STR) {
		return value->str;
	}
	struct box_buf out = box_buf(BOX_MESSAGE_BYTES_MAX);
	struct box_yaml node = box_yaml_of_value(request->arena, value);
	(void)box_yaml_append_text(&out, &node);
	struct box_str text = {
		box_arena_strndup(request->arena, out.len ? out.bytes : "", out.len), out.len};
	box_buf_free(&out);
	return text;
}

struct box_str box_store_request_str_or(
	struct box_store_request *request, const struct box_value *value, const char *fallback)
{
	return value && box_pytext_is_true(value) ? box_store_request_str(request, value)
						  : box_str(fallback);
}

char *box_store_request_path(struct box_store_request *request, const char *path)
{
	return box_names_join(request->arena, request->tenant->root_path, path);
}
