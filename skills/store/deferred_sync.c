/* A folder of marks is later.BOOT.ITEM in staging, or later.failed.ITEM when the disk has refused what
 * it stands for; each folder in it has the name of a package. */
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

/* -- making them ------------------------------------------------------------------------------ */

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

struct forgetting {
	int stage_fd;
	const char *package;
	bool of_any_boot;
};

static int forget_in(void *context, const char *name, int d_type)
{
	const struct forgetting *forgetting = context;
	if (d_type == DT_DIR && is_marks(name) &&
		(forgetting->of_any_boot || !is_of_this_boot(name))) {
		_cleanup_(box_close_p) int fd = box_subtree_open(
			forgetting->stage_fd, name, O_RDONLY | O_DIRECTORY, 0);
		if (fd >= 0 && unlinkat(fd, forgetting->package, AT_REMOVEDIR) == 0) {
			(void)box_subtree_sync(fd);
		}
	}
	return 0;
}

/* Marks stay while others work here. Of this boot they would be believed after the next. */
void box_deferred_sync_forget(struct box_stage *stage, const char *package)
{
	struct forgetting forgetting = {stage->fd, package, true};
	(void)box_subtree_each(stage->fd, forget_in, &forgetting);
}

int box_deferred_sync_mark(struct box_stage *stage, const char *marks, const char *package)
{
	/* One that was found half in an earlier boot, and could not be removed while others worked
	 * here, is another by now. */
	struct forgetting forgetting = {stage->fd, package, false};
	(void)box_subtree_each(stage->fd, forget_in, &forgetting);
	_cleanup_(box_close_p) int fd = box_subtree_open(stage->fd, marks, O_PATH | O_DIRECTORY, 0);
	if (fd < 0) {
		return fd;
	}
	return mkdirat(fd, package, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

/* -- keeping the promise ---------------------------------------------------------------------- */

int box_deferred_sync_hand_over(
	const struct box_stage *stage, const char *marks, struct box_deferred_sync *ret_later)
{
	struct box_deferred_sync later = {.root_fd = fcntl(stage->root_fd, F_DUPFD_CLOEXEC, 3)};
	later.stage = (struct box_stage){later.root_fd, fcntl(stage->fd, F_DUPFD_CLOEXEC, 3)};
	if (later.root_fd < 0 || later.stage.fd < 0) {
		int r = -errno;
		box_close_p(&later.root_fd);
		box_close_p(&later.stage.fd);
		return r;
	}
	(void)snprintf(later.marks, sizeof(later.marks), "%s", marks);
	*ret_later = later;
	return 0;
}

/* 0 or -errno. *ret_lost: something that was written is not there. The kernel says so once, and
 * nothing when it is asked again. */
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

/* From now on they are not of this boot. */
static void disown(
	const struct box_stage *stage, const char *marks, char failed[BOX_DEFERRED_SYNC_NAME_SIZE])
{
	(void)snprintf(failed, BOX_DEFERRED_SYNC_NAME_SIZE, FAILED "%s",
		marks + strlen(PREFIX) + BOOT_LEN + 1);
	if (renameat(stage->fd, marks, stage->fd, failed) < 0) {
		BOX_LOG(BOX_LOG_ERROR, "skills.marks_stay", box_log_errno("why", errno));
		(void)snprintf(failed, BOX_DEFERRED_SYNC_NAME_SIZE, "%s", marks);
	}
}

/* A mark that stays, or comes back after a crash, would be believed. */
static int remove_marks(struct box_stage *stage, const char *marks)
{
	struct stat st;
	box_stage_remove(stage, marks);
	return fstatat(stage->fd, marks, &st, AT_SYMLINK_NOFOLLOW) == 0
		? -ENOTEMPTY
		: box_subtree_sync(stage->fd);
}

void box_deferred_sync_finish(struct box_deferred_sync *later)
{
	char failed[BOX_DEFERRED_SYNC_NAME_SIZE];
	bool is_lost = false;
	if (later->root_fd < 0) {
		return;
	}
	const char *event = "skills.not_synced";
	int r = sync_all(later->root_fd, &is_lost);
	if (r == 0) {
		event = "skills.marks_stay";
		r = remove_marks(&later->stage, later->marks);
	}
	if (r < 0) {
		BOX_LOG(BOX_LOG_ERROR, event, box_log_str("why", box_err_strerror(-r)));
	}
	if (is_lost) {
		disown(&later->stage, later->marks, failed);
	}
	box_stage_close(&later->stage);
	box_close_p(&later->root_fd);
}

/* -- marks that were left --------------------------------------------------------------------- */

struct redemption {
	struct box_stage *stage;
	int marks_fd;
	bool is_synced; /* or it was tried */
	bool is_lost;
	bool has_failed;
};

static int remove_half(void *context, const char *name, int d_type)
{
	struct redemption *redemption = context;
	(void)d_type;
	int r = box_stage_discard(redemption->stage, redemption->stage->root_fd, name);
	if (r == 0) {
		BOX_LOG(BOX_LOG_WARNING, "skills.half_removed", box_log_str("package", name));
	} else if (r != -ENOENT) {
		redemption->has_failed = true;
		BOX_LOG(BOX_LOG_ERROR, "skills.half_stays", box_log_str("package", name),
			box_log_str("why", box_err_strerror(-r)));
		return 0;
	}
	/* The next of that name is another, also when the marks of others must stay. */
	(void)unlinkat(redemption->marks_fd, name, AT_REMOVEDIR);
	return 0;
}

static void remove_halves(struct redemption *redemption, const char *marks)
{
	_cleanup_(box_close_p) int fd = box_subtree_open(
		redemption->stage->fd, marks, O_RDONLY | O_DIRECTORY, 0);
	redemption->marks_fd = fd;
	if (fd < 0 || box_subtree_each(fd, remove_half, redemption) < 0 ||
		box_subtree_sync(fd) < 0) {
		redemption->has_failed = true;
	}
}

static int redeem_marks(void *context, const char *name, int d_type)
{
	struct redemption *redemption = context;
	char failed[BOX_DEFERRED_SYNC_NAME_SIZE];
	if (d_type != DT_DIR || !is_marks(name)) {
		return 0;
	}
	if (!box_deferred_sync_is_possible()) {
		redemption->has_failed = true; /* nobody can tell what they mean */
		return 0;
	}
	if (is_of_this_boot(name)) {
		if (!redemption->is_synced) {
			int r = sync_all(redemption->stage->root_fd, &redemption->is_lost);
			redemption->has_failed |= r < 0 && !redemption->is_lost;
			redemption->is_synced = true;
		}
		if (!redemption->is_lost) {
			return 0;
		}
		disown(redemption->stage, name, failed);
		name = failed;
	}
	remove_halves(redemption, name);
	return 0;
}

bool box_deferred_sync_recover(struct box_stage *stage)
{
	struct redemption redemption = {.stage = stage};
	int r = box_subtree_each(stage->fd, redeem_marks, &redemption);
	return r == 0 && !redemption.has_failed;
}
