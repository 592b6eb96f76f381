/* What of the trees counts for whom, when there are more than boxd keeps. They are real mounts in a mount
 * namespace of the test's own; where they come from and who fills them is played. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "runtime/keeper/artifacts.h"
#include "runtime/keeper/errands.h"
#include "runtime/keeper/program.h"
#include "runtime/keeper/source.h"
#include "tests/unit/test.h"

/* --- what is played --- */

static struct {
	box_errand_ended *ended; /* of the tree that is being filled */
	void *arg;
	int result; /* of the last one that was asked for */
} play;

int box_errands_start(struct box_errands *errands, const struct box_program *wanted,
	uint64_t limit_ms, box_errand_ended *ended, void *arg, struct box_err *err)
{
	struct box_artifact_report report = {0};
	(void)errands;
	(void)limit_ms;
	(void)err;
	ASSERT_INT(write(wanted->fds[0], &report, sizeof(report)), sizeof(report));
	play.ended = ended;
	play.arg = arg;
	return 0;
}

int box_source_open(const char *path, const char *what, bool make, bool files,
	const struct box_policy *policy, int *ret_fd, struct box_err *err)
{
	(void)path;
	(void)what;
	(void)make;
	(void)files;
	(void)policy;
	(void)err;
	*ret_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(*ret_fd >= 0);
	return 0;
}

int box_owner_ids(const struct box_worker_ids *ids, int fd, struct box_worker_ids *ret_ids)
{
	(void)fd;
	*ret_ids = *ids;
	return 0;
}

static void done(void *arg, uint32_t id, int mount, const struct box_err *err)
{
	(void)arg;
	(void)id;
	ASSERT((mount >= 0) == (err == NULL));
	play.result = err ? -err->errnum : 0;
	box_close_p(&mount);
}

/* --- a cache --- */

static const struct box_worker_ids ids;

static struct box_artifacts *begin(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tmpfs", "/tmp", "tmpfs", 0, NULL) < 0) {
		SKIP("mounting needs root");
	}
	/* Each tree is an open file. */
	struct rlimit files;
	ASSERT(getrlimit(RLIMIT_NOFILE, &files) == 0);
	files.rlim_cur = files.rlim_max;
	if (files.rlim_max < 2UL * BOX_ARTIFACTS_MAX || setrlimit(RLIMIT_NOFILE, &files) < 0) {
		SKIP("too few files may be open here");
	}
	struct box_artifacts *artifacts = box_artifacts_new(
		NULL, "box-skills", &ids, NULL, done, NULL);
	int folder = open("/tmp", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(folder >= 0);
	box_artifacts_place(artifacts, folder);
	return artifacts;
}

/* The box wants the tree of this number. */
static void want(struct box_artifacts *artifacts, uint64_t box, unsigned number)
{
	struct box_keeper_open_artifact wanted = {.id = 1, .box = box};
	(void)snprintf(wanted.digest, sizeof(wanted.digest), "%064x", number);
	play.ended = NULL;
	play.result = 1;
	box_artifacts_open(artifacts, &wanted);
}

/* And what it is answered. */
static int ask(struct box_artifacts *artifacts, uint64_t box, unsigned number)
{
	want(artifacts, box, number);
	if (play.ended) {
		play.ended(play.arg);
	}
	return play.result;
}

/* As many as there may be. */
static void fill(struct box_artifacts *artifacts, uint64_t box, unsigned from)
{
	for (unsigned i = 0; i < BOX_BOX_ARTIFACTS_MAX; i++) {
		ASSERT_INT(ask(artifacts, box, from + i), 0);
	}
	ASSERT_INT(ask(artifacts, box, from + BOX_BOX_ARTIFACTS_MAX), -ENOSPC);
}

TEST(what_a_box_has_counts_until_it_ends)
{
	struct box_artifacts *artifacts = begin();
	unsigned number = 0;
	fill(artifacts, 1, number);
	/* What it has already it gets again. */
	ASSERT_INT(ask(artifacts, 1, number), 0);
	/* Others need the room: of what box 1 has nothing is kept any more. */
	for (uint64_t box = 2; box < 3 + BOX_ARTIFACTS_MAX / BOX_BOX_ARTIFACTS_MAX; box++) {
		number += BOX_BOX_ARTIFACTS_MAX + 1;
		fill(artifacts, box, number);
	}
	number += BOX_BOX_ARTIFACTS_MAX + 1;
	ASSERT_INT(ask(artifacts, 1, number), -ENOSPC);
	/* One that was dropped is another when it comes back. */
	ASSERT_INT(ask(artifacts, 1, 0), -ENOSPC);
	ASSERT_INT(ask(artifacts, 100, number), 0);
	box_artifacts_forget(artifacts, 1);
	ASSERT_INT(ask(artifacts, 1, number), 0);
	box_artifacts_free(artifacts);
}

/* Numbers of boxes do not come again: the second box 1 here stands for what the first has left. */
TEST(a_box_that_ends_while_it_waits_has_nothing)
{
	struct box_artifacts *artifacts = begin();
	for (unsigned i = 0; i < BOX_BOX_ARTIFACTS_MAX; i++) {
		want(artifacts, 1, i);
		box_artifacts_forget(artifacts, 1);
		play.ended(play.arg);
		ASSERT_INT(play.result, -ESRCH);
	}
	ASSERT_INT(ask(artifacts, 1, BOX_BOX_ARTIFACTS_MAX), 0);
	box_artifacts_free(artifacts);
}
