/* Chooses ids for box-rpc that no other process on this host has. */
#include "boxd/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/macros.h"
#include "base/operator.h"

#define ACCOUNT BOX_WORKER_ACCOUNT
#define FREE_ID_SPREAD 4000
#define FREE_ID_COUNT 4336
#define MAP_TEXT_MAX 16384 /* 340 lines, the kernel's maximum */

/* `map` is the text of /proc/self/uid_map. */
static bool is_mapped(const char *map, unsigned long id)
{
	unsigned long first;
	unsigned long outside;
	unsigned long count;
	int used;
	for (; sscanf(map, " %lu %lu %lu%n", &first, &outside, &count, &used) == 3; map += used) {
		if (id >= first && id - first < count) {
			return true;
		}
	}
	return false;
}

bool box_identity_is_mapped(const char *path, unsigned long id)
{
	char map[MAP_TEXT_MAX];
	_cleanup_(box_close_p) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, map, sizeof(map) - 1);
	if (len < 0) {
		return true; /* if it is not mapped, changing the id will fail */
	}
	map[len] = '\0';
	return is_mapped(map, id);
}

static bool has_both(uid_t id)
{
	return box_identity_is_mapped("/proc/self/uid_map", id) &&
		box_identity_is_mapped("/proc/self/gid_map", id);
}

/* First the id beside that of the quota store, which nothing assigns. systemd assigns ids from
 * BOX_DYNAMIC_ID_FIRST on to services (DynamicUser): a service with our id could access the skill
 * store. A container may have no other ids, and few services. */
static int choose_free_id(uid_t *ret_id)
{
	static const uid_t firsts[] = {BOX_WORKER_IDS_FIRST, BOX_DYNAMIC_ID_FIRST};
	uid_t spread = (uid_t)(getpid() % FREE_ID_SPREAD);
	for (size_t i = 0; i < BOX_COUNT_OF(firsts); i++) {
		for (uid_t at = spread; at < FREE_ID_COUNT; at++) {
			uid_t id = firsts[i] + at;
			bool last = i + 1 == BOX_COUNT_OF(firsts);
			if (!getpwuid(id) && !getgrgid(id) && (last || has_both(id))) {
				*ret_id = id;
				return 0;
			}
		}
	}
	return -ENOENT;
}

int box_identity_choose_for_rpc(struct box_identity *ret_ids, struct box_err *err)
{
	struct box_identity ids = {.change = geteuid() == 0};
	if (!ids.change) {
		*ret_ids = ids;
		return 0;
	}
	const struct passwd *account = getpwnam(ACCOUNT);
	if (account) {
		ids.uid = account->pw_uid;
		ids.gid = account->pw_gid;
	} else if (choose_free_id(&ids.uid) < 0) {
		return box_err_set(err, BOX_ERR_OS, ENOENT, "no user id is free for box-rpc");
	} else {
		ids.gid = ids.uid;
	}
	if (ids.uid == 0 || ids.gid == 0) {
		return box_err_set(
			err, BOX_ERR_OS, EPERM, "the account " ACCOUNT " must not be root");
	}
	if (!box_identity_is_mapped("/proc/self/uid_map", ids.uid) ||
		!box_identity_is_mapped("/proc/self/gid_map", ids.gid)) {
		BOX_LOG(BOX_LOG_WARNING, "worker.same_uid",
			box_log_str("why", "this user namespace has no other id"),
			box_log_int("uid", ids.uid));
		ids.change = false;
	}
	*ret_ids = ids;
	return 0;
}

int box_identity_of_owner(const struct box_identity *ids, int fd, struct box_identity *ret_ids)
{
	struct stat status;
	if (fstat(fd, &status) < 0) {
		return -errno;
	}
	*ret_ids = (struct box_identity){
		.change = ids->change, .uid = status.st_uid, .gid = status.st_gid};
	return 0;
}
