/* Opens the mount roots and Box's own paths, and compares other folders with them: one walk up from a
 * folder finds everything above it. */
#include "boxd/files/mount_roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/fsmount.h"
#include "base/log.h"
#include "base/macros.h"
#include "boxd/files/path_conflicts.h"
#include "plan/plan.h"

/* --- sets of locations --- */

static bool has_place(
	const struct box_mount_roots_locations *places, const struct box_location *place)
{
	for (size_t i = 0; i < places->count; i++) {
		if (box_location_same(&places->items[i], place)) {
			return true;
		}
	}
	return false;
}

static void add_place(struct box_mount_roots_locations *places, const struct box_location *place)
{
	if (!has_place(places, place)) {
		places->items = box_realloc(
			places->items, (places->count + 1) * sizeof(*places->items));
		places->items[places->count++] = *place;
	}
}

/* --- held by an fd --- */

bool box_mount_roots_path_is_complete(const struct box_mount_roots_path *held)
{
	return held->path && held->rest[0] == '\0';
}

static bool is_everything(const struct box_mount_roots_path *held)
{
	return strcmp(held->path, "/") == 0;
}

static int open_next(int folder, const char *name, bool follow, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_CLOEXEC,
		.resolve = RESOLVE_NO_MAGICLINKS | (follow ? 0 : RESOLVE_NO_SYMLINKS),
	};
	long fd = syscall(SYS_openat2, folder, name, &how, sizeof(how));
	if (fd < 0) {
		return -errno;
	}
	*ret_fd = (int)fd;
	return 0;
}

/* Goes on by one missing component; `above` gets the folder that is left behind. */
static int advance(
	struct box_mount_roots_path *held, bool follow, struct box_mount_roots_locations *above)
{
	char name[NAME_MAX + 1];
	size_t len = strcspn(held->rest, "/");
	_cleanup_(box_close_p) int next = -1;
	struct box_location place = {0};
	if (len > NAME_MAX) {
		return -ENAMETOOLONG;
	}
	memcpy(name, held->rest, len);
	name[len] = '\0';
	int r = open_next(held->fd, name, follow, &next);
	if (r < 0) {
		return r;
	}
	r = box_location_of(next, &place);
	if (r < 0) {
		return r;
	}
	if (above) {
		add_place(above, &held->place);
	}
	box_close_p(&held->fd);
	held->fd = TAKE_FD(next);
	held->place = place;
	held->rest += len + strspn(held->rest + len, "/");
	return 0;
}

static bool add_above(void *arg, const struct box_location *place)
{
	add_place(arg, place);
	return false;
}

int box_mount_roots_open_folder_of(const struct box_mount_roots_path *held)
{
	char path[BOX_PATH_MAX];
	int fd = -1;
	if (box_location_open_following(held->fd, ".", &fd) == 0) {
		return fd;
	}
	if (box_fsmount_path_of(held->fd, path, sizeof(path)) < 0) {
		return -1;
	}
	char *slash = strrchr(path, '/');
	if (slash) {
		slash[slash == path] = '\0';
		(void)box_location_open_following(AT_FDCWD, path, &fd);
	}
	return fd;
}

static void add_all_above(
	const struct box_mount_roots_path *held, struct box_mount_roots_locations *above)
{
	struct box_location place = {0};
	_cleanup_(box_close_p) int up = -1;
	_cleanup_(box_close_p) int fd = box_mount_roots_open_folder_of(held);
	bool is_folder = fd >= 0 && box_location_of(fd, &place) == 0 &&
		box_location_same(&place, &held->place);
	if (fd >= 0 && is_folder && box_mount_roots_path_is_complete(held)) {
		if (box_location_open_following(fd, "..", &up) < 0) {
			return;
		}
		box_close_p(&fd);
		fd = TAKE_FD(up);
	}
	if (fd >= 0) {
		(void)box_location_visit_upwards(fd, add_above, above);
	}
}

/* Opens the path as far as it exists. Links of the operator are followed; below a root that is open
 * already, anyone may have made them. `above` (or NULL) gets all folders above it and, while it is
 * missing, the folder in which it would appear. */
static int hold(struct box_mount_roots_path *held, const char *path,
	const struct box_mount_roots *known, struct box_mount_roots_locations *above)
{
	*held = (struct box_mount_roots_path){
		.path = path, .rest = path + strspn(path, "/"), .fd = -1};
	int r = open_next(AT_FDCWD, "/", false, &held->fd);
	if (r == 0) {
		r = box_location_of(held->fd, &held->place);
	}
	while (r == 0 && held->rest[0] != '\0') {
		r = advance(held, false, above);
		if (r == -ELOOP && !(known && box_mount_roots_contains(known, held->fd, true))) {
			r = advance(held, true, above);
		}
	}
	if (above && held->fd >= 0) {
		add_all_above(held, above);
	}
	/* What is missing or cannot be examined yet is tried again later. */
	return held->fd < 0 ? r : 0;
}

static void refresh(struct box_mount_roots_path *held, struct box_mount_roots_locations *above)
{
	while (held->fd >= 0 && held->rest[0] != '\0' && advance(held, false, above) == 0) {
		if (above && held->rest[0] != '\0') {
			add_place(above, &held->place);
		}
	}
}

static void drop(struct box_mount_roots_path *held)
{
	box_close_p(&held->fd);
	*held = (struct box_mount_roots_path){.fd = -1};
}

static void drop_list(struct box_mount_roots_paths *list)
{
	for (size_t i = 0; i < list->count; i++) {
		drop(&list->items[i]);
	}
	list->count = 0;
}

/* --- the walk up --- */

/* Whether something is mounted over a root, as the image of a quota is: the walk up from below passes
 * that mount instead of the folder whose fd we have. Only root can have mounted it. */
static bool is_mounted_over(
	const struct box_mount_roots_path *held, const struct box_location *place)
{
	_cleanup_(box_close_p) int up = -1;
	_cleanup_(box_close_p) int top = -1;
	struct statx status;
	struct box_location found = {0};
	const char *slash = strrchr(held->path, '/');
	return slash && box_location_open_following(held->fd, "..", &up) == 0 &&
		box_location_open_no_follow(up, slash + 1, &top) == 0 &&
		statx(top, "", AT_EMPTY_PATH, 0, &status) == 0 &&
		(status.stx_attributes & STATX_ATTR_MOUNT_ROOT) &&
		box_location_of(top, &found) == 0 && box_location_same(&found, place);
}

static bool is_one_of(const struct box_mount_roots_paths *list, const struct box_location *place,
	bool with_mounts)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct box_mount_roots_path *held = &list->items[i];
		if (box_mount_roots_path_is_complete(held) &&
			(box_location_same(&held->place, place) ||
				(with_mounts && is_mounted_over(held, place)))) {
			return true;
		}
	}
	return false;
}

struct walk {
	const struct box_mount_roots *roots;
	bool with_mounts; /* also compare with what is mounted over roots */
	bool in_root;
	bool in_narrower;
	bool in_own;
	const struct box_mount_roots_path *store;
};

static bool visit(void *arg, const struct box_location *place)
{
	struct walk *walk = arg;
	const struct box_mount_roots *roots = walk->roots;
	walk->in_root = walk->in_root || is_one_of(&roots->roots, place, walk->with_mounts);
	walk->in_narrower = walk->in_narrower ||
		is_one_of(&roots->narrower, place, walk->with_mounts);
	for (size_t i = 0; i < roots->own_count; i++) {
		const struct box_mount_roots_path *own = &roots->own[i];
		walk->in_own = walk->in_own ||
			(box_mount_roots_path_is_complete(own) &&
				box_location_same(&own->place, place));
	}
	for (size_t i = 0; i < BOX_MOUNT_ROOTS_STORES_ && !walk->store; i++) {
		const struct box_mount_roots_path *store = &roots->stores[i];
		bool is = box_mount_roots_path_is_complete(store) &&
			box_location_same(&store->place, place);
		walk->store = is ? store : NULL;
	}
	return false;
}

/* The walk up always ends at `/`. */
static bool has_everything(const struct box_mount_roots_paths *list)
{
	for (size_t i = 0; i < list->count; i++) {
		if (is_everything(&list->items[i])) {
			return true;
		}
	}
	return false;
}

static int walk_up(const struct box_mount_roots *roots, int fd, struct walk *walk)
{
	const struct walk start = {
		.roots = roots,
		.in_root = has_everything(&roots->roots),
		.in_narrower = has_everything(&roots->narrower),
	};
	*walk = start;
	int r = box_location_visit_upwards(fd, visit, walk);
	/* Folders that a plain user may not examine are above all folders of its own. */
	r = r == -EACCES ? 0 : r;
	if (r == 0 && (!walk->in_root || (roots->narrower.count > 0 && !walk->in_narrower))) {
		*walk = start;
		walk->with_mounts = true;
		r = box_location_visit_upwards(fd, visit, walk);
	}
	return r == -EACCES ? 0 : r;
}

bool box_mount_roots_contains(const struct box_mount_roots *roots, int fd, bool or_below)
{
	struct box_location place = {0};
	const struct box_mount_roots_paths *lists[] = {&roots->roots, &roots->narrower};
	if (box_location_of(fd, &place) < 0) {
		return false;
	}
	for (size_t i = 0; i < BOX_COUNT_OF(lists); i++) {
		for (size_t j = 0; j < lists[i]->count; j++) {
			const struct box_mount_roots_path *held = &lists[i]->items[j];
			if (box_mount_roots_path_is_complete(held) && !is_everything(held) &&
				(box_location_same(&held->place, &place) ||
					(or_below && box_location_is_below(fd, &held->place)))) {
				return true;
			}
		}
	}
	return false;
}

static bool leads_to(const struct box_mount_roots_paths *list, const struct box_location *place,
	const char *missing)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct box_mount_roots_path *held = &list->items[i];
		size_t len = strlen(held->rest);
		if (len > 0 && box_location_same(&held->place, place) &&
			strncmp(missing, held->rest, len) == 0 &&
			(missing[len] == '/' || missing[len] == '\0')) {
			return true;
		}
	}
	return false;
}

bool box_mount_roots_creates_root(
	const struct box_mount_roots *roots, int folder, const char *missing)
{
	struct box_location place = {0};
	return box_location_of(folder, &place) == 0 &&
		(leads_to(&roots->roots, &place, missing) ||
			leads_to(&roots->narrower, &place, missing));
}

/* --- the skill store --- */

/* Whether the folder is below the requester's namespace. Entries that begin with a dot are internal
 * files of box-skills and clients; they are given by digest only. */
static bool is_package(const struct box_mount_roots_path *store, int fd,
	const struct box_mount_roots_requester *asker)
{
	_cleanup_(box_close_p) int tenants = -1;
	_cleanup_(box_close_p) int tenant = -1;
	_cleanup_(box_close_p) int at = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	_cleanup_(box_close_p) int package = -1;
	struct box_location wanted = {0};
	struct box_location place = {0};
	if (asker->namespace[0] == '\0' || strchr(asker->namespace, '/') ||
		box_location_open_no_follow(store->fd, "tenants", &tenants) < 0 ||
		box_location_open_no_follow(tenants, asker->namespace, &tenant) < 0 ||
		box_location_of(tenant, &wanted) < 0 || at < 0 || box_location_of(at, &place) < 0) {
		return false;
	}
	for (int depth = 0; depth < BOX_PATH_MAX && !box_location_same(&place, &wanted); depth++) {
		int up = -1;
		if (box_location_same(&place, &store->place) ||
			box_location_open_following(at, "..", &up) < 0) {
			return false;
		}
		box_close_p(&package);
		package = at;
		at = up;
		if (box_location_of(at, &place) < 0) {
			return false;
		}
	}
	char path[BOX_PATH_MAX];
	if (package < 0 || !box_location_same(&place, &wanted) ||
		box_fsmount_path_of(package, path, sizeof(path)) < 0) {
		return false;
	}
	const char *slash = strrchr(path, '/');
	return asker->by_digest || (slash && slash[1] != '.');
}

/* --- checks --- */

int box_mount_roots_check(
	const struct box_mount_roots *roots, int fd, const struct box_mount_roots_requester *asker)
{
	struct walk walk;
	int r = walk_up(roots, fd, &walk);
	if (r < 0) {
		return r;
	}
	if (!walk.in_root || (roots->narrower.count > 0 && !walk.in_narrower)) {
		return -EXDEV;
	}
	if (walk.in_own) {
		return BOX_MOUNT_ROOTS_DENIED_OWN;
	}
	return walk.store && !is_package(walk.store, fd, asker) ? BOX_MOUNT_ROOTS_DENIED_STORE : 0;
}

int box_mount_roots_check_above(const struct box_mount_roots *roots, int fd)
{
	struct box_location place = {0};
	int r = box_location_of(fd, &place);
	if (r < 0) {
		return r;
	}
	for (size_t i = 0; i < roots->own_count; i++) {
		if (box_mount_roots_path_is_complete(&roots->own[i]) &&
			box_location_same(&roots->own[i].place, &place)) {
			return BOX_MOUNT_ROOTS_DENIED_OWN;
		}
	}
	if (has_place(&roots->above_own, &place)) {
		return BOX_MOUNT_ROOTS_DENIED_OWN;
	}
	bool above_store = false;
	for (size_t i = 0; i < BOX_MOUNT_ROOTS_STORES_; i++) {
		above_store = above_store || has_place(&roots->above_stores[i], &place);
	}
	return above_store ? BOX_MOUNT_ROOTS_DENIED_STORE : 0;
}

static bool has_root_inside(
	const struct box_mount_roots *roots, int folder, const struct box_location *system)
{
	for (size_t i = 0; i < roots->roots.count; i++) {
		const struct box_mount_roots_path *root = &roots->roots.items[i];
		if (box_mount_roots_path_is_complete(root) &&
			!box_location_same(&root->place, system) &&
			box_location_is_below(root->fd, system) &&
			box_location_is_below(folder, &root->place)) {
			return true;
		}
	}
	return false;
}

int box_mount_roots_check_writable(const struct box_mount_roots *roots, int folder)
{
	static const char *const systems[] = {
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};
	struct box_location place = {0};
	int r = box_location_of(folder, &place);
	for (size_t i = 0; r == 0 && i < BOX_COUNT_OF(systems); i++) {
		_cleanup_(box_close_p) int fd = -1;
		struct box_location system = {0};
		if (box_location_open_following(AT_FDCWD, systems[i], &fd) < 0 ||
			box_location_of(fd, &system) < 0) {
			continue;
		}
		if (box_location_is_below(fd, &place) ||
			(box_location_is_below(folder, &system) &&
				!has_root_inside(roots, folder, &system))) {
			r = BOX_MOUNT_ROOTS_DENIED_SYSTEM;
		}
	}
	return r;
}

/* --- sealing --- */

static void hold_list(struct box_mount_roots_paths *list, const struct box_policy_roots *paths,
	const struct box_mount_roots *known)
{
	for (uint32_t i = 0; i < paths->count && i < BOX_MOUNT_ROOTS_MAX; i++) {
		struct box_mount_roots_path *held = &list->items[list->count];
		int r = hold(held, paths->paths[i], known, NULL);
		if (r < 0) {
			BOX_LOG(BOX_LOG_WARNING, "mount_root.unusable",
				box_log_str("path", paths->paths[i]), box_log_errno("why", r));
			continue;
		}
		list->count++;
	}
}

static void hold_own(struct box_mount_roots *roots, const char *path, const char *member)
{
	struct box_mount_roots_path *own = &roots->own[roots->own_count];
	if (path[0] && hold(own, path, NULL, &roots->above_own) == 0) {
		(void)snprintf(own->name, sizeof(own->name), "%s", member);
		roots->own_count++;
	}
}

void box_mount_roots_init(struct box_mount_roots *roots)
{
	memset(roots, 0, sizeof(*roots));
	for (size_t i = 0; i < BOX_MOUNT_ROOTS_STORES_; i++) {
		roots->stores[i].fd = -1;
	}
}

void box_mount_roots_close(struct box_mount_roots *roots)
{
	drop_list(&roots->roots);
	drop_list(&roots->narrower);
	for (size_t i = 0; i < roots->own_count; i++) {
		drop(&roots->own[i]);
	}
	for (size_t i = 0; i < BOX_MOUNT_ROOTS_STORES_; i++) {
		drop(&roots->stores[i]);
	}
	free(roots->above_own.items);
	for (size_t i = 0; i < BOX_MOUNT_ROOTS_STORES_; i++) {
		free(roots->above_stores[i].items);
	}
	box_mount_roots_init(roots);
}

static void hold_store(
	struct box_mount_roots *roots, enum box_mount_roots_store which, const char *path)
{
	drop(&roots->stores[which]);
	roots->above_stores[which].count = 0;
	if (path[0]) {
		(void)hold(&roots->stores[which], path, roots, &roots->above_stores[which]);
	}
}

/* These files are read again when boxd starts, and on SIGHUP: whoever could change them would become
 * the operator. */
static int check_file(const struct box_mount_roots *roots, const char *path, const char *name,
	struct box_err *err)
{
	struct box_mount_roots_path held;
	if (!path || hold(&held, path, NULL, NULL) < 0) {
		return 0;
	}
	(void)snprintf(held.name, sizeof(held.name), "%s", name);
	int r = box_path_conflicts_check_own(roots, &held, err);
	drop(&held);
	return r;
}

int box_mount_roots_seal(struct box_mount_roots *roots, const struct box_policy *policy,
	const struct box_mount_roots_own_paths *more, struct box_err *err)
{
	box_mount_roots_init(roots);
	hold_list(&roots->roots, &policy->roots, NULL);
	box_path_conflicts_merge_roots(&roots->roots);
	hold_own(roots, policy->rootfs, "box.local.rootfs");
	for (uint32_t i = 0; i < policy->image_count && i < BOX_IMAGES_MAX; i++) {
		char member[sizeof(roots->own[0].name)];
		(void)snprintf(member, sizeof(member), "box.images.%s", policy->images[i].name);
		hold_own(roots, policy->images[i].path, member);
	}
	if (more && more->socket) {
		hold_own(roots, more->socket, "the operator's socket (--socket)");
	}
	hold_store(roots, BOX_MOUNT_ROOTS_STORE_OWN, policy->skills_root);
	int r = box_path_conflicts_check(roots, err);
	if (r == 0 && more) {
		r = check_file(roots, more->config, "the --config file", err);
		if (r == 0) {
			r = check_file(roots, more->token, "the token file", err);
		}
	}
	if (r < 0) {
		box_mount_roots_close(roots);
		return r;
	}
	/* Even if everything may be mounted, these must not be. */
	if (more) {
		hold_own(roots, more->config ? more->config : "", "the --config file");
		hold_own(roots, more->token ? more->token : "", "the token file");
	}
	box_mount_roots_narrow(roots, policy);
	return 0;
}

void box_mount_roots_narrow(struct box_mount_roots *roots, const struct box_policy *policy)
{
	drop_list(&roots->narrower);
	hold_list(&roots->narrower, &policy->narrower, roots);
	hold_store(roots, BOX_MOUNT_ROOTS_STORE_CLIENT, policy->client_skills);
}

void box_mount_roots_refresh(struct box_mount_roots *roots)
{
	for (size_t i = 0; i < roots->roots.count; i++) {
		refresh(&roots->roots.items[i], NULL);
	}
	for (size_t i = 0; i < roots->narrower.count; i++) {
		refresh(&roots->narrower.items[i], NULL);
	}
	for (size_t i = 0; i < roots->own_count; i++) {
		refresh(&roots->own[i], &roots->above_own);
	}
	for (size_t i = 0; i < BOX_MOUNT_ROOTS_STORES_; i++) {
		if (roots->stores[i].path) {
			refresh(&roots->stores[i], &roots->above_stores[i]);
		}
	}
}

/* --- the folder of box-skills --- */

/* No link is followed in what we make, and nothing is made in system folders. */
static int make_store(struct box_mount_roots *roots, struct box_mount_roots_path *store)
{
	struct box_mount_roots_locations *above = &roots->above_stores[BOX_MOUNT_ROOTS_STORE_OWN];
	char name[NAME_MAX + 1];
	size_t len = strcspn(store->rest, "/");
	if (len > NAME_MAX) {
		return -ENAMETOOLONG;
	}
	memcpy(name, store->rest, len);
	name[len] = '\0';
	int r = box_location_check_not_in_system(store->fd);
	if (r < 0) {
		return r;
	}
	r = box_location_check_makes_no_system(store->fd, name);
	if (r == 0 && mkdirat(store->fd, name, 0755) < 0 && errno != EEXIST) {
		r = -errno;
	}
	if (r < 0) {
		return r;
	}
	r = advance(store, false, above);
	if (r == 0 && store->rest[0] != '\0') {
		add_place(above, &store->place);
	}
	return r;
}

int box_mount_roots_open_store(struct box_mount_roots *roots, const char *path, int *ret_fd)
{
	struct box_mount_roots_path *store = &roots->stores[BOX_MOUNT_ROOTS_STORE_OWN];
	_cleanup_(box_close_p) int fd = -1;
	if (!store->path || store->fd < 0 || strcmp(store->path, path) != 0) {
		return -ESTALE;
	}
	box_mount_roots_refresh(roots);
	int r = 0;
	while (r == 0 && store->rest[0] != '\0') {
		r = make_store(roots, store);
	}
	if (r < 0) {
		return r;
	}
	r = box_location_open_following(store->fd, ".", &fd);
	if (r < 0) {
		return r;
	}
	r = box_location_check_not_in_system(fd);
	if (r < 0) {
		return r;
	}
	r = box_location_check_contains_no_system(fd);
	if (r == 0) {
		*ret_fd = TAKE_FD(fd);
	}
	return r;
}
