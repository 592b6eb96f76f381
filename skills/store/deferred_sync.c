/* Makes and removes marks. A folder of marks is later.BOOT.ITEM in staging, or later.failed.ITEM if the disk
 * has reported an error; each folder in it has the name of a package. */
#include "skills/store/deferred_sync.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "base/log.h"
#include "skills/store/subtree.h"

#define PREFIX "later."
#define FAILED PREFIX "failed."
#define TRIES 64
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_LEN 36

static char boot[BOOT_LEN + 1]; /* "" until it is known */

bool box_deferred_sync_is_possible(void)
{
	if (boot[0] == '\0') {
		char text[BOOT_LEN + 1] = "";
		_cleanup_(box_close_p) int fd = open(BOOT_FILE, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && read(fd, text, BOOT_LEN) == BOOT_LEN &&
			strspn(text, "0123456789abcdef-") == BOOT_LEN) {
			memcpy(boot, text, BOOT_LEN);
		}
	}
	return boot[0] != '\0';
}

static bool is_marks(const char *name)
{
	return strncmp(name, PREFIX, strlen(PREFIX)) == 0;
}

static bool is_of_this_boot(const char *name)
{
	const char *of = name + strlen(PREFIX);
	return boot[0] != '\0' && strncmp(of, boot, BOOT_LEN) == 0 && of[BOOT_LEN] == '.';
}

/* -- making marks ----------------------------------------------------------------------------- */

int box_deferred_sync_begin(struct box_stage *stage, char ret_marks[BOX_DEFERRED_SYNC_NAME_SIZE])
{
	char item[BOX_STAGE_ITEM_SIZE];
	char marks[BOX_DEFERRED_SYNC_NAME_SIZE];
	for (int i = 0; i < TRIES; i++) {
		box_stage_name(item);
		(void)snprintf(marks, sizeof(marks), PREFIX "%s.%s", boot, item);
		if (mkdirat(stage->fd, marks, 0700) == 0) {
			memcpy(ret_marks, marks, sizeof(marks));
			return 0;
		}
		if (errno != EEXIST) {
			return -errno;
		}
	}
	return -EEXIST;
}

struct unmarking {
	int stage_fd;
	const char *package;
	bool of_any_boot;
};

static int unmark_in(void *context, const char *name, int d_type)
{
	const struct unmarking *unmarking = context;
	if (d_type == DT_DIR && is_marks(name) &&
		(unmarking->of_any_boot || !is_of_this_boot(name))) {
		_cleanup_(box_close_p) int fd = box_subtree_open(
			unmarking->stage_fd, name, O_RDONLY | O_DIRECTORY, 0);
		if (fd >= 0 && unlinkat(fd, unmarking->package, AT_REMOVEDIR) == 0) {
			(void)box_subtree_sync(fd);
		}
	}
	return 0;
}

/* Marks stay while others work here. Marks of this boot would be acted on after the next boot. */
void box_deferred_sync_forget(struct box_stage *stage, const char *package)
{
	struct unmarking unmarking = {stage->fd, package, true};
	(void)box_subtree_each(stage->fd, unmark_in, &unmarking);
}

int box_deferred_sync_mark(struct box_stage *stage, const char *marks, const char *package)
{
	/* An earlier boot's mark that could not be removed while others worked here means another package
	 * than this one. */
	struct unmarking unmarking = {stage->fd, package, false};
	(void)box_subtree_each(stage->fd, unmark_in, &unmarking);
	_cleanup_(box_close_p) int fd = box_subtree_open(stage->fd, marks, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return fd;
	}
	return mkdirat(fd, package, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* -- syncing ---------------------------------------------------------------------------------- */

int box_deferred_sync_hand_over(
	const struct box_stage *stage, const char *marks, struct box_deferred_sync *ret_deferred)
{
	struct box_deferred_sync deferred = {.root_fd = fcntl(stage->root_fd, F_DUPFD_CLOEXEC, 3)};
	deferred.stage = (struct box_stage){deferred.root_fd, fcntl(stage->fd, F_DUPFD_CLOEXEC, 3)};
	if (deferred.root_fd < 0 || deferred.stage.fd < 0) {
		int r = -errno;
		box_close_p(&deferred.root_fd);
		box_close_p(&deferred.stage.fd);
		return r;
	}
	(void)snprintf(deferred.marks, sizeof(deferred.marks), "%s", marks);
	*ret_deferred = deferred;
	return 0;
}

/* 0 or -errno. *ret_lost: written data were lost. The kernel reports that only once, so a second call
 * would succeed. */
static int sync_all(int root_fd, bool *ret_lost)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(root_fd, "", O_RDONLY | O_DIRECTORY, 0);
	*ret_lost = false;
	if (fd < 0) {
		return fd;
	}
	*ret_lost = syncfs(fd) < 0;
	return *ret_lost ? -errno : 0;
}

/* Renames the marks, so that they no longer count as this boot's. */
static void mark_failed(
	const struct box_stage *stage, const char *marks, char failed[BOX_DEFERRED_SYNC_NAME_SIZE])
{
	(void)snprintf(failed, BOX_DEFERRED_SYNC_NAME_SIZE, FAILED "%s",
		marks + strlen(PREFIX) + BOOT_LEN + 1);
	if (renameat(stage->fd, marks, stage->fd, failed) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "skills.marks_stay", box_log_errno("why", errno));
		(void)snprintf(failed, BOX_DEFERRED_SYNC_NAME_SIZE, "%s", marks);
	}
}

/* Syncs too: a mark that stays, or comes back after a crash, would be acted on. */
static int remove_marks(struct box_stage *stage, const char *marks)
{
	struct stat st;
	box_stage_remove(stage, marks);
	return fstatat(stage->fd, marks, &st, AT_SYMLINK_NOFOLLOW) == 0
		? -ENOTEMPTY
		: box_subtree_sync(stage->fd);
}

void box_deferred_sync_finish(struct box_deferred_sync *deferred)
{
	char failed[BOX_DEFERRED_SYNC_NAME_SIZE];
	bool is_lost = false;
	if (deferred->root_fd < 0) {
		return;
	}
	const char *event = "skills.not_synced";
	int r = sync_all(deferred->root_fd, &is_lost);
	if (r == 0) {
		event = "skills.marks_stay";
		r = remove_marks(&deferred->stage, deferred->marks);
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, event, box_log_str("why", box_err_strerror(-r)));
	}
	if (is_lost) {
		mark_failed(&deferred->stage, deferred->marks, failed);
	}
	box_stage_close(&deferred->stage);
	box_close_p(&deferred->root_fd);
}

/* -- recovery --------------------------------------------------------------------------------- */

struct recovery {
	struct box_stage *stage;
	int marks_fd;
	bool is_synced; /* the sync was done or attempted */
	bool is_lost;
	bool has_failed;
};

static int remove_package(void *context, const char *name, int d_type)
{
	struct recovery *recovery = context;
	(void)d_type;
	int r = box_stage_discard(recovery->stage, recovery->stage->root_fd, name);
	if (r == 0) {
		BOX_LOG(BOX_LOG_WARNING, "skills.half_removed", box_log_str("package", name));
	} else if (r != -ENOENT) {
		recovery->has_failed = true;
		BOX_LOG(BOX_LOG_ERROR, "skills.half_stays", box_log_str("package", name),
			box_log_str("why", box_err_strerror(-r)));
		return 0;
	}
	/* A later package of that name is another one, so this mark goes even if others must stay. */
	(void)unlinkat(recovery->marks_fd, name, AT_REMOVEDIR);
	return 0;
}

static void remove_incomplete(struct recovery *recovery, const char *marks)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(
		recovery->stage->fd, marks, O_RDONLY | O_DIRECTORY, 0);
	recovery->marks_fd = fd;
	if (fd < 0 || box_subtree_each(fd, remove_package, recovery) < 0 ||
		box_subtree_sync(fd) < 0) {
		recovery->has_failed = true;
	}
}

static int recover_marks(void *context, const char *name, int d_type)
{
	struct recovery *recovery = context;
	char failed[BOX_DEFERRED_SYNC_NAME_SIZE];
	if (d_type != DT_DIR || !is_marks(name)) {
		return 0;
	}
	if (!box_deferred_sync_is_possible()) {
		recovery->has_failed = true; /* whether they are of this boot is unknown */
		return 0;
	}
	if (is_of_this_boot(name)) {
		if (!recovery->is_synced) {
			int r = sync_all(recovery->stage->root_fd, &recovery->is_lost);
			recovery->has_failed |= r < 0 && !recovery->is_lost;
			recovery->is_synced = true;
		}
		if (!recovery->is_lost) {
			return 0;
		}
		mark_failed(recovery->stage, name, failed);
		name = failed;
	}
	remove_incomplete(recovery, name);
	return 0;
}

bool box_deferred_sync_recover(struct box_stage *stage)
{
	struct recovery recovery = {.stage = stage};
	int r = box_subtree_each(stage->fd, recover_marks, &recovery);
	return r == 0 && !recovery.has_failed;
}
